/* SPDX-License-Identifier: BSD-3-Clause */
/* In MPICH's mpir_group.h: a group is a map, its size and the caller's rank there. */
#ifndef MPIR_GROUP_RANKMAP_H
#define MPIR_GROUP_RANKMAP_H

struct MPIR_Group {
    MPIR_OBJECT_HEADER;
    int size;
    int rank; /* the caller's, or MPI_UNDEFINED */
    struct rankmap *map;
};

/* The MPI error of a code of librankmap. */
int MPIR_Rankmap_error(int code);
/* Makes a group of a map, and takes over its reference. MPIR_Group_empty for an empty map. */
int MPIR_Group_from_map(struct rankmap *map, struct MPIR_Group **group);

/* Makes the local or remote group of a communicator, unless it is there. */
int MPIR_Comm_make_group(MPIR_Comm *comm, bool remote, struct MPIR_Group **group);

#endif
