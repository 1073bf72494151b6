#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# topology.sh PMIRUN PROBE FAKE GROUP [CLIENT]: hwloc's topology, loaded once a node. PROBE is linked with hwloc, FAKE is a faulty libhwloc,
# CLIENT a PMIx client. Groups: vars, allowed, faults, pmix.
set -u
pmirun=$1 probe=$2 fake=$3 group=$4 client=${5-}
export PROBE=$probe CLIENT=$client # of shells that ranks run
. "$(dirname "$0")/hwloc.bash"

# run [argument of pmirun...]: it ends well and leaves nothing behind; its output goes to $dir/out and $dir/err
run() {
    local got
    timeout -k 5 60 "$pmirun" -v --timeout 50 "$@" > "$dir/out" 2> "$dir/err" < /dev/null
    got=$?
    [ "$got" = "${want:-0}" ] || fail "pmirun $*: status $got, not ${want:-0}"
    [ -z "$(ls -A "$TMPDIR")" ] || fail "pmirun $* has left $(ls -A "$TMPDIR")"
}

err_has() { grep -q -e "$1" "$dir/err" || fail "stderr has no \"$1\""; }
show='echo "${HWLOC_XMLFILE-none} ${HWLOC_THISSYSTEM-none} ${HWLOC_THISSYSTEM_ALLOWED_RESOURCES-none}"'

test_vars() {
    run --mpi openmpi -n 4 sh -c "$show; stat -c '%A %h' \"\$HWLOC_XMLFILE\"; head -c 99 \"\$HWLOC_XMLFILE\" | grep -c '<?xml'"
    out_has "^$TMPDIR/pmirun-.*/topology.xml 1 1\$" 4
    out_has '^-r-------- 1$' 4
    out_has '^1$' 4
    [ "$(grep -c topology.xml "$dir/out")" = 4 ] && [ "$(grep topology.xml "$dir/out" | sort -u | wc -l)" = 1 ] || fail "not one file for four ranks"
    run --mpi openmpi -n 4 "$probe"
    mv "$dir/out" "$dir/with" && mv "$dir/err" "$dir/with.err"
    run --mpi pmi -n 4 "$probe"
    cmp -s "$dir/out" "$dir/with" || fail "hwloc sees something else in the file: $(sort -u "$dir/with")"
    out_has 'here=1 bind=0' 4
    [ "$(grep -c '^xml=none' "$dir/err")" = 4 ] || fail "--mpi pmi sets HWLOC_XMLFILE"
    # No rank has discovered the topology itself.
    local with without
    with=$(sed -n 's/^xml=.*reads=//p' "$dir/with.err" | sort -n | tail -1)
    without=$(sed -n 's/^xml=.*reads=//p' "$dir/err" | sort -n | head -1)
    [ "$with" -lt "$((without / 2))" ] || fail "$with reads with the file, $without without"
    # If the user sets any of hwloc's variables, pmirun makes no file; a single rank discovers the topology itself.
    HWLOC_HIDE_ERRORS=1 run --mpi openmpi -n 2 sh -c "$show"
    out_has '^none none none$' 2
    err_has 'a variable HWLOC_\* is set'
    # pmirun prints what it has reported before it gives up, and in this order.
    HWLOC_HIDE_ERRORS=1 want=2 run --mpi openmpi --bind-to list:8191 -n 2 true
    [ "$(sed -n 's/.* variable HWLOC_\* is set$/set/p; s/.* processor 8191.*/8191/p' "$dir/err" | tr '\n' ' ')" = 'set 8191 ' ] ||
        fail "a report was lost"
    run --mpi openmpi -n 1 sh -c "$show" : -n 1 -x HWLOC_SYNTHETIC=pu:7 sh -c "$show"
    out_has '^none none none$' 2
    run --mpi openmpi -n 1 sh -c "$show"
    out_has '^none none none$' 1
    if "$pmirun" -N 1 --launch fork -n 1 true 2> "$dir/err"; then
        run --mpi openmpi -N 2 --launch fork -n 4 sh -c "$show"
        out_has '/topology.xml 1 1$' 4
        [ "$(sort -u "$dir/out" | wc -l)" = 2 ] || fail "not one file a node"
    else
        echo "left out: $(cat "$dir/err")"
    fi
}

# A rank sees the same with the file and without, and not more than it may use.
same() {
    run --mpi openmpi -n 2 "$@"
    mv "$dir/out" "$dir/with"
    grep -q '^xml=/' "$dir/err" || fail "no file"
    run --mpi pmi -n 2 "$@"
    cmp -s "$dir/out" "$dir/with" || fail "$*: hwloc sees something else in the file: $(sort -u "$dir/with")"
    out_has 'here=1 bind=0' 2
}

