# SPDX-License-Identifier: BSD-3-Clause
# abi.sh <root> <folder> <abidiff> <library>...: each shared library keeps the ABI of the commit that abi-baseline names, the last
# release, and may add functions; a library with a new SONAME may change anything. abi.suppr, beside this file and in abidiff's form, lists intended
# changes within one SONAME, such as an option struct that has grown, until the next release. The baseline's libraries are built into the folder,
# once.
export NAME='' CORE='' FOLDER=$1
. "$(dirname "$0")/common.sh"
root=$1 out=$2 abidiff=$3
shift 3

if [ "$(git -C "$root" rev-parse --show-toplevel 2> "$scratch/log")" != "$root" ]; then
    echo "skip: needs git and its history: $(tail -n 1 "$scratch/log")"
    exit 77
fi
baseline=$(grep -v '^#' "$here/abi-baseline")
if ! git -C "$root" cat-file -e "$baseline^{commit}" 2> "$scratch/log"; then
    echo "skip: needs the history back to $baseline: $(tail -n 1 "$scratch/log")"
    exit 77
fi

for NAME in "$@"; do install_library "" --prefix "$scratch/now"; done
libraries=$(find "$scratch/now" -type d -name pkgconfig)
libraries=${libraries%/*}
if ! readelf -S "$libraries/lib$1.so" | grep -q '\.debug_info'; then
    echo "skip: needs debug information, as in the presets ci and debug"
    exit 77
fi

base=$out/$baseline
if [ ! -e "$base/made" ]; then
    rm -rf "$out"
    mkdir -p "$base/source"
    git -C "$root" archive "$baseline" | tar -x -C "$base/source"
    {
        "$CMAKE" -S "$base/source" -B "$base/build" -DCMAKE_BUILD_TYPE=Debug -DFENCEPOST_EXAMPLES=OFF \
            -DFENCEPOST_TESTS=OFF -DCMAKE_INSTALL_PREFIX="$base/prefix" -DCMAKE_INSTALL_LIBDIR=lib &&
            "$CMAKE" --build "$base/build" && "$CMAKE" --install "$base/build"
    } > "$scratch/log" 2>&1 || { tail -n 30 "$scratch/log"; fail "$baseline does not build"; }
    touch "$base/made"
fi

suppressions=()
[ ! -e "$here/abi.suppr" ] || suppressions=(--suppressions "$here/abi.suppr")
soname() { LC_ALL=C readelf -d "$1" | sed -n 's/.*Library soname: \[\(.*\)\]/\1/p'; }
bad=0
for NAME in "$@"; do
    then=$base/prefix/lib/lib$NAME.so now=$libraries/lib$NAME.so
    if [ ! -e "$then" ]; then
        echo "lib$NAME: not in $baseline"
    elif [ "$(soname "$then")" != "$(soname "$now")" ]; then
        echo "lib$NAME: $(soname "$then") in $baseline, $(soname "$now") now"
    elif "$abidiff" --headers-dir1 "$base/prefix/include" --headers-dir2 "$scratch/now/include" --drop-private-types --no-added-syms \
        "${suppressions[@]}" "$then" "$now"; then
        echo "lib$NAME: as in $baseline"
    else
        echo "FAILED: the ABI of lib$NAME differs from that of $baseline"
        bad=1
    fi
done
exit "$bad"
