/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A measured store. Each peer is a file of its own that defines one `struct peer_ops`; the
 * benchmark calls through it once for thousands of Gets or Puts, and the loop over them is in the
 * peer's file, where the peer's own Get is inlined or called as its users would.
 *
 * The sequence is create, insert (in chunks), finish, then get, get_dependent, get_many and find in
 * any order, destroy. A read takes the first 8 bytes of a value, in place.
 */
#ifndef FENCEPOST_SHMHT_PEER_H
#define FENCEPOST_SHMHT_PEER_H

#include "data.h"

#ifdef __cplusplus
extern "C" {
#endif

struct peer_ops {
    const char *name;
    unsigned bytes_an_entry; /* about, at most; to plan which peers fit into memory together */

    /* Makes an empty store for `expected` entries; 0: unknown, the store grows. NULL on failure. */
    void *(*create)(uint64_t expected);
    /* 0, or not 0 when a pair cannot be stored. */
    int (*insert)(void *store, const struct pair *pairs, size_t n);
    /* Work between the last insert and the first get; may be NULL. 0 or not 0. */
    int (*finish)(void *store);
    /* One value, or NULL: to check every entry outside the clock. */
    const void *(*find)(void *store, const struct key *key, size_t len);
    /* n Gets that may overlap in the processor; the same, each waiting for the value before it.
     * Either may be NULL. */
    void (*get)(void *store, const struct queries *queries, struct sum *sum);
    void (*get_dependent)(void *store, const struct queries *queries, struct sum *sum);
    /* n Gets in batches; NULL: no such call. */
    void (*get_many)(void *store, const struct queries *queries, size_t batch, struct sum *sum);
    /* A later process attaches: makes its own view of a shared store, which its Gets use instead of
     * the inherited one. With `populate` all pages are mapped at once. NULL: the store is not
     * shared. 0 or not 0. */
    int (*attach)(void *store, int populate);
    /* The store's memory: keys, values, index, and the allocator's overhead. */
    uint64_t (*bytes)(void *store);
    /* The same with its reserve for growth; NULL: unknown. */
    uint64_t (*allocated)(void *store);
    void (*destroy)(void *store);
};

/* The peers that this build has, in the order of the tables; ours first. Ends with NULL. */
extern const struct peer_ops *const peers[];
/* The peers that are not in this build and their missing packages, a line each, or "". */
extern const char peers_missing[];

const struct peer_ops *peer_find(const char *name);

/* For stores with a choice: keys for each 100 buckets or slots at which create(expected) is full.
 * 0: their own choice. */
extern unsigned peer_load_percent;

/* Always 0, unknown to the compiler: makes the next key depend on the last value. */
extern volatile uint64_t peer_zero;

/*
 * The loops around `LOOK_UP(store, const struct key *key, size_t len)`, a static inline function or
 * a call that gives a pointer to the value or NULL: PREFIX_find, PREFIX_get and
 * PREFIX_get_dependent. len is without the NUL, which may be stored and compared too.
 */
#define PEER_LOOPS(PREFIX, LOOK_UP)                                                                \
    static const void *PREFIX##_find(void *store, const struct key *key, size_t len)               \
    {                                                                                              \
        return LOOK_UP(store, key, len);                                                           \
    }                                                                                              \
                                                                                                   \
    static void PREFIX##_get(void *store, const struct queries *queries, struct sum *sum)          \
    {                                                                                              \
        const struct key *keys = queries->keys;                                                    \
        const size_t len = queries->key_len;                                                       \
        uint64_t found = 0, mix = 0;                                                               \
                                                                                                   \
        for (size_t i = 0, n = queries->n; i < n; i++) {                                           \
            const void *value = LOOK_UP(store, &keys[i], len);                                     \
                                                                                                   \
            if (value) {                                                                           \
                found++;                                                                           \
                mix += data_head(value);                                                           \
            }                                                                                      \
        }                                                                                          \
        sum->found += found;                                                                       \
        sum->mix += mix;                                                                           \
    }                                                                                              \
                                                                                                   \
    static void PREFIX##_get_dependent(void *store, const struct queries *queries,                 \
                                       struct sum *sum)                                            \
    {                                                                                              \
        const struct key *keys = queries->keys;                                                    \
        const size_t len = queries->key_len;                                                       \
        uint64_t found = 0, mix = 0, zero = peer_zero;                                             \
                                                                                                   \
        for (size_t i = 0, n = queries->n; i < n; i++) {                                           \
            const void *value = LOOK_UP(store, &keys[i + (mix & zero)], len);                      \
                                                                                                   \
            if (value) {                                                                           \
                found++;                                                                           \
                mix += data_head(value);                                                           \
            }                                                                                      \
        }                                                                                          \
        sum->found += found;                                                                       \
        sum->mix += mix;                                                                           \
    }

#ifdef __cplusplus
}
#endif

#endif
