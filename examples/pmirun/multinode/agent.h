/* SPDX-License-Identifier: BSD-3-Clause */
/* An agent: agent.c has its life and its connections, orders.c its head's orders. */
#ifndef PMIRUN_AGENT_H
#define PMIRUN_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../options.h"
#include "../local/message.h"
#include "net.h"

struct input;
struct job;
struct jobs;
struct output;
struct rank;

/* Another agent. */
struct peer {
    char *address;
    uint16_t port;
    struct netconn *out; /* we dialled it */
    int broken;          /* errno of a failed send to this node; 0: none */
    bool needed;         /* we have sent to it */
    bool lost;           /* reported to the head */
};

/* A frame for a job that the head has not announced here yet. */
struct early {
    struct early *next;
    uint32_t from, job;
    uint8_t what; /* MSG_EXCHANGE or MSG_PMIX */
    size_t n;
    char bytes[];
};

struct agent {
    struct options *opt; /* the head's, as far as an agent needs them */
    struct jobs *jobs;   /* with the ranks here alone; no decisions */
    struct output *output;
    struct input *input;
    struct net net;
    struct source boot; /* stdin: its end is the head's */
    struct netconn *head;
    uint32_t node, n_nodes;
    uint32_t try; /* the head's try that started this agent; 0: Slurm did */
    uint16_t head_port;
    char **addresses; /* of the head, NULL-terminated */
    uint32_t next;    /* address to try */
    char name[64];    /* this host's */
    bool told;        /* the head has accepted this agent and knows its address */
    bool ending;      /* all ranks of all nodes have ended */
    bool over;        /* the head is gone */
    bool unserved;    /* no PMI server runs here; reported to the head */
    bool done_sent;
    struct timer done;  /* by then the head must have answered MSG_DONE */
    struct timer leave; /* until then it waits for handshakes in flight; not set: not leaving */
    struct peer *peers; /* n_nodes of them, after MSG_PEERS */
    struct early *early, **early_tail;
    size_t early_bytes;
    bool any_broken;
    struct step *step; /* the step, if Slurm starts the ranks; NULL: the agent does */
    struct msg msg;    /* to the head, see agent_msg() */
    struct msg frame;  /* to another agent */
};

/* orders.c: an order of the head; false: malformed */
bool orders_frame(struct agent *a, const void *p, size_t n);

/* agent.c */
extern const struct net_ops agent_net_ops;
void agent_progress(struct agent *a); /* as nodes_X() of role.h */
bool agent_may_end(struct agent *a);
bool agent_ended(struct agent *a);
/* Begins a message to the head, which agent_tell() sends. */
struct msg *agent_msg(struct agent *a, enum message what);
void agent_tell(struct agent *a);
/* A job has begun: makes links to its neighbours, takes the frames that came early. */
void agent_begin_exchange(struct agent *a, struct job *job);
/* A job without a rank here has begun: takes the frames that came early. */
void agent_take_early(struct agent *a, uint32_t number);

#endif
