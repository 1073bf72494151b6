/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and functions that the files of this library share.
 *
 *   worker.c  opening UCX, registrations, keys, the thread, the table of operations
 *   peer.c    addresses, endpoints, life and death of peers
 *   op.c      put, get, flush, progress; operations in flight
 *   message.c put, get and amo as messages, which the target checks
 *   queue.c   whether UCX's queue in shared memory still delivers messages
 */
#ifndef ASYMREG_UCX_SRC_UCX_H
#define ASYMREG_UCX_SRC_UCX_H

#include <asymreg-ucx.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <ucp/api/ucp.h>

#define HEADER_BYTES  48u
#define MAX_KEY_BYTES (ASYMREG_MAX_HANDLE_BYTES - HEADER_BYTES)
#define WIRE_VERSION  4u
#define KNOWN_PROT    (ASYMREG_READ | ASYMREG_WRITE | ASYMREG_ATOMIC)

/* Longest put or get as one message. */
#define MAX_MESSAGE_BYTES ((size_t)131072)

struct asymreg_mem {
    /* NULL: accesses arrive as messages, and the memory is not registered with UCX. */
    ucp_mem_h memh;
    uint32_t place;
};

/* A registration's entry; messages name it by place and unique number. */
struct place {
    uint64_t seq; /* 0: free */
    uint64_t addr, bytes;
    uint32_t prot, kind;
    uint32_t next; /* of a free one: the next one + 1 */
    bool strange;  /* see asymreg_ucx__reach_pages() */
};

struct asymreg_rkey {
    ucp_rkey_h rkey; /* or NULL: messages */
    uint64_t seq;
    uint32_t place, prot, kind; /* kind: of memory, 0: a processor's */
};

struct req;

/* The initiator's request; the bytes of a put follow it. In host order. */
struct request {
    uint64_t cookie; /* names the operation at the initiator */
    /* Of the initiator's endpoint; the answer repeats it, and no other peer knows it. */
    uint64_t token;
    uint64_t addr, seq, operand, compare;
    uint32_t kind, amo, place, bytes;
};
_Static_assert(sizeof(struct request) == 64, "no padding");

struct asymreg_ep {
    struct asymreg_ep *next;
    ucp_ep_h ep;
    uint64_t token;   /* random, not 0 */
    bool force;       /* UCX closes it at once, without the peer */
    bool rdma;        /* an adapter reaches the peer's memory */
    _Atomic int dead; /* 0, or the error that every operation returns */
    bool here;        /* the peer is on this node: the kernel reports its end */
    uint32_t pid;
    uint64_t started;
    int pidfd;        /* of a peer on this node, or -1: none is kept */
    int64_t asked_ns; /* without a descriptor: when the kernel was last asked */
    struct req *pending;
    uint64_t pending_bytes; /* of messages */
    /* Counts of operations; the first `flushed` are complete at the peer. */
    uint64_t n_pending, begun, flushed;
    int first_error; /* of implicit operations */
    void *flush;     /* UCX's request, NULL: none */
    uint64_t flush_covers;
};

struct ucx_transport;

/* An operation in flight. It belongs to UCX until the callback, even if its endpoint has been
 * abandoned (ep is NULL then). */
struct req {
    struct ucx_transport *t;
    struct req *next, **back;
    struct asymreg_ep *ep;
    struct asymreg_op *op;
    bool sending;           /* UCX has it */
    uint32_t number, lives; /* index, and how often it has been reused */
    uint32_t bytes;         /* of pending_bytes */
    struct request message;
    void *to;                /* of a get, or the result of an atomic */
    unsigned char small[64]; /* copy of a short put's bytes */
    void *copy;
};

struct slab;
struct answer;
struct caller;

/* A message of this process to itself: see queue.c. */
struct probe {
    ucp_worker_h worker; /* that sends it; NULL: there is none */
    ucp_ep_h ep;
    void *sent;           /* UCX's request, or NULL */
    unsigned int n_waits; /* checks without any message */
    int64_t since_ns;     /* when the first of them began */
    bool heard;           /* UCX has handed over messages since the last check */
    bool due;             /* a peer has ended since the last one was sent */
    bool arrived;
};

struct ucx_transport {
    struct asymreg_transport base;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    uint32_t max_key_bytes;
    uint64_t next_seq; /* of registrations */
    struct place *places;
    uint32_t n_places, max_places, free_place; /* the last: + 1 */
    struct answer *answers, *free_answers;
    struct caller *callers; /* endpoints over shared memory, notified at the end */
    uint32_t n_callers, max_callers;
    struct asymreg_guard guard; /* its functions may be NULL */
    uint32_t kinds;             /* of memory, as bits */
    bool rdma;                  /* UCX has an adapter that accesses memory by itself */
    struct asymreg_ep *eps;
    uint32_t n_pidfds; /* kept */
    struct req *free_reqs;
    struct slab **slabs;
    uint32_t n_slabs;
    void **closing; /* UCX's requests of endpoints that are being closed */
    size_t n_closing, max_closing;
    int64_t checked_ns; /* when the kernel was last asked whether peers are alive */
    unsigned int done;  /* operations completed, or executed for peers, since progress was called */
    struct probe probe;
    bool blocked;        /* UCX's shared memory brings no messages any more */
    bool within_node;    /* UCX has shared memory */
    bool within_process; /* UCX has at least a transport within the process */
    bool reaches;        /* the kernel can tell whether memory is there */
    int event_fd;        /* UCX's, readable when it has something to do after ucp_worker_arm() */
    bool threaded, stop;
    pthread_mutex_t lock;
    atomic_uint waiting; /* callers that want the lock: the thread yields to them */
    pthread_t thread;
    int wake_fd;
    /* Callers sleep on it, as the thread may consume UCX's event; and whether one does. */
    int moved_fd;
    bool sleeper;
};

