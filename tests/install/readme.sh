# SPDX-License-Identifier: BSD-3-Clause
# The first program of the library's README: it compiles without a warning against the installed library, and runs.
. "$(dirname "$0")/common.sh"

sed -n '/^```c$/,/^```$/p' "$FOLDER/README.md" | sed '1d;/^```$/,$d' > "$scratch/example.c"
grep -q 'int main' "$scratch/example.c" || fail "the README's first C block is no program"
install_library "" --prefix "$scratch/prefix"
pc=$(find "$scratch/prefix" -name "$NAME.pc")
export PKG_CONFIG_PATH=${pc%/*}
"$CC" "${strict[@]}" -O2 "$scratch/example.c" $("$PKG_CONFIG" --cflags "$NAME") -o "$scratch/example" \
    -static $("$PKG_CONFIG" --static --libs "$NAME")
"$scratch/example" true
if [ "$NAME" = pmiwire ] && command -v mpicc.mpich > "$scratch/which"; then
    mpicc.mpich "$here/../../examples/mpi/hello.c" -o "$scratch/hello"
    timeout 30 "$scratch/example" "$scratch/hello" | tee "$scratch/out"
    grep -q "rank 0 of 1" "$scratch/out" || fail "the MPI program under the example said something else"
fi
