/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric memory by libasymreg. Every PE has a card in symmetric memory: its bootstrap blob and
 * the address of its lock. A PE reads another's card when it first needs it. All operations are
 * complete when they return, so that fence and quiet have nothing to add for them.
 *
 * Atomics: shared memory and CMA cannot update private memory, so that an atomic takes the lock of
 * the PE whose memory it is, gets, computes and puts. The lock is in memory that all map, and is
 * taken by compare-swap: it needs nothing of that PE but to live.
 */
#define _GNU_SOURCE
#include "asym.h"

#include <asymreg.h>
#include <pshmem.h>
#include <shmem.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asymshmem.h"

struct card {
    uint64_t blob_bytes, lock; /* address of the lock at its PE */
    char blob[ASYMREG_MAX_BLOB_BYTES];
};

static struct asymreg_context *context;
static struct asymreg_worker *worker; /* of the thread that has `mutex` */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct card *card; /* symmetric */
static uint64_t *locks;   /* of each PE, by address there; 0: its card has not been read */
static int me, n_pes;

static _Noreturn void die(const char *call, const char *what, const char *why)
{
    fprintf(stderr, "PE %d: %s: %s: %s\n", me, call, what, why);
    pshmem_global_exit(1);
    abort();
}

static void check(int rc, const char *call, const struct asymreg_error *err)
{
    if (rc < 0)
        die(call, "asymmetric memory", err->text);
}

void asym_begin(void)
{
    struct asymreg_error err;
    void *lock;
    ssize_t n;

    me = pshmem_my_pe();
    n_pes = pshmem_n_pes();
    card = pshmem_malloc(sizeof(*card));
    locks = calloc((size_t)n_pes, sizeof(*locks));
    if (!card || !locks)
        die("shmem_init", "asymmetric memory", "out of memory");
    check(asymreg_open(NULL, &context, &err), "shmem_init", &err);
    check(asymreg_segment_alloc(context, sizeof(uint64_t), &lock, &err), "shmem_init", &err);
    check(asymreg_register(context, lock, sizeof(uint64_t), ASYMREG_ALL, 0, NULL, &err),
          "shmem_init", &err);
    n = asymreg_export(context, card->blob, sizeof(card->blob), &err);
    check((int)n, "shmem_init", &err);
    card->blob_bytes = (uint64_t)n;
    card->lock = (uintptr_t)lock;
    if (asymreg_worker_create(context, &worker) < 0)
        die("shmem_init", "asymmetric memory", "out of memory");
    pshmem_barrier_all();
}

void asym_end(void)
{
    pshmem_barrier_all(); /* nobody needs the cards any more */
    asymreg_worker_destroy(worker);
    asymreg_close(context);
    context = NULL;
    free(locks);
    pshmem_free(card);
}

bool is_symmetric(const void *addr, int pe)
{
    return !context || pe < 0 || pe >= n_pes || pshmem_addr_accessible(addr, pe);
}

/* Makes a PE known, with the mutex. */
static void meet(const char *call, int pe)
{
    struct asymreg_error err;
    struct card *theirs;

    if (locks[pe] != 0)
        return;
    theirs = malloc(sizeof(*theirs));
    if (!theirs)
        die(call, "asymmetric memory", "out of memory");
    pshmem_getmem(theirs, card, sizeof(*theirs), pe);
    check(asymreg_import(context, (uint32_t)pe, theirs->blob, (size_t)theirs->blob_bytes, &err),
          call, &err);
    locks[pe] = theirs->lock;
    free(theirs);
}

/* Why an operation failed, in the job's last line. */
static _Noreturn void refuse(const char *call, int pe, uintptr_t addr, size_t bytes, uint32_t need,
                             int rc)
{
    struct asymreg_error err = {.code = 0};
    char what[96];

    snprintf(what, sizeof(what), "%zu bytes at %#llx of PE %d", bytes, (unsigned long long)addr,
             pe);
    asymreg_resolve(worker, (uint32_t)pe, addr, bytes, need, NULL, &err);
    die(call, what, err.code == rc ? err.text : asymreg_strerror(rc));
}

static void move(const char *call, bool is_put, uintptr_t remote, char *local, size_t bytes, int pe)
{
    int rc = is_put ? asymreg_put(worker, (uint32_t)pe, remote, ASYMREG_ANY, local, bytes)
                    : asymreg_get(worker, (uint32_t)pe, remote, ASYMREG_ANY, local, bytes);

    if (rc == 0 && is_put)
        rc = asymreg_flush(worker, (uint32_t)pe);
    if (rc < 0)
        refuse(call, pe, remote, bytes, is_put ? ASYMREG_WRITE : ASYMREG_READ, rc);
}

