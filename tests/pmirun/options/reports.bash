# SPDX-License-Identifier: BSD-3-Clause
# Cases of options.sh: options for reports about a job.
options="--print-all-exitcodes --stats --progress --timeline -v"

try() {
    case $1 in
    --print-all-exitcodes)
        run 3 "$name" -n 3 sh -c '[ $PMI_RANK != 1 ] || exit 3' # of two that fail, either may be first
        err_has "exit codes: [$(hostname)] 0,3,0"
        several && run 2 "$name" -N 2 --launch fork -n 3 sh -c '[ $PMI_RANK = 0 ] || exit 2' && err_has "exit codes: [node0] 0,2"
        ;;
    --stats)
        run 0 "$name" -n 1 true
        err_has '"processes":1,'
        run 0 "$name=json" -n 1 true
        err_has '"processes":1,'
        run 0 "$name=table" -n 1 true
        err_has 'pmirun: status 0, 1 processes, 1 job'
        run 2 "$name=xml" -n 1 true
        err_has "$name wants json or table, not \"xml\""
        ;;
    --progress) # without a terminal there is no display
        ok 'x;' "$name" -n 1 echo x
        [ ! -s err ] || fail "stderr is not empty"
        ;;
    --timeline)
        rm -f t.json
        with t.json 'x;' -n 1 echo x
        grep -q '"exited with status 0"' t.json || fail "not what was written"
        bad t.png t.svg .svg .json x
        ;;
    -v)
        run 0 "$name" -n 1 true
        err_has 'exited with 0'
        ;;
    esac
}
