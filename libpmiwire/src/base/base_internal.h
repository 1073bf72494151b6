/* SPDX-License-Identifier: BSD-3-Clause */
/* What every file of the library may use. */
#ifndef PMIWIRE_BASE_INTERNAL_H
#define PMIWIRE_BASE_INTERNAL_H

#include <stdbool.h>
#include <string.h>

#include <pmiwire/base.h>
#include <pmiwire/profile.h>

/* ---- options.c ---- */

/* Copy an allocator; NULL: libc's. 0, or -EINVAL: a function of it is missing. */
int pmiwire__allocator_take(struct pmiwire_allocator *to, const struct pmiwire_allocator *from);
/* Copy an option struct, or a longer one of a later release in which nothing is set that this one
 * does not know. NULL: all zero. 0 or -EINVAL. */
int pmiwire__opts_take(void *to, size_t to_size, const void *from, size_t from_size);

/* ---- error.c ---- */

/* A whole decimal number, strictly: optional `-`, 1 to 10 digits, nothing else, in the range of
 * int32_t. 0 or PMIWIRE_ETYPE. */
int pmiwire__parse_int(struct pmiwire_str text, int32_t *out);

/* Fill in err, unless it is NULL: "what: the code's text where at byte offset". Returns code. */
int pmiwire__error(struct pmiwire_error *err, int code, const char *what, const char *where,
                   size_t offset);

/* ---- profile.c ---- */

/* Can this peer (NULL: the framing alone) carry this on this wire? 0, PMIWIRE_EEMPTY,
 * PMIWIRE_EKEYLEN or PMIWIRE_EVALLEN, or PMIWIRE_ECHARS. */
int pmiwire__check_key(const struct pmiwire_profile *profile, uint16_t wire,
                       struct pmiwire_str key);
int pmiwire__check_value(const struct pmiwire_profile *profile, uint16_t wire,
                         struct pmiwire_str value);
/* Where the first byte lies that they refuse; s.len: there is none. */
size_t pmiwire__bad_byte(const struct pmiwire_profile *profile, uint16_t wire, int is_key,
                         struct pmiwire_str s);
/* Why they refuse the field `what`, as a sentence that names the byte and whose limit it is. `at`:
 * where `byte` lies (PMIWIRE_ECHARS), or how many bytes there are. */
void pmiwire__why(char *text, size_t cap, int code, const struct pmiwire_profile *profile,
                  uint16_t wire, const char *what, size_t at, unsigned char byte);

static inline int pmiwire__is(struct pmiwire_str s, const char *literal)
{
    size_t n = strlen(literal);

    return s.len == n && memcmp(s.ptr, literal, n) == 0;
}

/* ---- buffer.c ---- */

/* Memory of one object: counted, and within a limit. */
struct pmiwire__mem {
    struct pmiwire_allocator a;
    size_t bytes, peak, max;
    bool at_max; /* why the last request got nothing: the limit */
    bool no_max; /* for now the limit does not hold */
};

/* NULL: no memory, and ptr is as it was. bytes 0 frees. */
void *pmiwire__mem_realloc(struct pmiwire__mem *m, void *ptr, size_t old_bytes, size_t bytes);

struct pmiwire__buf {
    char *ptr;
    size_t off; /* bytes at the front that are done with */
    size_t len; /* end of the bytes in use */
    size_t cap;
};

/* An empty buffer longer than this is given back. */
#define PMIWIRE__BUF_KEEP 4096u

/* 0 or -ENOMEM. */
int pmiwire__buf_room(struct pmiwire__mem *m, struct pmiwire__buf *b, size_t bytes);
int pmiwire__buf_append(struct pmiwire__mem *m, struct pmiwire__buf *b, const void *p, size_t n);
void pmiwire__buf_free(struct pmiwire__mem *m, struct pmiwire__buf *b);
/* Empty it, and give it back if it is long. */
void pmiwire__buf_reset(struct pmiwire__mem *m, struct pmiwire__buf *b);
/* There is room. */
static inline void pmiwire__buf_add(struct pmiwire__buf *b, const void *p, size_t n)
{
    if (n)
        memcpy(b->ptr + b->len, p, n);
    b->len += n;
}

/* ---- exchange/exchange.c, exchange/putget.c ---- */

struct pmiwire_exchange;
/* Room for a DENSE pair: then pmiwire_exchange_put() does not run out of memory. 0, -ENOMEM, or why
 * the exchange has failed. */
int pmiwire__exchange_reserve(struct pmiwire_exchange *x, struct pmiwire_str key, size_t value_len);
/* Whether opts.max_bytes is why its last request for memory failed; the limit. */
bool pmiwire__exchange_at_max(const struct pmiwire_exchange *x, size_t *max_bytes);

/* ---- util.c ---- */

/* SipHash-1-3. */
uint64_t pmiwire__hash(const uint64_t key[2], struct pmiwire_str s);
/* Ascending: n unsigned numbers of 4 or 8 bytes. */
void pmiwire__sort(void *a, size_t n, size_t width);

#endif /* PMIWIRE_BASE_INTERNAL_H */
