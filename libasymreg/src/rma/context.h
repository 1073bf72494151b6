/* SPDX-License-Identifier: BSD-3-Clause */
/* A context's internals: own regions, peers, workers. */
#ifndef ASYMREG_SRC_CONTEXT_H
#define ASYMREG_SRC_CONTEXT_H

#include <asymreg/rma.h>

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../table/table.h"
#include "activity.h"

/* One transport registration of this process. */
struct asymreg__own_segment {
    struct asymreg_mem *mem;
    asymreg_id place; /* in seg_index, or 0 */
    uint64_t value;   /* 0: not in use */
    uint64_t bytes;
    void *alloc; /* memory of asymreg_segment_alloc(), or NULL */
    size_t alloc_bytes;
    uint32_t prot;
    uint32_t automatic; /* made for regions, and ends with the last of them */
};

/* A segment of a peer, ready for use. Immutable once published. */
struct asymreg__key {
    uint64_t value;
    uint64_t base, last;
    struct asymreg_rkey *rkey;
    const char *mapped;        /* address of `base` in this process, for prefetches; or NULL */
    uint32_t bound;            /* handles that use it; under the peer's lock */
    struct asymreg__key *next; /* in the list of retired keys */
    uint64_t epoch;
};

struct asymreg__peer {
    struct asymreg_ep *ep;
    uint64_t serial; /* unique among the peers of a context */
    _Atomic int dead;
    struct asymreg__cache *_Atomic cache; /* made at first use */
    struct asymreg__key *_Atomic *keys;   /* by segment number; made with the cache */
    uint32_t n_keys;
    int ask;          /* ASYMREG_FRESH: each operation refreshes */
    _Atomic int late; /* error of implicit operations that was found outside a flush */

    pthread_mutex_t lock; /* of the members below, and of refreshing */
    struct asymreg__key *retired;
    uint64_t n_bound; /* handles */
    struct asymreg_rkey *table_key, *activity_key;
    struct asymreg__activity *activity; /* the peer's, mapped; or NULL */
    uint64_t table_addr, table_bytes, incarnation;
    const void *mapped;
    struct asymreg_context *context;
};

#define PEER_CHUNK 1024u

/* The tag under which a context's workers claim slots with a peer. */
uint64_t asymreg__activity_tag(const struct asymreg__peer *p);

struct asymreg_context {
    struct asymreg_transport *t;
    struct asymreg_transport_caps caps;
    uint32_t flags;
    const struct asymreg_allocator *allocator;
    uint32_t max_segments;
    pid_t owner;            /* process that opened it */
    pthread_mutex_t t_lock; /* around each call of a transport that needs it */

    pthread_mutex_t lock; /* of registering, importing and forgetting */
    void *memory;         /* the published table */
    uint64_t bytes, incarnation;
    struct asymreg__table *table;
    struct asymreg_mem *table_mem;
    unsigned char table_handle[ASYMREG_MAX_HANDLE_BYTES];
    size_t table_handle_bytes;
    int table_fd;
    struct asymreg__activity *activity; /* with ASYMREG_DRAIN */
    struct asymreg_mem *activity_mem;
    unsigned char activity_handle[ASYMREG_MAX_HANDLE_BYTES];
    size_t activity_handle_bytes;
    int activity_fd, activity_fence;
    /* held while a transport accesses memory for a peer (see guard.c) */
    pthread_mutex_t guard_lock;
    struct asymreg__reader *guard_reader; /* NULL: the transport never calls the guard */
    int guard_closed;
    uint32_t max_regions;
    uint32_t *shares; /* users of each slot beyond the first */
    struct asymreg__index *seg_index;
    struct asymreg__reader *seg_reader;
    struct asymreg__own_segment *segs;
    uint64_t whole; /* segment of all private memory, or 0 */
    uint64_t coalesce_bytes;
    uint64_t segment_bytes, n_registrations;
    uint32_t n_segments;
    int dereg_rc; /* the transport's result of the last mem_dereg */

    struct asymreg__peer *_Atomic *_Atomic peers[ASYMREG_MAX_PEERS / PEER_CHUNK]; /* by PE */
    uint32_t end_pe;            /* no peer from here on */
    uint64_t serials;           /* peers so far */
    _Atomic uint64_t forgets;   /* peers forgotten so far */
    _Atomic uint32_t no_yields; /* so many waits do not yield the processor */
};

static inline struct asymreg__peer *asymreg__peer_at(struct asymreg_context *c, uint32_t pe)
{
    struct asymreg__peer *_Atomic *chunk =
        atomic_load_explicit(&c->peers[pe / PEER_CHUNK], memory_order_acquire);

    return chunk ? atomic_load_explicit(&chunk[pe % PEER_CHUNK], memory_order_acquire) : NULL;
}

static inline void asymreg__t_lock(struct asymreg_context *c)
{
    if (!(c->caps.flags & ASYMREG_CAP_THREADS))
        pthread_mutex_lock(&c->t_lock);
}

