/* SPDX-License-Identifier: BSD-3-Clause */
/* In MPICH's group_impl.c, in place of the calls on groups, and of what gives communicators their
 * groups. Ids are those of the communicators' maps, so that the two meet without a conversion. */

int MPIR_Rankmap_error(int code)
{
    int class = code == RANKMAP_EDUP || code == RANKMAP_ERANGE ? MPI_ERR_RANK : MPI_ERR_OTHER;

    if (code >= 0)
        return MPI_SUCCESS;
    return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, "librankmap", __LINE__, class,
                                "**fail", "**fail %s", rankmap_strerror(code));
}

int MPIR_Group_from_map(struct rankmap *map, MPIR_Group **group)
{
    int64_t rank = rankmap_rank(map, MPIR_Process.rank);
    MPIR_Group *made;

    if (rankmap_size(map) == 0) {
        rankmap_unref(map);
        *group = MPIR_Group_empty;
        return MPI_SUCCESS;
    }
    made = MPIR_Handle_obj_alloc(&MPIR_Group_mem);
    if (!made) {
        rankmap_unref(map);
        return MPIR_Rankmap_error(-ENOMEM);
    }
    MPIR_Object_set_ref(made, 1);
    made->size = rankmap_size(map);
    made->rank = rank < 0 ? MPI_UNDEFINED : (int)rank;
    made->map = map;
    *group = made;
    return MPI_SUCCESS;
}

/* The end of each call: its result as a group, or its error. */
static int group_return(int rc, struct rankmap *map, MPIR_Group **group)
{
    return rc < 0 ? MPIR_Rankmap_error(rc) : MPIR_Group_from_map(map, group);
}

int MPIR_Group_init(void)
{
    MPIR_Group *empty = &MPIR_Group_builtin[0];

    empty->handle = MPI_GROUP_EMPTY;
    MPIR_Object_set_ref(empty, 1);
    empty->size = 0;
    empty->rank = MPI_UNDEFINED;
    return empty->map ? MPI_SUCCESS
                      : MPIR_Rankmap_error(rankmap_affine(0, 1, 0, NULL, &empty->map));
}

