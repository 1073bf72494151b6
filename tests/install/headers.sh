# SPDX-License-Identifier: BSD-3-Clause
# Each public header compiles alone, and twice, in C11 and in C++17, without a warning.
. "$(dirname "$0")/common.sh"
n=0
while read -r header; do
    printf '#include <%s>\n#include <%s>\n' "$header" "$header" > "$scratch/alone.c"
    cp "$scratch/alone.c" "$scratch/alone.cc"
    "$CC" -std=c11 "${strict[@]}" -Wshadow -Wcast-qual -Wstrict-prototypes "${includes[@]}" -fsyntax-only "$scratch/alone.c" ||
        fail "$header in C11"
    "$CXX" -std=c++17 "${strict[@]}" "${includes[@]}" -fsyntax-only "$scratch/alone.cc" || fail "$header in C++17"
    n=$((n + 1))
done < <(cd "$FOLDER/include" && find . -name '*.h' -printf '%P\n' | sort)
[ "$n" -gt 0 ] || fail "no header in $FOLDER/include"
echo "$n headers"
