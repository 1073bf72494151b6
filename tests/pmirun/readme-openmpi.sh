#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# readme-openmpi.sh <root> <pmirun>: runs the commands of the section "Open MPI and OpenSHMEM" of pmirun's README, as they stand there.
set -u
root=$1 pmirun=$2
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cp -r "$root/examples/mpi" "$dir/mpi" && mkdir "$dir/examples" && mv "$dir/mpi" "$dir/examples/" && cd "$dir" || exit 1
ln -s "$pmirun" pmirun
mapfile -t commands < <(sed -n '/^## Open MPI and OpenSHMEM/,/^| /p' "$root/examples/pmirun/README.md" | sed -n '/^```/,/^```/p' | grep -v '^```' | sed 's/ *#.*//')
[ "${#commands[@]}" -ge 4 ] || { echo "FAILED: README's section has ${#commands[@]} commands"; exit 1; }
failed=0
for command in "${commands[@]}"; do
    echo "$command"
    case $command in
    "mpicc.openmpi "*) read -ra words <<< "$command" ;;
    "pmirun "*) read -ra words <<< "./pmirun --timeout 50 ${command#pmirun }" ;;
    *) echo "FAILED: is no command of mpicc.openmpi or pmirun" && failed=1 && continue ;;
    esac
    timeout 60 "${words[@]}" > out 2>&1 < /dev/null || { failed=1 && echo "FAILED: status $?"; }
    cat out
    if [ "${words[0]}" = ./pmirun ] && [ "$(grep -c '^rank [0-3] of 4 on ' out)" != 4 ]; then failed=1 && echo "FAILED: not four ranks of 4"; fi
done
exit $failed
