/* SPDX-License-Identifier: BSD-3-Clause */
/* Compaction: a new table with the pairs of an old one, without garbage. */
#include <errno.h>

#include "internal.h"

/* Reads the next pairs of the log, up to SHMHT_BATCH. Returns how many, or SHMHT_ECORRUPT. */
static int read_batch(const struct shmht_reader *r, struct shmht_iter *it,
                      struct shmht__pair *pairs)
{
    int n = 0, rc = 1;

    while (rc > 0 && n < (int)SHMHT_BATCH) {
        rc = shmht_reader_next(r, it, &pairs[n].key, &pairs[n].value);
        n += rc > 0;
    }
    return rc < 0 ? rc : n;
}

/* Puts all pairs of one table into another, which is empty. */
static int copy_pairs(const struct shmht_writer *from, struct shmht_writer *to)
{
    struct shmht__pair pairs[SHMHT_BATCH];
    struct shmht_merged done = {0, 0, 0};
    struct shmht_iter it = {0};
    int n, rc = 0;

    do {
        n = read_batch(&from->view, &it, pairs);
        if (n > 0)
            rc = shmht__put_batch(to, pairs, (size_t)n, SHMHT_DUP_REJECT, &done);
    } while (rc == 0 && n > 0);
    if (n < 0)
        return n;
    /* Another process has written to a named object. */
    if (rc == 0 && (done.n_kept != 0 || done.n_new != from->entries))
        return SHMHT_ECORRUPT;
    return rc;
}

static int ranges_overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return a && b && (x < y ? y - x < a_bytes : x - y < b_bytes);
}

/* Fills in the options of the new table: the caller's, or those of the old one. */
static int compact_opts_take(struct shmht_writer_opts *to, const struct shmht_writer_opts *from,
                             const struct shmht_writer *old, struct shmht_error *err)
{
    int rc = 0;

    *to = old->opts;
    if (from)
        rc = shmht__opts_take(to, from, sizeof(*to), err);
    else
        to->expected_entries = to->generation = to->seed = 0;
    if (rc < 0)
        return rc;
    if (ranges_overlap(to->region, to->max_bytes, old->opts.region, old->opts.max_bytes))
        return shmht__refused(err, -EINVAL, "region", (uintptr_t)to->region);
    to->duplicates = old->duplicates;
    to->hash_id = old->view.hash_id;
    to->hash = old->view.hash;
    if (to->generation == 0)
        to->generation = old->view.generation + 1;
    if (to->max_load_percent == 0)
        to->max_load_percent = old->max_load_percent;
    if (to->expected_entries < old->entries)
        to->expected_entries = old->entries;
    return 0;
}

int shmht_writer_compact(struct shmht_writer *w, const struct shmht_writer_opts *opts,
                         struct shmht_writer **out, struct shmht_error *err)
{
    struct shmht_writer_opts o;
    struct shmht_writer *fresh;
    uint64_t live;
    int rc = out ? compact_opts_take(&o, opts, w, err) : shmht__refused(err, -EINVAL, "out", 0);

    if (rc < 0)
        return rc;
    rc = shmht_writer_publish(w);
    if (rc < 0)
        return shmht__failed(err, rc, "publish", "the old table");
    live = atomic_load_explicit(&w->header->live_bytes, memory_order_relaxed);
    rc = shmht__writer_open(&o, live < o.max_bytes ? live : 0, &fresh, err);
    if (rc < 0)
        return rc;
    rc = copy_pairs(w, fresh);
    if (rc < 0) {
        shmht_writer_destroy(fresh);
        return shmht__failed(err, rc, "copy", "the old table");
    }
    atomic_store_explicit(&w->header->superseded, fresh->header->generation, memory_order_release);
    (void)shmht__wake(w->header);
    *out = fresh;
    return 0;
}
