# SPDX-License-Identifier: BSD-3-Clause
# debian.sh <tree> <folder>: builds the Debian packages into the folder, has lintian look at them, unpacks those of each library into an empty
# root of their own, and builds and runs there the first program of the README that the package holds, shared and static, without access to
# the tree: an empty environment, another working directory. With a third argument --packages it uses the packages in the folder.
set -eu
root=$1 out=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
fail() {
    echo "FAILED: $*" >&2
    exit 1
}

if [ "${3-}" != --packages ]; then
    bash "$root/cmake/debian/build" "$out" > "$scratch/log" 2>&1 || { tail -n 60 "$scratch/log"; fail "the packages do not build"; }
fi
as_root=()
[ "$(id -u)" -ne 0 ] || as_root=(--allow-root)
lintian "${as_root[@]}" --tag-display-limit 0 -I --fail-on error,warning,info "$out"/fencepost_*.changes || fail "lintian"

triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
n=0
for dev in "$out"/lib*-dev_*.deb; do
    name=${dev##*/lib}
    name=${name%-dev_*}
    empty=$scratch/$name
    mkdir "$empty"
    unpack="$name"
    case $name in asymreg-*) unpack="asymreg $name" ;; esac
    for library in $unpack; do
        dpkg-deb -x "$out"/lib"$library"0_[0-9]*.deb "$empty"
        dpkg-deb -x "$out"/lib"$library"-dev_[0-9]*.deb "$empty"
    done
    doc=$(echo "$empty/usr/share/doc/lib$name-dev/README.md"*)
    case $doc in *.gz) gunzip "$doc" && doc=${doc%.gz} ;; esac
    sed -n '/^```c$/,/^```$/p' "$doc" | sed '1d;/^```$/,$d' > "$empty/example.c"
    grep -q 'int main' "$empty/example.c" || fail "the README of lib$name-dev has no program"
    (
        cd "$empty"
        clean=(env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 PKG_CONFIG_LIBDIR="$empty/usr/lib/$triplet/pkgconfig:/usr/lib/$triplet/pkgconfig"
            PKG_CONFIG_SYSROOT_DIR="$empty" PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1)
        # The flags are lists of words. Those of UCX and similar packages name folders that the empty root does not have.
        "${clean[@]}" cc -Wall -Wextra -Werror -O2 example.c $("${clean[@]}" pkg-config --cflags "$name") -o shared \
            $("${clean[@]}" pkg-config --libs $unpack)
        "${clean[@]}" LD_LIBRARY_PATH="$empty/usr/lib/$triplet" ldd shared | grep "lib$name\.so\.0 => $empty/" ||
            fail "the program does not use the package's lib$name.so.0"
        "${clean[@]}" LD_LIBRARY_PATH="$empty/usr/lib/$triplet" ./shared true
        case $name in asymreg-*) ;; *) # UCX and verbs have no static libraries in Debian
            "${clean[@]}" cc -Wall -Wextra -Werror -O2 example.c $("${clean[@]}" pkg-config --cflags "$name") -o static \
                -static $("${clean[@]}" pkg-config --static --libs "$name")
            "${clean[@]}" ./static true ;;
        esac
        [ -s "usr/share/man/man7/$name.7.gz" ] || fail "no $name(7) in lib$name-dev"
    ) || fail "lib$name"
    n=$((n + 1))
    echo "lib$name: its README's program runs from its packages"
done
[ "$n" -ge 5 ] || fail "$n libraries only"

mkdir "$scratch/examples"
dpkg-deb -x "$out"/fencepost-examples_[0-9]*.deb "$scratch/examples"
(cd / && env -i PATH=/usr/bin:/bin "$scratch/examples/usr/bin/pmirun" -n 2 /bin/true) || fail "pmirun of fencepost-examples"
# update-alternatives makes it mpirun and mpiexec, and removal undoes that.
dpkg-deb -e "$out"/fencepost-examples_[0-9]*.deb "$scratch/control"
mkdir -p "$scratch/examples/etc/alternatives" "$scratch/examples/var/lib/dpkg/alternatives" "$scratch/examples/var/log"
DPKG_ROOT=$scratch/examples sh "$scratch/control/postinst" configure > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "postinst"; }
[ "$(readlink "$scratch/examples/etc/alternatives/mpiexec")" = /usr/bin/mpiexec.fencepost ] || fail "mpiexec.fencepost is no alternative of mpiexec"
[ -L "$scratch/examples/usr/bin/mpirun" ] || fail "no mpirun"
DPKG_ROOT=$scratch/examples sh "$scratch/control/prerm" remove > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "prerm"; }
[ ! -L "$scratch/examples/usr/bin/mpirun" ] || fail "prerm leaves mpirun"
# The plugin for Slurm is a package of its own, which depends on Slurm's release and our programs; no other package has it.
dpkg-deb -x "$out"/fencepost-slurm_[0-9]*.deb "$scratch/slurm"
plugin=$scratch/slurm/usr/lib/$triplet/fencepost/slurm/fencepost.so
for name in "/usr/bin/pmirun" "/usr/lib/$triplet/fencepost/libpmi.so.0"; do
    grep -qF "$name" "$plugin" || fail "the plugin does not know $name"
    [ -e "$scratch/examples$name" ] || fail "fencepost-examples has no $name"
done
[ ! -e "$scratch/examples/usr/lib/$triplet/fencepost/slurm" ] || fail "fencepost-examples has the plugin"
dpkg-deb -f "$out"/fencepost-slurm_[0-9]*.deb Depends | grep -E 'fencepost-examples \(=.*slurm-client \(>= [0-9.]+\), slurm-client \(<< .*libmunge2' ||
    fail "fencepost-slurm depends on $(dpkg-deb -f "$out"/fencepost-slurm_[0-9]*.deb Depends)"
if dpkg-deb -f "$out"/fencepost-examples_[0-9]*.deb Depends | grep -E 'libpmi|mpich|openmpi'; then fail "fencepost-examples needs an MPI"; fi
