/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of finding the region in an operation: bench_asym_rma [--quick] [--seed N]
 * [MPI-PROGRAM...]
 *
 * A server process registers 64-byte regions; this one puts and gets 8 bytes at random ones. Two
 * peers take turns with it, some thousand operations each: "one handle" runs the same operations
 * over the same transport with one handle for all that memory and no search, on the same physical
 * memory, mapped twice, in the same order; "raw", on shared memory alone, is plain loads and
 * stores, the cost of the memory itself. Cases: `mix` (half puts, half gets, as in the paper's
 * Figure 1) and `put_flush`, where a put names an address only; `put_flush_id`, where it names the
 * registration too, for a peer that knows both; `put_flush_repeated`, 16 in a row to a region. Each
 * has the transport's name before it; metrics: cpu_ns_per_op (this thread's processor time, median
 * of the turns) and, for "asymreg", cpu_ratio_to_one_handle; over UCX, where the target's processor
 * takes part, also wall_ns_per_op and wall_ratio_to_one_handle, which mean nothing on a busy
 * machine.
 *
 * The arguments are command lines of mpi_dynwin under each MPI, one argument each, such as
 * "mpiexec.hydra -n 2 FOLDER/mpi_dynwin_mpich NAME": their figures (case shm_put_flush) are taken
 * in the same run. */
#define _GNU_SOURCE
#include "../../asymreg/register.h"
#include "../bench.h"
#include "two_processes.h"

#include <asymreg.h>
#ifdef HAVE_UCX
#include <asymreg-ucx.h>
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>

#define REGION    64u
#define MAX_TURNS 41
#define MIN_TURNS 3
/* for the turns of one case; all fit on an idle machine */
#define ENOUGH_NS UINT64_C(2500000000)

struct kind {
    const char *name;
    const char *tls; /* UCX_TLS, or NULL */
    bool wall, helped;
    uint32_t local_flags;
};

static const struct kind kinds[] = {
    {"shm", NULL, false, false, ASYMREG_LOCAL_SHM},
    {"cma", NULL, false, false, ASYMREG_LOCAL_SHM | ASYMREG_LOCAL_CMA},
#ifdef HAVE_UCX
    {"ucx_shm", "posix,cma", true, true, 0},
    {"ucx_tcp", "tcp", true, true, 0},
#endif
};

struct message {
    uint64_t one, many, bytes;
    asymreg_id *ids; /* of the regions, in memory that both have */
    size_t address_bytes, handle_bytes;
    ssize_t blob_bytes;
    uint64_t handle_addr, handle_len;
    char address[ASYMREG_MAX_ADDRESS_BYTES], handle[ASYMREG_MAX_HANDLE_BYTES],
        blob[ASYMREG_MAX_BLOB_BYTES];
};

static struct asymreg_context *open_context(const struct kind *k, uint32_t n,
                                            struct asymreg_transport **transport)
{
    struct asymreg_opts opts = {.size = sizeof(opts), .max_regions = n + 2, .max_segments = 8};
    struct asymreg_local_opts local = {.size = sizeof(local), .flags = k->local_flags};
    struct asymreg_context *ctx;

    if (k->tls) {
#ifdef HAVE_UCX
        setenv("UCX_TLS", k->tls, 1);
        setenv("UCX_NET_DEVICES", strcmp(k->tls, "tcp") == 0 ? "lo" : "all", 1);
        DIE_IF(asymreg_ucx_create(NULL, &opts.transport, NULL) < 0);
#endif
    } else {
        DIE_IF(asymreg_local_create(&local, &opts.transport, NULL) < 0);
    }
    *transport = opts.transport;
    DIE_IF(asymreg_open(&opts, &ctx, NULL) < 0);
    return ctx;
}

/* Registers, sends the addresses, and waits for the end of the stream. */
struct measured {
    struct bench *b;
    const struct kind *k;
    uint32_t n;
    asymreg_id *ids; /* shared by both */
};

