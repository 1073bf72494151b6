/* SPDX-License-Identifier: BSD-3-Clause */
/* In MPICH's group_impl.c, in place of the calls on groups. Ids are those of communicators. */

int MPIR_Rankmap_error(int code)
{
    int class = code == RANKMAP_EDUP || code == RANKMAP_ERANGE ? MPI_ERR_RANK : MPI_ERR_OTHER;

    if (code >= 0)
        return MPI_SUCCESS;
    return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, "librankmap", __LINE__, class,
                                "**fail", "**fail %s", rankmap_strerror(code));
}

/* The end of each call: the group of the map that librankmap made, or the error. */
static int group_return(int rc, struct rankmap **map, const MPIR_Group *like, MPIR_Group **group)
{
    int mpi_errno = MPIR_Rankmap_error(rc);
    int64_t rank;

    if (mpi_errno != MPI_SUCCESS)
        return mpi_errno;
    *group = MPIR_Group_empty;
    if (rankmap_size(*map) > 0)
        mpi_errno = MPIR_Group_create(rankmap_size(*map), group);
    if (mpi_errno != MPI_SUCCESS || *group == MPIR_Group_empty) {
        rankmap_unref(*map);
        return mpi_errno;
    }
    rank = rankmap_rank(*map, MPIR_Process.rank);
    (*group)->rank = rank < 0 ? MPI_UNDEFINED : (int)rank;
    MPIR_RANKMAP_BIND(*group, *map, like);
    return MPI_SUCCESS;
}

int MPIR_Group_compare_impl(MPIR_Group *group1, MPIR_Group *group2, int *result)
{
    int rc = rankmap_compare(group1->map, group2->map);

    if (rc >= 0)
        *result = rc == RANKMAP_IDENT     ? MPI_IDENT
                  : rc == RANKMAP_SIMILAR ? MPI_SIMILAR
                                          : MPI_UNEQUAL;
    return MPIR_Rankmap_error(rc);
}

int MPIR_Group_union_impl(MPIR_Group *a, MPIR_Group *b, MPIR_Group **group)
{
    struct rankmap *map;

    return group_return(rankmap_union(a->map, b->map, NULL, &map), &map, a, group);
}

int MPIR_Group_intersection_impl(MPIR_Group *a, MPIR_Group *b, MPIR_Group **group)
{
    struct rankmap *map;

    return group_return(rankmap_intersection(a->map, b->map, NULL, &map), &map, a, group);
}

int MPIR_Group_difference_impl(MPIR_Group *a, MPIR_Group *b, MPIR_Group **group)
{
    struct rankmap *map;

    return group_return(rankmap_difference(a->map, b->map, NULL, &map), &map, a, group);
}

int MPIR_Group_incl_impl(MPIR_Group *parent, int n, const int ranks[], MPIR_Group **group)
{
    struct rankmap *map;
    int rc = rankmap_include_ranks(parent->map, ranks, n, NULL, &map, NULL);

    return group_return(rc, &map, parent, group);
}

int MPIR_Group_excl_impl(MPIR_Group *parent, int n, const int ranks[], MPIR_Group **group)
{
    struct rankmap *map;
    int rc = rankmap_exclude_ranks(parent->map, ranks, n, NULL, &map, NULL);

    return group_return(rc, &map, parent, group);
}

int MPIR_Group_range_incl_impl(MPIR_Group *parent, int n, int ranges[][3], MPIR_Group **group)
{
    struct rankmap *map;
    int rc = rankmap_include_ranges(parent->map, ranges[0], n, NULL, &map, NULL);

    return group_return(rc, &map, parent, group);
}

int MPIR_Group_range_excl_impl(MPIR_Group *parent, int n, int ranges[][3], MPIR_Group **group)
{
    struct rankmap *map;
    int rc = rankmap_exclude_ranges(parent->map, ranges[0], n, NULL, &map, NULL);

    return group_return(rc, &map, parent, group);
}

/* MPI_PROC_NULL, which need not be -1, goes through librankmap as -1. */
int MPIR_Group_translate_ranks_impl(MPIR_Group *from, int n, const int ranks1[], MPIR_Group *to,
                                    int ranks2[])
{
    int rc;

    for (int i = 0; i < n; i++)
        ranks2[i] = ranks1[i] == MPI_PROC_NULL ? -1 : ranks1[i];
    rc = rankmap_translate(from->map, (uint32_t *)ranks2, n, to->map, (uint32_t *)ranks2);
    for (int i = 0; rc == 0 && i < n; i++)
        if (ranks2[i] == -1)
            ranks2[i] = ranks1[i] == MPI_PROC_NULL ? MPI_PROC_NULL : MPI_UNDEFINED;
    return MPIR_Rankmap_error(rc);
}
