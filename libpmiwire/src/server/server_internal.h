/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types and functions that the files of the server engine share.
 *
 *   server.c      life cycle, statistics            job.c     jobs, their stores, extensions
 *   conn.c        connections: bytes in, bytes out, order of service
 *   request.c     requests: one handler an operation, for both wires
 *   job_exchange.c  a job's exchange: nodes, frames, pairs
 *   collective.c  fence, Allgather and ring         group.c   barriers of groups
 *   allgather.c   the values of the last Allgather  liveness.c  ranks that are gone
 *   names.c       name service                      nodeattr.c  node attributes
 *   spawn.c       spawn: collecting and checking    reply.c   replies and diagnostics
 *   hash_store.c  hash store
 *
 * Order of work. A public call that may change the server "enters" and "leaves" it. Only the
 * outermost call serves messages: it decodes, runs a handler, appends the reply to the connection's
 * output, and puts every connection with output or input to handle on the work list. When it
 * leaves, it drains the list: it calls ready(), and serves input that waited behind a delayed
 * answer. So a barrier that releases 10,000 clients, with the next barrier already in their
 * buffers, runs in a loop and does not recurse. A callback that calls the server finds a consistent
 * state, because effects are queued.
 *
 * Between entering and leaving, a closed connection or a removed job becomes an unlinked zombie,
 * freed on leaving. The server calls an exchange only between entering and leaving, so no exchange
 * is destroyed within its own callback.
 */
#ifndef PMIWIRE_SERVER_INTERNAL_H
#define PMIWIRE_SERVER_INTERNAL_H

#include <stdbool.h>

#include <pmiwire/server.h>

#include "../codec/codec_internal.h"

/* Malformed messages after which the server disconnects a client. */
#define PMIWIRE__PATIENCE 64u
/* Longest PMI-2 thread id that replies repeat, bytes; MPICH's and Slurm's are pointers in
 * hexadecimal. */
#define PMIWIRE__THRID_MAX 32u
/* Room in a put for everything except kvsname, key and value. */
#define PMIWIRE__PUT_ROOM 256u
/* A pair's cost besides its bytes, for the limit on a job's store. */
#define PMIWIRE__PAIR_COST 64u
/* A reply leaves out a list of errcodes longer than this: MPICH 4.0 reads lines of 1,023 bytes. */
#define PMIWIRE__ERRCODES_MAX 900u
/* No job. */
#define PMIWIRE__NO_JOB UINT32_MAX

/* ---- doubly linked rings; the head is a link of its own ---- */

struct pmiwire__link {
    struct pmiwire__link *prev, *next;
};

static inline void pmiwire__link_init(struct pmiwire__link *l)
{
    l->prev = l->next = l;
}

static inline bool pmiwire__linked(const struct pmiwire__link *l)
{
    return l->next != l;
}

static inline void pmiwire__unlink(struct pmiwire__link *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    pmiwire__link_init(l);
}

static inline void pmiwire__append(struct pmiwire__link *head, struct pmiwire__link *l)
{
    l->prev = head->prev;
    l->next = head;
    head->prev->next = l;
    head->prev = l;
}

/* Moves all of `from` to the empty `to`. */
static inline void pmiwire__take_all(struct pmiwire__link *from, struct pmiwire__link *to)
{
    pmiwire__link_init(to);
    if (!pmiwire__linked(from))
        return;
    *to = *from;
    to->prev->next = to;
    to->next->prev = to;
    pmiwire__link_init(from);
}

/* The struct whose member `member` is *l. */
#define PMIWIRE__OF(type, member, l) ((type *)(void *)((char *)(l)-offsetof(type, member)))

/* ---- hash_store.c ---- */

struct pmiwire__entry {
    uint32_t key_len, value_len;
    uint32_t owner; /* a job; used by the name service */
    char bytes[];   /* key, value, and a NUL that no length counts */
};

struct pmiwire__kvs {
    const struct pmiwire_allocator *alloc;
    struct pmiwire__slots slots; /* of entries */
    size_t n;                    /* entries */
    size_t bytes;                /* keys and values */
    uint64_t key[2];
    size_t rekeyed_at; /* slots.n when the hash key was last changed */
};

