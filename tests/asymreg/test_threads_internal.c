/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that search while others register: recorded histories are checked for linearizability;
 * readers of a copy that is being refreshed; several workers of one context, with default counts
 * or, by arguments, with that many regions and passes of each worker. Run under ThreadSanitizer
 * too.
 */
#define _GNU_SOURCE
#include "targets.h"

#include <pthread.h>
#include <sched.h>

#include "../../libasymreg/src/table/table.h"

#define READERS 3

static uint64_t ticks; /* a clock that every thread agrees on */
static int stop;

static uint64_t tick(void)
{
    return __atomic_fetch_add(&ticks, 1, __ATOMIC_SEQ_CST);
}

struct rng {
    uint64_t s;
};

static uint64_t rnd(struct rng *r)
{
    r->s ^= r->s << 13;
    r->s ^= r->s >> 7;
    r->s ^= r->s << 17;
    return r->s >> 11;
}

/*
 * History of one address: its states 0, 1, 2, … (even: no region there; odd: a region whose value
 * is the state's number), and what readers saw.
 */
enum { CELLS = 6, MAX_WRITES = 8000, MAX_READS = 40000, CELL_BYTES = 64 };

struct write {
    uint64_t begin, end;
};

struct read {
    uint64_t begin, end;
    uint64_t saw; /* state, or 0: no region */
    uint64_t state;
};

static struct write writes[CELLS][MAX_WRITES]; /* the one that made state i + 1 */
static uint32_t n_writes[CELLS], all_writes;
static struct read reads[READERS][MAX_READS];
static uint32_t read_cell[READERS][MAX_READS];
static uint32_t n_reads[READERS];

struct reader_arg {
    struct asymreg__index *ix;
    int self;
};

static uint64_t cell_at(uint32_t cell)
{
    return 1000000 + (uint64_t)cell * CELL_BYTES;
}

/* As one of a batch. */
static const struct asymreg_region *look_up_in_batch(struct asymreg__reader *r, uint64_t addr,
                                                     struct asymreg_region *region)
{
    uint64_t addrs[3] = {addr, cell_at(0), cell_at(CELLS - 1)};
    uint32_t words[3];
    int found;

    asymreg__reader_enter(r);
    asymreg__index_search_many(r->index, addrs, 3, words);
    found = words[0] && asymreg__slot_read(r->index, words[0] - 1, addr, region);
    asymreg__reader_exit(r);
    return found ? region : NULL;
}

static void *history_reader(void *arg)
{
    struct reader_arg *a = arg;
    struct asymreg__reader *r;
    struct rng rng = {(uint64_t)a->self * 7919 + 12345};

    CHECK_EQ(asymreg__reader_create(a->ix, &r), 0);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED) && n_reads[a->self] < MAX_READS) {
        struct read *rd = &reads[a->self][n_reads[a->self]];
        uint32_t cell = (uint32_t)(rnd(&rng) % CELLS);
        uint64_t addr = cell_at(cell) + rnd(&rng) % CELL_BYTES;
        rd->begin = tick();
        struct asymreg_region region;
        const struct asymreg_region *found = n_reads[a->self] % 2
                                                 ? asymreg__index_lookup(r, addr)
                                                 : look_up_in_batch(r, addr, &region);
        rd->saw = found ? found->value : 0;
        rd->end = tick();
        if (found)
            CHECK(found->start <= addr && found->last >= addr && found->start == cell_at(cell));
        read_cell[a->self][n_reads[a->self]++] = cell;
        /* Reads are spread over the whole history. */
        while (n_reads[a->self] > __atomic_load_n(&all_writes, __ATOMIC_RELAXED) / 2 + 100 &&
               !__atomic_load_n(&stop, __ATOMIC_RELAXED))
            sched_yield();
    }
    asymreg__reader_destroy(r);
    return NULL;
}

static int by_begin(const void *a, const void *b)
{
    const struct read *x = *(struct read *const *)a, *y = *(struct read *const *)b;

    return (x->begin > y->begin) - (x->begin < y->begin);
}

static int by_end(const void *a, const void *b)
{
    const struct read *x = *(struct read *const *)a, *y = *(struct read *const *)b;

    return (x->end > y->end) - (x->end < y->end);
}

/* Could state i of the cell have been the current one at some moment of [begin, end]? */
static int possible(uint32_t cell, uint64_t i, uint64_t begin, uint64_t end)
{
    return i <= n_writes[cell] && (i == 0 || writes[cell][i - 1].begin < end) &&
           (i == n_writes[cell] || writes[cell][i].end > begin);
}

