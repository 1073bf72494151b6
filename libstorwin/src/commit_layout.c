/* SPDX-License-Identifier: BSD-3-Clause */
/* Records and batches of the journal: seals them, and recognizes them among arbitrary bytes. */
#include "commit.h"
#include "sum.h"

#include <string.h>

static uint64_t record_sum(const struct storwin__record *r)
{
    return storwin__sum(r, offsetof(struct storwin__record, sum), STORWIN__RECORD_MAGIC);
}

/* Returns the number of areas of the record's file. */
uint32_t storwin__record_areas(const struct storwin__record *r)
{
    return r->layout == STORWIN__RECORD_LAYOUT ? 2 : r->layout;
}

/* Sets the fields common to all records, and the sum. */
void storwin__record_seal(struct storwin__record *r, uint32_t place, uint32_t copy)
{
    r->magic = STORWIN__RECORD_MAGIC;
    r->order = STORWIN__RECORD_ORDER;
    if (r->layout == 0)
        r->layout = STORWIN__RECORD_LAYOUT;
    r->block_bytes = (uint32_t)STORWIN__BLOCK;
    r->place = place;
    r->copy = copy;
    r->sum = record_sum(r);
}

/* Returns whether the numbers of a record are consistent. */
static int record_plausible(const struct storwin__record *r)
{
    const uint64_t most = STORWIN_MAX_BYTES;
    const uint32_t areas = storwin__record_areas(r);

    return r->block_bytes == STORWIN__BLOCK && r->home < areas && r->seq > 0 && r->generation > 0 &&
           r->home_generation > 0 && r->home_generation <= r->generation && r->bytes > 0 &&
           r->bytes <= r->cap && r->cap <= most && r->cap % STORWIN__AREA_UNIT == 0 &&
           r->base >= areas * STORWIN__PLACE_BYTES && r->base <= 16 * most &&
           r->base % STORWIN__AREA_UNIT == 0 && r->journal_bytes <= (areas == 2 ? r->cap : 0) &&
           r->journal_bytes % STORWIN__BLOCK == 0;
}

/*
 * Checks a copy of a record. Returns 0: a whole record of this place. STORWIN_ENONE: zeros, never
 * written. STORWIN_EDAMAGED: it has the magic but is not whole. STORWIN_EFORMAT: other bytes, or
 * another layout or machine. `raw` need not be aligned.
 */
int storwin__record_check(const void *raw, uint32_t place, uint32_t copy, struct storwin__record *r)
{
    static const struct storwin__record zeros;

    memcpy(r, raw, sizeof(*r));
    if (memcmp(r, &zeros, sizeof(zeros)) == 0)
        return STORWIN_ENONE;
    if (r->magic != STORWIN__RECORD_MAGIC)
        return STORWIN_EFORMAT;
    if (r->sum != record_sum(r))
        return STORWIN_EDAMAGED;
    if (r->order != STORWIN__RECORD_ORDER ||
        (r->layout != STORWIN__RECORD_LAYOUT &&
         (r->layout < 3 || r->layout > STORWIN_MAX_GENERATIONS)) ||
        !record_plausible(r))
        return STORWIN_EFORMAT;
    return r->place == place && r->copy == copy ? 0 : STORWIN_EDAMAGED;
}

uint64_t storwin__batch_sum(const struct storwin__batch *b, const struct storwin__entry *entries)
{
    const uint64_t head =
        storwin__sum(b, offsetof(struct storwin__batch, sum), STORWIN__BATCH_MAGIC);

    return storwin__sum(entries, (size_t)(b->n_blocks * sizeof(*entries)), head);
}

void storwin__batch_seal(struct storwin__batch *b, const struct storwin__entry *entries)
{
    b->magic = STORWIN__BATCH_MAGIC;
    b->reserved = 0;
    b->sum = storwin__batch_sum(b, entries);
}

/* Returns the bytes of a batch before its blocks. */
uint64_t storwin__batch_index_bytes(uint64_t n_blocks)
{
    return storwin__round_up(
        sizeof(struct storwin__batch) + n_blocks * sizeof(struct storwin__entry), STORWIN__BLOCK);
}

/* Returns whether a head may be the next batch's: it follows a batch with the sum `prev`, has no
 * more blocks than the state, and fits the rest of the journal. The caller still compares its
 * sum. */
int storwin__batch_check(const struct storwin__batch *b, const struct storwin__record *r,
                         uint64_t prev, uint64_t room)
{
    const uint64_t most = storwin__round_up(r->bytes, STORWIN__BLOCK) / STORWIN__BLOCK;

    return b->magic == STORWIN__BATCH_MAGIC && b->epoch == r->epoch && b->prev == prev &&
           b->generation > r->home_generation && b->generation <= r->generation &&
           b->n_blocks > 0 && b->n_blocks <= most && b->n_blocks <= room / STORWIN__BLOCK &&
           storwin__batch_index_bytes(b->n_blocks) + b->n_blocks * STORWIN__BLOCK <= room;
}

/* Returns the begin of an area, relative to the window's offset in the file; area 2 is the
 * journal. */
uint64_t storwin__area_at(const struct storwin__record *r, uint32_t area)
{
    return r->base + area * r->cap;
}