void pmiwire__kvs_init(struct pmiwire__kvs *k, const struct pmiwire_allocator *alloc);
void pmiwire__kvs_fini(struct pmiwire__kvs *k);
/* Inserts or replaces. Returns 0, or -ENOMEM with nothing changed. */
int pmiwire__kvs_put(struct pmiwire__kvs *k, struct pmiwire_str key, struct pmiwire_str value,
                     uint32_t owner);
/* Returns NULL for an absent key. */
const struct pmiwire__entry *pmiwire__kvs_find(const struct pmiwire__kvs *k,
                                               struct pmiwire_str key);
/* Removes an entry. Returns whether it existed. */
bool pmiwire__kvs_remove(struct pmiwire__kvs *k, struct pmiwire_str key);
/* Remove all entries of one owner. */
void pmiwire__kvs_remove_owner(struct pmiwire__kvs *k, uint32_t owner);

static inline struct pmiwire_str pmiwire__entry_value(const struct pmiwire__entry *e)
{
    struct pmiwire_str v = {e->bytes + e->key_len, e->value_len};

    return v;
}

/* ---- the objects ---- */

/* What a connection waits for. While it waits, the server serves none of its further requests. */
enum {
    PMIWIRE__PEND_NONE,
    PMIWIRE__PEND_HERE, /* from here on: for other clients, without a token */
    PMIWIRE__PEND_FENCE,
    PMIWIRE__PEND_GATHER,
    PMIWIRE__PEND_GROUP,
    PMIWIRE__PEND_RING,
    PMIWIRE__PEND_GET, /* from here on: by token */
    PMIWIRE__PEND_NAME,
    PMIWIRE__PEND_SPAWN
};

/* A PMI-1 spawn in progress: its mcmd messages, one behind the other. */
struct pmiwire__spawn_part {
    struct pmiwire__buf bytes;
    uint32_t total; /* messages of the request; 0: no spawn is in progress */
    uint32_t n;     /* received so far */
    size_t n_fields;
    int err; /* nonzero: refuse the request when it is complete */
};

/* The values of the last Allgather, without ops->gather. */
struct pmiwire__gathered {
    struct pmiwire__buf values; /* each with a NUL behind it */
    struct {
        size_t at;
        size_t len;
    } * by_rank;     /* array of n_ranks; NULL: no values */
    uint32_t number; /* of this Allgather, from 1 as the exchange counts; 0: none */
};

struct pmiwire__job {
    struct pmiwire_server *s;
    uint32_t number;
    void *cookie;
    uint32_t n_ranks, n_local;
    int32_t universe_size;
    uint32_t debugged;
    uint32_t *appnum;     /* NULL: 0 */
    uint32_t *node_of;    /* by rank, an index of nodes[]; NULL: all on one */
    uint32_t *nodes;      /* their numbers, ascending */
    uint32_t *node_ranks; /* how many ranks each has */
    uint32_t n_nodes;     /* of these; 0 without node_of */
    uint32_t me;          /* this node's, if all_here is false */
    bool all_here;        /* every rank is on this node */
    uint32_t *locals;     /* this node's ranks, ascending; NULL: all */
    char *kvsname;
    struct pmiwire_str name; /* kvsname as a view */
    char *spawner;
    uint32_t n_conns;
    size_t names_bytes; /* published by this job, with overhead */
    struct pmiwire__kvs kvs, attrs, nodeattrs;

    struct pmiwire_exchange *x;
    size_t max_pair_bytes; /* most that frames carry */
    struct pmiwire__link
        waiting[2];  /* connections in the Fence, in the Allgather: PMIWIRE_COLL_* */
    uint32_t n_gets; /* Gets that wait */
    struct pmiwire__gathered gathered;

    struct pmiwire__kvs groups; /* canonical name of a group and tag to struct group (a pointer) */
    struct pmiwire__link group_list;
    struct pmiwire__link attr_waiters;

    struct pmiwire_conn **conns; /* by local rank; NULL: none */
    uint8_t *gone;               /* by local rank: PMIWIRE_GONE_*, or 0 */
    uint32_t n_gone;
    uint32_t stuck; /* a bit for each kind of collective already reported stuck */

    bool removed;
    struct pmiwire__link removed_link; /* on the server's list */
    char *ext[PMIWIRE_EXT_COUNT_];     /* advertised values; NULL: not advertised */
};

