/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of an index: pools of nodes, and the epochs after which an unlinked node is reused. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "index.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_SLAB    (16u << 10)
#define LAST_SLAB     (4u << 20)
#define RECLAIM_EVERY 256u
#define FIRST_RETIRED 16u

/* Nodes follow a slab's head. Their alignment leaves the low bits of a node's address for the
 * depth: see root. */
struct asymreg__slab {
    struct asymreg__slab *next;
    size_t bytes;
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct asymreg__leaf) % 64 == 0 && sizeof(struct asymreg__inner) % 64 == 0,
               "nodes are aligned to 64");

void asymreg__slots_grow(struct asymreg__index *ix)
{
    uintptr_t from = ((uintptr_t)ix->slots + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    uintptr_t to = (uintptr_t)(ix->slots + ix->max_regions);

    if (!ix->huge && ix->n_used >= HUGE_PAGE / sizeof(*ix->slots) / 2) {
        ix->huge = 1;
        if (from < to)
            madvise((void *)from, to - from, MADV_HUGEPAGE);
    }
}

static int pool_grow(struct asymreg__pool *pool)
{
    size_t bytes = pool->next_slab;
    struct asymreg__slab *slab;
    char *p;

    /* A large slab is aligned to a huge page; the excess is unmapped. */
    if (bytes >= HUGE_PAGE) {
        p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            return -ENOMEM;
        size_t head = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
        if (head)
            munmap(p, head);
        if (head < HUGE_PAGE)
            munmap(p + head + bytes, HUGE_PAGE - head);
        p += head;
        madvise(p, bytes, MADV_HUGEPAGE);
    } else {
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return -ENOMEM;
    }
    /* The rest of the previous slab goes to the free list. */
    while (pool->bump && pool->bump + pool->size <= pool->bump_end) {
        *(void **)(void *)pool->bump = pool->free;
        pool->free = pool->bump;
        pool->n_free++;
        pool->bump += pool->size;
    }
    slab = (struct asymreg__slab *)(void *)p;
    slab->next = pool->slabs;
    slab->bytes = bytes;
    pool->slabs = slab;
    pool->slab_bytes += bytes;
    pool->bump = p + sizeof(*slab);
    pool->bump_end = p + bytes;
    if (pool->next_slab < LAST_SLAB)
        pool->next_slab *= 2;
    return 0;
}

static int pool_reserve(struct asymreg__pool *pool, size_t n)
{
    while (pool->n_free + (size_t)(pool->bump_end - pool->bump) / pool->size < n)
        if (pool_grow(pool) < 0)
            return -ENOMEM;
    return 0;
}

static void *pool_get(struct asymreg__pool *pool)
{
    void *p = pool->free;

    if (p) {
        pool->free = *(void **)p;
        pool->n_free--;
    } else {
        p = pool->bump;
        pool->bump += pool->size;
    }
    return p;
}

static void pool_put(struct asymreg__pool *pool, void *p)
{
    *(void **)p = pool->free;
    pool->free = p;
    pool->n_free++;
}

static void pool_fini(struct asymreg__pool *pool)
{
    struct asymreg__slab *slab;

    while ((slab = pool->slabs)) {
        pool->slabs = slab->next;
        munmap(slab, slab->bytes);
    }
}

/*
 * Makes every running thread of this process execute a full barrier. Afterwards either a reader's
 * announcement is visible here, or the reader's search begins after this. Returns 0, or -1 if the
 * kernel cannot.
 */
static int readers_barrier(const struct asymreg__index *ix)
{
    if (ix->fence) {
        atomic_thread_fence(memory_order_seq_cst);
        return 0;
    }
    if (syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
        return 0;
    if (errno == EPERM &&
        syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0)
        return syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 ? 0 : -1;
    return -1;
}

int asymreg__mem_init(struct asymreg__index *ix)
{
    ix->epoch = 1;
    ix->fence = ASYMREG__TSAN ||
                syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0;
    ix->pools[LEAF].size = sizeof(struct asymreg__leaf);
    ix->pools[INNER].size = sizeof(struct asymreg__inner);
    for (int i = 0; i < N_CLASSES; i++)
        ix->pools[i].next_slab = FIRST_SLAB;
    ix->reclaim_at = RECLAIM_EVERY;
    return pthread_mutex_init(&ix->readers_lock, NULL) == 0 ? 0 : -ENOMEM;
}

void asymreg__mem_fini(struct asymreg__index *ix)
{
    for (int i = 0; i < N_CLASSES; i++)
        pool_fini(&ix->pools[i]);
    asymreg__free(ix->allocator, ix->retired);
    pthread_mutex_destroy(&ix->readers_lock);
}

/* The oldest epoch that a reader may still be in. */
static uint64_t oldest_reader(struct asymreg__index *ix)
{
    uint64_t oldest = UINT64_MAX;

    pthread_mutex_lock(&ix->readers_lock);
    for (struct asymreg__reader *r = ix->readers; r; r = r->next) {
        uint64_t e = atomic_load_explicit(&r->epoch, memory_order_acquire);
        if (e && e < oldest)
            oldest = e;
    }
    pthread_mutex_unlock(&ix->readers_lock);
    return oldest;
}

static void nodes_reclaim(struct asymreg__index *ix)
{
    uint64_t oldest;

    atomic_store_explicit(&ix->epoch, ix->epoch + 1, memory_order_release);
    if (readers_barrier(ix) == 0) {
        oldest = oldest_reader(ix);
        while (ix->n_retired) {
            struct asymreg__retired *r = &ix->retired[ix->retired_at];
            if (r->epoch >> 1 >= oldest)
                break;
            pool_put(&ix->pools[r->epoch & 1], r->node);
            ix->retired_at = (ix->retired_at + 1) % ix->retired_cap;
            ix->n_retired--;
        }
    }
    ix->reclaim_at = ix->n_retired + RECLAIM_EVERY;
}

uint64_t asymreg__epoch_now(const struct asymreg__index *ix)
{
    return ix->epoch;
}

int asymreg__epoch_passed(struct asymreg__index *ix, uint64_t epoch)
{
    if (ix->epoch <= epoch)
        nodes_reclaim(ix);
    return ix->epoch > epoch && readers_barrier(ix) == 0 && oldest_reader(ix) > epoch;
}

static int retired_reserve(struct asymreg__index *ix, size_t n)
{
    struct asymreg__retired *bigger;
    size_t cap = ix->retired_cap ? ix->retired_cap * 2 : FIRST_RETIRED;

    if (ix->n_retired + n <= ix->retired_cap)
        return 0;
    while (cap < ix->n_retired + n)
        cap *= 2;
    bigger = asymreg__alloc(ix->allocator, cap * sizeof(*bigger));
    if (!bigger)
        return -ENOMEM;
    for (size_t i = 0; i < ix->n_retired; i++)
        bigger[i] = ix->retired[(ix->retired_at + i) % ix->retired_cap];
    asymreg__free(ix->allocator, ix->retired);
    ix->retired = bigger;
    ix->retired_cap = cap;
    ix->retired_at = 0;
    return 0;
}

int asymreg__mem_reserve(struct asymreg__index *ix, size_t n)
{
    int rc;

    if (ix->n_retired >= ix->reclaim_at)
        nodes_reclaim(ix);
    rc = retired_reserve(ix, n);
    for (int i = 0; i < N_CLASSES && rc == 0; i++)
        rc = pool_reserve(&ix->pools[i], n);
    return rc;
}

void *asymreg__node_get(struct asymreg__index *ix, int cls)
{
    return pool_get(&ix->pools[cls]);
}

void asymreg__node_retire(struct asymreg__index *ix, int cls, void *node)
{
    struct asymreg__retired *r = &ix->retired[(ix->retired_at + ix->n_retired++) % ix->retired_cap];

    r->node = node;
    r->epoch = ix->epoch << 1 | (uint64_t)cls;
}

int asymreg__reader_create(struct asymreg__index *index, struct asymreg__reader **reader)
{
    static const _Atomic uint32_t no_generation;
    struct asymreg__reader *r;

    r = asymreg__alloc_lines(index->allocator, sizeof(*r));
    if (!r)
        return -ENOMEM;
    r->generation = &no_generation;
    r->hit_generation = 1;
    r->index = index;
    pthread_mutex_lock(&index->readers_lock);
    r->next = index->readers;
    index->readers = r;
    pthread_mutex_unlock(&index->readers_lock);
    *reader = r;
    return 0;
}

void asymreg__reader_destroy(struct asymreg__reader *reader)
{
    struct asymreg__reader **link;

    if (!reader)
        return;
    pthread_mutex_lock(&reader->index->readers_lock);
    for (link = &reader->index->readers; *link && *link != reader; link = &(*link)->next)
        ;
    if (*link)
        *link = reader->next;
    pthread_mutex_unlock(&reader->index->readers_lock);
    asymreg__free_lines(reader->index->allocator, reader);
}
