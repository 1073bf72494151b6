# SPDX-License-Identifier: BSD-3-Clause
# Drawn by plot-memory, in the folder of its data. Columns: n, VC-VCRT, the same with shared tables, AV-Rankmap, ours, ours with an
# implicit address vector, then addresses and maps of VC-VCRT, AV-Rankmap and ours; MiB.
set terminal svg size 960,520 dynamic background rgb 'white'
set grid ytics
set key outside right
set ylabel "MiB a process"
set xlabel "processes"

set output "figure3a.svg"
set title "Even ranks of the world, split off 10 and 100 times (the paper's Figure 3a)"
set logscale xy
set xtics ("24K" 24576, "48K" 49152, "96K" 98304, "192K" 196608, "384K" 393216, "768K" 786432)
$paper << EOD
786432 409.6 1024 9
EOD
plot "splits10.dat" using 1:2 with linespoints lc 1 title "VC-VCRT, 10", \
     "splits100.dat" using 1:2 with linespoints lc 2 title "VC-VCRT, 100", \
     "splits100.dat" using 1:4 with linespoints lc 3 title "AV-Rankmap, 100", \
     "splits100.dat" using 1:5 with linespoints lc 4 title "ours, 100", \
     "splits100.dat" using 1:6 with linespoints lc 5 title "ours, implicit, 100", \
     $paper using 1:2 with points pt 2 ps 2 lc 1 title "paper: above 40 % of memory, 10", \
     $paper using 1:3 with points pt 2 ps 2 lc 2 title "paper: above 100 % of memory, 100", \
     $paper using 1:4 with points pt 2 ps 2 lc 3 title "paper, AV-Rankmap, 100"

set output "figure3b.svg"
set title "Addresses and maps of 10 split communicators (the paper's Figure 3b)"
plot "splits10.dat" using 1:7 with linespoints title "VC-VCRT, VCs", \
     "splits10.dat" using 1:8 with linespoints title "VC-VCRT, VCRTs", \
     "splits10.dat" using 1:9 with linespoints title "AV-Rankmap, AV", \
     "splits10.dat" using 1:10 with linespoints title "AV-Rankmap, maps", \
     "splits10.dat" using 1:11 with linespoints title "ours, addresses", \
     "splits10.dat" using 1:12 with linespoints title "ours, maps"

set output "figure3c.svg"
set title "768K processes, by the number of split communicators (the paper's Figure 3c)"
unset logscale x
set xtics auto
set xlabel "communicators"
$paper << EOD
10 409.6 0
100 1024 9
EOD
plot "communicators.dat" using 1:2 with linespoints lc 1 title "VC-VCRT", \
     "communicators.dat" using 1:4 with linespoints lc 3 title "AV-Rankmap", \
     "communicators.dat" using 1:5 with linespoints lc 4 title "ours", \
     "communicators.dat" using 1:6 with linespoints lc 5 title "ours, implicit", \
     $paper using 1:2 with points pt 2 ps 2 lc 1 title "paper: VC-VCRT above", \
     $paper using 1:($3 > 0 ? $3 : NaN) with points pt 2 ps 2 lc 3 title "paper, AV-Rankmap"

set style data histograms
set style histogram clustered
set style fill solid 0.6
set xlabel ""
set xtics rotate by -30
set yrange [0.0001:2000]
set output "figure4.svg"
set title "Nek5000 on 512K processes: the paper says 250 MB with VC-VCRT (its Figure 4)"
$paper << EOD
0 250
1 250
EOD
plot "nek5000.dat" using 3:xtic(1) title "VC-VCRT", "nek5000.dat" using 4 title "VC-VCRT, dups share", \
     "nek5000.dat" using 5 title "AV-Rankmap", "nek5000.dat" using 6 title "ours", "nek5000.dat" using 7 title "ours, implicit", \
     $paper using 1:2 with points pt 2 ps 2 lc 2 title "paper, VC-VCRT"

set output "figure5.svg"
set title "Mini-applications on 512K processes (the paper's Figure 5)"
$paper << EOD
0 244 4
1 244 4
2 244 4
3 244 4
4 244 4
5 244 4
EOD
plot "apps.dat" using 3:xtic(1) title "VC-VCRT", "apps.dat" using 4 title "VC-VCRT, dups share", \
     "apps.dat" using 5 title "AV-Rankmap", "apps.dat" using 6 title "ours", "apps.dat" using 7 title "ours, implicit", \
     $paper using 1:2 with points pt 2 ps 2 lc 1 title "paper, VC-VCRT", \
     $paper using 1:3 with points pt 2 ps 2 lc 3 title "paper, AV-Rankmap"
