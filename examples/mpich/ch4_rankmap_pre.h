/* SPDX-License-Identifier: BSD-3-Clause */
/* In MPICH's mpidpre.h, in place of MPIDI_rank_map_t and its modes: one map, and its lookup bound
 * to the entries of the address vector. Ids are flat: places among the entries of all address
 * vector tables, so that one formula serves every communicator. The world's table is first: there,
 * id and lpid are equal. */
#ifndef CH4_RANKMAP_PRE_H
#define CH4_RANKMAP_PRE_H

#define RANKMAP_API __attribute__((visibility("hidden")))
#include "rankmap.h"

typedef struct {
    struct rankmap_lookup lookup; /* rank to MPIDI_av_entry_t */
    struct rankmap *map;          /* rank to id */
} MPIDI_rank_map_t;

/* A gpid is an id. The entries of table 0, taken beyond its end, are those of all tables. */
#define MPIDIU_GPID_CREATE(avtid, lpid) ((uint64_t)(lpid))
#define MPIDIU_GPID_GET_AVTID(gpid)     0
#define MPIDIU_GPID_GET_LPID(gpid)      (gpid)

/* The MPI error of a code of librankmap; a new group's map. */
int MPIR_Rankmap_error(int code);
#define MPIR_RANKMAP_BIND(group, of, like) ((group)->map = (of))

#endif
