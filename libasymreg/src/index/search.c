/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Searching. Plain C or AVX2 (four keys at a time) counts the keys of a node that are at most the
 * searched one. With a million regions in clusters a lookup takes 179 ns with AVX2 and 277 in plain
 * C (bench_asym_lookup, both in one process). AVX-512 was not faster than AVX2.
 */
#include "index.h"

#if defined(__x86_64__) && !ASYMREG__TSAN
#include <immintrin.h>
#define HAVE_AVX2 1
#define AVX2      __attribute__((target("avx2,popcnt")))
#else
#define HAVE_AVX2 0
#endif

typedef uint32_t rank_fn(const int64_t *keys, int64_t key);

/* A separator may grow during the search, hence the atomic loads; both values give a correct
 * answer. */
static inline uint32_t rank_plain(const int64_t *keys, int64_t key)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < FANOUT; i++)
        n += atomic_load_explicit((const _Atomic int64_t *)&keys[i], memory_order_relaxed) <= key;
    return n;
}

#if HAVE_AVX2
AVX2 static inline uint32_t rank_avx2(const int64_t *keys, int64_t key)
{
    const __m256i k = _mm256_set1_epi64x(key);
    const __m256i *v = (const __m256i *)(const void *)keys;
    /* Each 64-bit lane sums -1 for each key above. */
    __m256i above =
        _mm256_add_epi64(_mm256_add_epi64(_mm256_cmpgt_epi64(_mm256_load_si256(v), k),
                                          _mm256_cmpgt_epi64(_mm256_load_si256(v + 1), k)),
                         _mm256_add_epi64(_mm256_cmpgt_epi64(_mm256_load_si256(v + 2), k),
                                          _mm256_cmpgt_epi64(_mm256_load_si256(v + 3), k)));
    __m128i sum = _mm_add_epi64(_mm256_castsi256_si128(above), _mm256_extracti128_si256(above, 1));

    return FANOUT + (uint32_t)(_mm_cvtsi128_si64(sum) + _mm_extract_epi64(sum, 1));
}
#endif

static inline const struct asymreg_region *
reader_hit(struct asymreg__reader *r, const struct asymreg__index *ix, uint32_t n, uint64_t addr)
{
    if (!asymreg__slot_read(ix, n, addr, &r->hit))
        return NULL;
    r->hit_span = r->hit.last - r->hit.start;
    r->generation = &ix->slots[n].generation;
    r->hit_generation = (uint32_t)(r->hit.id >> 32);
    return &r->hit;
}

static inline int64_t search_key(uint64_t addr)
{
    return asymreg__key(addr < UINT64_MAX ? addr : addr - 1);
}

/* Searches the tree for the region of an address. */
ALWAYS_INLINE const struct asymreg_region *tree_search(struct asymreg__reader *r, uint64_t addr,
                                                       rank_fn *rank)
{
    const struct asymreg__index *ix = r->index;
    const struct asymreg_region *found = NULL;
    const struct asymreg__leaf *leaf;
    int64_t key = search_key(addr);
    const void *node;
    uintptr_t root;
    uint32_t n;

    asymreg__reader_enter(r);
    root = atomic_load_explicit(&ix->root, memory_order_acquire);
    node = (const void *)(root & ~(uintptr_t)63);
    for (uintptr_t depth = root & 63; depth > 1; depth--) {
        const struct asymreg__inner *inner = node;
        node =
            atomic_load_explicit(&inner->child[rank(inner->keys, key) - 1], memory_order_acquire);
    }
    leaf = node;
    __builtin_prefetch(leaf->slots);
    n = rank(leaf->keys, key);
    if (n)
        found = reader_hit(r, ix, leaf->slots[n - 1], addr);
    asymreg__reader_exit(r);
    return found;
}

