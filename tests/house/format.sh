# SPDX-License-Identifier: BSD-3-Clause
# format.sh <root> <clang-format>: every .c and .h file is as clang-format 14 writes it, and no line has more than 100 characters.
set -eu
cd "$1"
clang_format=$2
version=$("$clang_format" --version)
case $version in
*' version 14.'*) ;;
*)
    echo "skip: needs clang-format 14, that of Debian 12; this is $version"
    exit 77
    ;;
esac

# The sources lie in these folders, with git or without.
files() { find lib* examples tests -name build -prune -o -name '*.[ch]' -type f -print0; }
n=$(files | tr -cd '\0' | wc -c)
[ "$n" -gt 0 ] || { echo "FAILED: no source in $PWD"; exit 1; }

bad=0
if files | LC_ALL=C.UTF-8 xargs -0 grep -nE '^.{101}'; then
    echo "FAILED: the lines above have more than 100 characters"
    bad=1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! files | xargs -0 -n 32 -P 2 "$clang_format" --dry-run -Werror --ferror-limit=1 2> "$log"; then
    grep error: "$log"
    echo "FAILED: clang-format -i changes the files above"
    bad=1
fi
[ "$bad" -eq 0 ] || exit 1
echo "$n files"
