#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# options-man.sh PMIRUN [--write]: in pmirun.1, the text between the lines `.\" begin: pmirun --help=WHAT` and `.\" end` equals that command's output.
# With --write: updates the page.
set -u
pmirun=$1
page=$(cd "$(dirname "$0")/../../examples/pmirun" && pwd)/pmirun.1
new=$(mktemp) || exit 1
trap 'rm -f "$new"' EXIT
trap 'exit 1' HUP INT TERM
n=0
begin='^\.\\" begin: pmirun (--help=[a-z]+)$'
skip=
while IFS= read -r line; do
    [ "$line" != '.\" end' ] || skip=
    [ -n "$skip" ] || printf '%s\n' "$line"
    [[ $line =~ $begin ]] || continue
    skip=yes
    n=$((n + 1))
    "$pmirun" "${BASH_REMATCH[1]}" || exit 1
done < "$page" > "$new"
[ -z "$skip" ] && [ "$(grep -c '^\.\\" begin: ' "$new")" = 2 ] || { echo "FAILED: $page does not have two lists, each with its end" && exit 1; }
if [ "${2-}" = --write ]; then
    cat "$new" > "$page"
    exit
fi
diff "$page" "$new" && exit
echo "FAILED: the options are not as pmirun has them; to put them there: $0 $pmirun --write"
exit 1
