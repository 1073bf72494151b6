/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the exchange share.
 *
 *   exchange.c  life cycle, incoming frames, time
 *   putget.c    Put and Get             fence.c   Fence and Allgather, deliver.c  their end
 *   ring.c      Ring                    rank_gone.c  ranks that are gone, Gets that need them
 *   limits.c    collectives that can no longer complete because a rank is gone
 *   keys.c      keys and waiters        runs.c    pairs as a Fence carries them
 *   report.c    results and failure     frame.c   the layout of records, blocks and frames
 *   tree.c      the tree of nodes
 *
 * Order of work. A call changes the state and sends. Results are queued, and reported through
 * ops->got(), done(), ringed() and failed() when the outermost call ends and the state is
 * consistent. So a callback may call anything; results of that call are reported in turn. Memory
 * that a step needs is reserved before its first change.
 */
#ifndef PMIWIRE_EXCHANGE_INTERNAL_H
#define PMIWIRE_EXCHANGE_INTERNAL_H

#include <stdbool.h>
#include <string.h>

#include <pmiwire/exchange.h>

#include "../base/base_internal.h"

#define PMIWIRE__FRAME_MAGIC    0x34584650u /* "PFX4" on a little-endian machine */
#define PMIWIRE__NONE           UINT32_MAX  /* no index */
#define PMIWIRE__DENSE          UINT32_MAX  /* home of keys that Fences bring */
#define PMIWIRE__MAX_HOPS       32u /* cap of the nodes in one request: the depth of any tree */
#define PMIWIRE__SEGMENT_HEADER 10u /* cap of its length */

/* Flags of frames. */
#define PMIWIRE__FRAME_WAIT  1u  /* GET, ANSWER: of a Get that waits */
#define PMIWIRE__FRAME_FOUND 2u  /* ANSWER: there is a value; GONE: the rank is gone */
#define PMIWIRE__FRAME_LAST  4u  /* COLL: the last from this neighbour for this collective */
#define PMIWIRE__FRAME_RIGHT 8u  /* RING: goes to the node after, else to the one before */
#define PMIWIRE__FRAME_ACK   16u /* PUT: to be acknowledged */
#define PMIWIRE__FRAME_FRESH 32u /* GET: the answer to an earlier request is not sufficient */

/* ---- records and frames ---- */

struct pmiwire__record {
    struct pmiwire_str key, value;
    size_t bytes; /* with its word and padding */
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
    size_t whole;   /* with what is in front of them */
    const char *runs;
};

/* n pairs whose keys are of shared + rest bytes. */
struct pmiwire__run {
    uint32_t n, shared, rest, value;
    const char *begin; /* of each key: shared bytes */
    const char *pairs; /* for each: rest of its key, value */
};

/* ---- the store ---- */

enum { /* flags of an entry */
       PMIWIRE__KEY_USED = 1,
       PMIWIRE__KEY_VALUE = 2,
       PMIWIRE__KEY_ASKED = 4,       /* a GET_REMOTE request is in flight */
       PMIWIRE__KEY_ASKED_WAIT = 8,  /* a GET_WAIT request is */
       PMIWIRE__KEY_COPY = 16,       /* on the list of copies, dropped at a Fence */
       PMIWIRE__KEY_ASKED_FRESH = 32 /* the request in flight has ended the GET_WAIT request */
};

struct pmiwire__key {
    uint32_t hash;
    uint32_t home;  /* or PMIWIRE__DENSE */
    uint32_t stamp; /* Fences at which the value was good; of a DENSE key not fenced yet: the Fence
                       that will take it */
    uint32_t rec;   /* record, in 4 bytes from the arena's start */
    uint32_t room;  /* bytes that it may grow to there */
    uint32_t head, tail; /* waiters */
    uint32_t prev, next; /* on the list of entries with waiters */
    uint32_t next_copy;  /* on the list of copies, or of free entries */
    uint32_t pins;       /* waiters whose results, its value, are to be reported */
    uint16_t flags;
};

struct pmiwire__key_slot {
    uint32_t hash, entry; /* entry + 1; 0: empty */
};

struct pmiwire__waiter {
    uint64_t token; /* or a node */
    uint64_t since; /* the first tick that has seen it; 0: none has */
    uint32_t seq, next, entry;
    uint32_t rank;  /* the waiting rank, PMIWIRE__NONE: unknown */
    uint32_t needs; /* a rank that may put the key, by what is known here; PMIWIRE__NONE: none */
    uint32_t lost, why; /* then: the rank that ended the Get, PMIWIRE__NONE: none has */
    int32_t rc;
    bool remote, wait;
    bool named; /* only `needs` may put it */
    bool fresh; /* no rank is left to put the key: ask the home once more */
    bool stale; /* the request in flight was sent too early for that */
};

