/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of processors. hwloc has such sets too, but pmirun itself never loads hwloc, only a child
 * does (topology.c), and builds without hwloc bind to lists. */
#define _GNU_SOURCE
#include "place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BITS (8 * sizeof(unsigned long))

bool place_set_add(struct place_set *set, uint32_t cpu)
{
    const size_t word = cpu / WORD_BITS, bytes = (word + 1) * sizeof(unsigned long);

    if (bytes > set->bytes) {
        unsigned long *more = realloc(set->bits, bytes);

        if (!more)
            return false;
        memset((char *)more + set->bytes, 0, bytes - set->bytes);
        set->bits = more;
        set->bytes = bytes;
    }
    set->bits[word] |= 1ul << cpu % WORD_BITS;
    return true;
}

bool place_set_has(const struct place_set *set, uint32_t cpu)
{
    return cpu / 8 < set->bytes && (set->bits[cpu / WORD_BITS] >> cpu % WORD_BITS & 1);
}

uint32_t place_set_count(const struct place_set *set)
{
    uint32_t n = 0;

    for (size_t i = 0; i < set->bytes / sizeof(unsigned long); i++)
        n += (uint32_t)__builtin_popcountl(set->bits[i]);
    return n;
}

void place_set_free(struct place_set *set)
{
    free(set->bits);
    *set = (struct place_set){0};
}

char *place_set_text(const struct place_set *set)
{
    const char *comma = "";
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    for (uint32_t cpu = 0; f && cpu < 8 * set->bytes; cpu++) {
        uint32_t last = cpu;

        if (!place_set_has(set, cpu))
            continue;
        while (place_set_has(set, last + 1))
            last++;
        fprintf(f, last > cpu ? "%s%u-%u" : "%s%u", comma, cpu, last);
        comma = ",";
        cpu = last;
    }
    if (!f || fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
