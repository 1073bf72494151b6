# SPDX-License-Identifier: BSD-3-Clause
# The shared library exports exactly what the headers declare, each name under a version node and with the library's prefix;
# the static library defines no global name without the prefix.
. "$(dirname "$0")/common.sh"
export LC_ALL=C

(cd "$FOLDER/include" && find . -name '*.h' -printf '#include <%P>\n') |
    "$CC" -std=c11 -E "${includes[@]}" - | perl "$here/declared.pl" "$FOLDER/include" > "$scratch/declared"
nm -D --defined-only "$SHARED" | awk '$2 != "A" { print $3 }' | sort > "$scratch/exported"
sed 's/@.*//' "$scratch/exported" | sort -u > "$scratch/names"
nm -g --defined-only "$STATIC" | awk 'NF == 3 { print $3 }' | sort -u > "$scratch/globals"

[ -s "$scratch/declared" ] || fail "no declaration was found in the headers"
bad=0
# Not at the end of a pipe: a subshell loses its variables.
report() { # <fault>, names on standard input
    local names
    names=$(cat)
    if [ -n "$names" ]; then
        printf '%s:\n%s\n' "$1" "$names" >&2
        bad=1
    fi
}
report "exported, but in no header" < <(comm -13 "$scratch/declared" "$scratch/names")
report "declared in a header, but not exported" < <(comm -23 "$scratch/declared" "$scratch/names")
report "exported without a version node" < <(grep -v '@@*'"${UPPER}"'_[0-9]' "$scratch/exported")
report "exported without the prefix ${ID}_" < <(grep -v "^${ID}_[a-z0-9]" "$scratch/names")
report "global in the static library without the prefix ${ID}_" < <(grep -v "^${ID}_" "$scratch/globals")
[ "$bad" -eq 0 ] || exit 1
echo "$(wc -l < "$scratch/names") exports"
