# SPDX-License-Identifier: BSD-3-Clause
# cmake316.sh <tree>: the tree without its tests, and each library's folder alone, are configured by a real CMake 3.16, and one library is
# built and installed. FENCEPOST_CMAKE_3_16 names it, or cmake3.16 is in PATH.
# cmake316.sh <tree> policies: the same with this machine's CMake in a copy that sets 3.16's policies; a newer policy that matters is an
# error.
set -eu
tree=$1
policies=${2-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
fail() {
    echo "FAILED: $*" >&2
    exit 1
}

if [ -n "$policies" ]; then
    cmake=$CMAKE
    mkdir "$scratch/copy"
    cp -R "$tree"/CMakeLists.txt "$tree/cmake" "$tree"/lib* "$tree/examples" "$scratch/copy"
    tree=$scratch/copy
    find "$tree" -name CMakeLists.txt -exec sed -i -E 's/^(cmake_minimum_required\(VERSION 3\.16)\.\.\.[0-9.]+/\1/' {} +
    if grep -rn --include=CMakeLists.txt '^cmake_minimum_required' "$tree" | grep -v '(VERSION 3\.16)'; then fail "another version"; fi
else
    cmake=${FENCEPOST_CMAKE_3_16:-$(command -v cmake3.16 || true)}
    [ -n "$cmake" ] || { echo "skip: needs CMake 3.16, as cmake3.16 in PATH or named by FENCEPOST_CMAKE_3_16"; exit 77; }
fi
version=$("$cmake" --version | sed -n '1s/^cmake version //p')
case $policies$version in
3.16.* | policies*) ;;
*) fail "$cmake is CMake $version" ;;
esac

# configure <folder> <name> [<option>...]
configure() {
    local folder=$1 build=$scratch/$2
    shift 2
    "$cmake" -S "$folder" -B "$build" -DCMAKE_C_COMPILER="$CC" ${policies:+-Werror=dev} "$@" > "$scratch/log" 2>&1 ||
        { cat "$scratch/log"; fail "configure $folder"; }
}
configure "$tree" tree -DFENCEPOST_TESTS=OFF
for folder in "$tree"/lib*; do
    configure "$folder" "${folder##*/}" -DCMAKE_INSTALL_PREFIX="$scratch/prefix"
done
"$cmake" --build "$scratch/libshmht" > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "build"; }
"$cmake" --install "$scratch/libshmht" > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "install"; }
[ -e "$scratch/prefix/include/shmht.h" ] || fail "shmht.h was not installed"
echo "CMake $version${policies:+, with the policies of 3.16}"
