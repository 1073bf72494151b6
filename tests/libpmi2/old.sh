#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# old.sh client <pmirun> <program linked with Slurm's libpmi2> | server <mpiexec.hydra> <our client> <folder of our libraries>
#        | hints <a launcher that knows no hints> <argument>... <hints> old
set -u
export LC_ALL=C
case $1 in
client) timeout 100 "$2" --universe-size 100 -n 3 "$3" api | tee /dev/stderr | grep -q "ok size=3" ;;
hints) timeout 50 "${@:2}" | tee /dev/stderr | grep -q "^ok old$" ;;
server)
    export LD_LIBRARY_PATH=$4
    timeout 50 "$2" -n 3 "$3" get 300 200 1 | tee /dev/stderr | grep -q "asked.mean 200 " &&
        timeout 50 "$2" -n 3 "$3" allgather 3 | tee /dev/stderr | grep -q "allgather_us"
    ;;
esac
