# SPDX-License-Identifier: BSD-3-Clause
# A library and its unit tests by three commands, without the rest of the tree: no other library is built, but a back-end's core; and one
# case of a cmocka program runs alone.
. "$(dirname "$0")/common.sh"
build=$scratch/build

"$CMAKE" -S "$FOLDER" -B "$build" -DFENCEPOST_TESTS=ON -DCMAKE_C_COMPILER="$CC" > "$scratch/log" || { cat "$scratch/log"; fail "configure"; }
"$CMAKE" --build "$build" --parallel 2 > "$scratch/log" || { tail -n 40 "$scratch/log"; fail "build"; }
ctest --test-dir "$build" --output-on-failure --no-tests=error
other=$(find "$build" -name 'lib*.a' ! -name "lib$NAME.a" ! -name "lib$CORE.a")
[ -z "$other" ] || fail "built too: $other"

[ -z "$CORE" ] || exit 0
while IFS= read -r program; do
    all=$("$program" 2>&1 | sed -n 's/^\[ RUN *\] //p')
    [ "$(wc -l <<< "$all")" -eq 1 ] || break
done < <(grep -rlE --include="${NAME}_test_*" cmocka_set_test_filter "$build/tests/$NAME")
[ "$(wc -l <<< "${all-}")" -gt 1 ] || fail "no cmocka program in tests/$NAME has several cases"
last=$(tail -n 1 <<< "$all")
alone=$("$program" --filter="$last" 2>&1 | sed -n 's/^\[ RUN *\] //p')
[ "$alone" = "$last" ] || fail "$program --filter=$last runs: $alone"
