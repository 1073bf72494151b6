#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# pairs.sh HOW big|full|huge: many pairs of one rank.
# Environment: BIG (big_pairs.c).
. "${0%/*}/harness.sh"

busy_begin() { # twice as many processes as processors that only count
    local i
    busy=()
    for ((i = 0; i < 2 * $(nproc); i++)); do
        while :; do :; done &
        busy+=($!)
    done
}
busy_end() {
    kill "${busy[@]}"
    wait "${busy[@]}" 2> /dev/null
}
# Servers peak at $1 KiB or less, and keep at most 2 MiB of private memory after the Fence.
memory_within() {
    local _ peak private most=2048
    while read -r _ _ peak _ private; do
        [ "$peak" -le $(($1 + most)) ] || fail "a server had $peak KiB, more than $1 and $most"
        [ "$private" -le $most ] || fail "a server has $private KiB for itself"
    done < <(grep '^server peak' "$dir/out")
    [ "$(grep -c '^server peak' "$dir/out")" = "$2" ] || fail "not $2 servers"
}
sockets_of() { find "/proc/$1/fd" -lname 'socket:*' | wc -l; }
has_sockets() { [ "$(sockets_of "$1")" = "$2" ]; }

# Many pairs of one rank, on a busy machine.
test_big() {
    local victim low high middle
    nodes=(-N 4 --mpi pmi "${nodes[@]:2}") # without libpmix's sockets and memory
    # Each agent has a listener, its head and a rank, and links to its neighbours as the job begins: node 0 is the parent of all.
    begin -n 4 sh -c "echo ready; exec sleep $mark"
    await 4 ready
    soon has_sockets "$(our_agent 0)" 9 || fail "node 0 has $(sockets_of "$(our_agent 0)") sockets, not 9"
    soon has_sockets "$(our_agent 3)" 5 || fail "node 3 has $(sockets_of "$(our_agent 3)") sockets, not 5"
    kill -TERM "$head"
    end 143
    nothing_left
    nodes=(-N 2 "${nodes[@]:2}")
    busy_begin
    # The pairs are in the table and, until they have been sent, in the exchange.
    run 0 --timeout 90 -n 2 "$BIG" 0 20000 900
    err_empty
    memory_within $((22 * 20000 * 940 / 10 / 1024 + 6144)) 2
    run 0 --timeout 90 -n 2 "$BIG" -1 100000 32
    err_empty
    memory_within $((16 * 100000 * 68 / 10 / 1024 + 6144)) 2
    # The other node's agent is away as the Fence begins.
    BIG_WAITS="$dir/go" begin -n 2 "$BIG" 0 20000 900
    await 1 'rank 0: puts took'
    victim=$(our_agent 1)
    kill -STOP "$victim"
    touch "$dir/go"
    sleep 6
    kill -CONT "$victim"
    end 0
    err_empty
    busy_end
    # As much as --shm-max takes, and more: then ranks ask the server, which answers.
    low=800 high=1300
    while ((high - low > 1)); do
        middle=$(((low + high) / 2))
        run 0 --shm-max 1 -n 2 "$BIG" 0 $middle 900
        if [ -s "$dir/err" ]; then high=$middle; else low=$middle; fi
    done
    run 0 --shm-max 1 -n 2 "$BIG" 0 $low 900
    err_empty
    for middle in $high $((high + 100)); do # one node may take a pair more than another, since a Fence brings them together
        run 0 --shm-max 1 -n 2 "$BIG" 0 $middle 900
        err_has 'cannot grow the shared table of job 0: .*; ranks get pairs by socket from now on'
    done
    [ "$(grep -c . "$dir/err")" = 2 ] || fail "not both nodes report it"
    nothing_left
}

# More than the engine stores, on one node and on two: the Put fails with the limit's name, and the job has the other pairs.
test_full() {
    local where shm accepted
    seconds=200
    for where in "-N 1 --launch fork" "-N 2 --launch fork"; do
        read -ra nodes <<< "$where"
        for shm in "--shm-max 1" --no-shm; do
            # 256 MiB, and 1 of the table: of pairs of 914 bytes, which count 978, no more than 276,000
            # shellcheck disable=SC2086
            run 0 --timeout 190 $shm -n 2 "$BIG" full 300000 900
            err_has 'rank 0: .*put: no room for this pair: the limit max_kvs_bytes is 268435456 bytes'
            grep -q 'the exchange' "$dir/err" && fail "the exchange has failed"
            accepted=$(sed -n 's/^accepted \([0-9]*\) pairs$/\1/p' "$dir/out")
            [ "${accepted:-0}" -gt 270000 ] && [ "$accepted" -lt 276000 ] || fail "accepted ${accepted:-nothing}"
            [ "$(grep -cx "found $accepted pairs" "$dir/out")" = 2 ] || fail "not both ranks find $accepted pairs"
            [ "$(grep -c 'ended well$' "$dir/out")" = 2 ] || fail "not both ranks ended well"
        done
    done
    nothing_left
}

# 512 MiB of one rank.
test_huge() {
    seconds=600
    nodes=(-N 2 "${nodes[@]:2}")
    busy_begin
    run 0 --timeout 550 -n 2 "$BIG" 0 150000 900
    err_empty
    run 0 --timeout 550 -n 2 "$BIG" 0 596523 900
    err_empty
    memory_within $((22 * 596523 * 94 / 1024 + 8192)) 2
    busy_end
    nothing_left
}

"test_$2"
finish
