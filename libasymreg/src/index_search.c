/* SPDX-License-Identifier: BSD-3-Clause */
/* Searching: how many keys of a node are at most the one sought, in three ways with one result. */
#include "index.h"

#include <errno.h>

#if defined(__x86_64__) && !ASYMREG__TSAN
#include <immintrin.h>
#define HAVE_SIMD 1
#else
#define HAVE_SIMD 0
#endif

#define BATCH 16u

/* A separator may grow meanwhile, hence the atomic loads; either value gives a right answer. */
static inline uint32_t rank_none(const int64_t *keys, int64_t key)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < FANOUT; i++)
        n += __atomic_load_n(&keys[i], __ATOMIC_RELAXED) <= key;
    return n;
}

#if HAVE_SIMD
__attribute__((target("avx2,popcnt"))) static inline uint32_t rank_avx2(const int64_t *keys,
                                                                        int64_t key)
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

__attribute__((target("avx512f,avx512bw,avx512vl,popcnt"))) static inline uint32_t
rank_avx512(const int64_t *keys, int64_t key)
{
    const __m512i k = _mm512_set1_epi64(key);
    uint32_t low = _mm512_cmple_epi64_mask(_mm512_load_si512(keys), k);
    uint32_t high = _mm512_cmple_epi64_mask(_mm512_load_si512(keys + 8), k);

    /* gcc 12 may spill an 8-bit mask as a byte and reload it as a word (seen with -O1
     * -fsanitize=undefined). */
    __asm__("movzbl %b0, %0\n\tmovzbl %b1, %1" : "+r"(low), "+r"(high));
    return (uint32_t)__builtin_popcount(low | high << 8);
}
#endif

static inline const struct asymreg_region *
hit(struct asymreg_reader *r, const struct asymreg_index *ix, uint32_t n, uint64_t addr)
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

#define NO_SLOT UINT32_MAX

/* The searches, of one address and of several, compiled for each way of ranking. */
#define DEFINE_SEARCH(name, rank, attributes)                                                        \
    attributes static const struct asymreg_region *name(struct asymreg_reader *r, uint64_t addr)     \
    {                                                                                                \
        const struct asymreg_index *ix = r->index;                                                   \
        const struct asymreg_region *found = NULL;                                                   \
        int64_t key = search_key(addr);                                                              \
                                                                                                     \
        asymreg__reader_enter(r);                                                                    \
        uintptr_t root = __atomic_load_n(&ix->root, __ATOMIC_ACQUIRE);                               \
        const void *node = (const void *)(root & ~(uintptr_t)63);                                    \
        for (uintptr_t depth = root & 63; depth > 1; depth--) {                                      \
            const struct asymreg__inner *inner = node;                                               \
            node = __atomic_load_n(&inner->child[rank(inner->keys, key) - 1], __ATOMIC_ACQUIRE);     \
        }                                                                                            \
        const struct asymreg__leaf *leaf = node;                                                     \
        __builtin_prefetch(leaf->slots);                                                             \
        uint32_t n = rank(leaf->keys, key);                                                          \
        if (n)                                                                                       \
            found = hit(r, ix, leaf->slots[n - 1], addr);                                            \
        asymreg__reader_exit(r);                                                                     \
        return found;                                                                                \
    }                                                                                                \
                                                                                                     \
    /* All of them one level down, then all of them the next: the cache misses of a level overlap. \
     */ \
    attributes static void name##_many(const struct asymreg_index *ix, const uint64_t *addrs,        \
                                       uint32_t n, uint32_t *slots)                                  \
    {                                                                                                \
        uintptr_t root = __atomic_load_n(&ix->root, __ATOMIC_ACQUIRE);                               \
        const void *node[BATCH];                                                                     \
                                                                                                     \
        for (uint32_t i = 0; i < n; i++)                                                             \
            node[i] = (const void *)(root & ~(uintptr_t)63);                                         \
        for (uintptr_t depth = root & 63; depth > 1; depth--) {                                      \
            for (uint32_t i = 0; i < n; i++) {                                                       \
                const struct asymreg__inner *inner = node[i];                                        \
                node[i] = __atomic_load_n(                                                           \
                    &inner->child[rank(inner->keys, search_key(addrs[i])) - 1], __ATOMIC_ACQUIRE);   \
                __builtin_prefetch(node[i]);                                                         \
                __builtin_prefetch((const char *)node[i] + 64);                                      \
                __builtin_prefetch((const char *)node[i] + 128);                                     \
                __builtin_prefetch((const char *)node[i] + (depth > 2 ? 192 : 0));                   \
            }                                                                                        \
        }                                                                                            \
        for (uint32_t i = 0; i < n; i++) {                                                           \
            const struct asymreg__leaf *leaf = node[i];                                              \
            uint32_t k = rank(leaf->keys, search_key(addrs[i]));                                     \
            slots[i] = k ? leaf->slots[k - 1] : NO_SLOT;                                             \
            if (k)                                                                                   \
                __builtin_prefetch(&ix->slots[slots[i]]);                                            \
        }                                                                                            \
    }

