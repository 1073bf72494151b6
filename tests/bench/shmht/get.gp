# SPDX-License-Identifier: BSD-3-Clause
# The cost of a Get by number of entries. The paper gives one point: 250 ns, SHMEM-2, 2013's processors.
load here."/common.gp"
set terminal svg size 1100,480 font "sans,11"
all = "ours ours-2m SHMEM-2/XXH3 SHMEM-2/FNV-1a GHashTable uthash absl::flat_hash_map std::unordered_map ck_ht LMDB tinycdb raw"
here_are = ""
do for [who in all] { if (has("get", who)) { here_are = here_are." ".who } }
style(who) = who eq "ours" ? 1 : who eq "ours-2m" ? 2 : who eq "SHMEM-2/XXH3" ? 3 : who eq "SHMEM-2/FNV-1a" ? 4 : \
    who eq "absl::flat_hash_map" ? 5 : who eq "raw" ? 6 : who eq "LMDB" ? 7 : who eq "tinycdb" ? 8 : who eq "ck_ht" ? 9 : who eq "uthash" ? 11 : \
    who eq "GHashTable" ? 12 : 10
set multiplot layout 1,2
set logscale xy
set format x "10^{%L}"
set xlabel "entries"
set ylabel "processor time of a Get, ns"
set title "the key is there"
plot for [who in here_are] pick("get", "hit", who, "ns_per_get") with linespoints ls style(who) title who noenhanced, \
    pick("get", "many32", "ours", "ns_per_get") with linespoints ls 1 dt 3 title "ours, 32 at a time"
set title "the key is absent"
plot for [who in here_are] pick("get", "absent", who, "ns_per_get") with linespoints ls style(who) title who noenhanced
unset multiplot
