/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reader at every instruction of a writer: the processor traps after each one, and the trap's
 * handler looks up by every method. In any order of the writer's stores, no look-up undoes an
 * earlier look-up's result, by any method; none sees a region half written; and all see the
 * unchanged regions at every moment. Random histories with threads (test_threads_internal.c) seldom
 * hit the few instructions between two stores; this test hits all of them, but not a weaker
 * memory's orders.
 */
#define _GNU_SOURCE
#include "targets.h"

#include "../../libasymreg/src/table/table.h"

#ifdef __x86_64__
#include <ucontext.h>

#define TRAP_FLAG 0x100

enum { CELLS = 100, CELL_BYTES = 64, BASE = 100000 };

/* Regions begin where their cells do, and have another length than the one before them. */
static uint64_t bytes_in[CELLS];
static uint64_t next_bytes = 1;

/* The stepped operation. */
static struct {
    struct asymreg__index *ix;
    struct asymreg__reader *plain, *cached;
    int cell, reached;      /* 0: as before, 1: between, 2: as after */
    uint64_t before, after; /* the cell's bytes; 0: no region */
    const char *bad;
    uint64_t steps;
} op;

static uint64_t cell_at(int cell)
{
    return BASE + (uint64_t)cell * CELL_BYTES;
}

static void must(int holds, const char *what)
{
    if (!holds && !op.bad)
        op.bad = what;
}

/* Looks the changing cell up. `sure`: a miss means that no region is there. */
static void seen(const struct asymreg_region *r, int sure, const char *how)
{
    uint64_t bytes = r ? r->last - r->start + 1 : 0;
    int stage;

    if (!r && !sure)
        return;
    must(!r || (r->start == cell_at(op.cell) && r->prot == ASYMREG_RW && (r->id >> 32 & 1)),
         "half a region was seen");
    must(bytes == op.before || bytes == op.after || !bytes,
         "a look-up found a region that was never registered");
    stage = bytes == op.after ? 2 : bytes == op.before ? 0 : 1;
    must(stage >= op.reached, how);
    op.reached = stage;
}

static void look(void)
{
    uint64_t addr = cell_at(op.cell);
    struct asymreg_region found;

    /* In the order in which a writer's errors show: hints first. */
    seen(asymreg__hint_lookup(op.ix, addr, ASYMREG_ANY, &found) ? &found : NULL, 0,
         "seen done before, and undone by a hint");
    seen(op.ix->search(op.plain, addr), 1, "seen done before, and undone in the tree");
    seen(asymreg__index_search(op.plain, addr), 1,
         "seen done before, and undone by asymreg__index_search()");
    seen(asymreg__index_lookup(op.cached, addr), 1,
         "seen done before, and undone by asymreg__index_lookup()");
    /* Its neighbours, which do not change. */
    for (int c = op.cell - 3; c <= op.cell + 3; c++) {
        if (c < 0 || c >= CELLS || c == op.cell)
            continue;
        const struct asymreg_region *r = asymreg__index_search(op.plain, cell_at(c));
        must((r ? r->last - r->start + 1 : 0) == bytes_in[c], "another region came or went");
    }
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
    int saved = errno;

    (void)sig, (void)info;
    op.steps++;
    look();
    if (op.bad) /* once is enough */
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    errno = saved;
}

/* Runs an operation that changes a cell to `after`, one instruction at a time. */
static void step(int cell, uint64_t after, void (*change)(void *arg), void *arg)
{
    uint64_t steps = op.steps;

    op.cell = cell;
    op.reached = 0;
    op.before = bytes_in[cell];
    op.after = after;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);
    change(arg);
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() &
                                   ~(unsigned long long)TRAP_FLAG);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (op.bad) {
        fprintf(stderr, "cell %d, from %llu bytes to %llu, instruction %llu: %s\n", cell,
                (unsigned long long)op.before, (unsigned long long)after,
                (unsigned long long)(op.steps - steps), op.bad);
        exit(1);
    }
    if (op.steps == steps) {
        printf("skip: this machine, or the tool that runs this, does not trap after each "
               "instruction\n");
        exit(77);
    }
    look();
    CHECK(!op.bad && op.reached == 2);
    bytes_in[cell] = after;
}

/* Others than are in the cell. */
static uint64_t some_bytes(int cell)
{
    do
        next_bytes = next_bytes % CELL_BYTES + 1;
    while (next_bytes == bytes_in[cell]);
    return next_bytes;
}

/* ---- an index ---- */

static asymreg_id ids[CELLS];

static void insert(void *arg)
{
    uint64_t bytes = *(uint64_t *)arg;

    CHECK_EQ(
        asymreg__index_insert(op.ix, cell_at(op.cell), bytes, ASYMREG_RW, bytes, &ids[op.cell]), 0);
}

