#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# links.sh HOW late|unlinked: links between agents that come late, or not at all.
# Environment: SLOW_PEERS (slow_peers.c), NO_PEERS (no_peers.c).
. "${0%/*}/harness.sh"

# An agent that learns of the others later than they of it: it does not lose what they have sent until then.
test_late() {
    printf '#!/bin/sh\n[ "$2" = b ] || export LD_PRELOAD="%s" ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0"\nexec sh -c "$3"\n' "$SLOW_PEERS" > "$dir/late"
    chmod +x "$dir/late"
    nodes=(--hosts a,b --links any --launch-agent "$dir/late")
    run 0 --timeout 30 -n 4 env -u LD_PRELOAD "$RAWPMI" pgf
    err_empty
    nothing_left
}

# Agents that cannot connect count as lost only when one must send; at the end pmirun does not wait for their links.
test_unlinked() {
    local how
    printf '#!/bin/sh\nexport LD_PRELOAD="%s" NO_PEERS="$HOW" ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0"\nexec sh -c "$3"\n' "$NO_PEERS" > "$dir/alone"
    chmod +x "$dir/alone"
    nodes=(--hosts a,b,c --launch-agent "$dir/alone" --mpi pmi)
    for how in refused closed; do
        # Ranks that send nothing, not even their end.
        HOW=$how begin -n 3 env -u LD_PRELOAD sh -c "echo ready; exec sleep $mark"
        await 3 ready
        sleep 0.5
        kill -TERM "$head"
        end 143
        err_empty
        HOW=$how run 253 -n 3 env -u LD_PRELOAD "$RAWPMI" pgf
        err_has 'node [0-2] ([abc]) is lost: no connection to it from node [0-2]'
    done
    HOW=refused run 253 -n 3 env -u LD_PRELOAD "$RAWPMI" pgf
    err_has 'node [0-2] ([abc]) is lost: .*Connection refused'
    # An agent waits a second for its links, and ends by itself before its head ends it.
    printf '#!/bin/sh\ntrap "" TERM\nexport LD_PRELOAD="%s" NO_PEERS=mute ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0"\nsh -c "$3"\necho $? >> "%s/left"\n' \
        "$NO_PEERS" "$dir" > "$dir/alone"
    run 0 --node-timeout 200 -n 3 env -u LD_PRELOAD true
    err_empty
    [ "$(sort -u "$dir/left")" = 0 ] && has_lines 3 0 left || fail "agents were ended: $(cat "$dir/left")"
    # The head has several addresses, and the first does not answer: pmirun soon tries the next one, whatever --node-timeout is.
    printf '#!/bin/sh\nexport LD_PRELOAD="%s" NO_PEERS=mute-head ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0"\nsed -u "s/^head \\([^ ]*\\)/head \\1 \\1/" | sh -c "$3"\n' "$NO_PEERS" > "$dir/alone"
    seconds=60 run 0 --node-timeout 1000 --start-timeout 50 -n 3 env -u LD_PRELOAD "$RAWPMI" pgf
    err_empty
    nothing_left
}

"test_$2"
finish
