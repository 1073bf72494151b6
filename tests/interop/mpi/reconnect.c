/* SPDX-License-Identifier: BSD-3-Clause */
/* Ten rounds: spawn two children, disconnect, connect again by a name that the parents have
 * published, and disconnect. The children of a round end while the next is being spawned. Status 77
 * where MPI has no ports. */
#include "world.h"

#define ROUNDS   10
#define CHILDREN 2

/* Every rank receives the sum of the other side's ranks. */
static void talk(MPI_Comm inter, int rank)
{
    int n, sum = -1;

    MPI_Comm_remote_size(inter, &n);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    CHECK_MSG(sum == n * (n - 1) / 2, "the sum of %d ranks is %d", n, sum);
    MPI_Comm_disconnect(&inter);
}

static int child(MPI_Comm parent, int rank)
{
    char name[64], port[MPI_MAX_PORT_NAME];
    MPI_Comm inter;

    MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, parent);
    MPI_Comm_disconnect(&parent);
    if (rank == 0)
        MPI_Lookup_name(name, MPI_INFO_NULL, port);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    talk(inter, rank);
    MPI_Finalize();
    return 0;
}

static void round_of(const struct world *w, int number)
{
    char name[64], port[MPI_MAX_PORT_NAME];
    MPI_Comm inter;

    snprintf(name, sizeof(name), "reconnect-%ld-%d", (long)getpid(), number);
    MPI_Comm_spawn(own_path(), MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                   MPI_ERRCODES_IGNORE);
    if (w->rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name(name, MPI_INFO_NULL, port);
    }
    MPI_Bcast(name, sizeof(name), MPI_CHAR, w->rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    MPI_Comm_disconnect(&inter);
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    talk(inter, w->rank);
    if (w->rank == 0) {
        MPI_Unpublish_name(name, MPI_INFO_NULL, port);
        MPI_Close_port(port);
    }
}

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);
    char why[MPI_MAX_ERROR_STRING];
    MPI_Comm parent;

    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, w.rank);
    if (!world_has_ports(why, sizeof(why)))
        return world_skip(&w, "reconnect", why);
    for (int i = 0; i < ROUNDS; i++)
        round_of(&w, i);
    return world_end(&w, "reconnect");
}
