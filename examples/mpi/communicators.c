/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The communicators that MPI programs make, and what their rank maps take with librankmap. Each
 * process makes them, asks MPI which world ranks they consist of (MPI_Group_translate_ranks), has
 * librankmap make a map of that, and checks that the map gives every rank and every inverse as MPI
 * has them. Where a communicator was made out of another one by a rule, the map is also composed
 * from its parent's, which must give the same. Rank 0 prints what its own maps are.
 *
 *     mpicc.mpich communicators.c $(pkg-config --cflags --libs rankmap) -o communicators && pmirun
 *     -n 8 ./communicators
 *
 * Spawned processes take part where the MPI can spawn: they run this program too. Ids are flat: the
 * spawned world's come after ours.
 */
#include <mpi.h>
#include <rankmap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_SPAWNED 2

static int world_rank, world_size;
static MPI_Group world_group;
static long n_checked[3]; /* communicators, ranks, compositions, of this process */

static void give_up(const char *name, const char *what, int code)
{
    fprintf(stderr, "rank %d: %s: %s%s%s\n", world_rank, name, what, code ? ": " : "",
            code ? rankmap_strerror(code) : "");
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void *must_alloc(void *p)
{
    if (!p)
        give_up("memory", "none left", 0);
    return p;
}

/* 0, 1, ... n - 1: all ranks of a group of n. */
static int *all_ranks(int n)
{
    int *all = must_alloc(calloc((size_t)n, sizeof(*all)));

    for (int r = 0; r < n; r++)
        all[r] = r;
    return all;
}

/* World ranks of a group's members, in the order of their ranks. */
static uint32_t *world_ranks(const char *name, MPI_Group group, int n)
{
    int *all = all_ranks(n), *world = must_alloc(calloc((size_t)n, sizeof(*world)));
    uint32_t *ids = must_alloc(calloc((size_t)n, sizeof(*ids)));

    MPI_Group_translate_ranks(group, n, all, world_group, world);
    for (int r = 0; r < n; r++) {
        if (world[r] == MPI_UNDEFINED)
            give_up(name, "a member is not in MPI_COMM_WORLD", 0);
        ids[r] = (uint32_t)world[r];
    }
    free(all);
    free(world);
    return ids;
}

/* The map must give the ids, both ways. */
static void check_map(const char *name, const struct rankmap *map, const uint32_t *ids, uint32_t n)
{
    struct rankmap_lookup lookup;

    if (rankmap_size(map) != n || rankmap_lookup_init(&lookup, map, 0, 1) != 0)
        give_up(name, "a map of another size", 0);
    for (uint32_t r = 0; r < n; r++) {
        if (rankmap_id(map, r) != ids[r] || rankmap_at(&lookup, r) != ids[r] ||
            rankmap_at_nobranch(&lookup, r) != ids[r])
            give_up(name, "a rank has another id in the map", 0);
        if (rankmap_rank(map, ids[r]) != (int64_t)r)
            give_up(name, "an id has another rank in the map", 0);
    }
}

/* Makes and checks the map of n ids; rank 0 reports it. */
static struct rankmap *map_of(const char *name, const uint32_t *ids, uint32_t n)
{
    struct rankmap_info info = {.size = sizeof(info)};
    struct rankmap *map;
    char text[256];
    int r = rankmap_from_ids32(ids, n, NULL, &map, NULL);

    if (r != 0)
        give_up(name, "no map", r);
    check_map(name, map, ids, n);
    n_checked[0]++;
    n_checked[1] += n;
    rankmap_query(map, &info);
    rankmap_describe(map, text, sizeof(text));
    if (world_rank == 0)
        printf("%-34s %4lu ranks, %4llu bytes (a table of pointers %5lu)  %s\n", name,
               (unsigned long)n, (unsigned long long)info.model_bytes, 8 * (unsigned long)n, text);
    return map;
}

static struct rankmap *map_of_group(const char *name, MPI_Group group)
{
    struct rankmap *map;
    uint32_t *ids;
    int n;

    MPI_Group_size(group, &n);
    if (n == 0)
        return NULL;
    ids = world_ranks(name, group, n);
    map = map_of(name, ids, (uint32_t)n);
    free(ids);
    return map;
}

/* The map of a communicator, and the same again by composition: parent's map after the ranks that
 * MPI says it took of the parent. */
static struct rankmap *map_of_comm(const char *name, MPI_Comm comm, MPI_Comm parent)
{
    MPI_Group group, parent_group;
    struct rankmap *map, *parent_map, *composed;
    uint32_t *ids, *parent_ids;
    int n, n_parent, *all, *ranks, r;

    MPI_Comm_group(comm, &group);
    map = map_of_group(name, group);
    MPI_Comm_group(parent, &parent_group);
    MPI_Group_size(group, &n);
    MPI_Group_size(parent_group, &n_parent);
    all = all_ranks(n);
    ranks = must_alloc(calloc((size_t)n, sizeof(*ranks)));
    MPI_Group_translate_ranks(group, n, all, parent_group, ranks);
    parent_ids = world_ranks(name, parent_group, n_parent);
    ids = world_ranks(name, group, n);
    r = rankmap_from_ids32(parent_ids, (size_t)n_parent, NULL, &parent_map, NULL);
    if (r == 0)
        r = rankmap_include_ranks(parent_map, ranks, (size_t)n, NULL, &composed, NULL);
    if (r != 0)
        give_up(name, "no composition", r);
    check_map(name, composed, ids, (uint32_t)n);
    if (rankmap_compare(composed, map) != RANKMAP_IDENT)
        give_up(name, "the composed map is another one", 0);
    n_checked[2]++;
    rankmap_unref(composed);
    rankmap_unref(parent_map);
    free(ids);
    free(parent_ids);
    free(ranks);
    free(all);
    MPI_Group_free(&parent_group);
    MPI_Group_free(&group);
    return map;
}

static void explain_comm(const char *name, MPI_Comm comm, MPI_Comm parent)
{
    if (comm != MPI_COMM_NULL)
        rankmap_unref(map_of_comm(name, comm, parent));
}

static void explain_and_free(const char *name, MPI_Comm *comm, MPI_Comm parent)
{
    explain_comm(name, *comm, parent);
    if (*comm != MPI_COMM_NULL)
        MPI_Comm_free(comm);
}

/* ---- The communicators ---- */

static int largest_divisor(int n)
{
    int side = 1;

    for (int d = 1; d * d <= n; d++)
        if (n % d == 0)
            side = d;
    return side;
}

static void explain_splits(void)
{
    int rows = largest_divisor(world_size), columns = world_size / rows;
    MPI_Comm comm, row;
    unsigned key;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    explain_comm("dup", comm, MPI_COMM_WORLD);
    MPI_Comm_split(comm, world_rank / columns, 0, &row);
    explain_comm("row of the dup", row, comm);
    MPI_Comm_free(&comm);
    MPI_Comm_split(row, 0, -world_rank, &comm);
    explain_and_free("row, reversed", &comm, row);
    MPI_Comm_free(&row);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % columns, 0, &comm);
    explain_and_free("column", &comm, MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comm);
    explain_and_free("world, reversed", &comm, MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, 0, world_rank % columns * rows + world_rank / columns, &comm);
    explain_and_free("world, transposed", &comm, MPI_COMM_WORLD);
    key = (unsigned)world_rank * 2654435761u >> 16 & 0x7fff;
    MPI_Comm_split(MPI_COMM_WORLD, 0, (int)key, &comm);
    explain_and_free("world, shuffled", &comm, MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 4 < 2, 0, &comm);
    explain_and_free("two of each four", &comm, MPI_COMM_WORLD);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
    explain_and_free("shared memory", &comm, MPI_COMM_WORLD);
    explain_comm("self", MPI_COMM_SELF, MPI_COMM_WORLD);
}

