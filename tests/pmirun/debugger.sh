#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# debugger.sh PMIRUN RAWPMI: MPIR, as a parallel debugger uses it: gdb attaches to pmirun, or starts it, and reads the table of the ranks.
. "${0%/*}/rawpmi.bash"

command -v gdb > /dev/null || { echo "skip: gdb is not installed" && exit 77; }
# debug ARGUMENT...: gdb's words go to $dir/gdb
debug() { timeout 100 gdb -nx -q -batch -iex 'set debuginfod enabled off' "$@" < /dev/null > "$dir/gdb" 2>&1; }
cat > "$dir/table" << 'END'
printf "state %d, %d ranks\n", MPIR_debug_state, MPIR_proctable_size
set $i = 0
while $i < MPIR_proctable_size
    printf "rank %d: %s %s %d\n", $i, MPIR_proctable[$i].host_name, MPIR_proctable[$i].executable_name, MPIR_proctable[$i].pid
    set $i = $i + 1
end
END
gdb_has() { grep -q -e "$1" "$dir/gdb" || { fail "gdb prints no \"$1\""; sed 's/^/    gdb: /' "$dir/gdb" | head -20; }; }
table_is() { # HOST PROGRAM: of $dir/out, whose lines are "RANK PID"
    gdb_has "^state 1, 3 ranks$"
    while read -r rank rank_pid; do gdb_has "^rank $rank: $1 $2 $rank_pid$"; done < "$dir/out"
}

show='echo $PMI_RANK $$ && exec sleep 60'
begin -n 3 sh -c "$show"
await 3 '^[0-2] [0-9]*$'
debug -p "$pid" -x "$dir/table"
! grep -q 'ptrace: Operation not permitted' "$dir/gdb" || { echo "skip: no process may be traced here" && exit 77; }
table_is "$(hostname)" "$(command -v sh)"
kill "$pid"
wait "$pid"
if several; then
    begin -N 3 --launch fork -n 3 sh -c "$show"
    await 3 '^[0-2] [0-9]*$'
    debug -p "$pid" -x "$dir/table"
    table_is 'node[0-2]' sh
    kill "$pid"
    wait "$pid"
fi
# Started by the debugger: the table is complete at the breakpoint, and MPICH's ranks wait for the debugger.
debug -ex start -ex 'set MPIR_being_debugged = 1' -ex 'break MPIR_Breakpoint' -ex continue -x "$dir/table" -ex continue --args "$pmirun" -n 3 sh -c 'echo debug ${MPIEXEC_DEBUG-no}'
gdb_has '^state 1, 3 ranks$'
[ "$(grep -c '^debug 1$' "$dir/gdb")" = 3 ] || { fail "ranks do not wait for a debugger"; sed 's/^/    gdb: /' "$dir/gdb" | head -20; }
[ -z "${MPIEXEC_DEBUG-}" ] && run 0 -n 1 sh -c 'echo ${MPIEXEC_DEBUG-no}' && out_is no
finish
