/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and functions that the files of this library share.
 *
 *   device.c   the adapter, registrations, keys, the table of operations
 *   wire.c     handles, addresses and datagrams as bytes
 *   wireup.c   the thread that connects: datagrams, the targets' ends of connections
 *   op.c       put, get, amo, flush, progress
 *
 * Two threads use a transport: the caller's (the core admits one at a time) and the wire-up thread.
 * They share the members below `lock`: the list of endpoints, their state and connection data, the
 * passive connections. All other members belong to the caller's thread. */
#ifndef ASYMREG_IBV_SRC_IBV_H
#define ASYMREG_IBV_SRC_IBV_H

#include <asymreg-ibv.h>

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define N_REQS     256u /* operations in flight, all endpoints together */
#define N_CHUNKS   24u  /* bounce buffers of ASYMREG_IBV_MAX_OP_BYTES */
#define SLOT_BYTES 256u /* each operation's own bounce buffer, for small data */
#define SQ_DEPTH   128u
#define UD_DEPTH   64u
#define UD_BYTES   128u /* of a datagram, without the 40 that verbs puts before it */
#define N_BUCKETS  1024u

#define NO_REQ   UINT32_MAX
#define NO_CHUNK UINT32_MAX

/* The address of a port. */
struct port_address {
    union ibv_gid gid;
    uint16_t lid;
    uint8_t mtu;       /* enum ibv_mtu */
    uint8_t rd_atomic; /* reads and atomics that it accepts in flight */
};

struct asymreg_mem {
    struct ibv_mr *mr;
    bool local_write;
};

struct asymreg_rkey {
    uint32_t rkey;
    uint32_t prot;
};

enum ep_state {
    EP_CONNECTING, /* requested; the wire-up thread repeats the request. Operations wait */
    EP_READY,
    EP_BROKEN, /* an operation was refused; the returned requests wait for the next connection */
    EP_DEAD
};

/* Requests in order of posting, linked by index. */
struct queue {
    uint32_t head, tail, n;
};

struct asymreg_ep {
    struct asymreg_ep *next;
    _Atomic int state;
    uint32_t number; /* with `attempt` names the connection to the peer's wire-up thread */
    uint32_t attempt;
    struct ibv_qp *qp;
    uint32_t psn;
    struct port_address peer;
    uint32_t peer_ud_qpn, peer_qkey;
    uint64_t peer_cookie;
    uint64_t next_send_ns, give_up_ns;
    int why; /* the error when dead */
    /* The caller's thread alone: */
    struct queue posted, returned, waiting;
    bool unsure;       /* the adapter may have begun what it returns: it cannot be made again */
    int first_error;   /* of implicit operations */
    uint64_t proof_ns; /* when the peer last answered */
};

/* what adapters execute; the core makes the others of compare-and-swap */
#define AMO_OPS                                                                                    \
    (1u << ASYMREG_AMO_ADD | 1u << ASYMREG_AMO_FETCH_ADD | 1u << ASYMREG_AMO_COMPARE_SWAP)

struct req {
    struct asymreg_ep *ep;
    struct asymreg_op *op;
    uint32_t next;
    /* Upper half of wr_id: the completion of an abandoned operation is ignored. */
    uint32_t generation;
    uint32_t chunk;
    uint32_t bytes;
    bool busy;
    bool probe;    /* not the user's */
    bool copy_out; /* from the bounce buffer to dst */
    uint32_t rkey;
    uint32_t lkey;
    uint64_t raddr;
    void *local; /* memory that the adapter reads or fills */
    void *dst;   /* the user's memory */
    uint64_t operand, compare;
    enum ibv_wr_opcode opcode;
};

struct passive;
struct letter;

struct ibv_transport {
    struct asymreg_transport base;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    uint8_t port, gid_index;
    bool is_global;
    struct port_address self;
    bool atomics;
    uint32_t max_inline;
    uint32_t timeout_ms;
    uint8_t rc_timeout;

    uint64_t next_seq; /* of registrations */
    unsigned char *bounce;
    struct ibv_mr *bounce_mr;
    struct req reqs[N_REQS];
    uint32_t free_req;
    uint32_t chunks[N_CHUNKS], n_chunks; /* free ones */
    atomic_uint changed;                 /* an endpoint's state changed: for the caller's thread */

