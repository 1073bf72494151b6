#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# communicators.sh [-L DIR] PROGRAM LAUNCHER...: examples/mpi/communicators.c under each launcher, with 1 to 16 processes. All must print
# the same, and that all maps equal MPI's ranks. -L: a folder with an MPI library that can spawn; then it must.
set -u
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
spawns=
if [ "${1-}" = -L ]; then
    export LD_LIBRARY_PATH=$2${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    spawns=1
    shift 2
fi
program=$1
shift
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 143' HUP INT TERM

# The model that a communicator must have, at a number of processes: NAME|MODEL.
expect() { # FILE
    while IFS='|' read -r name model; do
        grep -qE "^$name  .* bytes .*\)  $model" "$1" || fail "$1: \"$name\" is no $model: $(grep "^$name  " "$1")"
    done
}

for n in 1 4 8 16; do
    first=
    for launcher; do
        out=$work/$(basename "$launcher").$n
        timeout -k 5 120 "$launcher" -n "$n" "$program" >"$out" 2>"$work/err" || {
            status=$?
            cat "$out" "$work/err" >&2
            fail "$launcher -n $n: status $status"
        }
        tail -n 1 "$out" | grep -qE "^all $n processes: [0-9]+ maps with [0-9]+ ranks are what MPI has, [0-9]+ of them also by composition$" ||
            fail "$launcher -n $n: the last line is \"$(tail -n 1 "$out")\""
        if [ -n "$spawns" ]; then
            grep -q "^merged with spawned processes  .* $((n + 2)) ranks" "$out" || fail "$launcher -n $n: nothing was spawned"
        elif ! grep -q "^merged with spawned processes" "$out"; then
            grep -qx "spawn: not supported by this MPI" "$out" || fail "$launcher -n $n: neither spawned nor said that it cannot"
        fi
        if [ -z "$first" ]; then
            first=$out
        else
            diff "$first" "$out" || fail "$launcher says something else than ${first##*/}"
        fi
    done
    echo "n=$n: $(tail -n 1 "$first")"
done
# A grid of 4 rows and 4 columns, and of 4, 2 and 2.
expect "$first" <<'END'
world|direct
dup|direct
row of the dup|direct
row, reversed|stride
column|stride
world, reversed|stride
world, transposed|blockstride
two of each four|blockstride
even, generation 1|stride
even, generation 3|stride
Cartesian grid|direct
line of the grid, axes x|stride
line of the grid, axes z|direct
plane of the grid, axes x z|blockstride
every second, from the end|stride
half|direct
remote group of the intercomm|offset
halves, merged|direct
END
cat "$first"
