/* SPDX-License-Identifier: BSD-3-Clause */
/* In MPICH's ch4i_comm.c, in place of the code that builds maps by mode. */
#include <sys/mman.h>

/* Entries of all tables lie in one range of addresses, reserved at the start: an id is a place
 * there. The implicit address vector allocates the places; it stores nothing for them. */
#define DYNAMIC_PROCS (1 << 20)
#define ENTRY_BYTES   sizeof(MPIDI_av_entry_t)
#define HEADER_SLOTS  ((sizeof(MPIDI_av_table_t) + ENTRY_BYTES - 1) / ENTRY_BYTES)

static struct rankmap_av *avt_ids;
static char *avt_range;

MPIDI_av_table_t *MPIDIU_avt_alloc(int size)
{
    struct rankmap_av_opts opts = {.size = sizeof(opts)};
    struct rankmap_av_group group;
    char *first;

    if (!avt_ids) {
        opts.capacity = (uint64_t)size + DYNAMIC_PROCS;
        avt_range = mmap(NULL, opts.capacity * ENTRY_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (avt_range == MAP_FAILED || rankmap_av_create(&opts, &avt_ids) < 0)
            return NULL;
    }
    if (rankmap_av_group_add(avt_ids, HEADER_SLOTS + size, &group) < 0)
        return NULL;
    first = avt_range + (group.base + HEADER_SLOTS) * ENTRY_BYTES;
    memset(avt_range + group.base * ENTRY_BYTES, 0, (HEADER_SLOTS + size) * ENTRY_BYTES);
    return (MPIDI_av_table_t *)(first - offsetof(MPIDI_av_table_t, table));
}

void MPIDIU_avt_unmap(MPIDI_av_table_t *table)
{
    struct rankmap_av_group group;
    uint64_t lpid;
    uint64_t slot = ((char *)table->table - avt_range) / ENTRY_BYTES;

    if (rankmap_av_locate(avt_ids, slot, &group, &lpid) == 0)
        rankmap_av_group_retire(avt_ids, group.id);
}

/* Whether an id is in a table. */
static bool id_in_table(uint64_t id, const MPIDI_av_table_t *table)
{
    uint64_t first = MPIDIU_av_to_id(table->table);

    return id >= first && id - first < (uint64_t)table->size;
}

int MPIDIU_id_locate(uint64_t id, int *idx, int *avtid)
{
    for (int i = 0; i < MPIDIU_get_n_avts(); i++) {
        const MPIDI_av_table_t *table = MPIDIU_get_av_table(i);

        if (table && id_in_table(id, table)) {
            *avtid = i;
            return *idx = (int)(id - MPIDIU_av_to_id(table->table));
        }
    }
    MPIR_Assert(0);
    return -1;
}

/* Calls a function for each table that has a process of the map. */
static void map_each_avt(const struct rankmap *map, int (*call)(int avtid))
{
    struct rankmap_info info = {.size = sizeof(info)};

    if (!map || rankmap_query(map, &info) < 0)
        return;
    if (info.max_id < (uint64_t)MPIDIU_get_avt_size(0)) {
        call(0);
        return;
    }
    for (int i = MPIDIU_get_n_avts() - 1; i >= 0; i--) {
        uint32_t rank = 0;

        while (MPIDIU_get_av_table(i) && rank < info.n_ranks &&
               !id_in_table(rankmap_id(map, rank), MPIDIU_get_av_table(i)))
            rank++;
        if (MPIDIU_get_av_table(i) && rank < info.n_ranks)
            call(i);
    }
}

static int map_bind(MPIDI_rank_map_t *dest, struct rankmap *map)
{
    dest->map = map;
    return rankmap_lookup_init(&dest->lookup, map, (uintptr_t)MPIDI_global.avt_mgr.av_table0->table,
                               ENTRY_BYTES);
}

int MPIDI_rank_map_init(MPIDI_rank_map_t *dest, const int lpids[], int n)
{
    struct rankmap *map;
    int rc = rankmap_from_ids(lpids, sizeof(lpids[0]), n, NULL, &map, NULL);

    if (rc == 0)
        rc = map_bind(dest, map);
    return MPIR_Rankmap_error(rc);
}

int MPID_Create_intercomm_from_lpids(MPIR_Comm *newcomm_ptr, int size, const uint64_t lpids[])
{
    uint64_t *ids = MPL_malloc(size * sizeof(ids[0]), MPL_MEM_COMM);
    struct rankmap *map;
    int rc = ids ? 0 : -ENOMEM;

    for (int i = 0; rc == 0 && i < size; i++)
        ids[i] = MPIDIU_av_to_id(
            &MPIDIU_get_av(MPIDIU_GPID_GET_AVTID(lpids[i]), MPIDIU_GPID_GET_LPID(lpids[i])));
    if (rc == 0)
        rc = rankmap_from_ids(ids, sizeof(ids[0]), size, NULL, &map, NULL);
    if (rc == 0)
        rc = map_bind(&MPIDI_COMM(newcomm_ptr, map), map);
    MPL_free(ids);
    return MPIR_Rankmap_error(rc);
}

/* The map that one mapper contributes. */
static int mapper_part(const MPIR_Comm_map_t *mapper, struct rankmap **part)
{
    MPIR_Comm *source = mapper->src_comm;
    bool local = mapper->dir == MPIR_COMM_MAP_DIR__L2L || mapper->dir == MPIR_COMM_MAP_DIR__L2R;
    bool inter = source->comm_kind == MPIR_COMM_KIND__INTERCOMM;
    struct rankmap *from =
        local && inter ? MPIDI_COMM(source, local_map) : MPIDI_COMM(source, map).map;
    struct rankmap *ranks;
    int rc;

    if (mapper->type == MPIR_COMM_MAP_TYPE__DUP) {
        *part = rankmap_ref(from);
        return 0;
    }
    rc = rankmap_from_ids(mapper->src_mapping, sizeof(int), mapper->src_mapping_size, NULL, &ranks,
                          NULL);
    if (rc < 0)
        return rc;
    rc = rankmap_compose(from, ranks, NULL, part);
    rankmap_unref(ranks);
    return rc;
}

/* The map of one side of a new communicator: the parts of that side's mappers, one after the other.
 * NULL if there are none. */
static int side_map(const MPIR_Comm *comm, bool remote, struct rankmap **out)
{
    struct rankmap *map = NULL, *part, *both;
    MPIR_Comm_map_t *mapper;
    int rc = 0;

    LL_FOREACH(comm->mapper_head, mapper)
    {
        bool to_remote =
            mapper->dir == MPIR_COMM_MAP_DIR__L2R || mapper->dir == MPIR_COMM_MAP_DIR__R2R;

        if (to_remote != remote)
            continue;
        rc = mapper_part(mapper, &part);
        if (rc == 0 && map) {
            rc = rankmap_union(map, part, NULL, &both);
            rankmap_unref(part);
            rankmap_unref(map);
            map = part = rc == 0 ? both : NULL;
        }
        if (rc < 0) {
            rankmap_unref(map);
            return rc;
        }
        map = part;
    }
    *out = map;
    return 0;
}

int MPIDI_comm_create_rank_map(MPIR_Comm *comm)
{
    MPIDI_rank_map_t *dest = &MPIDI_COMM(comm, map);
    bool inter = comm->comm_kind == MPIR_COMM_KIND__INTERCOMM;
    struct rankmap *map = NULL;
    int rc;

    MPIDI_COMM(comm, local_map) = NULL;
    /* without a mapper: MPID_Create_intercomm_from_lpids() has bound the remote side */
    if (!inter)
        dest->map = NULL;
    if (comm == MPIR_Process.comm_world)
        rc = rankmap_affine(0, 1, MPIR_Process.size, NULL, &map);
    else if (comm == MPIR_Process.comm_self)
        rc = rankmap_affine(MPIR_Process.rank, 1, 1, NULL, &map);
    else
        rc = side_map(comm, inter, &map);
    if (rc == 0 && map)
        rc = map_bind(dest, map);
    if (rc == 0 && inter)
        rc = side_map(comm, false, &MPIDI_COMM(comm, local_map));
    if (rc == 0) {
        map_each_avt(dest->map, MPIDIU_avt_add_ref);
        map_each_avt(MPIDI_COMM(comm, local_map), MPIDIU_avt_add_ref);
    }
    return MPIR_Rankmap_error(rc);
}

void MPIDI_comm_free_rank_map(MPIR_Comm *comm)
{
    map_each_avt(MPIDI_COMM(comm, map).map, MPIDIU_avt_release_ref);
    map_each_avt(MPIDI_COMM(comm, local_map), MPIDIU_avt_release_ref);
    rankmap_unref(MPIDI_COMM(comm, map).map);
    rankmap_unref(MPIDI_COMM(comm, local_map));
}
