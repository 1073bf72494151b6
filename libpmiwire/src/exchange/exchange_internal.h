/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types and functions that the files of the exchange share.
 *
 *   exchange.c  life cycle, incoming frames, time
 *   putget.c    Put and Get             fence.c   Fence and Allgather, deliver.c  their end
 *   ring.c      Ring                    rank_gone.c  ranks that are gone, Gets that need them
 *   limits.c    collectives that can no longer complete because a rank is gone
 *   keys.c      keys and waiters        pack.c    packs and unpacks the pairs of a Fence
 *   report.c    results and failure     frame.c   the layout of records, blocks and frames
 *   tree.c      the tree of nodes
 *
 * Order of work. A call changes the state and sends. Results are queued, and reported through
 * ops->got(), done(), ringed() and failed() when the outermost call ends and the state is
 * consistent. So a callback may call any function of the exchange; the results of that call follow
 * in turn. Each step reserves its memory before its first change.
 */
#ifndef PMIWIRE_EXCHANGE_INTERNAL_H
#define PMIWIRE_EXCHANGE_INTERNAL_H

#include <stdbool.h>
#include <string.h>

#include <pmiwire/exchange.h>

#include "../base/base_internal.h"

#define PMIWIRE__FRAME_MAGIC    0x34584650u /* "PFX4" on a little-endian machine */
#define PMIWIRE__NONE           UINT32_MAX  /* no index */
#define PMIWIRE__DENSE          UINT32_MAX  /* in place of a home: a Fence brings the key */
#define PMIWIRE__MAX_HOPS       32u /* most nodes in one request: at least the depth of any tree */
#define PMIWIRE__SEGMENT_HEADER 10u /* most bytes of it */

/* Flags of frames. */
#define PMIWIRE__FRAME_WAIT  1u  /* GET, ANSWER: of a Get that waits */
#define PMIWIRE__FRAME_FOUND 2u  /* ANSWER: there is a value; GONE: the rank is gone */
#define PMIWIRE__FRAME_LAST  4u  /* COLL: this neighbour's last frame for this collective */
#define PMIWIRE__FRAME_RIGHT 8u  /* RING: for the next node, else for the previous one */
#define PMIWIRE__FRAME_ACK   16u /* PUT: the receiver acknowledges it */
#define PMIWIRE__FRAME_FRESH 32u /* GET: the answer to an earlier request does not count */

/* ---- records and frames ---- */

struct pmiwire__record {
    struct pmiwire_str key, value;
    size_t bytes; /* word and padding included */
};

static inline size_t pmiwire__record_bytes(size_t key, size_t value)
{
    return (4 + key + value + 3) & ~(size_t)3;
}

struct pmiwire__frame {
    uint32_t magic;
    uint8_t type, flags;
    uint16_t arg;
    uint32_t job, from, seq, bytes;
};
_Static_assert(sizeof(struct pmiwire__frame) == PMIWIRE_EXCHANGE_HEADER_BYTES, "layout");

/* A segment that has been read. */
struct pmiwire__segment {
    uint32_t node;
    uint32_t bytes; /* of its runs */
    size_t whole;   /* their header included */
    const char *runs;
};

/* n pairs whose keys have shared + rest bytes. */
struct pmiwire__run {
    uint32_t n, shared, rest, value;
    const char *begin; /* the first `shared` bytes of each key */
    const char *pairs; /* for each pair: the rest of its key, its value */
};

/* ---- the store ---- */

enum { /* flags of an entry */
       PMIWIRE__KEY_USED = 1,
       PMIWIRE__KEY_VALUE = 2,
       PMIWIRE__KEY_ASKED = 4,       /* GET_REMOTE requests are in flight */
       PMIWIRE__KEY_ASKED_WAIT = 8,  /* a GET_WAIT request is in flight */
       PMIWIRE__KEY_COPY = 16,       /* on the list of copies, dropped at a Fence */
       PMIWIRE__KEY_ASKED_FRESH = 32 /* one of them replaces the GET_WAIT request */
};

struct pmiwire__key {
    uint32_t hash;
    uint32_t home; /* or PMIWIRE__DENSE */
    /* The number of Fences at which the value was valid; for a DENSE key before its Fence: that
     * Fence. */
    uint32_t stamp;
    uint32_t rec;        /* record, in 4 bytes from the arena's start */
    uint32_t room;       /* bytes that the record may grow to in place */
    uint32_t head, tail; /* waiters */
    uint32_t prev, next; /* on the list of entries with waiters */
    uint32_t next_copy;  /* on the list of copies, or of free entries */
    uint32_t pins;       /* waiters whose pending results are this entry's value */
    uint32_t n_asked;    /* requests in flight without WAIT; not 0 while KEY_ASKED is set */
    uint16_t flags;
};

