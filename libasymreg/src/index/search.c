/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Searching. How many keys of a node are at most the one sought is found in plain C, or four keys
 * at a time with AVX2 where the processor has it: with a million regions in clusters a lookup takes
 * 179 ns so, and 277 in plain C (bench_asym_lookup, both in one process). AVX-512 gained nothing
 * over AVX2.
 */
#include "index.h"

#if defined(__x86_64__) && !ASYMREG__TSAN
#include <immintrin.h>
#define HAVE_AVX2 1
#define AVX2      __attribute__((target("avx2,popcnt")))
#else
#define HAVE_AVX2 0
#endif

#define BATCH         16u
#define NO_SLOT       UINT32_MAX
#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef uint32_t rank_fn(const int64_t *keys, int64_t key);

/* A separator may grow meanwhile, hence the atomic loads; either value gives a right answer. */
static inline uint32_t rank_plain(const int64_t *keys, int64_t key)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < FANOUT; i++)
        n += __atomic_load_n(&keys[i], __ATOMIC_RELAXED) <= key;
    return n;
}

#if HAVE_AVX2
AVX2 static inline uint32_t rank_avx2(const int64_t *keys, int64_t key)
{
    const __m256i k = _mm256_set1_epi64x(key);
    const __m256i *v = (const __m256i *)(const void *)keys;
    /* Four sums of -1 for each key above, in each 64-bit lane. */
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
hit(struct asymreg__reader *r, const struct asymreg__index *ix, uint32_t n, uint64_t addr)
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

/* The region that holds an address, by way of the tree. */
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
    root = __atomic_load_n(&ix->root, __ATOMIC_ACQUIRE);
    node = (const void *)(root & ~(uintptr_t)63);
    for (uintptr_t depth = root & 63; depth > 1; depth--) {
        const struct asymreg__inner *inner = node;
        node = __atomic_load_n(&inner->child[rank(inner->keys, key) - 1], __ATOMIC_ACQUIRE);
    }
    leaf = node;
    __builtin_prefetch(leaf->slots);
    if ((n = rank(leaf->keys, key)))
        found = hit(r, ix, leaf->slots[n - 1], addr);
    asymreg__reader_exit(r);
    return found;
}

/* The slots that may hold several addresses; inside a section. All of them one level down, then all
 * of them the next, so that the cache misses of a level overlap. */
