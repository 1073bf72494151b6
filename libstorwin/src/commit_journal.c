/* SPDX-License-Identifier: BSD-3-Clause */
/* The journal of atomic commits: one batch of changed blocks for each commit, in commit order. */
#include "commit.h"
#include "sum.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES  (UINT64_C(1) << 20)
#define MOST_COPIES UINT64_C(256) /* blocks that a commit holds as copies */

static uint64_t journal_at(const struct storwin_window *win, const struct storwin__record *r)
{
    return win->opts.offset_bytes + storwin__area_at(r, 2);
}

/* Returns whether a batch of n_pages fits behind the valid batches. */
int storwin__journal_fits(const struct storwin_window *win, uint64_t n_pages)
{
    const struct storwin__commit *c = win->commit;
    const uint64_t n = n_pages * (win->page_bytes / STORWIN__BLOCK);
    const uint64_t bytes = storwin__batch_index_bytes(n) + n * STORWIN__BLOCK;

    return c->last.journal_bytes <= c->journal_cap &&
           bytes <= c->journal_cap - c->last.journal_bytes;
}

/* Lists the blocks of all changed pages. Returns their number. */
static uint64_t list_blocks(const struct storwin_window *win, struct storwin__entry *entries)
{
    const struct storwin__commit *c = win->commit;
    const uint64_t pages = storwin__pages(win), per_page = win->page_bytes / STORWIN__BLOCK;
    uint64_t n = 0;

    for (uint64_t p = storwin__set_next(c->changed, 0, pages, 1); p < pages;
         p = storwin__set_next(c->changed, p + 1, pages, 1))
        for (uint64_t b = p * per_page; b < storwin__min((p + 1) * per_page, c->n_blocks); b++)
            entries[n++].block = b;
    return n;
}

/* How many blocks write_blocks() holds as copies at a time, at most. */
static uint64_t blocks_copied(const struct storwin_window *win)
{
    uint64_t first, last;

    storwin__copied_pages(win, &first, &last);
    first += storwin__pages(win) - last;
    return storwin__min(first * (win->page_bytes / STORWIN__BLOCK) + 1, MOST_COPIES);
}

/* Writes blocks behind the index, which is the stream's first piece; copies some into the buffer.
 * The last ones remain in the stream. */
static int write_blocks(struct storwin__stream *s, const struct storwin__entry *entries, uint64_t n,
                        uint8_t *buffer)
{
    struct storwin_window *win = s->win;
    const uint64_t per_page = win->page_bytes / STORWIN__BLOCK;
    uint64_t first, last, n_copies = 0;
    int rc = 0;

    storwin__copied_pages(win, &first, &last);
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        const uint64_t block = entries[i].block, page = block / per_page;
        const int copied = page < first || page >= last;
        uint8_t *at = win->source + block * STORWIN__BLOCK;

        /* The bytes behind a short block may not be the window's. */
        if (copied || storwin__block_bytes(win, block) < STORWIN__BLOCK) {
            if (n_copies == MOST_COPIES) {
                rc = storwin__stream_flush(s);
                n_copies = 0;
            }
            at = buffer + n_copies++ * STORWIN__BLOCK;
            if (copied)
                storwin__block_copy(win, block, at);
            else
                storwin__block_read(win, block, at);
        }
        if (rc == 0)
            rc = storwin__stream_put(s, at, STORWIN__BLOCK);
    }
    return rc;
}

