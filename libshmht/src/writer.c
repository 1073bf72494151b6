/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one writer: put, update, growth of the log and of the table.
 *
 * The order of stores is the protocol. Each store is a release, and no store is ever undone:
 *   put      record · top · slot                      (then counters)
 *   update   record · top · slot's offset · WORD_DEAD of the old record
 *   delete   slot's offset · WORD_DEAD of the record
 *   growth   new table, filled, without deleted keys · skip · top · header.table
 * With SHMHT_DEFER a private table grows first, and publishing is the growth above. An update of a
 * key that the present table has changes both tables. Wherever a writer is killed, a reader finds
 * every earlier put, and reads nothing beyond `top`. A record below `top` without a slot is an
 * interrupted put or delete.
 */
#include <errno.h>

#include "internal.h"
#include "line.h"

#define MIN_LINES            4u
#define DEFAULT_ENTRIES      56u
#define DEFAULT_LOAD_PERCENT 70u
#define MAX_LOAD_PERCENT     90u
/* SHMHT_DEFER: a table is filled this far beyond its load before it is replaced */
#define DEFER_PERCENT 10u

/* Adds to a counter that this thread alone changes. */
static void counter_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static uint64_t table_lines(uint64_t entries, uint32_t load_percent)
{
    uint64_t lines = (entries * 100 + LINE_SLOTS * load_percent - 1) / (LINE_SLOTS * load_percent);

    return lines < MIN_LINES ? MIN_LINES : lines;
}

static int grows_deferred(const struct shmht_writer *w)
{
    return (w->opts.flags & SHMHT_DEFER) != 0;
}

/* Returns how many entries fit a table of n lines in the object. */
static uint64_t table_limit(const struct shmht_writer *w, uint64_t n_lines)
{
    uint32_t load = w->max_load_percent + (grows_deferred(w) ? DEFER_PERCENT : 0);

    return n_lines * LINE_SLOTS * (load < MAX_LOAD_PERCENT ? load : MAX_LOAD_PERCENT) / 100;
}

/* Makes the writer work on this table. */
static void use_table(struct shmht_writer *w, uint64_t table)
{
    w->lines =
        (_Atomic uint64_t *)(void *)(w->object.base + (uint64_t)(uint32_t)table * LINE_BYTES);
    w->n_lines = (uint32_t)(table >> 32);
    w->n_used = w->entries;
    w->limit = table_limit(w, w->n_lines);
}

static int grow_log(struct shmht_writer *w, uint64_t end)
{
    int rc;

    if (LIKELY(end <= w->object.bytes))
        return 0;
    rc = shmht__object_grow(&w->object, end, 0);
    /* Before any store that refers to the new part: other threads use the view. */
    shmht__reader_set_bytes(&w->view, w->object.bytes);
    return rc;
}

/* Stores a slot in the first empty place of its search. Returns 0 or SHMHT_EPROBE. */
static int slot_insert(_Atomic uint64_t *lines, uint32_t n_lines, uint64_t slot)
{
    uint32_t at = shmht__home((uint32_t)(slot >> 32), n_lines);

    for (uint32_t probes = SHMHT_MAX_PROBE; probes > 0; probes--) {
        _Atomic uint64_t *line = lines + (size_t)at * LINE_SLOTS;
        unsigned empty = line_empty(line);

        if (empty) {
            atomic_store_explicit(line_slot(line, empty), slot, memory_order_relaxed);
            return 0;
        }
        if (++at == n_lines)
            at = 0;
    }
    return SHMHT_EPROBE;
}

/* Copies the writer's slots into another table: they hold the hashes. Returns 0 or SHMHT_EPROBE. */
static int copy_slots(const struct shmht_writer *w, _Atomic uint64_t *lines, uint32_t n_lines)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < (size_t)w->n_lines * LINE_SLOTS; i++) {
        uint64_t slot = atomic_load_explicit(&w->lines[i], memory_order_relaxed);

        if (slot != 0 && (uint32_t)slot != DELETED_OFFSET)
            rc = slot_insert(lines, n_lines, slot);
    }
    return rc;
}

