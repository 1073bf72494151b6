/* SPDX-License-Identifier: BSD-3-Clause */
/* The number of ranks that share each kind of object with this one, as Open MPI derives it from its
 * launcher's data about its peers' binding. */
#include "../mpi/world.h"

static const struct {
    const char *name;
    int type;
} objects[] = {{"hwthread", OMPI_COMM_TYPE_HWTHREAD}, {"core", OMPI_COMM_TYPE_CORE},
               {"l1", OMPI_COMM_TYPE_L1CACHE},        {"l2", OMPI_COMM_TYPE_L2CACHE},
               {"l3", OMPI_COMM_TYPE_L3CACHE},        {"socket", OMPI_COMM_TYPE_SOCKET},
               {"numa", OMPI_COMM_TYPE_NUMA},         {"node", OMPI_COMM_TYPE_NODE}};

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);
    char line[256];
    int n = snprintf(line, sizeof(line), "rank %d shares", w.rank);

    for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
        MPI_Comm sharing;
        int size;

        MPI_Comm_split_type(MPI_COMM_WORLD, objects[i].type, w.rank, MPI_INFO_NULL, &sharing);
        MPI_Comm_size(sharing, &size);
        MPI_Comm_free(&sharing);
        n += snprintf(line + n, sizeof(line) - (size_t)n, " %s=%d", objects[i].name, size);
    }
    puts(line);
    return world_end(&w, "locality");
}