static void serve(const void *measured, int sock)
{
    const struct measured *what = measured;
    const struct kind *k = what->k;
    uint32_t n = what->n;
    asymreg_id *ids = what->ids;
    static struct message m;
    struct asymreg_transport *t;
    struct asymreg_context *ctx = open_context(k, n, &t);
    struct asymreg_worker *worker;
    struct asymreg_mem *mem;
    struct asymreg_mem_desc desc = {.size = sizeof(desc), .prot = ASYMREG_RW, .fd = -1};
    bool cma = strcmp(k->name, "cma") == 0;
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int fd = memfd_create("bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    char *one, *many, end;
    asymreg_id whole;

    m.bytes = ((uint64_t)n * REGION + 4095) / 4096 * 4096;
    DIE_IF(fd < 0 || ftruncate(fd, (off_t)m.bytes) < 0 ||
           fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0);
    one = mmap(NULL, m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    many = mmap(NULL, m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    DIE_IF(one == MAP_FAILED || many == MAP_FAILED);
    if (!cma)
        DIE_IF(asymreg_register(ctx, many, m.bytes, ASYMREG_RW, SEGMENT_OF(0, fd, 0), NULL, NULL) <
               0);
    for (uint32_t i = 0; i < n; i++)
        DIE_IF(asymreg_register(ctx, many + (size_t)i * REGION, REGION, ASYMREG_RW, NULL, &ids[i],
                                NULL) < 0);
    DIE_IF(asymreg_worker_create(ctx, &worker) < 0);
    desc.addr = cma ? 0 : (uintptr_t)one;
    desc.bytes = cma ? UINT64_MAX : m.bytes;
    desc.prot = cma ? ASYMREG_ALL : ASYMREG_RW;
    desc.fd = cma ? -1 : fd;
    DIE_IF(t->ops->mem_reg(t, &desc, &mem, m.handle, &m.handle_bytes, NULL) < 0);
    if (k->helped) /* whose target looks for the region of each put */
        DIE_IF(asymreg_register(ctx, one, m.bytes, ASYMREG_RW, NULL, &whole, NULL) < 0);
    DIE_IF(t->ops->address(t, m.address, &m.address_bytes, NULL) < 0);
    m.handle_addr = desc.addr;
    m.handle_len = desc.bytes;
    m.blob_bytes = asymreg_export(ctx, m.blob, sizeof(m.blob), NULL);
    m.one = (uintptr_t)one;
    m.many = (uintptr_t)many;
    m.ids = ids;
    DIE_IF(m.blob_bytes < 0 || send(sock, &m, sizeof(m), 0) != (ssize_t)sizeof(m));
    while (k->helped && poll(&p, 1, 0) == 0) {
        for (int i = 0; i < 256; i++)
            asymreg_progress(worker);
        sched_yield();
    }
    if (read(sock, &end, 1) < 0)
        exit(1);
}

struct client {
    struct asymreg_worker *worker;
    struct asymreg_transport *t;
    struct asymreg_ep *ep;
    struct asymreg_rkey *key;
    char *raw; /* the memory itself, or NULL */
    const struct message *m;
    uint32_t n;
    uint32_t run; /* operations in a row on the same region */
    bool flush_each, name_ids;
};

enum who { ASYMREG, ONE_HANDLE, RAW };

static void wait_op(struct client *c, int rc, struct asymreg_op *op)
{
    while (rc == ASYMREG_PENDING &&
           __atomic_load_n(&op->status, __ATOMIC_ACQUIRE) == ASYMREG_PENDING) {
        if (c->t->ops->progress(c->t) == 0)
            sched_yield(); /* as the library does */
    }
    DIE_IF(rc < 0 || op->status < 0);
}

static void flush_one(struct client *c)
{
    int rc;

    while ((rc = c->t->ops->flush(c->t, c->ep)) == ASYMREG_PENDING) {
        if (c->t->ops->progress(c->t) == 0)
            sched_yield();
    }
    DIE_IF(rc < 0);
}

static void by_one_handle(struct client *c, uint64_t addr, bool put, uint64_t *value)
{
    struct asymreg_op op = {0};

    if (put)
        wait_op(c, c->t->ops->put(c->t, c->ep, c->key, addr, value, 8, NULL, &op), &op);
    else
        wait_op(c, c->t->ops->get(c->t, c->ep, c->key, addr, value, 8, NULL, &op), &op);
    if (c->flush_each)
        flush_one(c);
}

static void by_asymreg(struct client *c, uint64_t addr, asymreg_id id, bool put, uint64_t *value)
{
    if (put)
        DIE_IF(asymreg_put(c->worker, 0, addr, id, value, 8) < 0);
    else
        DIE_IF(asymreg_get(c->worker, 0, addr, id, value, 8) < 0);
    if (c->flush_each)
        DIE_IF(asymreg_flush(c->worker, 0) < 0);
}

enum { CPU, WALL };

/* One turn of `ops` operations: nanoseconds for each, by both clocks. */
static void turn(struct bench *b, struct client *c, enum who who, uint32_t ops, double ns[2])
{
    static uint64_t where[8192];
    static asymreg_id ids[8192];
    uint64_t cpu, wall, value = 1;
    uint32_t region = 0;

    for (uint32_t i = 0; i < ops; i++) {
        if (i % c->run == 0)
            region = bench_random(b, c->n);
        where[i] = (uint64_t)region * REGION << 1 | (c->flush_each || bench_random(b, 2));
        ids[i] = c->name_ids ? c->m->ids[region] : ASYMREG_ANY;
    }
    cpu = bench_cpu_ns();
    wall = bench_ns(CLOCK_MONOTONIC);
    if (who == RAW) {
        for (uint32_t i = 0; i < ops; i++) {
            uint64_t *at = (uint64_t *)(void *)(c->raw + (where[i] >> 1));
            if (where[i] & 1)
                __atomic_store_n(at, value, __ATOMIC_RELEASE);
            else
                value = __atomic_load_n(at, __ATOMIC_RELAXED);
        }
    } else if (who == ASYMREG) {
        for (uint32_t i = 0; i < ops; i++)
            by_asymreg(c, c->m->many + (where[i] >> 1), ids[i], where[i] & 1, &value);
    } else {
        for (uint32_t i = 0; i < ops; i++)
            by_one_handle(c, c->m->one + (where[i] >> 1), where[i] & 1, &value);
    }
    ns[WALL] = (double)(bench_ns(CLOCK_MONOTONIC) - wall) / ops;
    ns[CPU] = (double)(bench_cpu_ns() - cpu) / ops;
}

static void compare(struct bench *b, const struct kind *k, struct client *c, const char *what)
{
    static const char *const clocks[] = {"cpu", "wall"};
    double asym[2][MAX_TURNS], one[2][MAX_TURNS], raw[MAX_TURNS], ratio[2][MAX_TURNS], ns[2];
    uint32_t ops = b->quick ? 100 : k->wall ? 300 : 8000;
    int turns = b->quick ? MIN_TURNS : MAX_TURNS;
    uint64_t begin = bench_ns(CLOCK_MONOTONIC);
    char name[32], metric[32];

    snprintf(name, sizeof(name), "%s_%s", k->name, what);
    turn(b, c, ASYMREG, ops, ns); /* fetches the table */
    turn(b, c, ONE_HANDLE, ops, ns);
    for (int i = 0; i < turns; i++) {
        turn(b, c, ASYMREG, ops, ns);
        asym[CPU][i] = ns[CPU];
        asym[WALL][i] = ns[WALL];
        turn(b, c, ONE_HANDLE, ops, ns);
        one[CPU][i] = ns[CPU];
        one[WALL][i] = ns[WALL];
        if (c->raw) {
            turn(b, c, RAW, ops, ns);
            raw[i] = ns[CPU];
        }
        for (int clock = CPU; clock <= WALL; clock++)
            ratio[clock][i] = asym[clock][i] / one[clock][i];
        if (i + 1 >= MIN_TURNS && bench_ns(CLOCK_MONOTONIC) - begin > ENOUGH_NS)
            turns = i + 1;
    }
    for (int clock = CPU; clock <= (k->wall ? WALL : CPU); clock++) {
        snprintf(metric, sizeof(metric), "%s_ns_per_op", clocks[clock]);
        bench_figure(b, name, c->n, "asymreg", metric, bench_median(asym[clock], (size_t)turns),
                     "ns");
        bench_figure(b, name, c->n, "one handle", metric, bench_median(one[clock], (size_t)turns),
                     "ns");
        snprintf(metric, sizeof(metric), "%s_ratio_to_one_handle", clocks[clock]);
        bench_figure(b, name, c->n, "asymreg", metric, bench_median(ratio[clock], (size_t)turns),
                     "1");
    }
    if (c->raw)
        bench_figure(b, name, c->n, "raw", "cpu_ns_per_op", bench_median(raw, (size_t)turns), "ns");
    fflush(stdout);
}

static void client(const void *measured, int sock)
{
    const struct measured *what = measured;
    const struct kind *k = what->k;
    struct bench *b = what->b;
    static struct message m;
    struct client c = {.m = &m, .n = what->n, .run = 1};
    struct asymreg_context *ctx = open_context(k, 1, &c.t);

    DIE_IF(recv(sock, &m, sizeof(m), MSG_WAITALL) != (ssize_t)sizeof(m));
    DIE_IF(asymreg_import(ctx, 0, m.blob, (size_t)m.blob_bytes, NULL) < 0 ||
           asymreg_worker_create(ctx, &c.worker) < 0);
    DIE_IF(c.t->ops->connect(c.t, m.address, m.address_bytes, &c.ep, NULL) < 0);
    DIE_IF(c.t->ops->rkey_unpack(c.t, c.ep, m.handle, m.handle_bytes, m.handle_addr, m.handle_len,
                                 &c.key, NULL) < 0);
    const void *raw;
    if (strcmp(k->name, "shm") == 0 &&
        c.t->ops->map(c.t, c.ep, c.key, m.handle_addr, m.handle_len, 1, &raw) == 0)
        c.raw = (char *)(uintptr_t)raw;
    compare(b, k, &c, "mix");
    c.flush_each = true;
    compare(b, k, &c, "put_flush");
    c.name_ids = true;
    compare(b, k, &c, "put_flush_id");
    c.name_ids = false;
    c.run = 16;
    compare(b, k, &c, "put_flush_repeated");
}

static void measure(struct bench *b, const struct kind *k, uint32_t n)
{
    size_t bytes = n * sizeof(asymreg_id);
    struct measured what = {b, k, n, NULL};

    what.ids = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    DIE_IF(what.ids == MAP_FAILED);
    two_processes(serve, client, &what);
    munmap(what.ids, bytes);
    bench_random(b, 2); /* other addresses next time */
}

/* Runs a command that prints figures, and passes them on. Returns their number: 0 if the command
 * cannot run here, or not with this many regions. */
static int run_peer(const char *command)
{
    char line[512];
    int figures = 0;
    FILE *f;

    fflush(stdout);
    f = popen(command, "r");
    if (!f)
        return 0;
    while (fgets(line, sizeof(line), f)) {
        if (line[0] == '{') {
            fputs(line, stdout);
            figures++;
        }
    }
    if (pclose(f) != 0 && figures == 0)
        fprintf(stderr, "bench_asym_rma: left out, as it failed: %s\n", command);
    fflush(stdout);
    return figures;
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {1, 10, 100, 1000, 10000, 100000, 1000000};
    const char *peers[16];
    int n_peers = 0, kept = 1;
    struct bench b;

    quiet_ucx(argv);
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' && strchr(argv[i], '/') && n_peers < 16)
            peers[n_peers++] = argv[i];
        else
            argv[kept++] = argv[i];
    }
    bench_init(&b, "asym_rma", kept, argv);
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        if (b.quick && sizes[i] != 1 && sizes[i] != 1000)
            continue;
        for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
            measure(&b, &kinds[k], sizes[i]);
        for (int p = 0; p < n_peers; p++) {
            char command[1024];

            snprintf(command, sizeof(command), "%s %u %u 2>&1", peers[p] ? peers[p] : "", sizes[i],
                     b.quick ? 1000u : 20000u);
            if (peers[p] && (!b.quick || sizes[i] == 1) && run_peer(command) == 0)
                peers[p] = NULL; /* nor with more */
        }
    }
    return 0;
}
