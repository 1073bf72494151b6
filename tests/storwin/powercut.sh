#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# powercut.sh POWERCUT ROUNDS CUTS NTH CUTS-EXT4 NTH-EXT4 GUEST...
#
# Power cuts: a QEMU guest commits without pause on five disks, with a journal and with slots, on the bare disk and in a file of
# ext4, and once without any flush. It reports each generation on its serial line; at a random moment QEMU is killed. Then
#
#   - the reported generations must be on the disks that QEMU leaves, without the guest's page cache;
#   - QEMU keeps a log of the guest's writes and flushes: at CUTS random points of it, before and behind each NTH flush (0: none), and at the end
#     the test makes a disk with all writes before the last flush and any part of the later ones, as a disk with a cache may leave it. The
#     acknowledged commit there must restore bit for bit; without flushes, the test must find a loss;
#   - the disk cut at the end is the disk of the next guest, which restores before it continues; ROUNDS in all.
#
# File systems are repaired by e2fsck and read by debugfs, on the host, and by the kernel of the next guest.
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
MIB=1048576
disks=(raw-journal raw-slots ext4-journal ext4-slots careless)

if [ "$1" = --guest ]; then # POWERCUT: the guest's part
    powercut=$2
    for i in "${!disks[@]}"; do
        name=${disks[i]} device=/dev/vd$(printf "\\x$((61 + i))") file=()
        case $name in
        ext4-*)
            mkdir -p "/mnt/$name"
            mount -t ext4 "$device" "/mnt/$name" || exit 1
            file=("/mnt/$name/state")
            ;;
        esac
        "$powercut" write "$name" "${name#*-}" "$device" "${file[@]}" &
    done
    wait -n
    echo "a writer ended"
    exit 1
fi

powercut=$1 rounds=$2 cuts_raw=$3 nth_raw=$4 cuts_ext4=$5 nth_ext4=$6
shift 6
here=$(cd "$(dirname "$0")" && pwd)
for need in mke2fs:e2fsprogs e2fsck:e2fsprogs debugfs:e2fsprogs; do
    command -v "${need%:*}" > /dev/null || { echo "skip: needs ${need#*:}"; exit 77; }
done
work=$(mktemp -d "$PWD/powercut.XXXXXX") || exit 1
guest=
finish() {
    trap - EXIT HUP INT TERM
    [ -z "$guest" ] || kill "$guest" 2> /dev/null
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 143' HUP INT TERM
cd "$work" || exit 1
fail() {
    echo "FAILED: $*"
    tail -n 20 said
    exit 1
}
kind_of() {
    case $1 in
    careless) echo careless ;;
    *) echo "${1%-*}" ;;
    esac
}
whole_lines() { # complete lines only: the last one may be cut
    if [ -z "$(tail -c 1 said)" ]; then cat said; else sed '$d' said; fi | tr -d '\r'
}
last_of() { # the newest generation that a disk's writer reported, as committed or as restored: it may die each time before it reports a commit
    whole_lines | sed -n "s/^$1 \(restored \)\{0,1\}\([0-9][0-9]*\)$/\2/p" | tail -n 1
}
new_disk() {
    case $1 in
    ext4-*)
        truncate -s $((24 * MIB)) "$1.img"
        mke2fs -q -t ext4 -b 4096 -J size=4 -F "$1.img" || exit 1
        truncate -s $((24 * MIB + 65536)) "$1.img"
        ;;
    *) truncate -s 1048576 "$1.img" ;;
    esac
}

seed=${POWERCUT_SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')} kills=0 random=0 flushes=0
RANDOM=$seed
echo "seed $seed"
for name in "${disks[@]}"; do
    new_disk "$name"
done
for ((round = 1; round <= rounds; round++)); do
    args= # QEMU's arguments, which the guest's script splits at blanks: so paths are relative to $work
    rm -f careless.img
    new_disk careless
    for name in "${disks[@]}"; do
        cp --sparse=always "$name.img" "$name.before"
        : > "$name.log"
        args+=" -blockdev driver=blklogwrites,node-name=$name,discard=ignore,file.driver=file,file.filename=$name.img"
        args+=",log.driver=file,log.filename=$name.log,log-sector-size=512 -device virtio-blk-pci,drive=$name,discard=off,write-zeroes=off"
    done
    : > said
    "$@" -d -n none -t 600 -b "$here" -a "$args" -- bash "$here/powercut.sh" --guest "$powercut" > said 2>&1 &
    guest=$!
    for ((tick = 0; ; tick++)); do
        told=$(whole_lines | awk '/^[a-z0-9-]+ [0-9]+$/ && !seen[$1]++ { n++ } END { print n + 0 }')
        [ "$told" -lt ${#disks[@]} ] || break
        if ! kill -0 $guest 2> /dev/null; then
            wait $guest
            [ $? -ne 77 ] || { tail -n 1 said; exit 77; }
            fail "the guest ended"
        fi
        [ $tick -lt 1600 ] || fail "no commit on every disk"
        sleep 0.3
    done
    sleep $((RANDOM % 3)).$((RANDOM % 10))
    kill -0 $guest 2> /dev/null || fail "the guest ended"
    kill $guest # kills the script, and with it QEMU, without notice
    wait $guest
    guest=
    kills=$((kills + 1))
    ! grep -aq 'a writer ended\|failed:' said || fail "a writer failed"
    for name in "${disks[@]}"; do
        kind=$(kind_of "$name") told=$(last_of "$name") cuts=$cuts_raw nth=$nth_raw
        [ "$kind" != ext4 ] || cuts=$cuts_ext4 nth=$nth_ext4
        if [ "$kind" != careless ]; then
            [ $round -eq 1 ] || grep -aq "^$name restored" said || fail "$name: nothing was restored in round $round"
            # One more may have been acknowledged but not reported.
            "$powercut" check "$kind" "$name.img" "$told" || "$powercut" check "$kind" "$name.img" $((told + 1)) ||
                fail "$name: generation $told is lost"
        fi
        "$powercut" sweep "$kind" "$name.before" "$name.log" "$name.next" "$cuts" "$nth" $((RANDOM * 32768 + RANDOM)) > swept || fail "$name"
        printf '%-14s %s\n' "$name" "$(cat swept)"
        mv "$name.next" "$name.img"
        [ "$kind" != careless ] || continue
        random=$((random + cuts))
        flushes=$((flushes + $(sed -n 's/.* cuts and \([0-9]*\) at flushes,.*/\1/p' swept)))
    done
done
echo "$kills guests killed, $random cuts at random places and $flushes at flushes: no commit that was acknowledged is lost"