static inline struct ucx_transport *ucx_of(struct asymreg_transport *t)
{
    return (struct ucx_transport *)t;
}

static inline void ucx_lock(struct ucx_transport *t)
{
    if (t->threaded) {
        atomic_fetch_add(&t->waiting, 1);
        pthread_mutex_lock(&t->lock);
        atomic_fetch_sub(&t->waiting, 1);
    }
}

static inline void ucx_unlock(struct ucx_transport *t)
{
    if (t->threaded)
        pthread_mutex_unlock(&t->lock);
}

/* Maps UCX's status to this library's codes; every status that means the peer's end is
 * ASYMREG_EPEER. */
int asymreg_ucx__map_status(ucs_status_t status);
uint64_t asymreg_ucx__checksum(const void *bytes, size_t n);

static inline int64_t ucx_coarse_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* peer.c */
/* Writes code and sentence, if err is not NULL. Returns the code. */
int asymreg_ucx__fail(struct asymreg_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

int asymreg_ucx__address(struct asymreg_transport *base, void *buf, size_t *bytes,
                         struct asymreg_error *err);
int asymreg_ucx__connect(struct asymreg_transport *base, const void *buf, size_t bytes,
                         struct asymreg_ep **out, struct asymreg_error *err);
void asymreg_ucx__disconnect(struct asymreg_transport *base, struct asymreg_ep *ep);
void asymreg_ucx__find_transports(struct ucx_transport *t);
int asymreg_ucx__peer_alive(struct asymreg_transport *base, struct asymreg_ep *ep);
/* Asks the kernel about each peer that has operations in flight or a kept descriptor, if it is
 * time. With the lock held. */
void asymreg_ucx__check_peers(struct ucx_transport *t);
/* Frees the requests of closing endpoints that UCX has completed. */
void asymreg_ucx__free_closed(struct ucx_transport *t);

/* op.c */
void asymreg_ucx__fail_ep(struct ucx_transport *t, struct asymreg_ep *ep, int error);
void asymreg_ucx__free_reqs(struct ucx_transport *t);
/* Begins a new operation on an endpoint. Returns 0, -EAGAIN (too many operations are in flight), or
 * an error. */
int asymreg_ucx__begin_req(struct ucx_transport *t, struct asymreg_ep *ep, struct asymreg_op *op,
                           struct req **r);
/* Ends the user's part of an operation. */
void asymreg_ucx__detach_req(struct req *r, int status);
/* Frees an operation if neither UCX nor the user needs it. */
void asymreg_ucx__release_req(struct req *r);
struct req *asymreg_ucx__req_at(struct ucx_transport *t, uint64_t cookie);
int asymreg_ucx__put(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, const void *src, size_t bytes,
                     struct asymreg_mem *local, struct asymreg_op *op);
int asymreg_ucx__get(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, void *dst, size_t bytes,
                     struct asymreg_mem *local, struct asymreg_op *op);
int asymreg_ucx__amo(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, uint32_t amo, uint32_t bytes,
                     uint64_t operand, uint64_t compare, uint64_t *result, struct asymreg_op *op);

/* message.c */
enum { AM_REQUEST = 1, AM_ANSWER, AM_HELLO, AM_BYE, AM_PROBE };
/*
 * Gets the pages that an access needs. 0, or the kernel's error: EINVAL where the access is not
 * permitted, but also for memory that only loads and stores reach: memfd_secret()'s, a device's,
 * and PROT_WRITE alone. Where this answers EINVAL at registration, EINVAL is no refusal.
 */
int asymreg_ucx__reach_pages(uint64_t addr, size_t bytes, bool write);
int asymreg_ucx__set_handlers(struct ucx_transport *t);
int asymreg_ucx__send_request(struct ucx_transport *t, struct asymreg_ep *ep,
                              const struct request *message, const void *data, void *to,
                              struct asymreg_op *op);
/* Announces this side to a peer that only the kernel watches, so that the peer notifies it of its
 * worker's end while the process lives on. With the lock held. */
void asymreg_ucx__send_hello(struct ucx_transport *t, struct asymreg_ep *ep);
/* Notifies all callers of this side's end, without waiting. */
void asymreg_ucx__send_byes(struct ucx_transport *t);
/* Called before UCX closes an endpoint. */
void asymreg_ucx__forget_caller(struct ucx_transport *t, ucp_ep_h ep);
/* Whether an endpoint uses only memory of this node. */
bool asymreg_ucx__is_shared_memory(ucp_ep_h ep);
/* Called after the worker's end. */
void asymreg_ucx__free_answers(struct ucx_transport *t);
enum { MESSAGE_PUT, MESSAGE_GET, MESSAGE_AMO };

/* queue.c */
ucs_status_t asymreg_ucx__on_probe(void *arg, const void *header, size_t header_bytes, void *data,
                                   size_t bytes, const ucp_am_recv_param_t *param);
/* Progresses the message. With the lock held. */
void asymreg_ucx__progress_probe(struct ucx_transport *t);
/* Sends a message, if one is due, or waits for it; called every 20 ms. */
void asymreg_ucx__check_queue(struct ucx_transport *t);
void asymreg_ucx__end_probe(struct ucx_transport *t);

int asymreg_ucx__flush(struct asymreg_transport *base, struct asymreg_ep *ep);
int asymreg_ucx__progress(struct asymreg_transport *base);
int asymreg_ucx__arm(struct asymreg_transport *base, int *fd);
/* Progresses UCX and makes the checks that are due. Returns how much UCX has done. With the lock
 * held. */
unsigned int asymreg_ucx__advance(struct ucx_transport *t);

#endif
