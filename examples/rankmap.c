/* SPDX-License-Identifier: BSD-3-Clause */
#include <rankmap.h>
#include <stdio.h>

int main(void)
{
    static uint64_t address[4096]; /* what the runtime knows of each process, by id */
    struct rankmap *world, *even, *child;
    struct rankmap_lookup lookup;
    char text[128];

    for (uint64_t id = 0; id < 4096; id++)
        address[id] = 0x1000 + id;
    if (rankmap_affine(0, 1, 4096, NULL, &world) < 0 ||   /* MPI_COMM_WORLD */
        rankmap_affine(0, 2, 2048, NULL, &even) < 0 ||    /* every second rank of something */
        rankmap_compose(world, even, NULL, &child) < 0 || /* MPI_Comm_split of the world */
        rankmap_lookup_init(&lookup, child, (uintptr_t)address, sizeof(address[0])) < 0)
        return 1;
    rankmap_describe(child, text, sizeof(text));
    printf("%s; rank 7 is at %#llx\n", text, *(unsigned long long *)rankmap_addr(&lookup, 7));
    rankmap_unref(child);
    rankmap_unref(even);
    rankmap_unref(world);
    return 0;
}