/* Returns where a table of n lines begins in the log, and in *end where it ends. */
static uint64_t table_place(const struct shmht_writer *w, uint64_t n_lines, uint64_t *end)
{
    uint64_t first = align_up(w->top + 8, LINE_BYTES);

    *end = first + n_lines * LINE_BYTES;
    return first;
}

/* Appends a skip up to `end` and moves `top` behind it. */
static void skip_to(struct shmht_writer *w, uint64_t end)
{
    uint32_t *words = (uint32_t *)(void *)(w->object.base + w->top);

    words[0] = WORD_SKIP;
    words[1] = (uint32_t)((end - w->top) >> w->view.granule_shift);
    w->top = end;
    atomic_store_explicit(&w->header->top, end, memory_order_release);
}

/* Replaces the table by one of n lines at the end of the log. */
static int replace_table(struct shmht_writer *w, uint64_t n_lines)
{
    uint64_t end, first = table_place(w, n_lines, &end);
    _Atomic uint64_t *lines;
    int rc;

    if (n_lines > UINT32_MAX || end > w->object.max_bytes)
        return SHMHT_EFULL;
    rc = grow_log(w, end);
    if (rc < 0)
        return rc;
    lines = (_Atomic uint64_t *)(void *)(w->object.base + first);
    if (!w->zeroed)
        memset(w->object.base + first, 0, (size_t)(end - first));
    rc = copy_slots(w, lines, (uint32_t)n_lines);
    if (rc < 0) {
        memset(w->object.base + first, 0, (size_t)(end - first));
        return rc;
    }
    skip_to(w, end);
    atomic_store_explicit(&w->header->table, TABLE(first / LINE_BYTES, n_lines),
                          memory_order_release);
    counter_add(&w->header->table_grows, 1);
    use_table(w, TABLE(first / LINE_BYTES, n_lines));
    return 0;
}

/* As replace_table(), in private memory. */
static int grow_private(struct shmht_writer *w, uint64_t entries)
{
    uint64_t n_lines = table_lines(entries, MAX_LOAD_PERCENT);
    _Atomic uint64_t *lines = NULL;
    int rc = n_lines > UINT32_MAX ? SHMHT_EFULL : 0;

    /* A size_t of 32 bits is too small for the bytes of 2^26 lines. */
    if (rc == 0 && n_lines > SIZE_MAX / LINE_BYTES)
        rc = -ENOMEM;
    if (rc == 0)
        rc = shmht__handle_alloc(w->opts.allocator, (size_t)n_lines * LINE_BYTES, &lines, NULL);
    if (rc == 0)
        rc = copy_slots(w, lines, (uint32_t)n_lines);
    if (rc < 0) {
        if (lines)
            shmht__handle_free(w->opts.allocator, (void *)(uintptr_t)lines);
        return rc;
    }
    if (w->own)
        shmht__handle_free(w->opts.allocator, (void *)(uintptr_t)w->own);
    w->own = w->lines = lines;
    w->n_lines = (uint32_t)n_lines;
    w->n_used = w->entries;
    w->limit = n_lines * LINE_SLOTS * MAX_LOAD_PERCENT / 100;
    return 0;
}

/* Returns the bytes of the object that publishing these entries will take. */
static uint64_t publish_bytes(const struct shmht_writer *w, uint64_t entries)
{
    return table_lines(entries, w->max_load_percent) * LINE_BYTES + 2 * LINE_BYTES;
}

/* Replaces the table by one for these entries: of n_lines, or deferred. */
static int grow_table(struct shmht_writer *w, uint64_t n_lines, uint64_t entries)
{
    return grows_deferred(w) ? grow_private(w, entries + entries / 4) : replace_table(w, n_lines);
}

int shmht_writer_reserve(struct shmht_writer *w, uint64_t n_entries)
{
    int rc = shmht__may_write(&w->object);

    if (rc < 0 || n_entries <= w->limit)
        return rc;
    if (n_entries > SHMHT_MAX_REGION_BYTES)
        return SHMHT_EFULL;
    if (!grows_deferred(w))
        return replace_table(w, table_lines(n_entries, w->max_load_percent));
    /* A private table that cannot be published would also make compaction impossible. */
    if (w->top + publish_bytes(w, n_entries) > w->object.max_bytes)
        return SHMHT_EFULL;
    return grow_private(w, n_entries);
}

