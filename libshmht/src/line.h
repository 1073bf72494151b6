/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which slots of a table line have a given hash (empty ones too, if the hash is 0): a mask with a
 * bit for each slot, from the lowest, or, in line_match_sse2(), with two bits for each. The vector
 * forms read the line in pieces that are not atomic as a whole, beside a writer who may be storing
 * into it: what they say is a hint. Every slot that they name is loaded again as an atomic before
 * it is used, and one that they miss was stored while the Get ran (each 64-bit lane of an aligned
 * vector load is one access on x86, and loads there are acquires). ThreadSanitizer sees only the
 * scalar form.
 */
#ifndef SHMHT_SRC_LINE_H
#define SHMHT_SRC_LINE_H

#include "internal.h"

#if defined(__SANITIZE_THREAD__)
#define SHMHT__TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHMHT__TSAN 1
#endif
#endif
#if defined(__x86_64__) && !defined(SHMHT__TSAN)
#define SHMHT__X86 1
#include <immintrin.h>
#endif

/* The slot that a mask names first, and the mask without it: of masks with one bit a slot, and with
 * two. */
#define line_slot_of_one(line, mask) (&(line)[(unsigned)__builtin_ctz(mask)])
#define line_slot_of_two(line, mask) (&(line)[(unsigned)__builtin_ctz(mask) / 2])
#define line_drop_one(mask)          ((mask) & ((mask)-1))
#define line_drop_two(mask)          line_drop_one(line_drop_one(mask))

static inline unsigned line_match_scalar(const _Atomic uint64_t *line, uint32_t hash)
{
    unsigned mask = 0;

    for (unsigned i = 0; i < LINE_SLOTS; i++) {
        uint64_t slot = atomic_load_explicit(&line[i], memory_order_relaxed);

        mask |= (unsigned)(slot >> 32 == hash) << i;
    }
    return mask;
}

/* The writer's: line_match_any() and the slots that are empty, line_empty_any(). Offset 0 is the
 * header: no record is there. */

#ifdef SHMHT__X86
static inline unsigned line_match_sse2(const _Atomic uint64_t *line, uint32_t hash)
{
    const __m128i *p = (const __m128i *)PLAIN(line);
    __m128 a = _mm_shuffle_ps(_mm_castsi128_ps(_mm_load_si128(p)),
                              _mm_castsi128_ps(_mm_load_si128(p + 1)), 0xdd);
    __m128 b = _mm_shuffle_ps(_mm_castsi128_ps(_mm_load_si128(p + 2)),
                              _mm_castsi128_ps(_mm_load_si128(p + 3)), 0xdd);
    __m128i h = _mm_set1_epi32((int)hash);

    return (unsigned)_mm_movemask_epi8(_mm_packs_epi32(_mm_cmpeq_epi32(_mm_castps_si128(a), h),
                                                       _mm_cmpeq_epi32(_mm_castps_si128(b), h)));
}

__attribute__((target("avx2"))) static inline unsigned line_match_avx2(const _Atomic uint64_t *line,
                                                                       uint32_t hash)
{
    const __m256i *p = (const __m256i *)PLAIN(line);
    __m256i h = _mm256_set1_epi32((int)hash);
    __m256i a = _mm256_cmpeq_epi32(_mm256_load_si256(p), h);
    __m256i b = _mm256_cmpeq_epi32(_mm256_load_si256(p + 1), h);

    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(a)) |
           (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(b)) << 4;
}

__attribute__((target("avx512f"))) static inline unsigned
line_match_avx512(const _Atomic uint64_t *line, uint32_t hash)
{
    return _mm512_cmpeq_epi64_mask(_mm512_srli_epi64(_mm512_load_si512(PLAIN(line)), 32),
                                   _mm512_set1_epi64((long long)hash));
}

static inline unsigned line_empty_any(const _Atomic uint64_t *line)
{
    const __m128i *p = (const __m128i *)PLAIN(line);
    __m128 a = _mm_shuffle_ps(_mm_castsi128_ps(_mm_load_si128(p)),
                              _mm_castsi128_ps(_mm_load_si128(p + 1)), 0x88);
    __m128 b = _mm_shuffle_ps(_mm_castsi128_ps(_mm_load_si128(p + 2)),
                              _mm_castsi128_ps(_mm_load_si128(p + 3)), 0x88);
    __m128i zero = _mm_setzero_si128();

    return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(_mm_castps_si128(a), zero))) |
           (unsigned)_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(_mm_castps_si128(b), zero)))
               << 4;
}
#define line_match_any line_match_sse2
#define line_slot_any  line_slot_of_two
#define line_drop_any  line_drop_two
#else
static inline unsigned line_empty_any(const _Atomic uint64_t *line)
{
    unsigned mask = 0;

    for (unsigned i = 0; i < LINE_SLOTS; i++)
        mask |= (unsigned)((uint32_t)atomic_load_explicit(&line[i], memory_order_relaxed) == 0)
                << i;
    return mask;
}
#define line_match_any line_match_scalar
#define line_slot_any  line_slot_of_one
#define line_drop_any  line_drop_one
#endif

#endif
