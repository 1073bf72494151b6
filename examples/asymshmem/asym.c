/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric memory by libasymreg. Every PE has a card in symmetric memory: its bootstrap blob and
 * the address of its lock. A PE reads another's card when it first needs it. Operations of _nbi
 * calls are in flight until shmem_quiet() and its like wait for their requests.
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

/* Elements of a strided put that begin together. */
#define GROUP_PUTS 64u
/* Operations of _nbi calls in flight; a further one waits for the others. */
#define MAX_NBI 64u

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

/* A region that shmem_ptr() has returned a pointer into. */
struct window {
    struct window *next;
    struct asymreg_bound bound;
    uint64_t start, last; /* addresses at the PE */
    int pe;
};

/* An operation of a _nbi call. */
struct nbi {
    struct asymreg_req req;
    const char *call;
    bool is_put;
    uintptr_t remote;
    char *local;
    size_t bytes;
    int pe;
};

static struct nbi nbis[MAX_NBI]; /* in flight, the oldest first */
static unsigned n_nbis;
static struct asymreg_context *context;
static struct asymreg_worker *worker; /* of the thread that has `mutex` */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct card *card; /* symmetric */
static struct peer *peers;
static struct window *windows;
static bool over_ucx;
static int me, n_pes;

_Noreturn void asym_die(const char *call, const char *what, const char *why)
{
    fprintf(stderr, "PE %d: %s: %s: %s\n", me, call, what, why);
    pshmem_global_exit(1);
    abort();
}

static void check_result(int rc, const char *call, const struct asymreg_error *err)
{
    if (rc < 0)
        asym_die(call, "asymmetric memory",
                 err && err->code == rc ? err->text : asymreg_strerror(rc));
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

    check_result(asymreg_ucx_create(&ucx, &opts.transport, &err), "shmem_init", &err);
    check_result(asymreg_open(&opts, &context, &err), "shmem_init", &err);
#else
    asym_die("shmem_init", "PEs are on several nodes",
             "this libasymshmem was built without libasymreg-ucx");
#endif
}

