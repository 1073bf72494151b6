#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nodes.sh HOW GROUP: pmirun on four nodes. HOW is fork: all nodes here; hosts: the four hosts of `hosts run`, under which this then runs; or srun:
# the four nodes of `cluster run -N 4` of tests/interop/slurm, under which this then runs.
# Groups: see the end. Environment: PMIRUN, RAWPMI, ROGUE, HYDRA (programs), HINTS (of tests/libpmi2, without the 1 or 2 of its wire), MPI (a folder
# with MPI programs), BIG (big_pairs.c), LD_PRELOAD_MPI (libraries that the MPI programs preload), SLOW_PEERS (slow_peers.c),
# NO_PEERS (no_peers.c), GROWTH (KiB of a server that 300 spawns may leave behind).
set -u
. "${0%/*}/harness.sh"
group=$2

test_basic() {
    run 0 -n 8 "$RAWPMI" pgf
    err_empty
    run 0 -n 7 "$RAWPMI" pgf
    run 0 -n 3 "$RAWPMI" pgf # fewer ranks than nodes
    run 0 --map cyclic -n 9 "$RAWPMI" pgf
    run 0 --no-shm -n 8 "$RAWPMI" pgf
    run 0 --pmi-port -n 8 "$RAWPMI" pgf
    err_empty
    run 0 -n 2 "$RAWPMI" pgf : -n 6 "$RAWPMI" pgf
    run 0 -n 6 -l -x A=1 sh -c 'echo "$A $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS"' : -n 2 -x A=2 sh -c 'echo $A $PMI_RANK'
    [ "$(sorted)" = "[0] 1 0/8 0/2
[1] 1 1/8 1/2
[2] 1 2/8 0/2
[3] 1 3/8 1/2
[4] 1 4/8 0/2
[5] 1 5/8 1/2
[6] 2 6
[7] 2 7" ] || fail "labels, groups or environment"
    run 0 --map cyclic -n 6 sh -c 'echo "$PMI_RANK $MPI_LOCALRANKID/$MPI_LOCALNRANKS"'
    [ "$(sorted | tr '\n' ,)" = "0 0/2,1 0/2,2 0/1,3 0/1,4 1/2,5 1/2," ] || fail "cyclic placement"
    FP_OWN="a b" run 0 -n 4 sh -c 'echo "$FP_OWN" "$PWD"'
    [ "$(sorted | uniq -c | sed 's/^ *//')" = "4 a b $PWD" ] || fail "environment or directory were not passed on"
    PMI_ID=9 PMIX_RANK=8 SLURM_PROCID=7 PMI_SPAWNED=1 run 0 --mpi pmi -n 4 sh -c 'echo "${PMI_ID-no} ${PMIX_RANK-no} ${SLURM_PROCID-no} ${PMI_SPAWNED-no} $PMI_FD"'
    [ "$(sort -u "$dir/out")" = "no no no no 3" ] || fail "what another launcher left behind"
    run 0 -n 4 --wdir / pwd
    [ "$(sort -u "$dir/out")" = / ] || fail "--wdir"
    run 0 -n 4 sh -c 'ls /proc/self/fd | wc -l'
    [ "$(sort -u "$dir/out")" = 5 ] || fail "ranks have other descriptors than 0, 1, 2, PMI, and that of ls"
    run 0 -n 8 "$RAWPMI" hints
    run 0 --no-shm --map cyclic -n 10 "$RAWPMI" hints
    run 0 --design direct -n 8 "$RAWPMI" hints
    run 0 --design tree --map cyclic -n 8 "$RAWPMI" hints
    run 0 --stats -n 8 "$RAWPMI" pgf
    err_has '"puts":8,'
    run 0 -n 8 "$RAWPMI" gather 200 shm # they keep only the last one's values
    [ "$(sort -u "$dir/out" | sed 's/shared //')" -le 32768 ] || fail "shared memory has grown"
    run 0 --no-shm --map cyclic -n 10 "$RAWPMI" gather 20
    run 0 --pmi-port -n 8 "$RAWPMI" gather 20 shm
    run 0 -n 8 "$RAWPMI" publish
    [ "$(grep -c 'has published it' "$dir/out")" = 1 ] || fail "not one rank has published the name"
    run 0 -N 1 -n 2 "$RAWPMI" pgf
    if [ "$1" = hosts ]; then
        run 0 -n 4 -l hostname
        [ "$(sorted | tr '\n' ' ')" = "[0] a [1] b [2] c [3] d " ] || fail "ranks are not on the hosts"
    fi
}

test_status() {
    local i
    run 2 -N 0 -n 1 true
    run 2 --map nowhere -n 1 true
    run 2 --design nothing -n 1 true
    run 0 --start-timeout 0 -n 4 true # as long as it takes
    PATH=/usr/bin:/bin run 127 -n 4 no-such-program # the kernel reports another error for a folder without search permission
    err_has "cannot start no-such-program: No such file"
    # The ranks of one node may have ended before the head knows that another node's have started: these still have a second.
    for i in {1..20}; do
        run 254 --mpi pmi -N 2 -n 4 "$RAWPMI" early
        [ "$(grep -c 'rc=14' "$dir/out")" = 3 ] || fail "not all ranks that wait got the error"
    done
    run 126 -n 4 /etc/passwd
    run 126 -n 4 --wdir /no/such true
    err_has '/no/such: no such working directory'
    run 126 -n 4 --wdir / /etc/passwd/prog
    err_has 'cannot start /etc/passwd/prog: Not a directory'
    run 1 -n 4 false
    run 5 -n 4 sh -c '[ $PMI_RANK = 3 ] && exit 5; exit 0'
    err_has "rank 3 on ${names[3]} (pid .*) exited with status 5"
    run 9 -n 3 "$RAWPMI" sleep : -n 1 "$RAWPMI" exit 9 inited
    err_has "rank 3 on ${names[3]} (pid .*) exited with status 9 after PMI init, without finalize"
    run 251 -n 3 "$RAWPMI" sleep : -n 1 "$RAWPMI" exit 0 inited
    run 6 -n 1 "$RAWPMI" exit 6 early : -n 3 "$RAWPMI" pgf # a rank that has not begun, on another node than the waiting ones
    run 139 -n 1 "$RAWPMI" die 11 inited : -n 3 "$RAWPMI" sleep
    err_has "rank 0 on ${names[0]} (pid .*) died of signal 11"
    run 33 -n 3 "$RAWPMI" sleep : -n 1 "$RAWPMI" abort 33
    err_has "rank 3 on ${names[3]} (pid .*) aborted with code 33"
    # The cause is the rank that dies first, not the rank on another node that aborts because of it.
    run 137 -n 1 "$RAWPMI" abort 33 "$dir" : -n 2 "$RAWPMI" sleep : -n 1 "$RAWPMI" victim "$dir"
    err_has "rank 3 on ${names[3]} (pid .*) died of signal 9"
    run 124 --timeout 1 -n 4 sleep "$mark"
    run 124 --timeout 1 -n 4 sh -c 'trap "" TERM; sleep 60 & wait' # SIGKILL after the grace
    run 0 -n 4 sh -c "setsid sleep $mark > /dev/null 2>&1 & exit 0"
    [ -z "$(pids_of "sleep $mark")" ] || fail "leftovers of ranks"
    nothing_left
    [ "$1" = fork ] || return
    run 2 -n 4 ""
    err_has "the program's name is empty"
    run 2 -n 4 --wdir "" true
    err_has "the directory's name is empty"
    nodes=()
    run 2 --launch ssh -n 4 true
    err_has 'no host is given'
    # What ssh says ends with CR LF.
    printf '#!/bin/sh\nprintf "no route to %%s\\r\\n" "$2"\nexit 255\n' > "$dir/noroute"
    chmod +x "$dir/noroute"
    nodes=(--hosts a --launch-agent "$dir/noroute")
    run 253 -n 1 true
    err_has '^pmirun: a: no route to a$'
    # A rank that reads nothing: the message says how it ended, not that writing to it failed.
    nodes=(--hosts a --launch-agent false)
    for ((i = 0; i < 10; i++)); do
        run 253 -n 1 true
        err_has 'node 0 (a) is lost: false exited with status 1 before its agent connected'
    done
    nodes=(--hosts ::1 --launch-agent "$dir/noroute")
    run 253 -n 1 true
    err_has '^pmirun: ::1: no route to ::1$'
    # A removed working directory has no name that nodes could use.
    nodes=(-N 2 --launch fork)
    mkdir "$dir/gone"
    cd "$dir/gone" && rmdir "$dir/gone" && run 126 -n 2 true
    err_has 'cannot find the working directory for the nodes: No such file'
    cd /
}

test_output() {
    run 0 -n 8 -l sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do printf "a$PMI_RANK"; printf "b$PMI_RANK\n"; done'
    [ "$(grep -c '^\[\([0-7]\)\] a\1b\1$' "$dir/out")" = 80 ] || fail "lines were mixed"
    run 0 -n 4 -l sh -c 'head -c 3000000 /dev/zero | tr "\0" x; echo; echo end'
    [ "$(tr -cd x < "$dir/out" | wc -c)" = 12000000 ] || fail "bytes of a long line were lost"
    run 0 -n 4 sh -c 'echo o; echo e >&2'
    [ "$(cat "$dir/out" "$dir/err" | tr -d '\n')" = ooooeeee ] || fail "stdout and stderr"
    run 0 -n 4 -l printf '%s' tail
    [ "$(grep -o '\[[0-3]\] tail' "$dir/out" | wc -l)" = 4 ] || fail "output without a newline at its end"
    seq 100000 > "$dir/in"
    stdin=$dir/in run 0 -n 4 cat
    cmp -s "$dir/in" "$dir/out" || fail "stdin from a file"
    : > "$dir/out" # input that comes after rank 0 has read all that was there
    (cat "$dir/in"; soon has_lines 100000 . out; echo last) | timeout 60 "$PMIRUN" "${nodes[@]}" -n 4 cat > "$dir/out" 2> "$dir/err"
    out_has '^last$'
    stdin=/dev/zero run 0 -n 4 true # a rank that does not read it
    stdin=/ run 0 -n 4 cat
    err_has "cannot read standard input: Is a directory"
    (timeout 60 "$PMIRUN" "${nodes[@]}" -n 4 yes; echo $? > "$dir/status") 2> "$dir/err" | head -1 > "$dir/out"
    [ "$(cat "$dir/status")" = 141 ] || fail "status after a closed pipe: $(cat "$dir/status"), not 141"
    # A reader that does not read: PMI continues, memory stays bounded, no output is lost.
    mkfifo "$dir/pipe"
    exec 9<> "$dir/pipe"
    timeout 150 "$PMIRUN" "${nodes[@]}" -n 1 sh -c 'head -c 20000000 /dev/zero | tr "\0" "y" | fold -w 99' \
        : -n 3 sh -c "$RAWPMI chat 1000 && echo done >&2" > "$dir/pipe" 2> "$dir/err" &
    limit=$!
    soon has_lines 3 done err || fail "PMI was held up by a reader that sleeps"
    for p in $(first_child $limit) $(our_agents); do
        steady rss_of "$p"
        rss=$(rss_of "$p")
        [ "${rss:-0}" -lt 40000 ] || fail "pmirun uses $rss kB while its reader sleeps"
    done
    exec 8< "$dir/pipe" 9>&-
    bytes=$(tr -cd y <&8 | wc -c)
    exec 8<&-
    [ "$bytes" = 20000000 ] || fail "$bytes bytes of 20000000 arrived"
    wait $limit || fail "status $? after the reader woke up"
}

# Readers that take their time get everything: of a job that has ended but for words of its ranks that wait on their nodes, and of one that is stopped so.
test_slow() {
    local status
    mkfifo "$dir/never"
    exec 9<> "$dir/never"
    slowly ended 10 "$PMIRUN" "${nodes[@]}" -n 60 head -c 60000 /dev/zero
    slowly stopped 10 "$PMIRUN" "${nodes[@]}" -n 60 sh -c "head -c 60000 /dev/zero; : > $dir/wrote.\$PMI_RANK; [ \$PMI_RANK = 0 ] || exit 0
        until set -- $dir/wrote.*; [ \$# = 60 ]; do sleep 0.1; done; kill -9 \$\$"
    timeout 60 "$PMIRUN" "${nodes[@]}" --timeout 1 -n 4 yes > "$dir/never" 2> "$dir/err"
    status=$?
    [ $status = 124 ] || fail "--timeout: status $status"
    "$PMIRUN" "${nodes[@]}" -n 4 yes > "$dir/never" 2> "$dir/err" &
    sleep 1
    kill -TERM $!
    wait $!
    status=$?
    [ $status = 143 ] || fail "a signal while the reader sleeps: status $status"
    wait
    was ended 0 3600000
    was stopped 137 3600000
    nothing_left
}

test_signals() {
    four_sleep() { [ "$(pids_of "sleep $mark" | wc -l)" = 4 ]; }
    begin -n 4 sh -c 'trap "echo got; exit 0" USR1; echo ready; while :; do sleep 0.1; done'
    await 4 ready
    kill -USR1 "$head"
    end 0
    [ "$(grep -c got "$dir/out")" = 4 ] || fail "SIGUSR1 did not reach all"
    begin -n 4 sh -c 'echo ready; exec sleep 60'
    await 4 ready
    kill -TERM "$head"
    end 143
    # The second signal kills ranks that ignore the first.
    begin -n 4 sh -c 'trap "echo survived" TERM; echo ready; while :; do sleep 0.1; done'
    await 4 ready
    local term=${EPOCHREALTIME/./}
    kill -TERM "$head"
    await 4 survived
    # SIGKILL comes by itself after 2 s.
    kill -0 "$head" || [ $((${EPOCHREALTIME/./} - term)) -gt 1500000 ] || fail "the first SIGTERM ended what ignores it"
    kill -TERM "$head"
    end 143
    begin -n 4 sh -c "echo ready; exec sleep $mark"
    soon four_sleep || fail "they do not sleep"
    kill -TSTP "$head"
    for p in $head $(pids_of "sleep $mark"); do
        soon state_is T "$p" || fail "$p is not stopped"
    done
    kill -CONT "$head"
    for p in $(pids_of "sleep $mark"); do
        soon state_is S "$p" || fail "$p does not go on"
    done
    kill -TERM "$head"
    end 143
    nothing_left
}

test_loss() {
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
    # Agents that never connect.
    [ "$1" = hosts ] || return
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
}

# Nodes that are up and send nothing.
test_silent() {
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
    [ "$1" = hosts ] || return
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
}

# The drop-in libraries' hinted puts, Gets that wait, and rings, on both wires.
test_hints() {
    local wire
    for wire in 1 2; do
        run 0 -n 8 "$HINTS$wire" pairs nodes
        run 0 --no-shm --map cyclic -n 10 "$HINTS$wire" pairs nodes
        run 0 -n 65 "$HINTS$wire" one
        run 0 --map cyclic -n 13 "$HINTS$wire" chain
        run 0 -n 9 "$HINTS$wire" ring
        run 0 --map cyclic -n 8 "$HINTS$wire" ring
        rm -f "$dir/told"
        run 0 --get-timeout 0.5 -n 8 "$HINTS$wire" never time "$dir/told"
        rm -f "$dir/told"
        run 124 --timeout 3 --get-timeout 0 -n 8 "$HINTS$wire" never time "$dir/told" # without a time limit
        run 142 -n 8 "$HINTS$wire" die
        err_has "rank 1 on ${names[0]} .* died of signal 14"
        # A node is lost while all wait.
        rm -f "$dir/report"
        begin -n 8 -x NODES_MARK=$mark "$HINTS$wire" orphans "$dir/report"
        await 8 ready
        soon ranks_wait || fail "ranks do not wait for the key"
        kill -9 "$(our_agent 2)"
        end 253
        nothing_left
        # The killed agent's guard may have ended its two ranks.
        [ "$(grep -c 'ended well' "$dir/report")" -ge 5 ] || fail "$(grep -c . "$dir/report") of 5 ranks got the error for the key"
    done
    run 0 -n 4 "${HINTS}1" ring 440 : -n 4 "${HINTS}2" ring 440
}

# Waiting Gets end when the rank that could put the key has left; else by --get-timeout: the others wait too, or are in a Fence or an Ifence.
test_waiting() {
    local wire design
    for wire in 1 2; do
        run 0 --get-timeout 0.5 -n 8 "$HINTS$wire" never fenced
        run 0 --get-timeout 0.5 -n 8 "$HINTS$wire" dense nodes
        run 0 --get-timeout 0.5 -n 8 "$HINTS$wire" ifence
        for design in dkvs direct tree; do
            run 0 --timeout 20 --design $design -n 8 "$HINTS$wire" source
        done
    done
    run 0 --get-timeout 0.5 --design direct -n 16 "${HINTS}2" never all
    run 0 --get-timeout 0.5 --design tree --no-shm -n 8 "${HINTS}2" dense nodes
    run 0 --timeout 20 --get-timeout 0 --map cyclic -n 10 "${HINTS}1" never last
    run 0 --timeout 20 --design direct --map cyclic -n 10 "${HINTS}2" never last
    run 0 --stall-timeout 0 --get-timeout 0.5 -n 4 "${HINTS}1" never fenced : -n 5 "${HINTS}2" never fenced
}

# An agent is killed at some moment, from before it connects to after its end: the job ends, in one way or the other, and nothing is left.
test_moments() {
    local i victims
    RANDOM=${SEED:-1}
    for ((i = 0; i < 25; i++)); do
        begin -n 8 "$RAWPMI" hints
        sleep 0.$(printf %03d $((RANDOM % 300)))
        victims=($(our_agents))
        [ ${#victims[@]} = 0 ] || kill -9 "${victims[RANDOM % ${#victims[@]}]}" 2> /dev/null
        wait "$limit"
        got=$?
        [ $got = 253 ] || [ $got = 0 ] || fail "status $got"
        [ $got = 0 ] || err_has "is lost: "
        nothing_left
    done
}

test_spawn() {
    run 0 -n 4 -l sh -c "[ \$PMI_RANK = 2 ] && exec $RAWPMI spawn 6 $RAWPMI child -- wdir / soft 1:3; exec $RAWPMI chat 5"
    out_has '^\[2\] cmd=spawn_result rc=0'
    [ "$(grep -c '^\[1:[0-5]\] child [0-5] of 6 in /: value-of' "$dir/out")" = 6 ] || fail "6 children"
    run 0 -n 4 sh -c "[ \$PMI_RANK = 1 ] && exec $RAWPMI spawn 3 sh -c 'echo on \$MPI_LOCALRANKID/\$MPI_LOCALNRANKS' -- host ${names[2]}; exec $RAWPMI chat 5"
    [ "$(grep '^on' "$dir/out" | sort | tr '\n' ,)" = "on 0/3,on 1/3,on 2/3," ] || fail "3 children on one node"
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
}

# A spawn fails on one node while its ranks on another wait for one that has finalized: the spawn ends, not the job.
test_abandoned() {
    local victim
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
}

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

# The stand-in for ssh keeps the agents' boot line in boot.NAME, and puts a rogue between b and the head if $dir/mode asks for one.
test_hostile() {
    local address port job port_b mode
    printf 'pmirun-agent 1\nend\n' | "$PMIRUN" --agent > "$dir/out" 2> "$dir/err"
    err_has "its version differs from the head's (which sent 1, not "
    cat > "$dir/ssh" << END
#!/bin/sh
[ "\$2" = b ] && [ -s $dir/mode ] && exec $ROGUE proxy "\$(cat $dir/mode)" $dir/record "\$3"
tee "$dir/boot.\$2" | sh -c "\$3"
END
    chmod +x "$dir/ssh"
    nodes=(--hosts a,b,c,d --launch-agent "$dir/ssh")
    rogue() { "$ROGUE" "$@" 2> "$dir/rogue.err" || { echo "rogue $*: not refused" >> "$dir/rogues"; cat "$dir/rogue.err"; }; }
    # A job waits while strangers connect to its head and to an agent, and then continues.
    begin -v --node-timeout 6 -n 8 sh -c "echo ready; until [ -e $dir/go ]; do sleep 0.1; done; exec $RAWPMI pgf"
    await 8 ready
    port=$(sed -n 's/^port //p' "$dir/boot.a")
    job=$(sed -n 's/^job //p' "$dir/boot.a")
    address=$(sed -n 's/^head \([^ ]*\).*/\1/p' "$dir/boot.a")
    port_b=$(sed -n 's/.*node 1 is b, at .*:\([0-9]*\)$/\1/p' "$dir/err")
    for at in "$address $port 4294967295" "$address $port_b 1"; do
        set -- $at
        rogue "$1" "$2" garbage
        rogue "$1" "$2" cut
        rogue "$1" "$2" secret "$job" 2 "$3"
        [ "$3" = 1 ] && rogue "$1" "$2" secret "$job" 4294967295 1 # as the head
        "$ROGUE" "$1" "$2" secret 00112233445566778899aabbccddeeff 2 "$3" && fail "another job's hello was answered"
        rogue "$1" "$2" silent 3 & # --node-timeout
        rogue "$1" "$2" half &
    done
    wait $(jobs -p | grep -vx "$limit")
    rogue "$address" "$port" silent 1000
    [ ! -e "$dir/rogues" ] || fail "$(cat "$dir/rogues")"
    touch "$dir/go"
    end 0
    for who in pmirun: "pmirun on .*:"; do
        err_has "^$who a connection from .* is refused: it does not speak pmirun's protocol"
        err_has "^$who a connection from .* is refused: it left before it identified itself"
        err_has "^$who a connection from .* is refused: it does not know the job's secret"
        err_has "^$who a connection from .* is refused: it belongs to another job"
        err_has "^$who a connection from .* is refused: it did not identify itself in time"
    done
    err_has "is refused: too many unauthenticated"
    err_has "further connections are refused silently"
    grep -q "secret .*[0-9a-f]\{64\}" "$dir/err" && fail "the secret was printed"
    # An attacker between an agent and the head.
    for mode in pass replay forge; do
        echo $mode > "$dir/mode"
        run 0 -n 8 "$RAWPMI" pgf
        case $mode in
        replay)
            err_has "^pmirun: frame [0-2] from .* is refused: replayed or forged"
            err_has "^pmirun on .*: frame [0-2] from .* is refused: replayed or forged"
            ;;
        forge) err_has "^pmirun: frame 0 from .* is refused: replayed or forged" ;;
        *) err_empty ;;
        esac
    done
    echo alter > "$dir/mode"
    run 253 -n 8 "$RAWPMI" pgf
    err_has "node 1 (b) is lost: a frame was altered on its way"
    echo truncate > "$dir/mode"
    run 253 -n 8 "$RAWPMI" pgf
    err_has "node 1 (b) is lost: .*\(it closed the connection\|it is gone\)" # the head, or another agent, sees it first
    # A recorded conversation, replayed.
    cp "$dir/record" "$dir/yesterday"
    : > "$dir/mode"
    rm -f "$dir/go" "$dir/boot.a"
    begin -n 4 sh -c "echo ready; until [ -e $dir/go ]; do sleep 0.1; done; exec $RAWPMI pgf"
    await 4 ready
    rogue "$address" "$(sed -n 's/^port //p' "$dir/boot.a")" replay "$dir/yesterday"
    touch "$dir/go"
    end 0
    err_has "is refused: it belongs to another job"
    nothing_left
}

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

test_mpi() {
    local program set=()
    # for the ranks alone: in a pmirun with a sanitizer no other library may come first
    [ -z "${LD_PRELOAD_MPI:-}" ] || { set=(env "LD_PRELOAD=$LD_PRELOAD_MPI") && nodes+=(-x "LD_PRELOAD=$LD_PRELOAD_MPI"); }
    for program in hello allreduce ring; do
        run 0 -n 16 "$MPI/$program"
        out_has "^$program ok size=16\$"
        [ "$1" = srun ] && [ $program != allreduce ] && continue # ranks are placed alike, whichever program starts the agents
        run 0 -n 16 --map cyclic "$MPI/$program"
        out_has "^$program ok size=16\$"
    done
    run 0 -n 16 "$MPI/split" 4 # on each host as many as it has slots
    out_has "^split ok size=16\$"
    run 33 -n 16 "$MPI/abort" 33
    run 0 -n 16 "$MPI/mpi_exchange"
    cp "$dir/out" "$dir/ours"
    [ "$(grep -c . "$dir/ours")" = 16 ] || fail "not 16 lines"
    if [ "$1" = hosts ]; then
        timeout 100 "${set[@]}" "$HYDRA" -launcher ssh -launcher-exec "$HOST_SSH" -hosts "$HOSTS" -ppn 4 -n 16 "$MPI/mpi_exchange" > "$dir/out" 2> "$dir/err" < /dev/null ||
            fail "mpiexec.hydra: status $?"
    else
        timeout 100 "$HYDRA" -n 16 "$MPI/mpi_exchange" > "$dir/out" 2> "$dir/err" < /dev/null || fail "mpiexec.hydra: status $?"
    fi
    cmp -s "$dir/ours" "$dir/out" || { [ "$1" != hosts ] && [ "$(sed 's/ all-reduce.*//' "$dir/ours")" = "$(sed 's/ all-reduce.*//' "$dir/out")" ]; } ||
        fail "another result than mpiexec.hydra's"
}

case $group in
basic | status | output | slow | signals | loss | silent | moments | spawn | abandoned | late | unlinked | hostile | hints | waiting | big | full | huge | mpi) "test_$group" "$1" ;;
*)
    echo "unknown group $group"
    exit 1
    ;;
esac
[ $failed = 0 ] && echo "$group: $n runs, all as they should be"
exit $failed