/* Searches for many addresses at once, one level of the tree after the other. */
ALWAYS_INLINE void tree_search_many(const struct asymreg__index *ix, const uint64_t *addrs,
                                    const uint32_t *which, uint32_t n, uint32_t *words,
                                    rank_fn *rank)
{
    uintptr_t root = atomic_load_explicit(&ix->root, memory_order_acquire);
    const void *nodes[ASYMREG__BATCH];

    for (uint32_t i = 0; i < n; i++)
        nodes[i] = (const void *)(root & ~(uintptr_t)63);
    for (uintptr_t depth = root & 63; depth > 1; depth--)
        for (uint32_t i = 0; i < n; i++) {
            const struct asymreg__inner *inner = nodes[i];
            uint32_t k = rank(inner->keys, search_key(addrs[which[i]]));
            const char *node = atomic_load_explicit(&inner->child[k - 1], memory_order_acquire);

            __builtin_prefetch(node);
            __builtin_prefetch(node + 64);
            if (depth == 2) /* the slots of a leaf */
                __builtin_prefetch(node + 128);
            nodes[i] = node;
        }
    for (uint32_t i = 0; i < n; i++) {
        const struct asymreg__leaf *leaf = nodes[i];
        uint32_t k = rank(leaf->keys, search_key(addrs[which[i]])), slot = 0;

        if (k) {
            slot = leaf->slots[k - 1] + 1;
            __builtin_prefetch(&ix->slots[slot - 1]);
        }
        words[which[i]] = slot;
    }
}

static void search_many_plain(const struct asymreg__index *ix, const uint64_t *addrs,
                              const uint32_t *which, uint32_t n, uint32_t *words)
{
    tree_search_many(ix, addrs, which, n, words, rank_plain);
}

static const struct asymreg_region *search_plain(struct asymreg__reader *r, uint64_t addr)
{
    return tree_search(r, addr, rank_plain);
}

#if HAVE_AVX2
AVX2 static const struct asymreg_region *search_avx2(struct asymreg__reader *r, uint64_t addr)
{
    return tree_search(r, addr, rank_avx2);
}

AVX2 static void search_many_avx2(const struct asymreg__index *ix, const uint64_t *addrs,
                                  const uint32_t *which, uint32_t n, uint32_t *words)
{
    tree_search_many(ix, addrs, which, n, words, rank_avx2);
}

#endif

void asymreg__search_pick(struct asymreg__index *ix, int plain)
{
    ix->search = search_plain;
    ix->search_many = search_many_plain;
#if HAVE_AVX2
    __builtin_cpu_init();
    if (!plain && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt")) {
        ix->search = search_avx2;
        ix->search_many = search_many_avx2;
    }
#else
    (void)plain;
#endif
}

uint32_t asymreg__rank(const int64_t *keys, int64_t key)
{
    return rank_plain(keys, key);
}

const struct asymreg_region *asymreg__index_search(struct asymreg__reader *reader, uint64_t addr)
{
    const struct asymreg__index *ix = reader->index;
    const _Atomic uint32_t *hints = atomic_load_explicit(&ix->hints_on, memory_order_acquire);
    uint32_t word = hints ? asymreg__hint_word(ix, hints, addr) : 0;
    const struct asymreg_region *found = word ? reader_hit(reader, ix, word - 1, addr) : NULL;

    return found ? found : ix->search(reader, addr);
}

void asymreg__index_search_many(const struct asymreg__index *ix, const uint64_t *addrs, uint32_t n,
                                uint32_t *words)
{
    const _Atomic uint32_t *hints = atomic_load_explicit(&ix->hints_on, memory_order_acquire);
    uint32_t rest[ASYMREG__BATCH], n_rest = 0;
    struct asymreg_region region;

    if (hints) {
        uint32_t shift = atomic_load_explicit(&ix->hint_shift, memory_order_relaxed),
                 bits = atomic_load_explicit(&ix->hint_bits, memory_order_relaxed);

        for (uint32_t i = 0; i < n; i++)
            __builtin_prefetch(&hints[asymreg__hint_place(addrs[i] >> shift, bits)]);
        for (uint32_t i = 0; i < n; i++) {
            words[i] = asymreg__hint_word(ix, hints, addrs[i]);
            if (words[i])
                __builtin_prefetch(&ix->slots[words[i] - 1]);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        if (!hints || !words[i] || !asymreg__slot_read(ix, words[i] - 1, addrs[i], &region))
            rest[n_rest++] = i;
    if (n_rest)
        ix->search_many(ix, addrs, rest, n_rest, words);
}

int asymreg__index_lives(const struct asymreg__index *ix, asymreg_id id)
{
    uint32_t n = (uint32_t)id;

    return (id >> 32 & 1) && n < ix->max_regions &&
           atomic_load_explicit(&ix->slots[n].generation, memory_order_relaxed) == id >> 32;
}