static uint64_t present_table(const struct shmht_writer *w)
{
    return atomic_load_explicit(&w->header->table, memory_order_relaxed);
}

int shmht_writer_has_unpublished(const struct shmht_writer *w)
{
    return w->own != NULL;
}

int shmht_writer_publish(struct shmht_writer *w)
{
    _Atomic uint64_t *own = w->own;
    uint64_t n_lines, end;
    int rc = shmht__may_write(&w->object);

    if (rc < 0 || !own)
        return rc;
    n_lines = 2 * (present_table(w) >> 32);
    (void)table_place(w, n_lines, &end);
    if (w->entries > table_limit(w, n_lines) || end > w->object.max_bytes)
        n_lines = table_lines(w->entries, w->max_load_percent);
    rc = replace_table(w, n_lines);
    if (rc < 0)
        return rc;
    w->own = NULL;
    shmht__handle_free(w->opts.allocator, (void *)(uintptr_t)own);
    return 0;
}

/* Returns whether n_entries more entries and log_bytes of records fit the table and the object as
 * they are, with room to publish. */
static inline int has_room(const struct shmht_writer *w, uint64_t n_entries, uint64_t log_bytes)
{
    uint64_t end = w->top + log_bytes;

    if (w->n_used + n_entries > w->limit || end > w->object.bytes)
        return 0;
    return !w->own || end + publish_bytes(w, w->entries + n_entries) <= w->object.max_bytes;
}

int shmht__writer_has_room(const struct shmht_writer *w, uint64_t n_entries, uint64_t log_bytes)
{
    return has_room(w, n_entries, log_bytes);
}

/* Makes room for n_entries more entries and log_bytes of records, so that putting them cannot fail
 * for lack of room. */
int shmht__writer_room(struct shmht_writer *w, uint64_t n_entries, uint64_t log_bytes)
{
    uint64_t lines = w->n_lines, end, most = lines * LINE_SLOTS * MAX_LOAD_PERCENT / 100;
    int rc;

    if (n_entries > SHMHT_MAX_REGION_BYTES || log_bytes > w->object.max_bytes)
        return SHMHT_EFULL;
    if (w->n_used + n_entries > w->limit) {
        while (lines * LINE_SLOTS * w->max_load_percent / 100 < w->n_used + n_entries)
            lines *= 2;
        (void)table_place(w, lines, &end);
        if (grows_deferred(w))
            end = w->top + publish_bytes(w, w->entries + n_entries);
        if (lines <= UINT32_MAX && end + log_bytes <= w->object.max_bytes) {
            rc = grow_log(w, (grows_deferred(w) ? w->top : end) + log_bytes);
            return rc < 0 ? rc : grow_table(w, lines, w->entries + n_entries);
        }
        /* No larger table fits: fill this one. */
        if (w->n_used + n_entries > most)
            return SHMHT_EFULL;
        w->limit = most;
    }
    if (w->own &&
        w->top + log_bytes + publish_bytes(w, w->entries + n_entries) > w->object.max_bytes)
        return SHMHT_EFULL;
    return w->top + log_bytes > w->object.max_bytes ? SHMHT_EFULL : grow_log(w, w->top + log_bytes);
}

/* Returns the place of the record that a slot refers to: less than HEADER_BYTES if the slot is of a
 * deleted key, and 0 if it is empty or NULL. */
static uint64_t place_of(const struct shmht_writer *w, _Atomic uint64_t *slot)
{
    return LIKELY(slot) ? (uint64_t)(uint32_t)atomic_load_explicit(slot, memory_order_relaxed)
                              << w->view.granule_shift
                        : 0;
}

/* Finds a key in a table. Returns its slot; if the table does not have it, the slot where it would
 * go, empty or of a deleted key with its hash; NULL if no slot is left. */
