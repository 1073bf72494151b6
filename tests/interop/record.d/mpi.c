/* SPDX-License-Identifier: BSD-3-Clause */
/* An MPI program, for its library's messages over PMI.  mpi MODE. */
#include <mpi.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "hello";
    char found[MPI_MAX_PORT_NAME] = "";
    const char *port =
        "tag#0$description#node0$"; /* MPI_Open_port() fails in an MPICH built for UCX */
    int rank, size, got = -1, sum = 0;
    MPI_Comm kids;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(mode, "ring") == 0) {
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT,
                     (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&got, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (sum != size * (size - 1) / 2) {
            return 1;
        }
    } else if (strcmp(mode, "spawn") == 0) {
        char *args[] = {(char *)"argument", NULL};

        MPI_Comm_spawn("kid", args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &kids,
                       MPI_ERRCODES_IGNORE);
    } else if (strcmp(mode, "name") == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        if (rank == 0) {
            MPI_Publish_name("ocean", MPI_INFO_NULL, port);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Lookup_name("ocean", MPI_INFO_NULL, found);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Unpublish_name("ocean", MPI_INFO_NULL, port);
            MPI_Lookup_name("ocean", MPI_INFO_NULL, found);
            MPI_Unpublish_name("ocean", MPI_INFO_NULL, port);
        }
    } else if (strcmp(mode, "abort") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == size - 1) {
            MPI_Abort(MPI_COMM_WORLD, 7);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
