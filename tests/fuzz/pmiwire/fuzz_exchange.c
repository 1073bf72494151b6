/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target: frames between servers. The input is a program for one node of a job of seven:
 * its ranks put, get, fence, ring, gather; frames arrive with a corrected header, so that the code
 * behind it is reached, or as the input's raw bytes. Checked:
 *
 *   - a refused frame has no visible effect: the same frames go out, the statistics are the same;
 *   - outgoing frames are valid for their target: a node of the same job never refuses them for
 *     their version, job or size;
 *   - every pending token ends once, at the latest when a node is lost, also where the others
 *     report that no rank is left to put its key;
 *   - a collective that cannot complete ends once, with a culprit, and no rank enters another of
 *     its kind;
 *   - memory stays within its limit, and all of it is freed.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire/exchange.h>

#include "fuzz.h"
#include "../../heap.h"

enum { NODES = 7, RANKS = 14, ME_MAX = NODES, TOKENS = 256 };
#define MAX_BYTES 65536u

static void check(int holds)
{
    if (!holds)
        abort();
}

#define MAGIC 0x34584650u /* "PFX4" */

/* ---- the world ---- */

struct world {
    struct heap heap;
    struct pmiwire_exchange *x, *peer; /* the node that checks frames sent to it */
    uint32_t me, peer_node;
    uint64_t n_sent, sum;
    unsigned char pending[TOKENS];
    uint32_t n_tokens, n_failed, n_done[PMIWIRE_COLL_COUNT_];
    bool stopped[PMIWIRE_COLL_COUNT_]; /* it cannot complete */
    bool failing;                      /* an allocation may */
};

static int quiet_send(void *ctx, uint32_t to, const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    (void)ctx, (void)to, (void)iov, (void)n_iov, (void)bytes;
    return 0;
}

