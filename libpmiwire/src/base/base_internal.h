/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions and types for every file of the library. */
#ifndef PMIWIRE_BASE_INTERNAL_H
#define PMIWIRE_BASE_INTERNAL_H

#include <stdbool.h>
#include <string.h>

#include <pmiwire/base.h>
#include <pmiwire/profile.h>

/* ---- options.c ---- */

/* Copies an allocator; NULL: libc's. Returns 0, or -EINVAL if one of its functions is missing. */
int pmiwire__allocator_take(struct pmiwire_allocator *to, const struct pmiwire_allocator *from);
/* Copies an option struct or a table of callbacks, `bytes` in this release; its first member is its
 * size. NULL gives zeros. A longer struct of a later release is accepted if all bytes that this
 * release does not know are 0. Returns 0 or -EINVAL. */
int pmiwire__opts_take(void *to, const void *from, size_t bytes);

/* ---- error.c ---- */

/* Fills in err, unless it is NULL: "what: the code's text where at byte offset". Returns code. */
int pmiwire__error(struct pmiwire_error *err, int code, const char *what, const char *where,
                   size_t offset);

/* ---- profile.c ---- */

/* 1 for each byte that every framing and every peer carries unchanged, as nearly all are. */
extern const uint8_t pmiwire__plain_bytes[256];
/* Returns whether all bytes are plain. */
int pmiwire__is_plain(struct pmiwire_str s);
/* Check whether this peer (NULL: the framing alone) can carry a key or a value on this wire. They
 * return 0, PMIWIRE_EEMPTY, PMIWIRE_EKEYLEN or PMIWIRE_EVALLEN, or PMIWIRE_ECHARS. */
int pmiwire__check_key(const struct pmiwire_profile *profile, uint16_t wire,
                       struct pmiwire_str key);
int pmiwire__check_value(const struct pmiwire_profile *profile, uint16_t wire,
                         struct pmiwire_str value);
/* Returns the offset of the first byte that the two refuse, or s.len without one. */
size_t pmiwire__bad_byte(const struct pmiwire_profile *profile, uint16_t wire, int is_key,
                         struct pmiwire_str s);
/* Writes why they refuse the field `what`: a sentence that names the byte and the peer with the
 * limit. `at`: the offset of `byte` (PMIWIRE_ECHARS), or the number of bytes. */
void pmiwire__refusal_text(char *text, size_t cap, int code, const struct pmiwire_profile *profile,
                           uint16_t wire, const char *what, size_t at, unsigned char byte);

static inline bool pmiwire__str_eq(struct pmiwire_str a, struct pmiwire_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline int pmiwire__is(struct pmiwire_str s, const char *literal)
{
    return pmiwire__str_eq(s, pmiwire_strz(literal));
}

/* ---- buffer.c ---- */

/* Memory of one object, counted and limited. */
struct pmiwire__mem {
    struct pmiwire_allocator a;
    size_t bytes, peak, max;
    bool at_max; /* the last request failed because of the limit */
    bool no_max; /* the limit is suspended */
};

/* Returns NULL without memory; ptr stays valid then. bytes 0 frees. */
void *pmiwire__mem_realloc(struct pmiwire__mem *m, void *ptr, size_t old_bytes, size_t bytes);

struct pmiwire__buf {
    char *ptr;
    size_t off; /* bytes at the front that have been consumed */
    size_t len; /* end of the bytes in use */
    size_t cap;
};

/* An empty buffer longer than this is freed. */
#define PMIWIRE__BUF_KEEP 4096u

/* Makes room for this many more bytes. Returns 0 or -ENOMEM. */
int pmiwire__buf_room(struct pmiwire__mem *m, struct pmiwire__buf *b, size_t bytes);
int pmiwire__buf_append(struct pmiwire__mem *m, struct pmiwire__buf *b, const void *p, size_t n);
void pmiwire__buf_free(struct pmiwire__mem *m, struct pmiwire__buf *b);
/* Empties the buffer, and frees it if it is long. */
void pmiwire__buf_reset(struct pmiwire__mem *m, struct pmiwire__buf *b);
/* Appends; the caller has made room. */
static inline void pmiwire__buf_add(struct pmiwire__buf *b, const void *p, size_t n)
{
    if (n)
        memcpy(b->ptr + b->len, p, n);
    b->len += n;
}

/* ---- slots.c ---- */

/* An open-addressing table with linear probing finds items by their hashes: numbers or pointers of
 * the caller's. The caller compares keys, allocates the slots, and leaves some of them empty. */
struct pmiwire__slot {
    uint64_t hash;
    uintptr_t item; /* 0: empty */
};

struct pmiwire__slots {
    struct pmiwire__slot *at;
    size_t n; /* 0 or a power of two */
};

/* Returns the first slot from i on that has this hash or is empty. A search begins at i = hash. */
static inline size_t pmiwire__slot_next(const struct pmiwire__slots *s, uint64_t hash, size_t i)
{
    for (i &= s->n - 1; s->at[i].item && s->at[i].hash != hash;)
        i = (i + 1) & (s->n - 1);
    return i;
}
/* Empties a slot. */
void pmiwire__slot_remove(struct pmiwire__slots *s, size_t i);
/* Moves all items to other slots, whose contents do not count. */
void pmiwire__slots_move(struct pmiwire__slots *to, const struct pmiwire__slots *from);

/* ---- exchange/exchange.c, exchange/putget.c ---- */

struct pmiwire_exchange;
/* Reserves room for a DENSE pair, so that pmiwire_exchange_put() does not run out of memory.
 * Returns 0, -ENOMEM, or the reason why the exchange has failed. */
int pmiwire__exchange_reserve(struct pmiwire_exchange *x, struct pmiwire_str key, size_t value_len);
/* Returns whether the exchange's last request for memory failed at opts.max_bytes, and that
 * limit. */
bool pmiwire__exchange_at_max(const struct pmiwire_exchange *x, size_t *max_bytes);

/* ---- util.c ---- */

/* Parses the decimal digits that the text begins with. Returns how many; *value: their number, or
 * one above UINT32_MAX for all that are. */
size_t pmiwire__parse_digits(struct pmiwire_str text, uint64_t *value);
/* Parses a decimal number strictly: optional `-`, 1 to 10 digits, nothing else, in the range of
 * int32_t. Returns 0 or PMIWIRE_ETYPE. */
int pmiwire__parse_int(struct pmiwire_str text, int32_t *out);
/* SipHash-1-3. */
uint64_t pmiwire__hash(const uint64_t key[2], struct pmiwire_str s);
/* Returns the index of v in an ascending array of n different numbers, or UINT32_MAX. */
uint32_t pmiwire__sorted_find(const uint32_t *a, uint32_t n, uint32_t v);
/* Sorts n unsigned numbers of 4 or 8 bytes, ascending. */
void pmiwire__sort(void *a, size_t n, size_t width);

#endif /* PMIWIRE_BASE_INTERNAL_H */
