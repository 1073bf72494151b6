# SPDX-License-Identifier: BSD-3-Clause
# The manual pages that the development component installs: one for every function of the library and every public inline, one for the
# library; mandoc and groff find nothing to warn of, whatis finds a name and a line in each, and no mark of the headers is left in them.
. "$(dirname "$0")/common.sh"
export LC_ALL=C.UTF-8
install_library "$scratch/stage"
man=$(find "$scratch/stage" -type d -name man3)
man=${man%/man3}

pages=("$man/man7/$NAME.7" "$man/man3/${ID}_"*.3)
[ -s "${pages[0]}" ] || fail "no $NAME(7)"
[ "${#pages[@]}" -gt 3 ] || fail "no pages in section 3"

nm -D --defined-only "$SHARED" | awk '$2 ~ /[TW]/ { sub(/@.*/, "", $3); print $3 }' | sort -u > "$scratch/functions"
(cd "$FOLDER/include" && find . -name '*.h' -printf '#include <%P>\n') |
    "$CC" -std=c11 -E "${includes[@]}" - | perl "$here/declared.pl" "$FOLDER/include" >> "$scratch/functions"
[ -s "$scratch/functions" ] || fail "no function was found"
while read -r name; do
    page=$man/man3/$name.3
    [ -s "$page" ] || fail "no manual page of $name()"
    grep -q "^\\\\fB.*\b$name(" "$page" || fail "$name(3) does not have the declaration"
    grep -qF "\\fB$name\\fP(3)" "${pages[0]}" || fail "$NAME(7) does not name $name()"
done < <(sort -u "$scratch/functions")

"$MANDOC" -Tlint -W warning "${pages[@]}" || fail "mandoc warns"
"$GROFF" -ww -z -man -Tutf8 "${pages[@]}" 2> "$scratch/groff" || fail "groff"
if grep . "$scratch/groff"; then fail "groff warns"; fi
for page in "${pages[@]}"; do
    name=${page##*/}
    "$LEXGROG" "$page" | grep -q "\"${name%.*} - [^\" ]" || fail "whatis finds no line in $name"
    for section in NAME SYNOPSIS DESCRIPTION "SEE ALSO"; do
        grep -qx "\.SH $section" "$page" || { [ "$section" = DESCRIPTION ] && grep -qx '\.SH TYPE' "$page"; } ||
            fail "$name has no $section"
    done
done
if grep -nE "${UPPER}_API|@(brief|param|return|cost|threads|source|allocates|name|private)|\\\\\\(ga|/\*\*" "${pages[@]}"; then
    fail "the lines above have what belongs to the headers alone"
fi
echo "${#pages[@]} pages, $(sort -u "$scratch/functions" | wc -l) functions"