/*
 * One writer, so a history of one address is linearizable if each read can be given a state that
 * was possible during it, and reads one after the other get states in that order. Taking the
 * smallest possible state each time decides it. Returns reads that cannot be explained.
 */
static size_t check_cell(uint32_t cell)
{
    size_t n = 0, ended = 0, bad = 0;
    uint64_t least = 0;
    struct read **in_order = malloc(sizeof(*in_order) * READERS * MAX_READS), **done;

    for (int r = 0; r < READERS; r++)
        for (uint32_t i = 0; i < n_reads[r]; i++)
            if (read_cell[r][i] == cell)
                in_order[n++] = &reads[r][i];
    done = malloc(sizeof(*done) * (n + 1));
    memcpy(done, in_order, n * sizeof(*done));
    qsort(in_order, n, sizeof(*in_order), by_begin);
    qsort(done, n, sizeof(*done), by_end);
    for (size_t k = 0; k < n; k++) {
        struct read *rd = in_order[k];
        for (; ended < n && done[ended]->end < rd->begin; ended++)
            if (done[ended]->state > least)
                least = done[ended]->state;
        if (rd->saw) {
            rd->state = rd->saw;
        } else { /* the first state without a region that is not too early */
            for (rd->state = (least + 1) & ~1ull; rd->state <= n_writes[cell]; rd->state += 2)
                if (possible(cell, rd->state, rd->begin, rd->end))
                    break;
        }
        if (rd->state < least || !possible(cell, rd->state, rd->begin, rd->end)) {
            bad++;
            rd->state = least;
        }
    }
    free(in_order);
    free(done);
    return bad;
}

static void history(int plain, unsigned fillers, uint64_t seed)
{
    struct asymreg__index_opts opts = {0};
    struct asymreg__index *ix;
    struct reader_arg args[READERS];
    pthread_t threads[READERS];
    asymreg_id cells[CELLS] = {0}, *filler = calloc(fillers + 1, sizeof(*filler));
    struct rng rng = {seed | 1};
    size_t bad = 0, total = 0;

    CHECK_EQ(asymreg__index_create(&opts, &ix), 0);
    asymreg__search_pick(ix, plain);
    memset(n_writes, 0, sizeof(n_writes));
    memset(n_reads, 0, sizeof(n_reads));
    ticks = 1;
    all_writes = 0;
    stop = 0;
    for (int i = 0; i < READERS; i++) {
        args[i] = (struct reader_arg){ix, i};
        CHECK(pthread_create(&threads[i], NULL, history_reader, &args[i]) == 0);
    }
    for (;;) {
        uint32_t cell = (uint32_t)(rnd(&rng) % CELLS), n = n_writes[cell];
        if (n == MAX_WRITES)
            break;
        struct write *w = &writes[cell][n];
        w->begin = tick();
        if (cells[cell]) {
            CHECK_EQ(asymreg__index_remove(ix, cells[cell]), 0);
            cells[cell] = 0;
        } else {
            CHECK_EQ(asymreg__index_insert(ix, cell_at(cell), CELL_BYTES, 1, n + 1, &cells[cell]),
                     0);
        }
        w->end = tick();
        n_writes[cell] = n + 1;
        __atomic_store_n(&all_writes, all_writes + 1, __ATOMIC_RELAXED);
        /* Others around them, so that leaves split, merge and move. */
        for (int i = 0; fillers && i < 3; i++) {
            uint32_t k = (uint32_t)(rnd(&rng) % fillers);
            if (filler[k]) {
                CHECK_EQ(asymreg__index_remove(ix, filler[k]), 0);
                filler[k] = 0;
            } else {
                uint64_t at =
                    k % 2 ? 1000000 - 8 * (uint64_t)(k + 1) : cell_at(CELLS) + 8 * (uint64_t)k;
                CHECK_EQ(asymreg__index_insert(ix, at, 8, 1, 0, &filler[k]), 0);
            }
        }
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t c = 0; c < CELLS; c++)
        bad += check_cell(c);
    for (int i = 0; i < READERS; i++)
        total += n_reads[i];
    CHECK(total > 0);
    CHECK_EQ(bad, 0);
    /* The checker can fail: a read moved to the end of time saw a region long removed. */
    int refused = 0;
    for (uint32_t i = 0; i < n_reads[0]; i++) {
        uint32_t cell = read_cell[0][i];
        if (reads[0][i].saw && reads[0][i].saw + 2 < n_writes[cell] && !refused) {
            struct read saved = reads[0][i];
            reads[0][i].begin = ticks;
            reads[0][i].end = ticks + 1;
            CHECK_EQ(check_cell(cell), 1);
            reads[0][i] = saved;
            refused = 1;
        }
    }
    printf("history: plain %u, %u fillers: %zu reads explained%s\n", plain, fillers, total,
           refused ? ", a false one refused" : "");
    asymreg__index_destroy(ix);
    free(filler);
}