static inline void asymreg__t_unlock(struct asymreg_context *c)
{
    if (!(c->caps.flags & ASYMREG_CAP_THREADS))
        pthread_mutex_unlock(&c->t_lock);
}

/* Returns whether the transport has not completed an operation. */
static inline int asymreg__op_pending(const struct asymreg_op *op)
{
    return atomic_load_explicit((const _Atomic int32_t *)&op->status, memory_order_acquire) ==
           ASYMREG_PENDING;
}

/* Returns whether this process opened the context: a child must not change a table that peers
 * read. */
static inline int asymreg__may_change(const struct asymreg_context *c)
{
    return !c ? -EINVAL : c->owner == getpid() ? 0 : -EPERM;
}

/* The transport's reason why a capability is off. */
const char *asymreg__reason(struct asymreg_context *c, uint32_t cap);

/* context.c: memory that peers can fetch by descriptor and cannot shorten, with more seals if the
 * kernel knows them; plain pages if the transport lacks one of these capabilities. NULL: errno.
 */
void *asymreg__shared_pages(const struct asymreg_context *c, size_t bytes, uint32_t caps,
                            int more_seals, int *fd);

/* The first region or segment of an index in [start, last]. */
static inline int asymreg__first_in(struct asymreg__index *ix, uint64_t start, uint64_t last,
                                    struct asymreg_region *r)
{
    return asymreg__index_next(ix, start, r) && r->start <= last;
}

/* wait.c: one wait for progress. */
struct asymreg__wait {
    int64_t since_ns; /* when progress began to have nothing to do; 0: not yet */
    int yields;
};
/* After each call of progress, without the transport's lock; `moved`: it has completed something,
 * or the caller need not wait. */
void asymreg__wait(struct asymreg_context *c, struct asymreg__wait *wait, int moved);

/* guard.c: the checks for operations of peers that run in this process. */
int asymreg__guard_open(struct asymreg_context *c);
/* Waits until every admitted operation has ended. */
void asymreg__guard_wait(struct asymreg_context *c);
/* From now on admits no operation, except reads of the table. */
void asymreg__guard_close(struct asymreg_context *c);

/* segment.c: under the context's lock. */
/* Checks that the transport can use memory of this kind, with or without a descriptor. -EINVAL (no
 * such kind), ASYMREG_ENOTSUP. */
int asymreg__kind_check(struct asymreg_context *c, const struct asymreg_mem_desc *desc,
                        struct asymreg_error *err);
/* Makes a user's segment. */
int asymreg__user_segment_add(struct asymreg_context *c, const struct asymreg_mem_desc *desc,
                              uint64_t *value, struct asymreg_error *err);
/* From now on, a segment gets no further regions. -ENOMEM: it is as before. */
int asymreg__segment_retire(struct asymreg_context *c, uint64_t value);
/* ASYMREG_EBUSY: the segment has regions. -ENOMEM: it is as before. */
int asymreg__segment_remove(struct asymreg_context *c, uint64_t value);
/* Retires the automatic segments in this range. */
int asymreg__segments_retire(struct asymreg_context *c, uint64_t start, uint64_t last);
/* Finds the segment for a new region: an existing one, that of all private memory, or a new one
 * around the region or for it alone. */
int asymreg__segment_for(struct asymreg_context *c, const struct asymreg_mem_desc *desc,
                         uint32_t flags, uint64_t *value, struct asymreg_error *err);

/*
 * maps.c: narrows [*low, *high], which holds [start, last], to the adjacent mappings of one origin
 * around [start, last] that have these permissions. Returns 0 if [start, last] itself is not within
 * such mappings.
 */
int asymreg__mapped_run(uint64_t start, uint64_t last, uint32_t prot, uint64_t *low,
                        uint64_t *high);

/* peer.c */
void asymreg__peer_free(struct asymreg_context *c, struct asymreg__peer *p);
/* These three read the peer's table. */
/* Makes the cache if there is none. */
int asymreg__peer_open_table(struct asymreg__peer *p);
int asymreg__peer_refresh(struct asymreg__peer *p);
/* Asks the transport: 0, or ASYMREG_EPEER, which it notes. */
int asymreg__peer_alive(struct asymreg__peer *p);
/* Adds the peer's figures, without waiting for a refresh. Under the context's lock. */
void asymreg__peer_stats(struct asymreg__peer *p, struct asymreg_stats *stats);
/* Makes the key of a region's segment, unless it exists. ASYMREG_ESTALE: the segment is gone.
 * ASYMREG_ETABLE: the region is not inside it. Runs outside a reader's section, so the caller looks
 * the key up again inside one: another worker may replace the key at once. */
int asymreg__peer_key(struct asymreg__peer *p, const struct asymreg_region *r,
                      struct asymreg_error *err);
/* Calls the transport's flush until the flush is complete. */
int asymreg__peer_flush(struct asymreg__peer *p);

#endif
