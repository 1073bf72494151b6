#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# loss.sh HOW: a head, an agent or a rank is killed; an agent never connects.
. "${0%/*}/harness.sh"

# The head is killed: agents see it, and end their ranks.
begin -n 8 sh -c "echo ready; sleep $mark"
await 8 ready
kill -9 "$head"
wait "$limit" 2> /dev/null
nothing_left
# An agent is killed.
begin -n 4 -x NODES_MARK=$mark sh -c "echo ready; exec sleep $mark"
await 4 ready
kill -9 "$(our_agent 2)"
end 253
err_has "node 2 (${names[2]}) is lost: "
nothing_left
# An agent is killed while all wait in a fence.
begin -n 3 "$RAWPMI" pgf : -n 1 sh -c "echo ready; sleep $mark; exec $RAWPMI pgf"
await 1 ready
kill -9 "$(our_agent 1)"
end 253
err_has "node 1 (${names[1]}) is lost: "
nothing_left
# A node's ranks are killed.
begin -n 4 sh -c "echo ready; exec sleep $mark"
await 4 ready
kill -9 "$(first_child "$(our_agent 3)")"
end 137
err_has "rank 3 on ${names[3]} (pid .*) died of signal 9"
nothing_left
# An agent gets SIGTERM.
begin -n 4 sh -c "echo ready; exec sleep $mark"
await 4 ready
kill -TERM "$(our_agent 0)"
end 253
err_has "the agent received signal 15"
err_has "node 0 (${names[0]}) is lost: "
nothing_left
# An agent is killed that holds output of ranks that have ended, for a reader that takes its time.
mkfifo "$dir/never"
exec 9<> "$dir/never"
cat > "$dir/fill" << 'END'
#!/bin/sh
full=0
until [ $full = 5 ]; do # times that the pipe has taken nothing
    case $(dd if=/dev/zero bs=65536 oflag=nonblock 2>&1 >&9) in
    *"0+0 records out"*) full=$((full + 1)) ;;
    *) full=0 ;;
    esac
    sleep 0.2
done 9>&1
END
chmod +x "$dir/fill"
timeout -k 5 100 "$pmirun" "${nodes[@]}" -v -n 1 "$dir/fill" > "$dir/never" 2> "$dir/err" < /dev/null &
limit=$!
await 1 ' exited with 0$' err
kill -9 $(our_agents)
timeout 100 cat <&9 > "$dir/out" &
wait "$limit"
got=$?
kill $!
exec 9>&-
[ $got = 253 ] || fail "output is lost: status $got, not 253"
err_has "node 0 (${names[0]}) is lost: .*; the rest of its ranks' output is missing"
nothing_left
# Agents that never connect.
[ "$1" = hosts ] || finish
nodes=(--hosts "a,nowhere,c,d" --launch-agent "$HOST_SSH")
run 253 -n 4 true
err_has "nowhere: ssh: no host nowhere"
err_has "node 1 (nowhere) is lost: .* exited with status 255 before its agent connected"
printf '#!/bin/sh\n[ "$2" = b ] && exec sleep %s\nexec %s "$@"\n' "$mark" "$HOST_SSH" > "$dir/mute"
chmod +x "$dir/mute"
nodes=(--hosts "a,b,c,d" --launch-agent "$dir/mute")
run 253 --start-timeout 10 -n 4 true
err_has "node 1 (b) is lost: no answer within 10 s"
nodes=(--hosts "a,b,c,d" --launch-agent "$dir/absent")
run 127 -n 4 true
nothing_left
finish