static void open_on_node(void)
{
    struct asymreg_error err = {.code = 0};
    void *lock;

    check_result(asymreg_open(NULL, &context, &err), "shmem_init", &err);
    check_result(asymreg_segment_alloc(context, sizeof(uint64_t), &lock, &err), "shmem_init", &err);
    check_result(asymreg_register(context, lock, sizeof(uint64_t), ASYMREG_ALL, NULL, NULL, &err),
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
    check_result((int)n, "shmem_init", &err);
    collectives_begin();
    card->blob_bytes = (uint64_t)n;
    if (asymreg_worker_create(context, &worker) < 0)
        asym_die("shmem_init", "asymmetric memory", "out of memory");
    pshmem_barrier_all();
}

static void close_window(struct window **place)
{
    struct window *w = *place;

    *place = w->next;
    asymreg_unbind(&w->bound);
    free(w);
}

void asym_end(void)
{
    if (!context) /* a second shmem_finalize() */
        return;
    asym_quiet("shmem_finalize");
    pshmem_barrier_all(); /* no PE needs the cards now */
    while (windows)
        close_window(&windows);
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
static void import_pe(const char *call, int pe)
{
    struct asymreg_error err = {.code = 0};
    struct card *theirs;

    if (peers[pe].known)
        return;
    theirs = malloc(sizeof(*theirs));
    if (!theirs)
        asym_die(call, "asymmetric memory", "out of memory");
    pshmem_getmem(theirs, card, sizeof(*theirs), pe);
    check_result(
        asymreg_import(context, (uint32_t)pe, theirs->blob, (size_t)theirs->blob_bytes, &err), call,
        &err);
    peers[pe] = (struct peer){.known = true, .lock = theirs->lock};
    free(theirs);
}

/* Ends the job; its last line gives the reason. */
static _Noreturn void die_of_access(const char *call, int pe, uintptr_t addr, size_t bytes,
                                    uint32_t need, int rc)
{
    struct asymreg_error err = {.code = 0};
    char what[96];

    snprintf(what, sizeof(what), "%zu bytes at %#llx of PE %d", bytes, (unsigned long long)addr,
             pe);
    asymreg_resolve(worker, (uint32_t)pe, addr, ASYMREG_ANY, bytes, need, NULL, &err);
    asym_die(call, what, err.code == rc ? err.text : asymreg_strerror(rc));
}

static void copy_block(const char *call, bool is_put, uintptr_t remote, char *local, size_t bytes,
                       int pe)
{
    int rc = is_put ? asymreg_put(worker, (uint32_t)pe, remote, ASYMREG_ANY, local, bytes)
                    : asymreg_get(worker, (uint32_t)pe, remote, ASYMREG_ANY, local, bytes);

    if (rc < 0)
        die_of_access(call, pe, remote, bytes, is_put ? ASYMREG_WRITE : ASYMREG_READ, rc);
}

/* Ends an operation whose request is complete, with this result. */
static void end_nbi(const struct nbi *o, int rc, const struct asymreg_error *err)
{
    if (rc == ASYMREG_ESTALE) /* this PE's copy of the table was old, and is new now */
        copy_block(o->call, o->is_put, o->remote, o->local, o->bytes, o->pe);
    else
        check_result(rc, o->call, err);
}

static void wait_nbis(void)
{
    struct asymreg_error err = {.code = 0};

    for (unsigned i = 0; i < n_nbis; i++)
        end_nbi(&nbis[i], asymreg_req_wait(worker, &nbis[i].req, &err), &err);
    n_nbis = 0;
}

static void begin_nbi(const char *call, bool is_put, uintptr_t remote, char *local, size_t bytes,
                      int pe)
{
    struct asymreg_error err = {.code = 0};
    struct nbi *o = &nbis[n_nbis];
    int rc;

    o->call = call;
    o->is_put = is_put;
    o->remote = remote;
    o->local = local;
    o->bytes = bytes;
    o->pe = pe;
    rc = is_put ? asymreg_put_nb(worker, (uint32_t)pe, remote, ASYMREG_ANY, local, bytes, &o->req)
                : asymreg_get_nb(worker, (uint32_t)pe, remote, ASYMREG_ANY, local, bytes, &o->req);
    if (rc < 0)
        die_of_access(call, pe, remote, bytes, is_put ? ASYMREG_WRITE : ASYMREG_READ, rc);
    rc = asymreg_req_test(worker, &o->req, &err);
    if (rc != ASYMREG_PENDING)
        end_nbi(o, rc, &err);
    else if (++n_nbis == MAX_NBI)
        wait_nbis();
}

/* Begins the puts of all elements. On failure *failed is the address of the one that failed. */
static int begin_puts(uintptr_t remote, char *local, ptrdiff_t remote_stride,
                      ptrdiff_t local_stride, size_t n, size_t size, int pe, uintptr_t *failed)
{
    struct asymreg_transfer group[GROUP_PUTS];
    size_t n_group, n_begun;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i += n_group) {
        n_group = n - i < GROUP_PUTS ? n - i : GROUP_PUTS;
        for (size_t k = 0; k < n_group; k++) {
            size_t at = (i + k) * size;
            group[k].raddr = remote + at * (uintptr_t)remote_stride;
            group[k].id = ASYMREG_ANY;
            group[k].here = (void *)((uintptr_t)local + at * (uintptr_t)local_stride);
            group[k].bytes = size;
        }
        rc = asymreg_put_many(worker, (uint32_t)pe, group, n_group, &n_begun);
        if (rc < 0)
            *failed = group[n_begun].raddr;
    }
    return rc;
}

/* The same for gets. */
static int begin_gets(uintptr_t remote, char *local, ptrdiff_t remote_stride,
                      ptrdiff_t local_stride, size_t n, size_t size, int pe, uintptr_t *failed)
{
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        uintptr_t at = remote + i * size * (uintptr_t)remote_stride;
        void *here = (void *)((uintptr_t)local + i * size * (uintptr_t)local_stride);
        rc = asymreg_get_nb(worker, (uint32_t)pe, at, ASYMREG_ANY, here, size, NULL);
        if (rc < 0)
            *failed = at;
    }
    return rc;
}

static void copy_strided(const char *call, bool is_put, uintptr_t remote, char *local,
                         ptrdiff_t remote_stride, ptrdiff_t local_stride, size_t n, size_t size,
                         int pe)
{
    uintptr_t failed = remote;
    int rc, flushed, tries = 0;

    do {
        rc = (is_put ? begin_puts : begin_gets)(remote, local, remote_stride, local_stride, n, size,
                                                pe, &failed);
        flushed = asymreg_flush(worker, (uint32_t)pe);
        if (rc == 0)
            rc = flushed;
        /* The flush has refreshed an old copy of the table. */
    } while (rc == ASYMREG_ESTALE && ++tries < 2);
    if (rc < 0)
        die_of_access(call, pe, failed, size, is_put ? ASYMREG_WRITE : ASYMREG_READ, rc);
}