struct pmiwire__keys {
    struct pmiwire__key *entries;
    struct pmiwire__key_slot *slots;
    struct pmiwire__waiter *waiters;
    uint32_t n_entries, cap_entries, free_entry;
    uint32_t n_slots; /* 0 or a power of two */
    uint32_t n_keys;
    uint32_t n_waiters, cap_waiters, free_waiter, n_waiting;
    uint32_t waiting;            /* list of entries with waiters */
    uint32_t copies;             /* list */
    uint32_t due_head, due_tail; /* waiters whose results are to be reported */
    struct pmiwire__buf arena;
    size_t garbage;
    uint64_t key[2];
};

/* ---- collectives ---- */

/* Segments as they came in one frame; or one segment of this node's own. */
struct pmiwire__chunk {
    struct pmiwire__chunk *next;
    uint32_t link; /* PMIWIRE__NONE: this node's */
    uint32_t bytes;
    uint32_t n_left; /* segments to be delivered */
    char data[];
};

struct pmiwire__cursor {
    struct pmiwire__chunk *chunk; /* NULL: before the first */
    size_t segment;               /* bytes behind which the next one begins */
};

/* The data of one collective. */
struct pmiwire__coll_data {
    struct pmiwire__chunk *head, *tail;
    size_t bytes;
    uint64_t last; /* links that have sent LAST */
};

struct pmiwire__coll {
    uint32_t kind;
    uint32_t number;   /* of the one in progress */
    uint32_t reported; /* to ops->done() */
    uint32_t n_in;
    bool own_in;                       /* this node's part is in data[] */
    bool stopped;                      /* report PMIWIRE_EGONE to those who were in it */
    unsigned char *in;                 /* a bit for each local rank */
    uint64_t sent;                     /* links that LAST was sent to */
    struct pmiwire__cursor *cursors;   /* by link: what has been sent; NULL: there are no links */
    struct pmiwire__coll_data data[2]; /* by parity of the number: dissemination may be one ahead */
    struct pmiwire__buf own; /* records for the next segment of this node, at most one's */
};

/* ---- ring ---- */

struct pmiwire__ring_values {
    size_t at;
    uint32_t left, right; /* bytes: left's first */
    bool in;
};

struct pmiwire__ring {
    struct pmiwire__ring *next;
    int rc; /* that it is reported with */
    uint32_t n_in;
    struct pmiwire__buf values;
    struct pmiwire__buf from[2];         /* the value of the node before, of the node after */
    struct pmiwire__ring_values given[]; /* by local rank */
};

struct pmiwire__ring_side {
    struct pmiwire__buf value[2]; /* by parity of the number */
    bool here[2];
};

/* ---- ranks that are gone ---- */

/* One of them, and how many collectives of each kind it has entered. As in a LIMIT frame. */
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
    /* By kind: the rank known to be gone that has entered the fewest, PMIWIRE__NONE: none is known.
     * Collectives that it has not entered cannot complete. */
    struct pmiwire__end ends[PMIWIRE_COLL_COUNT_];
    uint32_t unsaid; /* kinds whose limit this node has lowered, to be sent with the next tick */
    uint32_t vain_rank, vain_why; /* of the last Get that has ended because a rank is gone */

    unsigned depth;
    int err; /* why the exchange has failed */
    uint32_t err_node;
    bool err_reported;

    uint32_t seq; /* Fences, the count that copies are held to */
    uint32_t n_unacked;
    uint64_t owner_key[2];
    struct pmiwire__keys store;

    uint32_t n_links; /* of a collective */
    uint64_t all_links;
    uint64_t full;                 /* links that ops->send() has said enough of */
    struct pmiwire__coll colls[2]; /* Fence, Allgather */
    uint64_t n_pairs;              /* of the collective that is handed over */
    uint32_t longest;              /* value of the last Allgather */

    uint32_t ring_number;
    struct pmiwire__ring *ring;               /* in progress, NULL: no rank is in */
    struct pmiwire__ring *rings, **rings_end; /* to be reported */
    struct pmiwire__ring_side sides[2];       /* from the node before, from the node after */

    struct pmiwire_stats_exchange stats;
};

/* ---- report.c ---- */

void pmiwire__exchange_enter(struct pmiwire_exchange *x);
void pmiwire__exchange_leave(struct pmiwire_exchange *x);
/* The exchange ends; all nodes are notified but `from`. */
void pmiwire__exchange_fail(struct pmiwire_exchange *x, int rc, uint32_t node, uint32_t from);

/* ---- tree.c ---- */

