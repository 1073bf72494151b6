/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that pmibench starts as every rank: one experiment through PMI-2's public interface,
 * with the libpmi2.so.0 that the loader finds.
 *
 *     pmibench-client get KEYS GETS SEED    put KEYS pairs in all, fence, then GETS Gets of random
 *                                           keys
 *     pmibench-client fence KEYS ROUNDS     each rank puts KEYS pairs, then fences: ROUNDS times
 *     pmibench-client allgather ROUNDS      PMIX_Allgather, or a put, a fence and n Gets where the
 *                                           library has none
 *     pmibench-client memory KEYS           put KEYS pairs in all, fence, look all of them up and
 *                                           keep them as a runtime does
 *     pmibench-client hello                 put one pair, fence, Get the next rank's
 *     pmibench-client launcher KEYS         put KEYS pairs of 16 and 32 bytes in all, fence, and
 *                                           look at the process that serves each rank
 *
 * Rank 0 prints one line of figures, "name value" pairs, which it gathers over PMI itself. Each
 * rank checks every value that it gets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "figures.h"
#include "pmi2.h"

/* Not in every library of this name. */
#pragma weak PMIX_Allgather
#pragma weak PMI2_SHMEM_KVS_Get
#pragma weak PMI2_SHMEM_Counts

#define MAX_KEYS 10000000u

static int rank, size;

static void pmi_fail(const char *what)
{
    fprintf(stderr, "pmibench-client: rank %d: %s\n", rank, what);
    PMI2_Abort(1, what);
    exit(1);
}

static void check_pmi(int rc, const char *what)
{
    if (rc != PMI2_SUCCESS)
        pmi_fail(what);
}

/* Puts this rank's share of `keys` pairs, new keys in each round: with some servers the latest Put
 * of a key does not win. */
static void put_pmi_share(unsigned keys, unsigned round)
{
    char key[KEY_BYTES], value[VALUE_BYTES];

    for (unsigned i = (unsigned)rank; i < keys; i += (unsigned)size) {
        make_key(key, i + round * keys);
        make_address(value, i, round);
        check_pmi(PMI2_KVS_Put(key, value), "PMI2_KVS_Put");
    }
}

static void check_get(unsigned keys, unsigned i, unsigned round)
{
    char key[KEY_BYTES], value[64], want[VALUE_BYTES];
    int n;

    make_key(key, i + round * keys);
    check_pmi(PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, value, sizeof(value), &n), "PMI2_KVS_Get");
    make_address(want, i, round);
    if (n != (int)strlen(want) || strcmp(value, want) != 0)
        pmi_fail("a Get has the wrong value");
}

/* Sends each rank's figures to rank 0, which prints their means and maxima. */
static void print_pmi_figures(const char *const *names, const double *figures, int n)
{
    char key[32], value[256], *at = value;
    double mean[MAX_FIGURES] = {0}, most[MAX_FIGURES] = {0};

    for (int k = 0; k < n; k++)
        at += snprintf(at, (size_t)(value + sizeof(value) - at), "%.9e,", figures[k]);
    snprintf(key, sizeof(key), "figures-%d", rank);
    check_pmi(PMI2_KVS_Put(key, value), "PMI2_KVS_Put");
    check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence");
    for (int r = 0; rank == 0 && r < size; r++) {
        int length;

        snprintf(key, sizeof(key), "figures-%d", r);
        check_pmi(PMI2_KVS_Get(NULL, r, key, value, sizeof(value), &length),
                  "PMI2_KVS_Get of figures");
        at = value;
        for (int k = 0; k < n; k++) {
            double v = strtod(at, &at);

            at++;
            mean[k] += v / size;
            most[k] = v > most[k] ? v : most[k];
        }
    }
    for (int k = 0; rank == 0 && k < n; k++)
        printf("%s.mean %.6g %s.max %.6g ", names[k], mean[k], names[k], most[k]);
    if (rank == 0)
        printf("\n");
    if (fflush(stdout) != 0 || ferror(stdout))
        pmi_fail("cannot write the figures");
}

/* The time of a Get, in microseconds on the wall and of this thread's. */
static void time_gets(char (*keys)[KEY_BYTES], unsigned gets, double *wall, double *cpu)
{
    char value[64];
    int n;

    *wall = read_clock(CLOCK_MONOTONIC);
    *cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned i = 0; i < gets; i++)
        if (PMI2_KVS_Get(NULL, PMI2_ID_NULL, keys[i % N_PICKED], value, sizeof(value), &n) !=
                PMI2_SUCCESS ||
            n != VALUE_BYTES - 1)
            pmi_fail("PMI2_KVS_Get");
    *cpu = (read_clock(CLOCK_THREAD_CPUTIME_ID) - *cpu) / gets * 1e6;
    *wall = (read_clock(CLOCK_MONOTONIC) - *wall) / gets * 1e6;
}

