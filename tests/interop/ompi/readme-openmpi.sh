#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# readme-openmpi.sh <README.md> <folder of pmirun>: runs the commands of README's section "Open MPI and OpenSHMEM" as they stand there, in a folder from which
# examples/ is seen as from the project's; each job must be one of 4 ranks.
set -u
export LC_ALL=C PATH=$2:$PATH
root=$(cd "$(dirname "$1")" && pwd) || exit 1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
mapfile -t lines < <(sed -n '/^## Open MPI and OpenSHMEM/,/^## /p' "$1" | sed -n '/^```/,/^```/p' | grep -v '^```')
ln -s "$root/examples" "$folder/examples" && cd "$folder" || exit 1
n_jobs=0 failed=0
for line in "${lines[@]}"; do
    echo "\$ $line"
    out=$(timeout 60 bash -c "$line" 2>&1 < /dev/null)
    status=$?
    echo "$out"
    [ $status = 0 ] || { echo "FAILED: status $status" && failed=1; }
    case $line in
    pmirun*)
        n_jobs=$((n_jobs + 1))
        [ "$(grep -o 'rank [0-3] of 4' <<< "$out" | sort -u | grep -c .)" = 4 ] || { echo "FAILED: not a job of 4 ranks" && failed=1; }
        ;;
    esac
done
[ $n_jobs -ge 3 ] || { echo "FAILED: README's section has $n_jobs commands of pmirun" && failed=1; }
exit $failed
