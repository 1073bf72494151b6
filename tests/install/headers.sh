# SPDX-License-Identifier: BSD-3-Clause
# Each public header compiles alone, and twice, in C11 and in C++17, without any warning that a user may enable.
. "$(dirname "$0")/common.sh"
strict+=(-Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wcast-align)
n=0
while read -r header; do
    printf '#include <%s>\n#include <%s>\n' "$header" "$header" > "$scratch/alone.c"
    cp "$scratch/alone.c" "$scratch/alone.cc"
    "$CC" -std=c11 "${strict[@]}" -Wstrict-prototypes -Wc++-compat "${includes[@]}" -fsyntax-only "$scratch/alone.c" ||
        fail "$header in C11"
    for cxx in "$CXX" $(command -v clang++); do # both compilers where installed: each has warnings that the other lacks
        "$cxx" -std=c++17 "${strict[@]}" -Wold-style-cast "${includes[@]}" -fsyntax-only "$scratch/alone.cc" || fail "$header in C++17 ($cxx)"
    done
    n=$((n + 1))
done < <(cd "$FOLDER/include" && find . -name '*.h' -printf '%P\n' | sort)
[ "$n" -gt 0 ] || fail "no header in $FOLDER/include"
echo "$n headers"
