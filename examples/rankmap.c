/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_split() of a world of 4096 ranks into even and odd ones: the map is a formula. */
#include <rankmap.h>
#include <stdio.h>

int main(void)
{
    static uint64_t address[4096];              /* what the runtime knows of each process, by id */
    static struct rankmap_member members[4096]; /* each rank's color and key */
    struct rankmap *world, *even;
    struct rankmap_lookup lookup;
    struct rankmap_error err;
    char text[128];

    for (uint32_t rank = 0; rank < 4096; rank++) {
        address[rank] = 0x1000 + rank;
        members[rank] = (struct rankmap_member){.rank = rank, .color = rank % 2, .key = 0};
    }
    if (rankmap_affine(0, 1, 4096, NULL, &world) < 0) /* MPI_COMM_WORLD */
        return 1;
    if (rankmap_split(world, members, 4096, 0, NULL, &even, &err) < 0)
        return fprintf(stderr, "split: %s\n", err.text), 1;
    if (rankmap_lookup_init(&lookup, even, (uintptr_t)address, sizeof(address[0])) < 0)
        return 1;
    rankmap_describe(even, text, sizeof(text));
    printf("%s; rank 7 is at %#llx\n", text, *(unsigned long long *)rankmap_addr(&lookup, 7));
    rankmap_unref(even);
    rankmap_unref(world);
    return 0;
}
