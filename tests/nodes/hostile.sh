#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# hostile.sh HOW: the stand-in for ssh keeps the agents' boot line in boot.NAME, and puts a rogue between b and the head if $dir/mode asks for one.
# Environment: ROGUE (rogue.c); CLIENT (tests/pmix/client.c), where there is PMIx.
. "${0%/*}/harness.sh"

printf 'pmirun-agent 1\nend\n' | "$pmirun" --agent > "$dir/out" 2> "$dir/err"
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
# The head has forgotten a job, and the agent does not know yet: a program that a rank has left behind begins PMIx, and spawns.
if [ -n "${CLIENT:-}" ]; then
    echo hold > "$dir/mode"
    cat > "$dir/leaves" << END
#!/bin/sh
(until [ -e $dir/forgotten ]; do sleep 0.1; done; $CLIENT once > $dir/late 2>&1; : > $dir/came; exec $CLIENT spawn) > /dev/null 2>&1 &
until [ -e $dir/record.hold ]; do sleep 0.1; done
END
    chmod +x "$dir/leaves"
    begin -v --mpi pmix -n 2 sh -c "[ \$PMI_RANK = 1 ] || exec $RAWPMI spawn 1 $dir/leaves -- host b; until [ -e $dir/go ]; do sleep 0.1; done"
    await 1 '^cmd=spawn_result rc=0'
    : > "$dir/record.hold"
    await 1 'job 1 is over' err
    : > "$dir/forgotten"
    soon [ -e "$dir/came" ] || fail "no late client"
    sleep 0.5 # for its spawn
    rm "$dir/record.hold"
    touch "$dir/go"
    end 0
    grep -qx 'once ok' "$dir/late" || fail "a late client: $(cat "$dir/late")"
fi
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
finish
