#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# spawned.sh RUNS LAUNCHER SPAWNED1 SPAWNED2: jobs that spawn and connect by TCP, RUNS times under each pmirun mode
# (default, --no-shm, --pmi-port, two nodes), or under another launcher, while two processes keep the processors busy.
set -u
runs=$1 launcher=$2
shift 2
dir=$(mktemp -d) || exit 1
busy=()
trap 'for pid in "${busy[@]}"; do kill "$pid"; done 2> /dev/null; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
for _ in 1 2; do
    timeout 900 sh -c 'while :; do :; done' &
    busy+=($!)
done
ways=("" --no-shm --pmi-port) told=
case $(basename "$launcher") in
*hydra*) ways=("") told=told ;;
*) "$launcher" -N 1 --launch fork -n 1 true 2> "$dir/log" && ways+=("-N 2 --launch fork") || echo "left out: $(cat "$dir/log")" ;;
esac
for way in "${ways[@]}"; do
    for program in "$@"; do
        for ((i = 1; i <= runs; i++)); do
            # shellcheck disable=SC2086 # options
            timeout -k 5 90 "$launcher" $way -n 2 "$program" 2 $told > "$dir/log" 2>&1
            status=$?
            [ $status = 0 ] && grep -qx ok "$dir/log" && continue
            echo "FAILED: run $i of $runs, $launcher $way -n 2 $(basename "$program"): status $status"
            head -20 "$dir/log"
            exit 1
        done
    done
done
echo "$runs runs of ${#ways[@]} ways and $# programs"
