/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and functions that the files of the client session share. */
#ifndef PMIWIRE_CLIENT_INTERNAL_H
#define PMIWIRE_CLIENT_INTERNAL_H

#include <pmiwire/client.h>

#include "../codec/codec_internal.h"

/* Longest name of a key-value space that a session keeps, bytes: four times what servers advertise.
 * */
#define PMIWIRE__KVSNAME_BYTES 1024u
/* Bytes of extensions that a session keeps: the longest answer with extra fields. */
#define PMIWIRE__EXT_BYTES 1000u
/* Longest exchange of init without the job's id; a session's buffers are at least this. */
#define PMIWIRE__MIN_MSG_BYTES 256u

enum pmiwire__client_state {
    PMIWIRE__STARTING, /* INIT is pending */
    PMIWIRE__READY,
    PMIWIRE__CLOSING, /* finalize is pending: no further request is accepted */
    PMIWIRE__OVER     /* finalize has been answered */
};

/* The answer that a session waits for, in the exchange that INIT stands for. */
enum pmiwire__step {
    PMIWIRE__STEP_INITACK,
    PMIWIRE__STEP_SET,
    PMIWIRE__STEP_INIT,
    PMIWIRE__STEP_MAXES,
    PMIWIRE__STEP_APPNUM,
    PMIWIRE__STEP_KVSNAME,
    PMIWIRE__STEP_FULLINIT
};

/* A request whose answer is pending. */
struct pmiwire__pending {
    uint64_t cookie;
    uint64_t end;   /* position in the stream where this request ends */
    uint16_t op;    /* PMIWIRE_OP_* */
    uint16_t reply; /* command id of the answer, 0: any */
    uint16_t local; /* 1: not sent, as the session knows the answer */
};

struct pmiwire_client {
    uint32_t wire;
    uint32_t flags;
    int32_t has_pmiid;
    int32_t pmiid;
    uint32_t max_subversion;
    uint32_t threaded;
    size_t max_msg_bytes;
    struct pmiwire_profile server; /* a copy; its strings are not used */
    struct pmiwire_allocator allocator;

    enum pmiwire__client_state state;
    enum pmiwire__step step;
    uint32_t n_set; /* `set` lines that have followed initack */
    int has_rank;   /* initack or set contained it */
    int has_size;
    int dead; /* the reason; 0 while alive */
    int eof;
    int has_bytes;            /* fp-bytes: both we and the server have announced it */
    struct pmiwire_error err; /* the error in the server's message */
    struct pmiwire_info_client info;

    /* Requests, oldest first: a ring. */
    struct pmiwire__pending pending[PMIWIRE_CLIENT_MAX_PENDING];
    uint32_t first;
    uint32_t n_pending;

    /* Bytes to send: out[out_head, out_tail). Positions in the whole stream are counted from its
     * start. */
    char *out;
    size_t out_head;
    size_t out_tail;
    uint64_t sent;      /* position of out[out_head] */
    uint64_t answered;  /* position where the last answered request ended */
    uint64_t abort_end; /* position where the last abort, which waits for no answer, ends */

    /* Bytes received: in[in_head, in_tail); the message that the last event shows is its first
     * `shown` bytes. */
    char *in;
    size_t cap_in;
    size_t in_head;
    size_t in_tail;
    size_t shown;
    struct pmiwire_decoder decoder;
    struct pmiwire_msg msg;

    char *scratch; /* values with another form on the wire: `;;` for `;`, or encoded */
    size_t scratch_used;
    char *jobid; /* PMI_JOBID, NUL-terminated; NULL: none */
    char kvsname[PMIWIRE__KVSNAME_BYTES];
    char ext_bytes[PMIWIRE__EXT_BYTES]; /* the bytes of info.ext */
};

static inline uint64_t pmiwire__queued(const struct pmiwire_client *c)
{
    return c->sent + (c->out_tail - c->out_head);
}

/* The i-th request in flight, the oldest first. */
static inline struct pmiwire__pending *pmiwire__pending_at(struct pmiwire_client *c, uint32_t i)
{
    return &c->pending[(c->first + i) % PMIWIRE_CLIENT_MAX_PENDING];
}

/* The oldest request without an answer; NULL: none. */
static inline struct pmiwire__pending *pmiwire__head(struct pmiwire_client *c)
{
    return c->n_pending ? pmiwire__pending_at(c, 0) : NULL;
}

static inline int pmiwire__is_v2(const struct pmiwire_client *c)
{
    return c->wire == PMIWIRE_V2;
}

/* Ends the session for this reason; the first reason counts. */
static inline void pmiwire__client_fail(struct pmiwire_client *c, int reason)
{
    if (!c->dead)
        c->dead = reason;
}

/* Begins a message behind the queued ones, with all the free room. The encoder refuses cmd 0. */
void pmiwire__client_encode(struct pmiwire_client *c, struct pmiwire_encoder *e, uint16_t cmd);

/* Ends the message and counts it as queued. Returns 0, -EAGAIN if there is no room now, or why the
 * wire cannot carry it. */
int pmiwire__client_encoded(struct pmiwire_client *c, struct pmiwire_encoder *e);

/* Queue init's first message. */
int pmiwire__client_start(struct pmiwire_client *c);

/* Queue the next message of init. c->step is the answer that it gets. */
int pmiwire__client_send_step(struct pmiwire_client *c, enum pmiwire__step step);

#endif /* PMIWIRE_CLIENT_INTERNAL_H */
