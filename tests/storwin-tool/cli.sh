#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# cli.sh STORWIN_TOOL TOOL_FILE: its commands on files that are read-only, held by a writer, damaged or something else.
set -u
tool=$1 file=$2 holder=
work=$(mktemp -d "$PWD/storwin-tool.XXXXXX") || exit 1
finish() {
    [ -z "$holder" ] || kill "$holder" 2> /dev/null
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 143' HUP INT TERM
failures=0
fail() {
    echo "FAIL: $*" >&2
    failures=$((failures + 1))
}
# gives STATUS PATTERN ARGUMENT...: standard output and error have a line that matches.
gives() {
    local want=$1 pattern=$2 status
    shift 2
    timeout 60 "$tool" "$@" > "$work/out" 2>&1 < /dev/null
    status=$?
    [ "$status" = "$want" ] || fail "$*: status $status: $(cat "$work/out")"
    grep -qE -- "$pattern" "$work/out" || fail "$*: no $pattern in: $(cat "$work/out")"
}
state=$work/state
"$file" "$state" "storage_alloc_atomic=slots;storage_alloc_generations=3;storage_alloc_version=7" 5 > /dev/null || fail "tool_file"
before=$(stat -c '%Y %s %b' "$state"; md5sum < "$state")
chmod 444 "$state"
gives 0 '^keeps at least 3 generations, version 7$' info "$state"
[ "$(sed 1d "$work/out")" = "generation 5: 100000 bytes
generation 4: 100000 bytes
generation 3: 100000 bytes" ] || fail "info: $(cat "$work/out")"
gives 0 '^generation 3: whole$' verify "$state"
[ "$(grep -c whole "$work/out")" = 3 ] || fail "verify: $(cat "$work/out")"
gives 0 '^generation 4: 100000 bytes$' --generation 4 export "$state" "$work/raw"
[ "$(tr -d 4 < "$work/raw" | wc -c) $(wc -c < "$work/raw")" = "0 100000" ] || fail "export wrote something else"
gives 1 'create .*raw' export "$state" "$work/raw"
gives 0 '^generation 5: 100000 bytes$' --hints "storage_alloc_atomic=journal" copy "$state" "$work/copy"
gives 0 '^keeps at least 2 generations, version 7$' verify "$work/copy"
[ "$(grep -c 'generation 5: whole' "$work/out")" = 1 ] || fail "verify of a copy: $(cat "$work/out")"
for hint in storage_alloc_factor=0.5 storage_alloc_factor=0 storage_alloc_factor=auto storage_alloc_unlink=true; do
    gives 0 '^generation 5: 100000 bytes$' --hints "$hint" copy "$state" "$work/whole"
    gives 0 '^generation 5: 100000 bytes$' export "$work/whole" "$work/raw5"
    [ "$(tr -d 5 < "$work/raw5" | wc -c) $(wc -c < "$work/raw5")" = "0 100000" ] || fail "$hint: a copy is not whole"
    rm -f "$work/whole" "$work/raw5"
done
gives 1 'it exists' copy "$state" "$work/copy"
gives 1 'storage_alloc_generations' --hints "storage_alloc_generations=17" copy "$state" "$work/no"
gives 2 'unknown hint x' --hints "x=1" copy "$state" "$work/no"
[ ! -e "$work/no" ] || fail "a copy that failed left a file"
[ "$(stat -c '%Y %s %b' "$state"; md5sum < "$state")" = "$before" ] || fail "the file has changed"

# Beside a writer, which continues meanwhile.
chmod 644 "$state"
mkfifo "$work/ready"
"$file" "$state" "storage_alloc_atomic=slots" 2 60000 > "$work/ready" &
holder=$!
read -r < "$work/ready"
gives 0 '^generation 7: whole$' verify "$state"
gives 0 '^generation 6: 100000 bytes$' --generation 6 export "$state" "$work/raw6"
kill "$holder"
wait "$holder" 2> /dev/null
holder=

# The newest is damaged, then an older one as well; other files.
printf oops | dd of="$state" bs=1 seek=$((3 * 65536 + 5000)) conv=notrunc status=none # area 0: generation 7
gives 1 '^generation 6: whole$' verify "$state"
gives 1 'does not match the checksum' export "$state" "$work/no"
gives 1 'ENOENT|No such file|cannot|open' info "$work/none"
gives 1 'another program' info "$tool"
gives 1 'storage_alloc_offset' --offset 7 info "$state"
gives 2 '^usage: ' info
gives 2 '^usage: ' what "$state"
gives 2 '^usage: ' --what info "$state"
gives 0 '^usage: ' --help
[ "$failures" = 0 ] && echo "all commands do what they say"
[ "$failures" = 0 ]