DEFINE_SEARCH(search_none, rank_none, )
#if HAVE_SIMD
DEFINE_SEARCH(search_avx2, rank_avx2, __attribute__((target("avx2,popcnt"))))
DEFINE_SEARCH(search_avx512, rank_avx512,
              __attribute__((target("avx512f,avx512bw,avx512vl,popcnt"))))
#endif

uint32_t asymreg__rank(const int64_t *keys, int64_t key)
{
    return rank_none(keys, key);
}

int asymreg__search_pick(struct asymreg_index *ix, uint32_t simd)
{
    uint32_t best = ASYMREG_SIMD_NONE;

    if (simd > ASYMREG_SIMD_AVX512)
        return -EINVAL;
#if HAVE_SIMD
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt"))
        best = ASYMREG_SIMD_AVX2;
    if (best == ASYMREG_SIMD_AVX2 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        best = ASYMREG_SIMD_AVX512;
#endif
    if (simd > best)
        return -EINVAL;
    ix->simd = simd == ASYMREG_SIMD_AUTO ? best : simd;
    ix->search = search_none;
    ix->search_many = search_none_many;
#if HAVE_SIMD
    if (ix->simd == ASYMREG_SIMD_AVX2) {
        ix->search = search_avx2;
        ix->search_many = search_avx2_many;
    } else if (ix->simd == ASYMREG_SIMD_AVX512) {
        ix->search = search_avx512;
        ix->search_many = search_avx512_many;
    }
#endif
    return 0;
}

const struct asymreg_region *asymreg_index_search(struct asymreg_reader *reader, uint64_t addr)
{
    const struct asymreg_index *ix = reader->index;
    const uint32_t *hints = __atomic_load_n(&ix->hints_on, __ATOMIC_ACQUIRE);
    const struct asymreg_region *found;
    uint32_t word;

    if (hints && (word = asymreg__hint_word(ix, hints, addr)) &&
        (found = hit(reader, ix, word - 1, addr)))
        return found;
    return ix->search(reader, addr);
}

const struct asymreg_region *asymreg__index_at(struct asymreg_reader *reader, asymreg_id id,
                                               uint64_t addr)
{
    const struct asymreg_index *ix = reader->index;
    uint32_t n = (uint32_t)id;

    return n < ix->max_regions &&
                   __atomic_load_n(&ix->slots[n].generation, __ATOMIC_RELAXED) == id >> 32
               ? hit(reader, ix, n, addr)
               : NULL;
}

int asymreg__index_lives(const struct asymreg_reader *reader, asymreg_id id)
{
    const struct asymreg_index *ix = reader->index;
    uint32_t n = (uint32_t)id;

    return (id >> 32 & 1) && n < ix->max_regions &&
           __atomic_load_n(&ix->slots[n].generation, __ATOMIC_RELAXED) == id >> 32;
}

/* Of several addresses, those that a hint leads to. Returns how many are left, and which. */
static uint32_t many_by_hint(const struct asymreg_index *ix, const uint64_t *addrs, uint32_t n,
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

size_t asymreg_index_lookup_many(struct asymreg_reader *reader, const uint64_t *addrs, size_t n,
                                 struct asymreg_region *regions)
{
    const struct asymreg_index *ix = reader->index;
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
