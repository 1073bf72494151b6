/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making a child's map from its parent's and the array of its ranks, the last step of a split or of
 * MPI_Group_incl(); compared with other libraries' handling of the same array, and memcpy() of it.
 *
 *     bench_rankmap_create [--quick] [--seed N]
 *
 * The parent is the world, of 2n processes; the child has n, every other one (stride) or any, in
 * random order (random). Ours is rankmap_from_ids() and rankmap_compose(); `ours, shape known` is
 * rankmap_compose() with a child that was not made from an array. VCRT fill: a table of pointers,
 * copied out of the parent's; with reference counts: and each VC's count goes up. ch4: detection
 * with a division a rank, and the table if it fails; MPICH main: a table of 64-bit ids is filled,
 * then looked at. Each repetition makes and frees a communicator; memcpy() has its memory already.
 * Times are the thread's processor time, medians over alternating trials.
 */
#include "../bench.h"

#include <rankmap.h>

#include "detect_peers.h"

#define VC_BYTES 480u

enum who { OURS, KNOWN, MEMCPY, VCRT, COUNTED, CH4, MAIN, N_WHO };

static const char *const labels[N_WHO] = {
    "ours", "ours, shape known", "memcpy", "VCRT fill", "VCRT fill with reference counts",
    "ch4",  "MPICH main"};

struct vc {
    uint32_t references;
    char other[VC_BYTES - sizeof(uint32_t)];
};

struct job {
    uint32_t n;
    int32_t *ranks, *copy;
    struct rankmap *world, *stride;
    uint32_t kind;
    struct vc *vcs;
    struct vc **world_vcrt;
};

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_rankmap_create: %s\n", what);
        exit(1);
    }
}

