#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# blocked.sh PMIRUN RAWPMI: a reader that does not read: PMI continues, memory stays bounded, no output is lost. PMI continues too when
# another process takes what there was to read. Environment: OTHER_READER (other_reader.c).
. "${0%/*}/rawpmi.bash"

# A reader that does not read: PMI continues, memory stays bounded, no output is lost.
mkfifo "$dir/pipe"
exec 9<> "$dir/pipe"
timeout 150 "$pmirun" --stats -n 1 sh -c 'head -c 30000000 /dev/zero | tr "\0" "y" | fold -w 99' \
    : -n 4 sh -c "$raw chat 1000 && echo done >&2" > "$dir/pipe" 2> "$dir/err" &
pid=$!
soon has_lines 4 done err || fail "PMI was held up by a reader that sleeps"
child=$(cat /proc/$pid/task/$pid/children 2>/dev/null | tr -d ' ')
steady rss_of "$child"
rss=$(rss_of "$child")
[ "${rss:-0}" -gt 0 ] && [ "$rss" -lt 20000 ] || fail "pmirun uses $rss kB while its reader sleeps"
exec 8< "$dir/pipe" 9>&-
bytes=$(tr -cd y <&8 | wc -c)
exec 8<&-
[ "$bytes" = 30000000 ] || fail "$bytes bytes of 30000000 arrived"
wait $pid || fail "status $? after the reader woke up"

# Another process, as a pager on the same terminal, takes the input that pmirun was about to read: PMI continues, and later input arrives.
there() { [ -e "$dir/$1" ]; }
# shared COMMAND...: its stdin has a line for the other one, and one for the ranks when PMI was served after that
shared() {
    rm -f "$dir"/up* "$dir/taken" "$dir/served"
    {
        soon there up0 && soon there up1 || echo "not up"
        echo first
        ! soon there served || echo second
    } | "$@" > "$dir/out" 2> "$dir/err"
    has_lines 1 '^\[0\] second' out && has_lines 1 '^\[1\] second' out || fail "$1: a reader of the same stdin has blocked pmirun"
}
cat > "$dir/rank" << end
#!/bin/sh
: > $dir/up\$PMI_RANK
until [ -e $dir/taken ]; do sleep 0.05; done
$raw pgf && : > $dir/served
exec cat
end
ln -s "$OTHER_READER" "$dir/other_reader.so" # LD_PRELOAD takes no blanks
cat > "$dir/both" << end
#!/bin/sh
export LD_PRELOAD='$dir/other_reader.so' TAKEN='$dir/taken' ASAN_OPTIONS="\$ASAN_OPTIONS:verify_asan_link_order=0"
exec timeout --foreground -k 5 100 '$pmirun' -l -s all -n 2 env -u LD_PRELOAD '$dir/rank'
end
chmod +x "$dir/rank" "$dir/both"
shared "$dir/both"
# A FIFO whose writer has closed it before pmirun begins to read it ends all the same.
echo third > "$dir/pipe" &
stdin=$dir/pipe run 0 -s all -n 2 cat
[ "$(grep -c third "$dir/out")" = 2 ] || fail "a FIFO as stdin"
if command -v script > /dev/null; then
    SHELL=/bin/sh shared script -qec "$dir/both" /dev/null
else
    echo "without script (util-linux): not tried on a terminal"
fi
finish
