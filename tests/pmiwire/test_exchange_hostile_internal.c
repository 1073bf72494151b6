/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange with misbehaving nodes, and without memory: a refusal changes nothing, and nothing
 * hangs. */
#include <stdbool.h>

#include "../../libpmiwire/src/exchange/exchange_internal.h"
#include "exchange_world.h"
#include "server_harness.h"

enum { HEADER = PMIWIRE_EXCHANGE_HEADER_BYTES };

/* A call that fails for memory has changed nothing, and is repeated. */
static int first_rc;
#define TWICE(call) ((first_rc = (call)) == -ENOMEM ? (call) : first_rc)

static bool ok(int rc)
{
    return rc == 0 || rc == -ENOMEM;
}

/* A record ends with zeros, and with no byte of the memory that it is written to. */
static void padded_records(void **state)
{
    for (size_t len = 0; len < 8; len++) {
        const size_t bytes = pmiwire__record_bytes(1, len);
        struct pmiwire__record rec;
        char record[20];

        memset(record, 'x', sizeof(record));
        pmiwire__record_write(record, str("k"), (struct pmiwire_str){"1234567", len});
        for (size_t i = 5 + len; i < sizeof(record); i++)
            assert_int_equal(record[i], i < bytes ? 0 : 'x');
        assert_int_equal(pmiwire__record_read(record, bytes, &rec), 0);
        assert_int_equal(rec.bytes, bytes);
    }
}

/* A record that its block cuts off, and a place behind the block. */
static void a_block_cut_off(void **state)
{
    const size_t whole = PMIWIRE_BLOCK_HEADER_BYTES + pmiwire__record_bytes(1, 9);
    char block[PMIWIRE_BLOCK_HEADER_BYTES + 32];
    struct pmiwire_keyval kv;

    assert_true(whole <= sizeof(block));
    pmiwire__record_write(block + PMIWIRE_BLOCK_HEADER_BYTES, str("k"), str("123456789"));
    for (size_t bytes = PMIWIRE_BLOCK_HEADER_BYTES; bytes <= whole; bytes++) {
        size_t pos = 0, behind = bytes + 1;
        const int none = bytes == PMIWIRE_BLOCK_HEADER_BYTES, all = bytes == whole;

        pmiwire__block_header(block, 1, bytes);
        assert_int_equal(pmiwire_block_next(block, bytes, &pos, &kv), none  ? 0
                                                                      : all ? 1
                                                                            : PMIWIRE_EPROTO);
        assert_int_equal(pmiwire_block_next(block, bytes, &behind, &kv), PMIWIRE_EPROTO);
    }
}

/* ---- frames ---- */

static struct msg *frames[4096];
static struct {
    uint32_t from, to;
} ways[4096];
static uint32_t n_frames;

/* Delivers all frames of a run, after a call of `before` for each. */
static void record(struct world *w,
                   void (*before)(struct world *w, uint32_t from, uint32_t to, const struct msg *m))
{
    while (w->n_queued) {
        uint32_t from = w_random(w, w->n_nodes), to = w_random(w, w->n_nodes);
        struct msg *m = w_take(w, from, to);

        if (!m)
            continue;
        before(w, from, to, m);
        assert_int_equal(pmiwire_exchange_input(w->nodes[to].x, from, m->data, m->bytes), 0);
        assert_true(n_frames < 4096);
        ways[n_frames].from = from;
        ways[n_frames].to = to;
        frames[n_frames++] = m;
    }
}

static void forget_frames(void)
{
    while (n_frames)
        free(frames[--n_frames]);
}

static void everything(struct world *w, void (*before)(struct world *w, uint32_t from, uint32_t to,
                                                       const struct msg *m))
{
    char name[16];

    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t r = 0; r < w->n_ranks; r++) {
            struct pmiwire_exchange *x = w->nodes[w->node_of[r]].x;

            snprintf(name, sizeof(name), "s%u", r);
            w_put(w, r, name, "sparse", PMIWIRE_HINT_SPARSE);
            snprintf(name, sizeof(name), "d%u", r);
            w_put(w, r, name, "dense", PMIWIRE_HINT_DENSE);
            snprintf(name, sizeof(name), "s%u", (r + 3) % w->n_ranks);
            (void)w_get(w, w->node_of[r], name, (int32_t)((r + 3) % w->n_ranks), PMIWIRE_GET_WAIT);
            (void)w_get(w, w->node_of[r], "nothing", (int32_t)((r + 5) % w->n_ranks),
                        PMIWIRE_GET_REMOTE);
            assert_int_equal(pmiwire_exchange_ring(x, (int32_t)r, str(name), str(name)), 0);
            assert_int_equal(pmiwire_exchange_allgather(x, (int32_t)r, str(name)), 0);
        }
        for (uint32_t i = 0; i < w->n_nodes; i++)
            assert_int_equal(pmiwire_exchange_fence(w->nodes[i].x, PMIWIRE_RANK_ALL), 0);
        record(w, before);
    }
    for (uint32_t i = 0; i < w->n_nodes; i++)
        (void)w_get(w, i, "nobody's", 3, PMIWIRE_GET_WAIT);
    for (uint64_t t = 1; t < 6; t++) {
        w_tick(w, t);
        record(w, before);
        if (t == 3) /* the next tick marks it, and the one after it asks */
            w_gone(w, 3);
    }
    for (size_t i = 0; i < w->n_gets; i++)
        assert_true(w->gets[i].ended);
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        assert_int_equal(w->nodes[i].n_done[PMIWIRE_COLL_FENCE], 2);
        assert_int_equal(w->nodes[i].n_done[PMIWIRE_COLL_ALLGATHER], 2);
    }
    for (uint32_t r = 0; r < w->n_ranks; r++)
        assert_int_equal(w->rings[r].n, 2);
}

