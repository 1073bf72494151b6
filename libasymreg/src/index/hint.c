/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hints: where a region probably is, without a search. The address space of regions is divided into
 * granules. A table has one word for each granule, found by hashing the granule's number: a slot
 * whose region was in the granule when the word was written. A reader does not trust the word: it
 * reads that slot, as a search does in the end, and searches if the address is not in the slot's
 * region. So a word may be stale, missing, or another granule's, and plain stores suffice beside
 * readers. Hints cost only memory; the index drops them if they do not help.
 *
 * A granule is about as long as the distance between regions, so that most addresses are in a
 * granule with one region. The index halves it when hints serve too few lookups. Regions that are
 * much longer than the others have words only for their first granules.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "index.h"

#include <sys/mman.h>

#define LEAST_REGIONS 64u /* a search is as fast with fewer */
#define MOST_GRANULES 8u  /* of one region */
#define SAMPLES       33u
#define MIN_SHIFT     3u
#define MAX_SHIFT     40u

static uint32_t log2_of(uint64_t n)
{
    return n ? 63 - (uint32_t)__builtin_clzll(n) : 0;
}

/* Number of words: four to eight for each of max_regions. */
static uint32_t max_bits(const struct asymreg__index *ix)
{
    return log2_of(ix->max_regions) + 3;
}

static uint64_t reserved_bytes(const struct asymreg__index *ix)
{
    return (sizeof(*ix->hints) << max_bits(ix)) + HUGE_PAGE;
}

/* Returns the typical distance between regions: the median over some leaves. */
static uint64_t region_spacing(const struct asymreg__index *ix)
{
    uint64_t found[SAMPLES];
    uint32_t n = 0;

    for (uint32_t i = 0; i < SAMPLES; i++) {
        const struct asymreg__slot *s = &ix->slots[(uint64_t)i * ix->n_used / SAMPLES];
        const void *node = (const void *)(ix->root & ~(uintptr_t)63);
        const struct asymreg__leaf *leaf;
        uint64_t each;
        uint32_t k, at;

        if (!(s->generation & 1))
            continue;
        for (uintptr_t depth = ix->root & 63; depth > 1; depth--)
            node = ((const struct asymreg__inner *)node)
                       ->child[asymreg__rank(node, asymreg__key(s->start)) - 1];
        leaf = node;
        k = asymreg__rank(leaf->keys, KEY_NONE - 1);
        if (k < 2)
            continue;
        each = ((uint64_t)leaf->keys[k - 1] - (uint64_t)leaf->keys[0]) / (k - 1);
        for (at = n++; at && found[at - 1] > each; at--)
            found[at] = found[at - 1];
        found[at] = each;
    }
    return n ? found[n / 2] : 0;
}

/* Returns how much of a granule a slot's region covers. */
static uint64_t granule_share(const struct asymreg__slot *s, uint64_t granule, uint32_t shift)
{
    uint64_t first = granule << shift, last = first + ((UINT64_C(1) << shift) - 1);

    if (!(s->generation & 1) || s->last < first || s->start > last)
        return 0;
    return (s->last < last ? s->last : last) - (s->start > first ? s->start : first) + 1;
}

static void hint_write(struct asymreg__index *ix, uint32_t slot)
{
    const struct asymreg__slot *s = &ix->slots[slot];
    uint32_t shift = ix->hint_shift;
    uint64_t first = s->start >> shift, last = s->last >> shift;

    if (last - first >= MOST_GRANULES)
        last = first + MOST_GRANULES - 1;
    for (uint64_t g = first; g <= last; g++) {
        _Atomic uint32_t *word = &ix->hints[asymreg__hint_place(g, ix->hint_bits)];
        uint32_t old = *word;
        uint64_t mine = granule_share(s, g, shift), theirs = 0;

        ix->hint_bytes += mine;
        if (old && old - 1 != slot) {
            const struct asymreg__slot *o = &ix->slots[old - 1];
            theirs = granule_share(o, g, shift);
            if (!theirs && (o->generation & 1) &&
                asymreg__hint_place(o->start >> shift, ix->hint_bits) ==
                    (uint32_t)(word - ix->hints))
                theirs = UINT64_MAX; /* of another granule: the first one keeps the word */
        }
        if (theirs > mine) {
            ix->hint_lost += mine;
            continue;
        }
        ix->hint_lost += theirs;
        atomic_store_explicit(word, slot + 1, memory_order_relaxed);
    }
}

static void hints_fill(struct asymreg__index *ix, uint32_t shift, uint32_t bits)
{
    uint64_t now = sizeof(*ix->hints) << bits, before = sizeof(*ix->hints) << ix->hint_bits;

    madvise(ix->hints, before > now ? before : now, MADV_DONTNEED);
    if (now >= HUGE_PAGE)
        madvise(ix->hints, now, MADV_HUGEPAGE);
    atomic_store_explicit(&ix->hint_shift, shift, memory_order_relaxed);
    atomic_store_explicit(&ix->hint_bits, bits, memory_order_relaxed);
    ix->hint_bytes = ix->hint_lost = 0;
    for (uint32_t i = 0; i < ix->n_used; i++)
        if (ix->slots[i].generation & 1)
            hint_write(ix, i);
}

/* Rebuilds the hints for the present regions. */
static void hints_rebuild(struct asymreg__index *ix)
{
    uint32_t shift, bits = log2_of(ix->n_regions) + 2; /* two to four words for each region */

    ix->hints_at = ix->n_regions;
    if (!ix->hint_memory)
        ix->hint_memory = asymreg__reserve(reserved_bytes(ix));
    if (!ix->hint_memory)
        return;
    ix->hints = (_Atomic uint32_t *)(((uintptr_t)ix->hint_memory + HUGE_PAGE - 1) &
                                     ~(uintptr_t)(HUGE_PAGE - 1));
    shift = log2_of(region_spacing(ix));
    shift = shift < MIN_SHIFT ? MIN_SHIFT : shift > MAX_SHIFT ? MAX_SHIFT : shift;
    for (int finer = 0; finer < 3 && shift >= MIN_SHIFT; finer++, shift--) {
        hints_fill(ix, shift, bits + (finer > 0));
        if (ix->hint_lost <= ix->hint_bytes / 8)
            break;
    }
    ix->hint_limit = ix->hint_lost + ix->hint_bytes / 8;
    atomic_store_explicit(&ix->hints_on, ix->hint_lost <= ix->hint_bytes / 2 ? ix->hints : NULL,
                          memory_order_release);
}

void asymreg__hint(struct asymreg__index *ix, uint32_t slot)
{
    if (ix->no_hints || ix->n_regions < LEAST_REGIONS)
        return;
    if (ix->hints_on)
        hint_write(ix, slot);
    /* Waits for a quarter more regions, so that rebuilding costs each of them a constant. */
    if (ix->n_regions >= 2 * ix->hints_at || (ix->hints_on && ix->hint_lost > ix->hint_limit &&
                                              ix->n_regions - ix->n_regions / 5 >= ix->hints_at))
        hints_rebuild(ix);
}

void asymreg__hints_anew(struct asymreg__index *ix)
{
    if (!ix->no_hints && ix->n_regions >= LEAST_REGIONS)
        hints_rebuild(ix);
}

uint64_t asymreg__hint_memory(const struct asymreg__index *ix)
{
    return ix->hint_memory ? sizeof(*ix->hints) << ix->hint_bits : 0;
}

void asymreg__hints_fini(struct asymreg__index *ix)
{
    asymreg__unreserve(ix->hint_memory, reserved_bytes(ix));
}