static _Atomic uint64_t *find_in(const struct shmht_writer *w, _Atomic uint64_t *lines,
                                 uint32_t n_lines, uint32_t hash, const void *key, size_t len)
{
    uint32_t at = shmht__home(hash, n_lines);
    _Atomic uint64_t *deleted = NULL;

    for (uint32_t probes = SHMHT_MAX_PROBE; probes > 0; probes--) {
        _Atomic uint64_t *line = lines + (size_t)at * LINE_SLOTS;
        unsigned empty;

        for (unsigned mask = line_match(line, hash); mask; mask = line_drop(mask)) {
            _Atomic uint64_t *slot = line_slot(line, mask);
            uint64_t pos = place_of(w, slot);
            struct shmht__record rec;
            uint32_t word;

            if (pos >= HEADER_BYTES && shmht__record_at(&w->view, pos, &word, &rec) == 0 &&
                rec.key == len && shmht__same(w->object.base + pos + rec.head, key, len))
                return slot;
            if (UNLIKELY(pos - 1 < HEADER_BYTES - 1))
                deleted = slot;
        }
        empty = line_empty(line);
        if (empty)
            return LIKELY(!deleted) ? line_slot(line, empty) : deleted;
        if (++at == n_lines)
            at = 0;
    }
    return deleted;
}

static _Atomic uint64_t *find_key(const struct shmht_writer *w, uint32_t hash, const void *key,
                                  size_t len)
{
    return find_in(w, w->lines, w->n_lines, hash, key, len);
}

int shmht_writer_get(const struct shmht_writer *w, const void *key, size_t key_len,
                     struct shmht_bytes *value)
{
    struct shmht__record rec;
    _Atomic uint64_t *slot;
    uint64_t pos;
    uint32_t word;

    if (UNLIKELY(key_len - 1 >= SHMHT_MAX_KEY_BYTES))
        return shmht__absent(value, SHMHT_EKEYLEN);
    if (UNLIKELY(shmht__may_write(&w->object) < 0))
        return shmht__absent(value, -EPERM);
    slot = find_key(w, shmht__key_hash(&w->view, key, key_len), key, key_len);
    pos = place_of(w, slot);
    if (pos < HEADER_BYTES)
        return shmht__absent(value, SHMHT_ENOENT);
    if (shmht__record_at(&w->view, pos, &word, &rec) != 0)
        return shmht__absent(value, SHMHT_ECORRUPT);
    *value = (struct shmht_bytes){w->object.base + pos + rec.head + rec.key, rec.value};
    return 0;
}

/* Returns whether the record at pos has this value. */
static int has_value(const struct shmht_writer *w, uint64_t pos, const struct shmht__record *rec,
                     const void *value, size_t len)
{
    return rec->value == len &&
           (len == 0 || memcmp(w->object.base + pos + rec->head + rec->key, value, len) == 0);
}

/* After a change in `own`: changes the present table too, if it has the key, for readers. */
static void update_present(struct shmht_writer *w, uint32_t hash, const void *key, size_t key_len,
                           uint64_t value)
{
    uint64_t table = present_table(w);
    _Atomic uint64_t *lines = (_Atomic uint64_t *)(void *)(w->object.base +
                                                           (uint64_t)(uint32_t)table * LINE_BYTES),
                     *slot = find_in(w, lines, (uint32_t)(table >> 32), hash, key, key_len);

    if (place_of(w, slot) >= HEADER_BYTES)
        atomic_store_explicit(slot, value, memory_order_release);
}

/* Appends a record of these bytes and moves `top` behind it. The caller has made room. */
static uint64_t append_record(struct shmht_writer *w, const struct shmht__record *rec,
                              uint64_t bytes, const void *key, const void *value)
{
    uint64_t pos = w->top;

    w->top = pos + bytes;
    record_store(w->object.base + pos, rec, key, value);
    atomic_store_explicit(&w->header->top, w->top, memory_order_release);
    return pos;
}

/* Marks a record that has lost its slot, and counts its bytes as garbage. */
static void mark_dead(struct shmht_writer *w, uint64_t pos, uint32_t word,
                      const struct shmht__record *rec)
{
    _Atomic uint32_t *p = (_Atomic uint32_t *)(void *)(w->object.base + pos);
    uint64_t bytes = shmht__log_bytes(&w->view, rec);

    atomic_store_explicit(p, word | WORD_DEAD, memory_order_release);
    counter_add(&w->header->live_bytes, 0 - bytes);
    counter_add(&w->header->garbage_bytes, bytes);
}

/* Makes room for a record of these bytes and, if old is 0, for an entry. *slot is the key's in the
 * present table or NULL, then in the table that has the room. */
