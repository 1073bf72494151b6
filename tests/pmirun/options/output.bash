# SPDX-License-Identifier: BSD-3-Clause
# Cases of options.sh: options for the output of ranks.
options="-l --timestamp-output --outfile-pattern --errfile-pattern"

# late OPTION RANKS BYTES DESCRIPTOR ARGUMENT...: RANKS ranks write BYTES bytes each to the descriptor, hence to a FIFO, whose reader comes late.
late() {
    local option=$1 ranks=$2 bytes=$3 to=$4 reader
    shift 4
    rm -f fifo read
    mkfifo fifo
    (exec < fifo; sleep 2.5; exec wc -c) > read &
    reader=$!
    exec 9> fifo # waits for the reader
    run 0 "$option" fifo -n "$ranks" "$@" sh -c "head -c $bytes /dev/zero >&$to"
    exec 9>&-
    wait $reader
    [ "$(cat read)" = $((ranks * bytes)) ] || fail "$(cat read) bytes, not $((ranks * bytes))"
}

try() {
    case $1 in
    -l) ok '[0] x;[1] x;' "$name" -n 2 echo x ;;
    --timestamp-output)
        run 0 "$name" -n 2 echo x
        [ "$(grep -c '^2[0-9]*-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9]\.[0-9][0-9][0-9] x$' out)" = 2 ] || fail "not two lines with a time"
        run 0 "$name" -l -n 1 printf 'a\nb'
        [ "$(sed 's/^[-0-9]* [.:0-9]* //' out | tr '\n' ,)" = '[0] a,[0] b' ] || fail "not a time and a label on each line"
        [ "$(date -d "$(head -c 19 out)" +%s)" -gt $(($(date +%s) - 60)) ] || fail "not the local time"
        ;;
    --outfile-pattern)
        rm -f f.*
        with "f.%r.%p.%g.%%" '' -n 2 sh -c 'echo $PMI_RANK; [ $PMI_RANK = 1 ] || echo more'
        [ "$(cat f.0.0.0.% f.1.0.0.%)" = $'0\nmore\n1' ] || fail "not what was written: $(cat f.*)"
        ok '' "$name" f.%h -l -n 2 echo x
        [ "$(sort f."$(hostname)")" = $'[0] x\n[1] x' ] || fail "not what was written: $(cat f.*)"
        several && ok '' "$name" f.%h.%r -N 2 --launch fork -n 2 sh -c 'head -c 300000 /dev/zero' && cmp f.node0.0 f.node1.1 &&
            [ "$(wc -c < f.node1.1)" != 300000 ] && fail "not 300000 bytes"
        late "$name" 20 65536 1
        ok '' "$name" same --errfile-pattern same -n 1 sh -c 'echo x; echo y >&2'
        [ "$(sort same)" = $'x\ny' ] || fail "not both in one file"
        run 252 "$name" /no/such -n 1 echo x
        err_has "/no/such"
        run 252 "$name" /dev/full -n 1 echo x
        err_has "cannot write to /dev/full"
        bad %q f.%
        run 2 "$name" '' -n 1 true
        err_has "$name wants FILE"
        (ulimit -n 80; run 250 "$name" f.%r -n 40 true; err_has descriptors; exit $failed) || failed=1
        ;;
    --errfile-pattern)
        with f.%r 'x;' -n 1 sh -c 'echo x; echo y >&2'
        [ "$(cat f.0)" = y ] || fail "not what was written"
        several && late "$name" 2 2000000 2 -N 2 --launch fork
        bad %q
        ;;
    esac
}
