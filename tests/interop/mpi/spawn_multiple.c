/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_spawn_multiple of two commands with different arguments and counts: one job, whose ranks
 * find their command by MPI_APPNUM. Status 77 where MPI has no ports. */
#include "world.h"

static int child(int argc, char **argv, MPI_Comm parent)
{
    int rank, size, appnum = world_attribute(MPI_APPNUM, -1);

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK_MSG(size == 3, "%d children, expected 3", size);
    CHECK_MSG(appnum == (rank == 2), "MPI_APPNUM is %d on rank %d", appnum, rank);
    if (rank == 2)
        CHECK_MSG(argc == 2 && !strcmp(argv[1], "the second"), "second command: argc %d, [%s]",
                  argc, argv[1]);
    else
        CHECK_MSG(argc == 3 && !strcmp(argv[1], "the first") && !strcmp(argv[2], "x=y"),
                  "first command: argc %d", argc);
    MPI_Barrier(parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);
    char *first[] = {(char[]){"the first"}, (char[]){"x=y"}, NULL},
         *second[] = {(char[]){"the second"}, NULL};
    char *commands[2], **argvs[] = {first, second}, self[4096], why[MPI_MAX_ERROR_STRING];
    int counts[] = {2, 1}, errcodes[] = {-7, -7, -7}, n_remote;
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm parent, inter;

    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(argc, argv, parent);
    if (!world_has_ports(why, sizeof(why)))
        return world_skip(&w, "spawn_multiple", why);
    snprintf(self, sizeof(self), "%s", own_path());
    commands[0] = commands[1] = self;
    MPI_Comm_spawn_multiple(2, commands, argvs, counts, infos, 0, MPI_COMM_WORLD, &inter, errcodes);
    for (int i = 0; i < 3; i++)
        CHECK_MSG(errcodes[i] == MPI_SUCCESS, "errcode %d of child %d", errcodes[i], i);
    MPI_Comm_remote_size(inter, &n_remote);
    CHECK_MSG(n_remote == 3, "%d children, expected 3", n_remote);
    MPI_Barrier(inter);
    MPI_Comm_disconnect(&inter);
    return world_end(&w, "spawn_multiple");
}
