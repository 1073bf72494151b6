/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The paper's Tables IV and V: cache misses, and message rate, of 8-byte puts in rank order through
 * a small stack: the rank's address is looked up, a descriptor of 64 bytes is written into a send
 * queue of 256.
 *
 *     bench_rankmap_stack [--quick] [--seed N]
 *
 * Who: VC-VCRT (a table of pointers to VCs of 480 bytes), AV-Rankmap (the paper's switch over the
 * models, entries of 12 bytes), ours (rankmap_at_sized(), entries of 8 bytes). Case: the paper's
 * five communicators, of n processes in a world of 2n; lut is shuffled, since ours stores a
 * reversed one as a stride.
 *
 * Misses are callgrind's, per 1,000 puts: `L1D` in 32 KiB, `L2` in 256 KiB, `L3` in 20 MiB, as the
 * paper's machine has them. The caches are warm: the same number of puts comes before.
 *
 * Rates are million puts a second: `bypassed`, no process takes messages from the queue, as in the
 * paper's network of infinite speed; `two processes`, another process takes each message from the
 * queue in shared memory, by the clock on the wall.
 */
#include "../bench.h"

#include <rankmap.h>

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "icount.h"
#include "lookup_worlds.h"

#define QUEUE          256u
#define N_SHAPES_SHOWN 5u
#define N_WHO          3u
#define MAX_PUTS       65536u /* of one warm and one counted walk under callgrind */

struct message {
    uint64_t address, value, sequence;
    uint32_t rank, bytes, kind, flags;
    uint64_t rest[3];
};

/* One sends, one receives. */
struct queue {
    _Alignas(64) _Atomic uint64_t sent;
    _Alignas(64) _Atomic uint64_t received;
    _Alignas(64) struct message slot[QUEUE];
};

struct stack {
    struct queue *queue;
    uint64_t sent, room; /* messages that fit before `received` is read again */
    uint32_t n_ranks;
};

static const struct {
    const char *name;
    enum shape shape;
} shapes[N_SHAPES_SHOWN] = {{"direct", SHAPE_DIRECT},
                            {"offset", SHAPE_OFFSET},
                            {"stride", SHAPE_STRIDE},
                            {"lut", SHAPE_LUT},
                            {"mlut", SHAPE_MLUT}};
static const char *const who_label[N_WHO] = {"VC-VCRT", "AV-Rankmap", "ours"};

static struct stack stack;
static struct vcrt_comm vcrt;
static struct sw_comm sw;
static _Alignas(64) struct rankmap_lookup ours;

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_rankmap_stack: %s\n", what);
        exit(1);
    }
}

static inline uint64_t ours_address(const struct rankmap_lookup *c, uint32_t rank)
{
    return *(const uint64_t *)(uintptr_t)rankmap_at_sized(c, rank, sizeof(uint64_t));
}

/* ---- The stack ---- */

static void wait_for_room(void)
{
    for (;;) {
        stack.room = QUEUE - (stack.sent -
                              atomic_load_explicit(&stack.queue->received, memory_order_acquire));
        if (stack.room > 0)
            return;
        sched_yield();
    }
}

/* The work behind the lookup: the descriptor, and the doorbell. */
static inline void post(uint64_t address, uint32_t rank, uint64_t value)
{
    struct message *m = &stack.queue->slot[stack.sent % QUEUE];

    if (stack.room == 0)
        wait_for_room();
    m->address = address;
    m->value = value;
    m->sequence = stack.sent;
    m->rank = rank;
    m->bytes = sizeof(value);
    m->kind = 1;
    m->flags = 0;
    stack.room--;
    atomic_store_explicit(&stack.queue->sent, ++stack.sent, memory_order_release);
}

/* `puts` puts, round robin over the ranks. Warm-up puts have another name than counted ones. */
#define WALK(kind, name, comm, address_of)                                                         \
    void kind##__##name(uint32_t puts);                                                            \
    ICOUNT_FUNCTION void kind##__##name(uint32_t puts)                                             \
    {                                                                                              \
        for (uint32_t i = 0, rank = 0; i < puts; i++) {                                            \
            if (rank < stack.n_ranks)                                                              \
                post(address_of(&comm, rank), rank, i);                                            \
            rank = rank + 1 < stack.n_ranks ? rank + 1 : 0;                                        \
        }                                                                                          \
    }
