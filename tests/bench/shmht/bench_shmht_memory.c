/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node's memory for the addresses of all ranks (SHMEMPMI, Figures 2 and 7): one shared copy, or
 * one in every process.
 *
 *     bench_shmht_memory [--quick] [--seed N] [--n N] [--peer NAME]...
 *
 * For n ranks and PPN processes on the node. Cases are fence-PPN, pairs of a 16-byte key and a
 * 32-byte value, and allgather-PPN, values of 32 bytes by rank. PPN processes run at the same time
 * and read at random until they have touched all of it.
 *
 *     node_bytes        the shared object as the kernel accounts it, and each process's private
 *                       memory
 *     page_table_bytes  in addition: the processes' page tables, all together
 *     processes         the number that really ran; when copies do not fit here, node_bytes is
 *                       extrapolated from fewer
 *
 * copies is a flat array in each process and one in the server, the least meaning of the paper's
 * Default; GHashTable copies serve a process that looks pairs up by key.
 */
#include "stores.h"

#ifdef HAVE_SHMHT
#include <shmht.h>
#endif

#include "children.h"

#define COPIES_BYTES ((uint64_t)1600 << 20) /* of private copies at a time */
#define MAX_TOUCHES  400000u /* of entries at random: enough to meet every page of a store */

enum { PRIVATE, PAGE_TABLES };

struct job {
    struct run *run;
    uint64_t n;
    const uint32_t *order;
    uint64_t before[2];
    /* One of them: a shared store, an array, a peer with a copy in each process, or a flat array
     * with items of this size. */
    const struct store_run *store;
#ifdef HAVE_SHMHT
    struct shmht_array *array;
    struct shmht_desc desc;
    int fd; /* goes with it */
#endif
    const struct peer_ops *own;
    size_t flat_bytes;
};

/* The sum of the lines that begin with `field`, in bytes; the kernel prints kB. */
static uint64_t proc_bytes(const char *path, const char *field)
{
    FILE *f = fopen(path, "r");
    uint64_t bytes = 0;
    char line[256];

    if (!f)
        die("cannot read %s", path);
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, field, strlen(field)) == 0)
            bytes += strtoull(strchr(line, ':') + 1, NULL, 10) * 1024;
    fclose(f);
    return bytes;
}

static void account(uint64_t *bytes)
{
    bytes[PRIVATE] =
        proc_bytes("/proc/self/smaps_rollup", "Private_"); /* _Clean, _Dirty, _Hugetlb */
    bytes[PAGE_TABLES] = proc_bytes("/proc/self/status", "VmPTE:");
}

static void ask(const struct store_run *s, struct bench *b, struct queries *q)
{
    struct sum sum = {0, 0};

    queries_draw(q, b, s->n, 0);
    s->ops->get(s->store, q, &sum);
    sum_check(s->ops->name, q, &sum, 0);
}

static void touch_store(struct job *job, struct bench *b)
{
    const struct store_run *s = job->store;
    struct queries q;

    /* The first Gets use the inherited view, so that the benchmark's own memory does not count. */
    queries_init(&q, 512);
    ask(s, b, &q);
    account(job->before);
    if (s->ops->attach(s->store, 0) != 0)
        die("%s: a client cannot attach", s->ops->name);
    for (uint64_t i = 0; i * q.n < 4 * s->n && i * q.n < MAX_TOUCHES; i++)
        ask(s, b, &q);
    queries_fini(&q);
}

#ifdef HAVE_SHMHT
static void array_create(struct job *job)
{
    struct shmht_array_opts opts = {
        .size = sizeof(opts), .n_ranks = job->n, .stride_bytes = VALUE_BYTES};
    int rc = shmht_array_create(&opts, &job->array, NULL);

    for (uint32_t rank = 0; rc == 0 && rank < job->n; rank++) {
        struct value value;

        data_value(rank, &value);
        rc = shmht_array_put(job->array, rank, value.s, VALUE_BYTES);
    }
    if (rc == 0)
        rc = job->fd = shmht_array_share(job->array, &job->desc);
    if (rc < 0)
        die("array: %s", shmht_strerror(rc));
}

static uint64_t array_bytes(const struct shmht_array *array)
{
    struct shmht_info_array info;

    shmht_array_query(array, &info);
    return info.total_bytes;
}

static void touch_array(const struct job *job)
{
    struct shmht_array *array;
    int rc = shmht_array_attach(&job->desc, job->fd, NULL, &array, NULL);

    for (uint32_t rank = 0; rc == 0 && rank < job->n; rank++) {
        struct shmht_bytes found;
        struct value value;

        data_value(rank, &value);
        rc = shmht_array_get(array, rank, &found);
        if (rc == 0 && (found.len != VALUE_BYTES || memcmp(found.ptr, value.s, VALUE_BYTES) != 0))
            die("array: rank %u has another value", rank);
    }
    if (rc != 0)
        die("array: %s", shmht_strerror(rc));
}
#endif

