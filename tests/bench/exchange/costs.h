/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulation's costs: one table, with the source of each figure. */
#ifndef FENCEPOST_BENCH_COSTS_H
#define FENCEPOST_BENCH_COSTS_H

#include <stddef.h>

struct costs { /* ns; of bytes, ns a byte */
    /* a rank's process */
    double skew;   /* ranks begin at moments spread evenly over this time */
    double arrive; /* until it makes its first request */
    double cold;   /* in addition, in a job's first exchange: page faults and symbol binding */
    double rank;   /* a request: half until it is sent, half until its answer is taken */
    /* a node's server; "both ends": each of the two servers pays it */
    double turn;       /* fixed: asking for input */
    double request;    /* of a rank: half to take it, half to answer it */
    double packet;     /* the data of one send() or recv() between nodes; both ends */
    double frame;      /* the exchange's, sealed or unsealed; both ends */
    double copy_byte;  /* of a frame, through sockets and buffers; both ends */
    double crypt_byte; /* of a frame, sealed or unsealed; both ends */
    double pair;       /* that a Fence brings: into the node's table */
    double connect;    /* a connection: system calls; both ends */
    double shake;      /* its handshake: public keys; both ends */
    /* processors */
    double wake;      /* a process, on a processor that is idle */
    double switch_to; /* a process, on one that has just become free */
    /* between nodes */
    double L; /* latency */
    double G; /* a byte, added to it */
};

enum cost_kind {
    COST_GIVEN,
    COST_MEASURED, /* by wire_costs */
    COST_FITTED,   /* to processor times, by fit_exchange */
    COST_IDLE,     /* to times: no processor time shows it */
};

struct cost {
    const char *name, *unit;
    size_t offset; /* in struct costs */
    enum cost_kind kind;
    double hosts; /* network namespaces that share this machine's two processors */
    double own;   /* a cluster whose processes have a processor each */
    const char *source;
    double from, to; /* the fit's limits */
};

#define N_COSTS 17

extern const struct cost cost_table[N_COSTS];

/* One column of the table. */
void costs_hosts(struct costs *c);
void costs_own(struct costs *c);

double *cost_of(struct costs *c, const struct cost *which);

#endif
