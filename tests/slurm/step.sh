#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# step.sh serves|refuses|ends|drained|early[.cgroup]|killed[.cgroup] PLUGIN PMIRUN RAWPMI LIBRARIES PROGRAMS ONE_HIERARCHY
#
# Steps of `srun --fencepost` on a cluster of four nodes on loopback.
#   serves   clients of PMI-1, PMI-2 and MPI; without the option none of our programs runs; the agent is the user's process
#   refuses  values of the option and of the environment; a plugin that cannot start its pmirun
#   ends     ranks that end badly: the step ends, and leaves nothing
#   early    ranks of some nodes that end long before the others
#   drained  a node that is drained, and one that goes down
#   killed   a cancelled step; killed srun, head, agent and slurmstepd: the step ends, and leaves nothing
# .cgroup: with proctrack/cgroup and cgroup/v2. With AddressSanitizer in the plugin, srun, slurmd and slurmstepd have it too.
set -u
export LC_ALL=C
[ $# = 7 ] || { sed -n 's/^# \(step.sh .*\)/usage: \1/p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${STEP_DIR-}" ]; then # plugstack.conf takes no blanks in a path, and other users must get there
    dir=$(mktemp -d) || exit 1
    trap 'rm -rf "$dir"' EXIT
    trap 'exit 1' HUP INT TERM
    chmod 755 "$dir"
    nodes=4 inside=()
    case $1 in
    drained) nodes=6 ;;
    *.cgroup) inside=(env CLUSTER_CGROUP=2 "$here/in_cgroup" "$dir/one_hierarchy.so") && cp "$7" "$dir/one_hierarchy.so" ;; # LD_PRELOAD takes no blanks
    esac
    asan=$(ldd "$2" | sed -n 's/.*libasan.* => \([^ ]*\) .*/\1/p')
    if [ -n "$asan" ]; then
        mkdir -m 1777 "$dir/asan" || exit 1
        export CLUSTER_PRELOAD=$asan STEP_ASAN=$asan ASAN_OPTIONS="detect_leaks=0:log_path=$dir/asan/log"
    fi
    STEP_DIR=$dir "${inside[@]}" "$here/../interop/slurm/cluster" run -N $nodes "$dir/cluster" -- \
        salloc -Q -w 'n[0-3]' -N 4 --ntasks-per-node=8 bash "$0" "$@" &
    trap 'kill -TERM $!; wait; exit 1' HUP INT TERM
    wait $!
    exit $?
fi
unset SLURM_NTASKS_PER_NODE # of the allocation, not of steps
dir=$STEP_DIR group=${1%.cgroup} programs=$6
outside=(env -i "PATH=$PATH" "SLURM_CONF=$SLURM_CONF" ${ASAN_OPTIONS:+"ASAN_OPTIONS=$ASAN_OPTIONS"}) # our allocation
srun=(env ${STEP_ASAN:+"LD_PRELOAD=$STEP_ASAN"} srun --overlap)
cp "$2" "$dir/fencepost.so" && cp "$3" "$dir/pmirun" && cp "$4" "$dir/rawpmi" && cp -L "$5"/lib*.so.0 "$dir" || exit 1
plugstack=$(dirname "$SLURM_CONF")/plugstack.conf
failed=0 n=0
mark=$(($$ + 100000)).25 # a sleep of a length that no other test uses

