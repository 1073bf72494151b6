/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange between neighbours in the ring of ranks, on four hosts, by every way:
 *
 *     four-hosts bench_exchange PMIRUN CLIENT [--ranks N [--trials N]] [--quick]
 *     hosts run -n NAMES -- bench_exchange PMIRUN CLIENT --cpu [--ranks N [--trials N]] [--quick]
 *
 * four-hosts makes the hosts: network namespaces of this machine, and a Slurm cluster of four
 * nodes. Each trial runs every launcher once, one after the other, in a changing order; in a job
 * the ways take turns. Cases, by number of ranks (4 to 64 a host):
 *
 *     neighbours   every rank sends both neighbours a value and receives theirs: by Ring; by Put
 *                  and waiting Get in the designs DIRECT, DKVS, TREE; by Put, Fence, Get. pmirun,
 *                  srun --mpi=pmi2 (Ring; Put, Fence, Get), mpiexec.hydra
 *     fence        a Fence that brings a pair of each rank; ranks do nothing after it, so that the
 *                  waiting ones have the processors
 *     job          a job of one Put, Fence, Get: from the launcher's start to its end; and until
 *                  the last rank's PMI init is complete
 *
 * A round lasts from the moment at which all ranks begin to the end of the last one. "first" is a
 * job's first round, in which connections are made; "time" the median of the later ones. Figures
 * are medians over the trials. A peer that is missing, or one of whose jobs fails at that size
 * (mpiexec.hydra 4.0 sometimes hangs with 256 ranks of PMI-2), is left out, with a note on stderr.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../bench.h"
#include "board.h"

#define MAX_TRIALS  16
#define JOB_SECONDS 80 /* a client gives up after 60 */
#define ROUNDS      9
#define MAX_ARGS    40

extern char **environ;

static char board_path[] = "/tmp/bench_exchange.XXXXXX";
static struct board *board;
static const char *pmirun, *client, *hosts, *host_ssh, *outer;
static int n_hosts;
static bool with_cpu;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_exchange: %s: %s\n", what, why);
    unlink(board_path);
    exit(1);
}

static void interrupted(int sig)
{
    unlink(board_path);
    signal(sig, SIG_DFL);
    raise(sig);
}

/* ---- launchers ---- */

enum kind { PMIRUN, SRUN, HYDRA };

/* A job's work, and the names of its ways in the figures. */
struct experiment {
    enum kind kind;
    const char *design; /* of pmirun */
    const char *wire;
    const char *ways[BOARD_WAYS + 1], *who[BOARD_WAYS + 1];
    bool there, failed; /* a job, at this size */
    double time[BOARD_WAYS][MAX_TRIALS], first[BOARD_WAYS][MAX_TRIALS];
    double ranks[BOARD_WAYS][MAX_TRIALS], servers[BOARD_WAYS][MAX_TRIALS]; /* on processors */
    double first_ranks[BOARD_WAYS][MAX_TRIALS], first_servers[BOARD_WAYS][MAX_TRIALS];
    double whole[MAX_TRIALS], init[MAX_TRIALS];
};

static struct experiment experiments[] = {
    {.kind = PMIRUN,
     .design = "dkvs",
     .wire = "2",
     .ways = {"ring", "get", "pgf", "fence"},
     .who = {"ours Ring TCP", "ours DKVS TCP", "ours Put-Fence-Get TCP", "ours TCP"}},
    {.kind = PMIRUN, .design = "direct", .wire = "2", .ways = {"get"}, .who = {"ours Direct TCP"}},
    {.kind = PMIRUN, .design = "tree", .wire = "2", .ways = {"get"}, .who = {"ours Tree TCP"}},
    {.kind = PMIRUN,
     .design = "dkvs",
     .wire = "1",
     .ways = {"pgf", "fence"},
     .who = {"ours Put-Fence-Get TCP PMI-1", "ours TCP PMI-1"}},
    {.kind = SRUN,
     .wire = "2",
     .ways = {"ring", "pgf", "fence"},
     .who = {"srun Ring", "srun Put-Fence-Get", "srun"}},
    {.kind = HYDRA,
     .wire = "1",
     .ways = {"pgf", "fence"},
     .who = {"mpiexec.hydra Put-Fence-Get PMI-1", "mpiexec.hydra PMI-1"}},
    {.kind = HYDRA,
     .wire = "2",
     .ways = {"pgf", "fence"},
     .who = {"mpiexec.hydra Put-Fence-Get PMI-2", "mpiexec.hydra PMI-2"}},
};

