# SPDX-License-Identifier: BSD-3-Clause
# optimized.sh <tree> <build> <compiler flag>...: builds the libraries with these flags and warnings as errors, and runs their unit tests.
# From the environment: CMAKE CMAKE_GENERATOR CC.
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
"$CMAKE" -S "$root" -B "$build" -DCMAKE_C_COMPILER="$CC" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="$*" -DCMAKE_AR="$ar" \
    -DCMAKE_RANLIB="$ranlib" -DFENCEPOST_WERROR=ON
# The unit tests that are programs of ours below tests/<library>/: each is the target of its name.
folders='shmht|pmiwire|rankmap|storwin|asymreg|asymreg-net'
ctest --test-dir "$build" -L '^unit$' --show-only=json-v1 > "$build/tests.json"
perl -0777 -ne 'while (/"command"\s*:\s*\[\s*"([^"]+)".*?"name"\s*:\s*"([^"]+)"/gs) { print "$1 $2\n" }' "$build/tests.json" |
    grep -E "^$build/tests/($folders)/[^/]+ " > "$build/tests.txt"
[ -s "$build/tests.txt" ] || { echo "FAILED: no unit tests were found" >&2; exit 1; }
"$CMAKE" --build "$build" --parallel 2 --target $(sed 's/ .*//; s/.*\///' "$build/tests.txt" | sort -u)
ctest --test-dir "$build" --output-on-failure --no-tests=error -R "^($(sed 's/.* //' "$build/tests.txt" | paste -s -d '|'))\$" -LE '^full$'
