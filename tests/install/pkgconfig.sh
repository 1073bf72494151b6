# SPDX-License-Identifier: BSD-3-Clause
# A user with nothing but a compiler and pkg-config: C11 and C++17, shared and static, against a staged tree (DESTDIR) and
# against other prefixes, one with a blank.
. "$(dirname "$0")/common.sh"
cp "$here/consumer/consumer.c" "$scratch/consumer.c"
cp "$here/consumer/consumer.c" "$scratch/consumer.cc"

# use <pc directory> <directory of the libraries>
use() {
    export PKG_CONFIG_PATH=$1
    "$PKG_CONFIG" --validate "$NAME" || fail "$PKG_CONFIG --validate"
    [ "$("$PKG_CONFIG" --modversion "$NAME")" = "$VERSION" ] || fail "$NAME.pc is not version $VERSION"
    local cflags libs libs_static language
    cflags=$("$PKG_CONFIG" --cflags "$NAME")
    libs=$("$PKG_CONFIG" --libs "$NAME")
    libs_static=$("$PKG_CONFIG" --static --libs "$NAME")
    case " $cflags" in *" -D"*) fail "a -D in Cflags" ;; esac
    for language in c cc; do
        local compile=("$CC" -std=c11)
        [ "$language" = c ] || compile=("$CXX" -std=c++17)
        # The flags are lists of words.
        "${compile[@]}" "${strict[@]}" "${defines[@]}" $cflags "$scratch/consumer.$language" -o "$scratch/shared" $libs
        needs_shared "$scratch/shared" || fail "$language: not linked with lib$NAME.so"
        LD_LIBRARY_PATH=$2 "$scratch/shared"
        "${compile[@]}" "${strict[@]}" "${defines[@]}" $cflags "$scratch/consumer.$language" -o "$scratch/static" \
            -static $libs_static
        "$scratch/static"
    done
}

echo "staged under DESTDIR"
install_library "$scratch/stage"
pc=$(find "$scratch/stage" -name "$NAME.pc")
grep -qx "prefix=$(configured_prefix)" "$pc" || fail "$NAME.pc does not say the configured prefix"
export PKG_CONFIG_SYSROOT_DIR=$scratch/stage PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
use "${pc%/*}" "${pc%/pkgconfig/*}"

echo "eight at a time, to one prefix"
for round in 1 2 3; do
    for i in 1 2 3 4 5 6 7 8; do
        DESTDIR=$scratch/at_once/$i "$CMAKE" --install "$BUILD" --component "lib$NAME-dev" > "$scratch/at_once.$i" 2>&1 ||
            { cat "$scratch/at_once.$i"; touch "$scratch/not_at_once"; } &
    done
    wait
done
[ ! -e "$scratch/not_at_once" ] || fail "installations at the same time disturb each other"

echo "installed to a prefix chosen at install time"
unset PKG_CONFIG_SYSROOT_DIR
install_library "" --prefix "$scratch/prefix"
pc=$(find "$scratch/prefix" -name "$NAME.pc")
use "${pc%/*}" "${pc%/pkgconfig/*}"

echo "installed to a prefix with a blank"
install_library "" --prefix "$scratch/a prefix"
PKG_CONFIG_PATH=$(dirname "$(find "$scratch/a prefix" -name "$NAME.pc")")
eval "flags=($("$PKG_CONFIG" --cflags --libs "$NAME"))" # the blank is escaped, as shells and make have it
"$CC" -std=c11 "${strict[@]}" "${defines[@]}" "$scratch/consumer.c" -o "$scratch/blank" "${flags[@]}"
