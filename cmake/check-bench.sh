#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check-bench.sh [-o <file>] <bench> [<arg>...]: runs a benchmark and checks that every line of its output is one figure in the
# house's form. With -o, it leaves the figures in that file.
set -u
kept=
if [ "$1" = -o ]; then
    kept=$2
    shift 2
fi
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
trap 'exit 1' HUP INT TERM
"$@" > "$out"
status=$?
cat "$out"
[ "$status" -eq 0 ] || exit "$status"
if [ ! -s "$out" ]; then
    echo "check-bench: no figure was printed" >&2
    exit 1
fi
text='"[^"]+"'
number='-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?'
form="^\{\"bench\": ?$text, ?\"case\": ?$text, ?\"n\": ?[0-9]+, ?\"who\": ?$text,"
form="$form ?\"metric\": ?$text, ?\"value\": ?$number, ?\"unit\": ?$text\}\$"
if grep -Evn "$form" "$out"; then
    echo "check-bench: the lines above are not of the form {\"bench\",\"case\",\"n\",\"who\",\"metric\",\"value\",\"unit\"}" >&2
    exit 1
fi
[ -z "$kept" ] || { mkdir -p "$(dirname "$kept")" && cat "$out" > "$kept"; }