static int make_room(struct shmht_writer *w, uint32_t hash, const void *key, size_t key_len,
                     uint64_t bytes, uint64_t old, _Atomic uint64_t **slot)
{
    uint64_t end = w->own ? publish_bytes(w, w->entries + (old < HEADER_BYTES)) : 0;
    uint64_t most = (uint64_t)w->n_lines * LINE_SLOTS * MAX_LOAD_PERCENT / 100;
    int rc;

    if (w->top + bytes + end > w->object.max_bytes)
        return SHMHT_EFULL;
    if (!*slot || (w->n_used >= w->limit && old == 0)) {
        /* Equal hashes share one search: a larger table would not help. */
        if (!*slot && w->n_used < w->limit / 4)
            return SHMHT_EPROBE;
        (void)table_place(w, (uint64_t)w->n_lines * 2, &end);
        end += bytes * (*slot && w->n_used < most ? most - w->n_used : 1);
        if (w->own)
            end = 0; /* the check above covered it */
        rc = end > w->object.max_bytes ? SHMHT_EFULL
                                       : grow_table(w, (uint64_t)w->n_lines * 2, w->entries + 1);
        /* Fill this table: a larger one would leave the log less room than this one's free slots
         * need. */
        if (rc == SHMHT_EFULL && *slot && w->limit < most)
            w->limit = most;
        else if (rc < 0)
            return rc;
        *slot = find_key(w, hash, key, key_len);
        if (!*slot)
            return SHMHT_EPROBE;
    }
    return grow_log(w, w->top + bytes);
}

/* The only way into the table. */
int shmht__put_hashed(struct shmht_writer *w, uint32_t hash, const void *key, size_t key_len,
                      const void *value, size_t value_len, uint32_t duplicates)
{
    struct shmht__record rec = record_plan(key_len, value_len), present;
    _Atomic uint64_t *slot = find_key(w, hash, key, key_len);
    uint64_t bytes = shmht__log_bytes(&w->view, &rec), old = place_of(w, slot), pos;
    uint32_t word;
    int there = old >= HEADER_BYTES && shmht__record_at(&w->view, old, &word, &present) == 0;

    if (there && duplicates != SHMHT_DUP_REPLACE)
        return duplicates == SHMHT_DUP_REJECT ? SHMHT_EEXIST : SHMHT_PUT_KEPT;
    if (there && has_value(w, old, &present, value, value_len))
        return SHMHT_PUT_REPLACED;
    if (UNLIKELY(!slot || !has_room(w, !there, bytes))) {
        int rc = make_room(w, hash, key, key_len, bytes, old, &slot);

        if (rc < 0)
            return rc;
        old = place_of(w, slot);
    }
    pos = append_record(w, &rec, bytes, key, value);
    if (there && w->own)
        update_present(w, hash, key, key_len, SLOT(hash, pos >> w->view.granule_shift));
    atomic_store_explicit(slot, SLOT(hash, pos >> w->view.granule_shift), memory_order_release);
    counter_add(&w->header->live_bytes, bytes);
    if (!there) {
        if (LIKELY(old == 0))
            w->n_used++;
        atomic_store_explicit(&w->header->entries, ++w->entries, memory_order_relaxed);
        return SHMHT_PUT_NEW;
    }
    mark_dead(w, old, word, &present);
    return SHMHT_PUT_REPLACED;
}

int shmht_put(struct shmht_writer *w, const void *key, size_t key_len, const void *value,
              size_t value_len)
{
    if (UNLIKELY(key_len - 1 >= SHMHT_MAX_KEY_BYTES))
        return SHMHT_EKEYLEN;
    if (UNLIKELY(value_len > SHMHT_MAX_VALUE_BYTES))
        return SHMHT_EVALLEN;
    if (UNLIKELY(shmht__may_write(&w->object) < 0))
        return -EPERM;
    return shmht__put_hashed(w, shmht__key_hash(&w->view, key, key_len), key, key_len, value,
                             value_len, w->duplicates);
}

