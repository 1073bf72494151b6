/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The detector's inner loop: does a[i + lag] − a[i] stay the same? No division, no table: two streams that are read
 * in order. Plain C in blocks that compilers turn into vectors; the same body is compiled again for AVX2, and the processor
 * is asked once a call. (target_clones would do it too, but its resolvers run before sanitizers are ready.)
 */
#include "internal.h"

#define KERNEL_BLOCK 256u

#if defined(__GNUC__) && !defined(__clang__)
#define VECTORIZE __attribute__((optimize("O3")))
#else
#define VECTORIZE
#endif

#define LAG_BODY(type)                                                                                              \
    size_t i = 0;                                                                                                   \
                                                                                                                    \
    for (; n - i >= KERNEL_BLOCK; i += KERNEL_BLOCK) {                                                              \
        const type *low = a + i, *high = low + lag;                                                                 \
        type differs = 0;                                                                                           \
                                                                                                                    \
        for (size_t k = 0; k < KERNEL_BLOCK; k++)                                                                   \
            differs |= (type)(high[k] - low[k]) ^ stride;                                                           \
        if (differs)                                                                                                \
            break;                                                                                                  \
    }                                                                                                               \
    for (; i < n; i++)                                                                                              \
        if ((type)(a[i + lag] - a[i]) != stride)                                                                    \
            return i;                                                                                               \
    return n;

static size_t lag32_scalar(const uint32_t *a, size_t n, size_t lag, uint32_t stride)
{
    for (size_t i = 0; i < n; i++)
        if (a[i + lag] - a[i] != stride)
            return i;
    return n;
}

VECTORIZE static size_t lag32_base(const uint32_t *a, size_t n, size_t lag, uint32_t stride)
{
    LAG_BODY(uint32_t)
}

VECTORIZE static size_t lag64_base(const uint64_t *a, size_t n, size_t lag, uint64_t stride)
{
    LAG_BODY(uint64_t)
}

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_AVX2 1

VECTORIZE __attribute__((target("avx2"))) static size_t lag32_avx2(const uint32_t *a, size_t n, size_t lag,
                                                                  uint32_t stride)
{
    LAG_BODY(uint32_t)
}

VECTORIZE __attribute__((target("avx2"))) static size_t lag64_avx2(const uint64_t *a, size_t n, size_t lag,
                                                                  uint64_t stride)
{
    LAG_BODY(uint64_t)
}
#endif

size_t rankmap__lag32(const uint32_t *a, size_t n, size_t lag, uint32_t stride)
{
#ifdef HAS_AVX2
    if (__builtin_cpu_supports("avx2"))
        return lag32_avx2(a, n, lag, stride);
#endif
    return lag32_base(a, n, lag, stride);
}

size_t rankmap__lag64(const uint64_t *a, size_t n, size_t lag, uint64_t stride)
{
#ifdef HAS_AVX2
    if (__builtin_cpu_supports("avx2"))
        return lag64_avx2(a, n, lag, stride);
#endif
    return lag64_base(a, n, lag, stride);
}

size_t (*const rankmap__lag32_variants[])(const uint32_t *, size_t, size_t, uint32_t) = {
    lag32_scalar,
    lag32_base,
#ifdef HAS_AVX2
    rankmap__lag32,
#endif
    NULL,
};
