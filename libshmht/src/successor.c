/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * New tables from old ones: compaction, and resuming after a writer died. A record of the log is
 * live if a slot refers to it. A writer marks each record that loses its slot. If it is killed
 * between the two stores, one such record remains unmarked.
 */
#include <errno.h>
#include <unistd.h>

#include "internal.h"

/* Returns whether a slot has this hash and this place. */
static int refers(const struct shmht_reader *r, uint32_t hash, uint64_t pos)
{
    uint64_t wanted = SLOT(hash, pos >> r->granule_shift);
    struct shmht__table t;
    uint32_t at;

    if (shmht__table_of(r, &t) != 0)
        return 0;
    at = shmht__home(hash, t.n_lines);
    for (uint32_t probes = SHMHT_MAX_PROBE; probes > 0; probes--) {
        const _Atomic uint64_t *line = t.lines + (size_t)at * LINE_SLOTS;

        for (unsigned i = 0; i < LINE_SLOTS; i++) {
            uint64_t slot = atomic_load_explicit(&line[i], memory_order_acquire);

            if (slot == wanted)
                return 1;
            if (slot == 0)
                return 0;
        }
        if (++at == t.n_lines)
            at = 0;
    }
    return 0;
}

static uint64_t used_slots(const struct shmht_reader *r)
{
    struct shmht__table t;
    uint64_t n = 0;

    if (shmht__table_of(r, &t) != 0)
        return UINT64_MAX;
    for (size_t i = 0; i < (size_t)t.n_lines * LINE_SLOTS; i++)
        n += atomic_load_explicit(&t.lines[i], memory_order_relaxed) != 0;
    return n;
}

/* Returns the bytes that a pair with these lengths takes in the log. */
static uint64_t bytes_of(const struct shmht_reader *r, size_t key, size_t value)
{
    struct shmht__record rec = record_plan(key, value);

    return align_up(record_bytes(&rec), UINT64_C(1) << r->granule_shift);
}

/*
 * Reads the next live records of the log, up to SHMHT_BATCH. A living writer has marked the others.
 * If the writer died (`orphan`), looks for each record's slot instead. Returns how many, or
 * SHMHT_ECORRUPT.
 */
static int take_live(const struct shmht_reader *r, int orphan, struct shmht_iter *it,
                     struct shmht__pair *pairs)
{
    int n = 0, rc;

    while (n < (int)SHMHT_BATCH) {
        struct shmht__pair *p = &pairs[n];

        rc = shmht_reader_next(r, it, &p->key, &p->value);
        if (rc <= 0)
            return rc < 0 ? rc : n;
        n += !orphan || refers(r, shmht__key_hash(r, p->key.ptr, p->key.len),
                               it->pos - bytes_of(r, p->key.len, p->value.len));
    }
    return n;
}

/* Puts all live pairs of one table into another, which is empty. */
static int copy_live(const struct shmht_reader *from, int orphan, struct shmht_writer *to)
{
    struct shmht__pair pairs[SHMHT_BATCH];
    struct shmht_merged done = {0, 0, 0};
    struct shmht_iter it = {0};
    int n, rc = 0;

    while (rc == 0 && (n = take_live(from, orphan, &it, pairs)) != 0)
        rc = n < 0 ? n : shmht__put_batch(to, pairs, (size_t)n, SHMHT_DUP_REJECT, &done);
    if (rc == 0 && (done.n_kept != 0 || done.n_new != used_slots(from)))
        rc = SHMHT_ECORRUPT; /* a slot refers to no record, or a key occurs twice */
    return rc;
}

/* Makes the next generation of the table behind `from`, without garbage. */
static int copy_table(const struct shmht_reader *from, int orphan,
                      const struct shmht_writer_opts *opts, struct shmht_writer **out,
                      struct shmht_error *err)
{
    const struct shmht__header *h = shmht__header_of(from);
    struct shmht_writer_opts o = *opts;
    struct shmht_writer *w;
    struct shmht_stats s;
    int rc;

