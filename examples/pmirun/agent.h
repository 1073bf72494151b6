/* SPDX-License-Identifier: BSD-3-Clause */
/* An agent: agent.c is its life and its connections, orders.c what its head tells it. */
#ifndef PMIRUN_AGENT_H
#define PMIRUN_AGENT_H

#include "message.h"
#include "net.h"

struct peer {
    char *address;
    uint16_t port;
    char *ucx; /* its UCX address */
    size_t ucx_len;
    struct netconn *out; /* we dialled it */
    int broken;          /* why nothing could be sent to it; 0: it could */
    bool lost;           /* the head has been told */
};

/* A frame for a job that we have not been told of yet. */
struct early {
    struct early *next;
    uint32_t from, job;
    size_t n;
    char bytes[];
};

struct agent {
    struct source boot; /* stdin: its end is the head's */
    struct netconn *head;
    uint32_t node, n_nodes;
    uint16_t head_port;
    char **addresses; /* of the head, NULL-terminated */
    uint32_t next;    /* address to try */
    char name[64];    /* this host's */
    enum link_kind links;
    bool told;     /* the head has accepted us, and knows where we are */
    bool ending;   /* all ranks of all nodes have ended */
    bool over;     /* nobody is there any more to tell */
    bool unserved; /* there is no PMI server, and the head has been told */
    bool done_sent;
    uint64_t done_ns; /* by then the head must have seen it */
    bool by_ucx;
    struct peer *peers; /* n_nodes of them, once told */
    struct early *early, **early_tail;
    size_t early_bytes;
    bool any_broken;
    struct msg msg; /* of agent_send() */
};

/* orders.c */
bool orders_frame(struct pmirun *pr, const void *p, size_t n);

/* agent.c */
void agent_tell_here(struct pmirun *pr);
void agent_begin_exchange(struct pmirun *pr, struct job *job); /* takes what came early */

#endif
