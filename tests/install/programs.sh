# SPDX-License-Identifier: BSD-3-Clause
# Every program that is installed has a manual page, whose options are those that the program itself names; mandoc, groff and whatis
# accept each page, and the pages that it refers to are installed too.
. "$(dirname "$0")/common.sh"
export LC_ALL=C.UTF-8
for component in fencepost-pmirun fencepost-tools; do
    DESTDIR=$scratch/stage "$CMAKE" --install "$BUILD" --component $component > "$scratch/log" || { cat "$scratch/log"; fail "cmake --install"; }
done
bin=$(find "$scratch/stage" -type d -name bin)
man=$(find "$scratch/stage" -type d -name man1)
man=${man%/man1}
[ -d "$bin" ] && [ -d "$man" ] || fail "no programs, or no pages"

n=0
for program in "$bin"/*; do
    name=${program##*/}
    page=$man/man1/$name.1
    [ -s "$page" ] || fail "no manual page of $name"
    for section in NAME SYNOPSIS DESCRIPTION "EXIT STATUS" "SEE ALSO"; do
        grep -qxF ".SH $section" "$page" || fail "$name.1 has no section $section"
    done
    sed 's/\\-/-/g' "$page" > "$scratch/page"
    timeout 20 "$program" --help > "$scratch/help" 2>&1 < /dev/null || true # not every program has this option
    for option in $(grep -oE -- '(^ *|\[|-[A-Za-z], *)--[a-z][a-z0-9.-]+' "$scratch/help" | sed 's/.*--/--/' | sort -u); do
        grep -qF -- "$option" "$scratch/page" || fail "$name.1 does not know $option"
    done
    n=$((n + 1))
done
pages=("$man"/man[1-9]/*)
for page in "${pages[@]}"; do
    while read -r name section; do
        [ "$section" = 7 ] && [ -d "$FOLDER/../lib$name" ] && continue # that library's component installs it
        [ -s "$man/man$section/$name.$section" ] || fail "${page##*/} refers to $name($section), which is not there"
    done < <(sed -n 's/^\.BR \([^ ]*\) (\([1-9]\)).*/\1 \2/p' "$page" | sed 's/\\-/-/g')
done
[ "$n" -gt 3 ] || fail "$n programs"
# Scripts that the documents name print their usage, and do not take an option for a folder or a command.
for script in examples/swmpi/programs/figures cmake/debian/build tests/interop/mpich-with-ports tests/interop/matrix tests/bench/exchange/four-hosts tests/bench/exchange/fit-hosts; do
    for arguments in "" --help; do
        timeout 20 "$FOLDER/../$script" $arguments > "$scratch/help" 2>&1 < /dev/null && fail "$script $arguments: status 0"
        [ "$(grep -c '^usage: ' "$scratch/help")" = 1 ] || { cat "$scratch/help"; fail "$script $arguments says something else than its usage"; }
    done
done
# cmake/debian/build names what it needs and does not find, and a command that installs that.
mkdir "$scratch/stub"
printf '%s\n' '#!/bin/sh' 'echo "dpkg-checkbuilddeps: error: Unmet build dependencies: build-essential:native debhelper-compat (= 13) doxygen" >&2; exit 1' \
    > "$scratch/stub/dpkg-checkbuilddeps"
chmod +x "$scratch/stub/dpkg-checkbuilddeps"
PATH=$scratch/stub:$PATH "$FOLDER/../cmake/debian/build" "$scratch/packages" 2> "$scratch/help" && fail "cmake/debian/build succeeds without its packages"
grep -qF ': not installed: build-essential:native debhelper-compat (= 13) doxygen; to install them: apt install build-essential debhelper-compat doxygen' "$scratch/help" ||
    { cat "$scratch/help"; fail "cmake/debian/build does not name what it needs"; }
[ ! -e "$scratch/packages" ] || fail "cmake/debian/build makes a folder though it cannot build"
lint_pages "${pages[@]}"
echo "$n programs, ${#pages[@]} pages"
