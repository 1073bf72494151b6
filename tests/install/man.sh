# SPDX-License-Identifier: BSD-3-Clause
# The manual pages that the development component installs: one for every function of the library and every public inline, one for the
# library; mandoc and groff print no warning, whatis finds a name and a line in each, and no markup of the headers is left in them.
. "$(dirname "$0")/common.sh"
export LC_ALL=C.UTF-8
install_library "$scratch/stage"
man=$(find "$scratch/stage" -type d -name man3)
man=${man%/man3}

pages=("$man/man7/$NAME.7" "$man/man3/${ID}_"*.3)
[ -s "${pages[0]}" ] || fail "no $NAME(7)"
[ "${#pages[@]}" -gt 3 ] || fail "no pages in section 3"
if printf '%s\n' "${pages[@]##*/}" | grep __; then fail "the names above are private"; fi

nm -D --defined-only "$SHARED" | awk '$2 ~ /[TW]/ { sub(/@.*/, "", $3); print $3 }' | sort -u > "$scratch/functions"
(cd "$FOLDER/include" && find . -name '*.h' -printf '#include <%P>\n') |
    "$CC" -std=c11 -E "${includes[@]}" - | perl "$here/declared.pl" "$FOLDER/include" >> "$scratch/functions"
[ -s "$scratch/functions" ] || fail "no function was found"
sort -u "$scratch/functions" > "$scratch/names"
grep -oE '^\\fB[^/]*' "$man/man3/${ID}_"*.3 | sed 's/^[^:]*\/\([^/:]*\)\.3:/\1 /' > "$scratch/declarations"
while read -r name; do
    case $name in "${ID}"_*) ;; *) fail "$name() has no prefix" ;; esac
    [ -s "$man/man3/$name.3" ] || fail "no manual page of $name()"
done < "$scratch/names"
awk 'NR == FNR { want[$1]; next } $1 in want && index(substr($0, length($1) + 1), $1 "(") { delete want[$1] }
    END { for (name in want) { print name; bad = 1 } exit bad }' "$scratch/names" "$scratch/declarations" ||
    fail "the pages above do not have the declaration"
awk 'NR == FNR { want["\\fB" $1 "\\fP(3)"]; next } { delete want[$1] }
    END { for (name in want) { print name; bad = 1 } exit bad }' "$scratch/names" "${pages[0]}" || fail "$NAME(7) does not name the functions above"

lint_pages "${pages[@]}"
for section in NAME SYNOPSIS DESCRIPTION "SEE ALSO"; do
    if grep -LxF ".SH $section" "${pages[@]}" | grep .; then fail "no section $section in the pages above"; fi
done
if grep -nE "${UPPER}_API|@(brief|param|return|cost|threads|source|allocates|name|private)|\\\\\\(ga|/\*\*" "${pages[@]}"; then
    fail "the lines above have what belongs to the headers alone"
fi
if grep -nE '^\S+ \\- [a-z][A-Z]|^What for:' "${pages[@]}"; then fail "the lines above begin with an acronym in lower case, or a column's title"; fi
echo "${#pages[@]} pages, $(wc -l < "$scratch/names") functions"
