# SPDX-License-Identifier: BSD-3-Clause
# Cases of options.sh: options for the input of ranks.
options="-s"

try() {
    case $1 in
    -s)
        bad x 1 -1 1000000
        [ $name = -s ] || return 0
        for from in input pipe; do
            for where in '' '-N 2 --launch fork'; do
                [ -z "$where" ] || several || continue
                for who in all none 0 1; do
                    case $who in
                    all) want='[0] one;[0] two;[1] one;[1] two;[2] one;[2] two;' ;;
                    none) want= ;;
                    *) want="[$who] one;[$who] two;" ;;
                    esac
                    [ $from = input ] && stdin=input ok "$want" "$name" $who $where -l -n 3 cat
                    [ $from = pipe ] && stdin=<(cat input) ok "$want" "$name=$who" $where -l -n 3 cat
                done
                # More than pipes hold; one reader closes it at once, one reads nothing.
                head -c 1000000 /dev/zero > big
                [ $from = input ] && stdin=big ok '1000000;1000000;' "$name" all $where -n 1 true : -n 2 wc -c
                [ $from = pipe ] && stdin=<(cat big) ok '1000000;1000000;' "$name" all $where -n 1 true : -n 2 wc -c
            done
        done
        ;;
    esac
}
