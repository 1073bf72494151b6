/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The head of several nodes: starter.c starts agents there, nodes.c sends them orders and notices
 * their loss, head.c handles their messages.
 */
#ifndef PMIRUN_HEAD_H
#define PMIRUN_HEAD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../local/loop.h"
#include "../local/message.h"
#include "net.h"

struct input;
struct job;
struct jobs;
struct options;
struct output;
struct rank;

struct node {
    uint32_t id;
    char *name;
    struct netconn *link; /* NULL: its agent has not connected yet, or is gone */
    bool ready;           /* its MSG_READY has come */
    bool done, lost;
    bool seeks; /* it has looked for a name that was not there */
    bool heard; /* since the last MSG_ASK to it */
    uint32_t n_unanswered;
    char address[64];
    uint32_t port;
    uint64_t input_took; /* bytes of stdin that its ranks have got */
    uint32_t owed[2];    /* bytes of stdout and stderr taken and not reported yet */
};

enum starter_state {
    STARTER_WAITS, /* for a place among --fanout, or for its next try */
    STARTER_RUNS,
    STARTER_EXITED
};

/* A process that brings agents to their nodes: ssh, one for each; srun, one for all. */
struct starter {
    struct source src; /* what it prints */
    int in;            /* its stdin, -1: closed. Its end is the agents' end */
    pid_t pid;
    enum starter_state state;
    bool under_way;                /* it runs, and its agents have not connected */
    bool here;                     /* it is the agent itself */
    uint32_t first, n;             /* nodes */
    uint32_t n_tries;              /* so far */
    uint64_t again_ns;             /* when the next is due */
    uint64_t started_ns, limit_ns; /* start of this try; when to signal or kill it; 0: never */
    bool hung;                     /* it was ended, for a try after it */
    unsigned advice;               /* row of starter.c for its output; 0: none */
    bool login_printed;            /* output that is not pmirun's */
    char line[1024];
    size_t len;
};

/* Its ranks are those of all nodes: their agents' messages are the events of the jobs. */
struct head {
    const struct options *opt;
    struct jobs *jobs;
    struct output *output;
    struct input *input;
    const sigset_t *orig_mask;    /* of signals, for starters */
    struct pmiwire_server *names; /* what ranks have published */
    struct net net;
    struct node *nodes;
    struct starter *starters;
    uint32_t n_starters;
    uint32_t first_waiting; /* index: starters before it do not wait */
    uint32_t n_under_way;
    const char *self;   /* this program's path */
    uint64_t wait_ns;   /* until then the head retries hosts that cannot be reached */
    struct timer again; /* the next try is due */
    struct timer limit; /* when to kill the next command that hangs */
    bool login_told;    /* reported that a login prints */
    uint32_t n_ready;
    uint16_t port;
    bool ending;
    struct timer start;           /* by then all agents must have connected; not set: they have */
    struct timer ask;             /* next MSG_ASK to all */
    struct timer end;             /* by then all must have sent MSG_DONE */
    struct timer reap;            /* by then all starters must have ended */
    union node_counters counters; /* sums */
    struct msg msg;               /* to agents, see head_msg() */
};

/* head.c */
extern const struct net_ops head_net_ops;
/* A rank of this node; NULL: there is no such. */
struct rank *rank_of_node(struct head *h, const struct node *node, uint32_t job, uint32_t number);

/* starter.c: how agents get to their nodes */
void starters_init(struct head *h, const char *self); /* self: this program's path */
void starters_more(struct head *h);                   /* starts those whose turn it is */
/* An agent of that try has connected. False: the try is abandoned; another agent replaces it. */
bool starters_came(struct head *h, uint32_t node, uint32_t try);
/* No agent has connected from that node: `how`, with advice; to be freed. */
char *starters_silent(const struct head *h, uint32_t node, const char *how);
bool starters_end(struct head *h);  /* closes their stdin; false: some run */
void starters_stop(struct head *h); /* those that have brought no agent */

/* nodes.c */
/* Begins a message to agents, which nodes_tell() sends. Nothing that it calls begins another. */
struct msg *head_msg(struct head *h, enum message what);
void nodes_tell(struct head *h, struct node *node);
void nodes_ready(struct head *h, struct node *node);
void nodes_lost(struct head *h, struct node *node, const char *why);
void nodes_done(struct head *h, struct node *node);

/* far_requests.c. A node's messages; false: malformed. */
bool head_spawn_asked(struct head *h, const struct node *node, struct msg_in *in);
bool names_asked(struct head *h, struct node *node, struct msg_in *in);
int names_init(struct head *h);

#endif
