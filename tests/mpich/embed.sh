#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# embed.sh EMBED FOLDER: the script edits MPICH's source, refuses what it does not know, and changes nothing then; --undo restores.
set -u
embed=$1
. "$(dirname "$0")/refuses.sh"
"$(dirname "$0")/fetch" "$2" || exit
cd "$2" || exit 1
rm -rf tree
trap 'rm -rf tree was message' EXIT
mkdir tree
# what embed reads and writes
(cd mpich && cp -r --parents maint/version.m4 src/include src/mpi/group src/mpi/comm src/mpid/ch4/src src/mpid/ch4/include \
    src/mpid/ch4/netmod/ofi ../tree) || exit 1
cp -r tree was

refuses "usage"
refuses "is no source of MPICH" tree/src
refuses "there is no .rankmap" --undo tree

sed -i 's/\[MPICH_VERSION_m4\],\[4.0.2\]/[MPICH_VERSION_m4],[4.0.3]/' tree/maint/version.m4
refuses "is MPICH 4.0.3; these edits are for 4.0.2, 5.0.0, 5.0.1" tree
cp was/maint/version.m4 tree/maint/

sed -i 's/MPIDIU_comm_rank_to_av(/rank_to_av(/' tree/src/mpid/ch4/src/ch4_proc.h
refuses "src/mpid/ch4/src/ch4_proc.h: the function MPIDIU_comm_rank_to_av() is there 0 times, not once" tree
cp was/src/mpid/ch4/src/ch4_proc.h tree/src/mpid/ch4/src/

sed -n '/^int MPIR_Group_union_impl/,/^}/p' was/src/mpi/group/group_impl.c >> tree/src/mpi/group/group_impl.c
refuses "src/mpi/group/group_impl.c: the function MPIR_Group_union_impl() is there 2 times, not once" tree
cp was/src/mpi/group/group_impl.c tree/src/mpi/group/

echo "/* ours */" >> tree/src/mpid/ch4/src/ch4_comm.c
refuses "src/mpid/ch4/src/ch4_comm.c is not MPICH 4.0.2's: it has been changed" tree
cp was/src/mpid/ch4/src/ch4_comm.c tree/src/mpid/ch4/src/

rm tree/src/mpi/group/grouputil.c
refuses "src/mpi/group/grouputil.c: No such file" tree
cp was/src/mpi/group/grouputil.c tree/src/mpi/group/

touch tree/src/mpid/ch4/src/rankmap.c
refuses "src/mpid/ch4/src/rankmap.c is there already" tree
rm tree/src/mpid/ch4/src/rankmap.c

"$embed" tree || fail "the first run"
# MPICH does not compile groupdebug.c
! grep -rnE --exclude=groupdebug.c 'MPIDI_RANK_MAP_|lrank_to_lpid|next_lpid|mergesort_lpid' tree/src/mpid/ch4 tree/src/mpi tree/src/include ||
    fail "these names should be gone"
refuses "has librankmap already" tree
"$embed" --undo tree || fail "--undo"
diff -r was tree || fail "--undo did not restore the tree"
"$embed" tree > message && "$embed" --undo tree && diff -r was tree || fail "a second round"
echo "ok"
