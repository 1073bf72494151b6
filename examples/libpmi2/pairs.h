/* SPDX-License-Identifier: BSD-3-Clause */
/* The pairs that this process has put: a hash table that keeps the order of the first puts. */
#ifndef FENCEPOST_LIBPMI2_PAIRS_H
#define FENCEPOST_LIBPMI2_PAIRS_H

#include <stddef.h>

struct pair {
    struct pair *next;  /* in the order in which keys were first put */
    struct pair *chain; /* in its bucket */
    char *key, *value;
};

/* Begins with zeros. */
struct pairs {
    struct pair *first, *last;
    struct pair **buckets;
    size_t n, n_buckets; /* n_buckets: a power of two; or 0 */
};

struct pair *pairs_find(const struct pairs *pairs, const char *key);
/* Allocate everything needed to add this pair; copies key and value. 0 or -ENOMEM. */
int pairs_prepare(struct pairs *pairs, const char *key, const char *value, struct pair **pair);
/* Add a pair that was prepared, or give its value to the key's pair. Cannot fail. */
void pairs_add(struct pairs *pairs, struct pair *pair);
/* Free a pair that was prepared and not added, or NULL. */
void pairs_drop(struct pair *pair);
void pairs_free(struct pairs *pairs);

#endif
