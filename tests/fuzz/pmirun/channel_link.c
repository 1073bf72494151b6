/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_pmirun_channel: links to the server, and the peers at their other ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "../../../examples/pmirun/local/util.h"
#include "channel_world.h"

static void hash(const void *p, size_t n, uint8_t out[SUM_BYTES])
{
    crypto_generichash(out, SUM_BYTES, p, n, NULL, 0);
}

static bool server_opened(void *ctx, struct channel *c)
{
    struct world *w = ctx;
    struct netconn *nc = (struct netconn *)(void *)((char *)c - offsetof(struct netconn, ch));

    return w->net->ops->opened(w->net->of, nc);
}

static bool server_frame(void *ctx, struct channel *c, const void *p, size_t n)
{
    struct world *w = ctx;
    struct netconn *nc = (struct netconn *)(void *)((char *)c - offsetof(struct netconn, ch));
    struct peer_end *e = w->speaks;
    uint8_t *copy, sum[SUM_BYTES];
    bool ok;

    check(e && e->nc == nc && !w->altered && e->n_heard < e->n_sent && !e->out_of_turn);
    hash(p, n, sum);
    check(n == e->sent_len && memcmp(sum, e->sent, sizeof(sum)) == 0);
    e->n_heard++;
    if (nc->dead)
        return true;
    copy = malloc(n ? n : 1); /* so that reading past it is seen */
    check(copy != NULL);
    if (n)
        memcpy(copy, p, n);
    ok = w->net->ops->frame(w->net->of, nc, n ? copy : copy + 1, n);
    free(copy);
    return ok;
}

static void server_replayed(void *ctx, struct channel *c, uint64_t number)
{
    check(number < c->in_seq);
}

static const struct channel_ops server_ops = {server_opened, server_frame, server_replayed};

static bool peer_opened(void *ctx, struct channel *c)
{
    (void)ctx, (void)c;
    return true;
}

/* A message of the server's begins with its number. */
static bool peer_frame(void *ctx, struct channel *c, const void *p, size_t n)
{
    (void)ctx, (void)c;
    check(n > 0 && *(const uint8_t *)p != 0);
    return true;
}

void peer_replayed(void *ctx, struct channel *c, uint64_t number)
{
    (void)ctx, (void)c, (void)number;
    abort(); /* nobody alters what a server says */
}

const struct channel_ops peer_ops = {peer_opened, peer_frame, peer_replayed};

void broken(struct world *w, struct peer_end *e, const char *why)
{
    if (e->nc->dead)
        return;
    net_close(e->nc);
    w->net->ops->closed(w->net->of, e->nc, why);
}

/* What a server has to say to each, taken away. */
void listen_to_server(struct world *w)
{
    for (int i = 0; i < LINKS; i++) {
        struct peer_end *e = &w->peers[i];
        const void *p;
        size_t n;

        while (!e->nc->dead && (n = channel_output(&e->nc->ch, &p)) > 0) {
            check(channel_input(&e->ch, p, n, &peer_ops, NULL) == 0);
            channel_sent(&e->nc->ch, n);
        }
    }
}

/* Bytes that arrive over a link. */
void deliver(struct world *w, struct peer_end *e, const uint8_t *p, size_t n)
{
    int rc;

    if (n == 0 || e->nc->dead)
        return;
    w->speaks = e;
    rc = channel_input(&e->nc->ch, p, n, &server_ops, w);
    w->speaks = NULL;
    check((rc == -EPROTO) == (e->nc->ch.state == CHANNEL_FAILED) && (rc == 0 || rc == -EPROTO));
    if (rc)
        broken(w, e, e->nc->ch.why);
    listen_to_server(w);
}

/* A sealed frame, kept. */
void seal(struct peer_end *e, const uint8_t *payload, size_t n)
{
    const void *p;

    check(channel_send(&e->ch, payload, n) == 0);
    e->kept_len = channel_output(&e->ch, &p);
    e->kept = realloc(e->kept, e->kept_len);
    check(e->kept != NULL);
    memcpy(e->kept, p, e->kept_len);
    channel_sent(&e->ch, e->kept_len);
    hash(payload, n, e->sent);
    e->sent_len = n;
    e->n_sent++;
}

void say_frame(struct world *w, struct peer_end *e, const uint8_t *payload, size_t n)
{
    if (e->nc->dead)
        return;
    seal(e, payload, n);
    deliver(w, e, e->kept, e->kept_len);
}

void say_msg(struct world *w, struct peer_end *e, struct msg *m)
{
    say_frame(w, e, (const uint8_t *)m->p, m->len);
    free(m->p);
    *m = (struct msg){0};
}

/* A link whose two ends have proven who they are. The server dials when `dials`. */
void connect_link(struct world *w, int i, uint32_t id, bool dials)
{
    struct peer_end *e = &w->peers[i];
    const void *p;
    size_t n;

    memcpy(&e->self, &w->net->self, sizeof(e->self));
    e->self.id = id;
    e->nc = calloc(1, sizeof(*e->nc));
    check(e->nc != NULL);
    e->nc->src.fd = -1;
    e->nc->net = w->net;
    e->nc->dialled = dials;
    channel_init(&e->nc->ch, &w->net->self, dials, dials ? id : CHANNEL_NOBODY);
    channel_init(&e->ch, &e->self, !dials, dials ? CHANNEL_NOBODY : w->net->self.id);
    if (w->pr.jobs.agent && dials)
        w->agent.head = e->nc;
    for (bool any = true; any;) {
        any = false;
        n = channel_output(&e->ch, &p);
        if (n > 0) {
            check(channel_input(&e->nc->ch, p, n, &server_ops, w) == 0);
            channel_sent(&e->ch, n);
            any = true;
        }
        n = channel_output(&e->nc->ch, &p);
        if (n > 0) {
            check(channel_input(&e->ch, p, n, &peer_ops, NULL) == 0);
            channel_sent(&e->nc->ch, n);
            any = true;
        }
    }
    check(e->nc->ch.state == CHANNEL_OPEN && e->ch.state == CHANNEL_OPEN);
}