struct pmiwire__group {
    struct pmiwire__link all; /* the job's list */
    struct pmiwire__link waiters;
    uint32_t n_members, n_arrived;
    struct pmiwire_str key; /* words and tag */
    struct pmiwire_str tag; /* behind the words; ptr NULL: no tag */
    uint32_t words[];       /* canonical name, as in struct group_name */
};

struct pmiwire_conn {
    struct pmiwire_server *s;
    struct pmiwire__job *job; /* NULL until known */
    void *cookie;
    int32_t rank;
    uint32_t slot;
    uint32_t state;
    int err;

    struct pmiwire__link all;  /* server's list */
    struct pmiwire__link work; /* server's work list */
    struct pmiwire__link wait; /* the job's waiting[] or attr_waiters, a group's waiters */

    struct pmiwire_decoder dec;
    struct pmiwire__buf in, out;
    uint64_t in_stamp, out_stamp;

    uint64_t token;                           /* of the request that waits, 0 none */
    uint16_t pend;                            /* PMIWIRE__PEND_* */
    uint16_t pend_cmd;                        /* the request's command */
    void (*pend_end)(struct pmiwire_conn *c); /* called when the wait ends, off all lists */
    uint32_t pend_count;                      /* spawn: processes asked for */
    char *pend_mem;                           /* node attribute's key */
    size_t pend_len;
    struct pmiwire__job *pend_job; /* waiting Get: the key's job */
    struct pmiwire__group *group;
    struct pmiwire__spawn_part spawn;

    uint32_t n_bad;
    int32_t major;            /* PMI version of the init line, 0 before it */
    bool pad_right;           /* Slurm's PMI-2 client */
    bool has_extensions;      /* it has sent fp-client */
    bool was_told;            /* pmiwire_server_accept() named its rank */
    bool has_bytes;           /* fp-bytes: we have offered it, and the client knows it */
    bool notify;              /* call ready() */
    bool closed;              /* a zombie */
    bool moved_in, moved_out; /* since the last tick */
    uint8_t thrid_len;
    char thrid[PMIWIRE__THRID_MAX];
};

struct pmiwire__conn_slot {
    struct pmiwire_conn *conn;
    uint32_t next_free;
};

struct pmiwire_server {
    struct pmiwire__mem mem; /* counts buffers only */
    struct pmiwire_server_ops ops;
    struct pmiwire_server_opts opts; /* with the defaults filled in */
    const struct pmiwire_profile *v2_mpich, *v2_slurm;
    struct pmiwire_profile ours; /* "fencepost", with no limits but the server's own */

    struct pmiwire__job **jobs; /* by number; NULL: removed */
    uint32_t n_jobs, cap_jobs;
    struct pmiwire__kvs job_names; /* kvsname to number */
    struct pmiwire__kvs names;     /* published */

    struct pmiwire__conn_slot *slots;
    uint32_t n_slots, free_slot; /* free_slot: UINT32_MAX none */
    struct pmiwire__link conns, work, closed_conns, removed_jobs;
    bool ending;     /* being destroyed: no callback, no notification */
    uint64_t serial; /* of the last token */
    unsigned depth;  /* nested public calls */

    struct pmiwire_field *fields; /* of the message being served */
    uint32_t cap_fields;
    char *scratch; /* unescaped values, group names: for the message being served */
    size_t cap_scratch;
    struct pmiwire__buf value; /* a value for an exchange, with its NUL */
    const char *limit;         /* limit that the put being served would exceed; NULL: none */
    size_t limit_bytes;

    struct pmiwire_stats_server stats;
};

/* ---- server.c ---- */

/* Returns the bytes of the longest put: key and value at their limits, every byte encoded. */
size_t pmiwire__put_bytes(const struct pmiwire_server_opts *o);

void *pmiwire__alloc(struct pmiwire_server *s, size_t bytes); /* zeroed */
void *pmiwire__realloc(struct pmiwire_server *s, void *p, size_t bytes);
void pmiwire__free(struct pmiwire_server *s, void *p);
/* Returns at least `bytes` of scratch memory, aligned as malloc's, contents undefined; NULL: out of
 * memory. */
char *pmiwire__scratch(struct pmiwire_server *s, size_t bytes);

/* ---- job.c ---- */

