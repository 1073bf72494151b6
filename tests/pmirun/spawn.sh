#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# spawn.sh PMIRUN RAWPMI: PMI spawn.
. "${0%/*}/rawpmi.bash"

run 0 -n 1 -l "$raw" spawn 3 "$raw" child -- wdir / soft 1:3
out_has '^\[0\] cmd=spawn_result rc=0'
[ "$(grep -c '^\[1:[0-2]\] child [0-2] of 3 in /: value-of' "$dir/out")" = 3 ] || fail "3 children"
run 0 -n 1 "$raw" far 3 "$dir" # a Get that waits in the children's space ends when they have gone
out_has 'no such key there'
run 0 -n 1 --pmi-port "$raw" spawn 2 "${raw##*/}" child -- path "${raw%/*}"
[ "$(grep -c '^child [01] of 2' "$dir/out")" = 2 ] || fail "2 children by path"
run 0 -n 1 "$raw" spawn 2 /no/such/program
out_has 'rc=[^0]'
! grep -q 'other ranks' "$dir/err" || fail "one rank has others"
printf '\177ELF-broken' > "$dir/broken"
chmod +x "$dir/broken"
for where in '' '-N 2 --launch fork'; do
    [ -z "$where" ] || several || continue
    for program in /no/such/program "$dir/broken"; do
        run 0 $where -n 2 sh -c "[ \$PMI_RANK = 1 ] || exec $raw spawn 2 $program"
        out_has 'rc=[^0]'
        err_has 'MPI_Comm_spawn has failed: with MPI_ERRORS_RETURN its other ranks wait for ever'
    done
done
run 0 -n 1 "$raw" spawn 2 "$raw" child -- host elsewhere.example
out_has 'rc=[^0]'
err_has 'this node only'
run 0 -n 1 "$raw" spawn 2 "$raw" child -- wd /no/such
out_has 'rc=[^0]'
err_has 'no such working directory'
run 0 -n 1 "$raw" spawn 2 /etc/passwd/prog -- wd /
out_has 'rc=[^0]'
err_has '/etc/passwd/prog: Not a directory'
run 0 -n 1 "$raw" spawn 2 "$dir/broken"
out_has 'rc=[^0]'
run 4 -n 1 "$raw" spawn 1 sh -c 'exit 4'
# --max-procs: running spawned processes count, on all nodes.
for where in '' '-N 2 --launch fork'; do
    [ -z "$where" ] || several || continue
    run 0 $where --max-procs 3 -n 2 sh -c "[ \$PMI_RANK = 1 ] || exec $raw spawn 3 true"
    out_has '^cmd=spawn_result rc=0'
    run 0 $where --max-procs 3 -n 2 sh -c "[ \$PMI_RANK = 1 ] || exec $raw spawn 4 true"
    out_has '^cmd=spawn_result rc=-1 .*msg=Disk_quota_exceeded'
    err_has 'spawn by rank 0.*: cannot start 4 processes beside 0 spawned ones: the limit is 3 (--max-procs)'
    run 0 $where --max-procs 0 -n 2 sh -c "[ \$PMI_RANK = 1 ] || exec $raw spawn 1 true"
    out_has '^cmd=spawn_result rc=-1'
    run 0 $where --max-procs 5 -n 2 sh -c "[ \$PMI_RANK = 1 ] || exec $raw fill sleep 3"
    out_has '^5 were started: .*Disk.quota.exceeded'
    out_has '^and one more'
done
# A spawned rank leaves a process behind, which keeps the connection: the job ends when that is closed, and then its space is gone.
cat > "$dir/mother" << END
#!/bin/sh
ask() {
    printf "\$1" >&3
    read -r answer <&3
    echo "\$answer"
}
ask 'cmd=init pmi_version=1 pmi_subversion=1\n'
ask 'mcmd=spawn\nnprocs=1\nexecname=$dir/daughter\ntotspawns=1\nspawnssofar=1\nendcmd\n'
job=\${answer#*jobid=}
until [ -e $dir/over ]; do sleep 0.1; done
ask "cmd=get kvsname=\${job%% *} key=k\n"
ask 'cmd=finalize\n'
END
cat > "$dir/daughter" << END
#!/bin/sh
printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n' >&3
until [ -e $dir/daughter-left ]; do sleep 0.1; done > /dev/null 2>&1 &
END
chmod +x "$dir/mother" "$dir/daughter"
begin -v -n 1 "$dir/mother"
await 1 '1:0 pid [0-9]* exited with 0' err
touch "$dir/daughter-left"
await 1 'job 1 is over' err
touch "$dir/over"
wait $pid || fail "status $?"
out_has '^cmd=get_result rc=-1 msg=no_such_key-value_space'
run 2 --max-procs x -n 1 true
run 2 --max-procs -1 -n 1 true
# Job after job: ended jobs take no memory. 300 of them once took 400 KiB. GROWTH: the KiB that they may leave.
run 0 -n 1 "$raw" spawns 300 true x
read -r word kib rest < "$dir/out"
[ "$word" = grown ] && [ "$kib" -lt "${GROWTH:-200}" ] || fail "pmirun has grown by $kib KiB in 300 spawns"
run 0 -n 1 --pmi-port "$raw" spawns 150 "$raw" child
read -r word kib rest < <(grep ^grown "$dir/out")
[ "$word" = grown ] && [ "$kib" -lt "${GROWTH:-150}" ] || fail "pmirun has grown by $kib KiB in 150 spawns"
finish
