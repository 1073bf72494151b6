# SPDX-License-Identifier: BSD-3-Clause
"""The edits of MPICH 4.0.2 (ch4): its communicators' maps by mode and its groups become librankmap's maps."""

VERSIONS = ("4.0.2",)


def edit_mpidpre(f):
    f.drop("macro", "MPIDI_CALC_STRIDE", "MPIDI_CALC_STRIDE_SIMPLE", "MPID_INTERCOMM_NO_DYNPROC", "MPIDIU_LPID_BITS",
           "MPIDIU_LPID_MASK", "MPIDIU_GPID_CREATE", "MPIDIU_GPID_GET_AVTID", "MPIDIU_GPID_GET_LPID")
    f.drop("type", "MPIDI_rank_map_mode", "MPIDI_lpid_t", "MPIDI_gpid_t", "MPIDI_rank_map_lut_t", "MPIDI_rank_map_mlut_t")
    f.replace("type", "MPIDI_rank_map_t", '#include "ch4_rankmap_pre.h"\n')
    f.member("MPIDI_Devcomm_t", "local_map", "        struct rankmap *local_map;\n")


def edit_types(f):
    f.member("MPIDI_av_table_t", "table", "    MPIDI_av_entry_t *table;\n")


def edit_proc_h(f):
    f.drop("prototypes", "MPIDIU_alloc_lut", "MPIDIU_release_lut", "MPIDIU_alloc_mlut", "MPIDIU_release_mlut")
    f.drop("function", "MPIDIU_comm_rank_to_av", "MPIDIU_comm_rank_to_pid_local")
    f.replace("function", "MPIDIU_comm_rank_to_pid", '#include "ch4_rankmap.h"\n')


def edit_proc_c(f):
    f.drop("function", "MPIDIU_alloc_lut", "MPIDIU_release_lut", "MPIDIU_alloc_mlut", "MPIDIU_release_mlut")
    # a number is not given again: it is a pgid
    f.statement("get_next_avtid", r"if \(MPIDI_global\.avt_mgr\.n_free > 0\)")
    f.within("MPIDIU_new_avt", r"size \* sizeof\(MPIDI_av_entry_t\)\s*\+\s*", "")
    f.within("MPIDIU_new_avt", r"new_av_table->size = size;", "new_av_table->size = size;\n"
             "    new_av_table->table = MPIDIU_av_add(size);\n    MPIR_Assert(new_av_table->table);")
    f.within("MPIDIU_avt_init", r" \+ size \* sizeof\(MPIDI_av_entry_t\)", "")
    world = "MPIDI_global.avt_mgr.av_table0"
    f.within("MPIDIU_avt_init", rf"{world}->size = size;", f"{world}->size = size;\n"
             f"    {world}->table = MPIDIU_av_add(size);\n    MPIR_Assert({world}->table);")
    f.within("MPIDIU_free_avt", r"\bMPL_free\(", "rankmap_av_group_retire(MPIDIU_av, avtid);\n"
             "    MPL_free(MPIDI_global.avt_mgr.av_tables[avtid])")
    f.within("MPIDIU_avt_destroy", r"\bMPL_free\(", "MPL_free(MPIDI_global.avt_mgr.av_tables);\n"
             "    MPIDI_global.avt_mgr.n_avts = MPIDI_global.avt_mgr.max_n_avts = 0;\n"
             "    rankmap_av_destroy(MPIDIU_av);\n    MPIDIU_av = NULL")


def edit_ch4_impl(f):
    valid = "MPIDIU_valid_group_rank"
    f.statement(valid, r"for \(z = 0")
    f.without(valid, r"int size\b|int z\b")
    f.within(valid, r"\(z < size\)", "rankmap_rank(grp->map, gpid) >= 0")


def edit_comm_maps(f):
    names = ("map_size", "detect_regular_model", "src_comm_to_mlut", "src_mlut_to_mlut", "src_map_to_lut", "direct_of_src_rmap",
             "offset_of_src_rmap", "stride_of_src_rmap", "check_convert_mlut_to_lut", "check_convert_lut_to_regular", "set_map")
    f.drop("type", "MPIDI_src_mapper_models")
    f.drop("prototypes", *names)
    f.drop("function", *names, "MPIDI_comm_create_rank_map")
    f.append('\n#include "ch4_rankmap.c"\n#include "rankmap.c"\n')


def edit_comm(f):
    f.drop("function", "mlut_update_avt_reference", "MPID_Create_intercomm_from_lpids")
    hook = "MPID_Comm_commit_pre_hook"
    f.without(hook, r"MPIDI_COMM\(comm, (local_)?map\)|MPIDIU_avt_add_ref|MPIDI_comm_create_rank_map")
    f.within(hook, r"\bMPIR_FUNC_ENTER;", "MPIR_FUNC_ENTER;\n    mpi_errno = MPIDI_comm_create_rank_map(comm);\n"
             "    MPIR_ERR_CHECK(mpi_errno);")
    hook = "MPID_Comm_free_hook"
    f.without(hook, r"MPIDI_COMM\(comm, (local_)?map\)")
    f.within(hook, r"\bMPIR_FUNC_ENTER;", "MPIR_FUNC_ENTER;\n    MPIDIU_comm_free_maps(comm);")