/* Each generation is the even, or the odd, ranks of the one before. */
static void explain_generations(void)
{
    MPI_Comm parent, child;
    char name[64];
    int rank, size;

    MPI_Comm_dup(MPI_COMM_WORLD, &parent);
    for (int g = 1;; g++) {
        MPI_Comm_rank(parent, &rank);
        MPI_Comm_size(parent, &size);
        if (size == 1)
            break;
        MPI_Comm_split(parent, rank % 2, 0, &child);
        snprintf(name, sizeof(name), "%s, generation %d", rank % 2 ? "odd" : "even", g);
        explain_comm(name, child, parent);
        MPI_Comm_free(&parent);
        parent = child;
    }
    MPI_Comm_free(&parent);
}

static void explain_grids(void)
{
    int dims[3] = {0, 0, 0}, periods[3] = {0, 0, 0}, keep[3];
    MPI_Comm cart, sub;
    char name[64];

    MPI_Dims_create(world_size, 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 1, &cart);
    explain_comm("Cartesian grid", cart, MPI_COMM_WORLD);
    for (int mask = 1; mask < 7; mask++) {
        for (int i = 0; i < 3; i++)
            keep[i] = mask >> i & 1;
        MPI_Cart_sub(cart, keep, &sub);
        snprintf(name, sizeof(name), "%s of the grid, axes%s%s%s",
                 mask & (mask - 1) ? "plane" : "line", keep[0] ? " x" : "", keep[1] ? " y" : "",
                 keep[2] ? " z" : "");
        explain_and_free(name, &sub, cart);
    }
    MPI_Comm_free(&cart);
}

