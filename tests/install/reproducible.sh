# SPDX-License-Identifier: BSD-3-Clause
# reproducible.sh <tree>: copies the tree to two folders of different length, builds and installs it there, and compares the installed
# files byte by byte. As in the packages, there is no debug information, which names folders unless -ffile-prefix-map replaces them, and no
# MPI programs. From the environment: CC CMAKE CMAKE_GENERATOR.
set -eu
tree=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
unset DESTDIR

for place in a "b/a longer way"; do
    copy=$scratch/$place/tree
    mkdir -p "$copy"
    tar -C "$tree" -c --exclude=./build --exclude=./.git . | tar -C "$copy" -x
    "$CMAKE" -S "$copy" -B "$copy/build" -G "$CMAKE_GENERATOR" -DCMAKE_C_COMPILER="$CC" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_SKIP_INSTALL_RPATH=ON -DFENCEPOST_TESTS=OFF \
        -DFENCEPOST_MPICC_MPICH=OFF -DFENCEPOST_MPICC_OPENMPI=OFF -DFENCEPOST_OSHCC=OFF > "$scratch/log" 2>&1 &&
        "$CMAKE" --build "$copy/build" --parallel 2 >> "$scratch/log" 2>&1 &&
        DESTDIR=$scratch/$place/root "$CMAKE" --install "$copy/build" >> "$scratch/log" 2>&1 || { tail -n 30 "$scratch/log"; exit 1; }
done
diff -r --no-dereference "$scratch/a/root" "$scratch/b/a longer way/root"
n=$(find "$scratch/a/root" -type f | wc -l)
[ "$n" -ge 100 ]
echo "$n installed files are the same from both folders"