struct pmiwire__waiter {
    uint64_t token; /* or a node */
    uint64_t since; /* time of the first tick that saw it; 0: no tick has */
    uint32_t seq, next, entry;
    uint32_t rank; /* the waiting rank, PMIWIRE__NONE: unknown */
    /* A rank that may still put the key, as far as this node knows; PMIWIRE__NONE: none. */
    uint32_t needs;
    uint32_t lost, why; /* without one: the rank that ended the Get; PMIWIRE__NONE: not ended */
    int32_t rc;
    bool remote, wait;
    bool named; /* only `needs` may put it */
    bool fresh; /* no rank is left to put the key: ask the home a last time */
    bool stale; /* requests in flight were sent before that */
};

struct pmiwire__keys {
    struct pmiwire__key *entries;
    struct pmiwire__slots slots; /* of an entry's index and 1 */
    struct pmiwire__waiter *waiters;
    uint32_t n_entries, cap_entries, free_entry;
    uint32_t n_keys;
    uint32_t n_waiters, cap_waiters, free_waiter, n_waiting;
    uint32_t waiting;            /* list of entries with waiters */
    uint32_t copies;             /* list */
    uint32_t due_head, due_tail; /* waiters with results to report */
    struct pmiwire__buf arena;
    size_t garbage;
    uint64_t key[2];
};

/* ---- collectives ---- */

/* The segments of one received frame, or one segment of this node's own. */
struct pmiwire__chunk {
    struct pmiwire__chunk *next;
    uint32_t link; /* it came by; PMIWIRE__NONE: this node's own */
    uint32_t bytes;
    uint32_t n_left; /* segments to be delivered */
    char data[];
};

struct pmiwire__cursor {
    struct pmiwire__chunk *chunk; /* NULL: before the first */
    size_t segment;               /* offset of the next segment */
};

/* The data of one collective. */
struct pmiwire__coll_data {
    struct pmiwire__chunk *head, *tail;
    size_t bytes;
    uint64_t last; /* links that have sent LAST */
};

struct pmiwire__coll {
    uint32_t kind;
    uint32_t number;   /* of the collective in progress */
    uint32_t reported; /* to ops->done() */
    uint32_t n_in;
    bool own_in;                       /* this node's part is in data[] */
    bool stopped;                      /* report PMIWIRE_EGONE to the ranks in it */
    unsigned char *in;                 /* a bit for each local rank */
    uint64_t sent;                     /* links that LAST was sent to */
    struct pmiwire__cursor *cursors;   /* by link: position of the data sent; NULL: no links */
    struct pmiwire__coll_data data[2]; /* by parity of the number: dissemination may be one ahead */
    struct pmiwire__buf own;           /* records of this node's next segment */
};

/* ---- ring ---- */

struct pmiwire__ring_values {
    size_t at;
    uint32_t left, right; /* bytes: left's first */
    bool in;
};

struct pmiwire__ring {
    struct pmiwire__ring *next;
    int rc; /* to report it with */
    uint32_t n_in;
    struct pmiwire__buf values;
    struct pmiwire__buf from[2];         /* values of the previous and of the next node */
    struct pmiwire__ring_values given[]; /* by local rank */
};

struct pmiwire__ring_side {
    struct pmiwire__buf value[2]; /* by parity of the number */
    bool here[2];
};

/* ---- ranks that are gone ---- */

/* A rank that is gone, and how many collectives of each kind it has entered. As in a LIMIT
 * frame. */
struct pmiwire__end {
    uint32_t rank, why;
    uint32_t entered[PMIWIRE_COLL_COUNT_];
};

struct pmiwire_exchange {
    struct pmiwire__mem mem;
    struct pmiwire_exchange_ops ops;
    void *ctx;
    uint32_t job, me, n_nodes, n_ranks, n_local, n_below;
    uint32_t design, fence, arity, unhinted, flags, max_frame;
    uint64_t wait_ns, now_ns;
    uint32_t *ranks;
    unsigned char *gone; /* for each local rank: 0, or PMIWIRE_GONE_* */
    /* By kind: of the ranks known to be gone, the one that has entered the fewest; PMIWIRE__NONE:
     * none is known. Collectives that it has not entered cannot complete. */
    struct pmiwire__end ends[PMIWIRE_COLL_COUNT_];
    uint32_t unsent_limits; /* kinds whose limit this node has lowered; the next tick sends them */
    uint32_t miss_rank, miss_why; /* of the last Get that has ended because a rank is gone */

