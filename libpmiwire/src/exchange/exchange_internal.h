/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the exchange share.
 *
 *   exchange.c        life cycle, memory, completions, failure, time
 *   exchange_tree.c   the shape of the tree
 *   exchange_frame.c  records, blocks, frames: writing, checking, who gets them
 *   exchange_pairs.c  what a Fence carries: segments of runs of pairs
 *   exchange_store.c  keys and who waits for them
 *   exchange_kvs.c    Put and Get
 *   exchange_coll.c   Fence and Allgather
 *   exchange_ring.c   Ring
 *   exchange_gone.c   the end of Gets whose key no rank is left to put
 *
 * Order of work. A call changes the state and sends; what ops->got(), done(), ringed() and failed()
 * are to be told is put aside, and told when the outermost call ends, at a point where the state is
 * whole. So a callback may call anything, and what that causes is told in turn. Memory that a step
 * needs is made sure of before its first change.
 */
#ifndef PMIWIRE_EXCHANGE_INTERNAL_H
#define PMIWIRE_EXCHANGE_INTERNAL_H

#include <stdbool.h>
#include <string.h>

#include <pmiwire/exchange.h>

#include "../server/server_internal.h"

#define PMIWIRE__FRAME_MAGIC    0x33584650u /* "PFX3" on a little-endian machine */
#define PMIWIRE__XNONE          UINT32_MAX  /* no index */
#define PMIWIRE__DENSE          UINT32_MAX  /* home of keys that Fences bring */
#define PMIWIRE__MAX_HOPS       32u   /* nodes that one request names: the depth of any tree */
#define PMIWIRE__SEGMENT_HEADER 10u   /* at most */
#define PMIWIRE__KEEP_BYTES     4096u /* an empty buffer longer than this is given back */

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

/* One that has been read. */
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

/* ---- memory ---- */

struct pmiwire__xbuf {
    char *ptr;
    size_t len, cap;
};

/* ---- the store ---- */

enum { /* flags of an entry */
       PMIWIRE__XE_USED = 1,
       PMIWIRE__XE_VALUE = 2,
       PMIWIRE__XE_ASKED = 4,      /* a GET_REMOTE request is under way */
       PMIWIRE__XE_ASKED_WAIT = 8, /* a GET_WAIT request is */
       PMIWIRE__XE_COPY = 16       /* on the list of copies, dropped at a Fence */
};

struct pmiwire__xentry {
    uint32_t hash;
    uint32_t home;  /* or PMIWIRE__DENSE */
    uint32_t stamp; /* Fences at which the value was good; of a DENSE key not fenced yet: the Fence
                       that will take it */
    uint32_t rec;   /* record, in 4 bytes from the arena's start */
    uint32_t room;  /* bytes that it may grow to there */
    uint32_t head, tail; /* waiters */
    uint32_t prev, next; /* on the list of entries with waiters */
    uint32_t next_copy;  /* on the list of copies, or of free entries */
    uint32_t pins;       /* waiters that are yet to be told its value */
    uint16_t flags;
};

struct pmiwire__xslot {
    uint32_t hash, entry; /* entry + 1; 0: empty */
};

struct pmiwire__xwaiter {
    uint64_t token; /* or a node */
    uint64_t since; /* the first tick that has seen it, 0: none has */
    uint32_t seq, next, entry;
    uint32_t rank;  /* that waits, PMIWIRE__XNONE: unknown */
    uint32_t needs; /* a rank that may put the key, as far as is known here; PMIWIRE__XNONE: none */
    int32_t rc;
    bool remote, wait;
    bool named; /* no other rank but `needs` may put it */
    bool fresh; /* nobody is left to put the key: the home must be asked once more */
    bool stale; /* the request in flight was sent too early for that */
};

struct pmiwire__xstore {
    struct pmiwire__xentry *entries;
    struct pmiwire__xslot *slots;
    struct pmiwire__xwaiter *waiters;
    uint32_t n_entries, cap_entries, free_entry;
    uint32_t n_slots; /* 0 or a power of two */
    uint32_t n_keys;
    uint32_t n_waiters, cap_waiters, free_waiter, n_waiting;
    uint32_t waiting;            /* list of entries with waiters */
    uint32_t copies;             /* list */
    uint32_t due_head, due_tail; /* waiters to be told */
    struct pmiwire__xbuf arena;
    size_t garbage;
    uint64_t key[2];
};