/* The compiler must not remove an unread table. */
static void keep(const void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

static struct rankmap *child_of(const struct job *job)
{
    struct rankmap *list = NULL, *child = NULL;

    check(rankmap_from_ids(job->ranks, sizeof(job->ranks[0]), job->n, NULL, &list, NULL) == 0 &&
              rankmap_compose(job->world, list, NULL, &child) == 0,
          "rankmap_compose()");
    rankmap_unref(list);
    return child;
}

static void create_ours(const struct job *job)
{
    struct rankmap *child = child_of(job);
    uint32_t some = job->n / 3;

    check(rankmap_id(child, some) == (uint32_t)job->ranks[some], "a wrong id");
    rankmap_unref(child);
}

/* Once a job, before the clock runs. */
static void check_model(const struct job *job)
{
    struct rankmap_info info = {.size = sizeof(info)};
    struct rankmap *child = child_of(job);

    check(job->kind == 0 || (rankmap_query(child, &info) == 0 && info.kind == job->kind),
          "a wrong model");
    rankmap_unref(child);
}

static void create_known(const struct job *job)
{
    struct rankmap *odd, *child;

    check(rankmap_affine(0, 2, job->n, NULL, &odd) == 0, "rankmap_affine()");
    check(rankmap_compose(job->world, odd, NULL, &child) == 0, "rankmap_compose()");
    keep(child);
    rankmap_unref(odd);
    rankmap_unref(child);
}

static void create_vcrt(const struct job *job, int counted)
{
    struct vc **vcrt = malloc(job->n * sizeof(struct vc *));

    check(vcrt != NULL, "out of memory");
    for (uint32_t r = 0; r < job->n; r++) {
        vcrt[r] = job->world_vcrt[job->ranks[r]];
        if (counted)
            vcrt[r]->references++;
    }
    keep(vcrt);
    free(vcrt);
}

static void create_ch4(const struct job *job)
{
    struct found found;
    int32_t *lut;

    detect_ch4(job->ranks, job->n, &found);
    check(found.regular == (job->kind != 0), "ch4 found another model");
    if (found.regular)
        return;
    lut = malloc(job->n * sizeof(*lut));
    check(lut != NULL, "out of memory");
    memcpy(lut, job->ranks,
           job->n * sizeof(*lut));   /* the parent is direct: its ids are its ranks */
    detect_ch4(lut, job->n, &found); /* and once more, whether the result has a model */
    keep(lut);
    free(lut);
}

static void create_main(const struct job *job)
{
    int64_t *map = malloc(job->n * sizeof(*map)), stride;
    uint32_t r;

    check(map != NULL, "out of memory");
    for (r = 0; r < job->n; r++)
        map[r] = job->ranks[r];
    stride = job->n > 1 ? map[1] - map[0] : 1;
    for (r = 0; r < job->n; r++)
        if (map[r] != map[0] + (int64_t)r * stride)
            break;
    check((r == job->n) == (job->kind != 0), "MPICH main found another model");
    keep(map);
    free(map);
}

static void create(enum who who, const struct job *job)
{
    switch (who) {
    case OURS: create_ours(job); return;
    case KNOWN: create_known(job); return;
    case MEMCPY:
        memcpy(job->copy, job->ranks, job->n * sizeof(*job->copy));
        keep(job->copy);
        return;
    case VCRT: create_vcrt(job, 0); return;
    case COUNTED: create_vcrt(job, 1); return;
    case CH4: create_ch4(job); return;
    default: create_main(job); return;
    }
}

static void run(struct bench *b, const char *name, struct job *job)
{
    static double ns[N_WHO][BENCH_MAX_TRIALS];
    const unsigned trials = b->quick ? 3 : 15, rounds = (b->quick ? 100000 : 2000000) / job->n + 1;
    double median[N_WHO];

    check_model(job);
    for (unsigned t = 0; t < trials; t++) {
        for (unsigned i = 0; i < N_WHO; i++) {
            unsigned w = (i + t) % N_WHO;
            uint64_t start;

            if (w == KNOWN && job->kind == 0)
                continue;
            create((enum who)w, job);
            start = bench_cpu_ns();
            for (unsigned round = 0; round < rounds; round++)
                create((enum who)w, job);
            ns[w][t] = (double)(bench_cpu_ns() - start) / rounds;
        }
    }
    fprintf(stderr, "%-8s %8lu |", name, (unsigned long)job->n);
    for (unsigned w = 0; w < N_WHO; w++) {
        if (w == KNOWN && job->kind == 0)
            continue;
        median[w] = bench_median(ns[w], trials);
        bench_figure(b, name, job->n, labels[w], "ns_per_rank", median[w] / job->n, "ns");
        bench_figure(b, name, job->n, labels[w], "us_per_communicator", median[w] / 1e3, "us");
        fprintf(stderr, " %s %.2f us%s", labels[w], median[w] / 1e3, w + 1 < N_WHO ? "," : "\n");
    }
    bench_figure(b, name, job->n, labels[OURS], "time over memcpy", median[OURS] / median[MEMCPY],
                 "x");
    bench_figure(b, name, job->n, labels[OURS], "time over VCRT fill", median[OURS] / median[VCRT],
                 "x");
    bench_figure(b, name, job->n, labels[OURS], "time over ch4", median[OURS] / median[CH4], "x");
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {1000, 10000, 100000, 1000000};
    struct bench b;

    bench_init(&b, "rankmap_create", argc, argv);
    for (unsigned i = 0; i < (b.quick ? 2u : 4u); i++) {
        struct job job = {.n = sizes[i]};
        uint32_t n_world = 2 * job.n;

        job.ranks = malloc(n_world * sizeof(*job.ranks));
        job.copy = malloc(job.n * sizeof(*job.copy));
        job.vcs = calloc(n_world, sizeof(*job.vcs));
        job.world_vcrt = malloc(n_world * sizeof(struct vc *));
        check(job.ranks && job.copy && job.vcs && job.world_vcrt, "out of memory");
        check(rankmap_affine(0, 1, n_world, NULL, &job.world) == 0, "rankmap_affine()");
        for (uint32_t r = 0; r < n_world; r++)
            job.world_vcrt[r] = &job.vcs[r];
        for (uint32_t r = 0; r < job.n; r++)
            job.ranks[r] = (int32_t)(2 * r);
        job.kind = RANKMAP_STRIDE;
        run(&b, "stride", &job);
        for (uint32_t r = 0; r < n_world; r++) {
            uint32_t k = bench_random(&b, r + 1);

            job.ranks[r] = job.ranks[k];
            job.ranks[k] = (int32_t)r;
        }
        job.kind = 0;
        run(&b, "random", &job);
        rankmap_unref(job.world);
        free(job.world_vcrt);
        free(job.vcs);
        free(job.copy);
        free(job.ranks);
    }
    return 0;
}
