/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * groups SIZE...: MPICH's calls on groups of that many processes, in one process, through MPICH's
 * own internals: nanoseconds of processor time a call, the least of its rounds, and bytes of the
 * result. Linked with the static library of either build.
 */
#include "mpiimpl.h"

#include <malloc.h>
#include <time.h>

static int *evens, *shuffled, *all, *out;

static MPIR_Group *group_whole(int n)
{
    MPIR_Group *group;

#ifdef MPIR_LPID_FROM /* MPICH 5 */
    if (MPIR_Group_create_stride(n, 0, NULL, 0, 1, &group) != MPI_SUCCESS)
        exit(1);
#else
    if (MPIR_Group_create(n, &group) != MPI_SUCCESS)
        exit(1);
    group->rank = 0;
#ifdef RANKMAP_FORM_AFFINE
    if (rankmap_affine(0, 1, n, NULL, &group->map) < 0)
        exit(1);
#else
    for (int i = 0; i < n; i++)
        group->lrank_to_lpid[i].lpid = i;
    group->is_local_dense_monotonic = TRUE;
#endif
#endif
    return group;
}

static double bytes_in_use(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + (double)info.hblkhd;
}

static double cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

enum call {
    INCL_EVENS,
    INCL_RANDOM,
    EXCL_EVENS,
    UNION_HALVES,
    UNION_RANDOM,
    INTERSECT,
    TRANSLATE,
    TRANSLATE_RANDOM,
    COMPARE,
    CALLS
};
static const char *const names[] = {"incl-evens",   "incl-random",      "excl-evens",
                                    "union-halves", "union-random",     "intersection",
                                    "translate",    "translate-random", "compare"};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (int a = 1; a < argc; a++) {
        int n = atoi(argv[a]), rounds = 3 + 1000000 / n, half[1][3], rest[1][3];
        MPIR_Group *whole = group_whole(n), *even, *random, *low, *high;

        all = malloc(n * sizeof(int));
        evens = malloc(n * sizeof(int));
        shuffled = malloc(n * sizeof(int));
        out = malloc(n * sizeof(int));
        rounds = rounds > 2000 ? 2000 : rounds;
        for (int i = 0; i < n; i++) {
            all[i] = shuffled[i] = i;
            evens[i] = 2 * i;
        }
        srand(1);
        for (int i = n - 1; i > 0; i--) {
            int j = rand() % (i + 1), t = shuffled[i];

            shuffled[i] = shuffled[j];
            shuffled[j] = t;
        }
        half[0][0] = 0;
        half[0][1] = n / 2 - 1;
        rest[0][0] = n / 2;
        rest[0][1] = n - 1;
        half[0][2] = rest[0][2] = 1;
        MPIR_Group_incl_impl(whole, n / 2, evens, &even);
        MPIR_Group_incl_impl(whole, n, shuffled, &random);
        MPIR_Group_range_incl_impl(whole, 1, half, &low);
        MPIR_Group_range_incl_impl(whole, 1, rest, &high);
        for (enum call c = 0; c < CALLS; c++) {
            double least = 1e18, bytes = 0;
            int result;

            for (int r = 0; r < rounds; r++) {
                MPIR_Group *made = NULL;
                double start;

                bytes = -bytes_in_use();
                start = cpu_ns();
                switch (c) {
                case INCL_EVENS: MPIR_Group_incl_impl(whole, n / 2, evens, &made); break;
                case INCL_RANDOM: MPIR_Group_incl_impl(whole, n, shuffled, &made); break;
                case EXCL_EVENS: MPIR_Group_excl_impl(whole, n / 2, evens, &made); break;
                case UNION_HALVES: MPIR_Group_union_impl(low, high, &made); break;
                case UNION_RANDOM: MPIR_Group_union_impl(random, low, &made); break;
                case INTERSECT: MPIR_Group_intersection_impl(even, low, &made); break;
                case TRANSLATE: MPIR_Group_translate_ranks_impl(even, n / 2, all, low, out); break;
                case TRANSLATE_RANDOM:
                    MPIR_Group_translate_ranks_impl(even, n / 2, all, random, out);
                    break;
                default: MPIR_Group_compare_impl(random, whole, &result); break;
                }
                start = cpu_ns() - start;
                least = start < least ? start : least;
                bytes += bytes_in_use();
                if (made)
                    MPIR_Group_free_impl(made);
            }
            printf("groups %d %s %.3f %.0f\n", n, names[c], least, bytes);
        }
        MPIR_Group_free_impl(even);
        MPIR_Group_free_impl(random);
        MPIR_Group_free_impl(low);
        MPIR_Group_free_impl(high);
        MPIR_Group_free_impl(whole);
        free(all);
        free(evens);
        free(shuffled);
        free(out);
    }
    MPI_Finalize();
    return 0;
}
