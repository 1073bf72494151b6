/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pairs.h"

/* FNV-1a, its upper half mixed into the lower. */
static size_t hash_key(const char *key)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
    return (size_t)(h ^ h >> 32);
}

static struct pair **bucket_of(const struct pairs *pairs, const char *key)
{
    return &pairs->buckets[hash_key(key) & (pairs->n_buckets - 1)];
}

struct pair *pairs_find(const struct pairs *pairs, const char *key)
{
    struct pair *p = pairs->n_buckets ? *bucket_of(pairs, key) : NULL;

    while (p && strcmp(p->key, key) != 0)
        p = p->chain;
    return p;
}

static void link_pair(struct pairs *pairs, struct pair *p)
{
    struct pair **head = bucket_of(pairs, p->key);

    p->chain = *head;
    *head = p;
}

/* Make room for one more pair. */
static int grow_buckets(struct pairs *pairs)
{
    size_t n = pairs->n_buckets ? 2 * pairs->n_buckets : 64;
    struct pair **buckets;

    if (pairs->n < pairs->n_buckets)
        return 0;
    buckets = calloc(n, sizeof(struct pair *));
    if (!buckets)
        return -ENOMEM;
    free(pairs->buckets);
    pairs->buckets = buckets;
    pairs->n_buckets = n;
    for (struct pair *p = pairs->first; p; p = p->next)
        link_pair(pairs, p);
    return 0;
}

int pairs_prepare(struct pairs *pairs, const char *key, const char *value, struct pair **pair)
{
    struct pair *p = calloc(1, sizeof(*p));

    if (p) {
        p->key = strdup(key);
        p->value = strdup(value);
    }
    if (!p || !p->key || !p->value || grow_buckets(pairs) != 0) {
        pairs_drop(p);
        return -ENOMEM;
    }
    *pair = p;
    return 0;
}

void pairs_add(struct pairs *pairs, struct pair *pair)
{
    struct pair *old = pairs_find(pairs, pair->key);

    if (old) {
        char *value = old->value;

        old->value = pair->value;
        pair->value = value;
        pairs_drop(pair);
        return;
    }
    if (pairs->last)
        pairs->last->next = pair;
    else
        pairs->first = pair;
    pairs->last = pair;
    pairs->n++;
    link_pair(pairs, pair);
}

void pairs_drop(struct pair *pair)
{
    if (!pair)
        return;
    free(pair->key);
    free(pair->value);
    free(pair);
}

void pairs_free(struct pairs *pairs)
{
    for (struct pair *p = pairs->first, *next; p; p = next) {
        next = p->next;
        pairs_drop(p);
    }
    free(pairs->buckets);
    memset(pairs, 0, sizeof(*pairs));
}
