# SPDX-License-Identifier: BSD-3-Clause
# SHMEMPMI, Figure 8b: the cost of a Get by load factor.
load here."/common.gp"
set terminal svg size 1100,480 font "sans,11"
n = largest("load")
set multiplot layout 1,2
set logscale x
set format x "10^{%L}"
set xlabel "keys"
set ylabel "processor time of a Get, ns"
set yrange [0:*]
set title "measured here"
plot for [load in "1.00 0.50 0.25"] pick("load", "hit-".load, "SHMEM-2/XXH3", "ns_per_get") with linespoints ls (load eq "1.00" ? 3 : load eq "0.50" ? 4 : 8) title "SHMEM-2/XXH3, load ".load, \
    for [load in "0.90 0.70 0.50 0.25"] pick("load", "hit-".load, "ours", "ns_per_get") with linespoints ls (load eq "0.90" ? 5 : load eq "0.70" ? 1 : load eq "0.50" ? 2 : 10) title "ours, load ".load
unset logscale x
set format x "%g"
set xlabel "load factor"
set ylabel "Get, of that at load factor 1"
set xrange [0.2:1.05]
set yrange [0:1.6]
base = real(system(sprintf("awk -F'\\t' '$1 == \"hit-1.00\" && $2 == %d && $3 == \"SHMEM-2/XXH3\" { print $5 }' '%s/load.tsv'", n, data)))
base = base > 0 ? base : 1
$paper << EOD
0.25	0.80
0.5	0.91
1	1
EOD
set title sprintf("beside the paper's 20 %% and 9 %%, %d keys", n)
plot $paper with linespoints ls 6 title "the paper's SHMEM-2", \
    pick_by_case("load", "hit", "SHMEM-2/XXH3", "ns_per_get", n) using 1:($2 / base) with linespoints ls 3 title "SHMEM-2/XXH3 here", \
    pick_by_case("load", "hit", "ours", "ns_per_get", n) using 1:($2 / base) with linespoints ls 1 title "ours", \
    pick_by_case("load", "many32", "ours", "ns_per_get", n) using 1:($2 / base) with linespoints ls 1 dt 3 title "ours, 32 at a time"
unset multiplot