/* ---- collectives ---- */

struct pmiwire__xcursor {
    size_t chunk, segment;
};

/* What has come for one collective: chunks of {u32 tag, u32 bytes, segments}. */
struct pmiwire__xdata {
    struct pmiwire__xbuf buf;
    uint64_t last; /* links that have said LAST */
};

struct pmiwire__xcoll {
    uint32_t kind;
    uint32_t number; /* of the one under way */
    uint32_t told;   /* completions that ops->done() has had */
    uint32_t n_in;
    bool own_in;                      /* this node's part is in data[] */
    unsigned char *in;                /* a bit for each local rank */
    uint64_t sent;                    /* links to which LAST has gone */
    struct pmiwire__xcursor *cursors; /* by link; NULL: nothing has been sent early */
    struct pmiwire__xdata data[2];    /* by parity of the number: dissemination may be one ahead */
    struct pmiwire__xbuf own;         /* records for the next segment of this node */
};

/* ---- ring ---- */

struct pmiwire__xgiven {
    size_t at;
    uint32_t left, right; /* bytes: left's first */
    bool in;
};

struct pmiwire__xring {
    struct pmiwire__xring *next;
    uint32_t n_in;
    struct pmiwire__xbuf values;
    struct pmiwire__xbuf from[2];   /* the value of the node before, of the node after */
    struct pmiwire__xgiven given[]; /* by local rank */
};

struct pmiwire__xside {
    struct pmiwire__xbuf value[2]; /* by parity of the number */
    bool here[2];
};

struct pmiwire_exchange {
    struct pmiwire_allocator alloc;
    struct pmiwire_exchange_ops ops;
    void *ctx;
    uint32_t job, me, n_nodes, n_ranks, n_local, n_below;
    uint32_t design, fence, arity, unhinted, flags, max_frame;
    size_t max_bytes;
    uint64_t wait_ns, now_ns;
    uint32_t *ranks;
    unsigned char *gone; /* a bit for each local rank */

    unsigned depth;
    int err; /* why it has failed */
    uint32_t err_node;
    bool err_told;

    uint32_t seq; /* Fences, the count that copies are held to */
    uint32_t n_unacked;
    uint64_t owner_key[2];
    struct pmiwire__xstore store;

    uint32_t n_links; /* of a collective */
    uint64_t all_links;
    struct pmiwire__xcoll colls[PMIWIRE_COLL_COUNT_];

    uint32_t ring_number;
    struct pmiwire__xring *ring;               /* under way, NULL: nobody is in */
    struct pmiwire__xring *rings, **rings_end; /* to be told */
    struct pmiwire__xside sides[2];            /* from the node before, from the node after */

    struct pmiwire_exchange_stats stats;
};

/* ---- exchange.c ---- */

/* Within max_bytes; NULL: no memory, and ptr is as it was. bytes 0 frees. */
void *pmiwire__xrealloc(struct pmiwire_exchange *x, void *ptr, size_t old_bytes, size_t bytes);
int pmiwire__xbuf_room(struct pmiwire_exchange *x, struct pmiwire__xbuf *b, size_t bytes);
void pmiwire__xbuf_free(struct pmiwire_exchange *x, struct pmiwire__xbuf *b);
/* Empty it, and give it back if it is long. */
void pmiwire__xbuf_reset(struct pmiwire_exchange *x, struct pmiwire__xbuf *b);
/* There is room. */
static inline void pmiwire__xbuf_add(struct pmiwire__xbuf *b, const void *p, size_t n)
{
    if (n)
        memcpy(b->ptr + b->len, p, n);
    b->len += n;
}
void pmiwire__xenter(struct pmiwire_exchange *x);
void pmiwire__xleave(struct pmiwire_exchange *x);
/* The exchange ends; all are told but `from`. */
void pmiwire__xfail(struct pmiwire_exchange *x, int rc, uint32_t node, uint32_t from);
/* A local rank's place among the local ones, PMIWIRE__XNONE. */
uint32_t pmiwire__xlocal(const struct pmiwire_exchange *x, int32_t rank);

