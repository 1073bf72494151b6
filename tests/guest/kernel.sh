#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# kernel.sh <directory> [<series>]
#
# Makes a guest's kernel and initrd from Debian's own kernel package: <directory>/vmlinux and <directory>/initrd. The package
# is downloaded and unpacked there, never installed. <series> is 6.1, the release's own kernel (the default), or another that
# the distribution has, such as 6.12. Does nothing if both exist; concurrent runs wait for each other.
#
# Status 77, and the reason as the last line, if a needed program or package is missing. GUEST_NO_DOWNLOAD=1: download
# nothing.
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
out=${1:?kernel.sh <directory> [<series>]}
series=${2:-6.1}
here=$(cd "$(dirname "$0")" && pwd)

skip() {
    echo "skip: $*"
    exit 77
}

mkdir -p "$out" || exit 1
exec 9> "$out/lock"
flock 9 || exit 1
made_of=$(sha256sum "$0" "$here/guest-init" | sha256sum)
[ ! -s "$out/vmlinux" ] || [ "$(cat "$out/made-of" 2> /dev/null)" != "$made_of" ] || exit 0
rm -f "$out/vmlinux" "$out/initrd" "$out/made-of"

[ "$(uname -m)" = x86_64 ] || skip "the guest is an x86-64 machine; needs a host of that kind"
missing=()
for need in apt-get:apt dpkg-deb:dpkg busybox:busybox-static modprobe:kmod cpio:cpio xz:xz-utils zstd:zstd strip:binutils; do
    command -v "${need%:*}" > /dev/null || missing+=("${need#*:}")
done
[ "${#missing[@]}" -eq 0 ] || skip "needs ${missing[*]}"
! ldd "$(command -v busybox)" > /dev/null 2>&1 || skip "needs busybox-static"

# The newest kernel of the series, signed or not, neither cloud (no soft-RoCE) nor real-time. apt reads the machine's package
# lists; without them it makes its own below <directory>.
apt=(-q -q)
newest() {
    apt-cache "${apt[@]}" pkgnames "linux-image-$series." | grep -E '^linux-image-[0-9.+deb~bpo-]*-amd64$' | sort -V | tail -n 1
}
deb=$(find "$out" -maxdepth 1 -name 'linux-image-*.deb' | sort -V | tail -n 1)
if [ -z "$deb" ]; then
    [ "${GUEST_NO_DOWNLOAD:-0}" = 0 ] || skip "needs Debian's linux-image-amd64 ($series), and may not download it"
    package=$(newest)
    if [ -z "$package" ]; then
        mkdir -p "$out/apt/lists/partial" "$out/apt/cache/archives/partial"
        apt+=(-o "Dir::State::lists=$out/apt/lists" -o "Dir::Cache=$out/apt/cache" -o APT::Sandbox::User=root)
        timeout 120 apt-get "${apt[@]}" update > "$out/apt.log" 2>&1
        package=$(newest)
    fi
    [ -n "$package" ] || skip "apt knows no linux-image of series $series"
    (cd "$out" && timeout 300 apt-get "${apt[@]}" -o APT::Sandbox::User=root download "$package" > apt.log 2>&1) ||
        skip "cannot download $package: $(tail -n 1 "$out/apt.log")"
    deb=$(find "$out" -maxdepth 1 -name 'linux-image-*.deb' | sort -V | tail -n 1)
    [ -n "$deb" ] || skip "cannot download $package"
    rm -rf "$out/apt"
fi

set -e
work=$(mktemp -d "$out/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
dpkg-deb --fsys-tarfile "$deb" |
    tar -x -C "$work" --wildcards './boot/vmlinuz-*' './lib/modules/*/modules.*' './lib/modules/*/kernel/drivers/infiniband/*' \
        './lib/modules/*/kernel/drivers/net/*' './lib/modules/*/kernel/drivers/virtio/*' './lib/modules/*/kernel/drivers/block/*' \
        './lib/modules/*/kernel/net/*' './lib/modules/*/kernel/fs/*' './lib/modules/*/kernel/lib/*' \
        './lib/modules/*/kernel/crypto/*' './lib/modules/*/kernel/arch/x86/crypto/*'
version=$(ls "$work/lib/modules")
depmod -b "$work" "$version" 2> /dev/null # about the modules left out

# QEMU enters an uncompressed kernel directly, which under emulation saves seconds. It is in vmlinuz, at one of the places
# where a compressed stream seems to begin: the one that gives an ELF file. The bytes behind the stream do not matter.
unpack_kernel() { # <vmlinuz> <magic, a Perl expression> <decompressor>...
    local image=$1 magic=$2 offset
    shift 2
    for offset in $(grep -aboP "$magic" "$image" | cut -d : -f 1); do
        tail -c "+$((offset + 1))" "$image" | "$@" > "$work/vmlinux" 2> /dev/null || true
        if [ "$(head -c 4 "$work/vmlinux" | od -An -tx1)" = ' 7f 45 4c 46' ]; then
            return 0
        fi
    done
    return 1
}
vmlinuz=$work/boot/vmlinuz-$version
unpack_kernel "$vmlinuz" '\xfd7zXZ\x00' xz -dc --single-stream ||
    unpack_kernel "$vmlinuz" '\x28\xb5\x2f\xfd' zstd -dc ||
    { echo "$vmlinuz: no kernel found in it"; exit 1; }

# add_modules <set> <module>...: these and their dependencies, listed in the order of loading in modules/<set>.
mkdir -p "$work/root/modules" "$work/root/guest"
add_modules() {
    local list=$work/root/modules/$1 module
    shift
    : > "$list"
    for module in "$@"; do
        modprobe -d "$work" -S "$version" --show-depends "$module" | sed -nE 's/^insmod (.*\.ko(\.xz)?) .*/\1/p' | while read -r path; do
            name=$(basename "$path")
            name=${name%.xz}
            ! grep -qxF "$name" "$list" || continue
            echo "$name" >> "$list"
            [ ! -e "$work/root/modules/$name" ] || continue
            case $path in
            *.xz) xz -dc "$path" > "$work/root/modules/$name" ;;
            *) cp "$path" "$work/root/modules/$name" ;;
            esac
            strip -g "$work/root/modules/$name" # and the signature with it: slow to check under emulation
        done
    done
    grep -qxF "$module.ko" "$list" || { echo "$version has no $module"; exit 1; }
}
# modprobe does not see that rdma_rxe and ext4 request a checksum by name.
add_modules base virtio_pci virtio_mmio 9pnet_virtio 9p
add_modules rdma crc32_generic ib_uverbs rdma_ucm dummy veth virtio_net rdma_rxe
add_modules disk virtio_blk crc32c_generic ext4
cp "$(command -v busybox)" "$work/root/guest/busybox"
cp "$here/guest-init" "$work/root/init"
chmod 755 "$work/root/init" "$work/root/guest/busybox"
(cd "$work/root" && find . | cpio -o -H newc --quiet) > "$work/initrd"
mv "$work/initrd" "$out/initrd"
mv "$work/vmlinux" "$out/vmlinux"
printf '%s\n' "$made_of" > "$out/made-of"
echo "made a guest of $(basename "$deb")"
