# SPDX-License-Identifier: BSD-3-Clause
# SHMEMPMI, Figure 9a: the share of storing the pairs in a Fence. The paper has the whole Fence, network included; here only the
# storing.
load here."/common.gp"
set terminal svg size 1100,480 font "sans,11"
set multiplot layout 1,2
set logscale xy
set format x "10^{%L}"
set xlabel "pairs"
set ylabel "ms"
set title "measured here: 64 received blocks into one table"
plot pick("build", "fence-64", "SHMEM-1/XXH3", "ns_per_entry") using 1:($1 * $2 / 1e6) with linespoints ls 4 title "SHMEM-1/XXH3", \
    pick("build", "fence-64", "SHMEM-2/XXH3", "ns_per_entry") using 1:($1 * $2 / 1e6) with linespoints ls 3 title "SHMEM-2/XXH3", \
    pick("build", "fence-64", "ours-puts", "ns_per_entry") using 1:($1 * $2 / 1e6) with linespoints ls 2 title "ours, pair by pair", \
    pick("build", "fence-64", "ours", "ns_per_entry") using 1:($1 * $2 / 1e6) with linespoints ls 1 title "ours, merged"
set title "the paper: SHMEM-2 as Default, SHMEM-1 a little dearer"
set ylabel "of SHMEM-2"
unset logscale y
set yrange [0:*]
ratio(a) = sprintf("< awk -F'\\t' -v OFS='\\t' '$1 == \"fence-64\" && $4 == \"ns_per_entry\" { v[$3, $2] = $5; n[$2] } END { for (k in n) if (v[\"%s\", k] > 0 && v[\"SHMEM-2/XXH3\", k] > 0) print k, v[\"%s\", k] / v[\"SHMEM-2/XXH3\", k] }' '%s/build.tsv' | sort -n", a, a, data)
plot 1 with lines ls 3 title "SHMEM-2", \
    ratio("SHMEM-1/XXH3") with linespoints ls 4 title "SHMEM-1/XXH3", \
    ratio("ours-puts") with linespoints ls 2 title "ours, pair by pair", \
    ratio("ours") with linespoints ls 1 title "ours, merged"
unset multiplot
