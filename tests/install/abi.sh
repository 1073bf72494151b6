# SPDX-License-Identifier: BSD-3-Clause
# The shared library against the ABI kept in abi/: any difference fails. With --freeze: writes that baseline.
. "$(dirname "$0")/common.sh"
if ! readelf -S "$SHARED" | grep -q '\.debug_info'; then
    echo "skip: needs debug information, as in the presets ci and debug"
    exit 77
fi
if [ "${1-}" = --freeze ]; then
    [ -x "$ABIDW" ] || fail "abidw is missing: apt install abigail-tools"
    mkdir -p "${BASELINE%/*}"
    "$ABIDW" --headers-dir "$FOLDER/include" --drop-private-types --no-corpus-path --no-comp-dir-path --no-show-locs \
        --out-file "$BASELINE" "$SHARED"
    sed -i "s|path='$FOLDER/|path='lib$NAME/|" "$BASELINE" # no folder of this machine
    echo "wrote $BASELINE"
else
    "$ABIDIFF" --headers-dir2 "$FOLDER/include" --drop-private-types "$BASELINE" "$SHARED" ||
        fail "the ABI differs from ${BASELINE##*/}; a new release writes a new one: --target freeze-abi-$NAME"
fi
