/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job of many nodes in virtual time: the library's own exchange on each, a LogGP network between
 * them, and ranks that follow a script.
 *
 * Costs. A node's server does one thing at a time. Handling a frame costs it `o` and `byte_ns` a
 * byte, sending one `o`; the node's link then is busy for `g`, or G a byte if that is longer; the
 * frame is there L later, plus G a byte, and takes the receiver's link for as long. Serving a
 * rank's request costs `serve`, each answer that is given later `reply`; a rank's next request
 * follows `turn` after the answer.
 */
#ifndef FENCEPOST_BENCH_SIM_H
#define FENCEPOST_BENCH_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include <pmiwire/exchange.h>

struct costs { /* ns */
    double L, o, g, G, byte_ns, serve, reply, turn;
};

/* What ranks do, one after the other. */
enum op { OP_END, OP_PUT, OP_FENCE, OP_GET_LEFT, OP_GET_RIGHT, OP_GET_ONE, OP_RING, OP_MAX_ };

struct script {
    const char *who;
    enum op ops[6];
    uint32_t design, fence, flags;
    uint32_t hint;
    uint32_t how;       /* PMIWIRE_GET_* */
    uint32_t put_every; /* every so many ranks put: 1 all, 2 half, 0: rank 0 alone */
    bool cyclic;        /* ranks are dealt to the nodes one by one; else node after node */
    bool scattered;     /* keys have nothing in common; else they are rank after rank */
};

struct result {
    double time_us;
    double op_us[OP_MAX_];                 /* mean over ranks of the time in each */
    uint64_t frames[PMIWIRE_FRAME_COUNT_]; /* sent, all nodes */
    uint64_t max_frames;                   /* sent and received by one node */
    uint64_t max_sent;
    double mean_frames, mean_bytes; /* sent by a node */
    uint64_t max_bytes_received;
    uint64_t max_keys, max_memory; /* of a node */
    double mean_keys;
    uint64_t n_requests, max_requests_per_key;
    uint64_t payload; /* bytes of keys and values that the Fence has brought to a node, its own
                         among them, as the whole set would be */
    uint32_t sample;  /* one of so many nodes' pairs is in the Fence, and is charged for as many */
    bool right;       /* every rank has found what it should */
};

/* sample 0: as memory allows; arity of the tree, 0: the library's choice. 0, or 1 when memory runs
 * out. */
int sim_run(const struct script *s, uint32_t n_nodes, uint32_t per_node, const struct costs *c,
            uint32_t sample, uint32_t arity, struct result *r);

#endif