    shmht_reader_stats(from, &s);
    o.duplicates = h->duplicates;
    o.hash_id = from->hash_id;
    o.hash = from->hash;
    o.seed = from->seed;
    if (o.generation == 0)
        o.generation = from->generation + 1;
    if (o.max_load_percent == 0)
        o.max_load_percent = h->max_load_percent;
    if (o.expected_entries < s.entries)
        o.expected_entries = s.entries;
    if (s.live_bytes > from->max_bytes ||
        s.entries > from->max_bytes) /* counters of a hostile or torn header */
        return shmht__refused(err, SHMHT_ECORRUPT, "entries", s.entries);
    rc = shmht__writer_open(&o, s.live_bytes < o.max_bytes ? s.live_bytes : 0, &w, err);
    if (rc < 0)
        return rc;
    rc = copy_live(from, orphan, w);
    if (rc < 0) {
        shmht_writer_destroy(w);
        return shmht__failed(err, rc, "copy", "the old table");
    }
    *out = w;
    return 0;
}

static int overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return a && b && (x < y ? y - x < a_bytes : x - y < b_bytes);
}

int shmht_writer_compact(struct shmht_writer *w, const struct shmht_writer_opts *opts,
                         struct shmht_writer **out, struct shmht_error *err)
{
    struct shmht_writer_opts o = w->opts;
    struct shmht_writer *fresh;
    int rc = out ? 0 : shmht__refused(err, -EINVAL, "out", 0);

    if (rc == 0 && opts)
        rc = shmht__opts_take(opts, sizeof(o), &o, err);
    if (rc == 0 && overlap(o.region, o.max_bytes, w->opts.region, w->opts.max_bytes))
        rc = shmht__refused(err, -EINVAL, "region", (uintptr_t)o.region); /* the old table is in
                                                                             it */
    if (!opts) {
        o.expected_entries = 0;
        o.generation = 0;
    }
    if (rc == 0 && (rc = shmht_writer_publish(w)) < 0)
        (void)shmht__failed(err, rc, "publish", "the old table");
    if (rc == 0)
        rc = copy_table(&w->view, 0, &o, &fresh, err);
    if (rc < 0)
        return rc;
    atomic_store_explicit(&w->header->superseded, fresh->header->generation, memory_order_release);
    *out = fresh;
    return 0;
}

/* ------------------------------------------------------------------ resume */

/* Marks a record if no slot refers to it; counts it if one does. */
static void settle(struct shmht_writer *w, uint64_t pos, uint64_t bytes,
                   const struct shmht__record *rec, uint64_t *entries, uint64_t *live)
{
    const unsigned char *key = w->object.base + pos + rec->head;

    if (refers(&w->view, shmht__key_hash(&w->view, key, rec->key), pos)) {
        ++*entries;
        *live += bytes;
    } else {
        atomic_fetch_or_explicit((_Atomic uint32_t *)(void *)(w->object.base + pos), WORD_DEAD,
                                 memory_order_release);
    }
}

/*
 * Walks the log: marks records without a slot, counts the others. Fails unless each slot refers to
 * one of the others and the table lies in a skip: a writer of this library leaves no other table.
 */
static int replay(struct shmht_writer *w)
{
    uint64_t top = atomic_load_explicit(&w->header->top, memory_order_acquire);
    uint64_t table = atomic_load_explicit(&w->header->table, memory_order_acquire);
    uint64_t first = (uint64_t)(uint32_t)table * LINE_BYTES,
             end = first + (table >> 32) * LINE_BYTES;
    uint64_t entries = 0, live = 0, garbage = 0, pos = HEADER_BYTES;
    int found = 0;

    while (pos < top) {
        struct shmht__record rec;
        uint64_t from = pos;
        uint32_t word;
        int kind = shmht__log_step(&w->view, top, &pos, &word, &rec);

        if (kind < 0)
            return kind;
        if (kind == 2) {
            found |= first >= from + 8 && end <= pos;
            continue;
        }
        if (!(word & WORD_DEAD))
            settle(w, from, pos - from, &rec, &entries, &live);
        garbage += pos - from;
    }
    if (!found || entries != used_slots(&w->view))
        return SHMHT_ECORRUPT;
    w->top = top;
    w->entries = entries;
    atomic_store_explicit(&w->header->entries, entries, memory_order_relaxed);
    atomic_store_explicit(&w->header->live_bytes, live, memory_order_relaxed);
    atomic_store_explicit(&w->header->garbage_bytes, garbage - live, memory_order_relaxed);
    return 0;
}

