/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Gets, Fences and hello of pmibench-client through PMIx: the same pairs, the same lines of
 * figures.
 *
 *     pmibench-client-pmix get KEYS GETS SEED | fence KEYS ROUNDS | hello
 *
 * In PMIx a pair belongs to the rank that has put it, and a Get names that rank: rank i % n puts
 * key i.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmix.h>

#include "figures.h"

static pmix_proc_t me;
static unsigned size;

static void check_pmix(pmix_status_t rc, const char *what)
{
    if (rc == PMIX_SUCCESS)
        return;
    fprintf(stderr, "pmibench-client-pmix: rank %u: %s: %s\n", me.rank, what,
            PMIx_Error_string(rc));
    PMIx_Abort(1, what, NULL, 0);
    exit(1);
}

static void put_string(const char *key, char *text)
{
    pmix_value_t v;

    v.type = PMIX_STRING;
    v.data.string = text;
    check_pmix(PMIx_Put(PMIX_GLOBAL, key, &v), "PMIx_Put");
}

/* Sends all data to all ranks, as a PMI fence does. */
static void fence_pmix(void)
{
    pmix_info_t info;
    bool collect = true;

    check_pmix(PMIx_Commit(), "PMIx_Commit");
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    check_pmix(PMIx_Fence(NULL, 0, &info, 1), "PMIx_Fence");
}

static void put_pmix_share(unsigned keys, unsigned round)
{
    char key[KEY_BYTES], text[VALUE_BYTES];

    for (unsigned i = me.rank; i < keys; i += size) {
        make_key(key, i + round * keys);
        make_address(text, i, round);
        put_string(key, text);
    }
}

/* The value that key i's rank has put for a key; the caller releases it. */
static pmix_value_t *get_key(const char *key, unsigned i)
{
    pmix_value_t *value = NULL;
    pmix_proc_t whose;

    PMIX_LOAD_PROCID(&whose, me.nspace, i % size);
    check_pmix(PMIx_Get(&whose, key, NULL, 0, &value), "PMIx_Get");
    if (value->type != PMIX_STRING || strlen(value->data.string) != VALUE_BYTES - 1)
        check_pmix(PMIX_ERROR, "a Get has the wrong value");
    return value;
}

static pmix_value_t *get_share(unsigned keys, unsigned i, unsigned round)
{
    char key[KEY_BYTES];

    make_key(key, i + round * keys);
    return get_key(key, i);
}

/* As pmibench-client: rank 0 prints means and maxima. */
static void print_pmix_figures(const char *const *names, const double *figures, int n)
{
    double mean[MAX_FIGURES] = {0}, most[MAX_FIGURES] = {0};
    char text[256], *at = text;

    for (int k = 0; k < n; k++)
        at += snprintf(at, (size_t)(text + sizeof(text) - at), "%.9e,", figures[k]);
    put_string("figures", text);
    fence_pmix();
    for (unsigned r = 0; me.rank == 0 && r < size; r++) {
        pmix_value_t *value;
        pmix_proc_t whose;

        PMIX_LOAD_PROCID(&whose, me.nspace, r);
        check_pmix(PMIx_Get(&whose, "figures", NULL, 0, &value), "PMIx_Get of figures");
        at = value->data.string;
        for (int k = 0; k < n; k++, at++) {
            double v = strtod(at, &at);

            mean[k] += v / size;
            most[k] = v > most[k] ? v : most[k];
        }
        PMIX_VALUE_RELEASE(value);
    }
    for (int k = 0; me.rank == 0 && k < n; k++)
        printf("%s.mean %.6g %s.max %.6g ", names[k], mean[k], names[k], most[k]);
    if (me.rank == 0)
        printf("\n");
    fflush(stdout);
}

static void pmix_bench_get(unsigned keys, unsigned gets)
{
    static const char *const names[] = {"wall_us", "cpu_us"};
    static char picked_keys[N_PICKED][KEY_BYTES];
    static unsigned picked[N_PICKED];
    double figures[2], cpu, wall;
    pmix_value_t *value;

    put_pmix_share(keys, 0);
    fence_pmix();
    pick_keys(picked_keys, picked, keys);
    for (int i = 0; i < 20; i++) {
        value = get_share(keys, rng_below(keys), 0);
        PMIX_VALUE_RELEASE(value);
    }
    fence_pmix();
    wall = read_clock(CLOCK_MONOTONIC);
    cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID); /* a Get wakes a thread of the library */
    for (unsigned i = 0; i < gets; i++) {
        value = get_key(picked_keys[i % N_PICKED], picked[i % N_PICKED]);
        PMIX_VALUE_RELEASE(value);
    }
    figures[1] = (read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu) / gets * 1e6;
    figures[0] = (read_clock(CLOCK_MONOTONIC) - wall) / gets * 1e6;
    print_pmix_figures(names, figures, 2);
}

static void pmix_bench_fence(unsigned keys, unsigned rounds)
{
    static const char *const names[] = {"fence_us", "first_us"};
    double *times = calloc(rounds, sizeof(*times)), figures[2];

    if (!times)
        check_pmix(PMIX_ERR_NOMEM, "no memory");
    for (unsigned r = 0; r < rounds; r++) {
        double t;
        pmix_value_t *value;

        put_pmix_share(keys * size, r);
        check_pmix(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence"); /* so that all begin together */
        t = read_clock(CLOCK_MONOTONIC);
        fence_pmix();
        times[r] = (read_clock(CLOCK_MONOTONIC) - t) * 1e6;
        check_pmix(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence"); /* as in client.c */
        value = get_share(keys * size, rng_below(keys * size), r);
        PMIX_VALUE_RELEASE(value);
    }
    figures[1] = times[0];
    figures[0] = median_of(times, rounds);
    print_pmix_figures(names, figures, 2);
    free(times);
}

static void pmix_bench_hello(void)
{
    pmix_value_t *value;

    put_pmix_share(size, 0);
    fence_pmix();
    value = get_share(size, (me.rank + 1) % size, 0);
    PMIX_VALUE_RELEASE(value);
    if (me.rank == 0)
        all_up();
    check_pmix(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence"); /* the others wait here */
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    const unsigned a = argc > 2 ? (unsigned)atoi(argv[2]) : 0,
                   b = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    pmix_value_t *value;
    pmix_proc_t all;

    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) {
        fprintf(stderr, "pmibench-client-pmix: PMIx_Init failed: start it with a launcher that "
                        "serves PMIx, such as mpiexec.openmpi or pmirun --mpi pmix\n");
        return 1;
    }
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    check_pmix(PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value), "PMIx_Get of the job's size");
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    rng_seed(me.rank, argc > 4 ? argv[4] : NULL);
    if (strcmp(mode, "get") == 0 && a && b)
        pmix_bench_get(a, b);
    else if (strcmp(mode, "fence") == 0 && a && a <= 1000 && b)
        pmix_bench_fence(a, b);
    else if (strcmp(mode, "hello") == 0)
        pmix_bench_hello();
    else
        check_pmix(PMIX_ERR_BAD_PARAM,
                   "usage: pmibench-client-pmix get KEYS GETS SEED | fence KEYS ROUNDS | hello");
    PMIx_Finalize(NULL, 0);
    return 0;
}
