/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PMI server of this node's ranks: libpmiwire's server engine, and the connections to it.
 *
 * The engine stores pairs by table.c, sends to other nodes over the agents' links, and
 * passes spawns to spawn.c; what ranks do goes to the jobs.
 */
#ifndef PMIRUN_PMI_H
#define PMIRUN_PMI_H

#include <stdbool.h>
#include <stdint.h>

#include <pmiwire/server.h>

#include "loop.h"
#include "timer.h"

struct job;
struct jobs;
struct port;
struct rank;

struct conn {
    struct source src;
    struct pmiwire_conn *wire;
    struct pmiwire_info_conn info; /* as of the last change of its state */
    struct rank *rank;             /* NULL: not identified yet (PMI_PORT) */
    bool is_ours;                  /* PMI_PORT: the kernel reports our user or root as its owner */
    bool queued;                   /* in pmi.ready */
    bool table_sent;               /* sent the descriptor of its job's table, or has none to send */
    uint32_t n_arrays; /* of its job's Allgathers, those whose descriptor has been sent */
    uint32_t n_diags;
    struct conn *next; /* in pmi.ready, then in pmi.closed */
};

struct pmi {
    struct jobs *jobs;
    struct port *port; /* --pmi-port */
    struct pmiwire_server *server;
    struct timer tick;  /* of the engine, every half second */
    struct conn *ready; /* with something to write */
    struct conn *last_ready;
    struct conn *served; /* its event is handled, which ends with writing its answers */
    struct conn *closed; /* closed in this batch of events */
    uint64_t n_conns;    /* open */
};

int pmi_init(struct pmi *pmi);
/* A job begins: 0, or an error; nobody asks for its pairs any more. */
int pmi_add_job(struct pmi *pmi, struct job *job);
void pmi_remove_job(struct job *job);
int pmi_attach(struct rank *r, int fd); /* takes fd */
struct conn *pmi_new_conn(struct pmi *pmi, int fd, uint32_t job, int32_t rank, int *err);
void pmi_read_all(struct rank *r); /* what there is now */
void pmi_drain(struct rank *r);    /* the same, and closes its connection */
/* Its process has ended: reads its last bytes, and closes its connection. */
void pmi_rank_ended(struct rank *r);
void pmi_flush_ready(struct pmi *pmi);
/* Writes the answers that are ready for a job's ranks, without closing a connection. */
void pmi_send_answers(const struct job *job);
void pmi_free_closed(struct pmi *pmi); /* frees what was closed in this batch */

#endif