struct pmiwire__job *pmiwire__job(const struct pmiwire_server *s, uint32_t number);
struct pmiwire__job *pmiwire__job_named(struct pmiwire_server *s, struct pmiwire_str name);
void pmiwire__job_free(struct pmiwire__job *j);
/* Returns the connection of a rank of this node; NULL: it has none. */
struct pmiwire_conn *pmiwire__conn_of(const struct pmiwire__job *j, int32_t rank);
/* Fills in the job alone, without a rank. */
void pmiwire__job_peer(const struct pmiwire__job *j, struct pmiwire_peer *who);
/* Returns a pair's cost against a job's limit. */
size_t pmiwire__pair_cost(struct pmiwire_str key, struct pmiwire_str value);
/* Puts into one of a job's stores, within the job's limit. Returns 0 or -ENOMEM. */
int pmiwire__store(struct pmiwire_server *s, struct pmiwire__job *job, struct pmiwire__kvs *k,
                   struct pmiwire_str key, struct pmiwire_str value);
size_t pmiwire__store_cost(const struct pmiwire__kvs *k);
size_t pmiwire__job_bytes(const struct pmiwire__job *job);
/* Checks lengths only. */
int pmiwire__check_pair(const struct pmiwire_server *s, uint16_t wire, struct pmiwire_str key,
                        struct pmiwire_str value);
/* PMI-1's maxima are lengths of buffers, NUL included; PMI-2's are lengths of strings. */
static inline bool pmiwire__too_long(uint16_t wire, size_t len, uint32_t max)
{
    return len > max || (len == max && wire != PMIWIRE_V2);
}
/* Returns the bytes of the job's extensions in such an answer (PMIWIRE__AT_*), without the
 * extension `but`. */
size_t pmiwire__ext_bytes(const struct pmiwire__job *j, uint16_t at, uint16_t but);

/* ---- job_exchange.c ---- */

/* Sets up a new job's nodes and exchange. Returns 0, -ENOMEM or -EINVAL. */
int pmiwire__job_place(struct pmiwire__job *j, const struct pmiwire_job_opts *o);
/* Returns a rank's index among this node's ranks, or PMIWIRE__NOT_HERE. */
uint32_t pmiwire__local_index(const struct pmiwire__job *j, int32_t rank);
/* Finds a pair on this node, but not in the exchange's own store. */
bool pmiwire__find(const struct pmiwire__job *j, struct pmiwire_str key, struct pmiwire_str *value);
/* Puts a pair on behalf of a client. */
int pmiwire__put(struct pmiwire_conn *c, struct pmiwire_str key, struct pmiwire_str value,
                 uint32_t hint);
/* Checks that the exchange will take a DENSE pair, and reserves its memory, so that a pair that it
 * refuses is not stored. */
int pmiwire__forward_reserve(struct pmiwire__job *j, struct pmiwire_str key,
                             struct pmiwire_str value);
/* Passes a pair to the exchange: after the store has it, or, for a SPARSE key, as its only
 * store. */
int pmiwire__forward_put(struct pmiwire__job *j, int32_t rank, struct pmiwire_str key,
                         struct pmiwire_str value, uint32_t hint);
/* Returns an exchange's value without its NUL. */
static inline struct pmiwire_str pmiwire__without_nul(struct pmiwire_str value)
{
    if (value.len)
        value.len--;
    return value;
}

/* ---- liveness.c ---- */

#define PMIWIRE__NOT_HERE UINT32_MAX
/* Longest text that names a rank, why it is gone, and the consequence. */
#define PMIWIRE__GONE_TEXT 120u
/* Handles the end of a rank of this node. `entered`: the group whose barrier it is in. */
void pmiwire__rank_gone(struct pmiwire__job *j, int32_t rank, uint32_t why,
                        const struct pmiwire__group *entered);
/* Returns PMIWIRE_GONE_*; 0: the rank is not gone, or not of this node. */
uint32_t pmiwire__rank_why(const struct pmiwire__job *j, int32_t rank);
/* Returns whether another rank of this node is not gone. */
bool pmiwire__others_left(const struct pmiwire__job *j, int32_t rank);
/* Returns another rank of this node that is gone, and why; or PMIWIRE_RANK_NONE. */
int32_t pmiwire__gone_other(const struct pmiwire__job *j, int32_t rank, uint32_t *why);
/* "rank 3 has finalized: this fence cannot complete"; `what`: the text behind the colon. */
const char *pmiwire__gone_text(char text[PMIWIRE__GONE_TEXT], int32_t rank, uint32_t why,
                               const char *what);
