/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the codec share, and what all files do. */
#ifndef PMIWIRE_INTERNAL_H
#define PMIWIRE_INTERNAL_H

#include <string.h>

#include <pmiwire/codec.h>
#include <pmiwire/command.h>
#include <pmiwire/profile.h>

/* Look a key up; sets *indexed (0 or 1) and *index. Returns PMIWIRE_F_* or 0. */
uint16_t pmiwire__field_lookup(const char *key, size_t len, uint32_t *index, uint16_t *indexed);

/* The table's own entry, without a range check: id must be below PMIWIRE_F_COUNT_. */
extern const struct pmiwire_field_desc pmiwire__fields[PMIWIRE_F_COUNT_];

/* Lengths of the names of commands and fields, by id. */
extern const uint8_t pmiwire__command_name_bytes[];
extern const uint8_t pmiwire__field_name_bytes[PMIWIRE_F_COUNT_];

/* A perfect hash: id[words * multiplier >> shift] is the only name that it can be. */
struct pmiwire__name_hash {
    uint64_t multiplier;
    unsigned shift;
    uint8_t id[512];
};

extern const struct pmiwire__name_hash pmiwire__field_hash;
extern const uint64_t pmiwire__field_words[PMIWIRE_F_COUNT_][2];

/* Longest name of a field that two words hold. */
#define PMIWIRE__FIELD_NAME_MAX 15u
/* What fills the last byte of the two words: the name's length, and whether a number belongs behind
 * it. */
#define PMIWIRE__NAME_TAG(len, indexed) ((uint64_t)((len) | (indexed) << 7) << 56)

/* Eight bytes as a little-endian word. */
static inline uint64_t pmiwire__load8(const char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

/* The field whose name stands in these words with NULs behind it, and whose tag this is; 0 when
 * there is none. */
static inline uint16_t pmiwire__field_by_words(uint64_t low, uint64_t high, uint64_t tag)
{
    const struct pmiwire__name_hash *h = &pmiwire__field_hash;
    const uint16_t id = h->id[((low + (high << 31 | high >> 33)) * h->multiplier) >> 55];
    const uint64_t *words = pmiwire__field_words[id];

    return ((words[0] ^ low) | (words[1] ^ (high | tag))) == 0 ? id : 0;
}

/* ---- options.c ---- */

extern const struct pmiwire_allocator pmiwire__libc_alloc;
/* Copy an option struct, or a longer one of a later release in which nothing is set that this one
 * does not know. NULL: all zero. 0 or -EINVAL. */
int pmiwire__take_struct(void *to, size_t to_size, const void *from, size_t from_size);

static inline int pmiwire__is(struct pmiwire_str s, const char *literal)
{
    size_t n = strlen(literal);

    return s.len == n && memcmp(s.ptr, literal, n) == 0;
}

#endif /* PMIWIRE_INTERNAL_H */
