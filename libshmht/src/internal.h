/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles, the memory object, and the protocol between writer and readers. */
#ifndef SHMHT_SRC_INTERNAL_H
#define SHMHT_SRC_INTERNAL_H

#include <errno.h>

#include "hash.h"
#include "layout.h"

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* A table line for a vector load or a prefetch: without its _Atomic. */
#define PLAIN(line) ((const void *)(uintptr_t)(line))

#define PAGE_BYTES 4096u
#define HUGE_BYTES (UINT64_C(2) << 20)

/* The memory object of a writer or reader. */
struct shmht__object {
    unsigned char *base; /* the mapping; a reader's is read-only */
    uint64_t map_bytes;
    uint64_t bytes; /* of the object that may be accessed; a reader keeps its own count */
    uint64_t max_bytes;
    uint64_t min_free_bytes;
    uint64_t huge_bytes;
    uint64_t checked_bytes; /* object's size when free memory was last checked */
    int fd;                 /* -1: the caller's memory */
    int ro_fd;              /* a writer's: the read-only descriptor for clients */
    int32_t huge_errno;
    uint32_t notes;
    uint32_t flags;
    pid_t owner;      /* process that created or opened it */
    uint32_t n_forks; /* shmht__n_forks then */
    char name[SHMHT_MAX_NAME_BYTES];
};

/* A table whose bounds have been checked. Immutable once other threads can see it: they may share a
 * handle. */
struct shmht__table {
    uint64_t table; /* the value of header.table that it is for */
    const _Atomic uint64_t *lines;
    uint64_t n_lines;
};

/* growth doubles a table of at least 4 lines: offsets run out before it happens this often */
#define MAX_TABLES 40u

struct shmht_reader {
    const unsigned char *base;
    size_t n_usual; /* key lengths, from 9 on, that shmht_get() handles itself: 8, or 0 */
    const struct shmht__table *_Atomic table; /* the last one checked */
    /* a record that begins before this has GUARD_BYTES readable bytes behind it */
    const unsigned char *_Atomic guard;
    uint64_t flip_lo; /* XXH3's constants and the seed: see shmht__xxh3_16() */
    uint64_t flip_hi;
    _Atomic uint64_t bytes; /* readable; grows with the object */
    uint32_t granule_shift;
    uint32_t hash_id;
    uint64_t seed;
    shmht_hash_fn *hash;
    uint64_t map_bytes;
    uint64_t generation;
    uint64_t id;
    uint64_t max_bytes;
    const struct shmht__object *object; /* a view: its writer's object; else NULL */
    struct shmht_reader_opts opts;      /* with defaults filled in, for shmht_reader_follow() */
    int fd;                             /* -1: the caller's memory, or a view */
    int32_t huge_errno;
    uint32_t notes;
    uint64_t huge_bytes;
    _Atomic uint32_t remembering; /* a thread is adding to tables */
    uint32_t n_tables;
    struct shmht__table tables[MAX_TABLES];
};

struct shmht_writer {
    struct shmht_reader view;      /* first member; never freed by itself */
    struct shmht_writer_opts opts; /* with defaults filled in, for shmht_writer_compact() */
    struct shmht__object object;
    struct shmht__header *header;
    uint64_t top; /* end of the log */
    uint64_t entries;
    uint64_t n_used;         /* slots that are not empty: entries, and deleted keys */
    uint64_t limit;          /* used slots at which the table is rebuilt */
    _Atomic uint64_t *lines; /* of the table with all entries: `own`, or the present one */
    _Atomic uint64_t *own;   /* SHMHT_DEFER: the private table, while pairs are unpublished */
    uint32_t n_lines;
    uint32_t duplicates;
    uint32_t max_load_percent;
    uint32_t zeroed; /* memory beyond top has never been written */
};

/* --- object.c: memory objects */
int shmht__object_create(struct shmht__object *o, const char *name, uint32_t flags,
                         uint64_t max_bytes, uint64_t min_free_bytes);
/* Forks between this process and the one that loaded the library. */
extern _Atomic uint32_t shmht__n_forks;
/* Seals, and opens the read-only descriptor. */
int shmht__object_publish(struct shmht__object *o, int fixed_size);
int shmht__object_grow(struct shmht__object *o, uint64_t need, int exact);
void shmht__object_close(struct shmht__object *o, int unlink_name);
int shmht__map(int fd, uint64_t bytes, int prot, unsigned char **base, uint64_t *map_bytes);
int shmht__collapse(const unsigned char *base, uint64_t from, uint64_t to, uint64_t *huge_bytes,
                    int32_t *huge_errno);
/* 0, or -EPERM in a forked child, which has not inherited the object's mapping. */
static inline int shmht__may_write(const struct shmht__object *o)
{
    if (LIKELY(o->n_forks == atomic_load_explicit(&shmht__n_forks, memory_order_relaxed)))
        return 0;
    return o->fd < 0 ? 0 : -EPERM;
}
int shmht__name_ok(const char *name);
int shmht__random(void *buf, size_t len);

/* --- available.c */
uint64_t shmht__available_bytes(void);