/* Two passes: the time of the first depends on the lines and pages of the table that other ranks
 * have loaded before. */
static void bench_get(unsigned keys, unsigned gets)
{
    static const char *const names[] = {"wall_us", "cpu_us", "read", "asked", "again_cpu_us"};
    unsigned long read_before = 0, asked_before = 0, n_read = 0, n_asked = 0;
    static char picked_keys[N_PICKED][KEY_BYTES];
    static unsigned picked[N_PICKED];
    double figures[5], wall;

    put_pmi_share(keys, 0);
    check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence");
    for (int i = 0; i < 20; i++) /* the timed Gets are not the first ones */
        check_get(keys, rng_below(keys), 0);
    pick_keys(picked_keys, picked, keys);
    check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence");
    if (PMI2_SHMEM_Counts)
        check_pmi(PMI2_SHMEM_Counts(&read_before, &asked_before), "PMI2_SHMEM_Counts");
    time_gets(picked_keys, gets, &figures[0], &figures[1]);
    if (PMI2_SHMEM_Counts)
        check_pmi(PMI2_SHMEM_Counts(&n_read, &n_asked), "PMI2_SHMEM_Counts");
    figures[2] = (double)(n_read - read_before);
    figures[3] = (double)(n_asked - asked_before);
    time_gets(picked_keys, gets, &wall, &figures[4]);
    print_pmi_figures(names, figures, 5);
}

static void bench_fence(unsigned keys, unsigned rounds)
{
    static const char *const names[] = {"fence_us", "first_us", "put_fence_us"};
    double *times = calloc(rounds, sizeof(*times)), *with_puts = calloc(rounds, sizeof(*with_puts)),
           figures[3];

    if (!times || !with_puts)
        pmi_fail("no memory");
    for (unsigned r = 0; r < rounds; r++) {
        double t;

        t = read_clock(CLOCK_MONOTONIC);
        put_pmi_share(keys * (unsigned)size, r);
        check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence"); /* so that all begin together */
        with_puts[r] = (read_clock(CLOCK_MONOTONIC) - t) * 1e6;
        t = read_clock(CLOCK_MONOTONIC);
        check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence");
        times[r] = (read_clock(CLOCK_MONOTONIC) - t) * 1e6;
        /* So that the next step takes no processor from ranks that still wait for the answer. */
        check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence");
        check_get(keys * (unsigned)size, rng_below(keys * (unsigned)size), r);
    }
    figures[1] = times[0];
    figures[0] = median_of(times, rounds);
    figures[2] = median_of(with_puts, rounds);
    print_pmi_figures(names, figures, 3);
    free(with_puts);
    free(times);
}

/* As PMIX_Allgather() does it on every server, for libraries without it. */
static void gather_values(unsigned round, const char *value, char *all)
{
    char key[32];
    int n;

    snprintf(key, sizeof(key), "gather-%u-%d", round, rank);
    check_pmi(PMI2_KVS_Put(key, value), "PMI2_KVS_Put");
    check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence");
    for (int r = 0; r < size; r++) {
        snprintf(key, sizeof(key), "gather-%u-%d", round, r);
        check_pmi(
            PMI2_KVS_Get(NULL, r, key, all + (size_t)r * PMI2_MAX_VALLEN, PMI2_MAX_VALLEN, &n),
            "PMI2_KVS_Get");
    }
}

static void bench_allgather(unsigned rounds)
{
    static const char *const names[] = {"allgather_us", "first_us"};
    char *all = malloc((size_t)size * PMI2_MAX_VALLEN), value[VALUE_BYTES];
    double *times = calloc(rounds, sizeof(*times)), figures[2];

    if (!all || !times)
        pmi_fail("no memory");
    for (unsigned r = 0; r < rounds; r++) {
        double t;

        make_address(value, (unsigned)rank, r);
        check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence");
        t = read_clock(CLOCK_MONOTONIC);
        if (PMIX_Allgather)
            check_pmi(PMIX_Allgather(value, all), "PMIX_Allgather");
        else
            gather_values(r, value, all);
        times[r] = (read_clock(CLOCK_MONOTONIC) - t) * 1e6;
        check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence");
        for (int i = 0; i < size; i++) {
            make_address(value, (unsigned)i, r);
            if (strcmp(all + (size_t)i * PMI2_MAX_VALLEN, value) != 0)
                pmi_fail("an Allgather has the wrong value");
        }
    }
    figures[1] = times[0];
    figures[0] = median_of(times, rounds);
    print_pmi_figures(names, figures, 2);
    free(times);
    free(all);
}

/* Kilobytes of a field of /proc/PID/smaps_rollup or status. */
static double proc_kb(const char *pid, const char *file, const char *field)
{
    char path[64], line[256];
    double kb = -1;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%s/%s", pid, file);
    f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, field, strlen(field)) == 0)
            kb = atof(line + strlen(field));
    if (f)
        fclose(f);
    return kb;
}

