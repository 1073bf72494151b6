#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# valgrind.sh <build folder> <library> [<program>...]: memcheck on the unit tests of a library (or those named): no invalid read, write, free or
# jump that depends on nothing, no block definitely lost. What cannot run there is listed below, with the reason.
set -u
export LC_ALL=C
build=$1 library=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)

# why_not <test>: prints why a test is left out.
why_not() {
    case $1 in
    asymreg_contract* | asymreg_regions* | asymput*) echo "starts other processes and programs: the library itself is in asymreg_test_*" ;;
    storwin_test_pager | storwin_failpoints | storwin_kill_* | storwin_device | storwin_alloc_cycles)
        echo "userfaultfd, kills and minutes of work: valgrind's one thread at a time does not serve page faults while another thread waits" ;;
    rankmap_explain*) echo "a program's test" ;;
    shmht_kill* | shmht_model | shmht_contract*) echo "processes that are killed, or readers beside a writer for a time: not a matter of memory" ;;
    *) return 1 ;;
    esac
}

failed=0 ran=0
while read -r name command; do
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    if reason=$(why_not "$name"); then
        echo "left out: $name: $reason"
        continue
    fi
    [ "$(head -c 4 "${command%% *}" | tail -c 3)" = ELF ] || { echo "left out: $name: a script"; continue; }
    log=$(mktemp)
    # shellcheck disable=SC2086
    timeout -k 10 1200 valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite --show-leak-kinds=definite \
        --suppressions="$here/valgrind.supp" --num-callers=20 $command > "$log" 2>&1 < /dev/null
    status=$?
    if [ $status = 77 ]; then
        echo "skip: $name: $(tail -1 "$log")"
    elif [ $status = 99 ] || [ $status -ge 124 ] || grep '^==[0-9]*== ' "$log" | grep -qv '== WARNING: valgrind '; then
        # children's errors are not in the status; what valgrind itself cannot do is none
        echo "FAILED: $name: status $status"
        grep -A 25 '^==[0-9]*== ' "$log" | head -60
        tail -5 "$log"
        failed=1
    else # what a test finds of its own is for the test without valgrind, under which pages, limits and clocks are others
        echo "ok: $name$([ $status = 0 ] || echo ", though its own checks fail there: $(grep -m 1 'FAILED' "$log")")"
        ran=$((ran + 1))
    fi
    rm -f "$log"
done < <(ctest --test-dir "$build" -L '^unit$' -LE '^full$' -R "^${library}_" --show-only=json-v1 | tr -d '\n' | sed 's/"command" *: *\[/\n&/g' |
    sed -n 's/^"command" *: *\[\([^]]*\)\].*"name" *: *"\('"$library"'_[^"]*\)".*/\2 \1/p' | tr -d '",' | tr -s ' ')
echo "$library: $ran programs under memcheck"
[ $failed = 0 ] && [ $ran != 0 ]