/* Jobs of one round. */
static struct experiment jobs[] = {
    {.kind = PMIRUN, .design = "dkvs", .wire = "2", .ways = {"pgf"}, .who = {"ours TCP"}},
    {.kind = SRUN, .wire = "2", .ways = {"pgf"}, .who = {"srun"}},
    {.kind = HYDRA, .wire = "1", .ways = {"pgf"}, .who = {"mpiexec.hydra PMI-1"}},
};

/* With --cpu. The Gets come first, so that their first round makes its connections. */
static struct experiment with_cpu_times[] = {
    {.kind = PMIRUN,
     .design = "dkvs",
     .wire = "2",
     .ways = {"get", "ring", "pgf", "fence"},
     .who = {"DKVS", "Ring", "Put-Fence-Get", "Fence"}},
    {.kind = PMIRUN,
     .design = "direct",
     .wire = "2",
     .ways = {"get", "bulk"},
     .who = {"Direct", "Fence of many"}},
    {.kind = PMIRUN, .design = "tree", .wire = "2", .ways = {"get"}, .who = {"Tree"}},
};

#define N_WITH_CPU    (sizeof(with_cpu_times) / sizeof(with_cpu_times[0]))
#define N_EXPERIMENTS (sizeof(experiments) / sizeof(experiments[0]))
#define N_JOBS        (sizeof(jobs) / sizeof(jobs[0]))

struct command {
    const char *argv[MAX_ARGS];
    size_t n;
    char text[3][32];
};

static void add(struct command *c, const char *const *words)
{
    for (; *words; words++)
        c->argv[c->n++] = *words;
}

#define ADD(c, ...) add(c, (const char *const[]){__VA_ARGS__, NULL})

/* The command line up to the program. */
static void launcher(struct command *c, const struct experiment *e, int n)
{
    char *count = c->text[0], *per_host = c->text[1];

    snprintf(count, sizeof(c->text[0]), "%d", n);
    snprintf(per_host, sizeof(c->text[1]), "%d", n / n_hosts);
    switch (e->kind) {
    case PMIRUN:
        ADD(c, pmirun, "--hosts", hosts, "--launch-agent", host_ssh, "--design", e->design, "-n",
            count);
        break;
    case SRUN: /* the cluster is not on these hosts, but on the machine itself */
        snprintf(c->text[2], sizeof(c->text[2]), "--ntasks-per-node=%d", n / n_hosts);
        ADD(c, "nsenter", "-t", outer, "-n", "-u", "-m", "-i", "srun", "-Q", "-K", "-N", "4", "-n",
            count, c->text[2], "--mpi=pmi2");
        break;
    default:
        ADD(c, "mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", host_ssh, "-hosts", hosts,
            "-ppn", per_host, "-n", count);
    }
}

