#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# full-disk.sh <folder of the programs>: every program, in each way that it prints, fails with a message when its output cannot be
# written.
set -u
bin=$1 failed=0
try() {
    local words status
    [ -x "$bin/$1" ] || return
    words=$(timeout 60 "$bin/$@" 2>&1 > /dev/full)
    status=$?
    if [ $status = 0 ] || [ $status -ge 124 ] && [ $status != 252 ] || [ -z "$words" ]; then
        echo "FAILED: $*: status $status, \"$words\""
        failed=1
    else
        echo "ok: $*: status $status, $words"
    fi
}
for what in cases commands profiles dict variations --help --version; do try pmiprobe $what; done
try pmiprobe server --case v1-put-get -- "$bin/pmirun" -n 1
try pmirun --help
try pmirun --version
try pmirun -n 2 echo x
try rankmap-explain --help
try rankmap-explain --list
try rankmap-explain 0-5
try rankmap-explain --json 0-5
try storwin-tool --help
try asymput --help
try asymput --regions 1 --ops 10 --trials 1
exit $failed
