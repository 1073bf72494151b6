/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole jobs under our launcher and its peers, side by side.
 *
 *     bench_launch PMIRUN CLIENT BARE [--quick]
 *
 * For each size n, trials alternate between the launchers and the floor, a bare loop of
 * posix_spawn() that starts n processes which return at once, and waits for them. BARE is
 * launch_bare, the least that a launcher can do, once with a session for each rank, as pmirun
 * makes, once without. Two cases:
 *
 *     job          init, one put, barrier, two gets, finalize: time from the
 *                  start of the launcher to its end, and the phases of the slowest rank
 *     put+barrier  13 rounds in one job; a round's time is its slowest rank's; the first two warm
 *                  up, the median of the others counts
 *
 * Figures are medians over the trials. A peer that is not installed is left out, with a note on
 * stderr.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../bench.h"
#include "launch_record.h"

#define MAX_N       1024
#define MAX_TRIALS  16
#define JOB_SECONDS 120
#define ROUNDS      13
#define WARM_UP     2
#define LAUNCHERS   4

extern char **environ;

struct launcher {
    const char *who;
    const char *path;
    const char *option; /* before the number of ranks */
};

struct sample {
    double whole, cpu, launch, init, put, barrier_round, gets, finalize;
};

static char records_path[] = "/tmp/bench_launch.XXXXXX";

static double now_ms(void)
{
    return (double)bench_ns(CLOCK_MONOTONIC) * 1e-6;
}

static void die(const char *what)
{
    perror(what);
    unlink(records_path);
    exit(1);
}

static void interrupted(int sig)
{
    unlink(records_path);
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Run argv to its end within JOB_SECONDS; returns its wall time in ms and the CPU time of all its
 * processes. */
static double run(char *const argv[], double *cpu)
{
    struct rusage before, after;
    posix_spawn_file_actions_t actions;
    double start, end;
    int status, pidfd, rc;
    pid_t pid;
    struct pollfd p = {-1, POLLIN, 0};

    getrusage(RUSAGE_CHILDREN, &before);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    start = now_ms();
    rc = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    if (rc != 0) {
        errno = rc;
        die(argv[0]);
    }
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    p.fd = pidfd;
    if (pidfd < 0 || poll(&p, 1, JOB_SECONDS * 1000) != 1) {
        kill(pid, SIGKILL);
        errno = ETIMEDOUT;
        die(argv[0]);
    }
    if (waitpid(pid, &status, 0) != pid)
        die("waitpid");
    end = now_ms();
    close(pidfd);
    posix_spawn_file_actions_destroy(&actions);
    getrusage(RUSAGE_CHILDREN, &after);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "bench_launch: %s ended with status %d\n", argv[0], status);
        unlink(records_path);
        exit(1);
    }
    *cpu = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
                    before.ru_stime.tv_sec) *
               1e3 +
           (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec -
                    before.ru_stime.tv_usec) *
               1e-3;
    return end - start;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Start n processes that return at once, and wait for them all; returns the wall time in ms. */
static double spawn_loop(char *client, int n)
{
    char *argv[] = {client, NULL};
    double start = now_ms();
    int status, failed = 0;

    for (int i = 0; i < n; i++) {
        pid_t pid;
        int rc = posix_spawn(&pid, client, NULL, NULL, argv, environ);

        if (rc != 0) {
            errno = rc;
            die("posix_spawn");
        }
    }
    for (int i = 0; i < n; i++)
        failed |= wait(&status) < 0 || status != 0;
    if (failed) {
        errno = ECHILD;
        die("a process of the floor");
    }
    return now_ms() - start;
}

/* One job of n ranks; phases are those of the slowest rank. */
static struct sample job(const struct launcher *l, char *client, int n, int rounds)
{
    static struct record records[MAX_N];
    struct sample s = {0};
    double per_round[MAX_ROUNDS] = {0}, start;
    char count[16], round_count[16];
    int fd = open(records_path, O_RDWR | O_TRUNC);
    size_t bytes = (size_t)n * sizeof(records[0]);
    char *argv[] = {(char *)(uintptr_t)l->path,
                    (char *)(uintptr_t)l->option,
                    count,
                    client,
                    records_path,
                    round_count,
                    NULL};

    snprintf(count, sizeof(count), "%d", n);
    snprintf(round_count, sizeof(round_count), "%d", rounds);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        die(records_path);
    start = now_ms();
    s.whole = run(argv, &s.cpu);
    if (pread(fd, records, bytes, 0) != (ssize_t)bytes)
        die("read records");
    close(fd);
    for (int i = 0; i < n; i++) {
        const struct record *r = &records[i];

        if (r->ended == 0) {
            fprintf(stderr, "bench_launch: %s: rank %d of %d left no record\n", l->who, i, n);
            exit(1);
        }
        s.launch = larger(s.launch, r->started - start);
        s.init = larger(s.init, r->init);
        s.put = larger(s.put, r->put);
        s.gets = larger(s.gets, r->gets);
        s.finalize = larger(s.finalize, r->finalize);
        for (int k = 0; k < rounds; k++)
            per_round[k] = larger(per_round[k], r->round[k]);
    }
    s.barrier_round = rounds > WARM_UP
                          ? bench_median(per_round + WARM_UP, (size_t)(rounds - WARM_UP))
                          : per_round[0];
    return s;
}

