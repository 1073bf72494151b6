# SPDX-License-Identifier: BSD-3-Clause
# rpm.sh <tree> <version> <library>...: builds the packages of cmake/rpm/fencepost.spec, and compiles the README's program of each library
# against its unpacked packages. rpm's database does not have Debian's packages, so the test ignores BuildRequires.
set -eu
tree=$1 version=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
fail() {
    echo "FAILED: $*" >&2
    exit 1
}

mkdir "$scratch/fencepost-$version"
tar -C "$tree" -c --exclude=./build --exclude=./.git . | tar -C "$scratch/fencepost-$version" -x
tar -C "$scratch" -czf "$scratch/fencepost-$version.tar.gz" "fencepost-$version"
rpmbuild -bb --nodeps --define "_topdir $scratch/top" --define "_sourcedir $scratch" --define "_smp_mflags -j2" \
    "$tree/cmake/rpm/fencepost.spec" > "$scratch/log" 2>&1 || { tail -n 30 "$scratch/log"; fail "rpmbuild"; }

mkdir "$scratch/root"
for package in "$scratch"/top/RPMS/*/*.rpm; do
    (cd "$scratch/root" && rpm2cpio "$package" | cpio -idm --quiet)
done
pc=$(find "$scratch/root" -type d -name pkgconfig)
export PKG_CONFIG_PATH=$pc PKG_CONFIG_SYSROOT_DIR=$scratch/root
for library in "$@"; do
    sed -n '/^```c$/,/^```$/p' "$tree"/lib"${library%%-*}"/README.md | sed '1d;/^```$/,$d' > "$scratch/example.c"
    # The flags are lists of words.
    cc -Werror "$scratch/example.c" $(pkg-config --cflags "$library" "${library%%-*}") -o "$scratch/example" \
        $(pkg-config --libs "$library" "${library%%-*}") || fail "a program with lib$library"
    LD_LIBRARY_PATH=${pc%/pkgconfig} "$scratch/example" true || fail "the program with lib$library"
done
[ "$(rpm -qlp "$scratch"/top/RPMS/*/fencepost-slurm-*.rpm | grep -c '/fencepost/slurm/fencepost\.so$')" = 1 ] || fail "fencepost-slurm has no plugin"
(cd / && "$scratch/root/usr/bin/pmirun" -n 2 /bin/true) || fail "pmirun of fencepost-pmirun"
rpm -qp --recommends "$scratch"/top/RPMS/*/fencepost-pmirun-*.rpm | grep -qx pmix || fail "fencepost-pmirun does not recommend pmix"
[ ! -e "$scratch/root/usr/bin/mpirun" ] && [ ! -e "$scratch/root/usr/bin/mpiexec" ] || fail "a package has mpirun or mpiexec"
perl "$tree/tests/install/links.pl" "$scratch/root/usr/share/doc" || fail "links"
echo "$(ls "$scratch"/top/RPMS/*/*.rpm | wc -l) packages; the programs of $# READMEs run from them"
