/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_dynwin WHO REGIONS OPS, on two ranks: rank 1 attaches 64-byte regions to a dynamic window,
 * rank 0 puts 8 bytes into random ones and flushes after each. Prints one figure in the form of
 * bench_asym_rma. Where the implementation refuses this many regions: no figure. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REGION 64
#define TURNS  21

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    int rank, ok = 1, n, ops;
    double turns[TURNS];
    uint64_t value = 1, state = 88172645463325252u;
    MPI_Aint base = 0;
    char *memory;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 4)
        MPI_Abort(MPI_COMM_WORLD, 2);
    n = atoi(argv[2]);
    ops = atoi(argv[3]) / TURNS + 1;
    memory = aligned_alloc(64, (size_t)n * REGION);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 1) {
        for (int i = 0; i < n && ok; i++)
            ok = MPI_Win_attach(win, memory + (size_t)i * REGION, REGION) == MPI_SUCCESS;
        MPI_Get_address(memory, &base);
    }
    MPI_Bcast(&ok, 1, MPI_INT, 1, MPI_COMM_WORLD);
    MPI_Bcast(&base, 1, MPI_AINT, 1, MPI_COMM_WORLD);
    if (!ok) {
        if (rank == 0)
            fprintf(stderr, "%s: MPI_Win_attach refuses %d regions\n", argv[1], n);
        MPI_Barrier(MPI_COMM_WORLD);
        _Exit(0); /* some do not survive MPI_Finalize after that */
    }
    if (rank == 0) {
        MPI_Win_lock_all(0, win);
        for (int t = -1; t < TURNS; t++) {
            double begin = cpu_ns();

            for (int i = 0; i < ops; i++) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                MPI_Put(&value, 1, MPI_UINT64_T, 1,
                        base + (MPI_Aint)((state >> 20) % (uint64_t)n * REGION), 1, MPI_UINT64_T,
                        win);
                MPI_Win_flush(1, win);
            }
            if (t >= 0)
                turns[t] = (cpu_ns() - begin) / ops;
        }
        MPI_Win_unlock_all(win);
        qsort(turns, TURNS, sizeof(*turns), compare);
        printf("{\"bench\":\"asym_rma\",\"case\":\"shm_put_flush\",\"n\":%d,\"who\":\"%s\","
               "\"metric\":\"cpu_ns_per_op\",\"value\":%.6g,"
               "\"unit\":\"ns\"}\n",
               n, argv[1], turns[TURNS / 2]);
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    _Exit(0);
}
