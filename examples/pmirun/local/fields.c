/* SPDX-License-Identifier: BSD-3-Clause */
#include "fields.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "util.h"

void msg_bytes(struct msg *m, const void *p, size_t n)
{
    m->p = xgrow(m->p, &m->cap, m->len + n);
    if (n)
        memcpy(m->p + m->len, p, n);
    m->len += n;
}

void msg_begin(struct msg *m, uint8_t what)
{
    m->len = 0;
    msg_bytes(m, &what, 1);
}

void msg_u32(struct msg *m, uint32_t v)
{
    uint8_t b[4];

    bytes_put_u32(b, v);
    msg_bytes(m, b, sizeof(b));
}

void msg_u64(struct msg *m, uint64_t v)
{
    msg_u32(m, (uint32_t)v);
    msg_u32(m, (uint32_t)(v >> 32));
}

void msg_text(struct msg *m, const void *p, size_t n)
{
    msg_u32(m, (uint32_t)n);
    msg_bytes(m, p, n);
}

void msg_string(struct msg *m, const char *s)
{
    msg_text(m, s, s ? strlen(s) : 0);
}

uint32_t get_u32(struct msg_in *in)
{
    const char *p = in->p;

    if (in->left < 4) {
        in->bad = true;
        in->left = 0;
        return 0;
    }
    in->p += 4;
    in->left -= 4;
    return bytes_get_u32(p);
}

uint64_t get_u64(struct msg_in *in)
{
    uint64_t low = get_u32(in);

    return low | (uint64_t)get_u32(in) << 32;
}

struct pmiwire_str get_str(struct msg_in *in)
{
    struct pmiwire_str s = {NULL, get_u32(in)};

    if (s.len > in->left) {
        in->bad = true;
        in->left = 0;
        s.len = 0;
    }
    s.ptr = in->p;
    in->p += s.len;
    in->left -= s.len;
    return s;
}

char *get_string(struct msg_in *in)
{
    struct pmiwire_str s = get_str(in);

    if (memchr(s.ptr, '\0', s.len)) {
        in->bad = true;
        s.len = 0;
    }
    return xprintf("%.*s", (int)s.len, s.ptr);
}

uint32_t get_count(struct msg_in *in, size_t least)
{
    uint32_t n = get_u32(in);

    if (n > in->left / least) {
        in->bad = true;
        in->left = 0;
        return 0;
    }
    return n;
}

void field_u32(struct msg_fields *f, uint32_t *v)
{
    if (f->out)
        msg_u32(f->out, *v);
    else
        *v = get_u32(f->in);
}

void field_u64(struct msg_fields *f, uint64_t *v)
{
    if (f->out)
        msg_u64(f->out, *v);
    else
        *v = get_u64(f->in);
}

void field_bool(struct msg_fields *f, bool *v)
{
    uint32_t n = *v;

    field_u32(f, &n);
    *v = n == 1;
    if (n > 1)
        f->in->bad = true;
}

void field_seconds(struct msg_fields *f, double *s)
{
    uint64_t ns = (uint64_t)(*s * 1e9);

    field_u64(f, &ns);
    if (f->out)
        return;
    *s = (double)ns / 1e9;
    if (ns >= UINT64_MAX / 2)
        f->in->bad = true;
}

void field_string(struct msg_fields *f, char **s)
{
    if (f->out)
        msg_string(f->out, *s);
    else
        *s = get_string(f->in);
}

void field_option(struct msg_fields *f, char **s)
{
    field_string(f, s);
    if (f->out || **s)
        return;
    free(*s);
    *s = NULL;
}

void field_strings(struct msg_fields *f, char ***v, uint32_t *n)
{
    if (f->out) {
        msg_u32(f->out, *n);
    } else {
        *n = get_count(f->in, 4);
        *v = xrealloc(NULL, (*n + 1) * sizeof(**v));
        (*v)[*n] = NULL;
    }
    for (uint32_t i = 0; i < *n; i++)
        field_string(f, &(*v)[i]);
}
