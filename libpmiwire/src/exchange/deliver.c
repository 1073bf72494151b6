/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a Fence or an Allgather: segments become blocks, ordered by node, and for one node by
 * arrival, which is the same order everywhere. A chunk is freed once its last segment is in a
 * block, so that memory shrinks here while the caller's store grows.
 */
#include <errno.h>

#include "exchange_internal.h"

struct delivery {
    uint32_t kind, number;
    struct pmiwire__buf block; /* room for its header, and records */
    uint32_t n_pairs;          /* in it */
    uint64_t total;            /* bytes handed over */
    unsigned char *seen;       /* Allgather: a bit for each rank */
};

/* ---- segments in order ---- */

struct place {
    struct pmiwire__chunk *chunk;
    size_t at; /* bytes in it */
};

/* Counts the segments, their pairs, their bytes as records, and finds the longest value. */
static size_t count_segments(const struct pmiwire__chunk *ch, uint64_t *pairs, uint64_t *bytes,
                             uint32_t *longest)
{
    struct pmiwire__segment s;
    struct pmiwire__run run;
    size_t n = 0;
    const char *p;

    *pairs = *bytes = *longest = 0;
    for (; ch; ch = ch->next)
        for (size_t at = 0; at < ch->bytes; at += s.whole, n++) {
            (void)pmiwire__segment_read(ch->data + at, ch->bytes - at, &s);
            for (p = s.runs; p < s.runs + s.bytes;) {
                (void)pmiwire__run_read(&p, s.runs + s.bytes, &run);
                *pairs += run.n;
                *bytes += (uint64_t)run.n * pmiwire__record_bytes(run.shared + run.rest, run.value);
                if (run.value > *longest)
                    *longest = run.value;
            }
        }
    return n;
}

/* Lists each segment's place, and the sort key of its order: node << 32 | index. */
static void list_segments(struct pmiwire__chunk *ch, struct place *places, uint64_t *order)
{
    struct pmiwire__segment s;
    size_t n = 0;

    for (; ch; ch = ch->next)
        for (size_t at = 0; at < ch->bytes; at += s.whole, n++) {
            (void)pmiwire__segment_read(ch->data + at, ch->bytes - at, &s);
            places[n] = (struct place){ch, at};
            order[n] = (uint64_t)s.node << 32 | n;
            ch->n_left++;
        }
}

/* ---- blocks ---- */

/* Keeps the pairs of a block, for a node without ops->find. */
static int keep_block(struct pmiwire_exchange *x, const struct delivery *d)
{
    struct pmiwire__record rec;
    int rc = 0;

    for (size_t at = PMIWIRE_BLOCK_HEADER_BYTES; at < d->block.len && rc == 0; at += rec.bytes) {
        rec = pmiwire__record_at(d->block.ptr + at);
        rc = pmiwire__fenced_keep(x, &rec, d->number);
    }
    return rc;
}

/* Hands the block to the caller, and to our own store if that answers Gets. */
static int deliver_block(struct pmiwire_exchange *x, struct delivery *d)
{
    int rc = 0;

    if (d->n_pairs == 0)
        return 0;
    pmiwire__block_header(d->block.ptr, d->n_pairs, d->block.len);
    if (x->ops.pairs)
        rc = x->ops.pairs(x->ctx, d->kind, d->number, d->block.ptr, d->block.len);
    if (rc == 0 && d->kind == PMIWIRE_COLL_FENCE && !x->ops.find)
        rc = keep_block(x, d);
    d->block.len = PMIWIRE_BLOCK_HEADER_BYTES;
    d->n_pairs = 0;
    return rc;
}

/* Counts the pairs of records. In an Allgather each rank may occur once. */
static int count_records(struct pmiwire_exchange *x, struct delivery *d, const char *p, size_t n)
{
    struct pmiwire__record rec;
    uint32_t rank;

    for (size_t at = 0; at < n; at += rec.bytes) {
        rec = pmiwire__record_at(p + at);
        d->n_pairs++;
        d->total++;
        x->stats.payload_bytes += rec.key.len + rec.value.len;
        if (!d->seen)
            continue;
        memcpy(&rank, rec.key.ptr, sizeof(rank));
        if (d->seen[rank / 8] >> rank % 8 & 1)
            return PMIWIRE_EPROTO;
        d->seen[rank / 8] |= (unsigned char)(1 << rank % 8);
    }
    return 0;
}

/* Adds a segment to the block; hands a full block over first. */
static int add_segment(struct pmiwire_exchange *x, struct delivery *d,
                       const struct pmiwire__chunk *ch, size_t at)
{
    struct pmiwire__segment s;
    uint64_t records;
    int rc = 0;

    (void)pmiwire__segment_read(ch->data + at, ch->bytes - at, &s);
    (void)pmiwire__segment_records(&s, &records);
    if (d->block.len + records > d->block.cap)
        rc = deliver_block(x, d);
    if (rc != 0)
        return rc;
    pmiwire__segment_unpack(&s, d->block.ptr + d->block.len);
    rc = count_records(x, d, d->block.ptr + d->block.len, (size_t)records);
    d->block.len += (size_t)records;
    return rc;
}