plug() { # [pmirun]
    echo "required $dir/fencepost.so pmirun=${1-$dir/pmirun} libpmi=$dir/libpmi.so.0 munge=$(dirname "$SLURM_CONF")/munge/run/socket" > "$plugstack"
}
fail() {
    echo "FAIL: $*"
    sed 's/^/    out: /' "$dir/out" 2> /dev/null | cut -c1-200 | head -20
    sed 's/^/    err: /' "$dir/err" 2> /dev/null | cut -c1-200 | head -20
    failed=1
}
# step STATUS ARGUMENT...: of srun; its output goes to $dir/out and $dir/err
step() {
    local want=$1 got
    shift
    n=$((n + 1))
    timeout -k 5 100 "${as[@]}" "${srun[@]}" "$@" > "$dir/out" 2> "$dir/err" < /dev/null
    got=$?
    is_status "$got" "$want" || fail "srun $*: status $got, not $want"
    [ -z "${STEP_TIMES-}" ] || echo "$SECONDS s: $*" | cut -c1-150
}
is_status() { [ "$1" = "$2" ] || { [ "$2" = bad ] && [ "$1" != 0 ] && [ "$1" != 124 ]; }; } # bad: none of the ranks', and no limit of time
as=()
begin() { # ARGUMENT...: in the background; done_with STATUS
    n=$((n + 1))
    timeout -k 5 100 "${as[@]}" "${srun[@]}" "$@" > "$dir/out" 2> "$dir/err" < /dev/null &
    limit=$!
}
done_with() {
    local got
    wait "$limit"
    got=$?
    is_status "$got" "$1" || fail "$what: status $got, not $1"
}
out_has() { grep -q -e "$1" "$dir/out" || fail "stdout has no \"$1\""; }
err_has() { grep -q -e "$1" "$dir/err" || fail "stderr has no \"$1\""; }
err_empty() { [ ! -s "$dir/err" ] || fail "stderr is not empty"; }
soon() { # COMMAND...: whether it succeeds within 80 seconds, which are less than a step's limit
    local end=$((SECONDS + 80))
    until "$@"; do
        [ $SECONDS -lt $end ] || return
        sleep 0.1
    done
}
stepds() { # of our steps: those that have our plugin; from Slurm 24.11 on their environment cannot be read
    local p
    for p in $(pgrep -f '^slurmstepd: \[[0-9]*\.[0-9]*\]'); do
        grep -qF " $dir/fencepost.so" "/proc/$p/maps" 2> /dev/null && echo "$p"
    done
}
in_cgroups() { [ "${CLUSTER_CGROUP-}" != 2 ] || find /sys/fs/cgroup -path '*/step_[0-9]*/cgroup.procs' -exec cat {} + 2> /dev/null; } # processes
no_step() { [ -z "$(stepds)$(in_cgroups)" ]; }
no_process() { ! pgrep -f "^($dir/(pmirun|rawpmi)|sleep $mark)" > /dev/null; }
nothing_left() {
    soon no_process || fail "$1: left behind: $(pgrep -af "^$dir/|^sleep $mark")"
    soon no_step || fail "$1: left behind: slurmstepd $(stepds), in cgroups $(in_cgroups)"
}

