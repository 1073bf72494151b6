/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PMIx host of a launcher: libpmix's server in the launcher's process, and all that libpmix
 * asks of its host. With it, ranks of any launcher can be PMIx clients: Open MPI 4 and 5, MPICH
 * with PMIx, OpenSHMEM.
 *
 * The model. Each node has one host. The launcher describes each job to it before it starts the
 * job's ranks; the host gives it the variables that the ranks need. From then on clients connect to
 * libpmix, which answers what it can itself. It hands the rest to the host in a thread of its own;
 * the host queues it, and handles it in the launcher's loop, in pmix_host_progress().
 *
 * Between nodes. A Fence, a Connect, and a Get of a rank elsewhere are each a Fence of libpmiwire's
 * exchange engine (pmiwire/exchange.h), among the nodes that take part. The launcher carries its
 * frames as it carries those of PMI: whole, once, in order, from authenticated nodes. Published
 * values are names of the launcher's own name service. So the host has no protocol of its own.
 *
 *     struct pmix_host_ops ops = {.say = say, .state = state, ...};
 *     struct pmix_host_opts opts = {.ops = &ops, .node = 0, .n_nodes = 1, ...};
 *
 *     pmix_host_create(&opts, &host);                   // and watch pmix_host_fd(host)
 *     pmix_host_job_begin(host, &job, &vars, &why);     // then start its ranks with `vars`
 *     pmix_host_progress(host);                         // the descriptor is readable
 *     pmix_host_tick(host, now_ns);                     // twice a second
 *     pmix_host_rank_ended(host, job, rank, end, status);
 *     pmix_host_job_end(host, job);
 *     pmix_host_destroy(host);
 *
 * Caveats. libpmix can be started once in a process, and cannot be stopped: its server hangs or
 * crashes when a client has died in its PMIx_Init() (4.2.2). pmix_host_destroy() makes its thread
 * sleep for good; do that before you end ranks. What clients can do to libpmix is bounded
 * (bounds.h), except for what INSIDE.md of pmirun names.
 *
 * All functions are called in the loop's thread. Callbacks come in that thread, from within these
 * functions, and may call pmix_host_answer() alone. libpmix is loaded when the first job that has
 * ranks here begins. Built without its headers, pmix_host_available() returns false.
 */
#ifndef PMIX_HOST_H
#define PMIX_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <pmiwire/server.h>

struct pmix_host;

/* What the host needs of its launcher. Jobs and ranks are given by number. */
struct pmix_host_ops {
    /* A line for the user. */
    void (*say)(void *ctx, const char *text);
    /* The host cannot serve its clients any more: end all jobs. `why` is for the user. */
    void (*failed)(void *ctx, const char *why);
    /* A client here has begun, finalized, or lost its connection: PMIWIRE_CONN_INITED, _FINALIZED,
     * _FAILED. */
    void (*state)(void *ctx, uint32_t job, uint32_t rank, uint32_t state);
    /* A client here asks for the end of its job. */
    void (*aborted)(void *ctx, uint32_t job, uint32_t rank, int32_t code, const char *text);
    /* A client here starts or stops waiting in a collective: PMIWIRE_COLL_FENCE, or
     * PMIWIRE_STUCK_GROUP. NULL: not wanted; libpmix then ends fences of one node itself. */
    void (*waits)(void *ctx, uint32_t job, uint32_t rank, uint32_t coll, bool begins);
    /* A collective in which clients wait cannot complete: this rank, of any node, is gone.
     * why: PMIWIRE_GONE_* */
    void (*stuck)(void *ctx, uint32_t job, uint32_t rank, uint32_t coll, uint32_t why);
    /* A client here asks for processes. PMIWIRE_PENDING: pmix_host_answer() follows, with the name
     * of their namespace; else an error. */
    int (*spawn)(void *ctx, uint32_t job, uint32_t rank, const struct pmiwire_spawn *req,
                 uint64_t token);
    /* A request to the name service of all nodes: PMIWIRE_NAME_*. Only its owner may unpublish a
     * name. Owners are numbers from 2^31 on. pmix_host_answer() follows, perhaps within the call.
     */
    void (*name)(void *ctx, uint32_t what, uint32_t owner, struct pmiwire_str name,
                 struct pmiwire_str value, uint64_t token);
    /* Sends a frame to another node, for its pmix_host_frame(), as pmiwire_exchange_ops.send. The
     * other node must know job `job` before it gets the frame: keep it until then. 0; 1: enough for
     * now, and pmix_host_link_ready() follows. Needed with two nodes or more. */
    int (*send)(void *ctx, uint32_t node, uint32_t job, const struct iovec *iov, uint32_t n_iov);
};

