#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# abandoned.sh HOW: a spawn fails on one node while its ranks on another wait for one that has finalized: the spawn ends, not the job.
. "${0%/*}/harness.sh"

nodes=(-N 2 "${nodes[@]:2}")
cat > "$dir/spawned" << END
#!/bin/sh
: > "$dir/up.\$PMI_RANK"
until [ -e "$dir/go" ]; do sleep 0.1; done
[ \$PMI_RANK = 0 ] || exec $RAWPMI pgf
printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n' >&3
END
chmod +x "$dir/spawned"
begin -n 2 sh -c "echo ready; [ \$PMI_RANK = 1 ] && until [ -e $dir/go ]; do sleep 0.1; done && exec $RAWPMI chat 5; until [ -e $dir/stopped ]; do sleep 0.1; done; exec $RAWPMI spawn 4 $dir/spawned"
await 2 ready
victim=$(our_agent 1)
kill -STOP "$victim"
touch "$dir/stopped"
two_are_up() { [ -e "$dir/up.0" ] && [ -e "$dir/up.1" ]; }
soon two_are_up || fail "no two spawned ranks"
kill -STOP "$head"
rm "$dir/spawned"
touch "$dir/go"
sleep 1 # node 0 reports to the head that a fence cannot complete
kill -CONT "$victim"
sleep 1 # and node 1, that it cannot start its ranks
kill -CONT "$head"
end 0
out_has '^cmd=spawn_result rc=-1'
grep -q 'stopping the job' "$dir/err" && fail "the job was stopped"
nothing_left
finish
