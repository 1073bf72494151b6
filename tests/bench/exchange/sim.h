/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job of many nodes in virtual time: the library's own exchange on each, a network between them,
 * and ranks that follow a script. Servers and ranks are processes that need a processor
 * (processors.h); costs.h has the costs of their work.
 *
 * A rank's request costs the rank and its server, and both must be woken. In one turn a server
 * takes all its input, answers ranks one by one, and at the end sends each other node one packet. A
 * node dials another when it first has something for it, unless the link exists from the start: its
 * frames wait for the end of the handshake.
 */
#ifndef FENCEPOST_BENCH_SIM_H
#define FENCEPOST_BENCH_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include <pmiwire/exchange.h>

#include "costs.h"

/* The ranks' script, one operation after the other. */
enum op { OP_END, OP_PUT, OP_FENCE, OP_GET_LEFT, OP_GET_RIGHT, OP_GET_ONE, OP_RING, OP_MAX_ };

struct script {
    const char *who;
    enum op ops[6];
    uint32_t design, fence, flags;
    uint32_t hint;
    uint32_t how;        /* PMIWIRE_GET_* */
    uint32_t put_every;  /* one in this many ranks puts: 1 all, 2 half, 0: rank 0 alone */
    uint32_t put_before; /* DENSE pairs that each rank has put before it begins, at no cost */
    bool cyclic;         /* ranks are dealt to the nodes one by one; else node after node */
    bool scattered;      /* keys are scattered; else they follow the ranks */
};

/* Links that exist at the start, at no cost. Others are opened on demand. */
enum connected {
    CONNECTED_TREE, /* parents and children: as pmirun has it */
    CONNECTED_ALL,
    CONNECTED_NONE,
};

struct setup {
    uint32_t n_nodes, per_node;
    uint32_t n_processors; /* that all nodes share; 0: a processor for each process */
    enum connected connected;
    bool cold;       /* the script is the job's first exchange */
    uint32_t sample; /* 0: as memory allows */
    uint32_t arity;  /* of the tree, 0: the library's choice */
};

struct result {
    double time_us;
    double op_us[OP_MAX_];                 /* mean over ranks of the time in each */
    double ranks_us, servers_us;           /* on processors, all of them together */
    uint64_t frames[PMIWIRE_FRAME_COUNT_]; /* sent, all nodes */
    uint64_t n_packets, n_connections;     /* all nodes */
    uint64_t max_connections;              /* dialled by one node */
    uint64_t max_frames;                   /* sent and received by one node */
    uint64_t max_sent;
    double mean_frames, mean_bytes; /* sent by a node */
    uint64_t max_bytes_received;
    uint64_t max_keys, max_memory; /* of a node */
    double mean_keys;
    uint64_t n_requests;
    uint64_t payload; /* bytes of keys and values that the Fence has brought to a node, its own
                         among them, as the whole set would be */
    uint32_t
        sample; /* one node's pairs in `sample` are in the Fence, and are charged `sample` times */
    bool right; /* every rank has found the right values */
};

/* 0, or 1 when memory runs out. */
int sim_run(const struct script *s, const struct setup *setup, const struct costs *c,
            struct result *r);

#endif
