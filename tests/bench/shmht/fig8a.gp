# SPDX-License-Identifier: BSD-3-Clause
# SHMEMPMI, Figures 1 and 8a: the cost of a Get while other processes Get too.
load here."/common.gp"
set terminal svg size 1100,480 font "sans,11"
n = largest("clients")
set multiplot layout 1,2
set logscale xy 2
set logscale y 10
set xlabel "processes that Get at the same time"
set ylabel "µs"
set yrange [0.005:1000]
set xrange [1:64]
set title sprintf("measured here, %d entries", n)
plot pick_by_case("clients", "clients", "socket", "wall_ns_per_get", n) using 1:($2 / 1000) with linespoints ls 6 title "sockets, wall", \
    pick_by_case("clients", "clients", "SHMEM-2/XXH3", "cpu_ns_per_get", n) using 1:($2 / 1000) with linespoints ls 3 title "SHMEM-2/XXH3, processor", \
    pick_by_case("clients", "clients", "SHMEM-1/XXH3", "cpu_ns_per_get", n) using 1:($2 / 1000) with linespoints ls 4 title "SHMEM-1/XXH3, processor", \
    pick_by_case("clients", "clients", "ours", "cpu_ns_per_get", n) using 1:($2 / 1000) with linespoints ls 1 title "ours, processor", \
    pick_by_case("clients", "clients", "ours-2m", "cpu_ns_per_get", n) using 1:($2 / 1000) with linespoints ls 2 title "ours-2m, processor"
set title "the paper's Figure 8a: lines through the figures in its text"
plot 20 + (250 - 20) * (x - 1) / 31 with lines ls 6 title "Default (sockets)", \
    0.25 with lines ls 3 title "SHMEM-2", \
    0.23 with lines ls 4 title "SHMEM-1 (less than 10 % better)"
unset multiplot