/* Delivers all n of them, and then frees their chunks, also after a failure. */
static int add_segments(struct pmiwire_exchange *x, struct delivery *d, const struct place *places,
                        const uint64_t *order, size_t n)
{
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        const struct place *place = &places[(uint32_t)order[i]];

        if (rc == 0)
            rc = add_segment(x, d, place->chunk, place->at);
        if (--place->chunk->n_left == 0)
            pmiwire__chunk_free(x, place->chunk);
    }
    return rc;
}

/* Delivers the pairs that this node has put for the next Fence again, after this Fence's pairs:
 * they must remain the latest in the caller's store. */
static int add_own_pairs(struct pmiwire_exchange *x, struct delivery *d)
{
    const struct pmiwire__coll *c = &x->colls[d->kind];
    const struct pmiwire__chunk *ch = c->data[(d->number + 1) & 1].head;
    const uint64_t payload = x->stats.payload_bytes;
    struct pmiwire__record rec;
    int rc = 0;

    for (; ch && rc == 0; ch = ch->next)
        if (ch->link == PMIWIRE__NONE) /* each own chunk is one segment */
            rc = add_segment(x, d, ch, 0);
    for (size_t at = 0; at < c->own.len && rc == 0; at += rec.bytes) {
        rec = pmiwire__record_at(c->own.ptr + at);
        if (d->block.len + rec.bytes > d->block.cap)
            rc = deliver_block(x, d);
        memcpy(d->block.ptr + d->block.len, c->own.ptr + at, rec.bytes);
        d->block.len += rec.bytes;
        d->n_pairs++;
    }
    x->stats.payload_bytes = payload;
    return rc;
}

/* ---- delivery ---- */

static int delivery_init(struct pmiwire_exchange *x, struct delivery *d, uint64_t bytes,
                         size_t bits)
{
    size_t most =
        bytes < PMIWIRE_EXCHANGE_BLOCK_BYTES ? (size_t)bytes : PMIWIRE_EXCHANGE_BLOCK_BYTES;

    if (most < x->max_frame) /* no segment is longer */
        most = x->max_frame;
    most += PMIWIRE_BLOCK_HEADER_BYTES;
    d->block.ptr = pmiwire__mem_realloc(&x->mem, NULL, 0, most);
    if (!d->block.ptr)
        return -ENOMEM;
    d->block.cap = most;
    d->block.len = PMIWIRE_BLOCK_HEADER_BYTES;
    if (bits == 0)
        return 0;
    d->seen = pmiwire__mem_realloc(&x->mem, NULL, 0, bits);
    if (!d->seen)
        return -ENOMEM;
    memset(d->seen, 0, bits);
    return 0;
}

int pmiwire__deliver(struct pmiwire_exchange *x, uint32_t kind, uint32_t number,
                     struct pmiwire__chunk **chunks)
{
    const size_t bits = kind == PMIWIRE_COLL_ALLGATHER ? (x->n_ranks + 7) / 8 : 0;
    struct delivery d = {.kind = kind, .number = number};
    uint64_t bytes, *order;
    uint32_t longest;
    const size_t n = count_segments(*chunks, &x->n_pairs, &bytes, &longest);
    struct place *places;
    int rc;

    if (n == 0)
        return kind == PMIWIRE_COLL_ALLGATHER ? PMIWIRE_EPROTO : 0;
    if (n > UINT32_MAX)
        return -ENOMEM;
    if (kind == PMIWIRE_COLL_ALLGATHER)
        x->longest = longest;
    rc = delivery_init(x, &d, bytes, bits);
    order = pmiwire__mem_realloc(&x->mem, NULL, 0, n * sizeof(*order));
    places = pmiwire__mem_realloc(&x->mem, NULL, 0, n * sizeof(*places));
    if (rc == 0 && (!order || !places))
        rc = -ENOMEM;
    if (rc == 0) {
        list_segments(*chunks, places, order);
        *chunks = NULL;
        pmiwire__sort(order, n, sizeof(*order));
        rc = add_segments(x, &d, places, order, n);
        if (rc == 0 && kind == PMIWIRE_COLL_FENCE && x->ops.find)
            rc = add_own_pairs(x, &d);
        if (rc == 0)
            rc = deliver_block(x, &d);
        if (rc == 0 && bits && d.total != x->n_ranks)
            rc = PMIWIRE_EPROTO;
    }
    (void)pmiwire__mem_realloc(&x->mem, order, order ? n * sizeof(*order) : 0, 0);
    (void)pmiwire__mem_realloc(&x->mem, places, places ? n * sizeof(*places) : 0, 0);
    (void)pmiwire__mem_realloc(&x->mem, d.seen, d.seen ? bits : 0, 0);
    pmiwire__buf_free(&x->mem, &d.block);
    return rc;
}

uint64_t pmiwire_exchange_pairs(const struct pmiwire_exchange *x)
{
    return x->n_pairs;
}

uint32_t pmiwire_exchange_longest_value_bytes(const struct pmiwire_exchange *x)
{
    return x->longest;
}