serves() {
    local value
    # Without the option: srun does not list it, and a rank has no PMI.
    : > "$plugstack"
    step bad --fencepost -n 1 true
    plug
    step 0 -N 4 -n 4 sh -c "echo fd=\${PMI_FD-none}; pgrep -f '^$dir/pmirun'; true"
    [ "$(sort -u "$dir/out")" = fd=none ] || fail "without the option"
    err_empty

    # The drop-ins, Gets from the table and by socket.
    for value in "" =shm =no-shm; do
        for wire in 1 2; do
            LD_LIBRARY_PATH=$dir step 0 -N 4 -n 8 --fencepost$value "$programs/who_answers" $wire
            case $value in =no-shm) out_has '^answered by socket$' ;; *) out_has '^answered by shm$' ;; esac
            err_empty
        done
    done
    # Both wires, names, hints, Ring; ranks dealt to the nodes in turn; on one node; through a list of variables.
    step 0 -N 4 -n 8 -m cyclic --fencepost "$programs/client_session" --wire 1 --names --pipeline
    step 0 -N 4 -n 8 --fencepost "$programs/client_session" --wire 2 --names --node --ring --pipeline
    step 0 -N 4 -n 8 --fencepost "$dir/rawpmi" hints
    LD_LIBRARY_PATH=$dir step 0 -N 1 -n 3 --fencepost --export=LD_LIBRARY_PATH "$programs/who_answers" 2
    out_has '^answered by shm$'
    # MPICH and Open MPI.
    step 0 -N 2 -n 4 --fencepost "$programs/hello" 4
    out_has '^hello ok size=4$'
    step 0 -N 2 -n 4 -m cyclic --fencepost=no-shm "$programs/ring"
    out_has '^ring ok size=4$'
    if [ -z "${STEP_ASAN-}" ]; then # Open MPI would load our libpmi, and has no sanitizer
        step 0 -N 1 -n 2 --fencepost "$programs/hello_openmpi" 2
        out_has '^hello ok size=2$'
        OMPI_MCA_btl=self,tcp step 0 -N 2 -n 2 --fencepost "$programs/hello_openmpi" 2 # its shared memory has names per host, and all nodes are one host
        out_has '^hello ok size=2$'
    fi
    # No rank has the secret, and the agent has the user's ids and groups.
    as=("${outside[@]}" setpriv --reuid=65534 --regid=65534 --clear-groups)
    step 0 -D / -N 2 -n 2 --fencepost sh -c "env | grep SLURM_FENCEPOST; for p in \$(pgrep -f '^$dir/pmirun --agent'); do
        grep -h -e '^Uid' -e '^Gid' -e '^Groups' /proc/\$p/status; [ ! -r /proc/\$p/environ ] || echo \$p: can be traced; done; sleep 1"
    as=()
    ! grep -q -v -e '^Uid:.65534.65534.65534.65534$' -e '^Gid:.65534.65534.65534.65534$' -e '^Groups:.65534 $' "$dir/out" && out_has '^Uid' || fail "agents of nobody"
    nothing_left serves
}

