#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# robust.sh PMIPROBE SOURCE_DIR: the tool ends and leaves nothing behind with every kind of peer.
set -u
probe=$1 src=$2
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
export TMPDIR=$tmp
fail() { echo "FAIL: $*"; exit 1; }
expect() { # STATUS WHAT COMMAND...
    local want=$1 what=$2 rc
    shift 2
    timeout -k 5 40 "$@" >"$tmp/out" 2>&1
    rc=$?
    [ $rc -eq "$want" ] || { cat "$tmp/out"; fail "$what: status $rc, $want expected"; }
}
one="--timeout 1 --case v1-maxes"
# shellcheck disable=SC2086 # $one is several words
{
    expect 1 "a launcher that does nothing" "$probe" server $one -- true
    expect 1 "a launcher that does not exist" "$probe" server $one -- "$tmp/nothing" -n 1
    expect 1 "a launcher that never ends and heeds no signal" \
        "$probe" server $one -- bash -c 'trap "" TERM; while :; do sleep 30; done' -- {n}
    expect 1 "a launcher that prints without end" "$probe" server $one -- yes
    expect 3 "launchers that start nothing" "$probe" server --timeout 1 -- true
    expect 2 "no launcher" "$probe" server
    expect 2 "no such case" "$probe" server --case nothing -- true
}
[ -z "$(ls "$tmp" | grep -v '^out$')" ] || fail "files are left: $(ls "$tmp")"

# A one-line server: sends bytes that are not PMI, and closes.
cat >"$tmp/odd.sh" <<'EOF'
shift # -n or a number
while [ "${1#/}" = "$1" ]; do shift; done
coproc SRV { head -c 20 >/dev/null; printf 'hello\0, this is no PMI\n%s\n' "cmd= ="; sleep 0.2; }
exec 9<>"/proc/self/fd/${SRV[0]}" 2>/dev/null
PMI_FD=${SRV[0]} PMI_RANK=0 PMI_SIZE=1 "$@"
EOF
expect 1 "a server that talks nonsense" "$probe" server --timeout 3 --reply 0.5 --case v1-maxes -- bash "$tmp/odd.sh" -n 1

# No process survives when the tool itself is killed.
"$probe" server --timeout 30 --case v1-maxes -- bash -c 'echo $$ >"$0/pid"; exec sleep 61.5' "$tmp" >/dev/null 2>&1 &
tool=$!
for _ in $(seq 600); do [ -s "$tmp/pid" ] && break; sleep 0.1; done
child=$(cat "$tmp/pid")
kill -KILL $tool
wait $tool 2>/dev/null
for _ in $(seq 600); do kill -0 "$child" 2>/dev/null || break; sleep 0.1; done
kill -0 "$child" 2>/dev/null && { kill -KILL "$child"; fail "the launcher lives on after the tool was killed"; }

# Both sides of a transcript against each other, and a side of another one.
expect 0 "a transcript played to itself" "$probe" replay "$src/two-ranks.txt" -- "$probe" play "$src/two-ranks.txt"
sed '/^S/s/value=one/value=other/' "$src/two-ranks.txt" >"$tmp/wrong.txt"
expect 1 "a transcript with another reply" "$probe" replay "$tmp/wrong.txt" -- "$probe" play "$src/two-ranks.txt"
echo 'C "no end' >"$tmp/bad.txt"
expect 2 "a malformed transcript" "$probe" replay "$tmp/bad.txt" -- true

# Maxima that leave no room in the case's own key: it sends none.
for bad in "8192 max" "0 max" "-2147483648 max" "1431655766 far-over"; do
    max=${bad% *} name=v1-key-${bad#* }
    {
        printf 'C "cmd=init pmi_version=1 pmi_subversion=1\\n"\nS "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\\n"\n'
        printf 'C "cmd=get_maxes\\n"\nS "cmd=maxes kvsname_max=256 keylen_max=%d vallen_max=1024\\n"\n' $max
        printf 'C "cmd=get_my_kvsname\\n"\nS "cmd=my_kvsname kvsname=k\\n"\nC "cmd=finalize\\n"\nS "cmd=finalize_ack\\n"\n'
    } >"$tmp/maxes.txt"
    expect 0 "$name of keylen_max=$max" env PMIPROBE_REPORT="$tmp/maxes" "$probe" replay "$tmp/maxes.txt" -- "$probe" play "$name"
    grep -q "the maximum is $max" "$tmp/maxes.0" || fail "keylen_max=$max: $(cat "$tmp/maxes.0")"
done

# A client's request that lacks a field stands in the table, although the program survives.
cat >"$tmp/lacks.sh" <<'EOF'
say() { printf '%s\n' "$1" >&"$PMI_FD" && read -r -t 20 _ <&"$PMI_FD"; }
say 'cmd=init pmi_version=1 pmi_subversion=1' && say 'cmd=get kvsname=kvs_probe_0' && say 'cmd=finalize'
EOF
expect 0 "a client that leaves a key out" "$probe" client --variation plain -- bash "$tmp/lacks.sh"
grep -q 'get: a mandatory field is missing: field "key"' "$tmp/out" || { cat "$tmp/out"; fail "a missing key was not seen"; }
expect 2 "no such variation" "$probe" client --variation nothing -- bash "$tmp/lacks.sh"
grep -q 'no variation .*nothing' "$tmp/out" || { cat "$tmp/out"; fail "no such variation: it is not named"; }
expect 2 "no such variation, in JSON" "$probe" client --json --variation nothing -- bash "$tmp/lacks.sh"

# Input without results is an error, not an empty table; too many rows are an error, not cut.
expect 2 "compare of something else" "$probe" compare "$src/two-ranks.txt"
seq -f '{"case":"c%g","peer":"p","conforms":true,"result":"ok"}' 512 >"$tmp/many.json"
expect 0 "compare of 512 cases" "$probe" compare "$tmp/many.json"
echo '{"case":"one more","peer":"p","conforms":true,"result":"ok"}' >>"$tmp/many.json"
expect 2 "compare of 513 cases" "$probe" compare "$tmp/many.json"
expect 2 "a word too many" "$probe" cases v1-maxes

"$probe" play nothing >/dev/null 2>&1 && fail "play without a server succeeds"
"$probe" dict | grep -q '^cmd_.*="cmd=kvs-put;"$' || fail "no dictionary"
"$probe" commands | grep -q '`get_maxes`' || fail "no command table"
"$probe" profiles | grep -q '^| portable ' || fail "no profiles"
exit 0