/* --- handle.c: options, and memory of handles */
/*
 * The rule for option structs. Copies `bytes` bytes, this release's size, and sets the copy's size;
 * NULL gives zeros. -EINVAL: `from` is shorter, or longer with a byte other than 0 that this
 * release does not know.
 */
int shmht__opts_take(void *to, const void *from, size_t bytes, struct shmht_error *err);
/* Allocates zeroed memory for a handle; its address goes to *handle. allocator NULL: libc. */
int shmht__handle_alloc(const struct shmht_allocator *allocator, size_t bytes, void *handle,
                        struct shmht_error *err);
void shmht__handle_free(const struct shmht_allocator *allocator, void *handle);

/* --- error.c: fill in *err, unless it is NULL, and return the code */
/* An option or a field of a header: "max_bytes is 5: Invalid argument". */
int shmht__refused(struct shmht_error *err, int code, const char *what, uint64_t value);
/* An option outside its range: -EINVAL. */
int shmht__outside(struct shmht_error *err, const char *what, uint64_t value, uint64_t least,
                   uint64_t most);
/* A step: "cannot open /dev/shm/x: Permission denied". object may be NULL or empty: the memfd. */
int shmht__failed(struct shmht_error *err, int code, const char *step, const char *object);
/* A failure's code is negative: what callers, compilers and analysers of other files rely on. */
static inline int shmht__negative(int code)
{
    return code < 0 ? code : -EINVAL;
}
#define shmht__refused(...) shmht__negative(shmht__refused(__VA_ARGS__))
#define shmht__outside(...) shmht__negative(shmht__outside(__VA_ARGS__))
#define shmht__failed(...)  shmht__negative(shmht__failed(__VA_ARGS__))

/* --- desc.c */
void shmht__desc_fill(const struct shmht__header *h, const struct shmht__object *o,
                      struct shmht_desc *desc);

/* --- header.c */
/* Fills in what tables and arrays share, the magic last. generation 0: 1. */
int shmht__header_write(struct shmht__header *h, uint32_t kind, uint64_t generation,
                        uint64_t max_bytes, struct shmht_error *err);
/*
 * Checks a header, HEADER_BYTES of which are readable, against the region's *bytes bytes. For a
 * file, updates *bytes first.
 */
int shmht__header_check(const struct shmht__header *h, int fd, uint64_t *bytes, uint32_t kind,
                        const struct shmht_desc *desc, uint64_t limit, struct shmht_error *err);

/* --- attach.c */
int shmht__reader_bind(struct shmht_reader *r, const struct shmht__header *h, uint32_t kind,
                       uint32_t hash_id, shmht_hash_fn *hash, struct shmht_error *err);
int shmht__reader_opts_take(struct shmht_reader_opts *to, const struct shmht_reader_opts *from,
                            struct shmht_error *err);
int shmht__attach_object(const struct shmht_desc *desc, int fd,
                         const struct shmht_reader_opts *opts, uint32_t kind,
                         struct shmht_reader *r, struct shmht_error *err);
void shmht__detach_object(struct shmht_reader *r);

/* --- reader.c */
int shmht__reader_refresh(const struct shmht_reader *r, uint64_t need);
int shmht__reader_table(const struct shmht_reader *r, uint64_t table, struct shmht__table *t);
void shmht__reader_set_bytes(struct shmht_reader *r, uint64_t bytes);

/* --- writer.c */
int shmht__put_hashed(struct shmht_writer *w, uint32_t hash, const void *key, size_t key_len,
                      const void *value, size_t value_len, uint32_t duplicates);
int shmht__writer_has_room(const struct shmht_writer *w, uint64_t n_entries, uint64_t log_bytes);
int shmht__writer_room(struct shmht_writer *w, uint64_t n_entries, uint64_t log_bytes);
int shmht__writer_open(const struct shmht_writer_opts *opts, uint64_t log_bytes,
                       struct shmht_writer **out, struct shmht_error *err);

/* --- wait.c */
/* Wakes all waiting readers. Returns how many, or -errno. */
int shmht__wake(struct shmht__header *h);

/* --- block.c */
struct shmht__pair {
    struct shmht_bytes key;
    struct shmht_bytes value;
};
int shmht__block_check(const void *block, size_t bytes, uint32_t *n_pairs);
int shmht__block_pair(const unsigned char *block, uint64_t bytes, uint64_t *pos,
                      struct shmht__pair *pair);

/* --- merge.c: many puts at once, with their memory accesses in flight together */
int shmht__put_batch(struct shmht_writer *w, const struct shmht__pair *pairs, size_t n,
                     uint32_t duplicates, struct shmht_merged *merged);

/* Returns the 32 bits of a key's hash that the table stores. XXH3's upper half is well mixed; other
 * hashes are multiplied first. Inlined by force: gcc calls it otherwise, and each put takes 7
 * instructions more. */
static inline __attribute__((always_inline)) uint32_t shmht__key_hash(const struct shmht_reader *r,
                                                                      const void *key, size_t len)
{
    if (LIKELY(r->hash_id == SHMHT_HASH_XXH3))
        return (uint32_t)(shmht__xxh3(key, len, r->seed) >> 32);
    return (uint32_t)((r->hash ? r->hash(key, len, r->seed) : shmht__fnv1a(key, len, r->seed)) *
                          UINT64_C(0x9E3779B97F4A7C15) >>
                      32);
}

