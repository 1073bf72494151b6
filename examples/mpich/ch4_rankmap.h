/* SPDX-License-Identifier: BSD-3-Clause */
/* In MPICH's ch4_proc.h, in place of the lookups by mode. */
#ifndef CH4_RANKMAP_H
#define CH4_RANKMAP_H

/* A process group for each address vector table: avtid and pgid are equal. */
extern struct rankmap_av *MPIDIU_av;
MPIDI_av_entry_t *MPIDIU_av_add(int size);
int MPIDIU_rank_map_bind(MPIDI_rank_map_t *dest);
void MPIDIU_comm_free_maps(MPIR_Comm *comm);

MPL_STATIC_INLINE_PREFIX MPIDI_av_entry_t *MPIDIU_comm_rank_to_av(MPIR_Comm *comm, int rank)
{
    return (MPIDI_av_entry_t *)(uintptr_t)rankmap_at_sized(&MPIDI_COMM(comm, map).lookup, rank,
                                                           sizeof(MPIDI_av_entry_t));
}

/* The id of an entry. */
MPL_STATIC_INLINE_PREFIX uint64_t MPIDIU_av_to_id(const MPIDI_av_entry_t *av)
{
    return (uint64_t)(av - MPIDI_global.avt_mgr.av_table0->table);
}

/* What MPICH asks of a process: its place, here the id, and whether it is of another world. */
MPL_STATIC_INLINE_PREFIX int MPIDIU_id_to_pid(uint64_t id, int *idx, int *avtid)
{
    *avtid = id >= (uint64_t)MPIDI_global.avt_mgr.av_table0->size;
    return *idx = (int)id;
}

MPL_STATIC_INLINE_PREFIX int MPIDIU_comm_rank_to_pid(MPIR_Comm *comm, int rank, int *idx,
                                                     int *avtid)
{
    return MPIDIU_id_to_pid(MPIDIU_av_to_id(MPIDIU_comm_rank_to_av(comm, rank)), idx, avtid);
}

MPL_STATIC_INLINE_PREFIX int MPIDIU_comm_rank_to_pid_local(MPIR_Comm *comm, int rank, int *idx,
                                                           int *avtid)
{
    return MPIDIU_id_to_pid(rankmap_id(MPIDI_COMM(comm, local_map), rank), idx, avtid);
}

#endif
