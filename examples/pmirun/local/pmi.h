/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks' PMI connections. */
#ifndef PMIRUN_PMI_H
#define PMIRUN_PMI_H

#include <stdbool.h>
#include <stdint.h>

#include <pmiwire/server.h>

#include "loop.h"

struct job;
struct rank;

struct conn {
    struct source src;
    struct pmiwire_conn *pmi;
    struct rank *rank; /* NULL: not identified yet (PMI_PORT) */
    bool is_ours;      /* PMI_PORT: the kernel reports our user or root as its owner */
    bool armed;        /* waits for room to write */
    bool queued;       /* in conns.ready */
    bool table_sent;   /* sent the descriptor of its job's table, or has none to send */
    uint32_t n_arrays; /* of its job's Allgathers, those whose descriptor has been sent */
    uint32_t n_diags;
    struct conn *next; /* in conns.ready, then in conns.grave */
};

struct conns {
    struct conn *ready; /* with something to write */
    struct conn *grave; /* closed in this batch of events */
    uint64_t n;         /* open */
};

int pmi_init(struct pmirun *pr);
void pmi_tick(struct pmirun *pr); /* pr->tick: the engine, and PMIx, every half second */
int pmi_attach(struct pmirun *pr, struct rank *r, int fd); /* takes fd */
struct conn *pmi_new_conn(struct pmirun *pr, int fd, uint32_t job, int32_t rank, int *err);
void pmi_read_all(struct pmirun *pr, struct rank *r); /* what there is now */
void pmi_drain(struct pmirun *pr, struct rank *r);    /* the same, and closes its connection */
void pmi_flush_ready(struct pmirun *pr);
/* Writes the answers that are ready for a job's ranks, without closing a connection. */
void pmi_send_answers(struct pmirun *pr, const struct job *job);
void pmi_free_closed(struct pmirun *pr); /* frees what was closed in this batch */

#endif
