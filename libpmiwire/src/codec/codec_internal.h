/* SPDX-License-Identifier: BSD-3-Clause */
/* The codec's internal functions for the rest of the library. */
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
/* Returns a field's id by its key, 0 when unknown. *index: the number that ends an indexed key,
 * else 0.
 */
uint16_t pmiwire__field_find(struct pmiwire_str key, uint32_t *index);

/* As pmiwire__error(), about a command and a field of the table; 0: none. */
int pmiwire__msg_error(struct pmiwire_error *err, int code, uint16_t command, uint16_t field,
                       size_t offset);
/* The first field of this id, NULL when absent. */
const struct pmiwire_field *pmiwire__msg_field(const struct pmiwire_msg *msg, uint16_t field);

/* ---- encode.c ---- */

/* Longest name of a command or extra field that every peer reads, bytes. */
#define PMIWIRE__NAME_MAX 31u
/* Returns whether a name is 1 to PMIWIRE__NAME_MAX letters, digits, `-` and `_`; with `dot` also
 * `.`. */
int pmiwire__is_name(struct pmiwire_str name, int dot);
/* As pmiwire_enc_begin(), for a command that is not in the table: PMIWIRE_V1 or PMIWIRE_V2, and a
 * name (pmiwire__is_name()). */
void pmiwire__enc_begin_named(struct pmiwire_encoder *e, char *buf, size_t cap, uint16_t wire,
                              struct pmiwire_str name, const struct pmiwire_profile *profile);

/* Returns how the value must be encoded (PMIWIRE__BYTES_*); 0 if the peer accepts it unencoded or
 * does not know fp-bytes (e->can_bytes). `field` is 0 for an extension's field. */
uint8_t pmiwire__enc_needs(const struct pmiwire_encoder *e, uint16_t field,
                           struct pmiwire_str value);
/* Begins the message's fields with fp-bytes, unless `bytes` is 0. Following fields of these kinds
 * are encoded. */
void pmiwire__enc_bytes(struct pmiwire_encoder *e, uint8_t bytes);
/* Adds a message's last fields, a key and a value (or one of them; the other's field is 0):
 * unencoded if possible, else encoded behind fp-bytes. */
void pmiwire__enc_pair(struct pmiwire_encoder *e, uint16_t key_field, struct pmiwire_str key,
                       uint16_t value_field, struct pmiwire_str value);
/* Adds an extension's field to a message. A message that may not carry it is -EINVAL. */
void pmiwire__enc_ext(struct pmiwire_encoder *e, uint16_t ext, struct pmiwire_str value);
/* As pmiwire__enc_ext(), for a value of the client's, which may be encoded. */
void pmiwire__enc_value(struct pmiwire_encoder *e, uint16_t ext, struct pmiwire_str value);
/* As pmiwire__enc_ext(), for a value that is always encoded: fp-gather's. */
void pmiwire__enc_encoded(struct pmiwire_encoder *e, uint16_t ext, struct pmiwire_str value);
/* Writes why the message was refused: a sentence that names the byte and the peer with the
 * limit. */
void pmiwire__enc_refusal(const struct pmiwire_encoder *e, char *text, size_t cap);

/* ---- bytes.c ---- */

#define PMIWIRE__BYTES_KEYS   1u /* `k`: keys and names */
#define PMIWIRE__BYTES_VALUES 2u /* `v`: values, ports, values of a Ring or an Allgather */

/* The kind of a field of the table, 0: neither. */
uint8_t pmiwire__bytes_kind(uint16_t field);
/* Returns whether this byte needs no encoding. */
static inline int pmiwire__bytes_plain(unsigned char c)
{
    return pmiwire__plain_bytes[c] && c != '%' && c != '=';
}
/* Decodes a value into s.len bytes at `out`, which may be s.ptr. Returns the bytes written, or -1
 * minus the offset of a bad escape. */
ssize_t pmiwire__bytes_decode(struct pmiwire_str s, char *out);
/* Returns whether the message has a field fp-bytes. */
static inline int pmiwire__msg_has_bytes(const struct pmiwire_msg *msg)
{
    for (uint32_t i = 0; i < msg->n_fields; i++)
        if (msg->fields[i].id == 0 && msg->fields[i].key.len == 8 &&
            memcmp(msg->fields[i].key.ptr, "fp-bytes", 8) == 0)
            return 1;
    return 0;
}
/* Decodes the fields that the message's fp-bytes names into `memory`, which is as long as the
 * message; `*used` bytes of it are used. Returns 0, or the message's error. */
int pmiwire__msg_bytes(struct pmiwire_msg *msg, char *memory, size_t *used,
                       struct pmiwire_error *err);

/* ---- extension.c ---- */

/* Which messages carry an extension. */
#define PMIWIRE__AT_INIT      1u   /* `response_to_init` (PMI-1), `fullinit-response` */
#define PMIWIRE__AT_FENCE     2u   /* `barrier_out`, `kvs-fence-response` */
#define PMIWIRE__AT_HELLO     4u   /* the requests `init` (PMI-1), `fullinit` */
#define PMIWIRE__AT_PUT       8u   /* the requests `put`, `kvs-put` */
#define PMIWIRE__AT_GET       16u  /* the requests `get`, `kvs-get` */
#define PMIWIRE__AT_ENTER     32u  /* the request `barrier_in` */
#define PMIWIRE__AT_KVS_FENCE 64u  /* the request `kvs-fence` */
#define PMIWIRE__AT_DATA      128u /* with keys, values, names or ports */

struct pmiwire__ext {
    const char *name; /* of its field */
    uint16_t at;      /* PMIWIRE__AT_* */
};

/* An extension by its id, NULL for others. */
const struct pmiwire__ext *pmiwire__ext_get(uint16_t ext);
/* Returns the place, PMIWIRE__AT_*, of messages with this id; 0: they carry no extension. */
uint16_t pmiwire__ext_place(uint16_t cmd);

#endif /* PMIWIRE_CODEC_INTERNAL_H */