/* A copy that is refreshed while it is read. */
struct copy {
    struct asymreg__table *table;
    struct asymreg__cache *cache;
};

static void *copy_reader(void *arg)
{
    struct copy *c = arg;
    struct asymreg__reader *r;
    struct rng rng = {(uintptr_t)&rng | 1};
    uint64_t newest[256] = {0};

    CHECK_EQ(asymreg__reader_create(asymreg__cache_index(c->cache), &r), 0);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        uint64_t k = rnd(&rng) % 256, addr = 4096 + k * 100 + rnd(&rng) % 100;
        const struct asymreg_region *found = asymreg__index_lookup(r, addr);
        if (!found)
            continue;
        CHECK(found->start <= addr && found->last >= addr && (found->start - 4096) / 100 == k);
        CHECK((found->id >> 32 & 1) && (found->prot == ASYMREG_RW || found->prot == ASYMREG_READ));
        /* The permission encodes the length: fields of one region must match. */
        CHECK_EQ(found->last - found->start + 1, found->prot == ASYMREG_RW ? 50 : 30);
        uint32_t slot = (uint32_t)found->id;
        if (slot < 256) {
            CHECK(found->id >> 32 >= newest[slot]);
            newest[slot] = found->id >> 32;
        }
    }
    asymreg__reader_destroy(r);
    return NULL;
}

static void *refresher(void *arg)
{
    struct copy *c = arg;

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        int rc = asymreg__cache_refresh(c->cache);
        CHECK(rc >= 0 || rc == ASYMREG_EBUSY);
    }
    return NULL;
}

static void copies(uint32_t ring)
{
    struct asymreg__table_opts opts = {.max_regions = 512, .ring = ring};
    struct asymreg__cache_opts copts = {0};
    struct copy c;
    pthread_t readers[READERS], fresh;
    asymreg_id ids[256] = {0};
    struct rng rng = {99};
    uint64_t segment;
    void *memory = asymreg__reserve(copts.bytes = asymreg__table_bytes(&opts));

    CHECK_EQ(asymreg__table_create(&opts, memory, 1, &c.table), 0);
    CHECK_EQ(asymreg__table_segment_add(c.table, 0, UINT64_MAX, NULL, 0, &segment), 0);
    copts.mapped = memory;
    CHECK_EQ(asymreg__cache_create(&copts, &c.cache), 0);
    stop = 0;
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_create(&readers[i], NULL, copy_reader, &c) == 0);
    CHECK(pthread_create(&fresh, NULL, refresher, &c) == 0);
    for (int i = 0; i < 60000; i++) {
        uint64_t k = rnd(&rng) % 256;
        uint32_t prot = rnd(&rng) % 2 ? ASYMREG_RW : ASYMREG_READ;
        if (ids[k]) {
            CHECK_EQ(asymreg__table_remove(c.table, ids[k]), 0);
            ids[k] = 0;
        } else {
            CHECK_EQ(asymreg__table_insert(c.table, 4096 + k * 100 + rnd(&rng) % 50,
                                           prot == ASYMREG_RW ? 50 : 30, prot, segment, &ids[k]),
                     0);
        }
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    pthread_join(fresh, NULL);
    CHECK(asymreg__cache_refresh(c.cache) >= 0);
    struct asymreg_region a, b;
    uint64_t at = 0;
    while (asymreg__index_next(asymreg__table_index(c.table), at, &a)) {
        CHECK_EQ(asymreg__index_next(asymreg__cache_index(c.cache), at, &b), 1);
        CHECK(memcmp(&a, &b, sizeof(a)) == 0);
        at = a.last + 1;
    }
    CHECK_EQ(asymreg__index_next(asymreg__cache_index(c.cache), at, &b), 0);
    asymreg__cache_destroy(c.cache);
    asymreg__table_destroy(c.table);
    asymreg__unreserve(memory, copts.bytes);
    printf("copies: ring of %u\n", ring);
}

/* Threads of one process that register and unregister, and others that reach it as a peer of
 * itself. */
enum { PLACE_BYTES = 32, VALUE_AT = 24 };
static struct asymreg_context *ctx;
static char *arena;
static uint32_t places, passes;
static asymreg_id *place_id;