static void explain_groups(void)
{
    int middle = world_size / 2, range[1][3] = {{world_size - 1, 0, -2}};
    MPI_Group group;
    MPI_Comm comm;

    /* One has failed: the others go on. */
    if (world_size > 1) {
        MPI_Group_excl(world_group, 1, &middle, &group);
        MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
        rankmap_unref(map_of_group("all but one", group));
        MPI_Group_free(&group);
        if (comm != MPI_COMM_NULL)
            MPI_Comm_free(&comm);
    }
    MPI_Group_range_incl(world_group, 1, range, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
    rankmap_unref(map_of_group("every second, from the end", group));
    MPI_Group_free(&group);
    if (comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm);
}

/* Two halves, the intercommunicator between them, and both merges. */
static void explain_halves(void)
{
    int upper = world_rank >= (world_size + 1) / 2;
    MPI_Comm half, inter, merged;
    MPI_Group remote;

    if (world_size == 1)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, upper, 0, &half);
    explain_comm("half", half, MPI_COMM_WORLD);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : (world_size + 1) / 2, 7, &inter);
    MPI_Comm_remote_group(inter, &remote);
    rankmap_unref(map_of_group("remote group of the intercomm", remote));
    MPI_Group_free(&remote);
    MPI_Intercomm_merge(inter, upper, &merged);
    explain_and_free("halves, merged", &merged, MPI_COMM_WORLD);
    MPI_Intercomm_merge(inter, !upper, &merged);
    explain_and_free("halves, merged the other way", &merged, MPI_COMM_WORLD);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/* ---- Spawned processes ---- */

/* Both sides: each sends its number and its world; MPI itself translates no rank of the other
 * world. */
static void merge_worlds(MPI_Comm inter, int child, int n_parents)
{
    int mine = child ? n_parents + world_rank : world_rank, n, *all;
    MPI_Comm merged;
    uint32_t *ids;

    MPI_Intercomm_merge(inter, child, &merged);
    MPI_Comm_size(merged, &n);
    all = must_alloc(calloc((size_t)n, sizeof(*all)));
    ids = must_alloc(calloc((size_t)n, sizeof(*ids)));
    MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, merged);
    for (int r = 0; r < n; r++)
        ids[r] = (uint32_t)all[r];
    if (!child)
        rankmap_unref(map_of("merged with spawned processes", ids, (uint32_t)n));
    free(ids);
    free(all);
    MPI_Comm_free(&merged);
}

static void spawn_processes(char *program)
{
    char port[MPI_MAX_PORT_NAME], n_parents[16], *args[] = {(char[]){"--spawned"}, n_parents, NULL};
    int mine, all;
    MPI_Comm inter;

    /* An MPI without ports cannot spawn; Debian 12's MPICH is one. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    mine = MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS;
    if (mine)
        MPI_Close_port(port);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all) {
        if (world_rank == 0)
            printf("spawn: not supported by this MPI\n");
        return;
    }
    snprintf(n_parents, sizeof(n_parents), "%d", world_size);
    MPI_Comm_spawn(program, args, N_SPAWNED, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                   MPI_ERRCODES_IGNORE);
    merge_worlds(inter, 0, world_size);
    MPI_Comm_disconnect(&inter);
}

int main(int argc, char **argv)
{
    long sum[3] = {0, 0, 0};
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    MPI_Comm_group(MPI_COMM_WORLD, &world_group);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL && argc == 3 && strcmp(argv[1], "--spawned") == 0) {
        merge_worlds(parent, 1, atoi(argv[2]));
        MPI_Comm_disconnect(&parent);
    } else {
        explain_comm("world", MPI_COMM_WORLD, MPI_COMM_WORLD);
        explain_splits();
        explain_generations();
        explain_grids();
        explain_groups();
        explain_halves();
        spawn_processes(argv[0]);
        MPI_Reduce(n_checked, sum, 3, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        if (world_rank == 0)
            printf("all %d processes: %ld maps with %ld ranks are what MPI has, %ld of them also "
                   "by composition\n",
                   world_size, sum[0], sum[1], sum[2]);
    }
    MPI_Group_free(&world_group);
    MPI_Finalize();
    return 0;
}
