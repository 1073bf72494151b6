#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# cli.sh RANKMAP_EXPLAIN JSON_CHECK: its output, in both forms, and its messages for invalid input.
set -u
explain=$1 json=$2
failures=0
fail() {
    echo "FAIL: $*" >&2
    failures=$((failures + 1))
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 143' HUP INT TERM

# prints PATTERN ARGUMENT...: stdout has a line that matches, stderr is empty, status is 0.
prints() {
    local pattern=$1
    shift
    "$explain" "$@" >"$work/out" 2>"$work/err" </dev/null || fail "$*: status $?: $(cat "$work/err")"
    [ ! -s "$work/err" ] || fail "$*: stderr: $(cat "$work/err")"
    grep -qE -- "$pattern" "$work/out" || fail "$*: no line matches \"$pattern\" in: $(cat "$work/out")"
}

# says MESSAGE STATUS ARGUMENT...: that message alone on stderr, nothing on stdout; stdin is $input.
input=
says() {
    local message=$1 expected=$2 status
    shift 2
    printf '%b' "$input" | "$explain" "$@" >"$work/out" 2>"$work/err"
    status=$?
    [ "$status" -eq "$expected" ] || fail "$*: status $status, not $expected"
    [ ! -s "$work/out" ] || fail "$*: stdout: $(cat "$work/out")"
    [ "$(head -n 1 "$work/err")" = "rankmap-explain: $message" ] || fail "$*: says \"$(cat "$work/err")\", not \"$message\""
}

# ---- Lists ----
prints '^  librankmap +16 bytes  stride,' 0-98:2
prints '^  librankmap +16 bytes  direct,' 0-9
prints '^  librankmap +16 bytes  offset,' 10 11, 12
prints '^  librankmap +16 bytes  stride,' 9-0
prints '^  librankmap +16 bytes  stride,' 9-1:-4
prints '^  ids 9 5 1$' 9-1:-4
prints '^  ids 9 5 1$' 9-1:4
prints '^  plain table +24 bytes  64 bits a rank$' 4294967295,4294967296,8589934592
prints '^  plain table +12 bytes  32 bits a rank$' 4294967293,4294967294,4294967295
prints '^  MPICH 4.0 +24 bytes  mlut$' 4294967295,4294967296,8589934592
prints '^  librankmap +40 bytes  blockstride,' 0-1 8-9 16-17 24,25 32-33
prints '^  offset 0; 2 ranks \+1 apart, then \+8 apart$' 0-1 8-9 16-17 24,25 32-33
prints '^  MPICH 4.0 +12 bytes  stride_block$' 0-1 8-9 16-17 24,25 32-33
prints '^  plain table +200 bytes' 0-98:2
prints '^  Open MPI +400 bytes' 0-98:2
prints '^  ids 1099511627775 0$' 1099511627775,0
printf '0-3 # the first node\n\n8-11\t# the third\n' >"$work/list"
prints '^  ids 0 1 2 3 8 9 10 11$' -f "$work/list"
"$explain" <"$work/list" | grep -qx '  ids 0 1 2 3 8 9 10 11' || fail "a list on stdin"
"$explain" -f - <"$work/list" | grep -qx '  ids 0 1 2 3 8 9 10 11' || fail "a list on stdin, as -"

says "argument:1:5: expected a number at byte 4, not 'x'" 2 1 2 x
says "argument:1:2: expected a comma or a blank at byte 1, not '.'" 2 1.5
says "argument:1:1: expected a number at byte 0, not '-'" 2 -- -3
says "argument:1:3: expected a number at byte 2, not ','" 2 1,,2
says 'argument:1:3: expected a number at byte 2, not the end' 2 1,
says 'argument:1:5: expected the last number of a range at byte 4, not the end' 2 3 4-
says 'argument:1:5: expected a stride at byte 4, not the end' 2 4-8:
says 'argument:1:6: a stride that is 0 or too large before byte 5' 2 4-8:0
says 'argument:1:6: a negative stride of a range that ascends before byte 5' 2 4-8:-2
says 'argument:1:6: a negative stride of a range that ascends before byte 5' 2 5-6:-1
says "argument:1:6: expected a stride at byte 5, not '-'" 2 8-4:--2
says 'argument:1:3: range 1, from 1099511627776 to 1099511627776 by 1, leaves the ids below 1099511627776' 2 0 1099511627776
says 'argument:1:21: an id that is too large before byte 20' 2 18446744073709551616
says 'argument:1:1: more than 16777216 ranks' 2 0-16777216
says 'argument:1:10: ranges 1 and 2 both have id 6' 2 0-3,4-9, 6
says 'argument:1:1: there are no ranks' 2 ''
input='0-3\n5 # fine\n7,\n  2\n'
says 'stdin:4:3: ranges 0 and 3 both have id 2' 2
input='1\00002\n'
says 'stdin:1:2: expected a comma or a blank at byte 1, not byte 0x00' 2
input='\n\n'
says 'stdin:1:1: there are no ranks' 2
input=
says "$work/none: No such file or directory" 1 -f "$work/none"

# ---- Generators ----
prints '^nwchem 768x1024: 786432 processes$' nwchem 768x1024
prints '^column$' nwchem 768x1024
prints '^dup of the world \(64 of them\)$' nwchem 768x1024
prints '^  offset 512; \+1024 apart$' --no-picture nwchem 768x1024
prints '^dup of the world \(86 of them\)$' nek5000 86
prints '^  MPICH main +6291456 bytes  map$' cart-reorder
prints '^  librankmap +104 bytes  md-blockstride,' cart-reorder
prints '^all communicators of a process$' lsms
says 'nek5000: "many" is not a number (the number of duplicates)' 2 nek5000 many
says 'argument: no generator "nek5001"; --list shows them' 2 nek5001 3
"$explain" --list >"$work/list" || fail "--list"
[ "$(wc -l <"$work/list")" -eq 41 ] || fail "--list has $(wc -l <"$work/list") lines"

# ---- Mappings ----
prints '^node of each rank$' '(vector,(0,4,16))'
prints '^ranks ordered by node$' '(vector,(0,4,16))'
prints '^  ids 0 4 8 12 1 5 9 13 ... 15$' '(vector,(0,4,1),(0,4,1),(0,4,1),(0,4,1))'
prints '^\(vector,\(0,2,2\)\): 8 processes$' -n 8 '(vector,(0,2,2))'
prints '^\[\[0,4,16,1\]\]: 64 processes$' '[[0,4,16,1]]'
prints '^\(vector,3,3,4\): 3 processes$' '(vector,3,3,4)'
prints '^  ids 3 3 4$' '(vector,3,3,4)'
prints '^\(vector,\[\(0,49152,1\)\]x16\): 786432 processes$' --no-picture '(vector,[(0,49152,1)]x16)'
prints '^\(vector, \[ 0 ,\(3,2,1\)\]x2 ,9\): 7 processes$' '(vector, [ 0 ,(3,2,1)]x2 ,9)'
prints '^\{"version":1,"map":\[\[0,2,2,1\],\[2,1,3,2\]\]\}: 10 processes$' '{"version":1,"map":[[0,2,2,1],[2,1,3,2]]}'
says 'argument:1:1: the ranks of this mapping cannot be counted: give their number with -n' 2 '(vector,[(0,65536,1)]x65536)'
says 'argument:1:1: the ranks of this mapping cannot be counted: give their number with -n' 2 '(vector,(0,99999999999999999999,1))'
says 'argument:1:1: the ranks of this mapping cannot be counted: give their number with -n' 2 '(vector,(0,4))'
"$explain" -n 4 '(vector,(0,4)' >"$work/out" 2>"$work/err" && fail "a mapping without its end passes"
grep -q '^rankmap-explain: argument:1:13: expected the rest of a block ' "$work/err" || fail "a mapping without its end: $(cat "$work/err")"

# ---- Pictures ----
prints '^     0 \|#   $' --picture 4x4 0-3
prints '^     3 \|   #$' --picture 4x4 0-3
prints '^     3 \|#   $' --picture 4x4 3-0
prints '^  rank  0  3$' --picture 4x4 0-3
"$explain" --no-picture 0-3 | grep -q '|' && fail "--no-picture has a picture"
says '--picture takes COLUMNSxROWS up to 200x100, not "4"' 2 --picture 4 0-3
says '--picture takes COLUMNSxROWS up to 200x100, not "0x4"' 2 --picture 0x4 0-3
says '--picture takes COLUMNSxROWS up to 200x100, not "201x4"' 2 --picture 201x4 0-3
says '-n takes a number from 1 to 16777216, not "0"' 2 -n 0 0-3
says '-n takes a number from 1 to 16777216, not "-1"' 2 -n -1 0-3
says '"0-3" beside a file: only one input is explained' 2 -f "$work/list" 0-3

# ---- JSON ----
for arguments in "0-98:2" "lsms 1000" "random 100" "merge 4" "hilbert 3" "cart-reorder 4x4x4" "(vector,(0,4,16))"; do
    # shellcheck disable=SC2086
    "$explain" --json $arguments >"$work/out" || fail "--json $arguments: status $?"
    "$json" <"$work/out" || fail "--json $arguments: $(cat "$work/out")"
done
prints '^\{"input":"0-98:2","processes":0,"communicators":\[\{"name":"list","count":1,"ranks":50,"model":"stride",' --json 0-98:2
prints '"offset":0,"phase":0,"levels":\[\{"stride":2\}\].*"librankmap":16,.*"plain_table":200,.*"open_mpi":400,' --json 0-98:2
prints '"levels":\[\{"stride":1,"count":2\},\{"stride":8\}\]' --json 0-1 8-9 16-17 24,25 32-33

"$explain" --help | grep -q '^usage: rankmap-explain' || fail "--help"
"$explain" 0-3 >/dev/full 2>"$work/err" && fail "a full disk passes"
grep -q '^rankmap-explain: cannot write: ' "$work/err" || fail "a full disk: $(cat "$work/err")"
[ "$failures" -eq 0 ]
