#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# embed5.sh EMBED FOLDER: as embed.sh, for MPICH 5.0. No package has its source: FENCEPOST_MPICH5 names a folder with it, unpacked or cloned.
set -u
embed=$1
. "$(dirname "$0")/refuses.sh"
[ -n "${FENCEPOST_MPICH5-}" ] || {
    echo "skip: FENCEPOST_MPICH5 names no folder with the source of MPICH 5.0.0 or 5.0.1"
    exit 77
}
source=$(realpath "$FENCEPOST_MPICH5")
mkdir -p "$2" && cd "$2" || exit 1
rm -rf tree
trap 'rm -rf tree was message' EXIT
mkdir tree
# what embed reads and writes
(cd "$source" && cp -r --parents maint/version.m4 src/include src/mpi/group src/mpi/comm src/mpid/ch4/src "$OLDPWD/tree") || exit 1
cp -r tree was
version=$(sed -nE 's/.*\[MPICH_VERSION_m4\],\[([^]]*)\].*/\1/p' tree/maint/version.m4)

for other in 4.3.2 5.0.2 5.1.0; do
    sed -i "s/\[MPICH_VERSION_m4\],\[[^]]*\]/[MPICH_VERSION_m4],[$other]/" tree/maint/version.m4
    refuses "is MPICH $other; these edits are for 4.0.2, 5.0.0, 5.0.1" tree
done
cp was/maint/version.m4 tree/maint/

# anchor FILE PATTERN REPLACEMENT TEXT: with that change, embed says TEXT of the file
anchor() {
    sed -i "s/$2/$3/" "tree/$1"
    cmp -s "was/$1" "tree/$1" && fail "$1: no $2"
    refuses "$1: $4" tree
    cp "was/$1" "tree/$1"
}
anchor src/include/mpir_group.h 'struct MPIR_Pmap {' 'struct MPIR_Map {' "the type MPIR_Pmap is there 0 times, not once"
anchor src/include/mpir_lpid.h 'define MPIR_LPID_FROM' 'define MPIR_LPID_OF' "the macro MPIR_LPID_FROM is there 0 times, not once"
anchor src/mpi/group/grouputil.c 'if (group_ptr->pmap.use_map)' 'if (1)' \
    'if \(group_ptr->pmap\.use_map\) in MPIR_Group_release() is there 0 times, not once'
anchor src/mpi/comm/comm_impl.c '^static int calc_context_id' 'static int context_id' "the function calc_context_id() is there 0 times, not once"
anchor src/mpid/ch4/src/ch4i_comm.c '^static uint64_t shrink' 'static uint64_t shrunk' "the function shrink() is there 0 times, not once"
anchor src/mpid/ch4/src/ch4_impl.h 'MPIDIU_valid_group_rank(' 'valid_group_rank(' "the function MPIDIU_valid_group_rank() is there 0 times, not once"

sed -n '/^int MPIR_Group_union_impl/,/^}/p' was/src/mpi/group/group_impl.c >> tree/src/mpi/group/group_impl.c
refuses "src/mpi/group/group_impl.c: the function MPIR_Group_union_impl() is there 2 times, not once" tree
cp was/src/mpi/group/group_impl.c tree/src/mpi/group/

echo "/* ours */" >> tree/src/mpi/comm/comm_impl.c
refuses "src/mpi/comm/comm_impl.c is not MPICH $version's: it has been changed" tree
cp was/src/mpi/comm/comm_impl.c tree/src/mpi/comm/

touch tree/src/include/rankmap.h
refuses "src/include/rankmap.h is there already" tree
rm tree/src/include/rankmap.h

"$embed" tree || fail "the first run"
! grep -rnE 'MPIR_Pmap|\bpmap\b|use_map|check_map_is_strided' tree/src/mpi/group tree/src/mpi/comm tree/src/include || fail "these names should be gone"
refuses "has librankmap already" tree
"$embed" --undo tree || fail "--undo"
diff -r was tree || fail "--undo did not restore the tree"
echo "ok"
