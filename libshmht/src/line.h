/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the slots of a table line with a given hash, or the empty ones: a mask of two bits a slot,
 * from the lowest. On x86-64 vector loads (SSE2, which every x86-64 processor has) read the line
 * while the writer may store into it. So the mask is a hint. The Get loads every slot of the mask
 * again, as an atomic, before it uses the slot. A slot that the mask misses was stored while the
 * Get ran: on x86 each 64-bit lane of an aligned vector load is one access, and loads are acquires.
 * On other processors, and for ThreadSanitizer, each slot is loaded as an atomic.
 */
#ifndef SHMHT_SRC_LINE_H
#define SHMHT_SRC_LINE_H

#include "internal.h"

#if defined(__SANITIZE_THREAD__)
#define SHMHT__PORTABLE 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHMHT__PORTABLE 1
#endif
#endif

/* The first slot of a mask. */
#define line_slot(line, mask) (&(line)[(unsigned)__builtin_ctz(mask) / 2])
/* The mask without its first slot. */
static inline unsigned line_drop(unsigned mask)
{
    mask &= mask - 1;
    return mask & (mask - 1);
}

#if defined(__x86_64__) && !defined(SHMHT__PORTABLE)
#include <emmintrin.h>

/* The halves of four slots, from slot `at` on: 0xdd picks the upper ones, 0x88 the lower. */
#define LINE_HALVES(line, at, which)                                                               \
    _mm_castps_si128(_mm_shuffle_ps(                                                               \
        _mm_castsi128_ps(_mm_load_si128((const __m128i *)PLAIN((line) + (at)))),                   \
        _mm_castsi128_ps(_mm_load_si128((const __m128i *)PLAIN((line) + (at) + 2))), which))

static inline unsigned line_mask(__m128i first, __m128i last, uint32_t wanted)
{
    __m128i w = _mm_set1_epi32((int)wanted);

    return (unsigned)_mm_movemask_epi8(
        _mm_packs_epi32(_mm_cmpeq_epi32(first, w), _mm_cmpeq_epi32(last, w)));
}

static inline unsigned line_match(const _Atomic uint64_t *line, uint32_t hash)
{
    return line_mask(LINE_HALVES(line, 0, 0xdd), LINE_HALVES(line, 4, 0xdd), hash);
}

/* Offset 0 is the header: no record is there. */
static inline unsigned line_empty(const _Atomic uint64_t *line)
{
    return line_mask(LINE_HALVES(line, 0, 0x88), LINE_HALVES(line, 4, 0x88), 0);
}
#else
static inline unsigned line_match(const _Atomic uint64_t *line, uint32_t hash)
{
    unsigned mask = 0;

    for (unsigned i = 0; i < LINE_SLOTS; i++) {
        uint64_t slot = atomic_load_explicit(&line[i], memory_order_relaxed);

        mask |= (slot >> 32 == hash ? 3u : 0u) << 2 * i;
    }
    return mask;
}

/* Offset 0 is the header: no record is there. */
static inline unsigned line_empty(const _Atomic uint64_t *line)
{
    unsigned mask = 0;

    for (unsigned i = 0; i < LINE_SLOTS; i++) {
        uint64_t slot = atomic_load_explicit(&line[i], memory_order_relaxed);

        mask |= ((uint32_t)slot == 0 ? 3u : 0u) << 2 * i;
    }
    return mask;
}
#endif

#endif
