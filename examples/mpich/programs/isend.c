/* SPDX-License-Identifier: BSD-3-Clause */
/* isend: MESSAGES calls of MPI_Isend of 8 bytes in each kind of communicator, from the world's
 * rank 0. For callgrind: a dump for each kind, named after it. */
#include <stdio.h>
#include <valgrind/callgrind.h>

#include "kinds.h"

#define MESSAGES 20

int main(int argc, char **argv)
{
    int world;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    for (int k = 0; kinds[k]; k++) {
        MPI_Request request[MESSAGES];
        double value = 0;
        int rank, size, from = world == 0, to;
        MPI_Comm comm;

        kind_make(kinds[k], 1, &comm);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        from = world == 0 ? rank : -1;
        MPI_Allreduce(MPI_IN_PLACE, &from, 1, MPI_INT, MPI_MAX, comm);
        to = (from + 1) % size;
        if (from >= 0) {
            for (int warm = 0; warm < 2; warm++) {
                MPI_Barrier(comm);
                CALLGRIND_ZERO_STATS;
                for (int i = 0; rank == from && i < MESSAGES; i++)
                    MPI_Isend(&value, 1, MPI_DOUBLE, to, 0, comm, &request[i]);
                if (warm && rank == from)
                    CALLGRIND_DUMP_STATS_AT(kinds[k]);
                if (rank == from)
                    MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
                for (int i = 0; rank == to && i < MESSAGES; i++)
                    MPI_Recv(&value, 1, MPI_DOUBLE, from, 0, comm, MPI_STATUS_IGNORE);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Comm_free(&comm);
    }
    MPI_Finalize();
    return 0;
}
