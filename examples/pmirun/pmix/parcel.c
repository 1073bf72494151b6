/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "parcel.h"

#include <stdlib.h>
#include <string.h>

#include "../local/util.h"

/* A message, on its way to one node or several. */
struct text {
    uint32_t refs;
    size_t n;
    char *p;
};

struct parcel {
    struct parcel *next;
    struct text *text;
    size_t sent;
};

struct way {
    struct parcel *first, **last; /* to the node */
    bool full;
    char *in; /* from it: the message that is coming */
    size_t have, want, cap;
};

struct parcels {
    uint32_t n;
    struct parcel_ops ops;
    void *ctx;
    struct way ways[];
};

struct parcels *parcels_create(uint32_t n_nodes, const struct parcel_ops *ops, void *ctx)
{
    const size_t bytes = sizeof(struct parcels) + n_nodes * sizeof(struct way);
    struct parcels *ps = xrealloc(NULL, bytes);

    memset(ps, 0, bytes);
    ps->n = n_nodes;
    ps->ops = *ops;
    ps->ctx = ctx;
    for (uint32_t i = 0; i < n_nodes; i++)
        ps->ways[i].last = &ps->ways[i].first;
    return ps;
}

static void release(struct text *t)
{
    if (--t->refs)
        return;
    free(t->p);
    free(t);
}

static void drop_first(struct way *w)
{
    struct parcel *p = w->first;

    w->first = p->next;
    if (!w->first)
        w->last = &w->first;
    release(p->text);
    free(p);
}

void parcels_destroy(struct parcels *ps)
{
    for (uint32_t i = 0; ps && i < ps->n; i++) {
        while (ps->ways[i].first)
            drop_first(&ps->ways[i]);
        free(ps->ways[i].in);
    }
    free(ps);
}

static void put_u32(char *p, size_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (char)(unsigned char)(v >> (8 * i));
}

static size_t get_length(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;

    return b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
}

/* Sends what the way takes. */
static void push(struct parcels *ps, uint32_t node)
{
    static char piece[4 + PARCEL_PIECE_BYTES];
    struct way *w = &ps->ways[node];

    while (w->first && !w->full) {
        struct parcel *p = w->first;
        const size_t left = p->text->n - p->sent,
                     n = left < PARCEL_PIECE_BYTES ? left : PARCEL_PIECE_BYTES;

        put_u32(piece, left);
        memcpy(piece + 4, p->text->p + p->sent, n);
        p->sent += n;
        w->full = !ps->ops.piece(ps->ctx, node, piece, 4 + n);
        if (p->sent == p->text->n)
            drop_first(w);
    }
}

void parcels_send(struct parcels *ps, const uint32_t *nodes, uint32_t n_nodes, void *p, size_t n)
{
    struct text *t = xrealloc(NULL, sizeof(*t));

    *t = (struct text){1, n, p};
    for (uint32_t i = 0; i < n_nodes; i++) {
        struct way *w = &ps->ways[nodes[i]];
        struct parcel *parcel = xrealloc(NULL, sizeof(*parcel));

        t->refs++;
        *parcel = (struct parcel){NULL, t, 0};
        *w->last = parcel;
        w->last = &parcel->next;
        push(ps, nodes[i]);
    }
    release(t);
}

void parcels_room(struct parcels *ps, uint32_t node)
{
    ps->ways[node].full = false;
    push(ps, node);
}

/* Makes room for n bytes more: no more than twice what has come. */
static void grow(struct way *w, size_t n)
{
    if (w->have + n <= w->cap)
        return;
    w->cap = 2 * (w->have + n);
    if (w->cap > w->want)
        w->cap = w->want;
    w->in = xrealloc(w->in, w->cap);
}

bool parcels_input(struct parcels *ps, uint32_t from, const void *p, size_t n)
{
    struct way *w = &ps->ways[from];
    const char *bytes = p;
    size_t left;
    bool ok;
    char *all;

    if (n < 5)
        return false;
    left = get_length(bytes);
    n -= 4;
    if (w->have == 0) {
        if (left > PARCEL_MAX_BYTES)
            return false;
        w->want = left;
    }
    if (left != w->want - w->have || n > left)
        return false;
    grow(w, n);
    memcpy(w->in + w->have, bytes + 4, n);
    w->have += n;
    if (w->have < w->want)
        return true;
    all = w->in;
    w->in = NULL;
    w->have = w->cap = 0;
    ok = ps->ops.message(ps->ctx, from, all, w->want);
    free(all);
    return ok;
}
