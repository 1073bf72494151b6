/* SPDX-License-Identifier: BSD-3-Clause */
/* In MPICH 5's group_impl.c, in place of a group's map as a stride or an array. Ids are lpids. */

int MPIR_Rankmap_builtin_groups(void)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < MPIR_GROUP_N_BUILTIN; i++) {
        MPIR_Group *group = &MPIR_Group_builtin[i];
        int first = group == MPIR_GROUP_SELF_PTR ? MPIR_Process.rank : 0;

        rc = rankmap_affine(first, 1, group->size, NULL, &group->map);
        if (rc == 0)
            MPIR_RANKMAP_BIND(group, group->map, group);
    }
    return MPIR_Rankmap_error(rc);
}

unsigned MPIR_Rankmap_hash(const struct rankmap *map)
{
    unsigned hash = 2166136261u; /* FNV */

    for (uint32_t rank = 0; rank < rankmap_size(map); rank++)
        hash = (hash ^ (unsigned)rankmap_id(map, rank)) * 16777619u;
    return hash;
}

/* A group of lpids that the caller knows. */
static int group_of_lpids(int rc, struct rankmap *map, MPIR_Session *session, MPIR_Group **group)
{
    int mpi_errno = group_return(rc, &map, MPIR_Group_empty, group);

    if (mpi_errno == MPI_SUCCESS && *group != MPIR_Group_empty)
        MPIR_Group_set_session_ptr(*group, session);
    return mpi_errno;
}

int MPIR_Group_create_map(int size, int rank, MPIR_Session *session, MPIR_Lpid *lpids,
                          MPIR_Group **group)
{
    struct rankmap *map = NULL;
    int rc = rankmap_from_ids(lpids, sizeof(lpids[0]), size, NULL, &map, NULL);

    MPL_free(lpids);
    return group_of_lpids(rc, map, session, group);
}

int MPIR_Group_create_stride(int size, int rank, MPIR_Session *session, MPIR_Lpid offset,
                             MPIR_Lpid stride, MPIR_Group **group)
{
    struct rankmap *map = NULL;
    int rc = rankmap_affine(offset, stride, size, NULL, &map);

    return group_of_lpids(rc, map, session, group);
}

int MPIR_Group_lpid_to_rank(MPIR_Group *group, MPIR_Lpid lpid)
{
    int64_t rank = rankmap_rank(group->map, lpid);

    return rank < 0 ? MPI_UNDEFINED : (int)rank;
}

int MPIR_Group_check_subset(MPIR_Group *group, MPIR_Comm *comm)
{
    struct rankmap *rest;
    int rc = rankmap_difference(group->map, comm->local_group->map, NULL, &rest);
    int mpi_errno = MPIR_Rankmap_error(rc);

    if (mpi_errno != MPI_SUCCESS)
        return mpi_errno;
    if (rankmap_size(rest) > 0)
        mpi_errno = MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                                         MPI_ERR_GROUP, "**groupnotincomm", "**groupnotincomm %d",
                                         MPIR_Group_lpid_to_rank(group, rankmap_id(rest, 0)));
    rankmap_unref(rest);
    return mpi_errno;
}
