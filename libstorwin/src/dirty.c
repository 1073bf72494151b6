/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of pages, one bit each: the pages of the storage span that must be written, and the sets of
 * commits. Threads change them concurrently. */
#include "internal.h"

/* Returns the bits of [first, end) in the word of `first`. */
static uint64_t mask(uint64_t first, uint64_t end)
{
    uint64_t n = storwin__min(end - first, 64 - first % 64);

    return (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << first % 64;
}

void storwin__set_add(atomic_uint_least64_t *set, uint64_t first, uint64_t end)
{
    for (; first < end; first = (first / 64 + 1) * 64)
        atomic_fetch_or_explicit(&set[first / 64], mask(first, end), memory_order_relaxed);
}

void storwin__bits_set(struct storwin_window *win, uint64_t first, uint64_t end)
{
    storwin__set_add(win->dirty, first, end);
}

void storwin__bits_clear(struct storwin_window *win, uint64_t first, uint64_t end)
{
    for (; first < end; first = (first / 64 + 1) * 64)
        atomic_fetch_and_explicit(&win->dirty[first / 64], ~mask(first, end), memory_order_relaxed);
}

/* Returns the first page from `first` on whose bit equals `value`; without one, `end`. */
uint64_t storwin__set_next(const atomic_uint_least64_t *set, uint64_t first, uint64_t end,
                           int value)
{
    for (; first < end; first = (first / 64 + 1) * 64) {
        uint64_t word = atomic_load_explicit(&set[first / 64], memory_order_relaxed);

        word = (value ? word : ~word) & mask(first, end);
        if (word)
            return first / 64 * 64 + (uint64_t)__builtin_ctzll(word);
    }
    return end;
}

uint64_t storwin__bits_next(const struct storwin_window *win, uint64_t first, uint64_t end,
                            int value)
{
    return storwin__set_next(win->dirty, first, end, value);
}

static uint64_t count(const atomic_uint_least64_t *set, uint64_t first, uint64_t end)
{
    uint64_t n = 0;

    for (; first < end; first = (first / 64 + 1) * 64)
        n += (uint64_t)__builtin_popcountll(
            atomic_load_explicit(&set[first / 64], memory_order_relaxed) & mask(first, end));
    return n;
}

uint64_t storwin__set_count(const atomic_uint_least64_t *set, uint64_t end)
{
    return count(set, 0, end);
}

uint64_t storwin__bits_count(const struct storwin_window *win, uint64_t first, uint64_t end)
{
    return count(win->dirty, first, end);
}
