/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the codec share. */
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

static inline int pmiwire__is(struct pmiwire_str s, const char *literal)
{
    size_t n = strlen(literal);

    return s.len == n && memcmp(s.ptr, literal, n) == 0;
}

#endif /* PMIWIRE_INTERNAL_H */
