/* SPDX-License-Identifier: BSD-3-Clause */
/* In MPICH's ch4_proc.h, in place of the lookups by mode. */
#ifndef CH4_RANKMAP_H
#define CH4_RANKMAP_H

/* A process group for each address vector table: avtid and pgid are equal. */
extern struct rankmap_av *MPIDIU_av;
MPIDI_av_entry_t *MPIDIU_av_add(int size);
int MPIDIU_rank_map_bind(MPIDI_rank_map_t *dest);
void MPIDIU_comm_free_maps(MPIR_Comm *comm);

/* Not inlined: an MPI_Isend needs the registers. Blocks first, which MPICH does fast, too. */
static __attribute__((noinline, unused)) MPIDI_av_entry_t *
MPIDIU_av_at(const struct rankmap_lookup *l, int rank)
{
    const unsigned width = sizeof(MPIDI_av_entry_t);

    if (l->form == RANKMAP_FORM_BLOCK)
        return (void *)(uintptr_t)rankmap_at_form(l, RANKMAP_FORM_BLOCK, rank, width);
    return (void *)(uintptr_t)rankmap_at_sized(l, rank, width);
}
#define MPIDIU_comm_rank_to_av(comm, rank) MPIDIU_av_at(&MPIDI_COMM(comm, map).lookup, rank)

/* The id of an entry. */
MPL_STATIC_INLINE_PREFIX uint64_t MPIDIU_av_to_id(const MPIDI_av_entry_t *av)
{
    return (uint64_t)(av - MPIDI_global.avt_mgr.av_table0->table);
}

/* What MPICH asks of a process: its place, here the id, and whether it is of another world. */
MPL_STATIC_INLINE_PREFIX int MPIDIU_map_to_pid(const struct rankmap *map, int rank, int *idx,
                                               int *avtid)
{
    *idx = (int)rankmap_id(map, rank);
    *avtid = *idx >= MPIDI_global.avt_mgr.av_table0->size;
    return *idx;
}
#define MPIDIU_comm_rank_to_pid(comm, rank, idx, avtid)                                            \
    MPIDIU_map_to_pid(MPIDI_COMM(comm, map).map, rank, idx, avtid)
#define MPIDIU_comm_rank_to_pid_local(comm, rank, idx, avtid)                                      \
    MPIDIU_map_to_pid(MPIDI_COMM(comm, local_map), rank, idx, avtid)

#endif
