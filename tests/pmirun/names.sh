#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# names.sh PMIRUN RAWPMI: shared memory that has a name, and a pmirun that is killed.
. "${0%/*}/rawpmi.bash"

# pmiruns of other tests clean up too: with a /dev/shm of our own they do not see our files.
for own in -m -rm; do
    [ -z "${OWN_SHM:-}" ] && unshare $own mount -t tmpfs tmpfs /dev/shm 2> /dev/null || continue
    OWN_SHM=$own unshare $own sh -c 'mount -t tmpfs tmpfs /dev/shm && exec "$@"' sh bash "$0" "$pmirun" "$raw"
    exit
done
named() { sed -n 's/.*\(\/dev\/shm\/pmirun-[0-9a-f-]*\/[0-9a-f]*\)$/\1/p' "/proc/$1/maps" | head -1; }
gone_name() { [ ! -e "$1" ] && [ ! -e "${1%/*}" ]; }
begin_named() {
    begin --pmi-port -n 1 sh -c "echo up; exec sleep 600"
    await 1 up
}
begin_named
name=$(named $pid)
[ -e "$name" ] || fail "no name: \"$name\""
kill -9 $pid
wait $pid 2> /dev/null
soon gone_name "$name" || fail "the name is left behind"
# Its guard is killed with it: the next pmirun cleans up.
begin_named
live=$(named $pid) pid_live=$pid
begin_named
name=$(named $pid)
kill -9 "$(pgrep -P $pid -x job-guard)" $pid
wait $pid 2> /dev/null
[ -e "$name" ] || fail "what was this test to be about?"
run 0 -n 1 "$raw" pgf
[ -e "$name" ] || fail "without --pmi-port it is nobody's matter"
run 0 -v --pmi-port -n 1 "$raw" pgf
gone_name "$name" || fail "left behind"
err_has "${name%/*} was left behind by a pmirun that was killed: removed"
[ -e "$live" ] || fail "the name of one that lives was removed"
kill $pid_live
wait $pid_live 2> /dev/null
gone_name "$live" || fail "a pmirun that ends leaves its name"
finish