static void take_out(void *arg)
{
    CHECK_EQ(asymreg__index_remove(op.ix, ids[op.cell]), 0);
}

static void toggle(int cell, int stepwise)
{
    uint64_t bytes = some_bytes(cell), after = bytes_in[cell] ? 0 : bytes;

    if (stepwise) {
        step(cell, after, after ? insert : take_out, &bytes);
        return;
    }
    op.cell = cell;
    (after ? insert : take_out)(&bytes);
    bytes_in[cell] = after;
}

static uint32_t rnd(void)
{
    static uint64_t s = 88172645463325252u;

    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return (uint32_t)(s >> 20);
}

static void readers_of(struct asymreg__index *ix)
{
    memset(bytes_in, 0, sizeof(bytes_in));
    op.ix = ix;
    CHECK_EQ(asymreg__reader_create(ix, &op.plain), 0);
    CHECK_EQ(asymreg__reader_create(ix, &op.cached), 0);
}

static void no_readers(void)
{
    asymreg__reader_destroy(op.plain);
    asymreg__reader_destroy(op.cached);
}

/* From empty to full, with splits of leaves and new hints; changes, many of which undo the previous
 * one in the same slot; back to empty. */
static void an_index(int changes)
{
    struct asymreg__index_opts opts = {.max_regions = CELLS};
    struct asymreg__index *ix;

    CHECK_EQ(asymreg__index_create(&opts, &ix), 0);
    readers_of(ix);
    op.steps = 0;
    for (int i = 0; i < CELLS; i++)
        toggle(i * 7 % CELLS, i % 3 == 0);
    CHECK(ix->hints_on != NULL);
    for (int i = 0; i < changes; i++) {
        int cell = (int)(rnd() % CELLS);
        toggle(cell, 1);
        if (rnd() % 4)
            toggle(cell, 1);
    }
    for (int i = 0; i < CELLS; i++)
        if (bytes_in[i * 11 % CELLS])
            toggle(i * 11 % CELLS, i % 3 == 0);
    no_readers();
    asymreg__index_destroy(ix);
    printf("index: %llu instructions\n", (unsigned long long)op.steps);
}

/* ---- a copy of a published table ---- */

static void refresh(void *cache)
{
    CHECK(asymreg__cache_refresh(cache) > 0);
}

static void a_copy(int changes)
{
    struct asymreg__table_opts opts = {.max_regions = 256, .ring = 64};
    struct asymreg__cache_opts copts = {0};
    struct asymreg__table *table;
    struct asymreg__cache *cache;
    uint64_t segment;
    void *memory = asymreg__reserve(copts.bytes = asymreg__table_bytes(&opts));

    CHECK_EQ(asymreg__table_create(&opts, memory, 1, &table), 0);
    CHECK_EQ(asymreg__table_segment_add(table, 0, UINT64_MAX, NULL, 0, &segment), 0);
    copts.mapped = memory;
    CHECK_EQ(asymreg__cache_create(&copts, &cache), 0);
    readers_of(asymreg__cache_index(cache));
    op.steps = 0;
    for (int c = 0; c < CELLS; c++) {
        bytes_in[c] = some_bytes(c);
        CHECK_EQ(
            asymreg__table_insert(table, cell_at(c), bytes_in[c], ASYMREG_RW, segment, &ids[c]), 0);
    }
    CHECK_EQ(asymreg__cache_refresh(cache), CELLS);
    CHECK(op.ix->hints_on != NULL);
    for (int i = 0; i < changes; i++) {
        int cell = (int)(rnd() % CELLS), replaced = bytes_in[cell] && rnd() % 2;
        uint64_t after = bytes_in[cell] && !replaced ? 0 : some_bytes(cell);
        if (bytes_in[cell])
            CHECK_EQ(asymreg__table_remove(table, ids[cell]), 0);
        if (after)
            CHECK_EQ(
                asymreg__table_insert(table, cell_at(cell), after, ASYMREG_RW, segment, &ids[cell]),
                0);
        step(cell, after, refresh, cache);
    }
    no_readers();
    asymreg__cache_destroy(cache);
    asymreg__table_destroy(table);
    asymreg__unreserve(memory, copts.bytes);
    printf("copy: %llu instructions\n", (unsigned long long)op.steps);
}

int main(void)
{
    struct sigaction sa = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};

    CHECK(sigaction(SIGTRAP, &sa, NULL) == 0);
    an_index(40);
    a_copy(40);
    return 0;
}
#else
int main(void)
{
    printf("skip: only on x86-64 is it known here how to trap after each instruction\n");
    return 77;
}
#endif
