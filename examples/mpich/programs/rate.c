/* SPDX-License-Identifier: BSD-3-Clause */
/* rate: messages of 8 bytes a second from rank 0 to rank 1, in windows of 64, for a communicator of
 * each kind. */
#include <stdio.h>

#include "kinds.h"

#define WINDOW  64
#define WINDOWS 2000

int main(int argc, char **argv)
{
    int world;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    for (int k = 0; kinds[k]; k++) {
        MPI_Request request[WINDOW];
        static double value[WINDOW];
        double start = 0;
        int rank, size, peer;
        MPI_Comm comm;

        kind_make(kinds[k], 1, &comm);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        peer = 1 - rank;
        for (int w = -200; size > 1 && w < WINDOWS; w++) {
            if (w == 0)
                start = MPI_Wtime();
            for (int i = 0; i < WINDOW; i++)
                if (rank == 0)
                    MPI_Isend(&value[i], 1, MPI_DOUBLE, peer, 0, comm, &request[i]);
                else
                    MPI_Irecv(&value[i], 1, MPI_DOUBLE, peer, 0, comm, &request[i]);
            MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
            if (rank == 0)
                MPI_Recv(value, 0, MPI_DOUBLE, peer, 1, comm, MPI_STATUS_IGNORE);
            else
                MPI_Send(value, 0, MPI_DOUBLE, peer, 1, comm);
        }
        if (rank == 0 && size > 1)
            printf("rate %s %.0f\n", kinds[k], WINDOW * (double)WINDOWS / (MPI_Wtime() - start));
        MPI_Comm_free(&comm);
    }
    MPI_Finalize();
    return 0;
}
