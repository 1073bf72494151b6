# SPDX-License-Identifier: BSD-3-Clause
# Shared by the figures. `data` is the folder with the .tsv files: case, n, who, metric, value.
set datafile separator "\t"
set encoding utf8
set title font ",11"
set key left top samplen 2 spacing 1.1 font ",10"
set grid ytics lc rgb "#dddddd"
set border 3
set tics nomirror
set style line 1 lc rgb "#0b6623" lw 2.5 pt 7 ps 0.6
set style line 2 lc rgb "#5aa469" lw 2 pt 6 ps 0.6 dt 2
set style line 3 lc rgb "#b03a2e" lw 2 pt 5 ps 0.6
set style line 4 lc rgb "#d98880" lw 2 pt 4 ps 0.6 dt 2
set style line 5 lc rgb "#2e4a8b" lw 2 pt 9 ps 0.6
set style line 6 lc rgb "#777777" lw 1.5 pt 1 ps 0.5
set style line 7 lc rgb "#aaaaaa" lw 1.5 pt 2 ps 0.5
set style line 8 lc rgb "#c08a1e" lw 1.5 pt 3 ps 0.5
set style line 9 lc rgb "#7d3c98" lw 1.5 pt 8 ps 0.5
set style line 10 lc rgb "#16a085" lw 1.5 pt 10 ps 0.5
set style line 11 lc rgb "#e67e22" lw 1.5 pt 12 ps 0.5
set style line 12 lc rgb "#34495e" lw 1.5 pt 14 ps 0.5 dt 4
# n and value where case (an expression that must match whole), who and metric are these; sorted by n.
pick(bench, which, who, metric) = sprintf("< awk -F'\\t' -v OFS='\\t' '$1 ~ /^(%s)$/ && $3 == \"%s\" && $4 == \"%s\" { print $2, $5 }' '%s/%s.tsv' | sort -n", \
    which, who, metric, data, bench)
# The number at the end of the case's name, and value, for one n.
pick_by_case(bench, which, who, metric, n) = sprintf("< awk -F'\\t' -v OFS='\\t' '$1 ~ /^%s-[0-9.]+$/ && $2 == %d && $3 == \"%s\" && $4 == \"%s\" { sub(/.*-/, \"\", $1); print $1, $5 }' '%s/%s.tsv' | sort -n", \
    which, n, who, metric, data, bench)
# The largest n of a file, and whether a contestant is in it.
largest(bench) = int(system(sprintf("awk -F'\\t' '$2 > n { n = $2 } END { print n + 0 }' '%s/%s.tsv'", data, bench)))
has(bench, who) = int(system(sprintf("awk -F'\\t' '$3 == \"%s\" { n = 1 } END { print n + 0 }' '%s/%s.tsv'", who, data, bench)))
