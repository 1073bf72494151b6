/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that bench_exchange starts under each launcher: a client session of libpmiwire on the
 * descriptor that PMI_FD names.
 *
 *     exchange_client BOARD WIRE ROUNDS WAY...
 *
 * In each round, for each way, every rank sends its two neighbours in the ring of ranks a value of
 * 16 bytes and receives theirs:
 *
 *     ring     PMIX_Ring (PMI-2: Slurm's and ours)
 *     get      put as SPARSE, then two Gets that wait for the key and name its rank (ours)
 *     pgf      put, fence, two Gets
 *     fence    a Fence of pairs put before the round begins; ranks do nothing after it, so that the
 *              waiting ones have the processors
 *     bulk     the same with BOARD_BULK pairs a rank
 *
 * All begin at one moment, until which they sleep. Every value is checked. Times go into BOARD
 * (board.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <pmiwire.h>

#include "board.h"

#define DEADLINE_SECONDS 60

enum way { WAY_RING, WAY_GET, WAY_PGF, WAY_FENCE, WAY_BULK, WAYS };
static const char *const way_names[WAYS] = {"ring", "get", "pgf", "fence", "bulk"};

static struct pmiwire_client *session;
static int server_fd;
static struct board *board;
static int rank = -1, size;

static void die(const char *format, ...)
{
    va_list ap;

    fprintf(stderr, "exchange_client: rank %d: ", rank);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(9);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* Our server's processor time, on a node's first rank; else 0. */
static int64_t server_cpu_ns(void)
{
    clockid_t clock;

    if (!board->per_node || rank % board->per_node != 0 ||
        clock_getcpuclockid(getppid(), &clock) != 0)
        return 0;
    return clock_ns(clock);
}

/* ---- PMI ---- */

/* Waits for the answer to a request, whose call returned `rc`. */
static void answer(int rc, const char *what, struct pmiwire_event *ev)
{
    static char buf[65536];

    if (rc < 0)
        die("%s: %s", what, pmiwire_strerror(rc));
    while ((rc = pmiwire_client_next(session, ev, NULL)) == 0) {
        const void *data;
        size_t n = pmiwire_client_output(session, &data);
        ssize_t moved = n ? write(server_fd, data, n) : read(server_fd, buf, sizeof(buf));

        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            die("%s: %s", what, strerror(errno));
        if (n)
            pmiwire_client_sent(session, (size_t)moved);
        else if (moved == 0)
            pmiwire_client_eof(session);
        else
            pmiwire_client_input(session, buf, (size_t)moved);
    }
    if (rc < 0 || ev->rc)
        die("%s: %s", what, pmiwire_strerror(rc < 0 ? rc : ev->rc));
}

static int environment(const char *name)
{
    const char *text = getenv(name);

    if (!text)
        die("no %s: start me with a launcher that speaks PMI", name);
    return atoi(text);
}

static void init(int wire)
{
    struct pmiwire_client_opts opts = {.size = sizeof(opts),
                                       .wire = wire == 1 ? PMIWIRE_V1 : PMIWIRE_V2,
                                       .jobid = getenv("PMI_JOBID")};
    struct pmiwire_info_client info;
    struct pmiwire_event ev;

    server_fd = environment("PMI_FD");
    opts.rank = environment("PMI_RANK");
    opts.n_ranks = environment("PMI_SIZE");
    if (pmiwire_client_create(&opts, &session) != 0)
        die("out of memory");
    answer(0, "init", &ev);
    pmiwire_client_query(session, &info);
    rank = info.rank;
    size = info.n_ranks;
    if (rank < 0 || rank >= size || size > BOARD_RANKS)
        die("rank %d of %d", rank, size);
}

static int neighbour(int side)
{
    return (rank + (side ? 1 : size - 1)) % size;
}

static void check(struct pmiwire_str value, const char *want)
{
    if (value.len != strlen(want) || memcmp(value.ptr, want, value.len) != 0)
        die("\"%.*s\" came, not \"%s\"", (int)value.len, value.len ? value.ptr : "", want);
}

static void key_and_value(enum way way, int round, int who, char key[32], char value[32])
{
    snprintf(key, 32, "%s-%04x-%06x", way_names[way], (unsigned)round, (unsigned)who);
    snprintf(value, 32, "%06x-%04x-%04x", (unsigned)who, (unsigned)round, (unsigned)way);
}

static void put(enum way way, int round, int n)
{
    struct pmiwire_event ev;
    char key[32], value[32];

    key_and_value(way, round, n, key, value);
    answer(pmiwire_client_put(session, pmiwire_strz(key), pmiwire_strz(value),
                              way == WAY_GET ? PMIWIRE_HINT_SPARSE : PMIWIRE_HINT_NONE, 0),
           "put", &ev);
}

static void exchange(enum way way, int round)
{
    static const struct pmiwire_str own = {NULL, 0};
    struct pmiwire_event ev;
    char key[32], value[32];

    key_and_value(way, round, rank, key, value);
    if (way == WAY_RING) {
        answer(pmiwire_client_ring(session, pmiwire_strz(value), 0), "ring", &ev);
        key_and_value(way, round, neighbour(0), key, value);
        check(ev.value, value);
        key_and_value(way, round, neighbour(1), key, value);
        check(ev.value2, value);
        return;
    }
    if (way == WAY_GET || way == WAY_PGF)
        put(way, round, rank);
    if (way != WAY_GET)
        answer(pmiwire_client_fence(session, pmiwire_strz(NULL), 0), "fence", &ev);
    for (int side = 0; side < 2 && way != WAY_FENCE && way != WAY_BULK; side++) {
        int who = neighbour(side);

        key_and_value(way, round, who, key, value);
        if (way == WAY_GET)
            answer(pmiwire_client_get(session, pmiwire_strz(NULL), who, pmiwire_strz(key),
                                      PMIWIRE_GET_WAIT, 0),
                   "get", &ev);
        else
            answer(pmiwire_client_get(session, own, who, pmiwire_strz(key), PMIWIRE_GET_LOCAL, 0),
                   "get", &ev);
        check(ev.value, value);
    }
}

/* ---- rounds ---- */

static long futex(atomic_uint *word, int op, unsigned value)
{
    return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static unsigned n_meetings;

/* Waits until all ranks are here. The last one sets the round's begin: once all are awake again. */
static void meet(void)
{
    const unsigned number = n_meetings++;

    if (atomic_fetch_add(&board->n_here, 1) + 1 == (number + 1) * (unsigned)size) {
        atomic_store(&board->start_ns, now_ns() + 5000000 + (int64_t)size * 150000);
        atomic_store(&board->n_met, number + 1);
        futex(&board->n_met, FUTEX_WAKE, INT32_MAX);
    }
    while (atomic_load(&board->n_met) == number)
        futex(&board->n_met, FUTEX_WAIT, number);
}

static void sleep_until(int64_t moment_ns)
{
    struct timespec t = {moment_ns / 1000000000, moment_ns % 1000000000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static void one_round(enum way way, int i, int round)
{
    struct board_rank *mine = &board->ranks[rank];
    int64_t cpu, server;

    for (int k = 0; k < (way == WAY_FENCE ? 1 : way == WAY_BULK ? BOARD_BULK : 0); k++)
        put(way, round, rank * BOARD_BULK + k);
    meet();
    mine->begun_ns[i][round] = atomic_load(&board->start_ns);
    server = server_cpu_ns();
    cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    sleep_until(mine->begun_ns[i][round]);
    exchange(way, round);
    mine->done_ns[i][round] = now_ns();
    mine->cpu_ns[i][round] = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    meet();
    mine->server_ns[i][round] = server_cpu_ns() - server;
}

static void rounds(const enum way *ways, int n_ways, int n_rounds)
{
    for (int round = 0; round < n_rounds; round++)
        for (int i = 0; i < n_ways; i++)
            one_round(ways[i], i, round);
}

int main(int argc, char **argv)
{
    enum way ways[BOARD_WAYS] = {0};
    int n_ways = argc - 4, n_rounds, fd;
    struct pmiwire_event ev;

    alarm(DEADLINE_SECONDS);
    prctl(PR_SET_TIMERSLACK, 1);
    if (n_ways < 1 || n_ways > BOARD_WAYS)
        die("usage: exchange_client BOARD WIRE ROUNDS WAY...");
    n_rounds = atoi(argv[3]);
    for (int i = 0; i < n_ways; i++) {
        int way = 0;

        while (way < WAYS && strcmp(argv[4 + i], way_names[way]) != 0)
            way++;
        if (way == WAYS)
            die("no way is called %s", argv[4 + i]);
        ways[i] = (enum way)way;
    }
    fd = open(argv[1], O_RDWR);
    board =
        fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED || n_rounds < 1 || n_rounds > BOARD_ROUNDS)
        die("%s: %s", argv[1], strerror(errno));
    close(fd);
    init(atoi(argv[2]));
    board->ranks[rank].init_ns = now_ns();
    rounds(ways, n_ways, n_rounds);
    answer(pmiwire_client_finalize(session, 0), "finalize", &ev);
    board->ranks[rank].ended_ns = now_ns();
    return 0;
}
