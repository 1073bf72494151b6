/* SPDX-License-Identifier: BSD-3-Clause */
/* In MPICH's ch4_proc.h, in place of the lookups by mode. */
#ifndef CH4_RANKMAP_H
#define CH4_RANKMAP_H

int MPIDIU_id_locate(uint64_t id, int *idx, int *avtid);
MPIDI_av_table_t *MPIDIU_avt_alloc(int size);
void MPIDIU_avt_unmap(MPIDI_av_table_t *table);
int MPIDI_rank_map_init(MPIDI_rank_map_t *dest, const int lpids[], int n);
void MPIDI_comm_free_rank_map(MPIR_Comm *comm);

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

/* Splits an id into a table and a place there. Returns the place. */
MPL_STATIC_INLINE_PREFIX int MPIDIU_id_to_pid(uint64_t id, int *idx, int *avtid)
{
    if (unlikely(id >= (uint64_t)MPIDI_global.avt_mgr.av_table0->size))
        return MPIDIU_id_locate(id, idx, avtid);
    *avtid = 0;
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

/* Whether a group has a rank of a communicator. */
MPL_STATIC_INLINE_PREFIX int MPIDIU_valid_group_rank(MPIR_Comm *comm, int rank, MPIR_Group *group)
{
    return rankmap_rank(group->map, MPIDIU_av_to_id(MPIDIU_comm_rank_to_av(comm, rank))) >= 0;
}

#endif