int MPIR_Group_release(MPIR_Group *group)
{
    int in_use;

    MPIR_Group_release_ref(group, &in_use);
    if (!in_use) {
        rankmap_unref(group->map);
        MPIR_Handle_obj_free(&MPIR_Group_mem, group);
    }
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

typedef int set_fn(struct rankmap *a, struct rankmap *b, const struct rankmap_opts *opts,
                   struct rankmap **out);

static int group_combine(set_fn *combine, MPIR_Group *group1, MPIR_Group *group2,
                         MPIR_Group **group)
{
    struct rankmap *map = NULL;
    int rc = combine(group1->map, group2->map, NULL, &map);

    return group_return(rc, map, group);
}

int MPIR_Group_union_impl(MPIR_Group *group1, MPIR_Group *group2, MPIR_Group **group)
{
    return group_combine(rankmap_union, group1, group2, group);
}

int MPIR_Group_intersection_impl(MPIR_Group *group1, MPIR_Group *group2, MPIR_Group **group)
{
    return group_combine(rankmap_intersection, group1, group2, group);
}

int MPIR_Group_difference_impl(MPIR_Group *group1, MPIR_Group *group2, MPIR_Group **group)
{
    return group_combine(rankmap_difference, group1, group2, group);
}

int MPIR_Group_incl_impl(MPIR_Group *parent, int n, const int ranks[], MPIR_Group **group)
{
    struct rankmap *map = NULL;
    int rc = rankmap_include_ranks(parent->map, ranks, n, NULL, &map, NULL);

    return group_return(rc, map, group);
}

int MPIR_Group_excl_impl(MPIR_Group *parent, int n, const int ranks[], MPIR_Group **group)
{
    struct rankmap *map = NULL;
    int rc = rankmap_exclude_ranks(parent->map, ranks, n, NULL, &map, NULL);

    return group_return(rc, map, group);
}

/* The parent's processes of the ranks given, or all but those. */
typedef int select_fn(struct rankmap *parent, const struct rankmap *ranks,
                      const struct rankmap_opts *opts, struct rankmap **out);

static int group_select_ranges(select_fn *select, MPIR_Group *parent, int n, int ranges[][3],
                               MPIR_Group **group)
{
    struct rankmap_range *range = MPL_malloc(n * sizeof(range[0]), MPL_MEM_GROUP);
    struct rankmap *list = NULL, *map = NULL;
    int rc = range || n == 0 ? 0 : -ENOMEM;

    for (int i = 0; rc == 0 && i < n; i++) {
        range[i].first = ranges[i][0];
        range[i].last = ranges[i][1];
        range[i].stride = ranges[i][2];
    }
    if (rc == 0)
        rc = rankmap_from_ranges(range, n, NULL, &list, NULL);
    if (rc == 0)
        rc = select(parent->map, list, NULL, &map);
    rankmap_unref(list);
    MPL_free(range);
    return group_return(rc, map, group);
}

int MPIR_Group_range_incl_impl(MPIR_Group *parent, int n, int ranges[][3], MPIR_Group **group)
{
    return group_select_ranges(rankmap_compose, parent, n, ranges, group);
}

int MPIR_Group_range_excl_impl(MPIR_Group *parent, int n, int ranges[][3], MPIR_Group **group)
{
    return group_select_ranges(rankmap_exclude, parent, n, ranges, group);
}

/* MPI_PROC_NULL stays MPI_PROC_NULL; a process that is not there becomes MPI_UNDEFINED. */
int MPIR_Group_translate_ranks_impl(MPIR_Group *from, int n, const int ranks1[], MPIR_Group *to,
                                    int ranks2[])
{
    int rc = 0;

    for (int i = 0; i < n; i++)
        ranks2[i] = ranks1[i] == MPI_PROC_NULL ? 0 : ranks1[i];
    if (from->size > 0)
        rc = rankmap_translate(from->map, (uint32_t *)ranks2, n, to->map, (uint32_t *)ranks2);
    for (int i = 0; rc == 0 && i < n; i++) {
        if (ranks1[i] == MPI_PROC_NULL)
            ranks2[i] = MPI_PROC_NULL;
        else if ((uint32_t)ranks2[i] == RANKMAP_NO_RANK)
            ranks2[i] = MPI_UNDEFINED;
    }
    return MPIR_Rankmap_error(rc);
}

int MPIR_Group_from_session_pset_impl(MPIR_Session *session, const char *pset, MPIR_Group **group)
{
    bool world = MPL_stricmp(pset, "mpi://WORLD") == 0;
    struct rankmap *map = NULL;
    int rc;

    if (!world && MPL_stricmp(pset, "mpi://SELF") != 0)
        return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                                    MPI_ERR_ARG, "**psetinvalidname", 0);
    rc =
        rankmap_affine(world ? 0 : MPIR_Process.rank, 1, world ? MPIR_Process.size : 1, NULL, &map);
    return group_return(rc, map, group);
}

/* The map of a communicator's local or remote group. */
static struct rankmap *comm_map(MPIR_Comm *comm, bool remote)
{
    bool inter = comm->comm_kind == MPIR_COMM_KIND__INTERCOMM;

    return inter && !remote ? MPIDI_COMM(comm, local_map) : MPIDI_COMM(comm, map).map;
}

int MPIR_Comm_make_group(MPIR_Comm *comm, bool remote, MPIR_Group **group)
{
    return *group ? MPI_SUCCESS : MPIR_Group_from_map(rankmap_ref(comm_map(comm, remote)), group);
}

int MPII_Comm_create_calculate_mapping(MPIR_Group *group, MPIR_Comm *comm, int **mapping_out,
                                       MPIR_Comm **mapping_comm)
{
    int *mapping = MPL_malloc(group->size * sizeof(int), MPL_MEM_ADDRESS);
    int rc = mapping ? rankmap_translate(group->map, NULL, group->size, comm_map(comm, false),
                                         (uint32_t *)mapping)
                     : -ENOMEM;
    int mpi_errno = MPIR_Rankmap_error(rc);

    for (int i = 0; rc == 0 && i < group->size; i++)
        if ((uint32_t)mapping[i] == RANKMAP_NO_RANK) {
            mpi_errno =
                MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                                     MPI_ERR_GROUP, "**groupnotincomm", "**groupnotincomm %d", i);
            break;
        }
    if (mpi_errno) {
        MPL_free(mapping);
        mapping = NULL;
    }
    *mapping_out = mapping;
    *mapping_comm = comm;
    return mpi_errno;
}

int MPIR_Comm_remote_group_impl(MPIR_Comm *comm, MPIR_Group **group)
{
    int mpi_errno = MPIR_Comm_make_group(comm, true, &comm->remote_group);

    if (mpi_errno == MPI_SUCCESS) {
        *group = comm->remote_group;
        MPIR_Group_add_ref(*group);
    }
    return mpi_errno;
}
