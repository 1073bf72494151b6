/* SPDX-License-Identifier: BSD-3-Clause */
/* Every rank with every rank: alltoall, alltoallv, ialltoall, scan, reduce_scatter, gatherv, and
 * messages of a MiB. Each rank prints sums of the received values; all are integers or exact in
 * binary. */
#include "../mpi/world.h"

enum { LARGE = 131072 };

static void *room(size_t bytes)
{
    void *p = calloc(bytes, 1);

    CHECK_MSG(p, "out of memory");
    return p;
}

/* count longs for each: element i of those from rank a to rank b is 10000 a + 100 b + i. */
static long all_to_all(const struct world *w, int count, int nonblocking)
{
    long *out = room(sizeof(long) * (size_t)(count * w->size));
    long *in = room(sizeof(long) * (size_t)(count * w->size)), sum = 0;
    MPI_Request request;

    for (int to = 0; to < w->size; to++)
        for (int i = 0; i < count; i++)
            out[to * count + i] = 10000L * w->rank + 100L * to + i;
    if (nonblocking) {
        MPI_Ialltoall(out, count, MPI_LONG, in, count, MPI_LONG, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Alltoall(out, count, MPI_LONG, in, count, MPI_LONG, MPI_COMM_WORLD);
    }
    for (int from = 0; from < w->size; from++)
        for (int i = 0; i < count; i++) {
            const long got = in[from * count + i];

            CHECK_MSG(got == 10000L * from + 100L * w->rank + i, "element %d of rank %d is %ld", i,
                      from, got);
            sum += got;
        }
    free(out);
    free(in);
    return sum;
}

/* Rank a sends b + 1 doubles to rank b. */
static double all_to_all_v(const struct world *w)
{
    const size_t n = (size_t)w->size;
    int *out_n = room(sizeof(int) * n), *out_at = room(sizeof(int) * n);
    int *in_n = room(sizeof(int) * n), *in_at = room(sizeof(int) * n), total = 0;
    double *out = room(sizeof(double) * n * (n + 1)), *in = room(sizeof(double) * n * (n + 1));
    double sum = 0;

    for (int r = 0; r < w->size; r++) {
        out_n[r] = r + 1;
        out_at[r] = total;
        for (int i = 0; i <= r; i++)
            out[total++] = 0.25 * w->rank + r;
        in_n[r] = w->rank + 1;
        in_at[r] = r * (w->rank + 1);
    }
    MPI_Alltoallv(out, out_n, out_at, MPI_DOUBLE, in, in_n, in_at, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int i = 0; i < w->size * (w->rank + 1); i++)
        sum += in[i];
    free(out_n);
    free(out_at);
    free(in_n);
    free(in_at);
    free(out);
    free(in);
    return sum;
}

/* A MiB to the next rank, and one from the previous rank. */
static long large(const struct world *w)
{
    const int next = (w->rank + 1) % w->size, before = (w->rank + w->size - 1) % w->size;
    long *out = room(sizeof(long) * LARGE), *in = room(sizeof(long) * LARGE), sum = 0;

    for (int i = 0; i < LARGE; i++)
        out[i] = (long)w->rank * LARGE + i;
    MPI_Sendrecv(out, LARGE, MPI_LONG, next, 1, in, LARGE, MPI_LONG, before, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < LARGE; i++) {
        CHECK_MSG(in[i] == (long)before * LARGE + i, "element %d is %ld", i, in[i]);
        sum += in[i];
    }
    free(out);
    free(in);
    return sum;
}

/* Rank r gives r + 1 longs; the last rank has them all. */
static long gather_v(const struct world *w)
{
    const size_t n = (size_t)w->size;
    int *counts = room(sizeof(int) * n), *at = room(sizeof(int) * n), total = 0;
    long *out = room(sizeof(long) * n), *in = room(sizeof(long) * n * (n + 1)), sum = 0;

    for (int r = 0; r < w->size; r++) {
        out[r] = 7L * w->rank + r;
        counts[r] = r + 1;
        at[r] = total;
        total += r + 1;
    }
    MPI_Gatherv(out, w->rank + 1, MPI_LONG, in, counts, at, MPI_LONG, w->size - 1, MPI_COMM_WORLD);
    for (int i = 0; i < total; i++)
        sum = 31 * sum % 1000003 + in[i];
    free(counts);
    free(at);
    free(out);
    free(in);
    return sum;
}

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);
    long mine = w.rank + 1, scan, *parts, part;
    double v;

    printf("alltoall rank %d: %ld %ld %ld", w.rank, all_to_all(&w, 1, 0), all_to_all(&w, 3000, 0),
           all_to_all(&w, 50, 1));
    v = all_to_all_v(&w);
    MPI_Scan(&mine, &scan, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    parts = room(sizeof(long) * (size_t)w.size);
    for (int r = 0; r < w.size; r++)
        parts[r] = w.rank * 5 + r;
    MPI_Reduce_scatter_block(parts, &part, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    free(parts);
    printf(" %.2f %ld %ld %ld %ld\n", v, scan, part, large(&w), gather_v(&w));
    fflush(stdout);
    return world_end(&w, "alltoall");
}