int shmht_delete(struct shmht_writer *w, const void *key, size_t key_len)
{
    struct shmht__record rec;
    _Atomic uint64_t *slot;
    uint32_t hash, word;
    uint64_t pos;

    if (UNLIKELY(key_len - 1 >= SHMHT_MAX_KEY_BYTES))
        return SHMHT_EKEYLEN;
    if (UNLIKELY(shmht__may_write(&w->object) < 0))
        return -EPERM;
    hash = shmht__key_hash(&w->view, key, key_len);
    slot = find_key(w, hash, key, key_len);
    pos = place_of(w, slot);
    if (pos < HEADER_BYTES || shmht__record_at(&w->view, pos, &word, &rec) != 0)
        return SHMHT_ENOENT;
    if (w->own)
        update_present(w, hash, key, key_len, SLOT(hash, DELETED_OFFSET));
    atomic_store_explicit(slot, SLOT(hash, DELETED_OFFSET), memory_order_release);
    atomic_store_explicit(&w->header->entries, --w->entries, memory_order_relaxed);
    mark_dead(w, pos, word, &rec);
    return 0;
}

/* ------------------------------------------------------------------ life cycle */

/* Checks the options and fills in the defaults. */
static int writer_opts_take(struct shmht_writer_opts *to, const struct shmht_writer_opts *from,
                            struct shmht_error *err)
{
    uint64_t most = SHMHT_MAX_REGION_BYTES;
    int rc = shmht__opts_take(to, from, sizeof(*to), err);

    if (rc < 0)
        return rc;
    if (to->region && most > SIZE_MAX)
        most = SIZE_MAX;
    if (to->max_bytes < SHMHT_MIN_REGION_BYTES || to->max_bytes > most)
        return shmht__outside(err, "max_bytes", to->max_bytes, SHMHT_MIN_REGION_BYTES, most);
    if (to->flags & ~(SHMHT_NAMED | SHMHT_KEEP_NAME | SHMHT_HUGE | SHMHT_DEFER) ||
        (to->region && to->flags & ~SHMHT_DEFER) || (to->name && !(to->flags & SHMHT_NAMED)))
        return shmht__refused(err, -EINVAL, "flags", to->flags);
    if ((uintptr_t)to->region % LINE_BYTES != 0)
        return shmht__refused(err, -EINVAL, "region", (uintptr_t)to->region);
    if (to->duplicates > SHMHT_DUP_KEEP)
        return shmht__refused(err, -EINVAL, "duplicates", to->duplicates);
    if (to->expected_entries > SHMHT_MAX_REGION_BYTES)
        return shmht__refused(err, -EINVAL, "expected_entries", to->expected_entries);
    if (to->max_load_percent == 0)
        to->max_load_percent = DEFAULT_LOAD_PERCENT;
    if (to->max_load_percent < 10 || to->max_load_percent > MAX_LOAD_PERCENT)
        return shmht__outside(err, "max_load_percent", to->max_load_percent, 10, MAX_LOAD_PERCENT);
    if (to->hash_id == 0)
        to->hash_id = SHMHT_HASH_XXH3;
    if ((to->hash_id >= SHMHT_HASH_CALLER) != (to->hash != NULL))
        return shmht__refused(err, to->hash ? -EINVAL : SHMHT_EHASH, "hash_id", to->hash_id);
    if (to->expected_entries == 0)
        to->expected_entries = DEFAULT_ENTRIES;
    rc = to->seed == 0 ? shmht__random(&to->seed, sizeof(to->seed)) : 0;
    return rc < 0 ? shmht__failed(err, rc, "draw", "a random seed") : 0;
}

static int table_header_write(struct shmht_writer *w, const struct shmht_writer_opts *o,
                              uint64_t first, uint64_t n_lines, struct shmht_error *err)
{
    struct shmht__header *h = w->header;
    int rc;

    memset(h, 0, HEADER_BYTES);
    h->seed = o->seed;
    h->hash_id = o->hash_id;
    h->max_load_percent = (uint8_t)o->max_load_percent;
    h->duplicates = (uint8_t)o->duplicates;
    h->granule_shift = 2;
    while (w->object.max_bytes >> h->granule_shift > UINT64_C(1) << 32)
        h->granule_shift++;
    rc = shmht__hash_check(h->hash_id, o->hash, h->seed, &h->hash_check);
    if (rc < 0)
        return shmht__refused(err, rc, "hash_id", h->hash_id);
    if (!w->zeroed)
        memset(w->object.base + first, 0, (size_t)(n_lines * LINE_BYTES));
    atomic_store_explicit(&h->table, TABLE(first / LINE_BYTES, n_lines), memory_order_relaxed);
    return shmht__header_write(h, SHMHT_KIND_TABLE, o->generation, w->object.max_bytes, err);
}

