/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of processors. hwloc has such sets too, but pmirun itself never loads hwloc, only a child
 * does (topology.c), and builds without hwloc bind to lists. */
#define _GNU_SOURCE
#include "place.h"

#include <stdio.h>
#include <stdlib.h>

void place_set_add(struct place_set *set, uint32_t cpu)
{
    set->bits[cpu / PLACE_WORD_BITS] |= 1ul << cpu % PLACE_WORD_BITS;
    if (cpu >= set->end)
        set->end = cpu + 1;
}

bool place_set_has(const struct place_set *set, uint32_t cpu)
{
    return cpu < set->end && (set->bits[cpu / PLACE_WORD_BITS] >> cpu % PLACE_WORD_BITS & 1);
}

uint32_t place_set_count(const struct place_set *set)
{
    uint32_t n = 0;

    for (uint32_t cpu = 0; cpu < set->end; cpu++)
        n += place_set_has(set, cpu);
    return n;
}

void place_set_print(FILE *f, const struct place_set *set)
{
    const char *comma = "";

    for (uint32_t cpu = 0; cpu < set->end; cpu++) {
        uint32_t last = cpu;

        if (!place_set_has(set, cpu))
            continue;
        while (place_set_has(set, last + 1))
            last++;
        fprintf(f, last > cpu ? "%s%u-%u" : "%s%u", comma, cpu, last);
        comma = ",";
        cpu = last;
    }
}

char *place_set_text(const struct place_set *set)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    if (f)
        place_set_print(f, set);
    if (!f || fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