test_allowed() {
    local last
    last=$(sed -n 's/^Cpus_allowed_list:\t*//p' /proc/self/status | grep -o '[0-9]*$')
    same taskset -c "$last" "$probe"
    # The ranks' own control group has fewer processors than pmirun's: the file has more, the ranks see less.
    make_cpuset "$last" || return 0
    same sh -c "echo \$\$ > $cpuset/cgroup.procs && exec \"\$PROBE\""
    out_has "^allowed=$last pus=1 .*bound=$last\$" 2
    # pmirun's group has fewer, so the file has all.
    (
        echo "$BASHPID" > "$cpuset/cgroup.procs"
        run --mpi openmpi -n 2 sh -c "echo \$\$ > $controllers/cgroup.procs && exec \"\$PROBE\""
        mv "$dir/out" "$dir/with"
        run --mpi pmi -n 2 sh -c "echo \$\$ > $controllers/cgroup.procs && exec \"\$PROBE\""
        cmp -s "$dir/out" "$dir/with" || fail "a rank sees no more than pmirun may use"
        exit $failed
    ) || failed=1
}

test_faults() {
    # When pmirun cannot make the file, for any reason, ranks discover the topology themselves.
    mkdir "$dir/lib" && cp "$fake" "$dir/lib/libhwloc.so.15"
    for what in crash old none hang; do
        LD_LIBRARY_PATH=$dir/lib FAKE_HWLOC=$what run --mpi openmpi -n 2 sh -c "$show"
        out_has '^none none none$' 2
        case $what in
        crash) err_has "hwloc has crashed" ;;
        old) err_has "libhwloc.so.15 cannot be loaded" ;;
        none) err_has "hwloc does not find it" ;;
        hang) err_has "hwloc has not found it within 10 s" ;;
        esac
    done
    : > "$dir/lib/libhwloc.so.15"
    LD_LIBRARY_PATH=$dir/lib run --mpi openmpi -n 2 sh -c "$show"
    err_has 'libhwloc.so.15 cannot be loaded (apt install libhwloc15)'
    out_has '^none none none$' 2
    # No room for it.
    (
        ulimit -f 1
        trap '' XFSZ
        run --mpi openmpi -n 2 sh -c "$show"
        if [ "$(grep -c '^none none none$' "$dir/out")" = 2 ]; then err_has "its file cannot be written"; else echo "the topology fits into a KiB here"; fi
        run --mpi openmpi --bind-to core -n 2 sh -c "$show" # which needs no file
        out_has '^none none none$' 2
        exit $failed
    ) || failed=1
    # A rank corrupts the file: others discover the topology themselves. Where hwloc has its own small reader of XML alone, that crashes (hwloc
    # 2.9.0).
    if [ -e "$(ldconfig -p | sed -n 's,.* => \(.*\)/libhwloc.so.15$,\1,p' | head -1)/hwloc/hwloc_xml_libxml.so" ]; then
        run --mpi openmpi -n 2 sh -c "chmod 600 \$HWLOC_XMLFILE; head -c 2000 \$HWLOC_XMLFILE > $dir/part-\$PMI_RANK; cat $dir/part-\$PMI_RANK > \$HWLOC_XMLFILE; exec \"\$PROBE\""
        mv "$dir/out" "$dir/with"
        run --mpi pmi -n 2 "$probe"
        cmp -s "$dir/out" "$dir/with" || fail "hwloc sees something else in a file that was cut off"
    else
        echo "not tried with a file that was cut off: apt install libhwloc-plugins"
    fi
    # pmirun is killed: the file goes too.
    : > "$dir/out"
    "$pmirun" --mpi openmpi -n 2 sh -c "$show; exec sleep 1000" > "$dir/out" 2> "$dir/err" &
    local pid=$! i
    for ((i = 0; i < 300 && $(wc -l < "$dir/out") < 2; i++)); do sleep 0.1; done
    out_has '/topology.xml 1 1$' 2
    kill -9 $pid
    wait $pid 2> /dev/null
    for ((i = 0; i < 300; i++)); do [ -n "$(ls -A "$TMPDIR")" ] || break; sleep 0.1; done
    [ -z "$(ls -A "$TMPDIR")" ] || fail "a pmirun that was killed has left $(ls -A "$TMPDIR")"
}

# PMIx clients are offered it too, and libpmix takes it; a client's child processes find the file.
test_pmix() {
    run --mpi pmix -n 3 sh -c "$show; exec \"\$CLIENT\""
    out_has "^$TMPDIR/pmirun-.*/topology.xml 1 1\$" 3
    out_has 'allowed=.* here=1 shared=1 text=1$' 3
    # Where pmirun has no file for its ranks, libpmix's server discovers the topology for all.
    HWLOC_HIDE_ERRORS=1 run --mpi pmix -n 2 sh -c "$show; exec \"\$CLIENT\""
    out_has '^none none none$' 2
    out_has 'allowed=.* here=1 shared=1 text=1$' 2
}

"test_$group"
[ $failed = 0 ] && echo "ok"
exit $failed
