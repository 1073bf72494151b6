/* SPDX-License-Identifier: BSD-3-Clause */
/* A token passes round the ring; each rank adds its number. Needs every neighbour's address from
 * the launcher. */
#include "world.h"

enum { ROUNDS = 3 };

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);
    int next = (w.rank + 1) % w.size, before = (w.rank + w.size - 1) % w.size;

    for (int round = 0; round < ROUNDS; round++) {
        long token = 1000 * round, expected = token;

        for (int i = 0; i < w.size; i++)
            expected += i;
        if (w.size == 1) {
            MPI_Sendrecv_replace(&token, 1, MPI_LONG, 0, round, 0, round, MPI_COMM_WORLD,
                                 MPI_STATUS_IGNORE);
        } else if (w.rank == 0) {
            MPI_Send(&token, 1, MPI_LONG, next, round, MPI_COMM_WORLD);
            MPI_Recv(&token, 1, MPI_LONG, before, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&token, 1, MPI_LONG, before, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            token += w.rank;
            MPI_Send(&token, 1, MPI_LONG, next, round, MPI_COMM_WORLD);
        }
        if (w.rank == 0)
            CHECK_MSG(token == expected, "round %d: token %ld, expected %ld", round, token,
                      expected);
    }
    return world_end(&w, "ring");
}
