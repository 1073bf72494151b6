#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# options.sh PMIRUN RAWPMI SUBJECT: runs options of the table (pmirun --help=names) by each of their names, with good values and bad ones. A bad one ends
# with status 2 and a sentence that names option and value. The cases are in options/SUBJECT.bash: `try OPTION` tries it as $name, one of its names.
# SUBJECT others: options of other launchers, misspelt ones, and that each option has a case.
set -u
. "${0%/*}/no-batch.bash"
. "${0%/*}/jobs.bash"
pmirun=$1 raw=$2 subject=$3
cases=$(cd "${0%/*}/options" && pwd)
cd "$dir" || exit 1
unset MPIEXEC_TIMEOUT

# ok LINES ARGUMENT...: status 0, and these lines on stdout, sorted, with ; between
ok() {
    local want=$1 got
    shift
    run 0 "$@"
    got=$(sort out | tr '\n' ';')
    [ "$got" = "$want" ] || fail "pmirun $*: \"$got\", not \"$want\""
}
err_has() { grep -qF -e "$1" err || fail "stderr has no \"$1\""; }

# with VALUE LINES ARGUMENT...: ok with the option, its value the next word, or behind =, or a number behind the letter
with() {
    local value=$1 lines=$2
    shift 2
    ok "$lines" "$name" "$value" "$@"
    ok "$lines" "$name=$value" "$@"
    [[ $name != -? || $value != [0-9]* ]] || ok "$lines" "$name$value" "$@"
}
# bad VALUE...: each is refused
bad() {
    local value
    for value in "$@"; do
        run 2 "$name" "$value" -n 1 true
        err_has "$name"
        err_has "$(head -1 <<< "$value")"
        [ "$(grep -c '^pmirun: ' err)" = 1 ] || fail "not one sentence"
    done
}
"$pmirun" -N 1 --launch fork -n 1 true 2> err < /dev/null && has_nodes=yes || { has_nodes= && echo "left out: $(cat err)"; }
several() { [ -n "$has_nodes" ]; }
# Is there a topology, and which is the first processor that we may use?
hwloc() { "$pmirun" --bind-to core -n 1 true 2> /dev/null; }
cpu=$(sed -n 's/^Cpus_allowed_list:\t*\([0-9]*\).*/\1/p' /proc/self/status)
# In place of ssh: takes -x, a host, a command for a shell.
printf '#!/bin/sh\necho "$2" >> "%s/called"\nexec sh -c "$3"\n' "$dir" > agent
chmod +x agent
# on LIST ARGUMENT...: on which hosts, in the order of their names
on() {
    local want=$1 got
    shift
    rm -f called
    run 0 --launch-agent ./agent "$@"
    got=$(sort called | tr '\n' ' ')
    [ "$got" = "$want" ] || fail "pmirun $*: on \"$got\", not \"$want\""
}
mkdir bin
printf '#!/bin/sh\necho from bin\n' > bin/only-here
chmod +x bin/only-here
printf 'one\ntwo\n' > input

# rows SCOPE...: the names of each option of these scopes, and its argument
rows() {
    "$pmirun" --help=names | awk -F '\t' -v "scopes=$*" '(" " scopes " ") ~ (" " $2 " ") { print $1 "\t" $3 }'
}
# Its name without an argument that it wants.
alone() {
    [ "$1" = - ] || [[ $1 = \[* ]] || {
        run 2 "$name"
        err_has "$name wants "
    }
}

if [ "$subject" != others ]; then
    . "$cases/$subject.bash"
    while IFS=$'\t' read -r names argument; do
        first=${names%% *}
        [[ " $options " = *" $first "* ]] || continue
        for name in $names; do
            try "$first"
            alone "$argument"
        done
    done < <(rows group job)
    [ $n -gt 0 ] || fail "no option of $subject"
    finish
fi

all=$(cat "$cases"/*.bash | sed -n 's/^options="\(.*\)"$/\1/p' | tr '\n' ' ')
for first in $(rows group job | sed 's/[ \t].*//'); do [[ " $all " = *" $first "* ]] || fail "no case for $first"; done
for first in $all; do rows group job | grep -q "^$first[[:blank:]]" || fail "a case for $first, which is no option"; done
[ "$(rows group job | wc -l)" -gt 50 ] && [ "$(rows elsewhere | wc -l)" -gt 40 ] || fail "the table is short"
while IFS=$'\t' read -r names argument; do
    for name in $names; do
        [ "$argument" = - ] && ok 'x;' "$name" -n 1 echo x || ok 'x;' "$name" any -n 1 echo x
        alone "$argument"
    done
done < <(rows nothing)
while IFS=$'\t' read -r names argument; do
    for name in $names; do
        for word in "$name" "$name=4" "${name}4"; do
            [ "$word" != "${name}4" ] || [[ $name = -? ]] || continue
            run 2 "$word" -n 1 true
            err_has "$name is another launcher's option: "
        done
    done
done < <(rows elsewhere)
run 2 --nonsense -n 1 true
err_has 'unknown option --nonsense'
for pair in --bindto:--bind-to --hostfil:--hostfile -labl:--label --ntask:--ntasks --mapby=x:--map-by; do
    run 2 "${pair%%:*}" -n 1 true
    err_has "unknown option ${pair%%:*}: did you mean ${pair#*:}? (see --help)"
done
run 2 -lN1 true
err_has 'unknown option -lN1; options of one letter are separate words: -l ...'
run 2 -n 1 true : -n x true
err_has 'pmirun: group 2: -n wants a number from 1 to 1000000, not "x"'
run 2 -n 1 true :
err_has 'pmirun: group 2: no program given'
run 126 -n 1 "$dir"
err_has "cannot start $dir: it is a directory"
echo x > no-program
run 126 -n 1 ./no-program
err_has 'cannot start ./no-program: it is not executable (chmod +x)'
run 126 -n 1 no-program # not in PATH: a name of the working directory
err_has 'cannot start no-program: it is not executable (chmod +x)'
finish
