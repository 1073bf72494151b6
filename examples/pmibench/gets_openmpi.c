/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Get in a process of Open MPI, by the same library as Open MPI's own Gets.
 *
 *     pmibench-gets pmi|pmix KEYS GETS SEED
 *
 * `pmi`: Open MPI was started by PMI-1, through the libpmi that FLUX_PMI_LIBRARY_PATH names.
 * `pmix`: by PMIx. Any other start is an error. The ranks put KEYS pairs together and fence. Each
 * rank Gets a pair of each rank, timed as `first`, then GETS random ones, and checks them. Rank 0
 * prints one line of figures.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <pmix.h>
#include <string.h>

#include "figures.h"
#include "pmi.h"

static int rank, size;

static void gets_fail(const char *what, const char *why)
{
    fprintf(stderr, "pmibench-gets: rank %d of %d: %s: %s\n", rank, size, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The calls of both ways; a call that fails does not return. */
struct way {
    void (*init)(void);
    void (*put)(const char *key, const char *value);
    void (*fence)(void);
    void (*get)(const char *key, unsigned i, char *value);         /* value: 64 bytes; i: pair i */
    void (*counts)(unsigned long *n_read, unsigned long *n_asked); /* NULL: does not count */
};

/* ---- PMI-1: the library that Open MPI has opened ---- */

static struct {
    __typeof__(PMI_KVS_Get_my_name) *my_name;
    __typeof__(PMI_KVS_Put) *put;
    __typeof__(PMI_KVS_Commit) *commit;
    __typeof__(PMI_Barrier) *barrier;
    __typeof__(PMI_KVS_Get) *get;
    __typeof__(PMI_SHMEM_Counts) *counts;
} pmi;
static char kvsname[256];

static void *pmi_call(void *lib, const char *call)
{
    void *p = dlsym(lib, call);

    if (!p)
        gets_fail(call, dlerror());
    return p;
}

static void pmi_need(int rc, const char *what)
{
    if (rc != PMI_SUCCESS)
        gets_fail(what, "failed");
}

static void pmi_init(void)
{
    const char *path = getenv("FLUX_PMI_LIBRARY_PATH");
    void *lib = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;

    if (!lib)
        gets_fail("pmi", "Open MPI has not opened a libpmi");
    *(void **)&pmi.my_name = pmi_call(lib, "PMI_KVS_Get_my_name");
    *(void **)&pmi.put = pmi_call(lib, "PMI_KVS_Put");
    *(void **)&pmi.commit = pmi_call(lib, "PMI_KVS_Commit");
    *(void **)&pmi.barrier = pmi_call(lib, "PMI_Barrier");
    *(void **)&pmi.get = pmi_call(lib, "PMI_KVS_Get");
    *(void **)&pmi.counts = pmi_call(lib, "PMI_SHMEM_Counts");
    pmi_need(pmi.my_name(kvsname, sizeof(kvsname)), "PMI_KVS_Get_my_name");
}

static void pmi_put(const char *key, const char *value)
{
    pmi_need(pmi.put(kvsname, key, value), "PMI_KVS_Put");
}

static void pmi_fence(void)
{
    pmi_need(pmi.commit(kvsname), "PMI_KVS_Commit");
    pmi_need(pmi.barrier(), "PMI_Barrier");
}

static void pmi_get(const char *key, unsigned i, char *value)
{
    (void)i;
    pmi_need(pmi.get(kvsname, key, value, 64), "PMI_KVS_Get");
}

static void pmi_counts(unsigned long *n_read, unsigned long *n_asked)
{
    pmi_need(pmi.counts(n_read, n_asked), "PMI_SHMEM_Counts");
}

/* ---- PMIx: libpmix counts its users, Open MPI is one ---- */

static pmix_proc_t me;

static void pmix_need(pmix_status_t rc, const char *what)
{
    if (rc != PMIX_SUCCESS)
        gets_fail(what, PMIx_Error_string(rc));
}

static void pmix_init(void)
{
    if (!PMIx_Initialized())
        gets_fail("pmix", "Open MPI has not initialized PMIx");
    pmix_need(PMIx_Init(&me, NULL, 0), "PMIx_Init");
}

static void pmix_put(const char *key, const char *text)
{
    pmix_value_t v;
    char copy[64];

    snprintf(copy, sizeof(copy), "%s", text);
    v.type = PMIX_STRING;
    v.data.string = copy;
    pmix_need(PMIx_Put(PMIX_GLOBAL, key, &v), "PMIx_Put");
}

static void pmix_fence(void)
{
    pmix_info_t info;
    bool collect = true;

    pmix_need(PMIx_Commit(), "PMIx_Commit");
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    pmix_need(PMIx_Fence(NULL, 0, &info, 1), "PMIx_Fence");
}

/* A Get names the rank that has put the key. */
static void pmix_get(const char *key, unsigned i, char *text)
{
    pmix_value_t *value = NULL;
    pmix_proc_t whose;

    PMIX_LOAD_PROCID(&whose, me.nspace, i % (unsigned)size);
    pmix_need(PMIx_Get(&whose, key, NULL, 0, &value), "PMIx_Get");
    snprintf(text, 64, "%s", value->type == PMIX_STRING ? value->data.string : "(no string)");
    PMIX_VALUE_RELEASE(value);
}

/* ---- the experiment ---- */

static void put_all(const struct way *way, unsigned keys)
{
    char key[KEY_BYTES], value[VALUE_BYTES];

    for (unsigned i = (unsigned)rank; i < keys; i += (unsigned)size) {
        make_key(key, i);
        make_address(value, i, 0);
        way->put(key, value);
    }
    way->fence();
}

static void check_address(const struct way *way, const char *key, unsigned i)
{
    char value[64], want[VALUE_BYTES];

    way->get(key, i, value);
    make_address(want, i, 0);
    if (strcmp(value, want) != 0)
        gets_fail(key, "a Get has the wrong value");
}

/* A pair of each rank, the next rank's first: pair i is rank i % size's. */
static double first_gets(const struct way *way)
{
    char key[KEY_BYTES];
    double s = read_clock(CLOCK_MONOTONIC);

    for (unsigned r = 1; r <= (unsigned)size; r++) {
        make_key(key, ((unsigned)rank + r) % (unsigned)size);
        check_address(way, key, ((unsigned)rank + r) % (unsigned)size);
    }
    s = (read_clock(CLOCK_MONOTONIC) - s) / size * 1e6;
    way->fence();
    return s;
}

enum { FIRST, WALL, CPU, READ, ASKED, N_FIGURES };

static void measure_gets(const struct way *way, unsigned keys, unsigned gets, double *figures)
{
    static char picked_keys[N_PICKED][KEY_BYTES];
    static unsigned picked[N_PICKED];
    unsigned long n_read = 0, n_asked = 0, read_before = 0, asked_before = 0;
    char value[64];

    pick_keys(picked_keys, picked, keys);
    if (way->counts)
        way->counts(&read_before, &asked_before);
    figures[WALL] = read_clock(CLOCK_MONOTONIC);
    figures[CPU] = read_clock(CLOCK_PROCESS_CPUTIME_ID); /* a Get of PMIx wakes a thread */
    for (unsigned i = 0; i < gets; i++)
        way->get(picked_keys[i % N_PICKED], picked[i % N_PICKED], value);
    figures[CPU] = (read_clock(CLOCK_PROCESS_CPUTIME_ID) - figures[CPU]) / gets * 1e6;
    figures[WALL] = (read_clock(CLOCK_MONOTONIC) - figures[WALL]) / gets * 1e6;
    if (way->counts)
        way->counts(&n_read, &n_asked);
    figures[READ] = (double)(n_read - read_before);
    figures[ASKED] = (double)(n_asked - asked_before);
    way->fence();
    for (unsigned i = 0; i < gets && i < N_PICKED; i++)
        check_address(way, picked_keys[i], picked[i]);
}

static void print_gets(const double *figures, int n)
{
    static const char *const names[] = {"first_us", "wall_us", "cpu_us", "read", "asked"};
    double sum[N_FIGURES], most[N_FIGURES];

    MPI_Reduce(figures, sum, n, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(figures, most, n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int k = 0; rank == 0 && k < n; k++)
        printf("%s.mean %.6g %s.max %.6g ", names[k], sum[k] / size, names[k], most[k]);
    if (rank == 0)
        printf("\n");
    if (fflush(stdout) != 0 || ferror(stdout))
        gets_fail("standard output", "cannot write the figures");
}

int main(int argc, char **argv)
{
    static const struct way by_pmi = {pmi_init, pmi_put, pmi_fence, pmi_get, pmi_counts},
                            by_pmix = {pmix_init, pmix_put, pmix_fence, pmix_get, NULL};
    const unsigned keys = argc > 2 ? (unsigned)atoi(argv[2]) : 0,
                   gets = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    const struct way *way = argc > 1 && strcmp(argv[1], "pmi") == 0    ? &by_pmi
                            : argc > 1 && strcmp(argv[1], "pmix") == 0 ? &by_pmix
                                                                       : NULL;
    double figures[N_FIGURES];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!way || keys < (unsigned)size || gets == 0)
        gets_fail("usage", "pmibench-gets pmi|pmix KEYS GETS SEED, at least a key for each rank");
    rng_seed((unsigned)rank, argc > 4 ? argv[4] : NULL);
    way->init();
    put_all(way, keys);
    figures[FIRST] = first_gets(way);
    measure_gets(way, keys, gets, figures);
    print_gets(figures, way->counts ? N_FIGURES : READ);
    if (way == &by_pmix)
        pmix_need(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    MPI_Finalize();
    return 0;
}
