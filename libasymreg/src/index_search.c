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

/* A separator may grow meanwhile, hence the atomic loads; either value gives a right answer. */
static inline uint32_t rank_none(const int64_t *keys, int64_t key)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < FANOUT; i++)
        n += __atomic_load_n(&keys[i], __ATOMIC_RELAXED) <= key;
    return n;
}

#if HAVE_SIMD
__attribute__((target("avx2,popcnt"))) static inline uint32_t rank_avx2(const int64_t *keys, int64_t key)
{
    const __m256i k = _mm256_set1_epi64x(key);
    const __m256i *v = (const __m256i *)(const void *)keys;
    /* Four sums of -1 for each key above, in each 64-bit lane. */
    __m256i above = _mm256_add_epi64(
        _mm256_add_epi64(_mm256_cmpgt_epi64(_mm256_load_si256(v), k), _mm256_cmpgt_epi64(_mm256_load_si256(v + 1), k)),
        _mm256_add_epi64(_mm256_cmpgt_epi64(_mm256_load_si256(v + 2), k), _mm256_cmpgt_epi64(_mm256_load_si256(v + 3), k)));
    __m128i sum = _mm_add_epi64(_mm256_castsi256_si128(above), _mm256_extracti128_si256(above, 1));

    return FANOUT + (uint32_t)(_mm_cvtsi128_si64(sum) + _mm_extract_epi64(sum, 1));
}

__attribute__((target("avx512f,avx512bw,avx512vl,popcnt"))) static inline uint32_t rank_avx512(const int64_t *keys, int64_t key)
{
    const __m512i k = _mm512_set1_epi64(key);
    uint32_t low = _mm512_cmple_epi64_mask(_mm512_load_si512(keys), k);
    uint32_t high = _mm512_cmple_epi64_mask(_mm512_load_si512(keys + 8), k);

    /* gcc 12 may spill an 8-bit mask as a byte and reload it as a word (seen with -O1 -fsanitize=undefined). */
    __asm__("movzbl %b0, %0\n\tmovzbl %b1, %1" : "+r"(low), "+r"(high));
    return (uint32_t)__builtin_popcount(low | high << 8);
}
#endif

/* The search itself: the same for each way of ranking, compiled for each. */
#define DEFINE_SEARCH(name, rank, attributes)                                                                            \
    attributes static const struct asymreg_region *name(struct asymreg_reader *r, uint64_t addr)                        \
    {                                                                                                                    \
        const struct asymreg_index *ix = r->index;                                                                       \
        int64_t key = asymreg__key(addr < UINT64_MAX ? addr : addr - 1);                                                 \
        const struct asymreg_region *found = NULL;                                                                       \
                                                                                                                         \
        asymreg__reader_enter(r);                                                                                        \
        uintptr_t root = __atomic_load_n(&ix->root, __ATOMIC_ACQUIRE);                                                   \
        const void *node = (const void *)(root & ~(uintptr_t)63);                                                        \
        for (uintptr_t depth = root & 63; depth > 1; depth--) {                                                          \
            const struct asymreg__inner *inner = node;                                                                   \
            node = __atomic_load_n(&inner->child[rank(inner->keys, key) - 1], __ATOMIC_ACQUIRE);                         \
        }                                                                                                                \
        const struct asymreg__leaf *leaf = node;                                                                         \
        uint32_t n = rank(leaf->keys, key);                                                                              \
        if (n)                                                                                                           \
            found = read_slot(r, ix, leaf->slots[n - 1], addr);                                                          \
        asymreg__reader_exit(r);                                                                                         \
        return found;                                                                                                    \
    }

/*
 * Copies a slot into the reader's last hit, if it holds the address all the while. If it does not: it held no such region when
 * the leaf was read, or died since; either way there was a moment without one.
 */
static inline const struct asymreg_region *read_slot(struct asymreg_reader *r, const struct asymreg_index *ix, uint32_t n,
                                                     uint64_t addr)
{
    const struct asymreg__slot *slot = &ix->slots[n];
    uint32_t generation = __atomic_load_n(&slot->generation, __ATOMIC_ACQUIRE);
    uint64_t start = __atomic_load_n(&slot->start, __ATOMIC_ACQUIRE);
    uint64_t last = __atomic_load_n(&slot->last, __ATOMIC_ACQUIRE);
    uint32_t prot = __atomic_load_n(&slot->prot, __ATOMIC_ACQUIRE);
    uint64_t value = __atomic_load_n(&slot->value, __ATOMIC_ACQUIRE);

    if (!(generation & 1) || addr < start || addr > last ||
        __atomic_load_n(&slot->generation, __ATOMIC_RELAXED) != generation)
        return NULL;
    r->hit.start = start;
    r->hit.last = last;
    r->hit.id = asymreg__id(n, generation);
    r->hit.prot = prot;
    r->hit.value = value;
    r->hit_span = last - start;
    r->generation = &slot->generation;
    r->hit_generation = generation;
    return &r->hit;
}

DEFINE_SEARCH(search_none, rank_none, )
#if HAVE_SIMD
DEFINE_SEARCH(search_avx2, rank_avx2, __attribute__((target("avx2,popcnt"))))
DEFINE_SEARCH(search_avx512, rank_avx512, __attribute__((target("avx512f,avx512bw,avx512vl,popcnt"))))
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
    if (best == ASYMREG_SIMD_AVX2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        best = ASYMREG_SIMD_AVX512;
#endif
    if (simd > best)
        return -EINVAL;
    ix->simd = simd == ASYMREG_SIMD_AUTO ? best : simd;
    ix->search = search_none;
#if HAVE_SIMD
    if (ix->simd == ASYMREG_SIMD_AVX2)
        ix->search = search_avx2;
    else if (ix->simd == ASYMREG_SIMD_AVX512)
        ix->search = search_avx512;
#endif
    return 0;
}

const struct asymreg_region *asymreg_index_search(struct asymreg_reader *reader, uint64_t addr)
{
    return reader->index->search(reader, addr);
}