refuses() {
    plug
    for value in bad shm,no-shm SHM "shm no-shm" "$(printf '%1000s' x)"; do
        step bad -n 2 "--fencepost=$value" "$dir/rawpmi" pgf
        err_has '^srun: error: --fencepost takes nothing, shm or no-shm, not "'
    done
    for value in '--hosts a,b' '--' 'a.out' '--unknown' '--stall-timeout x' '-n' "$(printf -- '-v %.0s' {1..65})"; do
        FENCEPOST_OPTIONS=$value step bad -n 2 --fencepost "$dir/rawpmi" pgf
        err_has 'pmirun: \|FENCEPOST_OPTIONS has more than'
    done
    # Several components: two of this allocation, of a new one, and one command for both.
    for value in '-n 1 --fencepost true : -n 1 true' '-n 1 true : -n 1 --fencepost true' '--fencepost --het-group=0,1 -n 1 true'; do
        step bad $value # is a list of words
        err_has 'error: --fencepost cannot serve a step of several components'
    done
    as=("${outside[@]}")
    step bad -n 1 --fencepost true : -n 1 true
    err_has 'error: --fencepost cannot serve a step of several components'
    as=()
    sed -i 's/required/optional/' "$plugstack" # then Slurm ignores the refusal
    step bad -n 1 --fencepost sleep "$mark" : -n 1 --fencepost sleep "$mark"
    err_has 'error: --fencepost cannot serve a step of several components'
    err_has 'fencepost: node 0: no SLURM_FENCEPOST from srun'
    plug
    FENCEPOST_OPTIONS="$(printf -- '-l %.0s' {1..62}) --timeline $dir/job.json" step 0 -n 2 --fencepost=no-shm "$dir/rawpmi" pgf
    grep -q '"fence' "$dir/job.json" || fail "no timeline"
    MPIEXEC_TIMEOUT=abc step bad -n 2 --fencepost "$dir/rawpmi" pgf
    err_has 'pmirun: MPIEXEC_TIMEOUT'
    SLURM_FENCEPOST=$(printf '%200000s' x | head -c 100000) step 0 -n 2 --fencepost "$dir/rawpmi" pgf # srun sets it
    step 0 -n 2 --export=ALL,SLURM_FENCEPOST=MUNGE:nonsense: --fencepost "$dir/rawpmi" pgf
    # A pmirun that is missing, is another program, is missing on the nodes, or ends there; a missing munged.
    plug /nonexistent/pmirun
    step bad -n 2 --fencepost "$dir/rawpmi" pgf
    err_has 'cannot start /nonexistent/pmirun'
    sed -i 's/required/optional/' "$plugstack"
    step bad -n 2 --fencepost "$dir/rawpmi" pgf
    err_has 'fencepost: node 0: no SLURM_FENCEPOST from srun'
    plug /bin/true
    step bad -n 2 --fencepost "$dir/rawpmi" pgf
    err_has '/bin/true does not start'
    printf '#!/bin/sh\n[ "$1" = --step ] || { [ ! -e "%s/begins" ] || echo; exit 3; }\n[ ! -e "%s/once" ] || rm "$0"\nexec "%s/pmirun" "$@"\n' "$dir" "$dir" "$dir" > "$dir/shim"
    chmod 755 "$dir/shim"
    plug "$dir/shim"
    local begun=$SECONDS
    step bad -N 2 -n 2 --fencepost sleep "$mark"
    err_has 'fencepost: node [01]: the agent ends before it has begun, or does not begin: .*/shim: No such process'
    [ $((SECONDS - begun)) -lt 40 ] || fail "an agent that ends at once is noticed after $((SECONDS - begun)) s"
    touch "$dir/begins"
    FENCEPOST_OPTIONS='--start-timeout 1' step bad -N 2 -n 2 --fencepost sleep "$mark"
    err_has 'no answer within 1 s'
    err_has 'its PMI server has ended: ending the step'
    touch "$dir/once"
    step bad -N 2 -n 2 --fencepost sleep "$mark"
    err_has 'fencepost: node 1: the agent cannot be executed: .*/shim: No such file or directory'
    plug
    sed -i 's/munge=.*/munge=\/nonexistent/' "$plugstack"
    step bad -n 2 --fencepost "$dir/rawpmi" pgf
    err_has 'MUNGE refuses'
    plug
    sed -i 's/$/ wrong=1/' "$plugstack"
    step bad -n 1 true
    err_has 'plugstack.conf: "wrong=1" is not one of'
    # What the plugin alone calls, called by hand.
    for value in 'x 0:0' '0 0' '0 0:99' '0 0:0,' '0 :0' '0 0:0x' '0 -1:0' '0 99999999999:0'; do
        "$dir/pmirun" --agent $value > "$dir/out" 2> "$dir/err" < /dev/null
        [ $? = 2 ] || fail "pmirun --agent $value"
        err_has 'its arguments are not NODE RANK:DESCRIPTOR'
    done
    for value in '-n 1' '--launch fork --hosts a -n 1' '--launch fork --pmi-port -n 1' '--launch fork -n 1 true :'; do
        "$dir/pmirun" --step $value true > "$dir/out" 2> "$dir/err" < /dev/null
        [ $? = 2 ] || fail "pmirun --step $value"
        err_has 'srun starts the ranks of a step: give options that start or place ranks'
    done
    true | timeout 60 "$dir/pmirun" --step --launch fork -n 2 true > "$dir/out" 2> "$dir/err" # srun is gone
    [ $? = 129 ] || fail "pmirun --step without srun"
    nothing_left refuses
}

run_all() { # 8 ranks, and their servers
    [ "$(pgrep -fc "^$dir/rawpmi")" = 8 ] && [ "$(pgrep -fc "^$dir/pmirun --agent")" = 4 ] && [ "$(stepds | wc -l)" = 4 ]
}
first() { head -n 1; }
step_of() { tr '\0' ' ' < "/proc/$(first)/cmdline" | sed 's/.*\[\(.*\)\].*/\1/'; } # JOB.STEP of the first of these processes
pipes() { # GLOB: of the processes read from stdin
    local p
    while read -r p; do
        readlink /proc/$p/fd/$1 # splits no word, expands the pattern
    done | grep '^pipe:' | sort -u
}
shared_pipes() { # beside the agents' stdin
    comm -12 <(pgrep -f "^$dir/pmirun --agent" | pipes '[1-9]*') <(stepds | pipes '*')
}
no_shared_pipe() { [ -z "$(shared_pipes)" ]; }