/* Bytes in a block of their own, so that a sanitizer sees reads past their end. */
static int give(struct world *w, uint32_t to, uint32_t from, const void *p, size_t n)
{
    void *copy = malloc(n ? n : 1);
    int rc;

    assert_non_null(copy);
    memcpy(copy, p, n);
    rc = pmiwire_exchange_input(w->nodes[to].x, from, copy, n);
    free(copy);
    return rc;
}

/* In a word at `word`, of this machine's byte order: the byte of this weight, 0 the least. */
static size_t byte_at(size_t word, size_t weight)
{
    const uint32_t one = 1;

    return word + (*(const char *)&one ? weight : 3 - weight);
}

static void bad_variants(struct world *w, uint32_t from, uint32_t to, const struct msg *m)
{
    struct pmiwire_stats_exchange before = w_stats(w, to), after;
    uint64_t sent = w->nodes[to].sent, refused = 0;
    char *copy = malloc(m->bytes + 8);
    uint32_t v;

    assert_non_null(copy);
#define REFUSED(rc, n, change)                                                                     \
    do {                                                                                           \
        memcpy(copy, m->data, m->bytes);                                                           \
        change;                                                                                    \
        assert_int_equal(give(w, to, from, copy, n), rc);                                          \
        refused++;                                                                                 \
    } while (0)
    for (size_t n = 0; n < m->bytes; n++) /* truncated, with and without a matching header */
        REFUSED(PMIWIRE_EPROTO, n, );
    REFUSED(PMIWIRE_EPROTO, m->bytes + 4, memset(copy + m->bytes, 0, 4));
    REFUSED(PMIWIRE_EPROTO, m->bytes, copy[4] = 0);
    REFUSED(PMIWIRE_EPROTO, m->bytes, copy[4] = PMIWIRE_FRAME_COUNT_);
    REFUSED(PMIWIRE_EPROTO, m->bytes, copy[5] = (char)(copy[5] ^ 0x80));
    REFUSED(PMIWIRE_EPROTO, m->bytes, copy[8]++);  /* another job */
    REFUSED(PMIWIRE_EPROTO, m->bytes, copy[12]++); /* another node than the link's */
    REFUSED(PMIWIRE_EPROTO, m->bytes, copy[byte_at(16, 3)] = 0x7f); /* a number far ahead */
    REFUSED(PMIWIRE_EVERSION, m->bytes, copy[byte_at(0, 3)] = '1');
    REFUSED(PMIWIRE_EVERSION, m->bytes, memcpy(copy, byte_at(0, 0) == 0 ? "1XFP" : "PFX1", 4));
    REFUSED(PMIWIRE_EPROTO, m->bytes, copy[byte_at(0, 0)] = 0);
    /* Its last word is cut off, with a matching header. A COLL may still be whole only where there
     * was nothing to cut. */
    if (m->bytes > HEADER + 4) {
        v = (uint32_t)m->bytes - 4;
        if (copy[4] != PMIWIRE_FRAME_GET && copy[4] != PMIWIRE_FRAME_RING)
            REFUSED(PMIWIRE_EPROTO, m->bytes - 4, memcpy(copy + 20, &v, 4));
    }
    after = w_stats(w, to);
    assert_int_equal(after.n_refused, before.n_refused + refused);
    assert_int_equal(w->nodes[to].sent, sent);
    assert_int_equal(after.n_keys, before.n_keys);
    assert_int_equal(after.n_waiting, before.n_waiting);
    assert_int_equal(after.bytes, before.bytes);
    free(copy);
}

static void frames_out_of_order(void **state)
{
    for (uint32_t design = 0; design < 3; design++)
        for (uint32_t fence = 0; fence < (design == PMIWIRE_DESIGN_TREE ? 1u : 2u); fence++) {
            struct pmiwire_exchange_opts o = {.design = design, .fence = fence, .arity = 2};
            struct world w;

            w_init(&w, 7, 14, CYCLIC, design + 1);
            w_start(&w, &o);
            everything(&w, bad_variants);
            forget_frames();
            w_fini(&w);
        }
}

static void nothing_before(struct world *w, uint32_t from, uint32_t to, const struct msg *m)
{
    (void)w, (void)from, (void)to, (void)m;
}

/* Delivered frames come again, to the same node and to others: collectives, rings and
 * acknowledgements are refused, and no frame ends a node or makes it lose state. */
static void replayed_frames(void **state)
{
    for (uint32_t design = 0; design < 3; design++) {
        struct pmiwire_exchange_opts o = {.design = design, .arity = 2};
        struct world w;

        w_init(&w, 7, 14, CYCLIC, design + 9);
        w_start(&w, &o);
        everything(&w, nothing_before);
        for (uint32_t i = 0; i < n_frames; i++) {
            const struct msg *m = frames[i];
            int rc = give(&w, ways[i].to, ways[i].from, m->data, m->bytes);
            uint8_t type = (uint8_t)m->data[4];

            if (type == PMIWIRE_FRAME_COLL || type == PMIWIRE_FRAME_RING ||
                type == PMIWIRE_FRAME_ACK)
                assert_int_equal(rc, PMIWIRE_EPROTO);
            else
                assert_int_equal(rc, 0);
            for (uint32_t to = 0; to < w.n_nodes; to++)
                if (to != ways[i].from) {
                    rc = give(&w, to, ways[i].from, m->data, m->bytes);
                    assert_true(rc == 0 || rc == PMIWIRE_EPROTO);
                }
        }
        for (size_t i = 0; i < (size_t)w.n_nodes * w.n_nodes;
             i++) /* acknowledgements that no node expects, and similar */
            drop_queue(&w, &w.queues[i]);
        for (uint32_t i = 0; i < w.n_nodes; i++) {
            assert_int_equal(w.nodes[i].n_failed, 0);
            w_expect(&w, w_get(&w, i, "d3", 3, PMIWIRE_GET_LOCAL), "dense");
        }
        forget_frames();
        w_fini(&w);
    }
}

