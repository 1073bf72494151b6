/* SPDX-License-Identifier: BSD-3-Clause */
/* In MPICH's ch4i_comm.c, in place of the code that builds maps by mode. A communicator has the map
 * of its remote processes, which it sends to, and that of its local ones. Of an intracommunicator
 * both are the same. */

struct rankmap_av *MPIDIU_av;

/* Irregular maps have 32 bits a rank: an MPI_Isend looks one up in fewer instructions. */
static const struct rankmap_opts fast = {.size = sizeof(fast), .flags = RANKMAP_FAST};

/* Makes the entries of a table. */
MPIDI_av_entry_t *MPIDIU_av_add(int size)
{
    struct rankmap_av_opts opts = {.size = sizeof(opts),
                                   .entry_bytes = sizeof(MPIDI_av_entry_t),
                                   .capacity = (uint64_t)size + (1 << 20) /* for later jobs */};
    struct rankmap_info_av info = {.size = sizeof(info)};
    struct rankmap_av_group group;
    int rc = MPIDIU_av ? 0 : rankmap_av_create(&opts, &MPIDIU_av);

    if (rc == 0)
        rc = rankmap_av_group_add(MPIDIU_av, size, &group);
    if (rc == 0)
        rc = rankmap_av_query(MPIDIU_av, &info);
    return rc < 0 ? NULL : (MPIDI_av_entry_t *)(uintptr_t)info.base + group.base;
}

/* Calls a function for each table that has a process of the map. */
static void map_each_avt(const struct rankmap *map, int (*call)(int avtid))
{
    struct rankmap_av_group group;

    for (uint32_t id = 0; rankmap_av_group_next(MPIDIU_av, map, id, &group) == 0; id = group.id + 1)
        call(group.id);
}

int MPIDIU_rank_map_bind(MPIDI_rank_map_t *dest)
{
    return rankmap_lookup_init(&dest->lookup, dest->map,
                               (uintptr_t)MPIDI_global.avt_mgr.av_table0->table,
                               sizeof(MPIDI_av_entry_t));
}

int MPID_Create_intercomm_from_lpids(MPIR_Comm *comm, int size, const uint64_t lpids[])
{
    return MPIR_Rankmap_error(
        rankmap_from_ids(lpids, sizeof(lpids[0]), size, &fast, &MPIDI_COMM(comm, map).map, NULL));
}

/* The ranks of another communicator that a mapper adds to a side of a new one. */
static int mapper_part(const MPIR_Comm_map_t *mapper, struct rankmap **part)
{
    MPIR_Comm *source = mapper->src_comm;
    bool local = mapper->dir == MPIR_COMM_MAP_DIR__L2L || mapper->dir == MPIR_COMM_MAP_DIR__L2R;
    struct rankmap *from = local ? MPIDI_COMM(source, local_map) : MPIDI_COMM(source, map).map;

    if (mapper->type != MPIR_COMM_MAP_TYPE__DUP)
        return rankmap_include_ranks(from, mapper->src_mapping, mapper->src_mapping_size, &fast,
                                     part, NULL);
    *part = rankmap_ref(from);
    return 0;
}

/* Adds what the mappers of one side of a new communicator have to that side's map. */
static int side_complete(const MPIR_Comm *comm, bool remote, struct rankmap **map)
{
    MPIR_Comm_map_t *mapper;
    int rc = 0;

    if (!*map)
        *map = rankmap_ref(MPIR_Group_empty->map);
    LL_FOREACH(comm->mapper_head, mapper)
    {
        bool to_remote =
            mapper->dir == MPIR_COMM_MAP_DIR__L2R || mapper->dir == MPIR_COMM_MAP_DIR__R2R;
        struct rankmap *before = *map, *part = NULL;

        if (rc < 0 || to_remote != remote)
            continue;
        rc = mapper_part(mapper, &part);
        if (rc == 0)
            rc = rankmap_union(before, part, &fast, map);
        if (rc == 0)
            rankmap_unref(before);
        rankmap_unref(part);
    }
    return rc;
}

int MPIDI_comm_create_rank_map(MPIR_Comm *comm)
{
    MPIDI_rank_map_t *dest = &MPIDI_COMM(comm, map);
    bool inter = comm->comm_kind == MPIR_COMM_KIND__INTERCOMM;
    int rc;

    if (comm == MPIR_Process.comm_world)
        rc = rankmap_affine(0, 1, MPIR_Process.size, NULL, &dest->map);
    else if (comm == MPIR_Process.comm_self)
        rc = rankmap_affine(MPIR_Process.rank, 1, 1, NULL, &dest->map);
    else
        rc = side_complete(comm, inter, &dest->map);
    if (rc == 0 && inter)
        rc = side_complete(comm, false, &MPIDI_COMM(comm, local_map));
    else if (rc == 0)
        MPIDI_COMM(comm, local_map) = rankmap_ref(dest->map);
    if (rc == 0)
        rc = MPIDIU_rank_map_bind(dest);
    map_each_avt(dest->map, MPIDIU_avt_add_ref);
    map_each_avt(MPIDI_COMM(comm, local_map), MPIDIU_avt_add_ref);
    return MPIR_Rankmap_error(rc);
}

void MPIDIU_comm_free_maps(MPIR_Comm *comm)
{
    map_each_avt(MPIDI_COMM(comm, map).map, MPIDIU_avt_release_ref);
    map_each_avt(MPIDI_COMM(comm, local_map), MPIDIU_avt_release_ref);
    rankmap_unref(MPIDI_COMM(comm, map).map);
    rankmap_unref(MPIDI_COMM(comm, local_map));
}
