/* SPDX-License-Identifier: BSD-3-Clause */
/* What the codec offers to the rest of the library besides its public functions. */
#ifndef PMIWIRE_CODEC_INTERNAL_H
#define PMIWIRE_CODEC_INTERNAL_H

#include <pmiwire/codec.h>
#include <pmiwire/command.h>
#include <pmiwire/extension.h>

#include "../base/base_internal.h"

/* ---- command.c ---- */

/* The table's own entries, without a range check: an id must be below PMIWIRE_F_COUNT_. */
extern const struct pmiwire_field_desc pmiwire__fields[PMIWIRE_F_COUNT_];

/* A command's id by name, 0 when unknown. PMIWIRE_V1 stands for mcmd too. */
uint16_t pmiwire__command_find(uint16_t wire, struct pmiwire_str name);
/* A field's id by its key, 0 when unknown; *index: the number at the end of an indexed one, else 0.
 */
uint16_t pmiwire__field_find(struct pmiwire_str key, uint32_t *index);

#endif /* PMIWIRE_CODEC_INTERNAL_H */
