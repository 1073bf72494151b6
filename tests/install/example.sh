# SPDX-License-Identifier: BSD-3-Clause
# The library's program, examples/<library>.c: it has at most 60 lines, the README's first block of C is the same text, and it compiles
# without a warning against the installed library, and runs. A back-end's may be in its README alone.
. "$(dirname "$0")/common.sh"

without_spdx() { sed '1{/SPDX-License-Identifier/d}' "$@"; } # the README may leave it out
sed -n '/^```c$/,/^```$/p' "$FOLDER/README.md" | sed '1d;/^```$/,$d' | without_spdx > "$scratch/README.c"
grep -q 'int main' "$scratch/README.c" || fail "the README's first C block is no program"
example=$ROOT/examples/$NAME.c
if [ -e "$example" ]; then
    without_spdx "$example" > "$scratch/example.c"
    diff "$scratch/README.c" "$scratch/example.c" || fail "the README's program is not examples/$NAME.c"
    [ "$(wc -l < "$example")" -le 60 ] || fail "examples/$NAME.c has more than 60 lines"
elif [ -z "$CORE" ]; then
    fail "there is no examples/$NAME.c"
else
    cp "$scratch/README.c" "$scratch/example.c"
fi

install_library "" --prefix "$scratch/prefix"
pc=$(find "$scratch/prefix" -name "$NAME.pc")
export PKG_CONFIG_PATH=${pc%/*}
"$CC" "${strict[@]}" -O2 "$scratch/example.c" $("$PKG_CONFIG" --cflags "$NAME") -o "$scratch/example" \
    -static $("$PKG_CONFIG" --static --libs "$NAME")
"$scratch/example" true
# An example that serves PMI also runs a program that asks.
if grep -q PMI_FD "$scratch/example.c" && command -v mpicc.mpich > "$scratch/which"; then
    mpicc.mpich "$ROOT/examples/mpi/hello.c" -o "$scratch/hello"
    timeout 30 "$scratch/example" "$scratch/hello" | tee "$scratch/out"
    grep -q "rank 0 of 1" "$scratch/out" || fail "the MPI program under the example said something else"
fi
