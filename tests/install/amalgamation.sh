# SPDX-License-Identifier: BSD-3-Clause
# The two files of the target `amalgamation`, alone in a folder: they compile without a warning, export what the library exports
# and otherwise only names that begin with <library>__, and run the library's example and its unit tests of public calls.
#
# amalgamation.sh [<test>.c...]: tests that need cmocka. The environment's DEFINES has the defines of the library's tests.
. "$(dirname "$0")/common.sh"

two=$scratch/two
mkdir -p "$two/$NAME"
cp "$BUILD/amalgamation/$NAME.c" "$BUILD/amalgamation/$NAME.h" "$two"

echo "cc -std=c11 -c $NAME.c"
(
    cd "$two"
    "$CC" -std=c11 -Wall -Wextra -Werror -c "$NAME.c"
    "$CC" -std=c11 -O2 -Wall -Wextra -Werror -c "$NAME.c"
)
LC_ALL=C nm --defined-only -g -j "$two/$NAME.o" | sort > "$scratch/globals"
LC_ALL=C nm --defined-only -D -j "$SHARED" | sed 's/@.*//' | grep "^${NAME}_" | sort > "$scratch/exported"
[ -s "$scratch/exported" ] || fail "$SHARED exports nothing"
missing=$(comm -13 "$scratch/globals" "$scratch/exported")
[ -z "$missing" ] || fail "not in $NAME.c: $missing"
others=$(comm -23 "$scratch/globals" "$scratch/exported" | grep -v "^${NAME}__" || true)
[ -z "$others" ] || fail "global, but neither exported nor prefixed: $others"

# The example and tests may include a single public header: here that is the amalgamated one.
for header in "$FOLDER/include/$NAME"/*.h; do
    [ ! -e "$header" ] || echo "#include <$NAME.h>" > "$two/$NAME/${header##*/}"
done
echo "examples/$NAME.c"
"$CC" "${strict[@]}" -O2 -I"$two" "$ROOT/examples/$NAME.c" "$two/$NAME.o" -pthread -o "$scratch/example"
timeout 60 "$scratch/example" true > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "examples/$NAME.c"; }

for test in "$@"; do
    echo "tests/$NAME/$test"
    "$CC" -std=gnu11 -O1 -I"$two" $DEFINES "$ROOT/tests/$NAME/$test" "$two/$NAME.o" -lcmocka -pthread -o "$scratch/test"
    (cd "$scratch" && timeout 120 ./test > log 2>&1) || { cat "$scratch/log"; fail "tests/$NAME/$test"; }
done
