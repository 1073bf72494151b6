/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_split by parity with the order reversed, and MPI_Comm_split_type, which depends on
 * PMI_process_mapping: one host must give one communicator of all ranks. */
#include "world.h"

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);
    MPI_Comm half, node;
    int rank, size, sum = 0, expected = 0, members = 0;

    MPI_Comm_split(MPI_COMM_WORLD, w.rank % 2, -w.rank, &half);
    MPI_Comm_rank(half, &rank);
    MPI_Comm_size(half, &size);
    for (int i = w.rank % 2; i < w.size; i += 2) {
        expected += i;
        members++;
    }
    CHECK_MSG(size == members, "half has %d ranks, expected %d", size, members);
    CHECK_MSG(rank == size - 1 - w.rank / 2, "rank %d in the half, reversed order asked", rank);
    MPI_Allreduce(&w.rank, &sum, 1, MPI_INT, MPI_SUM, half);
    CHECK_MSG(sum == expected, "sum %d in the half, expected %d", sum, expected);
    MPI_Comm_free(&half);

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, w.rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_size(node, &size);
    if (argc > 1) /* the ranks of one host, from the caller */
        CHECK_MSG(size == atoi(argv[1]), "%d ranks on this host, expected %s", size, argv[1]);
    CHECK_MSG(rank < size && size <= w.size, "rank %d of %d on this host", rank, size);
    MPI_Comm_free(&node);

    MPI_Comm_split(MPI_COMM_WORLD, w.rank == 0 ? 0 : MPI_UNDEFINED, 0, &half);
    CHECK_MSG((half == MPI_COMM_NULL) == (w.rank != 0), "MPI_UNDEFINED gave a communicator");
    if (half != MPI_COMM_NULL)
        MPI_Comm_free(&half);
    return world_end(&w, "split");
}