#define SHAPE_WALKS(shape)                                                                         \
    WALK(miss, 0_##shape, vcrt, vcrt_address)                                                      \
    WALK(miss, 1_##shape, sw, sw_address)                                                          \
    WALK(miss, 2_##shape, ours, ours_address)

WALK(walk, 0, vcrt, vcrt_address)
WALK(walk, 1, sw, sw_address)
WALK(walk, 2, ours, ours_address)
SHAPE_WALKS(0)
SHAPE_WALKS(1)
SHAPE_WALKS(2)
SHAPE_WALKS(3)
SHAPE_WALKS(4)

static void (*const walks[N_WHO])(uint32_t puts) = {walk__0, walk__1, walk__2};
static void (*const misses[N_SHAPES_SHOWN][N_WHO])(uint32_t puts) = {
    {miss__0_0, miss__1_0, miss__2_0},
    {miss__0_1, miss__1_1, miss__2_1},
    {miss__0_2, miss__1_2, miss__2_2},
    {miss__0_3, miss__1_3, miss__2_3},
    {miss__0_4, miss__1_4, miss__2_4}};

/* A communicator in all three libraries. */
struct communicator {
    struct peers peers;
    struct rankmap *map;
    enum shape shape;
};

static void open_communicator(struct communicator *c, enum shape shape, uint32_t n)
{
    struct rankmap_opts opts = {.size = sizeof(opts), .flags = RANKMAP_FAST};
    uint32_t *ids = malloc(n * sizeof(*ids));

    check(ids != NULL, "out of memory");
    c->shape = shape;
    check(shape_ids(shape, n, 1, ids) == n, "shape_ids()");
    world_fill(ids, n, 2 * n);
    make_peers(&c->peers, shape, ids, n);
    check(rankmap_from_ids(ids, sizeof(*ids), n, &opts, &c->map, NULL) == 0 &&
              rankmap_lookup_init(&ours, c->map, (uintptr_t)world_entries,
                                  sizeof(*world_entries)) == 0,
          "rankmap_from_ids()");
    vcrt = c->peers.vcrt;
    sw = c->peers.sw;
    for (uint32_t r = 0; r < n; r++)
        check(vcrt_address(&vcrt, r) == world_address(ids[r]) &&
                  sw_address(&sw, r) == world_address(ids[r]) &&
                  ours_address(&ours, r) == world_address(ids[r]),
              "not everyone finds the same addresses");
    stack.n_ranks = n;
    free(ids);
}

static void close_communicator(struct communicator *c)
{
    free_peers(&c->peers, c->shape);
    rankmap_unref(c->map);
}

static void open_stack(uint64_t room)
{
    struct queue *q =
        mmap(NULL, sizeof(*q), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    check(q != MAP_FAILED, "mmap()");
    stack = (struct stack){.queue = q, .room = room, .n_ranks = stack.n_ranks};
}

static void close_stack(void)
{
    munmap(stack.queue, sizeof(*stack.queue));
}

/* ---- Table IV ---- */

static uint32_t puts_of(uint32_t n)
{
    return n < MAX_PUTS ? MAX_PUTS : 2 * n;
}

/* The program under callgrind: `--misses=N`. */
static int misses_main(uint32_t n)
{
    uint32_t puts = puts_of(n);

    world_make(2 * n);
    open_stack(UINT64_MAX);
    for (unsigned s = 0; s < N_SHAPES_SHOWN; s++) {
        struct communicator c;

        open_communicator(&c, shapes[s].shape, n);
        for (unsigned w = 0; w < N_WHO; w++) {
            walks[w](puts);
            misses[s][w](puts);
        }
        close_communicator(&c);
    }
    close_stack();
    return 0;
}

struct miss_counts {
    struct icount seen[N_SHAPES_SHOWN][N_WHO];
};

static void miss_found(const char *function, const struct icount *seen, void *context)
{
    struct miss_counts *counts = context;
    unsigned w, s;

    if (sscanf(function, "miss__%u_%u", &w, &s) == 2 && w < N_WHO && s < N_SHAPES_SHOWN)
        counts->seen[s][w] = *seen;
}

static void run_misses(const struct bench *b, uint32_t n, const char *last_cache, const char *level)
{
    static struct miss_counts counts;
    char argument[32];

    snprintf(argument, sizeof(argument), "--misses=%u", (unsigned)n);
    if (icount_run(argument, "miss__", last_cache, miss_found, &counts) != 0)
        return;
    for (unsigned s = 0; s < N_SHAPES_SHOWN; s++)
        for (unsigned w = 0; w < N_WHO; w++) {
            const struct icount *c = &counts.seen[s][w];
            double per = 1000.0 / puts_of(n);

            check(c->instructions > puts_of(n), "callgrind saw all walks");
            if (strcmp(level, "L2") == 0)
                bench_figure(b, shapes[s].name, n, who_label[w], "L1D_misses",
                             (double)c->d1_misses * per, "misses/1000 puts");
            bench_figure(b, shapes[s].name, n, who_label[w],
                         strcmp(level, "L2") == 0 ? "L2_misses" : "L3_misses",
                         (double)c->ll_misses * per, "misses/1000 puts");
        }
}

/* ---- Table V ---- */

static double bypassed(unsigned w, uint32_t puts)
{
    uint64_t before;
    double ns;

    open_stack(UINT64_MAX);
    walks[w](puts / 8 + 1);
    before = bench_cpu_ns();
    walks[w](puts);
    ns = (double)(bench_cpu_ns() - before);
    close_stack();
    return puts * 1e3 / ns;
}

/* Takes messages until all have come; each must be the next. */
static void receive(uint64_t puts)
{
    struct queue *q = stack.queue;

    for (uint64_t next = 0; next < puts;) {
        uint64_t sent = atomic_load_explicit(&q->sent, memory_order_acquire);

        if (next == sent)
            sched_yield();
        for (; next < sent; next++)
            if (q->slot[next % QUEUE].sequence != next || q->slot[next % QUEUE].address == 0)
                _exit(1);
        atomic_store_explicit(&q->received, next, memory_order_release);
    }
    _exit(0);
}

static double two_processes(unsigned w, uint32_t puts)
{
    uint64_t before;
    double ns;
    int status;
    pid_t pid;

    open_stack(QUEUE);
    pid = fork();
    check(pid >= 0, "fork()");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        receive(puts);
    }
    before = bench_ns(CLOCK_MONOTONIC);
    walks[w](puts);
    check(stack.sent == puts, "all messages are sent");
    check(waitpid(pid, &status, 0) == pid && status == 0, "the receiver got other messages");
    ns = (double)(bench_ns(CLOCK_MONOTONIC) - before);
    close_stack();
    return puts * 1e3 / ns;
}

static void run_rates(const struct bench *b, uint32_t n)
{
    uint32_t puts = b->quick ? 20000 : 1000000;
    unsigned trials = b->quick ? 1 : 5;

    for (unsigned s = 0; s < N_SHAPES_SHOWN; s++) {
        double rate[2][N_WHO][BENCH_MAX_TRIALS];
        struct communicator c;

        open_communicator(&c, shapes[s].shape, n);
        for (unsigned t = 0; t < trials; t++)
            for (unsigned w = 0; w < N_WHO; w++) {
                rate[0][w][t] = bypassed(w, puts);
                rate[1][w][t] = two_processes(w, puts / 4);
            }
        close_communicator(&c);
        for (unsigned w = 0; w < N_WHO; w++)
            for (unsigned k = 0; k < 2; k++) {
                qsort(rate[k][w], trials, sizeof(double), bench_compare);
                bench_figure(b, shapes[s].name, n, who_label[w],
                             k == 0 ? "rate_bypassed" : "rate_two_processes",
                             rate[k][w][trials / 2], "million/s");
            }
    }
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {16, 1024, 65536};
    struct bench b;

    if (argc == 2 && strncmp(argv[1], "--misses=", 9) == 0)
        return misses_main((uint32_t)strtoul(argv[1] + 9, NULL, 10));
    bench_init(&b, "rankmap_stack", argc, argv);
    for (unsigned i = 0; i < (b.quick ? 1u : 3u); i++) {
        run_misses(&b, sizes[i], "262144,8,64", "L2");
        if (!b.quick)
            run_misses(&b, sizes[i], "20971520,20,64", "L3");
    }
    world_make(2 * sizes[b.quick ? 0 : 2]);
    for (unsigned i = 0; i < (b.quick ? 1u : 3u); i++)
        run_rates(&b, sizes[i]);
    return 0;
}