/* Forged frames. */
static int made(struct world *w, uint32_t to, uint32_t from, uint8_t type, uint8_t flags,
                uint16_t arg, uint32_t seq, const void *body, size_t n)
{
    char *frame = malloc(HEADER + n);
    uint32_t words[4] = {0, from, seq, (uint32_t)(HEADER + n)}, magic = PMIWIRE__FRAME_MAGIC;
    int rc;

    assert_non_null(frame);
    memcpy(frame, &magic, 4);
    frame[4] = (char)type;
    frame[5] = (char)flags;
    memcpy(frame + 6, &arg, 2);
    memcpy(frame + 8, words, 16);
    if (n)
        memcpy(frame + HEADER, body, n);
    rc = give(w, to, from, frame, HEADER + n);
    free(frame);
    return rc;
}

static void made_up_frames(void **state)
{
    struct pmiwire_exchange_opts o = {.design = PMIWIRE_DESIGN_TREE, .arity = 2};
    const uint32_t record_[] = {1u << 18 | 1, 'k' | 'v' << 8}, no_key[] = {1, 'v'},
                   long_value[] = {1u << 18 | 200, 'k'};
    const uint32_t high[] = {1u << 18 | 1 | 1u << 30, 'k' | 'v' << 8}, way[] = {8, 3, 'k'},
                   other_way[] = {5, 3, 'k'}, self[] = {1, 3, 'k'};
    const uint32_t two[] = {1u << 18 | 1, 'k' | 'v' << 8, 1u << 18 | 1, 'l' | 'v' << 8};
    /* Segments: node, bytes, a run: count, shared prefix, rest of a key, a value. */
    const uint8_t seg[] = {7, 6, 1, 0, 1, 1, 'k', 'v'}, foreign[] = {5, 6, 1, 0, 1, 1, 'k', 'v'},
                  beyond[] = {7, 7, 1, 0, 1, 1, 'k', 'v'};
    const uint8_t empty[] = {7, 0}, rank[] = {7, 8, 1, 0, 4, 0, 5, 0, 0, 0},
                  short_rank[] = {7, 7, 1, 0, 3, 0, 7, 0, 0};
    const uint8_t none[] = {7, 4, 0, 0, 1, 1}, no_name[] = {7, 5, 1, 0, 0, 1, 'v'},
                  rest[] = {7, 8, 1, 0, 1, 1, 'k', 'v', 1, 0};
    const uint8_t long_node[] = {0x87, 0, 6, 1, 0, 1, 1, 'k', 'v'},
                  endless[] = {0x87, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
    const uint8_t wide[] = {7, 10, 0x81, 0x80, 0x80, 0x80, 0x10, 0, 1, 1, 'k', 'v'},
                  cut_pair[] = {7, 6, 2, 0, 1, 1, 'k', 'v'};
    const uint8_t long_key[] = {7, 7, 1, 0, 0x80, 0x10, 1, 'k', 'v'},
                  long_val[] = {7, 8, 1, 0, 1, 0x80, 0x80, 0x10, 'k', 'v'};
    /* Keys that are equal to the prefix: 8 bytes each as a record; a segment may have 65,472. */
    const uint8_t most[] = {7, 6, 0xf8, 0x3f, 1, 0, 0, 'k'},
                  more[] = {7, 6, 0xf9, 0x3f, 1, 0, 0, 'k'};
    const uint8_t bomb[] = {7,   18,   0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0, 0,
                            'k', 0xff, 0xff, 0xff, 0xff, 0x0f, 1,    0, 0, 'k'};
    const uint32_t prefix[] = {1, 0, 'v'}, wrong_prefix[] = {2, 0, 'v'}, reserved[] = {1, 1, 'v'};
    const int32_t why[] = {-12, 3}, fine[] = {0, 3}, nowhere[] = {-12, 99};
    /* GONE: a rank, here its node's number too, and the asking node. */
    const uint32_t no_rank[] = {9, 3}, no_asker[] = {0, 9}, own[] = {3, 3}, back[] = {8, 4},
                   up[] = {0, 3}, here[] = {1, 3}, to_us[] = {0, 1}, answer_up[] = {4, 0},
                   astray[] = {0, 5};
    const uint32_t missing[] = {1u << 18, 'k'};
    /* LIMIT: a rank, the reason, and the number of collectives of each kind that it has entered. */
    const uint32_t limit[] = {5, 1, 1, 1, 99}, lower[] = {5, 5, 0, 0, 0}, below[] = {7, 2, 0, 0, 0},
                   no_such[] = {9, 1, 0, 0, 0}, ours[] = {1, 1, 0, 0, 0},
                   no_why[] = {5, 0, 0, 0, 0}, bad_why[] = {5, 6, 0, 0, 0},
                   ahead[] = {5, 1, 2, 0, 0}, ahead_too[] = {5, 1, 0, 2, 0};
    struct world w;

    w_init(&w, 9, 9, BLOCK, 1); /* 0: 1 2; 1: 3 4; 2: 5 6; 3: 7 8 */
    w_start(&w, &o);
    const struct {
        int rc;
        uint32_t to, from;
        uint8_t type, flags;
        uint16_t arg;
        uint32_t seq;
        const void *body;
        size_t n;
    } cases[] = {
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_PUT, 0, 0, 0, NULL, 0},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_PUT, 0, 0, 0, no_key, 8},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_PUT, 0, 0, 0, long_value, 8},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_PUT, 0, 0, 0, high, 8},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_PUT, 0, 0, 0, record_, 8}, /* from above */
        {PMIWIRE_EPROTO, 1, 7, PMIWIRE_FRAME_PUT, 0, 0, 0, record_, 8}, /* not from a child */
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_PUT, 0, 0, 2, record_, 8}, /* two Fences ahead */
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_PUT, PMIWIRE__FRAME_ACK, 0, 0, record_, 8},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_PUT, 0, 1, 0, record_, 8},
        {0, 1, 3, PMIWIRE_FRAME_PUT, 0, 0, 1, record_, 8},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_ACK, 0, 0, 1, NULL, 0},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GET, 0, 0, 0, way, 9},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GET, 0, 33, 0, way, 9},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GET, 0, 2, 0, way, 8},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GET, 0, 2, 0, other_way, 9},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GET, 0, 2, 0, self, 9},
        {PMIWIRE_EPROTO, 1, 4, PMIWIRE_FRAME_GET, 0, 2, 0, way, 9},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GET, PMIWIRE__FRAME_FOUND, 2, 0, way, 9},
        {0, 1, 3, PMIWIRE_FRAME_GET, 0, 2, 0, way, 9},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_ANSWER, PMIWIRE__FRAME_FOUND, 0, 0, record_,
         8}, /* not from above */
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_ANSWER, 0, 0, 0, record_,
         8}, /* not found, with a value */
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_ANSWER, PMIWIRE__FRAME_WAIT, 0, 0, record_, 8},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_ANSWER, PMIWIRE__FRAME_FOUND, 0, 0, two, 16},
        {0, 1, 0, PMIWIRE_FRAME_ANSWER, PMIWIRE__FRAME_FOUND, 0, 0, record_,
         8},                                                          /* not requested: dropped */
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, NULL, 0}, /* without content */
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, PMIWIRE__FRAME_LAST, 0, 2, NULL, 0},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, PMIWIRE__FRAME_LAST, 0, 0, NULL, 0},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, PMIWIRE__FRAME_LAST, 1, 1, NULL, 0},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, PMIWIRE__FRAME_LAST, 2 << 8, 1, NULL, 0},
        {PMIWIRE_EPROTO, 3, 5, PMIWIRE_FRAME_COLL, PMIWIRE__FRAME_LAST, 0, 1, NULL, 0},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, foreign,
         8}, /* a node that is not below it */
        {PMIWIRE_EPROTO, 3, 1, PMIWIRE_FRAME_COLL, 0, 0, 1, seg,
         8}, /* from above, a node that is below us */
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, beyond, 8},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, empty, 2},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, seg, 7},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, seg, 1},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, none, 6},    /* no pairs in a run */
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, no_name, 7}, /* no key */
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, rest, 10},   /* half a run behind one */
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, cut_pair, 8},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, long_node,
         9}, /* numbers with needless digits */
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, endless, 7},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, wide, 12}, /* of more than 32 bits */
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, long_key, 9},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, long_val, 10},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, more,
         8}, /* more than a segment may have */
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, bomb, 20},
        {0, 3, 7, PMIWIRE_FRAME_COLL, 0, 0, 1, most, 8},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 1 << 8, 1, seg,
         8}, /* an Allgather's keys are ranks */
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 1 << 8, 1, short_rank, 9},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, 0, 1 << 8, 1, rank, 10}, /* of that node */
        {0, 3, 7, PMIWIRE_FRAME_COLL, PMIWIRE__FRAME_LAST, 0, 1, seg, 8},
        {PMIWIRE_EPROTO, 3, 7, PMIWIRE_FRAME_COLL, PMIWIRE__FRAME_LAST, 0, 1, seg,
         8}, /* LAST came */
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_RING, PMIWIRE__FRAME_RIGHT, 0, 1, wrong_prefix, 9},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_RING, PMIWIRE__FRAME_RIGHT, 0, 1, reserved, 9},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_RING, PMIWIRE__FRAME_RIGHT, 0, 1, prefix, 7},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_RING, 0, 0, 1, prefix, 9},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_RING, PMIWIRE__FRAME_RIGHT, 0, 1, prefix, 9},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_RING, PMIWIRE__FRAME_RIGHT, 0, 2, prefix,
         9}, /* the next before this one */
        {0, 1, 0, PMIWIRE_FRAME_RING, PMIWIRE__FRAME_RIGHT, 0, 1, prefix, 9},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_RING, PMIWIRE__FRAME_RIGHT, 0, 1, prefix, 9},
        {0, 1, 0, PMIWIRE_FRAME_RING, PMIWIRE__FRAME_RIGHT, 0, 2, prefix, 9},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_RING, PMIWIRE__FRAME_RIGHT, 0, 3, prefix, 9},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_ANSWER, PMIWIRE__FRAME_WAIT, 0, 1, missing,
         8}, /* a waiting Get never gets "not found" */
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GET, PMIWIRE__FRAME_FRESH | PMIWIRE__FRAME_WAIT, 2, 0,
         way, 9},
        {0, 1, 3, PMIWIRE_FRAME_GET, PMIWIRE__FRAME_FRESH, 2, 0, way, 9},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GONE, 0, 0, 0, up, 4},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GONE, 0, 0, 0, NULL, 0},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GONE, 0, 1, 0, up, 8},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GONE, 0, 0, 1, up, 8},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GONE, PMIWIRE__FRAME_WAIT, 0, 0, up, 8},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GONE, 0, 0, 0, no_rank, 8},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GONE, 0, 0, 0, no_asker, 8},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GONE, 0, 0, 0, own, 8},  /* asks about its own */
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GONE, 0, 0, 0, back, 8}, /* where it comes from */
        {PMIWIRE_EPROTO, 1, 7, PMIWIRE_FRAME_GONE, 0, 0, 0, up, 8},   /* not a neighbour */
        {PMIWIRE_EPROTO, 1, 2, PMIWIRE_FRAME_GONE, 0, 0, 0, up, 8},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_GONE, PMIWIRE__FRAME_FOUND, 0, 0, astray, 8},
        {PMIWIRE_EPROTO, 1, 4, PMIWIRE_FRAME_GONE, 0, 0, 0, up, 8}, /* not from the asker's side */
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_GONE, PMIWIRE__FRAME_FOUND, 0, 0, to_us, 8},
        {0, 1, 3, PMIWIRE_FRAME_GONE, 0, 0, 0, up, 8},
        {0, 1, 3, PMIWIRE_FRAME_GONE, 0, 0, 0, here, 8},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_GONE, PMIWIRE__FRAME_FOUND, 0, 0, to_us, 8}, /* why? */
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_GONE, PMIWIRE__FRAME_FOUND, 6, 0, to_us, 8},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_GONE, PMIWIRE__FRAME_FOUND, 1, 2, to_us,
         8}, /* two Fences ahead */
        {0, 1, 0, PMIWIRE_FRAME_GONE, PMIWIRE__FRAME_FOUND, 5, 1, to_us, 8},
        {0, 1, 4, PMIWIRE_FRAME_GONE, PMIWIRE__FRAME_FOUND, 1, 0, answer_up, 8},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_LIMIT, 0, 0, 0, limit, 16},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_LIMIT, 1, 0, 0, limit, 20},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_LIMIT, 0, 1, 0, limit, 20},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_LIMIT, 0, 0, 1, limit, 20},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_LIMIT, 0, 0, 0, no_such, 20},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_LIMIT, 0, 0, 0, ours, 20},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_LIMIT, 0, 0, 0, no_why, 20},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_LIMIT, 0, 0, 0, bad_why, 20},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_LIMIT, 0, 0, 0, ahead, 20}, /* without us */
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_LIMIT, 0, 0, 0, ahead_too, 20},
        {PMIWIRE_EPROTO, 1, 3, PMIWIRE_FRAME_LIMIT, 0, 0, 0, limit, 20}, /* not from that side */
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_LIMIT, 0, 0, 0, below, 20},
        {PMIWIRE_EPROTO, 1, 7, PMIWIRE_FRAME_LIMIT, 0, 0, 0, below, 20}, /* not a neighbour */
        {0, 1, 0, PMIWIRE_FRAME_LIMIT, 0, 0, 0, limit, 20},
        {0, 1, 0, PMIWIRE_FRAME_LIMIT, 0, 0, 0, lower, 20},
        {0, 1, 3, PMIWIRE_FRAME_LIMIT, 0, 0, 0, below, 20},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_FAIL, 0, 0, 0, fine, 8},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_FAIL, 0, 0, 0, nowhere, 8},
        {PMIWIRE_EPROTO, 1, 0, PMIWIRE_FRAME_FAIL, 0, 0, 0, why, 4},
        {PMIWIRE_EPROTO, 1, 1, PMIWIRE_FRAME_FAIL, 0, 0, 0, why, 8}, /* from itself */
        {PMIWIRE_EPROTO, 1, 9, PMIWIRE_FRAME_FAIL, 0, 0, 0, why, 8},
        {0, 1, 0, PMIWIRE_FRAME_FAIL, 0, 0, 0, why, 8},
        {-12, 1, 0, PMIWIRE_FRAME_FAIL, 0, 0, 0, why, 8},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int rc = made(&w, cases[i].to, cases[i].from, cases[i].type, cases[i].flags, cases[i].arg,
                      cases[i].seq, cases[i].body, cases[i].n);

        if (rc != cases[i].rc)
            fail_msg("case %zu: %d instead of %d", i, rc, cases[i].rc);
    }
    w_fini(&w);
}