ALWAYS_INLINE void tree_search_many(const struct asymreg__index *ix, const uint64_t *addrs,
                                    uint32_t n, uint32_t *slots, rank_fn *rank)
{
    uintptr_t root = __atomic_load_n(&ix->root, __ATOMIC_ACQUIRE);
    const void *node[BATCH];

    for (uint32_t i = 0; i < n; i++)
        node[i] = (const void *)(root & ~(uintptr_t)63);
    for (uintptr_t depth = root & 63; depth > 1; depth--) {
        for (uint32_t i = 0; i < n; i++) {
            const struct asymreg__inner *inner = node[i];
            uint32_t at = rank(inner->keys, search_key(addrs[i])) - 1;
            node[i] = __atomic_load_n(&inner->child[at], __ATOMIC_ACQUIRE);
            __builtin_prefetch(node[i]);
            __builtin_prefetch((const char *)node[i] + 64);
            __builtin_prefetch((const char *)node[i] + 128);
            __builtin_prefetch((const char *)node[i] + (depth > 2 ? 192 : 0));
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct asymreg__leaf *leaf = node[i];
        uint32_t k = rank(leaf->keys, search_key(addrs[i]));
        slots[i] = k ? leaf->slots[k - 1] : NO_SLOT;
        if (k)
            __builtin_prefetch(&ix->slots[slots[i]]);
    }
}

static const struct asymreg_region *search_plain(struct asymreg__reader *r, uint64_t addr)
{
    return tree_search(r, addr, rank_plain);
}

static void search_many_plain(const struct asymreg__index *ix, const uint64_t *addrs, uint32_t n,
                              uint32_t *slots)
{
    tree_search_many(ix, addrs, n, slots, rank_plain);
}

#if HAVE_AVX2
AVX2 static const struct asymreg_region *search_avx2(struct asymreg__reader *r, uint64_t addr)
{
    return tree_search(r, addr, rank_avx2);
}

AVX2 static void search_many_avx2(const struct asymreg__index *ix, const uint64_t *addrs,
                                  uint32_t n, uint32_t *slots)
{
    tree_search_many(ix, addrs, n, slots, rank_avx2);
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
    const uint32_t *hints = __atomic_load_n(&ix->hints_on, __ATOMIC_ACQUIRE);
    const struct asymreg_region *found;
    uint32_t word;

    if (hints && (word = asymreg__hint_word(ix, hints, addr)) &&
        (found = hit(reader, ix, word - 1, addr)))
        return found;
    return ix->search(reader, addr);
}

const struct asymreg_region *asymreg__index_at(struct asymreg__reader *reader, asymreg_id id,
                                               uint64_t addr)
{
    const struct asymreg__index *ix = reader->index;
    uint32_t n = (uint32_t)id;

    return n < ix->max_regions &&
                   __atomic_load_n(&ix->slots[n].generation, __ATOMIC_RELAXED) == id >> 32
               ? hit(reader, ix, n, addr)
               : NULL;
}

int asymreg__index_lives(const struct asymreg__reader *reader, asymreg_id id)
{
    const struct asymreg__index *ix = reader->index;
    uint32_t n = (uint32_t)id;

    return (id >> 32 & 1) && n < ix->max_regions &&
           __atomic_load_n(&ix->slots[n].generation, __ATOMIC_RELAXED) == id >> 32;
}

/* Of several addresses, those that a hint leads to. Returns how many are left, and which. */
static uint32_t many_by_hint(const struct asymreg__index *ix, const uint64_t *addrs, uint32_t n,
                             struct asymreg_region *regions, uint32_t *left)
{
    const uint32_t *hints = __atomic_load_n(&ix->hints_on, __ATOMIC_ACQUIRE);
    uint32_t shift = __atomic_load_n(&ix->hint_shift, __ATOMIC_RELAXED),
             bits = __atomic_load_n(&ix->hint_bits, __ATOMIC_RELAXED);
    uint32_t words[BATCH], n_left = 0;

    if (hints)
        for (uint32_t i = 0; i < n; i++)
            __builtin_prefetch(&hints[asymreg__hint_place(addrs[i] >> shift, bits)]);
    for (uint32_t i = 0; i < n; i++) {
        words[i] = hints ? __atomic_load_n(&hints[asymreg__hint_place(addrs[i] >> shift, bits)],
                                           __ATOMIC_RELAXED)
                         : 0;
        if (words[i])
            __builtin_prefetch(&ix->slots[words[i] - 1]);
    }
    for (uint32_t i = 0; i < n; i++)
        if (!words[i] || !asymreg__slot_read(ix, words[i] - 1, addrs[i], &regions[i]))
            left[n_left++] = i;
    return n_left;
}

size_t asymreg__index_lookup_many(struct asymreg__reader *reader, const uint64_t *addrs, size_t n,
                                  struct asymreg_region *regions)
{
    const struct asymreg__index *ix = reader->index;
    uint32_t slots[BATCH], left[BATCH], n_left;
    uint64_t rest[BATCH];
    size_t found = 0;

    for (size_t done = 0; done < n; done += BATCH) {
        uint32_t batch = n - done < BATCH ? (uint32_t)(n - done) : BATCH;
        n_left = many_by_hint(ix, addrs + done, batch, regions + done, left);
        found += batch;
        for (uint32_t i = 0; i < batch; i++)
            regions[done + i].reserved = 0;
        if (!n_left)
            continue;
        for (uint32_t i = 0; i < n_left; i++)
            rest[i] = addrs[done + left[i]];
        asymreg__reader_enter(reader);
        ix->search_many(ix, rest, n_left, slots);
        for (uint32_t i = 0; i < n_left; i++) {
            struct asymreg_region *r = &regions[done + left[i]];
            if (slots[i] == NO_SLOT || !asymreg__slot_read(ix, slots[i], rest[i], r)) {
                r->id = ASYMREG_ANY;
                found--;
            }
        }
        asymreg__reader_exit(reader);
    }
    return found;
}
