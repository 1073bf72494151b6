/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of PMIx clients that concern other nodes: collectives, data of ranks elsewhere,
 * published values, events. On one node all of them complete at once, except a lookup that waits.
 *
 * The functions are called in the loop's thread. `done` is called exactly once for each request,
 * perhaps before the function returns, and not after far_stop(); its data is valid during the call,
 * and it calls nothing of this file.
 *
 * Over nodes (far.c has the messages):
 *   - a collective is a star: each member node sends its clients' data to the lowest member, which
 *     sends all of it to each of them (collect.h). With n nodes and B bytes in all that node sends
 *     (n - 1) B. The exchange of PMI's pairs is a tree instead;
 *   - a modex asks the node of the rank;
 *   - published values are kept by the head (store.h), or here on one node. PMI's published names
 *     are separate: PMI and PMIx clients do not see each other's;
 *   - each node knows every job, so that libpmix knows each namespace that a client may name.
 *
 * Status codes are libpmix's numbers under names of our own: a head may have no libpmix.
 */
#ifndef PMIRUN_FAR_H
#define PMIRUN_FAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAR_OK      0
#define FAR_EPERM   (-23) /* PMIX_ERR_NO_PERMISSIONS */
#define FAR_ETIME   (-24) /* PMIX_ERR_TIMEOUT */
#define FAR_EINVAL  (-27) /* PMIX_ERR_BAD_PARAM */
#define FAR_ELIMIT  (-29) /* PMIX_ERR_OUT_OF_RESOURCE */
#define FAR_ENOMEM  (-32) /* PMIX_ERR_NOMEM */
#define FAR_ENOENT  (-46) /* PMIX_ERR_NOT_FOUND */
#define FAR_ENOTSUP (-47) /* PMIX_ERR_NOT_SUPPORTED */
#define FAR_EEXIST  (-53) /* PMIX_ERR_DUPLICATE_KEY */
#define FAR_EGONE   (-61) /* PMIX_ERR_LOST_CONNECTION: a rank that it needs is gone */

#define FAR_NSPACE_BYTES 255u /* a namespace's name, as PMIX_MAX_NSLEN */

struct job;
struct pmirun;
struct rank;

typedef void (*host_done_fn)(void *ctx, int status, const char *data, size_t len);

struct proc_name {
    const char *nspace;
    uint32_t rank;
};

/* A namespace that has no client here. */
struct space {
    const char *nspace;
    uint32_t n_ranks;
    const uint32_t *node_of; /* by rank */
    uint32_t n_apps;
    const uint32_t *app_procs; /* ranks of each program */
    const char *parent;        /* namespace that has spawned it; NULL: none */
};

enum far_kind { FAR_FENCE = 1, FAR_CONNECT, FAR_DISCONNECT };

/*
 * All of this node's participants have entered. done: the concatenation of all nodes' data, in the
 * order of nodes; FAR_EGONE when a rank is gone that has not entered, FAR_ENOENT when a namespace
 * is not known, FAR_ELIMIT beyond a limit of collect.h. No wildcards; any order.
 */
void far_collect(struct pmirun *pr, enum far_kind kind, const struct proc_name *procs, size_t n,
                 const void *data, size_t len, host_done_fn done, void *ctx);

/* The data that a rank on another node has put. done: FAR_ENOENT when there is no such rank, or it
 * is gone and has put nothing. */
void far_modex(struct pmirun *pr, const char *nspace, uint32_t rank, host_done_fn done, void *ctx);

/* ---- published values ---- */

enum names_what { NAMES_PUBLISH = 1, NAMES_LOOKUP, NAMES_UNPUBLISH };

/* Who may look up, with libpmix's numbers. The others (RM, CUSTOM) are FAR_ENOTSUP. */
enum names_range {
    NAMES_UNDEF = 0, /* as SESSION */
    NAMES_LOCAL = 2, /* ranks on the publisher's node */
    NAMES_NSPACE = 3,
    NAMES_SESSION = 4, /* all jobs of this pmirun */
    NAMES_GLOBAL = 5,  /* the same */
    NAMES_PROC = 7     /* the publisher alone */
};

/* How long a value stays, with libpmix's numbers. */
enum names_persist {
    NAMES_INDEF = 0,      /* until it is unpublished */
    NAMES_FIRST_READ = 1, /* until a lookup has found it */
    NAMES_UNTIL_PROC = 2, /* until the publisher is gone */
    NAMES_UNTIL_JOB = 3,  /* until its job is over */
    NAMES_UNTIL_END = 4   /* as INDEF: until pmirun ends */
};

struct names_value {
    const char *key;
    const void *p; /* opaque */
    size_t len;
};

struct names_req {
    enum names_what what;
    struct proc_name by;
    uint32_t uid;
    uint8_t range; /* lookup: publishers within this range of the asker, besides what they allow */
    uint8_t persist;
    /* lookup and unpublish: keys alone; unpublish without any: all that `by` has published */
    const struct names_value *values;
    uint32_t n_values;
    uint32_t wait;      /* lookup: until this number of keys is there; 0: does not wait */
    uint32_t timeout_s; /* 0: none */
};

/*
 * `done` of a publish gets FAR_EEXIST when one of the keys was already published in that range;
 * then none of the new values is stored. It gets FAR_ELIMIT beyond a limit of store.h. `done` of a
 * lookup gets FAR_OK when anything was found, and data for far_names_next(); else FAR_ENOENT,
 * FAR_ETIME, or FAR_EGONE: the rank that asked has ended.
 */
void far_names(struct pmirun *pr, const struct names_req *req, host_done_fn done, void *ctx);

struct names_item {
    struct proc_name owner;
    const char *key;
    const void *p;
    size_t len;
};

/* The next value that a lookup found; false: no more. Strings are NUL-terminated. */
bool far_names_next(const char **data, size_t *left, struct names_item *item);

/* ---- what happens ---- */

/* Notifies the other nodes, which call host_event(). */
void far_event(struct pmirun *pr, int code, const struct rank *r, int status);
/* A rank here has finalized or ended: requests that still need it fail, and job_stuck() is called
 * for a collective in which others wait. A second call is a no-op. */
void far_rank_gone(struct pmirun *pr, const struct rank *r);
void far_job_over(struct pmirun *pr, const struct job *job);
/* The server runs: calls host_space() for each namespace without a rank here, later ones too. */
void far_ready(struct pmirun *pr);
void far_tick(struct pmirun *pr); /* every half second */
/* Frees everything. Requests that wait get no callback. */
void far_stop(struct pmirun *pr);

/* ---- for multinode/; a head calls far_rank_gone(), far_job_over(), far_tick() too ---- */

/* A piece of a message of a node, or of the head, whose number is n_nodes. False: it is invalid.
 * far_room(): the link there has room again. */
bool far_heard(struct pmirun *pr, uint32_t from, const void *p, size_t n);
void far_room(struct pmirun *pr, uint32_t node);
/* Agent: a job begins here; handles messages about it that came early. */
void far_known(struct pmirun *pr, uint32_t number);
/* A job without a rank here begins (false: its number is invalid); it is over. */
bool far_space(struct pmirun *pr, uint32_t number, const struct space *s);
void far_space_over(struct pmirun *pr, uint32_t number);

#endif