static void copy_elements(const char *call, bool is_put, uintptr_t remote, char *local,
                          ptrdiff_t remote_stride, ptrdiff_t local_stride, size_t n, size_t size,
                          int pe)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        die_of_access(call, pe, remote, SIZE_MAX, 0, ASYMREG_EOVERFLOW);
    pthread_mutex_lock(&mutex);
    import_pe(call, pe);
    if (remote_stride == 1 && local_stride == 1)
        copy_block(call, is_put, remote, local, bytes, pe);
    else
        copy_strided(call, is_put, remote, local, remote_stride, local_stride, n, size, pe);
    pthread_mutex_unlock(&mutex);
}

void asym_put(const char *call, void *to, const void *from, ptrdiff_t to_stride,
              ptrdiff_t from_stride, size_t n, size_t size, int pe)
{
    copy_elements(call, true, (uintptr_t)to, (char *)(uintptr_t)from, to_stride, from_stride, n,
                  size, pe);
}

void asym_nbi(const char *call, bool is_put, const void *remote, const void *local, size_t n,
              size_t size, int pe)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        die_of_access(call, pe, (uintptr_t)remote, SIZE_MAX, 0, ASYMREG_EOVERFLOW);
    pthread_mutex_lock(&mutex);
    import_pe(call, pe);
    begin_nbi(call, is_put, (uintptr_t)remote, (char *)(uintptr_t)local, bytes, pe);
    pthread_mutex_unlock(&mutex);
}

void asym_quiet(const char *call)
{
    if (!context)
        return;
    pthread_mutex_lock(&mutex);
    wait_nbis();
    check_result(asymreg_flush(worker, ASYMREG_ALL_PEERS), call, NULL);
    pthread_mutex_unlock(&mutex);
}

void asym_get(const char *call, void *to, const void *from, ptrdiff_t to_stride,
              ptrdiff_t from_stride, size_t n, size_t size, int pe)
{
    copy_elements(call, false, (uintptr_t)from, to, from_stride, to_stride, n, size, pe);
}

static void lock_set(const char *call, int pe, uint64_t from, uint64_t to)
{
    uint64_t was = from;

    for (;;) {
        int rc = asymreg_compare_swap64(worker, (uint32_t)pe, peers[pe].lock, from, to, &was);

        if (rc < 0)
            die_of_access(call, pe, peers[pe].lock, sizeof(uint64_t), ASYMREG_ATOMIC, rc);
        if (was == from)
            return;
        sched_yield();
    }
}

static uint64_t apply_op(enum asym_op op, uint64_t old, uint64_t value, uint64_t compare)
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
static uint64_t load_operand(const void *p, size_t size)
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

static void store_operand(void *p, size_t size, uint64_t value)
{
    uint32_t half = (uint32_t)value;

    if (size == sizeof(half))
        memcpy(p, &half, sizeof(half));
    else
        memcpy(p, &value, sizeof(value));
}

/* By the lock of the PE. */
static uint64_t update_under_lock(const char *call, enum asym_op op, uintptr_t addr, size_t size,
                                  uint64_t value, uint64_t compare, int pe)
{
    char bytes[sizeof(uint64_t)];
    uint64_t old;

    lock_set(call, pe, 0, 1);
    copy_block(call, false, addr, bytes, size, pe);
    old = load_operand(bytes, size);
    store_operand(bytes, size, apply_op(op, old, value, compare));
    if (op != OP_FETCH)
        copy_block(call, true, addr, bytes, size, pe);
    check_result(asymreg_fence(worker, (uint32_t)pe), call, NULL); /* before the lock is free */
    lock_set(call, pe, 1, 0);
    return old;
}

/* By the PE's processor. */
static uint64_t update_at_target(const char *call, enum asym_op op, uintptr_t addr, size_t size,
                                 uint64_t value, uint64_t compare, int pe)
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
        die_of_access(call, pe, addr, size, ASYMREG_ATOMIC, rc);
    return old;
}

