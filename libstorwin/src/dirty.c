/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of pages, one bit each: the pages of the storage span that must be written (win->dirty), and
 * the sets of commits. Threads change them concurrently. */
#include "internal.h"

/* Returns the bits of [first, end) in the word of `first`. */
static uint64_t word_mask(uint64_t first, uint64_t end)
{
    uint64_t n = storwin__min(end - first, 64 - first % 64);

    return (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << first % 64;
}

/* Allocates an empty set of the pages of the storage span; NULL without memory. */
atomic_uint_least64_t *storwin__set_alloc(const struct storwin_window *win)
{
    return storwin__calloc(win->opts.allocator, (size_t)(storwin__pages(win) / 64 + 1),
                           sizeof(atomic_uint_least64_t));
}

void storwin__set_add(atomic_uint_least64_t *set, uint64_t first, uint64_t end)
{
    for (; first < end; first = (first / 64 + 1) * 64)
        atomic_fetch_or_explicit(&set[first / 64], word_mask(first, end), memory_order_relaxed);
}

void storwin__set_remove(atomic_uint_least64_t *set, uint64_t first, uint64_t end)
{
    for (; first < end; first = (first / 64 + 1) * 64)
        atomic_fetch_and_explicit(&set[first / 64], ~word_mask(first, end), memory_order_relaxed);
}

/* Adds the members of `from`. */
void storwin__set_merge(atomic_uint_least64_t *to, const atomic_uint_least64_t *from,
                        uint64_t n_pages)
{
    for (uint64_t i = 0; i <= n_pages / 64; i++)
        atomic_fetch_or_explicit(&to[i], atomic_load_explicit(&from[i], memory_order_relaxed),
                                 memory_order_relaxed);
}

/* Removes the members of `from`. */
void storwin__set_subtract(atomic_uint_least64_t *to, const atomic_uint_least64_t *from,
                           uint64_t n_pages)
{
    for (uint64_t i = 0; i <= n_pages / 64; i++)
        atomic_fetch_and_explicit(&to[i], ~atomic_load_explicit(&from[i], memory_order_relaxed),
                                  memory_order_relaxed);
}

/* Returns the first page from `first` on whose bit equals `value`; without one, `end`. */
uint64_t storwin__set_next(const atomic_uint_least64_t *set, uint64_t first, uint64_t end,
                           int value)
{
    for (; first < end; first = (first / 64 + 1) * 64) {
        uint64_t word = atomic_load_explicit(&set[first / 64], memory_order_relaxed);

        word = (value ? word : ~word) & word_mask(first, end);
        if (word)
            return first / 64 * 64 + (uint64_t)__builtin_ctzll(word);
    }
    return end;
}

uint64_t storwin__set_count(const atomic_uint_least64_t *set, uint64_t first, uint64_t end)
{
    uint64_t n = 0;

    for (; first < end; first = (first / 64 + 1) * 64)
        n += (uint64_t)__builtin_popcountll(
            atomic_load_explicit(&set[first / 64], memory_order_relaxed) & word_mask(first, end));
    return n;
}
