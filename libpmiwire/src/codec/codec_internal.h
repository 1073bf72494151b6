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

/* As pmiwire__error(), about a command and a field of the table; 0: none. */
int pmiwire__msg_error(struct pmiwire_error *err, int code, uint16_t command, uint16_t field,
                       size_t offset);
/* The first field of this id, NULL when absent. */
const struct pmiwire_field *pmiwire__msg_field(const struct pmiwire_msg *msg, uint16_t field);

/* ---- encode.c ---- */

/* As pmiwire_enc_begin(), for a command that is not in the table: PMIWIRE_V1 or PMIWIRE_V2, and a
 * name of at most 31 letters, digits, `-` and `_`. */
void pmiwire__enc_begin_named(struct pmiwire_encoder *e, char *buf, size_t cap, uint16_t wire,
                              struct pmiwire_str name, const struct pmiwire_profile *profile);

/* ---- extension.c ---- */

/* Which messages carry an extension. */
#define PMIWIRE__AT_INIT      1u  /* `response_to_init` (PMI-1), `fullinit-response` */
#define PMIWIRE__AT_FENCE     2u  /* `barrier_out`, `kvs-fence-response` */
#define PMIWIRE__AT_HELLO     4u  /* the requests `init` (PMI-1), `fullinit` */
#define PMIWIRE__AT_PUT       8u  /* the requests `put`, `kvs-put` */
#define PMIWIRE__AT_GET       16u /* the requests `get`, `kvs-get` */
#define PMIWIRE__AT_ENTER     32u /* the request `barrier_in` */
#define PMIWIRE__AT_KVS_FENCE 64u /* the request `kvs-fence` */

struct pmiwire__ext {
    const char *name; /* of its field */
    uint16_t id;      /* PMIWIRE_EXT_* */
    uint16_t at;      /* PMIWIRE__AT_* */
};

/* An extension by its id, NULL for others. */
const struct pmiwire__ext *pmiwire__ext_get(uint16_t ext);
/* Add an extension's field to a message that carries it; another one is -EINVAL. */
void pmiwire__enc_ext(struct pmiwire_encoder *e, uint16_t ext, struct pmiwire_str value);

/* Any bytes as an extra field's value, into 3 * value.len bytes: percent-encoded where they have to
 * be. */
struct pmiwire_str pmiwire__percent(struct pmiwire_str value, char *to);
/* The reverse, into value.len bytes. PMIWIRE_ECHARS: a percent sign without two digits. */
int pmiwire__unpercent(struct pmiwire_str value, char *to, struct pmiwire_str *out);

#endif /* PMIWIRE_CODEC_INTERNAL_H */