static void transfer(const char *call, bool is_put, uintptr_t remote, char *local,
                     ptrdiff_t remote_stride, ptrdiff_t local_stride, size_t n, size_t size, int pe)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        refuse(call, pe, remote, SIZE_MAX, 0, ASYMREG_EOVERFLOW);
    pthread_mutex_lock(&mutex);
    meet(call, pe);
    if (remote_stride == 1 && local_stride == 1) {
        move(call, is_put, remote, local, bytes, pe);
    } else {
        for (size_t i = 0; i < n; i++)
            move(call, is_put, remote + i * (uintptr_t)remote_stride * size,
                 local + (ptrdiff_t)i * local_stride * (ptrdiff_t)size, size, pe);
    }
    pthread_mutex_unlock(&mutex);
}

void asym_put(const char *call, void *to, const void *from, ptrdiff_t to_stride,
              ptrdiff_t from_stride, size_t n, size_t size, int pe)
{
    transfer(call, true, (uintptr_t)to, (char *)(uintptr_t)from, to_stride, from_stride, n, size,
             pe);
}

void asym_get(const char *call, void *to, const void *from, ptrdiff_t to_stride,
              ptrdiff_t from_stride, size_t n, size_t size, int pe)
{
    transfer(call, false, (uintptr_t)from, to, from_stride, to_stride, n, size, pe);
}

static void lock_set(const char *call, int pe, uint64_t from, uint64_t to)
{
    uint64_t was = from;

    for (;;) {
        int rc = asymreg_amo(worker, (uint32_t)pe, locks[pe], ASYMREG_ANY, ASYMREG_AMO_COMPARE_SWAP,
                             sizeof(uint64_t), to, from, &was);

        if (rc < 0)
            refuse(call, pe, (uintptr_t)locks[pe], sizeof(uint64_t), ASYMREG_ATOMIC, rc);
        if (was == from)
            return;
        sched_yield();
    }
}

static uint64_t apply(enum asym_op op, uint64_t old, uint64_t value, uint64_t compare)
{
    switch (op) {
    case OP_FETCH: return old;
    case OP_SET: return value;
    case OP_COMPARE_SWAP: return old == compare ? value : old;
    case OP_ADD: return old + value;
    case OP_AND: return old & value;
    case OP_OR: return old | value;
    default: return old ^ value;
    }
}

/* 4 or 8 bytes as a number, and back. */
static uint64_t load(const void *p, size_t size)
{
    uint32_t half = 0;
    uint64_t whole = 0;

    if (!p)
        return 0;
    if (size == sizeof(half)) {
        memcpy(&half, p, sizeof(half));
        return half;
    }
    memcpy(&whole, p, sizeof(whole));
    return whole;
}

static void store(void *p, size_t size, uint64_t value)
{
    uint32_t half = (uint32_t)value;

    if (size == sizeof(half))
        memcpy(p, &half, sizeof(half));
    else
        memcpy(p, &value, sizeof(value));
}

void asym_atomic(const char *call, enum asym_op op, const void *addr, size_t size,
                 const void *value, const void *compare, void *before, int pe)
{
    char bytes[sizeof(uint64_t)];
    uint64_t old, new;

    pthread_mutex_lock(&mutex);
    meet(call, pe);
    lock_set(call, pe, 0, 1);
    move(call, false, (uintptr_t)addr, bytes, size, pe);
    old = load(bytes, size);
    new = apply(op, old, load(value, size), load(compare, size));
    store(bytes, size, new);
    if (op != OP_FETCH)
        move(call, true, (uintptr_t)addr, bytes, size, pe);
    lock_set(call, pe, 1, 0);
    pthread_mutex_unlock(&mutex);
    if (before)
        store(before, size, old);
}

bool asym_accessible(const void *addr, int pe)
{
    int rc;

    pthread_mutex_lock(&mutex);
    meet("shmem_addr_accessible", pe);
    rc = asymreg_resolve(worker, (uint32_t)pe, (uintptr_t)addr, 1, 0, NULL, NULL);
    pthread_mutex_unlock(&mutex);
    return rc == 0;
}

int shmemx_register(void *addr, size_t bytes)
{
    return asymreg_register(context, addr, bytes, ASYMREG_RW, 0, NULL, NULL);
}

int shmemx_unregister(void *addr)
{
    struct asymreg_region region;
    int rc;

    pthread_mutex_lock(&mutex);
    meet("shmemx_unregister", me);
    rc = asymreg_resolve(worker, (uint32_t)me, (uintptr_t)addr, 0, 0, &region, NULL);
    pthread_mutex_unlock(&mutex);
    if (rc == 0 && region.start != (uintptr_t)addr)
        rc = ASYMREG_ENOREGION;
    return rc < 0 ? rc : asymreg_unregister(context, region.id);
}