static inline const struct shmht__header *shmht__header_of(const struct shmht_reader *r)
{
    return (const struct shmht__header *)(const void *)r->base;
}

/* Returns the bytes that a record takes in the log. */
static inline uint64_t shmht__log_bytes(const struct shmht_reader *r,
                                        const struct shmht__record *rec)
{
    return align_up(record_bytes(rec), UINT64_C(1) << r->granule_shift);
}

/* Reads a word of the header once: a hostile writer may change it between two reads. */
static inline uint64_t shmht__read_once(const uint64_t *word)
{
    return *(const volatile uint64_t *)word;
}

/* Gets the present table and checks that all of it is readable. Returns 0 or SHMHT_ECORRUPT. */
static inline int shmht__table_of(const struct shmht_reader *r, struct shmht__table *t)
{
    const struct shmht__table *known = atomic_load_explicit(&r->table, memory_order_acquire);
    uint64_t table = atomic_load_explicit(&shmht__header_of(r)->table, memory_order_acquire);

    if (UNLIKELY(table != known->table))
        return shmht__reader_table(r, table, t);
    *t = *known;
    return 0;
}

static inline uint32_t shmht__home(uint32_t hash, uint64_t n_lines)
{
    return (uint32_t)(hash * n_lines >> 32);
}

/* Parses the record at a place of the log and checks that all of it is readable. Returns 0 or
 * SHMHT_ECORRUPT. */
static inline int shmht__record_at(const struct shmht_reader *r, uint64_t pos, uint32_t *word,
                                   struct shmht__record *rec)
{
    const _Atomic uint32_t *p = (const _Atomic uint32_t *)(const void *)(r->base + pos);

    if (UNLIKELY(pos + 8 > atomic_load_explicit(&r->bytes, memory_order_relaxed)) &&
        shmht__reader_refresh(r, pos + 8) != 0)
        return SHMHT_ECORRUPT;
    /* pairs with the store of WORD_DEAD: see shmht_reader_next() */
    *word = atomic_load_explicit(p, memory_order_acquire);
    if (UNLIKELY(!record_parse(
            *word, *word & WORD_LONG ? atomic_load_explicit(p + 1, memory_order_relaxed) : 0, rec)))
        return SHMHT_ECORRUPT;
    if (UNLIKELY(pos + record_bytes(rec) > atomic_load_explicit(&r->bytes, memory_order_relaxed)) &&
        shmht__reader_refresh(r, pos + record_bytes(rec)) != 0)
        return SHMHT_ECORRUPT;
    return 0;
}

/* Ends a Get that finds nothing. Returns the code. */
static inline int shmht__absent(struct shmht_bytes *value, int code)
{
    value->ptr = NULL;
    value->len = 0;
    return code;
}

static inline uint64_t shmht__differ(const unsigned char *a, const unsigned char *b)
{
    uint64_t x, y;

    memcpy(&x, a, 8);
    memcpy(&y, b, 8);
    return x ^ y;
}

/* memcmp() == 0 without the call: most keys have 8 to 16 bytes. */
static inline int shmht__same(const unsigned char *a, const unsigned char *b, size_t len)
{
    if (LIKELY(len - 8 <= 8))
        return (shmht__differ(a, b) | shmht__differ(a + len - 8, b + len - 8)) == 0;
    return memcmp(a, b, len) == 0;
}

/*
 * Checks the first record that a Get meets for the usual case: a short live record with this key
 * and a value of at most HIT_VALUE_BYTES, not near the end of the readable bytes. Returns 1 with
 * the value, or 0, which means only that the caller must search further; *value is untouched then.
 * Place 0, of an empty slot, matches no key: the header's magic is there, and its bits are those of
 * a dead record.
 */
#define HIT_KEY_BYTES   16u
#define HIT_VALUE_BYTES 1024u
#define GUARD_BYTES     (4 + HIT_KEY_BYTES + HIT_VALUE_BYTES)

static inline int shmht__hit(const struct shmht_reader *r, const unsigned char *p,
                             const unsigned char *key, size_t len, struct shmht_bytes *value)
{
    uint32_t value_len;

    if (UNLIKELY(p > atomic_load_explicit(&r->guard, memory_order_relaxed)))
        return 0;
    /* base + place has wrapped around */
    if (sizeof(p) < sizeof(uint64_t) && UNLIKELY(p < r->base))
        return 0;
    value_len =
        atomic_load_explicit((const _Atomic uint32_t *)(const void *)p, memory_order_relaxed) -
        ((uint32_t)len << SHORT_VALUE_BITS);
    if (UNLIKELY(value_len > HIT_VALUE_BYTES) ||
        UNLIKELY((shmht__differ(p + 4, key) | shmht__differ(p + 4 + len - 8, key + len - 8)) != 0))
        return 0;
    /* Member by member: copying the struct would wait for these stores. */
    value->ptr = p + 4 + len;
    value->len = value_len;
    return 1;
}

#endif
