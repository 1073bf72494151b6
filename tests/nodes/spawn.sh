#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# spawn.sh HOW: PMI spawn over four nodes.
# Environment: GROWTH (KiB of a server that 300 spawns may leave behind).
. "${0%/*}/harness.sh"

run 0 -n 4 -l sh -c "[ \$PMI_RANK = 2 ] && exec $RAWPMI spawn 6 $RAWPMI child -- wdir / soft 1:3; exec $RAWPMI chat 5"
out_has '^\[2\] cmd=spawn_result rc=0'
[ "$(grep -c '^\[1:[0-5]\] child [0-5] of 6 in /: value-of' "$dir/out")" = 6 ] || fail "6 children"
run 0 -n 4 sh -c "[ \$PMI_RANK = 1 ] && exec $RAWPMI spawn 3 sh -c 'echo on \$MPI_LOCALRANKID/\$MPI_LOCALNRANKS' -- host ${names[2]}; exec $RAWPMI chat 5"
[ "$(grep '^on' "$dir/out" | sort | tr '\n' ,)" = "on 0/3,on 1/3,on 2/3," ] || fail "3 children on one node"
# A node that is named more often than there are nodes.
many=${names[2]},${names[3]},${names[2]},${names[2]},${names[2]}
run 0 -n 4 sh -c "[ \$PMI_RANK = 1 ] && exec $RAWPMI spawn 6 echo child -- host $many; exec $RAWPMI chat 5"
[ "$(grep -c '^child$' "$dir/out")" = 6 ] || fail "6 children"
# One process is at fault: none is left, and the job continues.
run 0 -n 4 sh -c "[ \$PMI_RANK = 1 ] && exec $RAWPMI spawn 8 /no/such/program; exec $RAWPMI chat 5"
out_has 'rc=[^0]'
err_has 'cannot start /no/such/program: No such file or directory; the spawn fails'
run 0 -n 4 sh -c "[ \$PMI_RANK = 3 ] && exec $RAWPMI spawn 8 sleep $mark -- host elsewhere; exec $RAWPMI chat 5"
out_has 'rc=[^0]'
err_has 'spawn by rank 3 on .*: sleep: this job has no such nodes: elsewhere'
printf '\177ELF-broken' > "$dir/broken"
chmod +x "$dir/broken"
run 0 -n 4 sh -c "[ \$PMI_RANK = 0 ] && exec $RAWPMI spawn 8 $dir/broken; exec $RAWPMI chat 5"
out_has 'rc=[^0]'
# A request that is too large for a message: each command has a copy of the spawner's variables. With AddressSanitizer the agent takes 560 MB for it,
# which took a busy machine over 25 s.
printf -v large '%0120000d' 0
begin --node-timeout 90 -n 2 -x LARGE="$large" sh -c "[ \$PMI_RANK = 1 ] && exec $RAWPMI commands 600 true; exec $RAWPMI chat 5"
end 0
out_has '^cmd=spawn_result rc=-1'
err_has 'a spawn fails: its programs, .* make a message of [0-9]* MiB, and the limit is 64$'
run 4 -n 4 sh -c "[ \$PMI_RANK = 2 ] && exec $RAWPMI spawn 5 sh -c 'exit 4'; exec $RAWPMI chat 5"
# A Get that waits in the children's space ends when they have gone, whether their job is on several nodes or on one.
for word in 8 1; do
    run 0 -n 4 sh -c "[ \$PMI_RANK = 0 ] && exec $RAWPMI far $word $dir; exec $RAWPMI chat 5"
    out_has 'no such key there'
done
# Job after job: neither the agent nor the head keeps ended jobs.
run 0 -n 4 sh -c "[ \$PMI_RANK = 1 ] && exec $RAWPMI spawns 300 true x; exec $RAWPMI chat 5"
read -r word agent_kib head_kib < "$dir/out"
[ "$word" = grown ] && [ "$agent_kib" -lt "${GROWTH:-300}" ] && [ "$head_kib" -lt "${GROWTH:-300}" ] ||
    fail "the agent has grown by $agent_kib KiB, the head by $head_kib KiB in 300 spawns"
nothing_left
finish
