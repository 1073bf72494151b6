# SPDX-License-Identifier: BSD-3-Clause
"""The edits of MPICH 5.0: the map of a group, which is a communicator's map too, becomes a map of librankmap.

Releases 5.0.0 and 5.0.1 have the same text in the edited files.
"""

VERSIONS = ("5.0.0", "5.0.1")


def edit_lpid(f):
    f.drop("macro", "MPIR_LPID_WORLD_RANK", "MPIR_LPID_FROM", "MPIR_LPID_DYNAMIC_MASK")
    f.replace("macro", "MPIR_LPID_WORLD_INDEX", '#include "lpid_rankmap.h"\n')


def edit_group_h(f):
    f.drop("type", "MPIR_Pmap")
    f.member("MPIR_Group", "pmap", "    struct rankmap *map;        /* rank to lpid */\n    struct rankmap_lookup lookup;       /* the same */\n")
    f.statement("MPIR_Group_rank_to_lpid", r"if \(group->pmap\.use_map\)",
                "return (MPIR_Lpid) rankmap_at_sized(&group->lookup, rank, 1);")


def edit_grouputil(f):
    f.drop("prototypes", "check_map_is_strided", "pmap_lpid_to_rank")
    f.drop("function", "check_map_is_strided", "pmap_lpid_to_rank", "MPIR_Group_create_map", "MPIR_Group_create_stride",
           "MPIR_Group_lpid_to_rank", "MPIR_Group_check_subset")
    f.without("MPIR_Group_init", r"\bpmap\b")
    f.within("MPIR_Group_init", r"\breturn mpi_errno;", "mpi_errno = MPIR_Rankmap_builtin_groups();\n    return mpi_errno;")
    f.within("MPIR_Group_finalize", r"\bnum_worlds = 0;", "num_worlds = 0;\n    for (int i = 0; i < MPIR_GROUP_N_BUILTIN; i++)\n"
             "        rankmap_unref(MPIR_Group_builtin[i].map);")
    f.statement("MPIR_Group_release", r"if \(group_ptr->pmap\.use_map\)", "rankmap_unref(group_ptr->map);")
    f.within("MPIR_Group_create", r"\bmemset\(", "(*new_group_ptr)->map = NULL")
    f.statement("MPIR_Group_dup", r"if \(old_group->pmap\.use_map\)")
    f.within("MPIR_Group_dup", r"\bmemcpy\(", "new_group->map = rankmap_ref(old_group->map);\n"
             "    new_group->lookup = old_group->lookup")


def edit_group_impl(f):
    f.drop("function", *(f"MPIR_Group_{call}_impl" for call in (
        "compare", "difference", "excl", "incl", "intersection", "range_excl", "range_incl", "translate_ranks", "union")))
    f.append('\n#include "group_rankmap.c"\n#include "lpid_rankmap.c"\n#include "rankmap.c"\n')


def edit_comm_impl(f):
    f.statement("MPIR_Comm_create_inter", r"for \(int i = 0; i < group_ptr->size; i\+\+\)",
                "mpi_errno = MPIR_Rankmap_error(rankmap_translate(group_ptr->map, NULL, group_ptr->size,\n"
                "                                                         comm_ptr->local_group->map,\n"
                "                                                         (uint32_t *) mapping));\n"
                "        MPIR_ERR_CHECK(mpi_errno);")
    f.statement("calc_context_id", r"if \(group_ptr->pmap\.use_map\)",
                "hash3 = MPIR_Rankmap_hash(group_ptr->map);")
    merge = "MPIR_Intercomm_merge_impl"
    f.statement(merge, r"for \(int i = 0; i < group1->size")
    f.statement(merge, r"for \(int i = 0; i < group2->size")
    f.within(merge, r"\bMPIR_Group_create_map\(", "MPIR_Group_union_impl(group1, group2, &new_local_group);\n"
             "    MPIR_ERR_CHECK(mpi_errno)")
    f.without(merge, r"\bmap\b")


def edit_ch4_impl(f):
    valid = "MPIDIU_valid_group_rank"
    f.statement(valid, r"for \(z = 0")
    f.without(valid, r"int size\b|int z\b")
    f.within(valid, r"\(z < size\)", "MPIR_Group_lpid_to_rank(grp, lpid) >= 0")


def edit_ch4_comm(f):
    f.within("shrink", r"x >> 32", "MPIR_LPID_WORLD_INDEX(x)")
    f.within("shrink", r"x & 0xffffffff", "MPIR_LPID_WORLD_RANK(x)")
    f.within("MPIDI_check_disjoint_lpids", r"(\w+\[i\]) & 0xffffffff", r"MPIR_LPID_WORLD_RANK(\1)", 2)


EDITS = {
    "src/include/mpir_lpid.h": edit_lpid,
    "src/include/mpir_group.h": edit_group_h,
    "src/mpi/group/grouputil.c": edit_grouputil,
    "src/mpi/group/group_impl.c": edit_group_impl,
    "src/mpi/comm/comm_impl.c": edit_comm_impl,
    "src/mpid/ch4/src/ch4_impl.h": edit_ch4_impl,
    "src/mpid/ch4/src/ch4i_comm.c": edit_ch4_comm,
}

# What the releases' files are.
SHA256 = {
    "src/include/mpir_lpid.h": "a87680b6cca73c63879905289aaa0613fbf29f76c1e97452a06094ee4d46b41f",
    "src/include/mpir_group.h": "53db4b7205dad3358f2703b1b40a02197c88797a1916d8e3e30fd50119473e96",
    "src/mpi/group/grouputil.c": "718d7c6e4a5a661b97a87949f88deea6f00309085015a9daf471d93f322270f9",
    "src/mpi/group/group_impl.c": "63f29d133d678626b69617d2469bc43f6f50e2f6cb435ee8b693784884b4940b",
    "src/mpi/comm/comm_impl.c": "ee3cac3771c2829e9cdc11d077bead531a9ce85864ff5ff74aea6f7e9e5c0955",
    "src/mpid/ch4/src/ch4i_comm.c": "d50b2d4006c0f7163f2a6e6b4d78f83ebefef1158fb581898adb299172f435f3",
    "src/mpid/ch4/src/ch4_impl.h": "da5f96ae1a69bb59bbe3b2adc5b07e63f4f839f563f693e563dff83bf9d83470",
}

ADDED = {
    "src/include/lpid_rankmap.h": "lpid_rankmap.h",
    "src/mpi/group/group_rankmap.c": "group_rankmap.c",
    "src/mpi/group/lpid_rankmap.c": "lpid_rankmap.c",
}
LIBRARY = {"rankmap.h": "src/include/rankmap.h", "rankmap.c": "src/mpi/group/rankmap.c"}
