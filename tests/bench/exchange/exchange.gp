# SPDX-License-Identifier: BSD-3-Clause
# Drawn by plot-exchange, in the folder of its data: each *.dat has the number of ranks and a value. `mode`: whose processors.
set terminal svg size 960,520 dynamic background rgb 'white'
set grid
set key outside right
set logscale xy
set xlabel "ranks"
set xtics ("256" 256, "1K" 1024, "4K" 4096, "16K" 16384, "64K" 65536, "256K" 262144, "1M" 1048576)
set style data linespoints

set ylabel "ms"
set output "figure2.svg"
set title "The paper's Figure 2, simulated (".mode."): PMI's operations"
plot "op-fence-tree-all.dat" using 1:($2 / 1e3) title "Fence with Put, tree", \
     "op-fence-tree-half.dat" using 1:($2 / 1e3) title "with 50 % Put, tree", \
     "op-fence-tree-none.dat" using 1:($2 / 1e3) title "without Put, tree", \
     "op-fence-doubling-all.dat" using 1:($2 / 1e3) dt 2 title "Fence with Put, doubling", \
     "op-fence-doubling-half.dat" using 1:($2 / 1e3) dt 2 title "with 50 % Put, doubling", \
     "op-fence-doubling-none.dat" using 1:($2 / 1e3) dt 2 title "without Put, doubling", \
     "op-put.dat" using 1:($2 / 1e3) title "Put", "op-get.dat" using 1:($2 / 1e3) title "Get after Fence", \
     "op-get-dkvs.dat" using 1:($2 / 1e3) title "waiting Get, DKVS", "op-get-direct.dat" using 1:($2 / 1e3) title "waiting Get, Direct"

set output "figure7a.svg"
set title "The paper's Figure 7a, simulated (".mode."): one rank puts, all get"
plot "dense-fence-tree.dat" using 1:($2 / 1e3) title "Fence, tree", "dense-fence-doubling.dat" using 1:($2 / 1e3) title "Fence, doubling", \
     "dense-tree.dat" using 1:($2 / 1e3) title "Tree", "dense-dkvs.dat" using 1:($2 / 1e3) title "DKVS", \
     "dense-direct.dat" using 1:($2 / 1e3) title "Direct", \
     "dense-dkvs-connected.dat" using 1:($2 / 1e3) dt 2 title "DKVS, connected", "dense-direct-connected.dat" using 1:($2 / 1e3) dt 2 title "Direct, connected"

set output "figure7b.svg"
set title "The paper's Figure 7b, simulated (".mode."): every rank puts, gets its neighbours'"
plot "sparse-fence-tree.dat" using 1:($2 / 1e3) title "Fence, tree", "sparse-fence-doubling.dat" using 1:($2 / 1e3) title "Fence, doubling", \
     "sparse-tree.dat" using 1:($2 / 1e3) title "Tree", "sparse-dkvs.dat" using 1:($2 / 1e3) title "DKVS", \
     "sparse-direct.dat" using 1:($2 / 1e3) title "Direct", "sparse-ring.dat" using 1:($2 / 1e3) title "Ring", \
     "sparse-dkvs-connected.dat" using 1:($2 / 1e3) dt 2 title "DKVS, connected", \
     "sparse-direct-connected.dat" using 1:($2 / 1e3) dt 2 title "Direct, connected", \
     "sparse-dkvs-cyclic.dat" using 1:($2 / 1e3) dt 3 title "DKVS, cyclic", "sparse-direct-cyclic.dat" using 1:($2 / 1e3) dt 3 title "Direct, cyclic", \
     "sparse-ring-cyclic.dat" using 1:($2 / 1e3) dt 3 title "Ring, cyclic"

set ylabel "frames a node"
set output "frames.svg"
set title "Frames that a node sends, on average, for its neighbours' SPARSE keys"
plot "frames-fence-tree.dat" title "Fence, tree", "frames-fence-doubling.dat" title "Fence, doubling", "frames-tree.dat" title "Tree", \
     "frames-dkvs.dat" title "DKVS", "frames-direct.dat" title "Direct", "frames-ring.dat" title "Ring", \
     "frames-dkvs-cyclic.dat" dt 2 title "DKVS, cyclic", "frames-direct-cyclic.dat" dt 2 title "Direct, cyclic", \
     "frames-ring-cyclic.dat" dt 2 title "Ring, cyclic"
