/* SPDX-License-Identifier: BSD-3-Clause */
/* The state that far.c and far_nodes.c share, and their calls of each other. */
#ifndef PMIRUN_FAR_NODES_H
#define PMIRUN_FAR_NODES_H

#include "far.h"

struct collect;
struct early;
struct far_space;
struct parcels;
struct served;
struct store;
struct store_who;

/* One that has not been answered. */
struct request {
    struct request *next;
    uint64_t id;
    host_done_fn done; /* NULL: a node has asked the head, in `node` and `their_id` */
    void *ctx;
    uint32_t node;
    uint64_t their_id;
};

struct far {
    struct store *store; /* NULL: an agent, whose head has it */
    struct request *requests;
    uint64_t last_id;
    /* several nodes; NULL with one */
    struct parcels *parcels;
    struct collect *collect; /* an agent's */
    struct far_space *spaces;
    struct served *served;
    struct early *early, **early_tail;
    size_t early_bytes;
    uint32_t n_served;
    uint32_t n_known; /* numbers of known namespaces are below this */
    bool ready;
};

/* Where a job's ranks are. */
struct far_place {
    uint32_t number, n_ranks;
    const char *nspace;
    const uint32_t *node_of; /* NULL: all here */
};

/* far.c */
struct far *far_get(struct pmirun *pr);
struct request *far_request(struct far *f, host_done_fn done, void *ctx);
/* The answer to a request. False: no such request. */
bool far_answer(struct pmirun *pr, uint64_t id, int status, const char *data, size_t len);

/* far_nodes.c; of an agent unless it says head */
void far_nodes_init(struct pmirun *pr, struct far *f); /* a head's too */
bool far_find(const struct pmirun *pr, const char *nspace, struct far_place *place);
void far_nodes_modex(struct pmirun *pr, const struct far_place *place, uint32_t rank,
                     host_done_fn done, void *ctx);
void far_nodes_names(struct pmirun *pr, const struct far_place *by, const struct names_req *req,
                     host_done_fn done, void *ctx);
/* Head: answers a node's request. */
void far_nodes_named(struct pmirun *pr, const struct request *r, int status, const char *data,
                     size_t len);
void far_nodes_event(struct pmirun *pr, int code, const struct rank *r, int status);
void far_nodes_gone(struct pmirun *pr);
void far_nodes_over(struct pmirun *pr, uint32_t job);
void far_nodes_ready(struct pmirun *pr);
void far_nodes_tick(struct pmirun *pr);
void far_nodes_stop(struct far *f); /* a head's too */

#endif