void asym_atomic(const char *call, enum asym_op op, const void *addr, size_t size,
                 const void *value, const void *compare, void *before, int pe)
{
    uint64_t old;

    pthread_mutex_lock(&mutex);
    import_pe(call, pe);
    old = (over_ucx ? update_at_target : update_under_lock)(call, op, (uintptr_t)addr, size,
                                                            load_operand(value, size),
                                                            load_operand(compare, size), pe);
    pthread_mutex_unlock(&mutex);
    if (before)
        store_operand(before, size, old);
}

bool asym_accessible(const void *addr, int pe)
{
    int rc;

    pthread_mutex_lock(&mutex);
    import_pe("shmem_addr_accessible", pe);
    rc = asymreg_refresh(context, (uint32_t)pe); /* this PE's copy of the table may be stale */
    if (rc >= 0)
        rc = asymreg_resolve(worker, (uint32_t)pe, (uintptr_t)addr, ASYMREG_ANY, 1, 0, NULL, NULL);
    pthread_mutex_unlock(&mutex);
    return rc == 0;
}

/* The region must be mapped here: a segment of shared memory. */
static struct window *open_window(uint64_t addr, int pe)
{
    struct asymreg_region region;
    struct window *w;
    int rc = asymreg_refresh(context, (uint32_t)pe); /* this PE's copy of the table may be stale */

    if (rc >= 0)
        rc = asymreg_resolve(worker, (uint32_t)pe, addr, ASYMREG_ANY, 1, 0, &region, NULL);
    w = rc == 0 ? malloc(sizeof(*w)) : NULL;
    if (!w)
        return NULL;
    *w = (struct window){.next = windows, .start = region.start, .last = region.last, .pe = pe};
    windows = w;
    rc = asymreg_bind(worker, (uint32_t)pe, region.start, region.id, region.last - region.start + 1,
                      &w->bound);
    if (rc == 0 && asymreg_bound_ptr(&w->bound))
        return w;
    close_window(&windows);
    return NULL;
}

static struct window *find_window(uint64_t addr, int pe)
{
    for (struct window **place = &windows; *place; place = &(*place)->next) {
        struct window *w = *place;

        if (w->pe == pe && addr >= w->start && addr <= w->last &&
            asymreg_bound_check(&w->bound) == 0)
            return w;
    }
    return open_window(addr, pe);
}

void *asym_pointer(const void *addr, int pe)
{
    struct window *w;
    char *at = NULL;

    if (pe == me)
        return asym_accessible(addr, pe) ? (void *)(uintptr_t)addr : NULL;
    pthread_mutex_lock(&mutex);
    import_pe("shmem_ptr", pe);
    w = find_window((uintptr_t)addr, pe);
    if (w)
        at = (char *)asymreg_bound_ptr(&w->bound) + ((uintptr_t)addr - w->start);
    pthread_mutex_unlock(&mutex);
    return at;
}

int shmemx_register(void *addr, size_t bytes)
{
    return asymreg_register(context, addr, bytes, ASYMREG_ALL, NULL, NULL, NULL);
}

int shmemx_unregister(void *addr)
{
    struct asymreg_region region;
    int rc;

    if (!context)
        return -EINVAL;
    pthread_mutex_lock(&mutex);
    import_pe("shmemx_unregister", me);
    rc = asymreg_refresh(context, (uint32_t)me);
    if (rc >= 0)
        rc = asymreg_resolve(worker, (uint32_t)me, (uintptr_t)addr, ASYMREG_ANY, 0, 0, &region,
                             NULL);
    pthread_mutex_unlock(&mutex);
    if (rc == 0 && region.start != (uintptr_t)addr)
        rc = ASYMREG_ENOREGION;
    return rc < 0 ? rc : asymreg_unregister(context, region.id);
}

void *shmemx_alloc(size_t bytes)
{
    void *memory;

    if (!context || asymreg_segment_alloc(context, bytes, &memory, NULL) < 0)
        return NULL;
    if (shmemx_register(memory, bytes) == 0)
        return memory;
    asymreg_segment_remove(context, memory);
    return NULL;
}

int shmemx_free(void *addr)
{
    /* Refused as long as the memory is registered, and for memory of another origin. */
    int rc = context ? asymreg_segment_remove(context, addr) : -EINVAL;

    if (rc != ASYMREG_EBUSY)
        return rc;
    rc = shmemx_unregister(addr);
    return rc < 0 ? rc : asymreg_segment_remove(context, addr);
}
