#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# readme-commands.sh <README.md> <word>: runs the command of README's section "Several nodes" that has this word in it, with hello for ./a.out.
set -u
readme=$1 word=$2
line=$(sed -n '/^## Several nodes/,/^## [^S]/p' "$readme" | grep -e '^pmirun ' | grep -e "$word" | sed 's/ *#.*//')
[ "$(grep -c . <<< "$line")" = 1 ] || { echo "FAILED: README's section has no such command, or several: $line"; exit 1; }
agent=()
if [ -n "${HOST_SSH-}" ]; then # hosts of this machine: a stand-in for ssh, and the variables that MPICH's UCX needs there (harness.sh)
    preload=$(mktemp -u) && ln -s "$LD_PRELOAD_MPI" "$preload" || exit 1 # a name without blanks
    trap 'rm -f "$preload"' EXIT
    agent=(--launch-agent "$HOST_SSH" -x "LD_PRELOAD=$preload")
    export UCX_NET_DEVICES=eth0
fi
read -ra words <<< "${line#pmirun }"
for i in "${!words[@]}"; do
    [ "${words[i]}" != ./a.out ] || words[i]=$MPI/hello
done
out=$(timeout 100 "$PMIRUN" --timeout 90 "${agent[@]}" "${words[@]}")
status=$?
echo "$out"
[ $status = 0 ] && grep -q '^hello ok size=16$' <<< "$out"
