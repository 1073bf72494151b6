/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between servers: a byte with the type, then fields. A number has 4 or 8 bytes,
 * little-endian; a text is a length of 4 bytes and its bytes.
 */
#ifndef PMIRUN_FIELDS_H
#define PMIRUN_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pmiwire/server.h>

/* A message that is being written. Memory comes from xrealloc(). */
struct msg {
    char *p;
    size_t len, cap;
};

void msg_begin(struct msg *m, uint8_t what); /* m is zero or was used before */
void msg_u32(struct msg *m, uint32_t v);
void msg_u64(struct msg *m, uint64_t v);
void msg_bytes(struct msg *m, const void *p, size_t n); /* without their length */
void msg_text(struct msg *m, const void *p, size_t n);
void msg_string(struct msg *m, const char *s); /* NULL: empty */

/* A message that is being read, behind its type. A missing field reads as 0 and sets `bad`. */
struct msg_in {
    const char *p;
    size_t left;
    bool bad;
};

uint32_t get_u32(struct msg_in *in);
uint64_t get_u64(struct msg_in *in);
struct pmiwire_str get_str(struct msg_in *in);
char *get_string(struct msg_in *in); /* a copy; NUL bytes in it make the message bad. Never NULL */
/* Reads a count of items of at least `least` bytes each. */
uint32_t get_count(struct msg_in *in, size_t least);

/* A structure's fields, written and read by the same function: `out` or `in` is set. What does not
 * fit the field sets in->bad. */
struct msg_fields {
    struct msg *out;
    struct msg_in *in;
};

void field_u32(struct msg_fields *f, uint32_t *v);
void field_u64(struct msg_fields *f, uint64_t *v);
void field_bool(struct msg_fields *f, bool *v);
void field_seconds(struct msg_fields *f, double *s); /* to the nanosecond */
void field_string(struct msg_fields *f, char **s);   /* read: a copy, never NULL */
void field_option(struct msg_fields *f, char **s);   /* the same; NULL stands for the empty one */
/* Read: NULL-terminated, with copies. */
void field_strings(struct msg_fields *f, char ***v, uint32_t *n);

#endif
