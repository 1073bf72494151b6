#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shmht_figures.sh <folder of the benchmarks> <folder for the figures> [--quick] [--draw]: runs the benchmarks, one after another, and draws
# their output with gnuplot: get.svg, and the paper's Figures 7, 8a, 8b and 9a, each with the paper's own values. Leaves <bench>.json and
# <bench>.tsv there too; --draw takes the .json files that are there instead of running.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { sed -n 's/^# \(shmht_figures.sh\)/usage: \1/p' "$0" >&2; exit 2; }
bench=$1 out=$2
shift 2
quick='' run=yes
for arg in "$@"; do
    case $arg in
    --quick) quick=--quick ;;
    --draw) run=no ;;
    *) echo "shmht_figures.sh: unknown: $arg" >&2; exit 2 ;;
    esac
done
command -v gnuplot > /dev/null || { echo "shmht_figures.sh: needs gnuplot (apt install gnuplot-nox)" >&2; exit 2; }
mkdir -p "$out"
for name in get memory clients load build; do
    if [ "$run" = yes ]; then
        "$bench/bench_shmht_$name" $quick > "$out/$name.json"
    fi
    # A figure a line, as columns: case, n, who, metric, value. The objects are flat and their strings have no quotes in them.
    awk -F'"' '{ split($11, n, /[:,]/); split($21, v, /[:,]/)
        printf "%s\t%s\t%s\t%s\t%s\n", $8, n[2], $14, $18, v[2] }' "$out/$name.json" > "$out/$name.tsv"
done
for script in "$here"/*.gp; do
    name=$(basename "$script" .gp)
    [ "$name" != common ] || continue
    gnuplot -e "here='$here'; data='$out'" "$script" > "$out/$name.svg"
    echo "$out/$name.svg"
done
