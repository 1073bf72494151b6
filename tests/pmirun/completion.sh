#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# completion.sh PMIRUN: the completions that bash offers for an unfinished command line.
set -u
pmirun=$1
. "$(dirname "$0")/../../examples/pmirun/options/completion.bash"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
cd "$dir" || exit 1
mkdir folder
touch file
failed=0

# offers LIST WORD...: behind these words; the last word is incomplete
offers() {
    local want=$1 got
    shift
    COMP_WORDS=("$pmirun" "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _pmirun
    got=$(echo "${COMPREPLY[*]}" | tr ' ' '\n' | sort | paste -sd ' ')
    [ "$got" = "$want" ] || { echo "FAIL: pmirun $*: offers \"$got\", not \"$want\""; failed=1; }
}
offers '--outfile-pattern' --outf
offers 'tcp' --links t
offers 'cyclic' --map = c
offers 'any tcp' --links =
offers '' -n ''
offers 'folder' --wdir f
offers 'file folder' --hostfile f
offers './file' --stats ./fil
offers '' --output-fil
[ $failed = 0 ] && echo "bash offers what it should"
exit $failed
