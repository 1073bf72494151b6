/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's published table that is corrupt, and changes while it is read. The input is a list of
 * steps: change a word of the block, let the owner register or unregister, arm a change for the
 * middle of the next refresh, refresh, look up, read a segment.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "../../../libasymreg/src/table/table.h"

#include <stdlib.h>
#include <string.h>

enum { REGIONS = 256, RING = 16, BYTES_MAX = 64 << 10 };

static unsigned char block[BYTES_MAX] __attribute__((aligned(64)));
static uint64_t block_bytes;
static struct {
    uint32_t at;
    uint64_t value;
    int in; /* reads from now */
} armed;

static int read_fn(void *ctx, uint64_t offset, void *dst, size_t bytes)
{
    if (offset > block_bytes || bytes > block_bytes - offset)
        abort(); /* the cache may never read outside the block */
    if (armed.in && --armed.in == 0)
        memcpy(block + armed.at, &armed.value, 8);
    memcpy(dst, block + offset, bytes);
    return 0;
}

static uint64_t word(const uint8_t **p, const uint8_t *end, int n)
{
    uint64_t v = 0;

    for (int i = 0; i < n && *p < end; i++)
        v |= (uint64_t) * (*p)++ << 8 * i;
    return v;
}

/* Meaningful values, or any. */
static uint64_t value_of(const uint8_t **p, const uint8_t *end)
{
    static const uint64_t some[] = {0,
                                    1,
                                    2,
                                    3,
                                    UINT64_MAX,
                                    UINT64_MAX - 1,
                                    UINT64_C(1) << 63,
                                    UINT64_C(1) << 32,
                                    UINT64_C(3) << 32,
                                    4096};
    uint64_t k = word(p, end, 1);

    return k < sizeof(some) / sizeof(*some) ? some[k] : k & 1 ? word(p, end, 8) : word(p, end, 2);
}

static void check(struct asymreg__cache *c, struct asymreg__reader *r, uint64_t addr)
{
    const struct asymreg_region *found = asymreg__index_lookup(r, addr);
    struct asymreg_region next;
    uint64_t at = 0;
    int n = 0;

    if (found && (addr < found->start || addr > found->last || !(found->id >> 32 & 1)))
        abort();
    while (asymreg__index_next(asymreg__cache_index(c), at, &next)) {
        if (next.start < at || next.last < next.start || ++n > REGIONS)
            abort();
        if ((at = next.last + 1) == 0)
            break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct asymreg__table_opts opts = {
        .max_regions = REGIONS, .max_segments = 8, .ring = RING, .max_handle_bytes = 24};
    struct asymreg__cache_opts copts = {.read = read_fn};
    const uint8_t *p = data, *end = data + size;
    struct asymreg__table *t;
    struct asymreg__cache *c = NULL;
    struct asymreg__reader *r = NULL;
    asymreg_id ids[64] = {0};
    uint64_t segment;
    uint64_t first = size ? *p++ : 0;

    block_bytes = asymreg__table_bytes(&opts);
    memset(block, 0, block_bytes);
    armed.in = 0;
    if (block_bytes > sizeof(block) || asymreg__table_create(&opts, block, 7, &t) < 0)
        abort();
    if (asymreg__table_segment_add(t, 4096, 1 << 20, "a handle", 8, &segment) < 0)
        abort();
    for (uint32_t i = 0; i < first % 64; i++)
        asymreg__table_insert(t, 4096 + i * 100, 50, ASYMREG_RW, segment, &ids[i]);
    copts.bytes = block_bytes;
    if (first & 64)
        copts.mapped = block;
    if (!(first & 128) && asymreg__cache_create(&copts, &c) < 0)
        abort();
    while (p < end) {
        uint8_t step = *p++;
        uint32_t at = (uint32_t)(word(&p, end, 2) * 8 % block_bytes);
        switch (step % 8) {
        case 0:
        case 1: { /* not the owner's segments, which the owner trusts */
            uint64_t v = value_of(&p, end);
            if (step & 8)
                memcpy(block + at, &v, 8);
            else
                memcpy(block + at % (4096 * 3 + 1024), &v, 8);
            break;
        }
        case 2:
            armed.at = at;
            armed.value = value_of(&p, end);
            armed.in = 1 + step / 8 % 8;
            break;
        case 3:
        case 4:
            if (step & 16) { /* as after more changes than the log holds: the reader reads leaves */
                struct asymreg__header *h = (void *)block;
                h->log.log_head = ++h->log.log_tail;
            }
            if (c)
                asymreg__cache_refresh(c);
            break;
        case 5:
            if (c && !r && asymreg__reader_create(asymreg__cache_index(c), &r) < 0)
                abort();
            if (c)
                check(c, r, 4096 + at % 8192);
            break;
        case 6:
            if (c) {
                struct asymreg__segment_copy s;
                if (asymreg__cache_segment(c, value_of(&p, end), &s) == 0 &&
                    (s.last < s.base || s.handle_bytes > 24))
                    abort();
            }
            break;
        default:
            if (!c && asymreg__cache_create(&copts, &c) < 0)
                c = NULL;
        }
    }
    asymreg__reader_destroy(r);
    asymreg__cache_destroy(c);
    asymreg__table_destroy(t);
    return 0;
}