/* A rank cannot have skipped a complete Fence. */
static void a_limit_that_lies(void **state)
{
    struct pmiwire_exchange_opts o = {.arity = 2};
    const uint32_t limit[] = {1, PMIWIRE_GONE_ENDED, 0, 0, 0};
    struct world w;

    w_init(&w, 2, 2, BLOCK, 1);
    w_start(&w, &o);
    w_fence(&w);
    assert_int_equal(made(&w, 0, 1, PMIWIRE_FRAME_LIMIT, 0, 0, 0, limit, 20), PMIWIRE_EPROTO);
    w_fence(&w);
    w_fini(&w);
}

/* An answer changes the state only if it was requested. */
/* Two bytes in a frame's order, in a word of this machine's. */
static uint32_t two(char a, char b)
{
    const char bytes[4] = {a, b};
    uint32_t word;

    memcpy(&word, bytes, sizeof(word));
    return word;
}

static void answers_nobody_asked_for(void **state)
{
    struct pmiwire_exchange_opts o = {.design = PMIWIRE_DESIGN_TREE, .arity = 2};
    const uint32_t put[] = {1u << 18 | 1, two('k', 'v')};
    const uint32_t answer[] = {1u << 18 | 1, two('k', 'x')}, missing[] = {1u << 18, two('k', 0)};
    struct world w;

    w_init(&w, 9, 9, BLOCK, 1);
    w_start(&w, &o);
    assert_int_equal(made(&w, 1, 3, PMIWIRE_FRAME_PUT, 0, 0, 0, put, 8), 0);
    assert_int_equal(made(&w, 1, 0, PMIWIRE_FRAME_ANSWER, PMIWIRE__FRAME_FOUND, 0, 1, answer, 8),
                     0);
    assert_int_equal(made(&w, 1, 0, PMIWIRE_FRAME_ANSWER,
                          PMIWIRE__FRAME_FOUND | PMIWIRE__FRAME_WAIT, 0, 1, answer, 8),
                     0);
    assert_int_equal(made(&w, 1, 0, PMIWIRE_FRAME_ANSWER, 0, 0, 1, missing, 8), 0);
    w_expect(&w, w_get(&w, 1, "k", -1, PMIWIRE_GET_LOCAL), "v");
    w_fini(&w);
}

