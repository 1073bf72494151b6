/* SPDX-License-Identifier: BSD-3-Clause */
/* Marking separators: see marks.h. */
#include <string.h>

#include "marks.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#define BLOCK 16u

/* Of a window, or a block of it: '=', separators, newlines, NULs. */
struct masks {
    uint64_t equals, stops, eols, nuls;
};

static inline struct masks shifted(struct masks m, unsigned right)
{
    return (struct masks){m.equals >> right, m.stops >> right, m.eols >> right, m.nuls >> right};
}

#ifdef __SSE2__
static inline uint64_t block_mask(__m128i v, char c)
{
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(c)));
}

static inline struct masks block_masks(const char *p, char separator)
{
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);

    return (struct masks){block_mask(v, '='), block_mask(v, separator), block_mask(v, '\n'),
                          block_mask(v, '\0')};
}
#else
static inline struct masks block_masks(const char *p, char separator)
{
    struct masks m = {0, 0, 0, 0};

    for (unsigned i = 0; i < BLOCK; i++) {
        m.equals |= (uint64_t)(p[i] == '=') << i;
        m.stops |= (uint64_t)(p[i] == separator) << i;
        m.eols |= (uint64_t)(p[i] == '\n') << i;
        m.nuls |= (uint64_t)(p[i] == '\0') << i;
    }
    return m;
}
#endif

/* The last n bytes before end, fewer than a block. */
static struct masks tail_masks(const char *begin, const char *end, size_t n, char separator)
{
    char tail[BLOCK];

    if ((size_t)(end - begin) >=
        BLOCK) /* a block that ends there, and begins in what is done already */
        return shifted(block_masks(end - BLOCK, separator), (unsigned)(BLOCK - n));
    memset(tail, 'x', sizeof(tail));
    memcpy(tail, end - n, n);
    return block_masks(tail, separator);
}

static inline void add(struct masks *window, struct masks m, size_t at)
{
    window->equals |= m.equals << at;
    window->stops |= m.stops << at;
    window->eols |= m.eols << at;
    window->nuls |= m.nuls << at;
}

/* The masks of the n bytes at p, at most a window. */
static inline struct masks window_masks(const char *begin, const char *p, size_t n, char separator)
{
    struct masks window = {0, 0, 0, 0};
    size_t i = 0;

    for (; i + BLOCK <= n; i += BLOCK)
        add(&window, block_masks(p + i, separator), i);
    if (i < n)
        add(&window, tail_masks(begin, p + n, n - i, separator), i);
    return window;
}

/* Take the masks of window w, from whose begin on `left` bytes remain. True when the span ends in
 * it; *bit then says where. */
static inline int take(struct pmiwire__marks *out, unsigned w, struct masks m, size_t left,
                       int to_eol, uint64_t *bit)
{
    uint64_t ends = to_eol ? m.eols : 0;

    if (left < PMIWIRE__WINDOW)
        ends |= UINT64_C(1) << left;
    if (ends) {
        *bit = ends & (~ends + 1);
        m.equals &= *bit - 1;
        m.nuls &= *bit - 1;
        m.stops = (m.stops & (*bit - 1)) | *bit;
    }
    out->equals[w] = m.equals;
    out->stops[w] = m.stops;
    out->nuls |= m.nuls;
    return ends != 0;
}

size_t pmiwire__mark_narrow(const char *begin, const char *p, size_t n, char separator, int to_eol,
                            struct pmiwire__marks *m)
{
    size_t at = 0;
    uint64_t bit;

    m->nuls = 0;
    for (unsigned w = 0;; w++, at += PMIWIRE__WINDOW) {
        const size_t left = n - at, here = left < PMIWIRE__WINDOW ? left : PMIWIRE__WINDOW;

        if (take(m, w, window_masks(begin, p + at, here, separator), left, to_eol, &bit))
            return at + (unsigned)__builtin_ctzll(bit);
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx512f,avx512bw"))) size_t pmiwire__mark_wide(const char *begin,
                                                                      const char *p, size_t n,
                                                                      char separator, int to_eol,
                                                                      struct pmiwire__marks *m)
{
    const __m512i separators = _mm512_set1_epi8(separator), equals = _mm512_set1_epi8('='),
                  eols = _mm512_set1_epi8('\n');
    size_t at = 0;
    uint64_t bit;

    (void)begin;
    m->nuls = 0;
    for (unsigned w = 0;; w++, at += PMIWIRE__WINDOW) {
        const size_t left = n - at;
        /* Bytes that are masked out are not read. */
        const __mmask64 mine = left < PMIWIRE__WINDOW ? (UINT64_C(1) << left) - 1 : ~UINT64_C(0);
        const __m512i v = _mm512_maskz_loadu_epi8(mine, p + at);
        const struct masks masks = {
            _mm512_cmpeq_epi8_mask(v, equals),
            _mm512_cmpeq_epi8_mask(v, separators),
            _mm512_cmpeq_epi8_mask(v, eols),
            _mm512_mask_testn_epi8_mask(mine, v, v),
        };

        if (take(m, w, masks, left, to_eol, &bit))
            return at + (unsigned)__builtin_ctzll(bit);
    }
}

int pmiwire__can_mark_wide(void)
{
    return __builtin_cpu_supports("avx512bw") != 0;
}
#else
size_t pmiwire__mark_wide(const char *begin, const char *p, size_t n, char separator, int to_eol,
                          struct pmiwire__marks *m)
{
    return pmiwire__mark_narrow(begin, p, n, separator, to_eol, m);
}

int pmiwire__can_mark_wide(void)
{
    return 0;
}
#endif

size_t pmiwire__mark(const char *begin, const char *p, size_t n, char separator, int to_eol,
                     struct pmiwire__marks *m)
{
    return pmiwire__can_mark_wide() ? pmiwire__mark_wide(begin, p, n, separator, to_eol, m)
                                    : pmiwire__mark_narrow(begin, p, n, separator, to_eol, m);
}
