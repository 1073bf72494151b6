/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the separators of a message are, 64 bytes to a word of bits: what splits a usual message
 * with few branches. */
#ifndef PMIWIRE_MARKS_H
#define PMIWIRE_MARKS_H

#include <stddef.h>
#include <stdint.h>

#define PMIWIRE__WINDOW  64u
#define PMIWIRE__WINDOWS 32u
/* The longest span that is marked, bytes. */
#define PMIWIRE__SPAN ((size_t)PMIWIRE__WINDOW * PMIWIRE__WINDOWS)

/* The marks of a span: bit i of word w for byte 64 w + i. The byte where the span ends is a stop.
 */
struct pmiwire__marks {
    uint64_t stops[PMIWIRE__WINDOWS + 1];  /* the wire's separator */
    uint64_t equals[PMIWIRE__WINDOWS + 1]; /* '=' */
    uint64_t nuls;                         /* not 0: there is a NUL */
};

/*
 * Mark n bytes at p, at most PMIWIRE__SPAN of them, or those before the first newline if to_eol.
 * Reads nothing before begin and nothing from p + n on. Returns where the span ends: n, or the
 * newline.
 */
size_t pmiwire__mark(const char *begin, const char *p, size_t n, char separator, int to_eol,
                     struct pmiwire__marks *m);
/* Its twins: what every processor can do, and what AVX-512 can, where pmiwire__can_mark_wide(). */
size_t pmiwire__mark_narrow(const char *begin, const char *p, size_t n, char separator, int to_eol,
                            struct pmiwire__marks *m);
size_t pmiwire__mark_wide(const char *begin, const char *p, size_t n, char separator, int to_eol,
                          struct pmiwire__marks *m);
int pmiwire__can_mark_wide(void);

/* The first stop from `from` on, which is not behind the span's end. */
static inline size_t pmiwire__next_stop(const struct pmiwire__marks *m, size_t from)
{
    size_t window = from / PMIWIRE__WINDOW;
    uint64_t here = m->stops[window] & ~UINT64_C(0) << from % PMIWIRE__WINDOW;

    while (here == 0)
        here = m->stops[++window];
    return window * PMIWIRE__WINDOW + (unsigned)__builtin_ctzll(here);
}

/* The first '=' from `from` on; SIZE_MAX when there is none before stop. */
static inline size_t pmiwire__next_equals(const struct pmiwire__marks *m, size_t from, size_t stop)
{
    size_t window = from / PMIWIRE__WINDOW;
    uint64_t here = m->equals[window] & ~UINT64_C(0) << from % PMIWIRE__WINDOW;

    while (here == 0) {
        if (++window > stop / PMIWIRE__WINDOW)
            return SIZE_MAX;
        here = m->equals[window];
    }
    return window * PMIWIRE__WINDOW + (unsigned)__builtin_ctzll(here);
}

#endif /* PMIWIRE_MARKS_H */