/* Reports, once, that a kind of collective cannot complete. `c` waits in it. */
void pmiwire__stuck(struct pmiwire_conn *c, uint32_t coll, int32_t rank, uint32_t why,
                    const char *text);
/* Answers a rank that is gone, has connected again and enters a collective. */
bool pmiwire__refuse_gone(struct pmiwire_conn *c, uint16_t cmd);

/* ---- conn.c ---- */

void pmiwire__enter(struct pmiwire_server *s);
void pmiwire__leave(struct pmiwire_server *s);
/* Puts a connection on the work list. */
void pmiwire__work(struct pmiwire_conn *c);
/* Returns whether the connection still gets answers. */
static inline bool pmiwire__alive(const struct pmiwire_conn *c)
{
    return !c->closed && c->state != PMIWIRE_CONN_FAILED;
}
/* Fails a connection: reports to diag, drops its input. `text` NULL: the code's. */
void pmiwire__fail(struct pmiwire_conn *c, int code, const char *text);
void pmiwire__set_state(struct pmiwire_conn *c, uint32_t state);
/* Binds a connection to a rank. Returns 0, PMIWIRE_ENOENT, -EINVAL or PMIWIRE_EEXIST. */
int pmiwire__bind(struct pmiwire_conn *c, uint32_t job, int32_t rank);
/* Makes the request being served wait. When the wait ends, with or without an answer, `end` is
 * called unless it is NULL. Returns the request's token. */
uint64_t pmiwire__pend(struct pmiwire_conn *c, uint16_t what, uint16_t cmd,
                       void (*end)(struct pmiwire_conn *c));
/* Ends the wait, with or without an answer: leaves all lists. */
void pmiwire__unpend(struct pmiwire_conn *c);
/* Ends the wait after the answer has been queued: continues with the connection's input. */
void pmiwire__resume(struct pmiwire_conn *c);
/* Returns the connection that waits for this token; NULL: stale. */
struct pmiwire_conn *pmiwire__by_token(struct pmiwire_server *s, uint64_t token);
/* ---- reply.c ---- */

struct pmiwire__req;

struct pmiwire__reply {
    struct pmiwire_encoder e;
    struct pmiwire_conn *c;
};

/* Begins the answer to request `cmd` with its rc, in the connection's output; `bytes`: of all its
 * values together. Returns false if the output has no room: then call nothing else. */
bool pmiwire__reply_begin(struct pmiwire__reply *r, struct pmiwire_conn *c, uint16_t cmd,
                          int32_t rc, size_t bytes);
/* Returns 0, or why the wire cannot carry the message; nothing is queued then. */
int pmiwire__reply_end(struct pmiwire__reply *r);
/* As pmiwire__reply_end(), but on failure answers with that error. */
void pmiwire__reply_send(struct pmiwire__reply *r, uint16_t cmd);
/* Adds the job's extensions for such an answer (PMIWIRE__AT_*), without the extension `but`. */
void pmiwire__reply_ext(struct pmiwire__reply *r, uint16_t at, uint16_t but);
/* Call before adding values (of the field, 0: an extension's; absent: none): encodes those that the
 * wire cannot carry unencoded. */
void pmiwire__reply_bytes(struct pmiwire__reply *r, uint16_t field, struct pmiwire_str value,
                          struct pmiwire_str another);
/* Checks that a client's pair is within the limits and that the client could read it back. Returns
 * 0, or the error that has been answered. */
int pmiwire__may_put(const struct pmiwire__req *q, struct pmiwire_str key,
                     struct pmiwire_str value);
/* Answers rc=0 and nothing else. */
void pmiwire__reply_ok(struct pmiwire_conn *c, uint16_t cmd);
/* Answers rc != 0 and a text; `text` NULL: the code's. */
void pmiwire__reply_error(struct pmiwire_conn *c, uint16_t cmd, int code, const char *text);
/* As pmiwire__reply_error(), and names the field at fault. */
void pmiwire__reply_error_in(struct pmiwire_conn *c, uint16_t cmd, int code, uint16_t field,
                             const char *text);