static inline uint32_t pmiwire__tree_parent(const struct pmiwire_exchange *x, uint32_t node)
{
    return (node - 1) / x->arity;
}
/* The i-th neighbour: the parent where there is one, then the children. False: there is none. */
bool pmiwire__tree_neighbour(const struct pmiwire_exchange *x, uint32_t i, uint32_t *node);
/* Whether `node` is in the subtree of `top`. */
bool pmiwire__tree_under(const struct pmiwire_exchange *x, uint32_t node, uint32_t top);
/* The neighbour that is on the way to another node. */
uint32_t pmiwire__tree_hop(const struct pmiwire_exchange *x, uint32_t node);

/* ---- frame.c ---- */

/* Read a frame's header. 0, PMIWIRE_EPROTO or PMIWIRE_EVERSION. */
int pmiwire__frame_read(const void *data, size_t n, struct pmiwire__frame *f);
/* Write a record; `to` has its bytes. */
void pmiwire__record_write(char *to, struct pmiwire_str key, struct pmiwire_str value);
/* Read one of at most n bytes. 0, or PMIWIRE_EPROTO. */
int pmiwire__record_read(const char *p, size_t n, struct pmiwire__record *rec);
/* A frame of a header and n_iov - 1 pieces; iov[0] is the header's. */
void pmiwire__send(struct pmiwire_exchange *x, uint32_t node, struct pmiwire__frame *f,
                   struct iovec *iov, uint32_t n_iov);
/* A frame with one piece behind its header. */
void pmiwire__send_bytes(struct pmiwire_exchange *x, uint32_t node, struct pmiwire__frame *f,
                         const void *p, size_t n);
/* A frame with one pair as a record. */
void pmiwire__send_pair(struct pmiwire_exchange *x, uint32_t node, struct pmiwire__frame *f,
                        struct pmiwire_str key, struct pmiwire_str value);
/* The header of a block of n_pairs; `bytes` includes the header. */
void pmiwire__block_header(char *to, uint32_t n_pairs, size_t bytes);

/* ---- runs.c ---- */

/* Most bytes that a segment's pairs take as records. */
static inline size_t pmiwire__segment_most(const struct pmiwire_exchange *x)
{
    return x->max_frame - sizeof(struct pmiwire__frame) - 40;
}
/* Read one of at most n bytes. 0, or PMIWIRE_EPROTO; its runs have not been looked at. */
int pmiwire__segment_read(const char *p, size_t n, struct pmiwire__segment *s);
/* Bytes that its pairs take as records. 0, or PMIWIRE_EPROTO: a bad run. */
int pmiwire__segment_records(const struct pmiwire__segment *s, uint64_t *bytes);
/* Write them. */
void pmiwire__segment_to_records(const struct pmiwire__segment *s, char *to);
/* Read a run, and go behind it. 0, or PMIWIRE_EPROTO. */
int pmiwire__run_read(const char **p, const char *end, struct pmiwire__run *run);
/* The key of its i-th pair: shared + rest bytes. */
void pmiwire__run_key(const struct pmiwire__run *run, uint32_t i, char *key);
/* Writes a segment of the first of this node's records, *took bytes of them; `to` NULL: counts.
 * Returns the segment's bytes. */
size_t pmiwire__segment_write(const struct pmiwire_exchange *x, const struct pmiwire__buf *records,
                              char *to, size_t *took);

/* ---- keys.c ---- */

void pmiwire__keys_init(struct pmiwire_exchange *x);
void pmiwire__keys_fini(struct pmiwire_exchange *x);
/* Room for n_entries new entries and record_bytes of new records: adding them cannot fail
 * afterwards. */
int pmiwire__keys_reserve(struct pmiwire_exchange *x, uint32_t n_entries, size_t record_bytes);
int pmiwire__waiters_reserve(struct pmiwire_exchange *x, uint32_t n);
/* Index or PMIWIRE__NONE. */
uint32_t pmiwire__key_find(const struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key);
/* Find or make; one entry and a record without value are reserved. */
uint32_t pmiwire__key_make(struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key);
/* Give it a value; its record is reserved. */
void pmiwire__key_set(struct pmiwire_exchange *x, uint32_t e, struct pmiwire_str value,
                      uint32_t stamp);
void pmiwire__key_remove(struct pmiwire_exchange *x, uint32_t e);
/* Remove it if it holds nothing and nothing refers to it. */
void pmiwire__key_tidy(struct pmiwire_exchange *x, uint32_t e);
/* It is a copy: a Fence drops it. */
void pmiwire__key_is_copy(struct pmiwire_exchange *x, uint32_t e);
void pmiwire__keys_drop_copies(struct pmiwire_exchange *x);
/* Queue a waiter, reserved, at an entry. */
void pmiwire__waiter_add(struct pmiwire_exchange *x, uint32_t e,
                         const struct pmiwire__waiter *waiter);