/* Pss of this process and its growth; at rank 0, Pss of the server too. A runtime keeps every
 * address: a pointer where the library gives one, else a copy. */
static void bench_memory(unsigned keys)
{
    static const char *const names[] = {"pss_kb", "grown_kb", "server_kb"};
    const char **kept = calloc(keys, sizeof(*kept));
    double figures[3], before;
    char key[KEY_BYTES], value[64], parent[16];
    int n;

    if (!kept)
        pmi_fail("no memory");
    before = proc_kb("self", "smaps_rollup", "Pss:");
    put_pmi_share(keys, 0);
    check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence");
    for (unsigned i = 0; i < keys; i++) {
        make_key(key, i);
        if (PMI2_SHMEM_KVS_Get && PMI2_SHMEM_KVS_Get(key, &kept[i], &n) == PMI2_SUCCESS)
            continue;
        check_pmi(PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, value, sizeof(value), &n), "PMI2_KVS_Get");
        kept[i] = strdup(value);
    }
    for (unsigned i = 0; i < keys; i++) {
        make_address(value, i, 0);
        if (!kept[i] || strcmp(kept[i], value) != 0)
            pmi_fail("a kept value is wrong");
    }
    check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence"); /* all ranks hold theirs now */
    figures[0] = proc_kb("self", "smaps_rollup", "Pss:");
    figures[1] = figures[0] - before;
    snprintf(parent, sizeof(parent), "%d", (int)getppid());
    figures[2] = rank == 0 ? proc_kb(parent, "smaps_rollup", "Pss:") : 0;
    print_pmi_figures(names, figures, 3); /* keeps the copies until all have read Pss */
}

/* Memory of a node's server after a Fence: the table that all share, its private memory, all of it,
 * and the peak. */
static void bench_launcher(unsigned keys)
{
    static const char *const names[] = {"table_kb", "private_kb", "stays_kb", "peak_kb"};
    static const char *const fields[] = {"RssShmem:", "RssAnon:", "VmRSS:", "VmHWM:"};
    char key[32], value[64], parent[16];
    double figures[4];
    int n;

    for (unsigned i = (unsigned)rank; i < keys; i += (unsigned)size) {
        snprintf(key, sizeof(key), "launcher-%07u", i % 10000000u);
        snprintf(value, sizeof(value), "%031u", i);
        check_pmi(PMI2_KVS_Put(key, value), "PMI2_KVS_Put");
    }
    check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence");
    snprintf(key, sizeof(key), "launcher-%07u", keys - 1);
    check_pmi(PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, value, sizeof(value), &n), "PMI2_KVS_Get");
    if ((unsigned)atol(value) != keys - 1)
        pmi_fail("a Get has the wrong value");
    check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence"); /* every server has completed the first */
    snprintf(parent, sizeof(parent), "%d", (int)getppid());
    for (int i = 0; i < 4; i++)
        figures[i] = proc_kb(parent, "status", fields[i]);
    print_pmi_figures(names, figures, 4);
}

/* The least that a runtime does before its first message. */
static void bench_hello(void)
{
    put_pmi_share((unsigned)size, 0);
    check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence");
    check_get((unsigned)size, (unsigned)((rank + 1) % size), 0);
    if (rank == 0)
        all_up();
    check_pmi(PMI2_KVS_Fence(), "PMI2_KVS_Fence"); /* the others wait here */
}

int main(int argc, char **argv)
{
    int spawned, appnum;
    const char *mode = argc > 1 ? argv[1] : "";
    const unsigned a = argc > 2 ? (unsigned)atoi(argv[2]) : 0,
                   b = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    const unsigned long most = strcmp(mode, "fence") == 0 ? 1000 : MAX_KEYS;

    if (PMI2_Init(&spawned, &size, &rank, &appnum) != PMI2_SUCCESS) {
        fprintf(stderr, "pmibench-client: PMI2_Init failed\n");
        return 1;
    }
    rng_seed((unsigned)rank, argc > 4 ? argv[4] : NULL);
    if (a > most)
        pmi_fail("too many keys");
    else if (strcmp(mode, "get") == 0 && a && b)
        bench_get(a, b);
    else if (strcmp(mode, "fence") == 0 && a && b)
        bench_fence(a, b);
    else if (strcmp(mode, "allgather") == 0 && a)
        bench_allgather(a);
    else if (strcmp(mode, "memory") == 0 && a)
        bench_memory(a);
    else if (strcmp(mode, "launcher") == 0 && a)
        bench_launcher(a);
    else if (strcmp(mode, "hello") == 0)
        bench_hello();
    else
        pmi_fail(
            "usage: pmibench-client get KEYS GETS SEED | fence KEYS ROUNDS | allgather ROUNDS | "
            "memory KEYS | launcher KEYS | hello");
    PMI2_Finalize();
    return 0;
}