/* A lying node sends a rank twice in an Allgather: the exchange ends with an error.
 * */
static void an_allgather_that_lies(void **state)
{
    struct pmiwire_exchange_opts o = {.arity = 2};
    uint8_t twice[] = {1, 8, 2, 4, 0, 0, 2, 0, 0, 0};
    const uint32_t rank = 2;
    struct world w;

    memcpy(twice + 6, &rank, sizeof(rank));
    w_init(&w, 2, 4, BLOCK, 1);
    w_start(&w, &o);
    assert_int_equal(pmiwire_exchange_allgather(w.nodes[0].x, 0, str("a")), 0);
    assert_int_equal(pmiwire_exchange_allgather(w.nodes[0].x, 1, str("b")), 0);
    assert_int_equal(
        made(&w, 0, 1, PMIWIRE_FRAME_COLL, PMIWIRE__FRAME_LAST, 1 << 8, 1, twice, sizeof(twice)),
        -EINVAL);
    assert_int_equal(w.nodes[0].n_failed, 1);
    assert_int_equal(w.nodes[0].n_failed_done, 1);
    w_fini(&w);
}

/* ---- memory ---- */

/* One node's allocations fail in turn. Either the caller gets the error and the node continues, or
 * the exchange ends everywhere. */
static bool with_a_failure(uint32_t design, uint32_t fence, long fail_at, bool *ended)
{
    struct heap heap = {0};
    struct pmiwire_allocator alloc = {heap_realloc, heap_free, &heap};
    struct pmiwire_exchange_opts o = {
        .design = design, .fence = fence, .arity = 2, .max_frame_bytes = 4096};
    static char text[3000];
    uint32_t n = 5, weak = 1, i;
    struct world w;

    memset(text, 't', sizeof(text) - 1);
    w_init(&w, n, 2 * n, BLOCK, 77);
    for (i = 0; i < n; i++) {
        struct pmiwire_exchange_opts own = o;

        if (i == weak) {
            own.allocator = &alloc;
            heap.fail_at = fail_at;
        }
        if (w_create(&w, i, &own) != 0) {
            assert_true(i == weak && heap.n_live == 0 && fail_at != 0);
            own.allocator = &alloc;
            assert_int_equal(w_create(&w, i, &own), 0);
        }
    }
    for (int round = 0; round < 2; round++) {
        for (uint32_t r = 0; r < 2 * n; r++) {
            struct pmiwire_exchange *x = w.nodes[w.node_of[r]].x;
            char key[16];
            int rc = 0;

            for (int k = 0; k < 4 && rc == 0; k++) {
                snprintf(key, sizeof(key), "k%u.%d", r, k);
                rc = TWICE(pmiwire_exchange_put(x, (int32_t)r, str(key),
                                                str(k & 1 ? text : "short"), k & 2 ? 1 : 2));
            }
            snprintf(key, sizeof(key), "w%u", (r + 4) % (2 * n));
            rc = rc ? rc : TWICE(pmiwire_exchange_ring(x, (int32_t)r, str(text), str(key)));
            rc = rc ? rc : TWICE(pmiwire_exchange_allgather(x, (int32_t)r, str(text)));
            assert_true(rc == 0 || w.nodes[w.node_of[r]].n_failed);
            if (round == 0 && !w.nodes[w.node_of[r]].n_failed) {
                uint64_t t =
                    w_get(&w, w.node_of[r], key, (int32_t)((r + 4) % (2 * n)), PMIWIRE_GET_WAIT);

                assert_true(w.gets[t].pending || ok(w.gets[t].rc) ||
                            w.nodes[w.node_of[r]].n_failed);
                for (int k = 0; k < 3;
                     k++) { /* more at a time than the first room for them holds */
                    snprintf(key, sizeof(key), "x%u.%d", r, k);
                    t = w_get(&w, w.node_of[r], key, 2, PMIWIRE_GET_WAIT);
                    assert_true(w.gets[t].pending || ok(w.gets[t].rc) ||
                                w.nodes[w.node_of[r]].n_failed);
                }
                snprintf(key, sizeof(key), "w%u", r);
                rc = TWICE(
                    pmiwire_exchange_put(x, (int32_t)r, str(key), str("w"), PMIWIRE_HINT_SPARSE));
                assert_true(rc == 0 || w.nodes[w.node_of[r]].n_failed);
            }
            for (int rc2; w_random(&w, 3) && w_step(&w, &rc2);)
                ;
        }
        for (int rc; w_step(&w, &rc);)
            ;
        for (uint32_t k = 0; round == 0 && k < 6 * n; k++) {
            char key[16];
            int rc;

            snprintf(key, sizeof(key), "x%u.%u", k / 3, k % 3);
            rc = TWICE(
                pmiwire_exchange_put(w.nodes[weak].x, 2, str(key), str("x"), PMIWIRE_HINT_SPARSE));
            assert_true(rc == 0 || w.nodes[weak].n_failed);
        }
        for (i = 0; i < n; i++)
            (void)pmiwire_exchange_fence(w.nodes[i].x, PMIWIRE_RANK_ALL);
        for (int rc; w_step(&w, &rc);)
            ;
    }
    *ended = w.nodes[0].n_failed > 0;
    for (i = 0; i < n; i++) {
        assert_int_equal(w.nodes[i].n_failed, *ended);
        if (*ended)
            assert_int_equal(w.nodes[i].failed_rc, -ENOMEM);
        else
            assert_int_equal(w.nodes[i].n_done[PMIWIRE_COLL_FENCE], 2);
        assert_int_equal(w_stats(&w, i).n_waiting, 0);
    }
    for (size_t t = 0; t < w.n_gets; t++)
        assert_true(w.gets[t].ended);
    assert_true(w_stats(&w, weak).bytes == heap.live);
    w_fini(&w);
    assert_int_equal(heap.n_live, 0);
    return heap.n_calls < fail_at; /* it was not reached */
}

