# SPDX-License-Identifier: BSD-3-Clause
# optimized.sh <tree> <build> <compiler flag>...: builds the libraries with these flags and warnings as errors, and runs their unit tests.
# From the environment: CMAKE CMAKE_GENERATOR CC. Links are made with -Werror too: with -flto most warnings come then.
set -eu
root=$1 build=$2
shift 2
echo 'int main(void) { return 0; }' > "$build.c"
if ! "$CC" "$@" "$build.c" -o "$build.out" 2> "$build.log"; then
    echo "skip: $CC does not link with $*: $(tail -n 1 "$build.log")"
    rm -f "$build".c "$build".log
    exit 77
fi
rm -f "$build".c "$build".out "$build".log
ar=$(command -v gcc-ar || command -v ar) ranlib=$(command -v gcc-ranlib || command -v ranlib) # archives of what -flto leaves
case $CC in *clang*) ar=$(command -v llvm-ar llvm-ar-14 ar | head -n 1) ranlib=$(command -v llvm-ranlib llvm-ranlib-14 ranlib | head -n 1) ;; esac
"$CMAKE" -S "$root" -B "$build" -DCMAKE_C_COMPILER="$CC" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="$* -Werror" -DCMAKE_AR="$ar" \
    -DCMAKE_RANLIB="$ranlib" -DFENCEPOST_WERROR=ON
# The unit tests that are programs: each is a target of its name. Other builds test the programs of examples/.
ctest --test-dir "$build" -N -L '^unit$' -LE '^full$' | sed -n 's/^ *Test *#[0-9]*: //p' | grep -E '^(shmht|pmiwire|rankmap|storwin|asymreg)_' |
    sort > "$build/tests.txt"
"$CMAKE" --build "$build" --target help | sed -n -e 's/^\([A-Za-z0-9_-]*\): phony$/\1/p' -e 's/^\.\.\. //p' | sort > "$build/targets.txt"
# --wrap cannot inject faults into functions that the compiler has inlined.
case " $* " in *" -flto"*) sed -i '/^\(storwin_test_errors_internal\|pmiwire_mapping_arrays\)$/d' "$build/tests.txt" ;; esac
comm -12 "$build/tests.txt" "$build/targets.txt" > "$build/chosen.txt"
[ "$(wc -l < "$build/chosen.txt")" -ge 20 ] || { echo "FAILED: $(wc -l < "$build/chosen.txt") unit tests were found" >&2; exit 1; }
"$CMAKE" --build "$build" --parallel 2 --target $(cat "$build/chosen.txt")
ctest --test-dir "$build" --output-on-failure --no-tests=error -R "^($(paste -s -d '|' "$build/chosen.txt"))\$"
