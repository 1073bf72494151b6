# SPDX-License-Identifier: BSD-3-Clause
# debian.sh <tree> <folder>: builds the Debian packages into the folder, has lintian look at them, unpacks those of each library into an empty
# root of their own, and builds and runs there the first program of its README in fencepost-doc, shared and static, without access to
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
dpkg-deb -x "$out"/fencepost-doc_[0-9]*.deb "$scratch/doc"
perl "$root/tests/install/links.pl" "$scratch/doc" || fail "links of packaged pages"
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
    case $name in asymreg-*) doc=libasymreg/${name#*-} ;; *) doc=lib$name ;; esac
    sed -n '/^```c$/,/^```$/p' "$scratch/doc/usr/share/doc/fencepost-doc/$doc/README.md" | sed '1d;/^```$/,$d' > "$empty/example.c"
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

mkdir "$scratch/pmirun"
dpkg-deb -x "$out"/fencepost-pmirun_[0-9]*.deb "$scratch/pmirun"
(cd / && env -i PATH=/usr/bin:/bin "$scratch/pmirun/usr/bin/pmirun" -n 2 /bin/true) || fail "pmirun of fencepost-pmirun"
[ -x "$scratch/pmirun/usr/bin/mpiexec.fencepost" ] || fail "no mpiexec.fencepost"
# It takes no name from an MPI, not by update-alternatives either.
dpkg-deb -e "$out"/fencepost-pmirun_[0-9]*.deb "$scratch/control"
if grep -r update-alternatives "$scratch/control"; then fail "fencepost-pmirun registers an alternative"; fi
# What it loads by dlopen() it recommends, by the names of this release; it needs no MPI.
recommends=$(dpkg-deb -f "$out"/fencepost-pmirun_[0-9]*.deb Recommends)
for library in libpmix.so.2 libhwloc.so.15; do
    package=$(dpkg-query -S "/usr/lib/$triplet/$library" | cut -d: -f1)
    case ", $recommends, " in *", $package, "*) ;; *) fail "fencepost-pmirun recommends $recommends, which lacks $package" ;; esac
done
(cd / && env -i PATH=/usr/bin:/bin "$scratch/pmirun/usr/bin/pmirun" --info) > "$scratch/info"
grep -q '^mpi: .* pmix$' "$scratch/info" && grep -q '^topology: *hwloc$' "$scratch/info" || { cat "$scratch/info"; fail "fencepost-pmirun is built without libpmix or hwloc"; }
# The plugin for Slurm is a package of its own, which depends on Slurm's release and our programs; no other package has it.
dpkg-deb -x "$out"/fencepost-slurm_[0-9]*.deb "$scratch/slurm"
plugin=$scratch/slurm/usr/lib/$triplet/fencepost/slurm/fencepost.so
for name in "/usr/bin/pmirun" "/usr/lib/$triplet/fencepost/libpmi.so.0"; do
    grep -qF "$name" "$plugin" || fail "the plugin does not know $name"
    [ -e "$scratch/pmirun$name" ] || fail "fencepost-pmirun has no $name"
done
[ ! -e "$scratch/pmirun/usr/lib/$triplet/fencepost/slurm" ] || fail "fencepost-pmirun has the plugin"
dpkg-deb -f "$out"/fencepost-slurm_[0-9]*.deb Depends | grep -E 'fencepost-pmirun \(=.*slurm-client \(>= [0-9.]+\), slurm-client \(<< .*libmunge2' ||
    fail "fencepost-slurm depends on $(dpkg-deb -f "$out"/fencepost-slurm_[0-9]*.deb Depends)"
if dpkg-deb -f "$out"/fencepost-pmirun_[0-9]*.deb Depends | grep -E 'libpmi|mpich|openmpi'; then fail "fencepost-pmirun needs an MPI"; fi