static void every_allocation_fails(void **state)
{
    for (uint32_t design = 0; design < 3; design++)
        for (uint32_t fence = 0; fence < (design == PMIWIRE_DESIGN_TREE ? 1u : 2u); fence++) {
            uint32_t n_ended = 0, n_on = 0;
            bool ended;

            assert_true(!with_a_failure(design, fence, 0, &ended) && !ended);
            for (long fail_at = 1; !with_a_failure(design, fence, fail_at, &ended); fail_at++) {
                n_ended += ended;
                n_on += !ended;
                assert_true(fail_at < 1000);
            }
            assert_true(n_ended > 5 && n_on > 5); /* both happen */
        }
}

static void a_limit_on_memory(void **state)
{
    struct pmiwire_exchange_opts o = {.max_bytes = 40000, .max_frame_bytes = 4096};
    static char text[1001];
    char key[16];
    int n = 0, rc;
    struct world w;

    memset(text, 't', 1000);
    for (uint32_t hint = 1; hint <= 2; hint++) {
        w_init(&w, 1, 1, BLOCK, 1);
        w_start(&w, &o);
        for (n = 0;; n++) {
            snprintf(key, sizeof(key), "k%d", n);
            rc = pmiwire_exchange_put(w.nodes[0].x, 0, str(key), str(text), hint);
            if (rc != 0)
                break;
        }
        assert_int_equal(rc, -ENOMEM);
        assert_in_range(n, 3, 40);
        assert_true(w_stats(&w, 0).peak_bytes <= 40000);
        for (int i = 0; i <= n; i++) {
            struct pmiwire_str v;

            snprintf(key, sizeof(key), "k%d", i);
            assert_int_equal(
                pmiwire_exchange_get(w.nodes[0].x, -1, str(key), 0, PMIWIRE_GET_LOCAL, 0, &v),
                i < n ? 0 : PMIWIRE_ENOENT);
        }
        assert_int_equal(w.nodes[0].n_failed, 0);
        w_fini(&w);
    }
}

