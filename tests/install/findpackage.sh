# SPDX-License-Identifier: BSD-3-Clause
# A user with CMake: find_package() against a staged tree, both targets, in C11 and in C++17; and against the component for development alone.
. "$(dirname "$0")/common.sh"
install_library "$scratch/stage"
prefix=$scratch/stage$(configured_prefix)

consume() {
    "$CMAKE" -S "$here/consumer" -B "$scratch/$1" -DPACKAGE="$NAME" -DVERSION="$VERSION" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_C_FLAGS="${strict[*]}" -DCMAKE_CXX_FLAGS="${strict[*]}"
    "$CMAKE" --build "$scratch/$1"
}
consume build
# A back-end's core comes from another folder than the staged tree.
export LD_LIBRARY_PATH=${prefix}/lib:$(dirname "$(find "$prefix" -name "lib$NAME.so.*" | head -n 1)")
for language in c cc; do
    "$scratch/build/${NAME}_$language"
    needs_shared "$scratch/build/${NAME}_$language" || fail "$language: $NAME::$NAME is not the shared library"
    "$scratch/build/${NAME}_static_$language"
    if needs_shared "$scratch/build/${NAME}_static_$language"; then
        fail "$language: $NAME::${NAME}_static is the shared library"
    fi
done

# Without the runtime component the program gets the archive.
find "$prefix" -name "lib$NAME.so.*" -delete
consume dev
if needs_shared "$scratch/dev/${NAME}_c"; then
    fail "a program needs a shared library that is not installed"
fi
"$scratch/dev/${NAME}_c"
