/* SPDX-License-Identifier: BSD-3-Clause */
/* The bits that say which pages of the storage span are to be written. Threads change them at the
 * same time. */
#include "internal.h"

static atomic_uint_least64_t *word_of(const struct storwin_window *win, uint64_t page)
{
    return &win->dirty[page / 64];
}

/* The bits of [first, end) that lie in the word of `first`. */
static uint64_t mask(uint64_t first, uint64_t end)
{
    uint64_t n = storwin__min(end - first, 64 - first % 64);

    return (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << first % 64;
}

void storwin__bits_set(struct storwin_window *win, uint64_t first, uint64_t end)
{
    for (; first < end; first = (first / 64 + 1) * 64)
        atomic_fetch_or_explicit(word_of(win, first), mask(first, end), memory_order_relaxed);
}

void storwin__bits_clear(struct storwin_window *win, uint64_t first, uint64_t end)
{
    for (; first < end; first = (first / 64 + 1) * 64)
        atomic_fetch_and_explicit(word_of(win, first), ~mask(first, end), memory_order_relaxed);
}

/* The first page from `first` on whose bit is `value`; `end` if there is none. */
uint64_t storwin__bits_next(const struct storwin_window *win, uint64_t first, uint64_t end,
                            int value)
{
    for (; first < end; first = (first / 64 + 1) * 64) {
        uint64_t word = atomic_load_explicit(word_of(win, first), memory_order_relaxed);

        word = (value ? word : ~word) & mask(first, end);
        if (word)
            return first / 64 * 64 + (uint64_t)__builtin_ctzll(word);
    }
    return end;
}

uint64_t storwin__bits_count(const struct storwin_window *win, uint64_t first, uint64_t end)
{
    uint64_t n = 0;

    for (; first < end; first = (first / 64 + 1) * 64)
        n += (uint64_t)__builtin_popcountll(
            atomic_load_explicit(word_of(win, first), memory_order_relaxed) & mask(first, end));
    return n;
}