struct pmix_host_opts {
    const struct pmix_host_ops *ops; /* copied */
    void *ctx;                       /* handed to every callback */
    const char *server;              /* a name of this launch, the same on all nodes */
    const char *host;                /* this node's name, as its ranks see it */
    const char *env_key;             /* info key of a spawn for a variable: NAME=value */
    uint32_t node, n_nodes;
};

/* A job. On each node the launcher announces all jobs, in the order of their numbers. */
struct pmix_host_job {
    uint32_t number; /* below 2^31, and above those before it */
    const char *nspace;
    uint32_t n_ranks;
    const uint32_t *node_of; /* by rank; NULL: all are here */
    uint32_t n_apps;
    const uint32_t *app_procs; /* ranks of each program */
    const char *parent;        /* namespace that has spawned it; NULL: none */
    uint32_t parent_rank;      /* and rank */
    uint32_t universe;         /* processes that there may be */
    uint32_t n_before;         /* ranks that other jobs have here */
    /* Of the ranks here, in their order; NULL: not bound. A locality may be NULL. */
    const char *const *cpusets;
    const char *const *localities;
    const char *folder; /* for files of libpmix; needed with a rank here. The launcher removes it */
};

/* How a rank's process has ended. */
enum pmix_host_end {
    PMIX_HOST_WELL,     /* with status 0 */
    PMIX_HOST_BADLY,    /* with another status */
    PMIX_HOST_UNSYNCED, /* without finalize */
    PMIX_HOST_SIGNALED,
    PMIX_HOST_ABORTED /* it had asked for the end of all */
};

/* Can ranks use PMIx here? If not, *why says what to install. */
bool pmix_host_available(const char **why);

/* 0, -ENOMEM, or another -errno. */
int pmix_host_create(const struct pmix_host_opts *opts, struct pmix_host **host);
/* Stops libpmix for good. Requests that wait get no answer. NULL is allowed. */
void pmix_host_destroy(struct pmix_host *host);

/*
 * Announces a job. If it has ranks here: starts libpmix's server with the first such job, checks
 * that the description has every key that clients ask for, and sets *vars to the variables of its
 * ranks, besides PMIX_RANK: NULL-terminated; each string and the array are to be freed. Returns 0,
 * or -1 and *why, a sentence to be freed.
 */
int pmix_host_job_begin(struct pmix_host *host, const struct pmix_host_job *job, char ***vars,
                        char **why);
/* No rank of it is left on any node. An unknown number is ignored. */
void pmix_host_job_end(struct pmix_host *host, uint32_t job);
/* A rank's process has ended, on any node. status: its exit status, or the signal. */
void pmix_host_rank_ended(struct pmix_host *host, uint32_t job, uint32_t rank,
                          enum pmix_host_end end, int status);

/* A descriptor to watch: when it is readable, call pmix_host_progress(). */
int pmix_host_fd(const struct pmix_host *host);
void pmix_host_progress(struct pmix_host *host);
/* Twice a second. now_ns: of any monotonic clock. */
void pmix_host_tick(struct pmix_host *host, uint64_t now_ns);

/* A frame of another node has come. False: it is invalid. */
bool pmix_host_frame(struct pmix_host *host, uint32_t node, const void *frame, size_t bytes);
/* The link to a node has room again. */
void pmix_host_link_ready(struct pmix_host *host, uint32_t node);

/* The answer to ops->spawn() or ops->name(). rc: 0, an -errno, or libpmiwire's own. text: the
 * namespace of a spawn, the value of a lookup. token 0: a name that was not found may be
 * published now. */
void pmix_host_answer(struct pmix_host *host, uint64_t token, int rc, struct pmiwire_str text);

#endif
