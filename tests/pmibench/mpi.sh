#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# mpi.sh <pmibench> <who>...: the smallest runs of `start` and `mpiget`. Every named contestant has all figures, with values above 0; the
# Gets of a job that pmirun started by PMI-1 come from the table alone; nothing is left in /dev/shm.
set -u
export LC_ALL=C
pmibench=$1
shift
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
wrong() {
    echo "FAILED: $*"
    failed=1
}
value() { # <case> <who> <metric>
    sed -n "s/.*\"case\":\"$1\",.*\"who\":\"$2\",\"metric\":\"$3\",\"value\":\([^,]*\),.*/\1/p" "$dir/figures"
}
positive() {
    awk -v v="$(value "$@")" 'BEGIN { exit !(v > 0) }' || wrong "$1, $2: $3 is '$(value "$@")'"
}
sh "$(dirname "$0")/../../cmake/check-bench.sh" -o "$dir/figures" "$pmibench" --quick --plot "$dir/plot" start mpiget || exit 1
for who; do
    bare=$who get=$who
    case $who in
    *PMI-1) bare="ours, PMI-2" ;;
    *) get=$(sed -n "s/.*\"mpiget\".*\"who\":\"\($who, [a-z0-9]*\)\".*/\1/p" "$dir/figures" | head -n 1) ;;
    esac
    for metric in servers_kb ranks_kb wall_ms cpu_ms; do
        positive "start of Open MPI" "$who" $metric
        positive "start without MPI" "$bare" $metric
    done
    for metric in first_us wall_us cpu_us; do
        positive mpiget "${get:-$who}" $metric.mean
    done
    case $who in
    *PMI-1)
        positive "start of Open MPI" "$who" shared_kb
        positive mpiget "$who" read.mean
        [ "$(value mpiget "$who" asked.mean)" = 0 ] || wrong "$who: Gets asked the server"
        ;;
    esac
done
if command -v gnuplot > /dev/null; then
    for picture in start_mpi start_cpu start_memory start_bare mpiget mpiget_first; do
        grep -q "</svg>" "$dir/plot/$picture.svg" || wrong "no picture $picture.svg"
    done
fi
[ -z "$(ls -d /dev/shm/pmibench.* 2> /dev/null)" ] || wrong "left: $(ls -d /dev/shm/pmibench.*)"
exit $failed
