# SPDX-License-Identifier: BSD-3-Clause
# SHMEMPMI, Figure 7: memory of a node for the addresses of all ranks.
load here."/common.gp"
set terminal svg size 1100,480 font "sans,11"
set multiplot layout 1,2
set logscale xy
set format x "10^{%L}"
set xlabel "processes of the job"
set ylabel "MB a node"
set yrange [0.05:10000]
set title "measured here"
plot for [ppn in "16 32 64"] pick("memory", "fence-".ppn, "copies", "node_bytes") using 1:($2 / 1e6) with linespoints ls 3 + (ppn + 0) / 32 title "a copy each, ".ppn." processes", \
    pick("memory", "allgather-16", "copies", "node_bytes") using 1:($2 / 1e6) with linespoints ls 8 title "Allgather, a copy each, 16", \
    for [ppn in "16 32 64"] pick("memory", "fence-".ppn, "ours", "node_bytes") using 1:($2 / 1e6) with linespoints ls 1 title "ours, ".ppn." processes", \
    pick("memory", "allgather-16", "ours", "node_bytes") using 1:($2 / 1e6) with linespoints ls 2 title "ours, Allgather, any"
set title "the paper's Figure 7: lines through the figures in its text"
set xrange [16384:1000000]
plot for [ppn in "16 32 64"] 960 * x / 1e6 * ppn / 16 with lines ls 3 + (ppn + 0) / 32 title "Default, ".ppn." processes", \
    800 * x / 1e6 with lines ls 8 title "Default, Allgather, 16", \
    64 * x / 1e6 with lines ls 1 title "SHMEM, Fence, any", \
    40 * x / 1e6 with lines ls 2 title "SHMEM, Allgather, any"
unset multiplot
