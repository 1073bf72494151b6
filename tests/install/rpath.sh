# SPDX-License-Identifier: BSD-3-Clause
# rpath.sh <build>: no program or shared library of the build has a search path with an empty or relative element. The loader looks for
# such an element in the working directory, so another user's folder could choose the code that runs.
set -u
command -v readelf > /dev/null || { echo "skip: needs readelf (binutils)" && exit 77; }
n=0 bad=0
while IFS= read -r -d '' file; do
    dynamic=$(readelf -d "$file" 2> /dev/null)
    [[ $dynamic == *NEEDED* ]] || continue
    n=$((n + 1))
    path=$(sed -n 's/.*(R\(UN\)\{0,1\}PATH).*\[\(.*\)\]$/:\2:/p' <<< "$dynamic")
    [ -n "$path" ] || continue
    case ${path//:[\/\$]/} in
    *:?*) echo "$file: search path ${path:1:-1}" >&2 && bad=1 ;;
    esac
done < <(find "$1"/bin "$1"/bench "$1"/pmi "$1"/lib* "$1"/swmpi -type f \( -perm -u+x -o -name '*.so*' \) -print0 2> /dev/null)
[ "$n" -gt 10 ] || { echo "only $n files in $1" >&2 && exit 1; }
[ "$bad" = 0 ] && echo "$n files"
