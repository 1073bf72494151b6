# SPDX-License-Identifier: BSD-3-Clause
# harness.sh: sourced by tests of jobs on four nodes. $1 is HOW: fork: all nodes here; hosts: the four hosts of `hosts run`, under which the test then
# runs; or srun: the four nodes of `cluster run -N 4` of tests/interop/slurm, under which it then runs. Environment: PMIRUN, RAWPMI (programs) and what
# a test says. NODES_MARK marks what a test starts.
set -u
pmirun=$PMIRUN
case $1 in
fork) nodes=(-N 4 --launch fork) names=(node0 node1 node2 node3) ;;
srun) nodes=(-N 4 --launch srun) names=(n0 n1 n2 n3) ;;
hosts)
    nodes=(--hosts "$HOSTS" --launch-agent "$HOST_SSH")
    IFS=, read -ra names <<< "$HOSTS"
    export UCX_NET_DEVICES=eth0 # for MPICH: it would choose the loopback, which each host has for itself
    ;;
esac
. "${0%/*}/../pmirun/jobs.bash"
# Links without blanks: LD_PRELOAD and texts for a shell take no blanks in a name.
for name in RAWPMI ROGUE CLIENT SLOW_PEERS NO_PEERS BIG LD_PRELOAD_MPI; do
    [ -n "${!name:-}" ] || continue
    ln -s "${!name}" "$dir/$name"
    printf -v "$name" %s "$dir/$name"
done
mark=$(($$ + 100000)).25 # sleeps of a length that no other test uses

# begin [argument of pmirun...]: in the background; end STATUS
begin() {
    n=$((n + 1))
    : > "$dir/out"
    : > "$dir/err"
    timeout -k 5 100 "$pmirun" "${nodes[@]}" "$@" > "$dir/out" 2> "$dir/err" < /dev/null &
    limit=$!
    head=
    while [ -z "$head" ] && kill -0 "$limit" 2> /dev/null; do
        sleep 0.01
        head=$(tr -d ' ' < "/proc/$limit/task/$limit/children")
    done 2> /dev/null
}
end() {
    wait "$limit"
    got=$?
    [ "$got" = "$1" ] || fail "status $got, not $1"
}
# Drops lines of others: UCX reports that the other end of a closing link was quicker; srun reports that nodes have not quite released the last job.
err_empty() {
    ! grep -v -e 'UCX  ERROR tcp_ep 0x[0-9a-f]* (state=CONNECTED): recv(-1) failed: ' \
        -e '^pmirun: srun: srun: job [0-9]* \(queued and waiting for\|has been allocated\) resources$' "$dir/err" | grep -q . ||
        fail "stderr is not empty"
}
sorted() { sort "$dir/out"; }
pids_of() { pgrep -f "^$(sed 's/[][\\.*^$+?(){}|]/\\&/g' <<< "$1")"; } # of the processes whose command line begins so
marked() { (unset NODES_MARK; grep -lzxF "NODES_MARK=$mark" /proc/[0-9]*/environ 2> /dev/null | cut -d/ -f3); } # this test's ranks, agents and sleeps
none_marked() { [ -z "$(marked)" ]; }
nothing_left() {
    local p
    soon none_marked && return
    for p in $(marked); do
        fail "left behind: $p $(tr '\0' ' ' < "/proc/$p/cmdline")"
        kill -9 "$p"
    done
}
our_agents() { comm -12 <(pids_of "$pmirun --agent" | sort) <(marked | sort); } # other tests have some too
our_agent() { # of node $1; a rank in the middle of execve() shows no environment
    local p i
    for ((i = 0; i < 100; i++)); do
        for p in $(our_agents); do
            grep -qzxF "PMI_RANK=$1" "/proc/$(first_child "$p")/environ" && echo "$p" && return
        done 2> /dev/null
        sleep 0.1
    done
}
ranks_wait() { # asleep, all
    local p r
    for p in $(our_agents); do
        for r in $(cat "/proc/$p/task/$p/children"); do state_is S "$r" || return 1; done
    done
}
first_child() { pgrep -P "$1" | while read -r p; do grep -qx job-guard "/proc/$p/comm" || { echo "$p"; break; }; done; }
export NODES_MARK=$mark