static int on_send(void *ctx, uint32_t to, const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    struct world *w = ctx;
    uint32_t header[PMIWIRE_EXCHANGE_HEADER_BYTES / 4];
    char *frame = malloc(bytes);
    size_t at = 0;

    check(frame && to < NODES && to != w->me && n_iov >= 1 && n_iov <= PMIWIRE_EXCHANGE_MAX_IOV &&
          bytes <= PMIWIRE_EXCHANGE_MIN_FRAME_BYTES);
    for (uint32_t i = 0; i < n_iov; i++) {
        check(iov[i].iov_len > 0);
        memcpy(frame + at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    check(at == bytes && bytes >= sizeof(header));
    memcpy(header, frame, sizeof(header));
    check(header[0] == MAGIC && header[2] == 7 && header[3] == w->me && header[5] == bytes);
    for (at = 0; at < bytes; at++)
        w->sum = w->sum * 31 + (unsigned char)frame[at];
    w->n_sent++;
    if (to == w->peer_node) {
        int rc = pmiwire_exchange_input(w->peer, w->me, frame, bytes);

        check(rc <= 0 && rc != PMIWIRE_EVERSION);
    }
    free(frame);
    return w->n_sent % 5 == 0;
}

static uint32_t on_node_of(void *ctx, uint32_t rank)
{
    check(rank < RANKS);
    return rank / 2;
}

static void on_got(void *ctx, uint64_t token, int rc, struct pmiwire_str value)
{
    struct world *w = ctx;
    size_t i;

    check(token < w->n_tokens && w->pending[token] && rc <= 0);
    w->pending[token] = 0;
    for (i = 0; rc == 0 && i < value.len; i++)
        w->sum += (unsigned char)value.ptr[i];
}

static void stopped(struct world *w, uint32_t kind)
{
    uint32_t why = 0;
    int32_t culprit = pmiwire_exchange_culprit(w->x, kind, &why);

    check(culprit >= 0 && culprit < RANKS && why >= 1 && why < PMIWIRE_GONE_COUNT_);
    w->stopped[kind] = true;
}

/* A rank has entered a collective, or not. */
static void entered(struct world *w, uint32_t kind, int rc)
{
    check(rc <= 0);
    if (w->stopped[kind])
        check(rc == PMIWIRE_EGONE || w->n_failed);
    if (rc == PMIWIRE_EGONE)
        stopped(w, kind);
}

static void on_done(void *ctx, uint32_t kind, uint32_t number, int rc)
{
    struct world *w = ctx;

    check(kind < PMIWIRE_COLL_COUNT_ && number == w->n_done[kind] + 1);
    check(!w->stopped[kind] || (rc != 0 && rc != PMIWIRE_EGONE));
    if (rc == 0)
        w->n_done[kind]++;
    if (rc == PMIWIRE_EGONE)
        stopped(w, kind);
}

static int on_pairs(void *ctx, uint32_t kind, uint32_t number, const void *block, size_t bytes)
{
    struct world *w = ctx;
    struct pmiwire_keyval kv;
    size_t pos = 0, i;
    int rc;

    (void)kind, (void)number;
    while ((rc = pmiwire_block_next(block, bytes, &pos, &kv)) == 1) {
        check(kv.key.len > 0);
        for (i = 0; i < kv.key.len; i++)
            w->sum += (unsigned char)kv.key.ptr[i];
        for (i = 0; i < kv.value.len; i++)
            w->sum += (unsigned char)kv.value.ptr[i];
    }
    check(rc == 0);
    return 0;
}

static void on_ringed(void *ctx, uint32_t rank, int rc, uint32_t place, struct pmiwire_str left,
                      struct pmiwire_str right)
{
    struct world *w = ctx;
    size_t i;

    check(rank / 2 == w->me && (rc != 0 || place == rank));
    if (rc == PMIWIRE_EGONE)
        stopped(w, PMIWIRE_COLL_RING);
    for (i = 0; i < left.len; i++)
        w->sum += (unsigned char)left.ptr[i];
    for (i = 0; i < right.len; i++)
        w->sum += (unsigned char)right.ptr[i];
}

static void on_failed(void *ctx, int rc, uint32_t node)
{
    struct world *w = ctx;

    check(rc < 0 && node < NODES);
    w->n_failed++;
}

static const struct pmiwire_exchange_ops ops = {
    .size = sizeof(ops),
    .send = on_send,
    .node_of = on_node_of,
    .got = on_got,
    .done = on_done,
    .pairs = on_pairs,
    .ringed = on_ringed,
    .failed = on_failed,
};
static const struct pmiwire_exchange_ops peer_ops = {
    .size = sizeof(peer_ops), .send = quiet_send, .node_of = on_node_of};

static struct pmiwire_exchange *create(struct world *w, uint32_t node,
                                       const struct pmiwire_exchange_ops *o, uint8_t kind,
                                       const struct pmiwire_allocator *alloc)
{
    const uint32_t ranks[2] = {2 * node, 2 * node + 1};
    struct pmiwire_exchange_opts opts = {.size = sizeof(opts),
                                         .ops = o,
                                         .ctx = w,
                                         .job = 7,
                                         .node = node,
                                         .n_nodes = NODES,
                                         .n_ranks = RANKS,
                                         .ranks = ranks,
                                         .n_local = 2,
                                         .n_below = 2 * node,
                                         .max_frame_bytes = PMIWIRE_EXCHANGE_MIN_FRAME_BYTES,
                                         .arity = 2,
                                         .wait_ns = 1000,
                                         .allocator = alloc,
                                         .max_bytes = alloc ? MAX_BYTES : 0};
    struct pmiwire_exchange *x = NULL;

    opts.design = kind % 3;
    opts.fence = opts.design == PMIWIRE_DESIGN_TREE ? 0 : kind / 3 % 2;
    opts.flags = kind / 6 % 2;
    opts.unhinted = kind / 12 % 3;
    check(pmiwire_exchange_create(&opts, &x) == 0);
    return x;
}

/* ---- the input ---- */

struct input {
    const uint8_t *p;
    size_t n;
};

static uint8_t byte(struct input *in)
{
    if (in->n == 0)
        return 0;
    in->n--;
    return *in->p++;
}

static struct pmiwire_str bytes(struct input *in, size_t most)
{
    struct pmiwire_str s = {(const char *)in->p, byte(in)};

    s.ptr = (const char *)in->p;
    if (s.len > most)
        s.len = most;
    if (s.len > in->n)
        s.len = in->n;
    in->p += s.len;
    in->n -= s.len;
    return s;
}

/* Keys of one letter collide often. */
static struct pmiwire_str key(struct input *in)
{
    static const char letters[] = "abcdefgh";

    return (struct pmiwire_str){&letters[byte(in) % 8], 1};
}

static void same(struct world *w, const struct pmiwire_stats_exchange *before, uint64_t n_sent)
{
    struct pmiwire_stats_exchange after;

    pmiwire_exchange_stats(w->x, &after);
    check(w->n_sent == n_sent && after.n_refused == before->n_refused + 1);
    check(after.n_keys == before->n_keys && after.n_waiting == before->n_waiting &&
          after.bytes == before->bytes && after.n_fences == before->n_fences);
}

static void frame(struct world *w, struct input *in)
{
    struct pmiwire_stats_exchange before;
    uint64_t n_sent = w->n_sent;
    uint8_t from = byte(in) % 8, raw = byte(in);
    struct pmiwire_str body;
    char *data;
    size_t n;
    int rc;

    if (raw & 128) {
        body = bytes(in, 255);
        n = body.len;
        data = malloc(n ? n : 1);
        check(data != NULL);
        memcpy(data, body.ptr, n);
    } else {
        uint8_t type = byte(in) % PMIWIRE_FRAME_COUNT_, flags = byte(in), more = byte(in);
        uint8_t low = byte(in), high = byte(in) & 1;
        uint16_t arg = (uint16_t)(low | high << 8);
        uint32_t words[4] = {7, from, byte(in) & 7, 0}, magic = MAGIC, limit[5], i;

        body = bytes(in, 255);
        if (type == PMIWIRE_FRAME_LIMIT && more < 128) { /* a rank, the reason, the number of
                                                          * collectives that it has entered */
            for (i = 0; i < 5; i++)
                limit[i] = body.len > i ? (uint8_t)body.ptr[i] % (i == 0 ? RANKS : 6) : 1;
            body = (struct pmiwire_str){(const char *)limit, sizeof(limit)};
        }
        n = PMIWIRE_EXCHANGE_HEADER_BYTES + body.len;
        words[3] = (uint32_t)n + (more == 255);
        data = malloc(n);
        check(data != NULL);
        memcpy(data, &magic, 4);
        data[4] = (char)type;
        data[5] = (char)flags;
        memcpy(data + 6, &arg, 2);
        memcpy(data + 8, words, 16);
        memcpy(data + 24, body.ptr, body.len);
    }
    pmiwire_exchange_stats(w->x, &before);
    rc = pmiwire_exchange_input(w->x, from, data, n);
    check(rc <= 0);
    if (rc == PMIWIRE_EPROTO || rc == PMIWIRE_EVERSION)
        if (!w->n_failed)
            same(w, &before, n_sent);
    free(data);
}

static void act(struct world *w, struct input *in)
{
    uint8_t what = byte(in);
    int32_t rank = (int32_t)(2 * w->me + (what >> 7));
    struct pmiwire_str k, v;
    int rc;

    switch (what % 10) {
    case 0:
        k = key(in);
        v = bytes(in, 64);
        rc = pmiwire_exchange_put(w->x, rank, k, v, what >> 4 & 3);
        check(rc <= 0);
        break;
    case 1:
        if (w->n_tokens == TOKENS)
            break;
        k = key(in);
        w->pending[w->n_tokens++] = 1;
        rc = pmiwire_exchange_get(w->x, what & 4 ? rank : -1, k, byte(in) % 15 - 1, what >> 4 & 3,
                                  w->n_tokens - 1, &v);
        check(rc <= 1);
        if (rc != PMIWIRE_PENDING)
            w->pending[w->n_tokens - 1] = 0;
        break;
    case 2:
        entered(w, PMIWIRE_COLL_FENCE,
                pmiwire_exchange_fence(w->x, what & 64 ? PMIWIRE_RANK_ALL : rank));
        break;
    case 3:
        v = bytes(in, 64);
        entered(w, PMIWIRE_COLL_RING, pmiwire_exchange_ring(w->x, rank, v, v));
        break;
    case 4:
        v = bytes(in, 64);
        entered(w, PMIWIRE_COLL_ALLGATHER, pmiwire_exchange_allgather(w->x, rank, v));
        break;
    case 5:
        if (what & 64)
            check(pmiwire_exchange_ready(w->x, byte(in) % 8) <= 0);
        else
            pmiwire_exchange_tick(w->x, (uint64_t)byte(in) * 100);
        break;
    case 6:
        if (what > 250)
            check(pmiwire_exchange_fail(w->x, PMIWIRE_ELOST, byte(in) % 8) <= 0);
        else if (what & 16)
            check(pmiwire_exchange_gone(w->x, rank, 1 + what % 5) <= 0);
        break;
    default: frame(w, in);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct world w;
    struct pmiwire_allocator alloc = {heap_realloc, heap_free, &w.heap};
    uint8_t kind = byte(&in), where = byte(&in), fail = byte(&in);
    uint32_t i;

    memset(&w, 0, sizeof(w));
    w.heap.limit = MAX_BYTES;
    w.me = where % NODES;
    w.peer_node = (w.me + 1 + where / NODES % (NODES - 1)) % NODES;
    w.peer = create(&w, w.peer_node, &peer_ops, kind, NULL);
    w.x = create(&w, w.me, &ops, kind, &alloc);
    w.heap.fail_at = fail > 200 ? w.heap.n_calls + fail - 200 : 0;
    while (in.n)
        act(&w, &in);
    w.heap.fail_at = 0;
    check(pmiwire_exchange_fail(w.x, PMIWIRE_ELOST, (w.me + 1) % NODES) == 0);
    check(w.n_failed == 1);
    for (i = 0; i < w.n_tokens; i++)
        check(!w.pending[i]);
    pmiwire_exchange_destroy(w.x);
    pmiwire_exchange_destroy(w.peer);
    check(w.heap.n_live == 0 && w.heap.live == 0);
    return 0;
}