/* Take the waiters off an entry; the first of their list. */
uint32_t pmiwire__waiters_take(struct pmiwire_exchange *x, uint32_t e);
/* Put one back at the end. */
void pmiwire__waiter_keep(struct pmiwire_exchange *x, uint32_t e, uint32_t w);
void pmiwire__waiter_free(struct pmiwire_exchange *x, uint32_t w);
/* A local waiter's result is to be reported. */
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
/* A Fence has brought this pair, and there is no ops->find. 0 or -ENOMEM. */
int pmiwire__fenced_keep(struct pmiwire_exchange *x, const struct pmiwire__record *rec,
                         uint32_t number);
/* Send requests for those who wait at an entry, where none is in flight. */
void pmiwire__ask_again(struct pmiwire_exchange *x, uint32_t e);
/* Gets at an entry have ended without a value: if none waits any more, notify the home. */
void pmiwire__ask_no_more(struct pmiwire_exchange *x, uint32_t e);
/* A Fence is complete: answer those who waited for what it has brought. 0 or -ENOMEM. */
int pmiwire__after_fence(struct pmiwire_exchange *x);

/* ---- deliver.c ---- */

/* Hand over all pairs of these chunks and free them; on failure they may be left. 0 or an error. */
int pmiwire__deliver(struct pmiwire_exchange *x, uint32_t kind, uint32_t number,
                     struct pmiwire__chunk **chunks);

/* ---- fence.c ---- */

int pmiwire__colls_init(struct pmiwire_exchange *x);
void pmiwire__colls_fini(struct pmiwire_exchange *x);
int pmiwire__on_coll(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                     size_t n);
/* All Puts are acknowledged: the Fence may continue. */
void pmiwire__puts_acked(struct pmiwire_exchange *x);
/* Room for a record of this node's part in the collective in progress, or in the next if this node
 * has entered that. 0 or -ENOMEM. */
int pmiwire__own_reserve(struct pmiwire_exchange *x, uint32_t kind, size_t bytes);
void pmiwire__own_add(struct pmiwire_exchange *x, uint32_t kind, struct pmiwire_str key,
                      struct pmiwire_str value);
void pmiwire__chunk_free(struct pmiwire_exchange *x, struct pmiwire__chunk *ch);
/* ops->send() has reported that the queue to this node is full. */
void pmiwire__link_full(struct pmiwire_exchange *x, uint32_t node);
/* The collective in progress cannot complete, nor any after it. */
void pmiwire__coll_stop(struct pmiwire_exchange *x, uint32_t kind);

/* ---- ring.c ---- */

int pmiwire__on_ring(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                     size_t n);
void pmiwire__ring_report(struct pmiwire_exchange *x);
/* It ends with this error for those who are in it. */
void pmiwire__ring_stop(struct pmiwire_exchange *x, int rc);
void pmiwire__rings_fini(struct pmiwire_exchange *x);

/* ---- rank_gone.c ---- */

/* A local rank's place among the local ones, PMIWIRE__NONE. */
uint32_t pmiwire__local_rank(const struct pmiwire_exchange *x, int32_t rank);
/* The first rank that may put the key of a Get of `rank` (PMIWIRE__NONE: of no rank of the job),
 * which has named `src` (PMIWIRE__NONE: none). PMIWIRE__NONE: all of them are gone. */
uint32_t pmiwire__rank_needed(const struct pmiwire_exchange *x, uint32_t rank, uint32_t src);
/* Why a local rank is gone, PMIWIRE_GONE_*; 0: it is not, or not local. */
uint32_t pmiwire__why_gone(const struct pmiwire_exchange *x, uint32_t rank);
int pmiwire__on_gone(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                     size_t n);
/* Ask whether the ranks that Gets have waited for since an earlier tick are gone. */
void pmiwire__gone_ask(struct pmiwire_exchange *x);

/* ---- limits.c ---- */

void pmiwire__limits_init(struct pmiwire_exchange *x);
/* Whether the present or next collective of this kind cannot complete. */
bool pmiwire__is_stopped(const struct pmiwire_exchange *x, uint32_t kind);
/* A local rank is gone: stop what it was in, and notify the other nodes. */
void pmiwire__limits_rank_gone(struct pmiwire_exchange *x, uint32_t rank, uint32_t why);
/* Send the limits that have not been sent. */
void pmiwire__limits_say(struct pmiwire_exchange *x);
int pmiwire__on_limit(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                      size_t n);

/* With ops->find, a single node need not keep anything of a Put. */
static inline bool pmiwire__keeps_nothing(const struct pmiwire_exchange *x)
{
    return x->n_nodes == 1 && x->ops.find;
}

#endif /* PMIWIRE_EXCHANGE_INTERNAL_H */
