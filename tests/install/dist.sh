# SPDX-License-Identifier: BSD-3-Clause
# dist.sh <root> <version> <build>: the target dist makes the same tarball twice, without folders whose name begins with a dot; one library
# builds, alone, passes its tests and installs from it; one case of a test runs alone. From the environment: CMAKE CC.
set -eu
root=$1 name=fencepost-$2 build=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
unset DESTDIR

[ -e "$root/.git" ] || { echo "skip: needs git and the history of the tree"; exit 77; }
run() {
    "$@" > "$scratch/log" 2>&1 || { tail -n 40 "$scratch/log"; echo "FAILED: $*"; exit 1; }
}

run "$CMAKE" --build "$build" --target dist
cp "$build/$name.tar.gz" "$scratch/first"
sleep 1 # a time of day in the tarball would differ
run "$CMAKE" --build "$build" --target dist
cmp "$scratch/first" "$build/$name.tar.gz"
tar -C "$scratch" -xzf "$scratch/first"
dots=$(find "$scratch/$name" -mindepth 1 -type d -name '.*')
[ -z "$dots" ] || { echo "FAILED: in the tarball: $dots"; exit 1; }
[ "$(ls "$scratch/$name" | wc -l)" -ge 12 ] || { ls "$scratch/$name"; echo "FAILED: the tarball is not whole"; exit 1; }

run "$CMAKE" -S "$scratch/$name/libshmht" -B "$scratch/b" -DFENCEPOST_TESTS=ON -DCMAKE_C_COMPILER="$CC"
run "$CMAKE" --build "$scratch/b" --parallel 2
run ctest --test-dir "$scratch/b" --output-on-failure --no-tests=error
other=$(find "$scratch/b" -name 'lib*.a' ! -name libshmht.a)
[ -z "$other" ] || { echo "FAILED: built too: $other"; exit 1; }
ran=$("$scratch/b/tests/shmht/shmht_test_delete" --filter=test_churn 2>&1 | sed -n 's/^\[ RUN *\] //p')
[ "$ran" = test_churn ] || { echo "FAILED: --filter=test_churn runs: $ran"; exit 1; }
run "$CMAKE" --install "$scratch/b" --prefix "$scratch/prefix"
[ -n "$(find "$scratch/prefix" -name 'libshmht.so.*')" ] || { echo "FAILED: libshmht is not installed"; exit 1; }
echo "$(stat -c %s "$scratch/first") bytes, $(tar -tzf "$scratch/first" | wc -l) names"