    unsigned depth;
    int err; /* why the exchange has failed */
    uint32_t err_node;
    bool err_reported;

    uint32_t seq; /* number of Fences, against which copies are checked */
    uint32_t n_unacked;
    uint64_t owner_key[2];
    struct pmiwire__keys store;

    uint32_t n_links; /* of a collective */
    uint64_t all_links;
    uint64_t full;                 /* links that ops->send() has reported full */
    struct pmiwire__coll colls[2]; /* Fence, Allgather */
    uint64_t n_pairs;              /* of the collective being handed over */
    uint32_t longest;              /* value of the last Allgather */

    uint32_t ring_number;
    struct pmiwire__ring *ring;               /* in progress, NULL: no rank is in */
    struct pmiwire__ring *rings, **rings_end; /* with results to report */
    struct pmiwire__ring_side sides[2];       /* from the previous, from the next node */

    struct pmiwire_stats_exchange stats;
};

/* ---- report.c ---- */

void pmiwire__exchange_enter(struct pmiwire_exchange *x);
void pmiwire__exchange_leave(struct pmiwire_exchange *x);
/* Ends the exchange, and notifies all nodes except `from`. */
void pmiwire__exchange_fail(struct pmiwire_exchange *x, int rc, uint32_t node, uint32_t from);

/* ---- tree.c ---- */

static inline uint32_t pmiwire__tree_parent(const struct pmiwire_exchange *x, uint32_t node)
{
    return (node - 1) / x->arity;
}
/* Gets the i-th neighbour: the parent if the node has one, then the children. False: no such
 * neighbour. */
bool pmiwire__tree_neighbour(const struct pmiwire_exchange *x, uint32_t i, uint32_t *node);
/* Returns whether `node` is in the subtree of `top`. */
bool pmiwire__tree_under(const struct pmiwire_exchange *x, uint32_t node, uint32_t top);
/* Returns the neighbour on the way to another node. */
uint32_t pmiwire__tree_hop(const struct pmiwire_exchange *x, uint32_t node);

/* ---- frame.c ---- */

/* Read a frame's header. 0, PMIWIRE_EPROTO or PMIWIRE_EVERSION. */
int pmiwire__frame_read(const void *data, size_t n, struct pmiwire__frame *f);
/* Write a record; `to` has its bytes. */
void pmiwire__record_write(char *to, struct pmiwire_str key, struct pmiwire_str value);
/* The record at p, which has been read or written before: unchecked. */
struct pmiwire__record pmiwire__record_at(const char *p);
/* Reads a record of at most n bytes. Returns 0 or PMIWIRE_EPROTO. */
int pmiwire__record_read(const char *p, size_t n, struct pmiwire__record *rec);
/* Sends a frame of a header and n_iov - 1 pieces; iov[0] is for the header. */
void pmiwire__send(struct pmiwire_exchange *x, uint32_t node, struct pmiwire__frame *f,
                   struct iovec *iov, uint32_t n_iov);
/* Sends a frame with one piece behind its header. */
void pmiwire__send_bytes(struct pmiwire_exchange *x, uint32_t node, struct pmiwire__frame *f,
                         const void *p, size_t n);
/* Sends a frame with one pair as a record. */
void pmiwire__send_pair(struct pmiwire_exchange *x, uint32_t node, struct pmiwire__frame *f,
                        struct pmiwire_str key, struct pmiwire_str value);
/* Writes the header of a block of n_pairs; `bytes` includes the header. */
void pmiwire__block_header(char *to, uint32_t n_pairs, size_t bytes);

/* ---- pack.c ---- */

/* Returns the most bytes of a segment's pairs as records. */
static inline size_t pmiwire__segment_most(const struct pmiwire_exchange *x)
{
    return x->max_frame - sizeof(struct pmiwire__frame) - 40;
}
/* Reads a segment's header, of at most n bytes. Returns 0 or PMIWIRE_EPROTO. Does not check its
 * runs. */