/* Waits for its end within JOB_SECONDS. Returns the status; -1: none. */
static int run(const struct command *c, int64_t *took_ns)
{
    posix_spawn_file_actions_t actions;
    struct pollfd p = {-1, POLLIN, 0};
    int status, rc;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, 2, 1); /* stdout is for figures */
    *took_ns = (int64_t)bench_ns(CLOCK_MONOTONIC);
    rc = posix_spawnp(&pid, c->argv[0], &actions, NULL, (char *const *)(uintptr_t)c->argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (rc)
        return -1;
    p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (p.fd < 0 || poll(&p, 1, JOB_SECONDS * 1000) != 1)
        kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid)
        fail("waitpid", strerror(errno));
    *took_ns = (int64_t)bench_ns(CLOCK_MONOTONIC) - *took_ns;
    close(p.fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Whether such jobs can run: tries a job of `true`, without a message if it fails. */
static bool is_there(const struct experiment *e)
{
    struct command c = {.n = 0};
    int64_t took;

    if (e->kind == SRUN && (!getenv("SLURM_CONF") || !outer))
        return false;
    launcher(&c, e, n_hosts);
    ADD(&c, "true");
    return run(&c, &took) == 0;
}

/* ---- measuring ---- */

static double ms(int64_t ns)
{
    return (double)ns * 1e-6;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void after_first(double *rounds, int n, double *first, double *rest)
{
    *first = rounds[0];
    *rest = n > 1 ? bench_median(rounds + 1, (size_t)n - 1) : rounds[0];
}

/* Another launcher's job may fail. */
static void job(struct experiment *e, int n, int rounds, size_t trial)
{
    struct command c = {.n = 0};
    int64_t begun, took;
    char count[16];
    int n_ways = 0, status;

    memset(board, 0, sizeof(*board));
    board->per_node = with_cpu ? n / n_hosts : 0;
    launcher(&c, e, n);
    snprintf(count, sizeof(count), "%d", rounds);
    ADD(&c, client, board_path, e->wire, count);
    for (; e->ways[n_ways]; n_ways++)
        ADD(&c, e->ways[n_ways]);
    begun = (int64_t)bench_ns(CLOCK_MONOTONIC);
    status = run(&c, &took);
    if (status != 0) {
        fprintf(stderr, "bench_exchange: %s: status %d of %d ranks\n", e->who[0], status, n);
        if (e->kind == PMIRUN)
            fail(e->who[0], "the job has failed");
        e->failed = true;
        return;
    }
    e->whole[trial] = ms(took);
    e->init[trial] = 0;
    for (int r = 0; r < n; r++) {
        if (board->ranks[r].ended_ns == 0)
            fail(e->who[0], "a rank has left no record");
        e->init[trial] = larger(e->init[trial], ms(board->ranks[r].init_ns - begun));
    }
    for (int w = 0; w < n_ways; w++) {
        double round[BOARD_ROUNDS] = {0}, ranks[BOARD_ROUNDS] = {0}, servers[BOARD_ROUNDS] = {0};

        for (int i = 0; i < rounds; i++) {
            for (int r = 0; r < n; r++) {
                const struct board_rank *b = &board->ranks[r];

                round[i] = larger(round[i], ms(b->done_ns[w][i] - b->begun_ns[w][i]));
                ranks[i] += ms(b->cpu_ns[w][i]);
                servers[i] += ms(b->server_ns[w][i]);
            }
        }
        after_first(round, rounds, &e->first[w][trial], &e->time[w][trial]);
        after_first(ranks, rounds, &e->first_ranks[w][trial], &e->ranks[w][trial]);
        after_first(servers, rounds, &e->first_servers[w][trial], &e->servers[w][trial]);
    }
}

static void figures(const struct bench *b, struct experiment *e, int n, size_t trials)
{
    for (int w = 0; e->ways[w]; w++) {
        const char *which = strcmp(e->ways[w], "fence") == 0 ? "fence" : "neighbours";

        bench_figure(b, which, (uint64_t)n, e->who[w], "time", bench_median(e->time[w], trials),
                     "ms");
        bench_figure(b, which, (uint64_t)n, e->who[w], "first", bench_median(e->first[w], trials),
                     "ms");
    }
    fflush(stdout);
}

/* The case is the number of hosts. */
static void measure_cpu_at(const struct bench *b, int n, size_t trials, int rounds)
{
    char which[16];

    snprintf(which, sizeof(which), "%d hosts", n_hosts);
    for (size_t t = 0; t < trials; t++)
        for (size_t i = 0; i < N_WITH_CPU; i++)
            job(&with_cpu_times[(i + t) % N_WITH_CPU], n, rounds, t);
    for (size_t i = 0; i < N_WITH_CPU; i++) {
        struct experiment *e = &with_cpu_times[i];

        for (int w = 0; e->ways[w]; w++) {
            const struct {
                const char *metric;
                double *values;
            } all[] = {{"time", e->time[w]},
                       {"ranks", e->ranks[w]},
                       {"servers", e->servers[w]},
                       {"first time", e->first[w]},
                       {"first ranks", e->first_ranks[w]},
                       {"first servers", e->first_servers[w]}};

            for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
                bench_figure(b, which, (uint64_t)n, e->who[w], all[k].metric,
                             bench_median(all[k].values, trials), "ms");
        }
    }
    fflush(stdout);
}

static void compare_at(const struct bench *b, int n, size_t trials, int rounds)
{
    for (size_t i = 0; i < N_EXPERIMENTS; i++)
        experiments[i].failed = false;
    for (size_t i = 0; i < N_JOBS; i++)
        jobs[i].failed = false;
    for (size_t t = 0; t < trials; t++) {
        for (size_t i = 0; i < N_EXPERIMENTS; i++) {
            struct experiment *e = &experiments[(i + t) % N_EXPERIMENTS];

            if (e->there && !e->failed)
                job(e, n, rounds, t);
        }
        for (size_t i = 0; i < N_JOBS; i++) {
            struct experiment *e = &jobs[(i + t) % N_JOBS];

            if (e->there && !e->failed)
                job(e, n, 1, t);
        }
    }
    for (size_t i = 0; i < N_EXPERIMENTS; i++)
        if (experiments[i].there && !experiments[i].failed)
            figures(b, &experiments[i], n, trials);
    for (size_t i = 0; i < N_JOBS; i++) {
        struct experiment *e = &jobs[i];

        if (!e->there || e->failed)
            continue;
        bench_figure(b, "job", (uint64_t)n, e->who[0], "whole job", bench_median(e->whole, trials),
                     "ms");
        bench_figure(b, "job", (uint64_t)n, e->who[0], "last rank initialized",
                     bench_median(e->init, trials), "ms");
    }
    fflush(stdout);
}

static void find_out(struct experiment *e)
{
    e->there = is_there(e);
    if (!e->there && e->kind == PMIRUN)
        fail(e->who[0], "does not run here");
    if (!e->there)
        fprintf(stderr, "bench_exchange: left out, for it does not run here: %s\n", e->who[0]);
}

static const char *need(const char *name)
{
    const char *text = getenv(name);

    if (!text) {
        fprintf(stderr, "bench_exchange: no %s: run me by four-hosts\n", name);
        exit(2);
    }
    return text;
}

/* A path from the root: srun's and the agents' ranks are not started in this folder. */
static const char *whole(const char *path)
{
    const char *found = realpath(path, NULL);

    if (!found)
        fail(path, strerror(errno));
    return found;
}

int main(int argc, char **argv)
{
    static const int sizes[] = {16, 32, 64, 128, 256};
    int ranks = 0, trials = 0, fd;
    struct bench b;

    if (argc < 3) {
        fprintf(stderr, "usage: four-hosts bench_exchange PMIRUN CLIENT [--cpu] [--ranks N "
                        "[--trials N]] [--quick]\n");
        return 2;
    }
    pmirun = whole(argv[1]);
    client = whole(argv[2]);
    argc -= 2;
    argv += 2;
    if (argc > 1 && strcmp(argv[1], "--cpu") == 0) {
        with_cpu = true;
        argc--;
        argv++;
    }
    for (; argc > 2 && (strcmp(argv[1], "--ranks") == 0 || strcmp(argv[1], "--trials") == 0);
         argc -= 2, argv += 2)
        *(strcmp(argv[1], "--ranks") == 0 ? &ranks : &trials) = atoi(argv[2]);
    hosts = need("HOSTS");
    n_hosts = 1;
    for (const char *p = hosts; *p; p++)
        n_hosts += *p == ',';
    if (ranks < 0 || ranks > BOARD_RANKS || ranks % n_hosts || trials < 0 || trials > MAX_TRIALS)
        fail("--ranks", "a multiple of the number of hosts up to 256; --trials: up to 16");
    bench_init(&b, with_cpu ? "exchange_cpu" : "exchange_hosts", argc, argv);
    host_ssh = need("HOST_SSH");
    outer = getenv("OUTER");
    signal(SIGINT, interrupted);
    signal(SIGTERM, interrupted);
    fd = mkstemp(board_path);
    if (fd < 0 || ftruncate(fd, sizeof(*board)) != 0 || fchmod(fd, 0666) != 0)
        fail(board_path, strerror(errno));
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED)
        fail(board_path, strerror(errno));
    close(fd);
    for (size_t i = 0; i < N_EXPERIMENTS && !with_cpu; i++)
        find_out(&experiments[i]);
    for (size_t i = 0; i < N_JOBS && !with_cpu; i++)
        find_out(&jobs[i]);
    for (size_t i = 0; i < (ranks || b.quick ? 1 : sizeof(sizes) / sizeof(sizes[0])); i++) {
        const int n = ranks ? ranks : sizes[i], rounds = b.quick ? 3 : ROUNDS;
        const size_t all = with_cpu ? 3 : 5, n_trials = trials    ? (size_t)trials
                                                        : b.quick ? 1
                                                        : n > 64  ? all
                                                                  : all + 2;

        if (n % n_hosts)
            continue;
        if (with_cpu)
            measure_cpu_at(&b, n, n_trials, rounds);
        else
            compare_at(&b, n, n_trials, rounds);
    }
    unlink(board_path);
    return 0;
}