enum { WEAK = 1, LONG = 50000 };

/* The rank of node WEAK puts SPARSE pairs until the node's memory is full. */
static void fill_weak(struct world *w, char letter)
{
    static char text[1000];
    uint32_t n = 0;
    char key[16];

    memset(text, 't', sizeof(text));
    for (size_t len = sizeof(text); len >= 40; len /= 5)
        do
            snprintf(key, sizeof(key), "%c%u", letter, n++);
        while (pmiwire_exchange_put(w->nodes[WEAK].x, WEAK, str(key),
                                    (struct pmiwire_str){text, len}, PMIWIRE_HINT_SPARSE) == 0);
}

/* Four ranks, one a node; node WEAK has less memory, and that is full. */
static void start_full(struct world *w, uint32_t design)
{
    struct pmiwire_exchange_opts o = {.design = design, .arity = 2};

    w_init(w, 4, 4, BLOCK, 1);
    for (uint32_t i = 0; i < 4; i++) {
        struct pmiwire_exchange_opts own = o;

        own.max_bytes = i == WEAK ? 40000 : 0;
        assert_int_equal(w_create(w, i, &own), 0);
    }
    fill_weak(w, 'k');
    w_run(w);
}

/* A value that a full node has asked for ends the node's Gets with -ENOMEM. The node passes it on,
 * and nothing else ends. */
static void an_answer_beyond_the_limit(void **state)
{
    static const char value[] = "123456789012345678901234567890123456789012345678901234567890";

    for (uint32_t design = 0; design < 3; design++) {
        uint64_t own[2], other[2];
        char key[16] = "r";
        struct world w;

        start_full(&w, design);
        while (design == PMIWIRE_DESIGN_DKVS &&
               pmiwire__hash(w.nodes[0].x->owner_key, str(key)) % 4 != 0)
            key[0]++;
        w_put(&w, 0, key, value, PMIWIRE_HINT_SPARSE);
        w_run(&w);
        for (uint32_t i = 0; i < 2; i++) {
            own[i] = w_get(&w, WEAK, key, 0, i ? PMIWIRE_GET_WAIT : PMIWIRE_GET_REMOTE);
            other[i] = w_get(&w, 3, key, 0, i ? PMIWIRE_GET_WAIT : PMIWIRE_GET_REMOTE);
            assert_true(w.gets[own[i]].pending);
        }
        w_run_but(&w, 0, WEAK); /* in a TREE node 3 asks node WEAK */
        w_run(&w);
        for (uint32_t i = 0; i < 2; i++) {
            assert_true(w.gets[own[i]].ended);
            assert_int_equal(w.gets[own[i]].rc, -ENOMEM);
            w_expect(&w, other[i], value);
        }
        w_fence(&w);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(w.nodes[i].n_failed, 0);
            assert_int_equal(w.nodes[i].n_done[PMIWIRE_COLL_FENCE], 1);
        }
        assert_true(w_stats(&w, WEAK).peak_bytes <= 40000);
        w_fini(&w);
    }
}

