#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# storwin_figures.sh <folder of the benchmarks> <folder for the figures> [--quick] [--draw]: runs libstorwin's benchmarks, one after another,
# and draws their output: stream.svg, stream-sync.svg, sync.svg, sync-written.svg and, where control groups may be made,
# pager.svg. Leaves <bench>.json there too; --draw uses existing ones instead of running.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { sed -n 's/^# \(storwin_figures.sh [^:]*\):.*/usage: \1/p' "$0" >&2; exit 2; }
bench=$1 out=$2
shift 2
quick='' run=yes
for arg in "$@"; do
    case $arg in
    --quick) quick=--quick ;;
    --draw) run=no ;;
    *) echo "storwin_figures.sh: unknown: $arg" >&2; exit 2 ;;
    esac
done
command -v gnuplot > /dev/null || { echo "storwin_figures.sh: needs gnuplot (apt install gnuplot-nox)" >&2; exit 2; }
mkdir -p "$out"
for name in stream sync pager; do
    [ "$run" = yes ] || continue
    "$bench/bench_storwin_$name" $quick > "$out/$name.json" || [ $? -eq 77 ]
done
for name in stream sync pager; do
    grep '^{' "$out/$name.json" || : # a skipping benchmark prints the reason
done > "$out/all.json"
bash "$here/../../../examples/swmpi/programs/figures" "$out" "$out/all.json"
for name in stream stream-sync sync sync-written; do
    grep -q '</svg>' "$out/$name.svg" || { echo "storwin_figures.sh: no $name.svg" >&2; exit 1; }
done
