#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# hostile.sh PMIRUN HOSTILE GROUP: a malicious PMIx client, and three others that work at the same time. Groups: see the end. $LIBPMIX is the
# version of libpmix. pmirun survives every attack, and the job succeeds, or ends with a message that gives the reason; nothing is left behind.
set -u
export LC_ALL=C
pmirun=$1 group=$3
for name in ${!HWLOC_*} ${!PMIX_*}; do unset "$name"; done
dir=$(mktemp -d) || exit 1
mkdir "$dir/tmp" && export TMPDIR=$dir/tmp
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
ln -s "$2" "$dir/hostile"
hostile=$dir/hostile
failed=0
ulimit -c 0
ulimit -v $((4 << 20)) # 4 GiB: a server that accepts all input would need more

fail() {
    echo "FAIL: $*"
    sed 's/^/    out: /' "$dir/out" | cut -c1-200 | head -30
    sed 's/^/    err: /' "$dir/err" | cut -c1-200 | head -30
    failed=1
}

out_has() { grep -q -e "$1" "$dir/out" || fail "$attack: stdout has no \"$1\""; }
err_has() { grep -q -e "$1" "$dir/err" || fail "$attack: stderr has no \"$1\""; }
marked() { grep -l -s -a "HOSTILE_MARK=$$" /proc/[0-9]*/environ; }

# attack NAME [ARGUMENT]: its status, as $status; that is not pmirun's own end by a signal, nor its --timeout.
attack() {
    attack=$1
    timeout -k 5 110 "$pmirun" --timeout 100 --max-procs 8 --mpi pmix -x HOSTILE_MARK=$$ \
        -n 1 "$hostile" "$@" : -n 3 "$hostile" work > "$dir/out" 2> "$dir/err" < /dev/null
    status=$?
    [ $status != 124 ] && [ $status != 137 ] || fail "$1: the job does not end"
    [ $status = 0 ] || grep -q '^pmirun: .*\(exited\|died\|aborted\|finalized\|closed\|answered\)' "$dir/err" ||
        fail "$1: status $status, and no message says why"
    ! grep -q 'wrong value' "$dir/out" || fail "$1: a worker has got a wrong value"
    [ -z "$(ls -A "$TMPDIR")" ] || fail "$1 has left $(ls -A "$TMPDIR")"
    [ -z "$(marked)" ] || fail "$1 has left processes: $(marked)"
}

# harmless NAME [ARGUMENT]: the others are not disturbed.
harmless() {
    attack "$@"
    [ $status = 0 ] || fail "$1: status $status, not 0"
    [ "$(grep -c '^done$' "$dir/out")" = 3 ] || fail "$1: the workers are not done"
}

test_limits() {
    harmless many 3000
    out_has '^published: 1024$'
    out_has '^publish too many keys: \(PMIX_ERR_\)\?OUT.OF.RESOURCE'
    attack large
    out_has '^publish a large value: \(PMIX_ERR_\)\?\(OUT.OF.RESOURCE\|LOST\|UNREACH\)'
    harmless some
    out_has '^publish many values that are large together: \(PMIX_ERR_\)\?OUT.OF.RESOURCE'
    out_has '^publish too many at once: \(PMIX_ERR_\)\?OUT.OF.RESOURCE'
    harmless lookup 5000
    out_has '^look a key up 256 times: \(PMIX_ERR_\)\?BAD.PARAM'
    out_has '^lookups: 4984 refused, 16 wait$'
    # libpmix's server disconnects a client that sends more than it can store.
    harmless put 1
    for mib in 4 64; do
        attack put $mib
        [ $status != 0 ] || fail "put of $mib MiB: status 0"
        err_has '^pmirun: rank 0 '
    done
    harmless spawn
    out_has '^spawn 1000 programs with many hosts: \(PMIX_ERR_\)\?OUT.OF.RESOURCE'
    out_has '^spawn too many: \(PMIX_ERR_\)\?OUT.OF.RESOURCE'
    out_has '^spawn more than may run: \(PMIX_ERR_\)\?OUT.OF.RESOURCE'
    out_has '^spawn none: \(PMIX_ERR_\)\?BAD.PARAM'
    out_has '^spawn fewer than none: \(PMIX_ERR_\)\?BAD.PARAM'
    out_has '^spawn few: \(PMIX_\)\?SUCCESS'
    err_has '1000000 processes .* the limit is 8 (--max-procs)'
}

test_others() {
    harmless fence
    for what in 'fence over a rank' 'fence over a job' 'connect to a job'; do
        out_has "^$what that is not there: "
        ! grep -q "^$what that is not there: \(PMIX_\)\?SUCCESS" "$dir/out" || fail "$what that is not there succeeds"
    done
    attack join # libpmix counts entries and does not check identities: that may end the job
    attack abort
    [ $status = 77 ] || fail "abort: status $status, not 77"
    err_has 'rank 0 .* aborted with code 77: hostile was here'
    harmless events
    attack claims # two clients that claim to be rank 2 disturb each other, and may end the job
    if [ $status = 0 ]; then
        for who in 'a rank that is not there' 'of a job that is not there'; do
            out_has "^as $who: 1$"
        done
    fi
}

test_files() {
    mkdir "$dir/mine" && echo kept > "$dir/mine/file"
    harmless files "$dir/mine"
    out_has '^have a folder removed: \(NOT-SUPPORTED\|PMIX_ERR_NOT_SUPPORTED\)'
    out_has '^kill by job control: \(NOT-SUPPORTED\|PMIX_ERR_NOT_SUPPORTED\)'
    [ "$(cd "$dir/mine" && echo *)" = file ] && [ "$(cat "$dir/mine/file")" = kept ] || fail "files: now there is: $(ls -lR "$dir/mine")"
}

test_garbage() {
    harmless garbage
    out_has '^connections: [1-9][0-9]* held$'
    if [ "${LIBPMIX%%.*}" -ge 5 ]; then # it waits for ever
        attack silent
        [ $status = 250 ] || fail "silent: status $status, not 250"
        err_has "libpmix's server has not answered for 30 s"
    else
        harmless silent
        out_has '^the server has closed the connection$'
    fi
}

# More than libpmix can wait for, one after the other.
test_silence() {
    attack silent 16
    [ $status = 250 ] || fail "silent 16: status $status, not 250"
    err_has "libpmix's server has not answered for 30 s"
}

"test_$group" "$@"
[ $failed = 0 ] && echo ok
exit $failed