/* Lays out the region: header, first table of n_lines lines, and room for the bytes of records. */
static int writer_init(struct shmht_writer *w, const struct shmht_writer_opts *o, uint64_t n_lines,
                       uint64_t log_bytes, struct shmht_error *err)
{
    uint64_t first = HEADER_BYTES + LINE_BYTES, end = first + n_lines * LINE_BYTES;
    int rc;

    if (o->region) {
        w->object.base = o->region;
        w->object.bytes = w->object.max_bytes = o->max_bytes & ~(uint64_t)(LINE_BYTES - 1);
    } else {
        rc = shmht__object_create(&w->object, o->name, o->flags, o->max_bytes, o->min_free_bytes);
        if (rc < 0)
            return shmht__failed(err, rc, "create", o->name);
        w->zeroed = 1;
    }
    if (n_lines > UINT32_MAX || end + log_bytes > w->object.max_bytes)
        return shmht__refused(err, SHMHT_EFULL, "expected_entries", o->expected_entries);
    rc = shmht__object_grow(&w->object, end + log_bytes, 1);
    if (rc < 0)
        return shmht__failed(err, rc, "preallocate", w->object.name);
    w->view.base = w->object.base;
    w->view.fd = -1;
    w->view.object = &w->object;
    w->view.max_bytes = w->object.max_bytes;
    w->view.map_bytes = w->object.map_bytes;
    shmht__reader_set_bytes(&w->view, w->object.bytes);
    w->header = (struct shmht__header *)(void *)w->object.base;
    rc = table_header_write(w, o, first, n_lines, err);
    if (rc == 0)
        rc = shmht__reader_bind(&w->view, w->header, SHMHT_KIND_TABLE, o->hash_id, o->hash, err);
    if (rc < 0)
        return rc;
    w->duplicates = o->duplicates;
    w->max_load_percent = o->max_load_percent;
    w->top = HEADER_BYTES;
    skip_to(w, end);
    use_table(w, TABLE(first / LINE_BYTES, n_lines));
    rc = o->region ? 0 : shmht__object_publish(&w->object, 0);
    return rc < 0 ? shmht__failed(err, rc, "seal", w->object.name) : 0;
}

/* shmht_writer_create() with room for log_bytes of records from the start. */
int shmht__writer_open(const struct shmht_writer_opts *opts, uint64_t log_bytes,
                       struct shmht_writer **out, struct shmht_error *err)
{
    struct shmht_writer_opts o;
    struct shmht_writer *w;
    int rc = writer_opts_take(&o, opts, err);

    if (rc == 0)
        rc = shmht__handle_alloc(o.allocator, sizeof(*w), &w, err);
    if (rc < 0)
        return rc;
    w->object.fd = w->object.ro_fd = -1;
    w->opts = o;
    w->opts.name = NULL;
    rc = writer_init(w, &o, table_lines(o.expected_entries, o.max_load_percent), log_bytes, err);
    if (rc < 0) {
        shmht__object_close(&w->object, 1);
        shmht__handle_free(o.allocator, w);
        return rc;
    }
    *out = w;
    return 0;
}

int shmht_writer_create(const struct shmht_writer_opts *opts, struct shmht_writer **out,
                        struct shmht_error *err)
{
    return out ? shmht__writer_open(opts, 0, out, err) : shmht__refused(err, -EINVAL, "out", 0);
}

void shmht_writer_destroy(struct shmht_writer *w)
{
    if (!w)
        return;
    /* so that readers of the name find all pairs */
    if (w->own && (w->object.flags & SHMHT_KEEP_NAME))
        (void)shmht_writer_publish(w);
    shmht__object_close(&w->object, !(w->object.flags & SHMHT_KEEP_NAME));
    if (w->own)
        shmht__handle_free(w->opts.allocator, (void *)(uintptr_t)w->own);
    shmht__handle_free(w->opts.allocator, w);
}

struct shmht_reader *shmht_writer_view(struct shmht_writer *w)
{
    return &w->view;
}
