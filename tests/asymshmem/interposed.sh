#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# interposed.sh OSHCC LIBRARY: libasymshmem has every call of <shmem.h> that names a PE, every collective that moves data, and exports no name that a
# program could use (_end is the linker's).
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
echo '#include <shmem.h>' | "$1" -E -P -x c - >"$dir/header"
tr '\n;' ' \n' <"$dir/header" | grep -oE '\bshmemx?_[a-z0-9_]+ *\([^()]*\bint +pe *\)' | sed 's/ *(.*//' | sort -u |
    grep -vx shmem_pe_accessible >"$dir/of_pe" # which takes no address
tr '\n;' ' \n' <"$dir/header" | grep -oE '\bshmem_[a-z0-9_]+ *\([^()]*\*[^()]*\blong *\* *pSync *\)' | sed 's/ *(.*//' | sort -u |
    grep -vxE 'shmem_(barrier|sync|broadcast)' >"$dir/collective" # the last is declared, but no library has it
sort "$dir/of_pe" "$dir/collective" >"$dir/declared"
[ "$(wc -l <"$dir/collective")" -ge 50 ] || { echo "only $(wc -l <"$dir/collective") collectives found in shmem.h"; exit 1; }
nm -D --defined-only "$2" | awk '{ print $3 }' | sort -u >"$dir/defined"
[ "$(wc -l <"$dir/declared")" -ge 700 ] || { echo "only $(wc -l <"$dir/declared") calls found in shmem.h"; exit 1; }
comm -23 "$dir/declared" "$dir/defined" >"$dir/missing"
grep -vxE '(shmemx?_[a-z0-9_]+|start_pes|_end)' "$dir/defined" >"$dir/foreign" || :
[ ! -s "$dir/missing" ] || { echo "not interposed:"; cat "$dir/missing"; exit 1; }
[ ! -s "$dir/foreign" ] || { echo "exported:"; cat "$dir/foreign"; exit 1; }
wc -l <"$dir/declared"
