#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# silent.sh HOW: nodes that are up and send nothing.
. "${0%/*}/harness.sh"

# An agent is stopped: its kernel still answers for it.
begin --node-timeout 2 -n 4 sh -c "echo ready; exec sleep $mark"
await 4 ready
victim=$(our_agent 2)
kill -STOP "$victim"
end 253
err_has "node 2 (${names[2]}) is lost: it has been silent for 2 s"
kill -CONT "$victim" 2> /dev/null # it finds the link closed, and ends its ranks
nothing_left
# An agent that continues in time is not lost; nor is any agent when the head itself was stopped, with output in flight.
begin --node-timeout 6 -n 4 sh -c "echo ready; until [ -e $dir/go ]; do sleep 0.1; done; head -c 3000000 /dev/zero | tr '\0' x; echo; exec $RAWPMI pgf"
await 4 ready
victim=$(our_agent 1)
kill -STOP "$victim"
sleep 1
kill -CONT "$victim"
touch "$dir/go"
kill -STOP "$head"
sleep 8
kill -CONT "$head"
end 0
err_empty
rm -f "$dir/go"
[ "$(tr -cd x < "$dir/out" | wc -c)" = 12000000 ] || fail "output was lost"
run 2 --node-timeout 80001 -n 4 true
[ "$1" = hosts ] || finish
# An idle link over a long way: the answer to the kernel's keep-alive takes a while. The head is stopped, since a busy machine may answer it late.
pid_of() { cat "$HOST_DIR/$1.pid"; }
address_of() { getent hosts "$1" | cut -d' ' -f1; }
begin --node-timeout 2 -n 4 sh -c "echo ready; until [ -e $dir/go ]; do sleep 0.1; done"
await 4 ready
"${0%/*}/far.py" 0.2 "$(pid_of a)" "$(address_of a)" "$(pid_of b)" "$(address_of b)" > "$dir/far" 2>&1 &
far=$!
soon [ -s "$dir/far" ]
grep -qx ready "$dir/far" || echo "left out: no way that is long: $(cat "$dir/far")"
kill -STOP "$head"
sleep 7
touch "$dir/go"
sleep 1
kill -CONT "$head"
end 0
err_empty
rm "$dir/go"
kill "$far"
wait "$far" 2> /dev/null
# The link of a node is cut.
link() { nsenter -t "$(cat "$HOST_DIR/b.pid")" -n ip link set eth0 "$1"; }
begin --node-timeout 2 -n 4 sh -c "echo ready; exec sleep $mark"
await 4 ready
link down
end 253
err_has "node 1 (b) is lost: "
link up
nothing_left
# The node itself notices too, although no pipe closes: on an idle link by the kernel's keep-alive, with data in flight because nothing
# acknowledges it.
for rank in "exec sleep $mark" "while sleep 0.1; do echo still here; done"; do
    begin --node-timeout 2 -n 4 -x NODES_MARK=$mark sh -c "echo ready; $rank"
    await 4 ready
    victim=$(first_child "$(our_agent 1)")
    kill -STOP "$head"
    link down
    for ((i = 0; i < 200; i++)); do
        [ -e "/proc/$victim" ] || break
        sleep 0.1
    done
    [ -e "/proc/$victim" ] && fail "a rank of the node that is cut off lives on: $rank"
    link up
    kill -CONT "$head"
    end 253
    nothing_left
done
finish