int pmiwire__segment_read(const char *p, size_t n, struct pmiwire__segment *s);
/* Counts the bytes of a segment's pairs as records. Returns 0, or PMIWIRE_EPROTO for a bad run. */
int pmiwire__segment_records(const struct pmiwire__segment *s, uint64_t *bytes);
/* Writes a segment's pairs as records. */
void pmiwire__segment_unpack(const struct pmiwire__segment *s, char *to);
/* Reads a run, and moves *p behind it. Returns 0 or PMIWIRE_EPROTO. */
int pmiwire__run_read(const char **p, const char *end, struct pmiwire__run *run);
/* Writes the key of a run's i-th pair: shared + rest bytes. */
void pmiwire__run_key(const struct pmiwire__run *run, uint32_t i, char *key);
/* Writes a segment of this node's first records, *took bytes of them; `to` NULL: only counts.
 * Returns the segment's bytes. */
size_t pmiwire__segment_pack(const struct pmiwire_exchange *x, const struct pmiwire__buf *records,
                             char *to, size_t *took);

/* ---- keys.c ---- */

void pmiwire__keys_init(struct pmiwire_exchange *x);
void pmiwire__keys_fini(struct pmiwire_exchange *x);
/* Reserves room for n_entries new entries and record_bytes of new records, so that adding them
 * cannot fail. */
int pmiwire__keys_reserve(struct pmiwire_exchange *x, uint32_t n_entries, size_t record_bytes);
int pmiwire__waiters_reserve(struct pmiwire_exchange *x, uint32_t n);
/* Returns the entry's index, or PMIWIRE__NONE. */
uint32_t pmiwire__key_find(const struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key);
/* Finds or makes an entry. The caller has reserved one entry and a record without value. */
uint32_t pmiwire__key_make(struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key);
/* Gives an entry a value; the caller has reserved the record. */
void pmiwire__key_set(struct pmiwire_exchange *x, uint32_t e, struct pmiwire_str value,
                      uint32_t stamp);
void pmiwire__key_remove(struct pmiwire_exchange *x, uint32_t e);
/* Removes an entry that has no value and to which nothing refers. */
void pmiwire__key_tidy(struct pmiwire_exchange *x, uint32_t e);
/* Marks an entry as a copy, which the next Fence drops. */
void pmiwire__key_mark_copy(struct pmiwire_exchange *x, uint32_t e);
void pmiwire__keys_drop_copies(struct pmiwire_exchange *x);
/* Queues a waiter at an entry; the caller has reserved it. */
void pmiwire__waiter_add(struct pmiwire_exchange *x, uint32_t e,
                         const struct pmiwire__waiter *waiter);
/* Takes all waiters from an entry. Returns the first of their list. */
uint32_t pmiwire__waiters_take(struct pmiwire_exchange *x, uint32_t e);
/* Puts a waiter back at the end. */
void pmiwire__waiter_keep(struct pmiwire_exchange *x, uint32_t e, uint32_t w);
void pmiwire__waiter_free(struct pmiwire_exchange *x, uint32_t w);
/* Queues a local waiter's result for report. */
void pmiwire__waiter_due(struct pmiwire_exchange *x, uint32_t w, int rc);

static inline struct pmiwire__key *pmiwire__key_at(const struct pmiwire_exchange *x, uint32_t e)
{
    return &x->store.entries[e];
}

static inline char *pmiwire__key_record(const struct pmiwire_exchange *x, uint32_t e)
{
    return x->store.arena.ptr + 4 * (size_t)x->store.entries[e].rec;
}

static inline struct pmiwire_str pmiwire__key_name(const struct pmiwire_exchange *x, uint32_t e)
{
    const char *r = pmiwire__key_record(x, e);
    uint32_t word;

    memcpy(&word, r, 4);
    return (struct pmiwire_str){r + 4, word >> 18 & PMIWIRE_EXCHANGE_MAX_KEY_BYTES};
}

static inline struct pmiwire_str pmiwire__key_value(const struct pmiwire_exchange *x, uint32_t e)
{
    const char *r = pmiwire__key_record(x, e);
    uint32_t word;

    memcpy(&word, r, 4);
    return (struct pmiwire_str){r + 4 + (word >> 18 & PMIWIRE_EXCHANGE_MAX_KEY_BYTES),
                                word & PMIWIRE_EXCHANGE_MAX_VALUE_BYTES};
}

/* ---- putget.c ---- */

int pmiwire__on_put(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                    size_t n);
int pmiwire__on_ack(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                    size_t n);
int pmiwire__on_get(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                    size_t n);
int pmiwire__on_answer(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                       size_t n);
/* Without ops->find: keeps a pair that a Fence has brought. Returns 0 or -ENOMEM. */
int pmiwire__fenced_keep(struct pmiwire_exchange *x, const struct pmiwire__record *rec,
                         uint32_t number);