/* Writes a batch and flushes. Its data_sum and its sum are those of the blocks as written. */
static int write_batch(struct storwin_window *win, uint8_t *index, uint64_t n, uint8_t *buffer)
{
    const struct storwin__commit *c = win->commit;
    const uint64_t at = journal_at(win, &c->last) + c->last.journal_bytes,
                   index_bytes = storwin__batch_index_bytes(n);
    struct storwin__batch *batch = (void *)index;
    struct storwin__entry *entries = (void *)(index + sizeof(*batch));
    struct storwin__stream s = {.win = win, .call = pwritev, .offset = at};
    struct iovec again = {index, (size_t)index_bytes};
    struct storwin__summing sums;
    int rc = storwin__stream_put(&s, index, index_bytes), parts;

    storwin__sum_start(&sums, win, c->changed);
    if (rc == 0)
        rc = write_blocks(&s, entries, n, buffer);
    if (rc == 0 && sums.set)
        rc = storwin__stream_flush(&s);
    storwin__sum_finish(&sums);
    for (uint64_t i = 0; i < n; i++)
        entries[i].sum = c->sums[entries[i].block];
    batch->data_sum = c->total;
    storwin__batch_seal(batch, entries);
    parts = s.offset > at; /* one of them was the index, without the sums */
    if (rc == 0)
        rc = storwin__stream_flush(&s);
    if (rc == 0 && parts)
        rc = storwin__commit_transfer(win, pwritev, &again, 1, at);
    if (rc == 0 && fdatasync(win->files[0].fd) < 0)
        rc = -errno;
    return rc;
}

/* Appends the changed pages and flushes; *next is the record that makes them valid. */
int storwin__journal_append(struct storwin_window *win, uint64_t generation,
                            struct storwin__record *next)
{
    const struct storwin__commit *c = win->commit;
    const uint64_t pages = storwin__set_count(c->changed, 0, storwin__pages(win));
    const uint64_t most = pages * (win->page_bytes / STORWIN__BLOCK);
    void *whole;
    const uint64_t index_bytes = storwin__batch_index_bytes(most),
                   copies = storwin__min(most, blocks_copied(win)) * STORWIN__BLOCK;
    uint8_t *index = storwin__blocks_alloc(win, index_bytes + copies, &whole);
    struct storwin__batch *batch = (void *)index;
    uint64_t n;
    int rc;

    if (!index)
        return -ENOMEM;
    n = list_blocks(win, (void *)(index + sizeof(*batch)));
    batch->epoch = c->last.epoch;
    batch->generation = generation;
    batch->n_blocks = n;
    batch->prev = c->last.journal_bytes ? c->last.journal_sum : c->last.home_sum;
    rc = write_batch(win, index, n, index + index_bytes);
    *next = c->last;
    next->generation = batch->generation;
    next->data_sum = batch->data_sum;
    next->journal_sum = batch->sum;
    next->journal_bytes += storwin__batch_index_bytes(n) + n * STORWIN__BLOCK;
    storwin__free(win->opts.allocator, whole);
    return rc;
}

static int journal_damaged(const struct storwin_window *win, struct storwin_error *err, uint64_t at,
                           uint64_t generation)
{
    return storwin__fail(err, STORWIN_EDAMAGED, STORWIN__FILENAME,
                         "the journal of \"%.80s\" is damaged %" PRIu64
                         " bytes behind its beginning, in or before generation %" PRIu64,
                         win->path, at, generation);
}

/* Returns whether a block is to be replayed: in a page of `set`; NULL: any. */
static int block_wanted(const struct storwin_window *win, const atomic_uint_least64_t *set,
                        uint64_t block)
{
    const uint64_t page = block / (win->page_bytes / STORWIN__BLOCK);

    return !set ||
           (page < storwin__pages(win) && storwin__set_next(set, page, page + 1, 1) == page);
}

/* Copies the blocks of one batch, `at` bytes into the journal, to their places in memory. */
static int replay_blocks(struct storwin_window *win, const struct storwin__record *r, uint64_t at,
                         const atomic_uint_least64_t *set, const struct storwin__batch *b,
                         const struct storwin__entry *entries, uint8_t *buffer,
                         struct storwin_error *err)
{
    struct storwin__commit *c = win->commit;
    const uint64_t per_page = win->page_bytes / STORWIN__BLOCK,
                   per_read = READ_BYTES / STORWIN__BLOCK;

    uint64_t in_buffer = 0; /* read up to this one */

