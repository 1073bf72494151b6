/* SPDX-License-Identifier: BSD-3-Clause */
/* What every file of the library may use. */
#ifndef PMIWIRE_BASE_INTERNAL_H
#define PMIWIRE_BASE_INTERNAL_H

#include <string.h>

#include <pmiwire/base.h>
#include <pmiwire/profile.h>

/* ---- options.c ---- */

extern const struct pmiwire_allocator pmiwire__libc_allocator;
/* Copy an option struct, or a longer one of a later release in which nothing is set that this one
 * does not know. NULL: all zero. 0 or -EINVAL. */
int pmiwire__opts_take(void *to, size_t to_size, const void *from, size_t from_size);

/* ---- error.c ---- */

/* A whole decimal number, strictly: optional `-`, 1 to 10 digits, nothing else, in the range of
 * int32_t. 0 or PMIWIRE_ETYPE. */
int pmiwire__parse_int(struct pmiwire_str text, int32_t *out);

static inline int pmiwire__is(struct pmiwire_str s, const char *literal)
{
    size_t n = strlen(literal);

    return s.len == n && memcmp(s.ptr, literal, n) == 0;
}

#endif /* PMIWIRE_BASE_INTERNAL_H */