static void fill_flat(const struct job *job)
{
    char *items = malloc(job->n * job->flat_bytes);

    if (!items)
        die("out of memory");
    for (uint32_t rank = 0; rank < job->n; rank++) {
        char *item = items + rank * job->flat_bytes;

        if (job->flat_bytes == sizeof(struct pair)) {
            data_key(rank, 0, (struct key *)(void *)item);
            item += KEY_BYTES;
        }
        data_value(rank, (struct value *)(void *)item);
    }
    __asm__ volatile("" : : "r"(items) : "memory"); /* kept, and seen to be */
}

static void ready(void *ctx, unsigned child)
{
    struct job *job = ctx;
    struct bench b = job->run->bench;
    struct store_run own;

    b.rng = (b.rng + child) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    account(job->before); /* twice: the first makes stdio's own pages */
    account(job->before);
    if (job->store) {
        touch_store(job, &b);
    } else if (job->own) {
        store_fill(&own, job->own, job->order, job->n, 0);
        store_check(&own);
    } else if (job->flat_bytes) {
        fill_flat(job);
    }
#ifdef HAVE_SHMHT
    else {
        touch_array(job);
    }
#endif
}

static void go(void *ctx, unsigned child, double *figures)
{
    struct job *job = ctx;
    uint64_t after[2];

    account(after);
    for (unsigned i = 0; i < 2; i++)
        figures[i] = after[i] > job->before[i] ? (double)(after[i] - job->before[i]) : 0;
}

/* `shared_bytes`: memory that the node has once; `about_bytes`: the approximate size of a copy; the
 * server has one too. */
static void node(struct job *job, const char *data, unsigned ppn, const char *who,
                 uint64_t shared_bytes, uint64_t about_bytes)
{
    static const struct children_ops ops = {ready, go};
    double figures[MAX_CHILDREN][MAX_FIGURES], own[2] = {0, 0};
    struct bench *b = &job->run->bench;
    unsigned processes = ppn;
    char name[32];

    if (about_bytes && processes > COPIES_BYTES / about_bytes)
        processes = (unsigned)(COPIES_BYTES / about_bytes);
    children_run(&ops, job, processes, figures);
    for (unsigned i = 0; i < processes; i++)
        for (unsigned k = 0; k < 2; k++)
            own[k] += figures[i][k] * ppn / processes;
    if (about_bytes) /* and the server's copy */
        own[PRIVATE] += own[PRIVATE] / ppn;
    snprintf(name, sizeof(name), "%s-%u", data, ppn);
    bench_figure(b, name, job->n, who, "node_bytes", (double)shared_bytes + own[PRIVATE], "B");
    bench_figure(b, name, job->n, who, "page_table_bytes", own[PAGE_TABLES], "B");
    bench_figure(b, name, job->n, who, "processes", processes, "processes");
}

static void run_size(struct run *run, uint64_t n)
{
    static const char *const shared[] = {"ours", "ours-2m", "SHMEM-2/XXH3", "SHMEM-1/XXH3"};
    static const unsigned ppns[] = {16, 32, 64};
    uint32_t *order = data_order(&run->bench, n);
    const struct job empty = {.run = run, .n = n, .order = order};
    unsigned n_ppns = run->bench.quick ? 1 : 3;
    const struct peer_ops *glib = peer_find("GHashTable");

    for (unsigned i = 0; i < sizeof(shared) / sizeof(*shared); i++) {
        struct store_run store;
        struct job job = empty;

        if (!peer_find(shared[i]) || !run_wants(run, shared[i]))
            continue;
        store_fill(&store, peer_find(shared[i]), order, n, n);
        store_check(&store);
        job.store = &store;
        for (unsigned p = 0; p < n_ppns; p++)
            node(&job, "fence", ppns[p], shared[i], store.ops->allocated(store.store), 0);
        store_destroy(&store);
    }
    for (unsigned p = 0; p < n_ppns; p++) {
        struct job job = empty;

        if (glib && run_wants(run, glib->name)) {
            job.own = glib;
            node(&job, "fence", ppns[p], "GHashTable copies", 0, n * glib->bytes_an_entry);
        }
        job.own = NULL;
        if (run_wants(run, "copies")) {
            job.flat_bytes = sizeof(struct pair);
            node(&job, "fence", ppns[p], "copies", 0, n * job.flat_bytes);
            job.flat_bytes = sizeof(struct value);
            node(&job, "allgather", ppns[p], "copies", 0, n * job.flat_bytes);
        }
    }
#ifdef HAVE_SHMHT
    if (run_wants(run, "ours")) {
        struct job job = empty;

        array_create(&job);
        for (unsigned p = 0; p < n_ppns; p++)
            node(&job, "allgather", ppns[p], "ours", array_bytes(job.array), 0);
        shmht_array_destroy(job.array);
    }
#endif
    free(order);
}

int main(int argc, char **argv)
{
    static const uint64_t sizes[] = {16384, 65536, 262144, 1000000}, quick_sizes[] = {1024, 16384};
    struct run run;

    run_init(&run, "shmht_memory", argc, argv);
    if (run.n) {
        run_size(&run, run.n);
        return 0;
    }
    for (unsigned i = 0; i < (run.bench.quick ? 2 : 4); i++)
        run_size(&run, run.bench.quick ? quick_sizes[i] : sizes[i]);
    return 0;
}