ends() {
    plug
    step 3 -N 4 -n 4 --fencepost "$dir/rawpmi" exit 3 early
    err_has 'exited with status 3'
    step 251 -n 1 --fencepost "$dir/rawpmi" exit 0 inited # srun's own would be 0
    step bad -N 4 -n 4 --fencepost sh -c "[ \$PMI_RANK = 2 ] || exec '$dir/rawpmi' pgf; exec '$dir/rawpmi' exit 5 inited"
    err_has 'rank 2 .* exited with status 5 after PMI init, without finalize'
    step bad -N 4 -n 4 --fencepost sh -c "[ \$PMI_RANK = 1 ] || exec '$dir/rawpmi' pgf; exec '$dir/rawpmi' die 9 inited"
    err_has 'rank 1 .* died of signal 9 (Killed), as when Slurm cancels the step or its time is over'
    step bad -N 4 -n 4 --fencepost sh -c "[ \$PMI_RANK = 3 ] || exec '$dir/rawpmi' pgf; exit 0" # never joins: the others wait for it
    err_has 'rank 3 .* has ended without PMI init'
    step bad -N 4 -n 4 --fencepost sh -c "[ \$PMI_RANK = 0 ] || exec '$dir/rawpmi' pgf; exec '$dir/rawpmi' abort 7"
    err_has 'rank 0 .* aborted with code 7'
    step 0 -N 1 -n 2 --fencepost "$dir/rawpmi" spawn 1 /bin/true
    err_has 'not possible in a step of Slurm'
    step 0 -N 4 -n 4 --fencepost true
    # More than a socket's buffer would hold lines about; output that is read long after the ranks have ended.
    step 0 -N 1 -n 320 -O --fencepost true
    err_empty
    n=$((n + 1))
    timeout -k 5 100 "${srun[@]}" -N 1 -n 1 --fencepost sh -c "head -c 1000000 /dev/zero; exit 3" 2> "$dir/err" < /dev/null | (sleep 8; wc -c) > "$dir/out"
    is_status "${PIPESTATUS[0]}" 3 || fail "a slow reader: not status 3"
    out_has '^1000000$'
    ! grep -q 'ending the step' "$dir/err" || fail "a slow reader"
    nothing_left ranks
}

one_rank() { # the others have ended, but not all of their agents
    [ "$(pgrep -fc "^sleep $mark")" = 1 ] && ! pgrep -f "^$dir/rawpmi" > /dev/null
}
early() {
    plug
    step 0 -N 4 -n 8 --fencepost sh -c "'$dir/rawpmi' pgf && { [ \$PMI_RANK != 0 ] || sleep 3; }"
    err_empty
    nothing_left early
    step 0 -N 2 -n 2 --fencepost sh -c "sed 's/^/agent:/' \$(pgrep -f '^$dir/pmirun --agent' | sed 's,.*,/proc/&/cgroup,')"
    [ "${CLUSTER_CGROUP-}" != 2 ] || out_has '^agent:0::/.*/job_[0-9]*/step_[0-9]*/slurm$'
    # A failure, or a rank that others wait for, is reported; a cancelled step ends.
    step 5 -N 4 -n 4 --fencepost sh -c "'$dir/rawpmi' pgf; [ \$PMI_RANK = 3 ] && sleep 1 && exit 5; exit 0"
    step bad -N 4 -n 4 --fencepost sh -c "[ \$PMI_RANK = 2 ] || exit 0; sleep 1; exec '$dir/rawpmi' pgf"
    err_has ' has ended without PMI init'
    # A process that holds the agent's pipe does not delay slurmstepd.
    what='early, pipe held'
    nothing_left 'before it'
    begin -N 1 -n 2 --fencepost sh -c "until [ -e '$dir/go' ]; do sleep 0.1; done; exec '$dir/rawpmi' pgf"
    soon agents 1 || fail "$what: $(pgrep -af "^$dir/")"
    exec 9< "/proc/$(pgrep -f "^$dir/pmirun --agent" | first)/fd/0" || fail "$what"
    touch "$dir/go"
    done_with 0
    nothing_left "$what"
    exec 9<&-
    what='early, cancelled'
    begin -N 4 -n 4 --fencepost sh -c "'$dir/rawpmi' pgf && { [ \$PMI_RANK != 1 ] || exec sleep $mark; }"
    soon one_rank || fail "$what: $(pgrep -af "^$dir/|^sleep $mark")"
    sleep 1 # time for slurmstepd to learn of the others' ends
    [ -z "$(stepds)" ] || scancel "$(stepds | step_of)"
    done_with bad
    nothing_left "$what"
}