/* Sends requests for the waiters of an entry unless they are in flight already. */
void pmiwire__requests_send(struct pmiwire_exchange *x, uint32_t e);
/* After Gets at an entry have ended without a value: notifies the home if no Get waits there
 * now. */
void pmiwire__request_withdraw(struct pmiwire_exchange *x, uint32_t e);
/* After a Fence: answers the Gets that waited for its pairs. Returns 0 or -ENOMEM. */
int pmiwire__after_fence(struct pmiwire_exchange *x);

/* ---- deliver.c ---- */

/* Hands over all pairs of these chunks and frees the chunks; on failure some may remain. Returns 0
 * or an error. */
int pmiwire__deliver(struct pmiwire_exchange *x, uint32_t kind, uint32_t number,
                     struct pmiwire__chunk **chunks);

/* ---- fence.c ---- */

int pmiwire__colls_init(struct pmiwire_exchange *x);
void pmiwire__colls_fini(struct pmiwire_exchange *x);
int pmiwire__on_coll(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                     size_t n);
/* All Puts are acknowledged: the Fence may continue. */
void pmiwire__puts_acked(struct pmiwire_exchange *x);
/* Reserves room for a record of this node's part in the collective in progress, or in the next one
 * if this node has already entered. Returns 0 or -ENOMEM. */
int pmiwire__own_reserve(struct pmiwire_exchange *x, uint32_t kind, size_t bytes);
void pmiwire__own_add(struct pmiwire_exchange *x, uint32_t kind, struct pmiwire_str key,
                      struct pmiwire_str value);
void pmiwire__chunk_free(struct pmiwire_exchange *x, struct pmiwire__chunk *ch);
/* ops->send() has reported that the queue to this node is full. */
void pmiwire__link_full(struct pmiwire_exchange *x, uint32_t node);
/* Stops the collective in progress, and all later ones: they cannot complete. */
void pmiwire__coll_stop(struct pmiwire_exchange *x, uint32_t kind);

/* ---- ring.c ---- */

int pmiwire__on_ring(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                     size_t n);
void pmiwire__ring_report(struct pmiwire_exchange *x);
/* Ends the Ring with this error for the ranks in it. */
void pmiwire__ring_stop(struct pmiwire_exchange *x, int rc);
void pmiwire__rings_fini(struct pmiwire_exchange *x);

/* ---- rank_gone.c ---- */

/* Returns a rank's index among the local ranks, or PMIWIRE__NONE. */
uint32_t pmiwire__local_rank(const struct pmiwire_exchange *x, int32_t rank);
/* Returns the first rank that may put the key of a Get. `rank` asks (PMIWIRE__NONE: no rank of the
 * job) and names the source `src` (PMIWIRE__NONE: no source). PMIWIRE__NONE: all such ranks are
 * gone. */
uint32_t pmiwire__rank_needed(const struct pmiwire_exchange *x, uint32_t rank, uint32_t src);
/* Why a local rank is gone, PMIWIRE_GONE_*; 0: it is not, or not local. */
uint32_t pmiwire__why_gone(const struct pmiwire_exchange *x, uint32_t rank);
int pmiwire__on_gone(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                     size_t n);
/* Asks whether ranks are gone for which Gets have waited since an earlier tick. */
void pmiwire__gone_ranks_ask(struct pmiwire_exchange *x);

/* ---- limits.c ---- */

void pmiwire__limits_init(struct pmiwire_exchange *x);
/* Returns whether the present or next collective of this kind cannot complete. */
bool pmiwire__is_stopped(const struct pmiwire_exchange *x, uint32_t kind);
/* After a local rank has gone: stops the collectives that need it, and notifies the other nodes. */
void pmiwire__limits_rank_gone(struct pmiwire_exchange *x, uint32_t rank, uint32_t why);
/* Sends the limits that are new. */
void pmiwire__limits_send(struct pmiwire_exchange *x);
int pmiwire__on_limit(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                      size_t n);

/* With ops->find, the exchange of a single node keeps nothing of a Put. */
static inline bool pmiwire__keeps_nothing(const struct pmiwire_exchange *x)
{
    return x->n_nodes == 1 && x->ops.find;
}

#endif /* PMIWIRE_EXCHANGE_INTERNAL_H */