/* ---- exchange_tree.c ---- */

static inline uint32_t pmiwire__xparent(const struct pmiwire_exchange *x, uint32_t node)
{
    return (node - 1) / x->arity;
}
/* Is `node` in the subtree of `top`? */
bool pmiwire__xunder(const struct pmiwire_exchange *x, uint32_t node, uint32_t top);

/* ---- exchange_frame.c ---- */

/* Write a record; `to` has its bytes. */
void pmiwire__record_write(char *to, struct pmiwire_str key, struct pmiwire_str value);
/* Read one of at most n bytes. 0, or PMIWIRE_EPROTO. */
int pmiwire__record_read(const char *p, size_t n, struct pmiwire__record *rec);
/* A frame of a header and n_iov - 1 pieces; iov[0] is the header's. */
void pmiwire__xsend(struct pmiwire_exchange *x, uint32_t node, struct pmiwire__frame *f,
                    struct iovec *iov, uint32_t n_iov);
/* A frame with one piece behind its header. */
void pmiwire__xsend1(struct pmiwire_exchange *x, uint32_t node, struct pmiwire__frame *f,
                     const void *p, size_t n);
/* A frame with one pair as a record. */
void pmiwire__xsend_pair(struct pmiwire_exchange *x, uint32_t node, struct pmiwire__frame *f,
                         struct pmiwire_str key, struct pmiwire_str value);
/* The header of a block of so many pairs and bytes, its own among them. */
void pmiwire__block_header(char *to, uint32_t n_pairs, size_t bytes);

/* ---- exchange_pairs.c ---- */

/* Most bytes that a segment's pairs are as records. */
static inline size_t pmiwire__segment_most(const struct pmiwire_exchange *x)
{
    return x->max_frame - sizeof(struct pmiwire__frame) - 40;
}
/* Read one of at most n bytes. 0, or PMIWIRE_EPROTO; its runs have not been looked at. */
int pmiwire__segment_read(const char *p, size_t n, struct pmiwire__segment *s);
/* Bytes that its pairs are as records. 0, or PMIWIRE_EPROTO: a run is not in order. */
int pmiwire__segment_records(const struct pmiwire__segment *s, uint64_t *bytes);
/* Write them. */
void pmiwire__segment_to_records(const struct pmiwire__segment *s, char *to);
/* Read a run, and go behind it. 0, or PMIWIRE_EPROTO. */
int pmiwire__run_read(const char **p, const char *end, struct pmiwire__run *run);
/* The key of its i-th pair: shared + rest bytes. */
void pmiwire__run_key(const struct pmiwire__run *run, uint32_t i, char *key);
/* Segments of this node's records; to: NULL, count. Their bytes. */
size_t pmiwire__segments_write(const struct pmiwire_exchange *x, const struct pmiwire__xbuf *own,
                               char *to);

/* ---- exchange_store.c ---- */

void pmiwire__xstore_init(struct pmiwire_exchange *x);
void pmiwire__xstore_fini(struct pmiwire_exchange *x);
/* Room for so many new entries, and for new records of so many bytes together: no step of either
 * fails afterwards. */
int pmiwire__xreserve(struct pmiwire_exchange *x, uint32_t n_entries, size_t record_bytes);
int pmiwire__xreserve_waiters(struct pmiwire_exchange *x, uint32_t n);
/* Index or PMIWIRE__XNONE. */
uint32_t pmiwire__xfind(const struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key);
/* Find or make; one entry and a record without value are reserved. */
uint32_t pmiwire__xmake(struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key);
/* Give it a value; its record is reserved. */
void pmiwire__xset(struct pmiwire_exchange *x, uint32_t e, struct pmiwire_str value,
                   uint32_t stamp);
