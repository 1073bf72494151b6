#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# reference.sh client TEXT N CLIENT LAUNCHER [ARGUMENT…]   N clients under a launcher: each prints its neighbour's pair, and TEXT
# reference.sh bad_ranks SERVER RAWPMI                     the server's report of ranks that end badly
# reference.sh two_nodes TWO_NODES RAWPMI               the end of a job over two nodes, in good order and otherwise
# reference.sh mpich SERVER MPICC HELLO.C                  an unmodified MPI program on 4 ranks
# reference.sh lines EXAMPLES                              the files stay short: 200, 100 and 150 lines
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "FAIL: $*"
    sed 's/^/    /' "$dir/out" "$dir/err" 2> /dev/null | head -20
    exit 1
}

# run STATUS COMMAND…: within 30 s
run() {
    local want=$1 got
    shift
    timeout -k 5 30 "$@" > "$dir/out" 2> "$dir/err" < /dev/null
    got=$?
    [ "$got" -eq "$want" ] || fail "$*: status $got, not $want"
}

case $1 in
client)
    text=$2 n=$3 client=$4
    shift 4
    run 0 "$@" "$client"
    for ((rank = 0; rank < n; rank++)); do
        grep -Eq "^rank $rank of $n: pid-$(((rank + 1) % n)) is [0-9]+, $text$" "$dir/out" || fail "no right line of rank $rank"
    done
    [ "$(wc -l < "$dir/out")" -eq "$n" ] || fail "not $n lines"
    [ "$(sed 's/.* is //' "$dir/out" | sort -u | wc -l)" -eq "$n" ] || fail "two ranks got the same process id"
    ;;
bad_ranks)
    server=$2 raw=$3
    run 0 "$server" 4 "$raw" pgf
    run 3 "$server" 4 sh -c 'exit 3'       # no PMI program at all
    run 127 "$server" 2 "$dir/nothing"     # cannot be started
    run 1 "$server" 4 "$raw" exit 5 inited # ended between init and finalize
    run 5 "$server" 4 "$raw" exit 5 final
    run 7 "$server" 4 "$raw" abort 7
    run 1 "$server" 4 "$raw" garbage
    # One rank ends before init while the others wait in the fence, and one that is killed there.
    run 1 "$server" 4 sh -c '[ "$PMI_RANK" -eq 2 ] || exec "$0" pgf' "$raw"
    run 1 "$server" 4 sh -c '[ "$PMI_RANK" -eq 2 ] && exec "$0" die 9 inited; exec "$0" pgf' "$raw"
    run 2 "$server" 0 "$raw"
    run 2 "$server" 4
    ;;
two_nodes)
    nodes=$2 raw=$3
    run 0 "$nodes" "$raw" pgf
    run 5 "$nodes" "$raw" exit 5 final
    run 137 "$nodes" "$raw" die 9 inited
    run 127 "$nodes" "$dir/nothing"
    run 7 "$nodes" sh -c 'timeout 60 "$0" abort 7; exec sleep 60' "$raw" # waits for its end, as MPICH does
    # Rank 1 is never there, or its whole node is killed, while rank 0 waits in the fence on the other node.
    run 1 "$nodes" sh -c '[ "$PMI_RANK" -eq 1 ] || exec "$0" pgf' "$raw"
    grep -qx 'node 0: ranks wait for one that is gone' "$dir/err" || fail "no cause"
    run 1 "$nodes" sh -c '[ "$PMI_RANK" -eq 1 ] && exec kill -9 "$PPID"; exec "$0" pgf' "$raw"
    grep -qx 'node 0: the other node is lost' "$dir/err" || fail "no cause"
    ;;
mpich)
    run 0 "$3" "$4" -o "$dir/hello"
    run 0 "$2" 4 "$dir/hello"
    for rank in 0 1 2 3; do
        grep -q "^rank $rank of 4" "$dir/out" || fail "no line of rank $rank"
    done
    grep -q "sum of ranks 6" "$dir/out" || fail "no sum"
    ;;
lines)
    for limit in server/server.c:200 client/client.c:100 two_nodes/two_nodes.c:150; do
        lines=$(wc -l < "$2/${limit%:*}")
        [ "$lines" -le "${limit#*:}" ] || fail "${limit%:*} has $lines lines, more than ${limit#*:}"
    done
    ;;
*)
    fail "what is '$1'?"
    ;;
esac
echo "all right"