    pthread_mutex_t lock;
    struct asymreg_ep *eps;
    uint32_t next_ep;
    struct passive *passive[N_BUCKETS];
    uint32_t n_passive, max_passive;
    struct letter *letters; /* datagrams for the wire-up thread to send */

    pthread_t thread;
    bool thread_runs;
    int wake_fd;
    bool stop;
    uint64_t cookie;
    uint32_t qkey;
    struct ibv_comp_channel *channel;
    struct ibv_cq *ud_cq;
    struct ibv_qp *ud_qp;
    unsigned char *ud_bounce;
    struct ibv_mr *ud_mr;
    struct ibv_ah *ud_ah[UD_DEPTH]; /* of the datagram in each send buffer, until it is sent */
};

static inline struct ibv_transport *ibv_of(struct asymreg_transport *t)
{
    return (struct ibv_transport *)t;
}

uint64_t asymreg_ibv__now_ns(void);

/* wire.c: checks bytes from another process, as far as the bytes themselves allow. */
#define HANDLE_BYTES  40u
#define ADDRESS_BYTES 48u
#define MESSAGE_BYTES 68u
#define KNOWN_PROT    (ASYMREG_READ | ASYMREG_WRITE | ASYMREG_ATOMIC)

struct wire_handle {
    uint32_t prot, rkey;
    uint64_t seq, addr, bytes;
};

struct wire_address {
    bool is_global;
    uint64_t cookie;
    uint32_t ud_qpn, qkey;
    struct port_address port;
};

enum { REQUEST = 1, REPLY, BYE };

struct message {
    uint16_t type;
    uint64_t to, from;        /* cookies of the transports */
    uint32_t number, attempt; /* of the endpoint that asked */
    uint32_t qpn, psn;        /* of the sender's end */
    uint32_t ud_qpn, qkey;    /* where to answer */
    struct port_address port;
};

void asymreg_ibv__handle_pack(const struct wire_handle *h, unsigned char *p);
bool asymreg_ibv__handle_unpack(const unsigned char *p, size_t bytes, struct wire_handle *h);
void asymreg_ibv__address_pack(const struct wire_address *a, unsigned char *p);
/* 0, ASYMREG_EBLOB, ASYMREG_EVERSION. */
int asymreg_ibv__address_unpack(const unsigned char *p, size_t bytes, struct wire_address *a);
void asymreg_ibv__message_pack(const struct message *m, unsigned char *p);
bool asymreg_ibv__message_unpack(const unsigned char *p, size_t bytes, struct message *m);

/* wireup.c */
int asymreg_ibv__wireup_start(struct ibv_transport *t);
void asymreg_ibv__wireup_stop(struct ibv_transport *t);
/* Makes a new queue pair for the endpoint and wakes the wire-up thread. With the lock held. */
int asymreg_ibv__ep_begin(struct ibv_transport *t, struct asymreg_ep *ep);
/* Removes the endpoint from the list and notifies the peer. With the lock held. */
void asymreg_ibv__ep_end(struct ibv_transport *t, struct asymreg_ep *ep);

/* op.c */
void asymreg_ibv__ops_init(struct ibv_transport *t);
/* The peer is gone: ends every operation in flight with `error`. */
void asymreg_ibv__ep_dead(struct ibv_transport *t, struct asymreg_ep *ep, int error);
int asymreg_ibv__peer_alive(struct asymreg_transport *base, struct asymreg_ep *ep);
int asymreg_ibv__put(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, const void *src, size_t bytes,
                     struct asymreg_mem *local, struct asymreg_op *op);
int asymreg_ibv__get(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, void *dst, size_t bytes,
                     struct asymreg_mem *local, struct asymreg_op *op);
int asymreg_ibv__amo(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, uint32_t amo, uint32_t bytes,
                     uint64_t operand, uint64_t compare, uint64_t *result, struct asymreg_op *op);
int asymreg_ibv__flush(struct asymreg_transport *base, struct asymreg_ep *ep);
int asymreg_ibv__progress(struct asymreg_transport *base);

#endif