    for (uint64_t i = 0; i < b->n_blocks; i++) {
        const uint64_t first = i / per_read * per_read,
                       left = storwin__min(per_read, b->n_blocks - first);
        const uint64_t block = entries[i].block,
                       bytes = block < c->n_blocks ? storwin__block_bytes(win, block) : 0;
        const uint8_t *from = buffer + i % per_read * STORWIN__BLOCK;
        int rc = 0;

        if (!block_wanted(win, set, block))
            continue;
        if (in_buffer <= i) {
            rc = storwin__file_read(&win->files[0], buffer, left * STORWIN__BLOCK,
                                    journal_at(win, r) + at + first * STORWIN__BLOCK);
            in_buffer = first + left;
        }
        if (rc < 0)
            return storwin__fail(err, rc, STORWIN__FILENAME, "read of the journal: %s",
                                 storwin_strerror(rc));
        if (bytes == 0 || storwin__sum(from, (size_t)bytes, block) != entries[i].sum)
            return journal_damaged(win, err, at + i * STORWIN__BLOCK, b->generation);
        memcpy(win->map + win->stor_offset + block * STORWIN__BLOCK, from, (size_t)bytes);
        if (set)
            continue;
        storwin__set_add(c->lacks[r->home], block / per_page, block / per_page + 1);
        c->replayed_bytes += bytes;
    }
    return 0;
}

/* Replays the batch at *at if it is the expected one, and moves *at and *prev behind it. Returns 1
 * if it is of a later generation than `last`. */
static int replay_batch(struct storwin_window *win, const struct storwin__record *r, uint64_t *at,
                        uint64_t *prev, uint64_t last, const atomic_uint_least64_t *set,
                        struct storwin__batch *head, struct storwin_error *err)
{
    const struct storwin__file *f = &win->files[0];
    const uint64_t place = journal_at(win, r) + *at;
    _Alignas(4096) uint8_t raw[STORWIN__BLOCK];
    uint64_t index_bytes;
    uint8_t *index;
    void *whole;
    int rc = storwin__file_read(f, raw, sizeof(raw), place);

    if (rc < 0)
        return storwin__fail(err, rc, NULL, "read of the journal: %s", storwin_strerror(rc));
    memcpy(head, raw, sizeof(*head));
    if (!storwin__batch_check(head, r, *prev, r->journal_bytes - *at))
        return journal_damaged(win, err, *at, r->generation);
    if (head->generation > last)
        return 1;
    index_bytes = storwin__batch_index_bytes(head->n_blocks);
    index = storwin__blocks_alloc(win, index_bytes + READ_BYTES, &whole);
    rc = index ? storwin__file_read(f, index, index_bytes, place) : -ENOMEM;
    if (rc < 0)
        rc = storwin__fail(err, rc, NULL, "read of the journal: %s", storwin_strerror(rc));
    else if (storwin__batch_sum(head, (const void *)(index + sizeof(*head))) != head->sum)
        rc = journal_damaged(win, err, *at, head->generation);
    else
        rc = replay_blocks(win, r, *at + index_bytes, set, head,
                           (const void *)(index + sizeof(*head)), index + index_bytes, err);
    *at += index_bytes + head->n_blocks * STORWIN__BLOCK;
    *prev = head->sum;
    storwin__free(win->opts.allocator, whole);
    return rc;
}

/* Brings the home area, which is in memory, to a generation that the record covers, by replaying
 * all batches up to it; with `set` only the pages of that set. *reached becomes the record of that
 * generation alone. */
int storwin__journal_replay(struct storwin_window *win, const struct storwin__record *r,
                            uint64_t generation, const atomic_uint_least64_t *set,
                            struct storwin__record *reached, struct storwin_error *err)
{
    uint64_t prev = r->home_sum;

    *reached = *r;
    reached->generation = generation;
    reached->data_sum = r->home_sum;
    reached->journal_bytes = 0;
    while (reached->journal_bytes < r->journal_bytes) {
        struct storwin__batch head;
        int rc = replay_batch(win, r, &reached->journal_bytes, &prev, generation, set, &head, err);

        if (rc != 0)
            return rc < 0 ? rc : 0;
        reached->journal_sum = prev;
        reached->data_sum = head.data_sum;
    }
    return reached->data_sum == r->data_sum
               ? 0
               : journal_damaged(win, err, reached->journal_bytes, r->generation);
}
