# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the tests here. Makes $scratch, which the test's end removes, and stops at the first command that fails.
# From the environment: NAME VERSION FOLDER (of the library) BUILD (the build tree) SHARED STATIC (the libraries built there)
# CC CXX CMAKE CMAKE_GENERATOR PKG_CONFIG; of a back-end also CORE and CORE_FOLDER, the library that it belongs to.
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
unset DESTDIR

ID=${NAME//-/_} # what its names in C begin with
UPPER=${ID^^}
includes=(-I"$FOLDER/include")
[ -z "$CORE" ] || includes+=(-I"$CORE_FOLDER/include")
# One consumer serves all libraries: the command line defines the names.
defines=(-DCONSUMER_HEADER="<$NAME.h>" -DCONSUMER_STRERROR="${ID}_strerror" -DCONSUMER_VERSION="${UPPER}_VERSION"
    -DCONSUMER_EXPECT="\"$VERSION\"")
strict=(-Wall -Wextra -Wpedantic -Wundef -Werror)

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# Installs both components of the library, and of the one that it belongs to, from the build tree:
# install_library <destdir> [<cmake --install option>...]
install_library() {
    local destdir=$1 component
    shift
    for component in ${CORE:+"lib$CORE-runtime" "lib$CORE-dev"} "lib$NAME-runtime" "lib$NAME-dev"; do
        DESTDIR=$destdir "$CMAKE" --install "$BUILD" --component "$component" "$@" >> "$scratch/install.log" ||
            { cat "$scratch/install.log"; fail "cmake --install"; }
    done
}

# Prints the install prefix that the build tree was configured with.
configured_prefix() {
    sed -n 's/^CMAKE_INSTALL_PREFIX:[A-Z]*=//p' "$BUILD/CMakeCache.txt"
}

# needs_shared <program>: whether the program asks for the shared library at run time.
needs_shared() {
    LC_ALL=C readelf -d "$1" | grep -q "NEEDED.*\[lib$NAME\.so\."
}

# lint_pages <page>...: mandoc and groff, on the 78 columns that man takes of 80, print no warning, no line is wider than 80, whatis finds a name
# and a line in each.
lint_pages() {
    "$MANDOC" -Tlint -W warning "$@" || fail "mandoc warns"
    "$GROFF" -t -rLL=78n -ww -P-cbou -man -Tutf8 "$@" > "$scratch/text" 2> "$scratch/groff" || fail "groff"
    # A terminal has no pages.
    if grep -v 'table text block will not fit on one page' "$scratch/groff"; then fail "groff warns"; fi
    if LC_ALL=C.UTF-8 grep -E '.{81}' "$scratch/text"; then fail "the lines above are wider than 80 columns"; fi
    "$LEXGROG" "$@" > "$scratch/whatis" || { grep -v ': "' "$scratch/whatis"; fail "whatis finds no line in the pages above"; }
}
