# SPDX-License-Identifier: BSD-3-Clause
# cmake316.sh <tree>: the tree without its tests, and each library's folder alone, are configured by a real CMake 3.16, and one library is
# built and installed. FENCEPOST_CMAKE_3_16 names it, or cmake3.16 is in PATH.
set -eu
tree=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
fail() {
    echo "FAILED: $*" >&2
    exit 1
}

cmake=${FENCEPOST_CMAKE_3_16:-$(command -v cmake3.16 || true)}
[ -n "$cmake" ] || { echo "skip: needs CMake 3.16, as cmake3.16 in PATH or named by FENCEPOST_CMAKE_3_16"; exit 77; }
version=$("$cmake" --version | sed -n '1s/^cmake version //p')
case $version in
3.16.*) ;;
*) fail "$cmake is CMake $version" ;;
esac

# configure <folder> <name> [<option>...]
configure() {
    local folder=$1 build=$scratch/$2
    shift 2
    "$cmake" -S "$folder" -B "$build" -DCMAKE_C_COMPILER="$CC" "$@" > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "configure $folder"; }
}
configure "$tree" tree -DFENCEPOST_TESTS=OFF
for folder in "$tree"/lib*; do
    configure "$folder" "${folder##*/}" -DCMAKE_INSTALL_PREFIX="$scratch/prefix"
done
"$cmake" --build "$scratch/libshmht" > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "build"; }
"$cmake" --install "$scratch/libshmht" > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "install"; }
[ -e "$scratch/prefix/include/shmht.h" ] || fail "shmht.h was not installed"
echo "CMake $version"
