/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dynamic spawn N | names: an MPI program whose jobs connect.
 *   spawn  N children, merged with their parents; twice, one after the other
 *   names  one half publishes a port, the other looks it up and connects; and again after an
 *          unpublish
 * Prints "good" when sums over the connected processes are right.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>

static int rank, size;

static void check(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Over both sides: all processes are there, each with its number. */
static void check_both(MPI_Comm inter, int n, int high)
{
    MPI_Comm all;
    int me, sum, one = 1, had;

    MPI_Intercomm_merge(inter, high, &all);
    MPI_Comm_rank(all, &me);
    MPI_Allreduce(&one, &had, 1, MPI_INT, MPI_SUM, all);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, all);
    check(had == n && sum == n * (n - 1) / 2, "a sum over both jobs");
    MPI_Comm_free(&all); /* disconnecting hangs, under mpirun too */
    MPI_Comm_disconnect(&inter);
}

static void spawn(const char *self, int n)
{
    for (int i = 0; i < 2; i++) {
        char *argv[] = {"child", NULL};
        MPI_Comm inter;

        MPI_Comm_spawn(self, argv, n, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                       MPI_ERRCODES_IGNORE);
        check_both(inter, size + n, 0);
    }
}

static void child(MPI_Comm parent)
{
    int n;

    MPI_Comm_remote_size(parent, &n);
    check_both(parent, size + n, 1);
}

static void names(void)
{
    int second = rank >= (size + 1) / 2;
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm half, inter;

    MPI_Comm_split(MPI_COMM_WORLD, second, rank, &half);
    for (int i = 0; i < 2; i++) {
        if (rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, port);
            MPI_Publish_name("fencepost", MPI_INFO_NULL, port);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (second) {
            MPI_Lookup_name("fencepost", MPI_INFO_NULL, port); /* by each, and all find it */
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
        } else {
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
        }
        check_both(inter, size, second);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Unpublish_name("fencepost", MPI_INFO_NULL, port);
            MPI_Close_port(port);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Lookup_name("fencepost", MPI_INFO_NULL, port) != MPI_SUCCESS,
          "a name that was taken back is found");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        child(parent);
    else if (strcmp(what, "spawn") == 0)
        spawn(argv[0], atoi(argv[2]));
    else if (strcmp(what, "names") == 0)
        names();
    else
        check(0, "the command line");
    if (rank == 0 && parent == MPI_COMM_NULL)
        printf("good\n");
    MPI_Finalize();
    return 0;
}
