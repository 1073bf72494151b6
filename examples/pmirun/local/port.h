/* SPDX-License-Identifier: BSD-3-Clause */
/* PMI_PORT: ranks that connect over TCP, and their identification. */
#ifndef PMIRUN_PORT_H
#define PMIRUN_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pmiwire/server.h>

#include "loop.h"

struct jobs;
struct pmi;
struct rank;

struct port {
    struct pmi *pmi; /* that serves the connections */
    struct source listener;
    uint16_t number;
    uint32_t n_bad_ids;
    uint32_t n_unknown;    /* open connections without identity */
    uint64_t n_complaints; /* about them */
    int diag_fd;           /* NETLINK_SOCK_DIAG, -1: none */
};

int port_init(struct port *port);
void port_assign(const struct jobs *jobs, struct rank *r); /* gives it a token */
/* Call it before printing an error of an unidentified client. False: only count it, so that a
 * hostile client cannot fill the log. */
bool port_may_complain(struct port *port);
/* The server's, see pmiwire/server.h. */
int port_identify(void *ctx, struct pmiwire_conn *conn, void *cookie, int32_t pmiid, uint32_t *job,
                  int32_t *rank);

#endif
