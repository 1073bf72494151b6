# SPDX-License-Identifier: BSD-3-Clause
#
# refuses.sh: for the tests of embed, which set $embed and stand in a folder with the sources in tree/.

fail() {
    echo "failed: $*"
    exit 1
}

# refuses TEXT ARG...: the script fails, says TEXT, and the tree is as it was
refuses() {
    local text=$1
    shift
    rm -rf before && cp -r tree before
    ! "$embed" "$@" > message 2>&1 || fail "embed $*: no error; expected: $text"
    grep -qF -- "$text" message || fail "embed $*: not \"$text\" but: $(cat message)"
    diff -r before tree || fail "embed $*: it refused, and changed the tree"
    rm -rf before
}
