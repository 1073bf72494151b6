/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric memory by libasymreg. Every PE has a card in symmetric memory: its bootstrap blob and
 * the address of its lock. A PE reads another's card when it first needs it. Every operation is
 * complete when it returns, so fence and quiet do nothing for it.
 *
 * Transport: shared memory and CMA if all PEs are on one node, else UCX for all of them. A thread
 * of UCX's worker receives what peers send while the program computes.
 *
 * Atomics: with UCX the processor of the target PE executes them. Shared memory and CMA cannot
 * update private memory: there the caller takes the target's lock, gets, computes and puts. The
 * lock is in memory that all PEs map and is taken by compare-swap, so the target need not take
 * part, only live.
 */
#define _GNU_SOURCE
#include "asym.h"

#include <asymreg.h>
#ifdef ASYMSHMEM_UCX
#include <asymreg-ucx.h>
#endif
#include <pshmem.h>
#include <shmem.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "asymshmem.h"

struct card {
    uint64_t node;             /* which node the PE is on */
    int apart;                 /* of PE 0: some PE is on another node, or asks for UCX */
    uint64_t blob_bytes, lock; /* address of the lock at its PE */
    char blob[ASYMREG_MAX_BLOB_BYTES];
};

/* A PE after its card has been read. */
struct peer {
    bool known;
    uint64_t lock;
};

static struct asymreg_context *context;
static struct asymreg_worker *worker; /* of the thread that has `mutex` */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct card *card; /* symmetric */
static struct peer *peers;
static bool over_ucx;
static int me, n_pes;

_Noreturn void asym_die(const char *call, const char *what, const char *why)
{
    fprintf(stderr, "PE %d: %s: %s: %s\n", me, call, what, why);
    pshmem_global_exit(1);
    abort();
}

static void check(int rc, const char *call, const struct asymreg_error *err)
{
    if (rc < 0)
        asym_die(call, "asymmetric memory", err->code == rc ? err->text : asymreg_strerror(rc));
}

/* Two PEs with the same number reach each other by shared memory and CMA: the node's name, its boot
 * and the namespace of process ids. */