def edit_init_comm(f):
    make, map_of = "MPIDI_create_init_comm", "MPIDI_COMM(init_comm, map)"
    f.within(make, r"\bMPIDIU_alloc_lut\(", "MPIR_Rankmap_error(rankmap_from_ids(MPIR_Process.node_root_map, sizeof(int),\n"
             f"                                                        node_roots_comm_size, NULL, &{map_of}.map,\n"
             "                                                        NULL))")
    f.without(make, r"\blut\b|MPIDI_COMM\(init_comm, (local_)?map\)\.(mode|size|avtid|irreg)")
    f.within(make, r"mpi_errno = MPIDIG_init_comm\(", f"MPIDIU_rank_map_bind(&{map_of});\n"
             "        mpi_errno = MPIDIG_init_comm(init_comm)")
    f.within("MPIDI_destroy_init_comm", r"\bMPIDIU_release_lut\(", "rankmap_unref(MPIDI_COMM(comm, map).map)")


def edit_ofi_spawn(f):
    f.within("MPIDI_OFI_upids_to_gpids", r"\bMPIDIU_GPID_CREATE\((\w+), (\w+)\)", r"MPIDIU_av_to_id(&MPIDIU_get_av(\1, \2))", 2)


def edit_group_h(f):
    f.drop("type", "MPII_Group_pmap_t")
    f.drop("prototypes", "MPII_Group_setup_lpid_list", "MPIR_Group_setup_lpid_pairs", "MPIR_Group_check_subset")
    f.member("MPIR_Group", "idx_of_first_lpid")
    f.member("MPIR_Group", "is_local_dense_monotonic")
    f.member("MPIR_Group", "lrank_to_lpid", "    struct rankmap *map;        /* rank to id */\n")


def edit_grouputil(f):
    f.drop("function", "mergesort_lpidarray", "MPII_Group_setup_lpid_list", "MPIR_Group_setup_lpid_pairs", "MPIR_Group_check_subset")
    f.without("MPIR_Group_init", "idx_of_first_lpid")
    empty = "MPIR_Group_builtin[0]"
    f.within("MPIR_Group_init", r"MPIR_Group_builtin\[0\]\.lrank_to_lpid = NULL;", f"if (!{empty}.map)\n"
             f"        mpi_errno = MPIR_Rankmap_error(rankmap_affine(0, 1, 0, NULL, &{empty}.map));")
    f.within("MPIR_Group_release", r"\bMPL_free\(", "rankmap_unref(group_ptr->map)")
    f.without("MPIR_Group_create", "lrank_to_lpid|idx_of_first_lpid|is_local_dense_monotonic")


def edit_group_impl(f):
    f.drop("function", *(f"MPIR_Group_{call}_impl" for call in (
        "compare", "difference", "excl", "incl", "intersection", "range_excl", "range_incl", "translate_ranks", "union")))
    pset = "MPIR_Group_from_session_pset_impl"
    f.statement(pset, r"for \(")
    f.without(pset, "lrank_to_lpid|is_local_dense_monotonic")
    # of the world, whose ids are its ranks, and of the process alone
    f.within(pset, r"group_ptr->idx_of_first_lpid = 0;", "mpi_errno = MPIR_Rankmap_error(rankmap_affine(MPIR_Process.rank - "
             "group_ptr->rank, 1,\n                                                      group_ptr->size, NULL, &group_ptr->map));\n"
             "        MPIR_ERR_CHECK(mpi_errno);", 2)
    f.append('\n#include "group_rankmap.c"\n')


def edit_comm_impl(f):
    local, remote = "comm_create_local_group", "MPIR_Comm_remote_group_impl"
    f.statement(local, r"for \(", "group_ptr->map = rankmap_ref(MPIDI_COMM(comm_ptr, local_map));")
    f.without(local, "idx_of_first_lpid|is_local_dense_monotonic|comm_world_size")
    f.statement(remote, r"for \(", "(*group_ptr)->map = rankmap_ref(MPIDI_COMM(comm_ptr, map).map);")
    f.without(remote, "idx_of_first_lpid")
    f.within(remote, r"int i, n;", "int n;")
    ranks = "MPII_Comm_create_calculate_mapping"
    f.within(ranks, r"\bMPII_Group_setup_lpid_list\(", "mpi_errno = MPIR_Rankmap_error(rankmap_translate(group_ptr->map, NULL, n,\n"
             "                                                     MPIDI_COMM(comm_ptr, local_map),\n"
             "                                                     (uint32_t *) mapping));\n    MPIR_ERR_CHECK(mpi_errno)")
    f.statement(ranks, r"if \(comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM\)")
    f.only_else(ranks, r"if \(subsetOfWorld\)")
    f.statement(ranks, r"for \(j = 0")
    f.within(ranks, r"int i, j;", "int i;")
    f.without(ranks, r"subsetOfWorld|mapping\[i\] = -1;")
    f.within("MPIR_Intercomm_create_from_groups_impl", r"\b(\w+)->lrank_to_lpid\[(\w+)\]\.lpid", r"rankmap_id(\1->map, \2)")