static void *registrar(void *arg)
{
    struct rng rng = {(uintptr_t)arg * 31 + 7};

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        uint64_t k = rnd(&rng) % (places / 2) * 2 + (uintptr_t)arg;
        asymreg_id id = __atomic_load_n(&place_id[k], __ATOMIC_ACQUIRE);
        if (id) {
            __atomic_store_n(&place_id[k], 0, __ATOMIC_RELEASE);
            CHECK_EQ(asymreg_unregister(ctx, id), 0);
        } else {
            CHECK_EQ(asymreg_register(ctx, arena + k * PLACE_BYTES, PLACE_BYTES, ASYMREG_ALL, NULL,
                                      &id, NULL),
                     0);
            __atomic_store_n(&place_id[k], id, __ATOMIC_RELEASE);
        }
    }
    return NULL;
}

static void *user(void *arg)
{
    struct asymreg_worker *me;
    struct rng rng = {(uintptr_t)arg * 77 + 3};
    uint64_t ok = 0;

    CHECK_EQ(asymreg_worker_create(ctx, &me), 0);
    for (uint32_t i = 0; i < passes || ok == 0; i++) {
        uint64_t k = rnd(&rng) % places, addr = (uintptr_t)(arena + k * PLACE_BYTES), value;
        asymreg_id id = __atomic_load_n(&place_id[k], __ATOMIC_ACQUIRE);
        int rc = asymreg_get(me, 0, addr + VALUE_AT, id, &value, 8);
        if (rc == 0)
            CHECK_EQ(value, k * 1000003);
        else
            CHECK(rc == ASYMREG_ESTALE || rc == ASYMREG_ENOREGION ||
                  rc == ASYMREG_EBUSY); /* a registrar may lose its processor half way */
        rc = asymreg_amo(me, 0, addr + 8 * (uintptr_t)arg, id, ASYMREG_AMO_ADD, 8, 1, 0, NULL);
        CHECK(rc == 0 || rc == ASYMREG_ESTALE || rc == ASYMREG_ENOREGION || rc == ASYMREG_EBUSY);
        if (rc == 0)
            ok++;
    }
    asymreg_worker_destroy(me);
    return NULL;
}

static void workers(uint32_t n_places, uint32_t n_passes, uintptr_t n_users)
{
    struct asymreg_opts opts = {.size = sizeof(opts)};
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    pthread_t registrars[2], users[READERS];
    void *p;
    ssize_t n;

    places = n_places;
    passes = n_passes;
    CHECK((place_id = calloc(places, sizeof(*place_id))) != NULL);
    opts.max_regions = places + 1000;
    opts.ring = places > 4096 ? 1u << 20 : 0; /* a copy of a small one is overtaken under TSan */
    CHECK_EQ(asymreg_open(&opts, &ctx, NULL), 0);
    CHECK_EQ(asymreg_segment_alloc(ctx, (size_t)places * PLACE_BYTES, &p, NULL), 0);
    arena = p;
    for (uint64_t k = 0; k < places; k++) {
        *(uint64_t *)(void *)(arena + k * PLACE_BYTES + VALUE_AT) = k * 1000003;
        CHECK_EQ(asymreg_register(ctx, arena + k * PLACE_BYTES, PLACE_BYTES, ASYMREG_ALL, NULL,
                                  &place_id[k], NULL),
                 0);
    }
    CHECK((n = asymreg_export(ctx, blob, sizeof(blob), NULL)) > 0);
    CHECK_EQ(asymreg_import(ctx, 0, blob, (size_t)n, NULL), 0);
    stop = 0;
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&registrars[i], NULL, registrar, (void *)i) == 0);
    for (uintptr_t i = 0; i < n_users; i++)
        CHECK(pthread_create(&users[i], NULL, user, (void *)i) == 0);
    for (uintptr_t i = 0; i < n_users; i++)
        pthread_join(users[i], NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(registrars[i], NULL);
    asymreg_close(ctx);
    free(place_id);
    printf("workers: %u regions, %u passes\n", places, passes);
}

int main(int argc, char **argv)
{
    uint64_t seed = (uint64_t)time(NULL);

    if (argc == 3) {
        workers((uint32_t)strtoul(argv[1], NULL, 10), (uint32_t)strtoul(argv[2], NULL, 10), 2);
        return 0;
    }
    CHECK_EQ(argc, 1);

    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < 4; i++)
        history(i / 2, i % 2 ? 2000 : 40, seed + (uint64_t)i);
    copies(16);
    copies(4096);
    workers(64, 30000, READERS);
    return 0;
}
