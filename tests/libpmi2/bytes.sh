#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bytes.sh <pmirun> <folder of our libraries> <anybytes of libpmi> <of libpmi2> <nulputter> [<of Slurm's libpmi2>]
# Keys and values of any bytes under our own server, in jobs of one kind of client and of several.
set -u
export LC_ALL=C
pmirun=$1 libs=$2 one=$3 two=$4 nul=$5 slurm=${6-}
failed=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT

# job <mode> <argument of pmirun>...
job() {
    local mode=$1
    shift
    if timeout 50 "$pmirun" --timeout 40 "$@" > "$out" 2>&1 && grep -q "^ok $mode$" "$out"; then
        echo "ok: $mode: $*"
    else
        echo "FAILED: $mode: $*"
        cat "$out"
        failed=1
    fi
}

for shm in "" --no-shm; do
    ours=($shm -x LD_LIBRARY_PATH="$libs")
    for program in "$one" "$two"; do
        job values "${ours[@]}" -n 3 "$program" values
        job keys "${ours[@]}" -n 3 "$program" keys
        job cards "${ours[@]}" -n 3 "$program" cards
    done
    job keys "${ours[@]}" -n 2 "$one" keys : -n 2 "$two" keys
    for wire in 1 2; do
        job nul "${ours[@]}" -n 1 "$nul" $wire : -n 2 "$one" nul : -n 2 "$two" nul
        job gather "${ours[@]}" -n 4 "$nul" $wire gather
    done
    if "$pmirun" -N 1 --launch fork -n 1 true 2> "$out"; then # built for several nodes
        job values -N 2 --launch fork "${ours[@]}" -n 2 "$one" values : -n 2 "$two" values
        job gather -N 2 --launch fork "${ours[@]}" -n 4 "$nul" 2 gather
        job nul -N 2 --launch fork "${ours[@]}" -n 1 "$nul" 1 : -n 2 "$one" nul : -n 2 "$two" nul
    else
        echo "left out: several nodes: $(cat "$out")"
    fi
    [ "$slurm" ] || continue
    # Slurm's library is found where it was linked.
    job values $shm -n 3 "$slurm" values
    job cards $shm -n 3 "$slurm" cards
    job values $shm -n 2 "$one" values : -n 2 "$two" values : -n 2 "$slurm" values
    job nul $shm -n 1 "$nul" 2 : -n 2 "$slurm" nul : -n 2 "$one" nul
done
exit $failed