/* Answers a command that the table does not know. */
void pmiwire__reply_unknown(struct pmiwire_conn *c, uint16_t wire, struct pmiwire_str name);
/* Answers with a value, found or not. */
void pmiwire__reply_value(struct pmiwire_conn *c, uint16_t cmd, int rc, struct pmiwire_str value);
/* Reports to diag, naming the command, then answers with an error. */
void pmiwire__refuse(struct pmiwire_conn *c, uint16_t cmd, int code, const char *text);
/* Reports the rank and this text to diag. */
void pmiwire__diag(struct pmiwire_conn *c, int code, const char *text);
void pmiwire__peer(const struct pmiwire_conn *c, struct pmiwire_peer *who);

/* Drops the parts of a spawn that a client has sent. */
static inline void pmiwire__spawn_drop(struct pmiwire_conn *c)
{
    pmiwire__buf_free(&c->s->mem, &c->spawn.bytes);
    c->spawn.total = 0;
}

/* ---- handlers ---- */

/* A request that has been decoded and checked against the table. */
struct pmiwire__req {
    struct pmiwire_server *s;
    struct pmiwire_conn *c;
    const struct pmiwire_msg *msg;
    uint16_t cmd;
    const char *raw; /* the whole message */
    size_t raw_len;
    uint32_t n_fields; /* of the whole message; msg has no empty names and ranks */
};

/* request.c: serve one decoded message. */
void pmiwire__handle(struct pmiwire_conn *c, struct pmiwire_msg *msg, const char *raw,
                     size_t raw_len);
/* Answers a message that could not be decoded, or fails the connection. */
void pmiwire__handle_broken(struct pmiwire_conn *c, int code, const struct pmiwire_msg *msg);

/* names.c */
void pmiwire__do_name(const struct pmiwire__req *q, uint32_t what);

/* nodeattr.c */
void pmiwire__do_getnodeattr(const struct pmiwire__req *q);
void pmiwire__do_putnodeattr(const struct pmiwire__req *q);
/* Answers waits for an attribute that no remaining rank can put, now that `rank` is gone too. */
void pmiwire__nodeattr_gone(struct pmiwire__job *j, int32_t rank, uint32_t why);

/* collective.c */
void pmiwire__do_fence(const struct pmiwire__req *q);
void pmiwire__do_ring(const struct pmiwire__req *q);
/* Ends a Fence or an Allgather for all ranks in it. */
void pmiwire__coll_done(struct pmiwire__job *j, uint32_t kind, int rc);
/* Ends a Ring for one rank. */
void pmiwire__ring_done(struct pmiwire__job *j, uint32_t rank, int rc, uint32_t place,
                        struct pmiwire_str left, struct pmiwire_str right);

/* group.c */
void pmiwire__do_group(const struct pmiwire__req *q, struct pmiwire_str group);
/* Ends the barriers that a rank has not entered and cannot enter now. */
void pmiwire__groups_gone(struct pmiwire__job *j, int32_t rank, uint32_t why,
                          const struct pmiwire__group *entered);
void pmiwire__groups_free(struct pmiwire__job *j);

/* allgather.c */
/* Takes a block of an Allgather's values. Returns 0, or an error that ends the exchange. */
int pmiwire__gathered(struct pmiwire__job *j, uint32_t number, const void *block, size_t bytes);
/* Finds the value of a key `-allgather-K-R` of the last Allgather. */
bool pmiwire__gathered_find(const struct pmiwire__job *j, struct pmiwire_str key,
                            struct pmiwire_str *value);
void pmiwire__gathered_free(struct pmiwire__job *j);

/* request.c */
/* Answers a Get that waited. */
void pmiwire__get_done(struct pmiwire_conn *c, int rc, struct pmiwire_str value);

/* spawn.c */
void pmiwire__do_spawn_v1(const struct pmiwire__req *q);
/* Counts a malformed message of a PMI-1 request. Returns true if it needs an answer now: it is the
 * last one, its numbers cannot be read or do not fit, or the client has not sent init. */
bool pmiwire__spawn_refuse_part(struct pmiwire_conn *c, const struct pmiwire_msg *msg, int code);
void pmiwire__do_spawn_v2(const struct pmiwire__req *q);

#endif /* PMIWIRE_SERVER_INTERNAL_H */
