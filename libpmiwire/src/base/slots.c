/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash table of the server's stores and of the exchange's keys. */
#include "base_internal.h"

void pmiwire__slot_remove(struct pmiwire__slots *s, size_t i)
{
    const size_t mask = s->n - 1;

    s->at[i].item = 0;
    /* Moves items back that a search would no longer reach: all but those whose first slot lies
     * cyclically in (i, j]. */
    for (size_t j = (i + 1) & mask; s->at[j].item; j = (j + 1) & mask)
        if (((j - s->at[j].hash) & mask) >= ((j - i) & mask)) {
            s->at[i] = s->at[j];
            s->at[j].item = 0;
            i = j;
        }
}

void pmiwire__slots_move(struct pmiwire__slots *to, const struct pmiwire__slots *from)
{
    memset(to->at, 0, to->n * sizeof(*to->at));
    for (size_t i = 0; i < from->n; i++)
        if (from->at[i].item) {
            size_t j = from->at[i].hash & (to->n - 1);

            while (to->at[j].item)
                j = (j + 1) & (to->n - 1);
            to->at[j] = from->at[i];
        }
}
