#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# container.sh small|debian: the manual's recipe for containers, on two roots with file systems of their own. small: of busybox and the programs'
# libraries; debian: made by debootstrap. Environment: PMIRUN, RAWPMI (programs).
set -u
skip() {
    echo "skip: $*"
    exit 77
}
PATH=$PATH:/usr/sbin:/sbin
kind=$1
[ "$(id -u)" = 0 ] || skip "roots of their own want root, and this is uid $(id -u)"
unshare --mount --pid --fork --kill-child mount --bind /dev /mnt 2> /dev/null || skip "no mounts of their own can be made here (unshare of util-linux)"
case $kind in
small) [ -n "$(type -P busybox)" ] && ! ldd "$(type -P busybox)" > /dev/null 2>&1 || skip "missing package busybox-static" ;;
debian) [ -n "$(type -P debootstrap)" ] || skip "missing package debootstrap" ;;
esac
set -- fork
. "${0%/*}/harness.sh"
page=$(cd "${0%/*}/../../examples/pmirun" && pwd)/pmirun.1
pmirun=$(realpath "$pmirun") RAWPMI=$(realpath "$RAWPMI")

# ---- the roots ----
# Copies a program's libraries to the same paths.
put() { # ROOT PROGRAM
    local file
    while read -r file; do
        [ -e "$1$file" ] || [ -L "$1$file" ] || cp -L --parents "$file" "$1" || exit 1
    done < <(
        echo "$2"
        ldd "$2" | grep -o '/[^ ]*'
    )
}
make_root() { # ROOT
    mkdir -p "$1"
    if [ "$kind" = debian ]; then
        timeout 500 debootstrap --variant=minbase bookworm "$1" > "$dir/debootstrap" 2>&1 ||
            { tail -n 3 "$dir/debootstrap" && skip "debootstrap made no root: is there a network?"; }
    else
        mkdir "$1/bin" "$1/dev" "$1/proc" "$1/tmp"
        cp "$(type -P busybox)" "$1/bin/busybox"
        for program in sh cat sleep; do ln -s busybox "$1/bin/$program"; done
    fi
    put "$1" "$pmirun"
    put "$1" "$RAWPMI"
}
make_root "$dir/srv/a"
cp -a "$dir/srv/a" "$dir/srv/b"
cp -a "$dir/srv/a" "$dir/srv/bare"
rm "$dir/srv/bare$pmirun"
for name in a b; do echo "root $name" > "$dir/srv/$name/name"; done

# ---- the recipe ----
recipe=$(sed -n '/^\.\\" recipe: container$/,/^\.\\" end$/{/^\.\\"/d;p}' "$page" | sed "s/\\\\-/-/g; s/\\\\(aq/'/g; s|/srv/|$dir/srv/|g")
case $recipe in
"pmirun --hosts a,b --launch '"*"' -n 4 ./a.out") ;;
*) echo "FAILED: $page has another recipe: $recipe" && exit 1 ;;
esac
way=${recipe#*"'"}
way=${way%"'"*}
mkdir "$dir/bin"
ln -s "$pmirun" "$dir/bin/pmirun"
cd / || exit 1 # where ranks run: it must be in the roots too
n=$((n + 1))
PATH=$dir/bin:$PATH timeout -k 5 100 bash -c "${recipe/.\/a.out/\"$RAWPMI\" pgf}" > "$dir/out" 2> "$dir/err" < /dev/null || fail "the manual's recipe: status $?"
err_empty

nodes=(--hosts a,b --launch "$way")
PATH=/bin:/usr/bin:$PATH
run 0 -l -n 4 sh -c 'read -r name < /name; echo "$name"'
[ "$(sorted | tr '\n' ' ')" = "[0] root a [1] root a [2] root b [3] root b " ] || fail "ranks are not in the roots"
run 0 -n 2 sh -c 'read -r name < /proc/1/comm; echo "$name"' # a container's first process is the agent
[ "$(sort -u "$dir/out")" = "${pmirun##*/}" ] || fail "processes are not the container's own"
seq 20000 > "$dir/in"
stdin=$dir/in run 0 -n 2 cat
cmp -s "$dir/in" "$dir/out" || fail "standard input"
run 139 -n 1 "$RAWPMI" die 11 inited : -n 1 "$RAWPMI" sleep
err_has 'rank 0 on a (pid .*) died of signal 11'
begin -n 4 sh -c "echo ready; exec sleep $mark"
await 4 ready
kill -9 "$head"
wait "$limit" 2> /dev/null
nothing_left
# A container that does not exist.
begin -n 4 sh -c "echo ready; exec sleep $mark"
await 4 ready
kill -9 "$(pids_of "unshare --mount --pid --fork --kill-child sh -c " | while read -r p; do
    grep -qzF "chroot $dir/srv/b " "/proc/$p/cmdline" && echo "$p"
done)"
end 253
err_has 'node 1 (b) is lost: '
nothing_left
# One without pmirun.
nodes=(--hosts a,bare --launch "$way")
run 253 -n 2 "$RAWPMI" pgf
err_has 'node 1 (bare) is lost: unshare exited with status .* before its agent connected: pmirun must be there too, at the same path'
nothing_left
[ $failed = 0 ] && echo "$kind: $n runs, all as they should be"
exit $failed