agents() { [ "$(pgrep -fc "^$dir/pmirun --agent")" = "$1" ]; }
is_state() { sinfo -h -n "$1" -o %T | grep -qx "$2"; }
drained() { # in jobs of their own, on two nodes outside our allocation; -Q: srun may have to queue for them, and would print that
    plug
    as=("${outside[@]}") what=drained
    begin -Q -w 'n[4-5]' -N 2 -n 4 --fencepost sh -c "until [ -e '$dir/go' ]; do sleep 0.1; done; exec '$dir/rawpmi' pgf"
    soon agents 2 || fail "$what: $(pgrep -af "^$dir/")"
    scontrol update nodename='n[4-5]' state=drain reason=test || fail scontrol
    touch "$dir/go"
    done_with 0 # a running step continues
    err_empty
    nothing_left $what
    soon is_state n4 drained && soon is_state n5 drained || fail "states: $(sinfo -N)"
    step bad -w n4 -n 1 --immediate=1 --fencepost true
    nothing_left 'on a drained node'
    scontrol update nodename='n[4-5]' state=resume 2> /dev/null # unless it has come back by itself
    soon is_state n4 idle && soon is_state n5 idle || fail "states: $(sinfo -N)"
    what=down
    begin -w 'n[4-5]' -N 2 -n 4 --fencepost "$dir/rawpmi" sleep
    soon agents 2 || fail "$what: $(pgrep -af "^$dir/")"
    scontrol update nodename=n5 state=down reason=test || fail scontrol
    done_with bad
    nothing_left $what
    scontrol update nodename=n5 state=resume 2> /dev/null # unless it has come back by itself
    soon is_state n4 idle && soon is_state n5 idle || fail "states: $(sinfo -N)"
    step 0 -Q -w 'n[4-5]' -N 2 -n 4 --fencepost "$dir/rawpmi" pgf
    err_empty
}

killed() { # while ranks that have finalized sleep
    local victim
    plug
    for victim in scancel srun head agent slurmstepd; do
        what=$victim
        begin -N 4 -n 8 --fencepost "$dir/rawpmi" sleep
        if ! soon run_all || ! soon no_shared_pipe; then
            fail "$victim: $(pgrep -af "^$dir/"); pipes of slurmstepd that agents hold: $(shared_pipes)"
            kill "$limit"
            return
        fi
        case $victim in
        scancel) scancel "$(stepds | step_of)" ;;
        srun) kill -9 "$(pgrep -P "$limit" -x srun)" ;;
        head) kill -9 "$(pgrep -f "^$dir/pmirun --step")" ;;
        agent) kill -9 "$(pgrep -f "^$dir/pmirun --agent" | first)" ;;
        slurmstepd) kill -9 "$(stepds | first)" ;;
        esac
        done_with bad
        case $victim in
        head) err_has 'its PMI server died of signal 9' ;;
        agent) err_has 'is lost: ' ;;
        slurmstepd) err_has 'slurmstepd has ended before 2 of its 2 tasks' ;;
        esac
        nothing_left "$victim"
    done
    # The next step runs normally.
    step 0 -N 4 -n 8 --fencepost "$dir/rawpmi" pgf
    err_empty
}

$group
for log in "$dir"/asan/*; do
    [ ! -e "$log" ] || { failed=1 && head -n 40 "$log"; }
done
[ $failed = 0 ] && echo "$group: $n steps"
exit $failed
