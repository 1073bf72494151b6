/* SPDX-License-Identifier: BSD-3-Clause */
/* In MPICH 5's mpir_lpid.h, in place of the layout of an lpid: an lpid is an id of librankmap,
 * which has 40 bits. Bits 0 to 28 are the rank in a world, 29 to 38 the world: as many as
 * MPIR_Worlds has. Bit 39 is MPICH's mark of a connection that is being made. */
#ifndef LPID_RANKMAP_H
#define LPID_RANKMAP_H

#define RANKMAP_API __attribute__((visibility("hidden")))
#include "rankmap.h"

#define MPIR_LPID_WORLD_INDEX(lpid)     ((lpid) >> 29)
#define MPIR_LPID_WORLD_RANK(lpid)      ((lpid)&0x1fffffff)
#define MPIR_LPID_FROM(world_idx, rank) (((uint64_t)(world_idx) << 29) | (rank))
#define MPIR_LPID_DYNAMIC_MASK          ((MPIR_Lpid)1 << 39)

/* The MPI error of a code of librankmap. */
int MPIR_Rankmap_error(int code);
/* The maps of the groups that exist from the start. */
int MPIR_Rankmap_builtin_groups(void);
/* Equal for equal maps, whatever made them. */
unsigned MPIR_Rankmap_hash(const struct rankmap *map);

/* A new group gets its map, and its session from another group. */
#define MPIR_RANKMAP_BIND(group, of, like)                                                         \
    do {                                                                                           \
        (group)->map = (of);                                                                       \
        rankmap_lookup_init(&(group)->lookup, (group)->map, 0, 1);                                 \
        MPIR_Group_set_session_ptr(group, (like)->session_ptr);                                    \
    } while (0)

#endif