void pmiwire__xremove(struct pmiwire_exchange *x, uint32_t e);
/* Remove it if it holds nothing and nobody needs it. */
void pmiwire__xtidy(struct pmiwire_exchange *x, uint32_t e);
/* It is a copy: a Fence drops it. */
void pmiwire__xcopy(struct pmiwire_exchange *x, uint32_t e);
void pmiwire__xdrop_copies(struct pmiwire_exchange *x);
/* Queue a waiter, reserved, at an entry. */
void pmiwire__xwait(struct pmiwire_exchange *x, uint32_t e, const struct pmiwire__xwaiter *waiter);
/* Take the waiters off an entry; the first of their list. */
uint32_t pmiwire__xtake_waiters(struct pmiwire_exchange *x, uint32_t e);
/* Put one back at the end. */
void pmiwire__xkeep_waiter(struct pmiwire_exchange *x, uint32_t e, uint32_t w);
void pmiwire__xfree_waiter(struct pmiwire_exchange *x, uint32_t w);
/* A local waiter is to be told. */
void pmiwire__xdue(struct pmiwire_exchange *x, uint32_t w, int rc);

static inline struct pmiwire__xentry *pmiwire__xentry(const struct pmiwire_exchange *x, uint32_t e)
{
    return &x->store.entries[e];
}

static inline char *pmiwire__xrecord(const struct pmiwire_exchange *x, uint32_t e)
{
    return x->store.arena.ptr + 4 * (size_t)x->store.entries[e].rec;
}

static inline struct pmiwire_str pmiwire__xkey(const struct pmiwire_exchange *x, uint32_t e)
{
    const char *r = pmiwire__xrecord(x, e);
    uint32_t word;

    memcpy(&word, r, 4);
    return (struct pmiwire_str){r + 4, word >> 18 & PMIWIRE_EXCHANGE_MAX_KEY_BYTES};
}

static inline struct pmiwire_str pmiwire__xvalue(const struct pmiwire_exchange *x, uint32_t e)
{
    const char *r = pmiwire__xrecord(x, e);
    uint32_t word;

    memcpy(&word, r, 4);
    return (struct pmiwire_str){r + 4 + (word >> 18 & PMIWIRE_EXCHANGE_MAX_KEY_BYTES),
                                word & PMIWIRE_EXCHANGE_MAX_VALUE_BYTES};
}

/* ---- exchange_kvs.c ---- */

int pmiwire__xon_put(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                     size_t n);
int pmiwire__xon_ack(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                     size_t n);
int pmiwire__xon_get(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                     size_t n);
int pmiwire__xon_answer(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                        size_t n);
/* A Fence has brought this pair, and there is no ops->find. 0 or -ENOMEM. */
int pmiwire__xbrought(struct pmiwire_exchange *x, const struct pmiwire__record *rec,
                      uint32_t number);
/* A Fence has taken this key of ours: who looks for it finds it through ops->find. */
void pmiwire__xtaken(struct pmiwire_exchange *x, struct pmiwire_str key, uint32_t number);
/* Send requests for those who wait at an entry, where none is in flight. */
void pmiwire__xask_again(struct pmiwire_exchange *x, uint32_t e);
/* A Fence is complete: answer those who waited for what it has brought. 0 or -ENOMEM. */
int pmiwire__xafter_fence(struct pmiwire_exchange *x);

/* ---- exchange_coll.c ---- */

int pmiwire__xcolls_init(struct pmiwire_exchange *x);
void pmiwire__xcolls_fini(struct pmiwire_exchange *x);
int pmiwire__xon_coll(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                      size_t n);
/* All Puts are acknowledged: the Fence may go on. */
void pmiwire__xcoll_acked(struct pmiwire_exchange *x);

/* ---- exchange_ring.c ---- */

int pmiwire__xon_ring(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                      size_t n);
void pmiwire__xring_tell(struct pmiwire_exchange *x);
/* Tell those who are in it that it has failed. */
void pmiwire__xring_fail(struct pmiwire_exchange *x);
void pmiwire__xrings_fini(struct pmiwire_exchange *x);

/* ---- exchange_gone.c ---- */

/* The first rank that may put the key of a Get of `rank` (PMIWIRE__XNONE: of no rank of the job),
 * which has named `src` (PMIWIRE__XNONE: nobody). PMIWIRE__XNONE: all of them are gone. */
uint32_t pmiwire__xneeds(const struct pmiwire_exchange *x, uint32_t rank, uint32_t src);
int pmiwire__xon_gone(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                      size_t n);
/* Ask whether the ranks are gone that Gets have waited for since an earlier tick. */
void pmiwire__xgone_ask(struct pmiwire_exchange *x);

#endif /* PMIWIRE_EXCHANGE_INTERNAL_H */
