#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# limits.sh PMIRUN RAWPMI: too few descriptors, bytes of a file or processes.
. "${0%/*}/rawpmi.bash"

# The number of needed descriptors does not depend on the limit: this many suffice, one less does not.
(ulimit -n 50 && run 250 -n 60 true && exit $failed) || failed=1
need=$(sed -n 's/.*60 processes need \([0-9]*\) descriptors, the limit is 50: .*/\1/p' "$dir/err")
for l in 150 $((${need:-1000} - 1)); do
    (ulimit -n $l && run 250 -n 60 true; err_has "60 processes need $need descriptors, the limit is $l:"; exit $failed) || failed=1
done
for l in $need $((need + 1)) $((need + 50)); do
    (ulimit -n $l && run 0 -n 60 "$raw" pgf && exit $failed) || failed=1
done
# A spawn fails with the same text, and its name.
for l in 60 80; do
    (ulimit -n $l && run 0 -n 1 "$raw" spawn 30 true
        out_has '^cmd=spawn_result rc=-1 .*msg=Too_many_open_files'
        err_has "spawn by rank 0: 30 processes need 125 descriptors, the limit is $l"; exit $failed) || failed=1
done
(ulimit -n 125 && run 0 -n 1 "$raw" spawn 30 true; out_has '^cmd=spawn_result rc=0'; exit $failed) || failed=1
(ulimit -n 124 && run 0 -n 1 "$raw" spawn 30 true; out_has 'Too.many.open.files'; exit $failed) || failed=1
(ulimit -n 100 && run 250 -n 60 true && exit $failed) || failed=1
(ulimit -n 100 && run 250 -n 60 true; err_has "descriptors"; exit $failed) || failed=1
# The limit on file sizes applies to our output, to shared memory (without it, ranks ask the server for pairs), and to a rank as it would
# without pmirun.
(ulimit -f 1 && run 252 -n 1 sh -c 'yes | head -c 5000; sleep 5'; err_has "cannot write to stdout: File too large"; exit $failed) || failed=1
(ulimit -f 1 && run 0 -n 4 "$raw" pgf; err_has "cannot create the shared table: .*File too large"; exit $failed) || failed=1
(ulimit -f 1 && run 153 -n 1 dd if=/dev/zero of="$dir/big" bs=5000 count=1; exit $failed) || failed=1
! several || (ulimit -f 1 && run 153 -N 1 --launch fork -n 1 dd if=/dev/zero of="$dir/big" bs=5000 count=1; exit $failed) || failed=1
! several || (ulimit -n 340 && run 0 -N 2 --launch fork -n 2 sh -c "[ \$PMI_RANK = 1 ] || exec $raw spawn 300 true"
    out_has 'msg=Too_many_open_files'
    err_has '150 processes need 48[0-9] descriptors, the limit is 340'; exit $failed) || failed=1
[ "$(id -u)" = 0 ] || {
    echo "not root: the limit on processes was not tried"
    finish
}
# As a user who has no processes and may have 20
cp "$pmirun" "$dir/pmirun" && chmod 755 "$dir" "$dir/pmirun"
(ulimit -u 20; timeout 30 setpriv --reuid=$((40000 + main % 20000)) --clear-groups "$dir/pmirun" -n 60 sleep 50) > "$dir/out" 2> "$dir/err"
[ $? = 250 ] || fail "status when processes run out"
err_has "limit on processes"
finish
