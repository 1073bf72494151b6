/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that is measured. Each peer is a file of its own that defines one `struct peer_ops`; the
 * benchmark calls through it once for thousands of Gets or Puts, and the loop over them is in the
 * peer's file, where the peer's own Get is inlined or called as its users would.
 *
 * The sequence is create, insert (in chunks), finish, then get, get_dependent, get_many and find in
 * any order, destroy. A value is read in place, as far as its first 8 bytes.
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

    /* Makes an empty store. `expected` entries will come; 0: not known, let it grow. NULL when it
     * cannot. */
    void *(*create)(uint64_t expected);
    /* 0, or not 0 when a pair cannot be stored. */
    int (*insert)(void *store, const struct pair *pairs, size_t n);
    /* What must be done between the last insert and the first get; may be NULL. 0 or not 0. */
    int (*finish)(void *store);
    /* One value, or NULL: to check every entry outside the clock. */
    const void *(*find)(void *store, const struct key *key, size_t len);
    /* n Gets that may overlap in the processor; the same, each waiting for the value before it.
     * Either may be NULL. */
    void (*get)(void *store, const struct queries *queries, struct sum *sum);
    void (*get_dependent)(void *store, const struct queries *queries, struct sum *sum);
    /* n Gets in batches; NULL: it has none. */
    void (*get_many)(void *store, const struct queries *queries, size_t batch, struct sum *sum);
    /* What a process does that comes later: its own view of a shared store, which the Gets use from
     * then on, instead of the one it inherited. With `populate` all pages are mapped at once. NULL:
     * the store is not shared. 0 or not 0. */
    int (*attach)(void *store, int populate);
    /* What the store takes: keys, values, index, and what its allocator adds. */
    uint64_t (*bytes)(void *store);
    /* The same with what it has set aside for more; NULL: not known. */
    uint64_t (*allocated)(void *store);
    void (*destroy)(void *store);
};

/* The peers that this build has, in the order of the tables; ours first. Ends with NULL. */
extern const struct peer_ops *const peers[];
/* What is not in this build and what it lacks, a line each, or "". */
extern const char peers_missing[];

const struct peer_ops *peer_find(const char *name);

/* For stores that can choose: keys for each 100 buckets or slots at which create(expected) is full.
 * 0: as they like. */
extern unsigned peer_load_percent;

/* Always 0, which the compiler does not know: it makes the next key depend on the last value. */
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