/* Median of one member over the trials. */
static double over_trials(const struct sample *s, size_t n, size_t member)
{
    double v[MAX_TRIALS];

    for (size_t i = 0; i < n; i++)
        memcpy(&v[i], (const char *)&s[i] + member, sizeof(v[i]));
    return bench_median(v, n);
}

static void compare_at(const struct bench *b, const struct launcher *l, size_t n_launchers,
                       char *client, int n, size_t trials)
{
    static struct sample whole[LAUNCHERS][MAX_TRIALS], rounds[LAUNCHERS][MAX_TRIALS];
    double job_ms[LAUNCHERS], round_ms[LAUNCHERS], floor_ms[MAX_TRIALS], floor;

    for (size_t t = 0; t < trials; t++) {
        floor_ms[t] = spawn_loop(client, n);
        for (size_t i = 0; i < n_launchers; i++) {
            size_t k = (i + t) % n_launchers; /* the order changes */

            whole[k][t] = job(&l[k], client, n, 1);
            rounds[k][t] = job(&l[k], client, n, ROUNDS);
        }
    }
    floor = bench_median(floor_ms, trials);
    bench_figure(b, "job", (uint64_t)n, "posix_spawn loop", "whole_job", floor, "ms");
    for (size_t k = 0; k < n_launchers; k++) {
        job_ms[k] = over_trials(whole[k], trials, offsetof(struct sample, whole));
        round_ms[k] = over_trials(rounds[k], trials, offsetof(struct sample, barrier_round));
        bench_figure(b, "job", (uint64_t)n, l[k].who, "whole_job", job_ms[k], "ms");
        bench_figure(b, "job", (uint64_t)n, l[k].who, "cpu",
                     over_trials(whole[k], trials, offsetof(struct sample, cpu)), "ms");
        bench_figure(b, "job", (uint64_t)n, l[k].who, "last_rank_started",
                     over_trials(whole[k], trials, offsetof(struct sample, launch)), "ms");
        bench_figure(b, "job", (uint64_t)n, l[k].who, "init",
                     over_trials(whole[k], trials, offsetof(struct sample, init)), "ms");
        bench_figure(b, "job", (uint64_t)n, l[k].who, "gets",
                     over_trials(whole[k], trials, offsetof(struct sample, gets)), "ms");
        bench_figure(b, "job", (uint64_t)n, l[k].who, "finalize",
                     over_trials(whole[k], trials, offsetof(struct sample, finalize)), "ms");
        bench_figure(b, "put+barrier", (uint64_t)n, l[k].who, "round", round_ms[k], "ms");
    }
    fprintf(stderr, "n=%-5d posix_spawn loop %8.1f ms: a job takes %.2f times that\n", n, floor,
            job_ms[0] / floor);
    for (size_t k = 1; k < n_launchers; k++)
        fprintf(stderr,
                "n=%-5d whole job %8.1f ms, %s %8.1f ms: %.2fx   put+barrier %7.2f ms, %s %7.2f "
                "ms: %.2fx\n",
                n, job_ms[0], l[k].who, job_ms[k], job_ms[k] / job_ms[0], round_ms[0], l[k].who,
                round_ms[k], round_ms[k] / round_ms[0]);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {16, 64, 256, 1024};
    struct launcher launchers[LAUNCHERS] = {
        {"ours", NULL, "-n"},
        {"bare server", NULL, "-n"},
        {"bare server, sessions", NULL, "-s"},
        {"mpiexec.hydra", "mpiexec.hydra", "-n"},
    };
    struct bench b;
    size_t n_launchers = LAUNCHERS;
    int fd;

    if (argc < 4) {
        fprintf(stderr, "usage: bench_launch PMIRUN CLIENT BARE [--quick]\n");
        return 2;
    }
    bench_init(&b, "launch", argc - 3, argv + 3);
    launchers[0].path = argv[1];
    launchers[1].path = launchers[2].path = argv[3];
    if (system("command -v mpiexec.hydra > /dev/null 2>&1") != 0) {
        fprintf(stderr, "bench_launch: no mpiexec.hydra (apt install mpich): it is left out\n");
        n_launchers--;
    }
    signal(SIGINT, interrupted);
    signal(SIGTERM, interrupted);
    fd = mkstemp(records_path);
    if (fd < 0)
        die("mkstemp");
    close(fd);
    for (size_t i = 0; i < (b.quick ? 1 : sizeof(sizes) / sizeof(sizes[0])); i++)
        compare_at(&b, launchers, n_launchers, argv[2], sizes[i],
                   b.quick          ? 2
                   : sizes[i] > 256 ? 7
                                    : 11);
    unlink(records_path);
    return 0;
}
