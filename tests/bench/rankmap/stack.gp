# SPDX-License-Identifier: BSD-3-Clause
# Drawn by plot-stack, in the folder of its data. Columns: model, VC-VCRT, AV-Rankmap, ours.
set terminal svg size 960,520 dynamic background rgb 'white'
set grid ytics
set key outside right
set style data histograms
set style histogram clustered
set style fill solid 0.6
set yrange [0:*]

set output "table4.svg"
set title "Misses of the L1 data cache, 1,000 puts (the paper's Table IV)"
set ylabel "misses"
plot "table4.dat" using 2:xtic(1) title "VC-VCRT", "table4.dat" using 3 title "AV-Rankmap", "table4.dat" using 4 title "ours"

set output "table5.svg"
set title "Puts through a small stack (the paper's Table V; points: its 8 processes a node on Blues)"
set ylabel "million a second"
$paper << EOD
0 64.76 98.79
1 64.76 92.13
2 64.76 89.64
3 64.76 96.03
4 64.76 84.51
EOD
plot "table5.dat" using 2:xtic(1) title "VC-VCRT", "table5.dat" using 3 title "AV-Rankmap", "table5.dat" using 4 title "ours", \
     "table5-two.dat" using 4 title "ours, two processes", \
     $paper using 1:2 with points pt 2 ps 2 lc 1 title "paper, VC-VCRT", \
     $paper using 1:3 with points pt 2 ps 2 lc 3 title "paper, AV-Rankmap"