static uint64_t node_number(void)
{
    char text[HOST_NAME_MAX + 64] = "";
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    struct stat pids = {.st_ino = 0};

    gethostname(text, HOST_NAME_MAX);
    if (fd >= 0 && read(fd, text + HOST_NAME_MAX, 63) < 0)
        text[HOST_NAME_MAX] = '\0';
    if (fd >= 0)
        close(fd);
    if (stat("/proc/self/ns/pid", &pids) == 0)
        h ^= (uint64_t)pids.st_ino;
    for (size_t i = 0; i < sizeof(text); i++) /* FNV-1a */
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* Whether the environment selects UCX where shared memory suffices. */
static bool asks_for_ucx(void)
{
    const char *name = getenv("ASYMSHMEM_TRANSPORT");

    if (name && strcmp(name, "ucx") != 0)
        asym_die("shmem_init", "ASYMSHMEM_TRANSPORT", "can only be ucx");
    return name;
}

/* Shared memory, or UCX: all PEs decide alike. */
static bool choose_ucx(void)
{
    bool asks = asks_for_ucx();

    card->node = node_number();
    card->apart = 0;
    pshmem_barrier_all();
    if (asks || pshmem_uint64_g(&card->node, 0) != card->node)
        pshmem_int_p(&card->apart, 1, 0);
    pshmem_barrier_all();
    return pshmem_int_g(&card->apart, 0) != 0;
}

static void open_over_ucx(void)
{
#ifdef ASYMSHMEM_UCX
    struct asymreg_ucx_opts ucx = {.size = sizeof(ucx), .flags = ASYMREG_UCX_THREAD};
    struct asymreg_opts opts = {.size = sizeof(opts)};
    struct asymreg_error err = {.code = 0};

    check(asymreg_ucx_create(&ucx, &opts.transport, &err), "shmem_init", &err);
    check(asymreg_open(&opts, &context, &err), "shmem_init", &err);
#else
    asym_die("shmem_init", "PEs are on several nodes",
             "this libasymshmem was built without libasymreg-ucx");
#endif
}

static void open_on_node(void)
{
    struct asymreg_error err = {.code = 0};
    void *lock;

    check(asymreg_open(NULL, &context, &err), "shmem_init", &err);
    check(asymreg_segment_alloc(context, sizeof(uint64_t), &lock, &err), "shmem_init", &err);
    check(asymreg_register(context, lock, sizeof(uint64_t), ASYMREG_ALL, 0, NULL, &err),
          "shmem_init", &err);
    card->lock = (uintptr_t)lock;
}

void asym_begin(void)
{
    struct asymreg_error err = {.code = 0};
    ssize_t n;

    me = pshmem_my_pe();
    n_pes = pshmem_n_pes();
    card = pshmem_malloc(sizeof(*card));
    peers = calloc((size_t)n_pes, sizeof(*peers));
    if (!card || !peers)
        asym_die("shmem_init", "asymmetric memory", "out of memory");
    over_ucx = choose_ucx();
    if (over_ucx)
        open_over_ucx();
    else
        open_on_node();
    n = asymreg_export(context, card->blob, sizeof(card->blob), &err);
    check((int)n, "shmem_init", &err);
    collectives_begin();
    card->blob_bytes = (uint64_t)n;
    if (asymreg_worker_create(context, &worker) < 0)
        asym_die("shmem_init", "asymmetric memory", "out of memory");
    pshmem_barrier_all();
}

void asym_end(void)
{
    pshmem_barrier_all(); /* no PE needs the cards now */
    asymreg_worker_destroy(worker);
    asymreg_close(context);
    context = NULL;
    free(peers);
    collectives_end();
    pshmem_free(card);
}

bool is_symmetric(const void *addr, int pe)
{
    return !context || pe < 0 || pe >= n_pes || pshmem_addr_accessible(addr, pe);
}

/* Reads a PE's card. The mutex is held. */
static void meet(const char *call, int pe)
{
    struct asymreg_error err = {.code = 0};
    struct card *theirs;

    if (peers[pe].known)
        return;
    theirs = malloc(sizeof(*theirs));
    if (!theirs)
        asym_die(call, "asymmetric memory", "out of memory");
    pshmem_getmem(theirs, card, sizeof(*theirs), pe);
    check(asymreg_import(context, (uint32_t)pe, theirs->blob, (size_t)theirs->blob_bytes, &err),
          call, &err);
    peers[pe] = (struct peer){.known = true, .lock = theirs->lock};
    free(theirs);
}

/* Ends the job; its last line gives the reason. */
static _Noreturn void refuse(const char *call, int pe, uintptr_t addr, size_t bytes, uint32_t need,
                             int rc)
{
    struct asymreg_error err = {.code = 0};
    char what[96];

    snprintf(what, sizeof(what), "%zu bytes at %#llx of PE %d", bytes, (unsigned long long)addr,
             pe);
    asymreg_resolve(worker, (uint32_t)pe, addr, bytes, need, NULL, &err);
    asym_die(call, what, err.code == rc ? err.text : asymreg_strerror(rc));
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

/* All elements are in flight at once. OpenSHMEM allows strides of 0 and less. */
static void move_strided(const char *call, bool is_put, uintptr_t remote, char *local,
                         ptrdiff_t remote_stride, ptrdiff_t local_stride, size_t n, size_t size,
                         int pe)
{
    struct asymreg_strides strides = {.element_bytes = size,
                                      .n = n,
                                      .here = (size_t)local_stride,
                                      .there = (size_t)remote_stride};
    int rc;

    if (remote_stride <= 0 || local_stride <= 0) {
        for (size_t i = 0; i < n; i++)
            move(call, is_put, remote + i * (uintptr_t)remote_stride * size,
                 local + (ptrdiff_t)i * local_stride * (ptrdiff_t)size, size, pe);
        return;
    }
    rc = is_put ? asymreg_put_strided(worker, (uint32_t)pe, remote, ASYMREG_ANY, local, &strides)
                : asymreg_get_strided(worker, (uint32_t)pe, remote, ASYMREG_ANY, local, &strides);
    if (rc < 0)
        refuse(call, pe, remote, ((n - 1) * (size_t)remote_stride + 1) * size,
               is_put ? ASYMREG_WRITE : ASYMREG_READ, rc);
}

static void transfer(const char *call, bool is_put, uintptr_t remote, char *local,
                     ptrdiff_t remote_stride, ptrdiff_t local_stride, size_t n, size_t size, int pe)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        refuse(call, pe, remote, SIZE_MAX, 0, ASYMREG_EOVERFLOW);
    pthread_mutex_lock(&mutex);
    meet(call, pe);
    if (remote_stride == 1 && local_stride == 1)
        move(call, is_put, remote, local, bytes, pe);
    else
        move_strided(call, is_put, remote, local, remote_stride, local_stride, n, size, pe);
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
        int rc = asymreg_amo(worker, (uint32_t)pe, peers[pe].lock, ASYMREG_ANY,
                             ASYMREG_AMO_COMPARE_SWAP, sizeof(uint64_t), to, from, &was);

        if (rc < 0)
            refuse(call, pe, peers[pe].lock, sizeof(uint64_t), ASYMREG_ATOMIC, rc);
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

/* By the lock of the PE. */
static uint64_t update(const char *call, enum asym_op op, uintptr_t addr, size_t size,
                       uint64_t value, uint64_t compare, int pe)
{
    char bytes[sizeof(uint64_t)];
    uint64_t old;

    lock_set(call, pe, 0, 1);
    move(call, false, addr, bytes, size, pe);
    old = load(bytes, size);
    store(bytes, size, apply(op, old, value, compare));
    if (op != OP_FETCH)
        move(call, true, addr, bytes, size, pe);
    lock_set(call, pe, 1, 0);
    return old;
}

/* By the PE's processor. */
static uint64_t ask(const char *call, enum asym_op op, uintptr_t addr, size_t size, uint64_t value,
                    uint64_t compare, int pe)
{
    static const uint32_t which[] = {
        [OP_FETCH] = ASYMREG_AMO_FETCH,   [OP_SET] = ASYMREG_AMO_SWAP,
        [OP_ADD] = ASYMREG_AMO_FETCH_ADD, [OP_COMPARE_SWAP] = ASYMREG_AMO_COMPARE_SWAP,
        [OP_AND] = ASYMREG_AMO_AND,       [OP_OR] = ASYMREG_AMO_OR,
        [OP_XOR] = ASYMREG_AMO_XOR};
    uint64_t old = 0;
    int rc = asymreg_amo(worker, (uint32_t)pe, addr, ASYMREG_ANY, which[op], (uint32_t)size, value,
                         compare, &old);

    if (rc < 0)
        refuse(call, pe, addr, size, ASYMREG_ATOMIC, rc);
    return old;
}

void asym_atomic(const char *call, enum asym_op op, const void *addr, size_t size,
                 const void *value, const void *compare, void *before, int pe)
{
    uint64_t old;

    pthread_mutex_lock(&mutex);
    meet(call, pe);
    old = (over_ucx ? ask : update)(call, op, (uintptr_t)addr, size, load(value, size),
                                    load(compare, size), pe);
    pthread_mutex_unlock(&mutex);
    if (before)
        store(before, size, old);
}

bool asym_accessible(const void *addr, int pe)
{
    int rc;

    pthread_mutex_lock(&mutex);
    meet("shmem_addr_accessible", pe);
    rc = asymreg_refresh(context, (uint32_t)pe); /* this PE's copy of the table may be stale */
    if (rc >= 0)
        rc = asymreg_resolve(worker, (uint32_t)pe, (uintptr_t)addr, 1, 0, NULL, NULL);
    pthread_mutex_unlock(&mutex);
    return rc == 0;
}

int shmemx_register(void *addr, size_t bytes)
{
    return asymreg_register(context, addr, bytes, ASYMREG_ALL, 0, NULL, NULL);
}

int shmemx_unregister(void *addr)
{
    struct asymreg_region region;
    int rc;

    if (!context)
        return -EINVAL;
    pthread_mutex_lock(&mutex);
    meet("shmemx_unregister", me);
    rc = asymreg_refresh(context, (uint32_t)me);
    if (rc >= 0)
        rc = asymreg_resolve(worker, (uint32_t)me, (uintptr_t)addr, 0, 0, &region, NULL);
    pthread_mutex_unlock(&mutex);
    if (rc == 0 && region.start != (uintptr_t)addr)
        rc = ASYMREG_ENOREGION;
    return rc < 0 ? rc : asymreg_unregister(context, region.id);
}