/* Fills in a writer whose object is mapped and locked. */
static int adopt(struct shmht_writer *w, const struct shmht_desc *desc,
                 const struct shmht_writer_opts *o, struct shmht_error *err)
{
    uint64_t cap;
    int rc;

    w->header = (struct shmht__header *)(void *)w->object.base;
    if (w->object.bytes < HEADER_BYTES)
        return shmht__refused(err, SHMHT_ETRUNC, "bytes", w->object.bytes);
    rc = shmht__header_check(w->header, -1, &w->object.bytes, SHMHT_KIND_TABLE, desc, o->max_bytes,
                             err);
    cap = shmht__header_max_bytes(w->header);
    if (rc == 0 && cap < HEADER_BYTES) /* changed since the check */
        rc = shmht__refused(err, SHMHT_ECORRUPT, "max_bytes", cap);
    if (rc == 0 && o->region && cap < w->object.max_bytes)
        w->object.bytes = w->object.max_bytes =
            cap; /* the caller gives more memory than the table was made for */
    if (rc == 0 && cap != w->object.max_bytes)
        rc = shmht__refused(err, SHMHT_ESTALE, "max_bytes", cap);
    shmht__writer_view_init(w);
    if (rc == 0)
        rc = shmht__reader_bind(&w->view, w->header, SHMHT_KIND_TABLE, o->hash_id, o->hash, err);
    if (rc < 0)
        return rc;
    w->duplicates = w->opts.duplicates = w->header->duplicates;
    w->max_load_percent = w->opts.max_load_percent = w->header->max_load_percent;
    rc = replay(w);
    if (rc < 0)
        return shmht__failed(err, rc, "replay", "the log");
    shmht__writer_use_table(w, atomic_load_explicit(&w->header->table, memory_order_relaxed));
    return 0;
}

static int open_for_writing(struct shmht_writer *w, const struct shmht_desc *desc,
                            const struct shmht_writer_opts *o, struct shmht_error *err)
{
    int rc;

    if (o->region) {
        w->object.base = o->region;
        w->object.bytes = w->object.max_bytes = o->max_bytes & ~(uint64_t)(LINE_BYTES - 1);
        return adopt(w, desc, o, err);
    }
    rc = shmht__object_open(&w->object, desc->name, o->flags | SHMHT_NAMED, desc->max_bytes,
                            o->min_free_bytes);
    if (rc < 0)
        return shmht__failed(err, rc, "open", desc->name);
    rc = adopt(w, desc, o, err);
    if (rc < 0)
        return rc;
    rc = shmht__object_publish(&w->object, 0);
    return rc < 0 ? shmht__failed(err, rc, "seal", desc->name) : 0;
}

static int resume_in_place(const struct shmht_desc *desc, const struct shmht_writer_opts *opts,
                           struct shmht_writer **out, struct shmht_error *err)
{
    struct shmht_writer_opts o;
    struct shmht_writer *w;
    int rc = shmht__writer_take_opts(opts, &o, err);

    if (rc == 0 && !o.region && (!desc || !desc->name[0]))
        rc = shmht__refused(err, -EINVAL, "desc", 0);
    if (rc == 0 && desc && desc->max_bytes > o.max_bytes)
        rc = shmht__refused(err, SHMHT_ELIMIT, "max_bytes", desc->max_bytes);
    if (rc == 0)
        rc = shmht__writer_alloc(&o, &w, err);
    if (rc < 0)
        return rc;
    rc = open_for_writing(w, desc, &o, err);
    if (rc < 0) {
        shmht__object_close(&w->object, 0);
        shmht__handle_free(o.allocator, w);
        return rc;
    }
    *out = w;
    return 0;
}

int shmht_writer_resume(const struct shmht_desc *desc, int fd, const struct shmht_writer_opts *opts,
                        struct shmht_writer **out, struct shmht_error *err)
{
    struct shmht_reader_opts how = {.size = sizeof(how), .flags = SHMHT_UNSEALED};
    struct shmht_writer_opts o;
    struct shmht_reader *from;
    int rc =
        out ? shmht__opts_take(opts, sizeof(o), &o, err) : shmht__refused(err, -EINVAL, "out", 0);

    if (rc < 0)
        return rc;
    if (fd < 0)
        return resume_in_place(desc, &o, out, err);
    how.hash_id = o.hash_id;
    how.hash = o.hash;
    how.allocator = o.allocator;
    rc = shmht_reader_attach(desc, fd, &how, &from, err);
    if (rc < 0)
        return rc;
    rc = shmht__object_writer_alive(from->fd) ? shmht__failed(err, SHMHT_EBUSY, "resume", NULL)
                                              : copy_table(from, 1, &o, out, err);
    shmht_reader_detach(from);
    return rc < 0 ? rc : 1;
}
