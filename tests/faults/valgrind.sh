#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# valgrind.sh <build folder> <library> [<program>...]: memcheck on the unit tests of a library (or those named): no invalid read, write, free or
# jump that depends on nothing, no block definitely lost; and every program ends within 20 minutes. Tests that cannot run under valgrind, and parts
# that programs skip there, are listed below with the reason. libasymreg takes longest: 13 minutes on two busy cores.
set -u
export LC_ALL=C
build=$1 library=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)

# why_not <test>: prints why a test is left out.
why_not() {
    case $1 in
    asymreg_contract* | asymreg_regions* | asymreg_coalesce_* | asymput*) echo "starts other processes and programs: the library itself is in asymreg_test_*" ;;
    asymreg_*_pidfd) echo "the same programs: valgrind (3.19) knows no pidfd_open() in any case" ;;
    storwin_sandbox_*) echo "the same programs, which run here as there" ;;
    storwin_test_pager_internal) echo "the user-level pager alone, whose pages cannot be served while valgrind holds the thread that wants one: AddressSanitizer has it" ;;
    storwin_kill_*) echo "processes that are killed: not a matter of memory" ;;
    rankmap_explain*) echo "a program's test" ;;
    shmht_kill* | shmht_model | shmht_contract*) echo "processes that are killed, or readers beside a writer for a time: not a matter of memory" ;;
    *) return 1 ;;
    esac
}

# Valgrind lets one thread run at a time, and that thread keeps running during a page fault: so no user-level pager, and no thread may wait in the
# kernel for another thread's lock.
without=()
export UCX_TLS=${UCX_TLS:-posix,cma} # as ctest has it
[ "$library" = storwin ] && without=("$build/bin/no_userfaultfd" env "LD_LIBRARY_PATH=$build/tests/faults" LD_PRELOAD=libvalgrind_locks.so)

# said_by_memcheck <log>: its findings, also in children, whose status is not the program's. Valgrind's own limits are no finding.
said_by_memcheck() {
    sed '/^==[0-9]*== Warning: noted but unhandled ioctl /,+2d' "$1" | grep '^==[0-9]*== ' | grep -v '== WARNING: valgrind '
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
    began=$SECONDS
    # shellcheck disable=SC2086
    timeout -k 10 1200 "${without[@]}" valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
        --show-leak-kinds=definite --suppressions="$here/valgrind.supp" --num-callers=20 $command > "$log" 2>&1 < /dev/null
    status=$?
    took=$((SECONDS - began))
    if [ $status = 77 ]; then
        echo "skip: $name: $(grep -v '^--[0-9]*-- ' "$log" | tail -1)"
    elif [ $status = 99 ] || [ $status -ge 124 ] || said_by_memcheck "$log" > /dev/null; then
        echo "FAILED: $name: status $status after $took s"
        said_by_memcheck "$log" | head -60
        tail -5 "$log"
        failed=1
    else # a test's own failures count without valgrind only: under it pages, limits and clocks differ
        echo "ok: $name: $took s$([ $status = 0 ] || echo ", though its own checks fail there: $(grep -m 1 'FAILED\|not true\|failed:' "$log")")"
        grep -E '^(left out|not tried|skip): ' "$log" | sort | uniq -c | sed 's/^ *\([0-9]*\) /    \1 times /'
        ran=$((ran + 1))
    fi
    rm -f "$log"
done < <(ctest --test-dir "$build" -L '^unit$' -LE '^full$' -R "^${library}_" --show-only=json-v1 | tr -d '\n' | sed 's/"command" *: *\[/\n&/g' |
    sed -n 's/^"command" *: *\[\([^]]*\)\].*"name" *: *"\('"$library"'_[^"]*\)".*/\2 \1/p' | tr -d '",' | tr -s ' ')
echo "$library: $ran programs under memcheck in $SECONDS s"
[ $failed = 0 ] && [ $ran != 0 ]
