/* SPDX-License-Identifier: BSD-3-Clause */
/* What an MPI program makes its library say over PMI.  mpi MODE; spawned processes run the same source as `kid'. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void spawn(int two)
{
    char *argv1[] = { "first", "two words", "k=v;w", NULL }, *argv2[] = { "other", NULL };
    char *cmds[] = { "kid", "kid" }, **argvs[] = { argv1, argv2 };
    int counts[] = { 1, 2 }, codes[3] = { 0 };
    MPI_Info info, infos[2];
    MPI_Comm kids;

    MPI_Info_create(&info);
    MPI_Info_set(info, "wdir", "/mnt");
    MPI_Info_set(info, "path", "/mnt");
    infos[0] = info;
    infos[1] = info;
    if (two) {
        MPI_Comm_spawn_multiple(2, cmds, argvs, counts, infos, 0, MPI_COMM_WORLD, &kids, codes);
    } else {
        MPI_Comm_spawn("kid", argv1, 2, info, 0, MPI_COMM_WORLD, &kids, codes);
    }
    MPI_Barrier(kids);
    MPI_Comm_disconnect(&kids);
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "hello";
    char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME] = "";
    int rank, size, got = -1, sum = 0;
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Barrier(parent);
        MPI_Comm_disconnect(&parent);
    } else if (strcmp(mode, "ring") == 0) {
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&got, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (sum != size * (size - 1) / 2) {
            return 1;
        }
    } else if (strcmp(mode, "spawn") == 0) {
        spawn(0);
    } else if (strcmp(mode, "multi") == 0) {
        spawn(1);
    } else if (strcmp(mode, "name") == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        if (rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, port);
            MPI_Publish_name("ocean", MPI_INFO_NULL, port);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Lookup_name("ocean", MPI_INFO_NULL, found);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Unpublish_name("ocean", MPI_INFO_NULL, port);
            MPI_Lookup_name("ocean", MPI_INFO_NULL, found);
            MPI_Unpublish_name("ocean", MPI_INFO_NULL, port);
            MPI_Close_port(port);
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