def edit_commutil(f):
    f.within("MPII_Comm_init", r"comm_p->mapper_tail = NULL;", "comm_p->mapper_tail = NULL;\n"
             "    MPIDI_COMM(comm_p, map).map = NULL;\n    MPIDI_COMM(comm_p, local_map) = NULL;")


EDITS = {
    "src/mpid/ch4/include/mpidpre.h": edit_mpidpre,
    "src/mpid/ch4/src/ch4_types.h": edit_types,
    "src/mpid/ch4/src/ch4_proc.h": edit_proc_h,
    "src/mpid/ch4/src/ch4_proc.c": edit_proc_c,
    "src/mpid/ch4/src/ch4_impl.h": edit_ch4_impl,
    "src/mpid/ch4/src/ch4i_comm.c": edit_comm_maps,
    "src/mpid/ch4/src/ch4_comm.c": edit_comm,
    "src/mpid/ch4/src/init_comm.c": edit_init_comm,
    "src/mpid/ch4/netmod/ofi/ofi_spawn.c": edit_ofi_spawn,
    "src/include/mpir_group.h": edit_group_h,
    "src/mpi/group/grouputil.c": edit_grouputil,
    "src/mpi/group/group_impl.c": edit_group_impl,
    "src/mpi/comm/comm_impl.c": edit_comm_impl,
    "src/mpi/comm/commutil.c": edit_commutil,
}

# What the release's files are.
SHA256 = {
    "src/mpid/ch4/include/mpidpre.h": "ff19052064080b1e21a9f6f92ac6a34211a261dda9554877d09aab08a6dfc82e",
    "src/mpid/ch4/src/ch4_types.h": "1ea7a88db18357da42cbe532be5e395fd1cb427051b060f84fcd0a9cccb3c6e7",
    "src/mpid/ch4/src/ch4_proc.h": "074ca232588b5590152131a5a6d52d0174a5b82e9318af7db3eaa9a8c15aff30",
    "src/mpid/ch4/src/ch4_proc.c": "3e8bf96f17270da9b8dec9ce4c0cd1af8cc43d9f04d14abfdab667458ef8dfbc",
    "src/mpid/ch4/src/ch4_impl.h": "5bf09fafe0ec3e232fd7e94763bbf92a2410911c2ab0c5d43f633080330486fe",
    "src/mpid/ch4/src/ch4i_comm.c": "c4f7acb240d9eacd73917c9a77383b70113418fbac71e616350e43ded727c435",
    "src/mpid/ch4/src/ch4_comm.c": "d186946df038b2a8e6849c42a9fc05d231321048ef7808c070bda3299bbd550a",
    "src/mpid/ch4/src/init_comm.c": "d3c31ac48714694cf40cc93baf4ba7e58e876c40da55a560a53784766c1ecb3b",
    "src/mpid/ch4/netmod/ofi/ofi_spawn.c": "a98087d871257e8219695513965bcc6592af3718227d28a39c09c4a8c9221167",
    "src/include/mpir_group.h": "c883c8016e16242586a41afbe27e1a4bca6dc47e429b41e3c24a92791052b70d",
    "src/mpi/group/grouputil.c": "c5c5b1eeffc40d48a975338738cbd85dc20bd2feb9fdb206849477b6530f1f50",
    "src/mpi/group/group_impl.c": "eb331338daada2542372aa8157e355ccb51319a00b2809f4a27450b806ee92d8",
    "src/mpi/comm/comm_impl.c": "98d92397061f20abc7e0f67f7edce16ffca406a360bcdd86741e6618eacc3ac4",
    "src/mpi/comm/commutil.c": "441600de4103723f8c5d8752bb9613913f2488637a6fd910bfde5a6f6592226c",
}

ADDED = {
    "src/mpid/ch4/include/ch4_rankmap_pre.h": "ch4_rankmap_pre.h",
    "src/mpid/ch4/src/ch4_rankmap.h": "ch4_rankmap.h",
    "src/mpid/ch4/src/ch4_rankmap.c": "ch4_rankmap.c",
    "src/mpi/group/group_rankmap.c": "group_rankmap.c",
}
LIBRARY = {"rankmap.h": "src/mpid/ch4/include/rankmap.h", "rankmap.c": "src/mpid/ch4/src/rankmap.c"}