/* An answer for which a full node has no memory ends the Gets that it is new enough for. The node
 * asks again for the others. */
static void an_old_answer_beyond_the_limit(void **state)
{
    static const char value[] = "123456789012345678901234567890123456789012345678901234567890";
    static const uint32_t designs[] = {PMIWIRE_DESIGN_DKVS, PMIWIRE_DESIGN_DIRECT};

    for (uint32_t d = 0; d < 2; d++) {
        uint64_t before, after;
        char key[16] = "r";
        struct world w;

        start_full(&w, designs[d]);
        while (designs[d] == PMIWIRE_DESIGN_DKVS &&
               pmiwire__hash(w.nodes[0].x->owner_key, str(key)) % 4 != 2)
            key[0]++;
        w_put(&w, 2, key, value, PMIWIRE_HINT_SPARSE);
        w_run(&w);
        before = w_get(&w, WEAK, key, 2, PMIWIRE_GET_REMOTE);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(pmiwire_exchange_fence(w.nodes[i].x, PMIWIRE_RANK_ALL), 0);
        assert_int_equal(w_deliver(&w, WEAK, 2), 0);
        w_run_but(&w, 2, WEAK); /* the Fence overtakes the answer */
        assert_int_equal(w.nodes[WEAK].n_done[PMIWIRE_COLL_FENCE], 1);
        after = w_get(&w, WEAK, key, 2, PMIWIRE_GET_REMOTE);
        fill_weak(&w, 'l'); /* the Fence has freed some */
        assert_int_equal(w_deliver(&w, 2, WEAK), 0);
        assert_int_equal(w.gets[before].rc, -ENOMEM);
        assert_true(w.gets[after].pending);
        w_run(&w);
        assert_true(w.gets[after].ended);
        assert_int_equal(w.gets[after].rc, -ENOMEM);
        w_fini(&w);
    }
}

/* A full node takes its neighbours' values of a Ring. */
static void a_ring_beyond_the_limit(void **state)
{
    static char text[LONG];
    struct world w;

    memset(text, 't', sizeof(text));
    start_full(&w, 0);
    for (uint32_t r = 0; r < 4; r++) {
        const struct pmiwire_str value = {text, r == WEAK ? 1 : sizeof(text)};

        assert_int_equal(pmiwire_exchange_ring(w.nodes[r].x, (int32_t)r, value, value), 0);
    }
    w_run(&w);
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal(w.nodes[r].n_failed, 0);
        assert_int_equal(w.rings[r].n, 1);
        assert_int_equal(w.rings[r].rc, 0);
        assert_int_equal(w.rings[r].place, r);
    }
    w_fini(&w);
}

/* Keys of one form spread over the slots: at the allowed load most are at their first one. */
static void keys_spread(void **state)
{
    struct pmiwire_exchange_opts o = {.design = PMIWIRE_DESIGN_DKVS};
    const struct pmiwire__slots *s;
    uint32_t n_first = 0;
    struct world w;

    w_init(&w, 1, 1, BLOCK, 1);
    w_start(&w, &o);
    for (uint32_t i = 0; i < 1000; i++) {
        char key[16];

        snprintf(key, sizeof(key), "key%u", i);
        w_put(&w, 0, key, "v", PMIWIRE_HINT_SPARSE);
    }
    s = &w.nodes[0].x->store.slots;
    for (size_t i = 0; i < s->n; i++)
        n_first += s->at[i].item && (s->at[i].hash & (s->n - 1)) == i;
    assert_true(n_first > 500);
    w_fini(&w);
}

/* A key put repeatedly, longer and shorter, does not grow the store. */
static void updates_do_not_pile_up(void **state)
{
    struct pmiwire_exchange_opts o = {.max_bytes = 210000};
    static char text[2000];
    struct world w;

    memset(text, 't', sizeof(text));
    w_init(&w, 1, 1, BLOCK, 1);
    w_start(&w, &o);
    for (int i = 0; i < 20000; i++) {
        struct pmiwire_str value = {text, w_random(&w, sizeof(text))}, v;
        char key[16];

        snprintf(key, sizeof(key), "k%u", w_random(&w, 20));
        assert_int_equal(
            pmiwire_exchange_put(w.nodes[0].x, 0, str(key), value, PMIWIRE_HINT_SPARSE), 0);
        assert_int_equal(
            pmiwire_exchange_get(w.nodes[0].x, -1, str(key), 0, PMIWIRE_GET_LOCAL, 0, &v), 0);
        assert_int_equal(v.len, value.len);
    }
    assert_int_equal(w_stats(&w, 0).n_keys, 20);
    w_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_out_of_order),
        cmocka_unit_test(replayed_frames),
        cmocka_unit_test(made_up_frames),
        cmocka_unit_test(answers_nobody_asked_for),
        cmocka_unit_test(a_limit_that_lies),
        cmocka_unit_test(an_allgather_that_lies),
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(a_limit_on_memory),
        cmocka_unit_test(an_answer_beyond_the_limit),
        cmocka_unit_test(an_old_answer_beyond_the_limit),
        cmocka_unit_test(a_ring_beyond_the_limit),
        cmocka_unit_test(keys_spread),
        cmocka_unit_test(updates_do_not_pile_up),
        cmocka_unit_test(padded_records),
        cmocka_unit_test(a_block_cut_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
