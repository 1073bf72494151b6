/* SPDX-License-Identifier: BSD-3-Clause */
#include "rank_index.h"

#include <errno.h>
#include <stdlib.h>

static size_t slot_of_key(const struct rank_index *ix, uint32_t key)
{
    return (key * 2654435761u) & (ix->cap - 1);
}

/* The slot of the rank with this key, or its free slot. There are slots. */
static size_t find_slot(const struct rank_index *ix, uint32_t key)
{
    size_t i = slot_of_key(ix, key);

    while (ix->slots[i] && ix->key(ix->slots[i]) != key)
        i = (i + 1) & (ix->cap - 1);
    return i;
}

int rank_index_reserve(struct rank_index *ix)
{
    struct rank **old = ix->slots;
    size_t old_cap = ix->cap;

    if ((ix->n + 1) * 2 <= ix->cap)
        return 0;
    ix->slots = calloc(old_cap ? 2 * old_cap : 64, sizeof(struct rank *));
    if (!ix->slots) {
        ix->slots = old;
        return -ENOMEM;
    }
    ix->cap = old_cap ? 2 * old_cap : 64;
    for (size_t i = 0; i < old_cap; i++)
        if (old[i])
            ix->slots[find_slot(ix, ix->key(old[i]))] = old[i];
    free(old);
    return 0;
}

void rank_index_add(struct rank_index *ix, struct rank *r)
{
    ix->slots[find_slot(ix, ix->key(r))] = r;
    ix->n++;
}

struct rank *rank_index_find(const struct rank_index *ix, uint32_t key)
{
    return ix->cap ? ix->slots[find_slot(ix, key)] : NULL;
}

void rank_index_remove(struct rank_index *ix, const struct rank *r)
{
    const size_t mask = ix->cap - 1;
    size_t i, j;

    if (rank_index_find(ix, ix->key(r)) != r)
        return;
    i = find_slot(ix, ix->key(r));
    ix->slots[i] = NULL;
    ix->n--;
    for (j = (i + 1) & mask; ix->slots[j]; j = (j + 1) & mask) { /* close the gap */
        if (((j - slot_of_key(ix, ix->key(ix->slots[j]))) & mask) >= ((j - i) & mask)) {
            ix->slots[i] = ix->slots[j];
            ix->slots[j] = NULL;
            i = j;
        }
    }
}
