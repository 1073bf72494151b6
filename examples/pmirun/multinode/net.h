/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP connections between head and agents, and between agents: sockets under channels (channel.h).
 * All are served from the one event loop and nothing here waits. A connection between agents is
 * used one way, by the one that dialled it, so that two who want each other at once have nothing to
 * settle.
 *
 * Anybody may connect to the listener. Who has not proven within SHAKE_NS that it belongs to the
 * job is dropped, and when more than NET_MAX_STRANGERS and the nodes of the job are at it, the
 * oldest of them.
 */
#ifndef PMIRUN_NET_H
#define PMIRUN_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../local/loop.h"
#include "channel.h"

#define NET_MAX_STRANGERS 256u /* and one for each node */

struct netconn {
    struct source src;
    struct channel ch;
    bool dialled, connecting, armed, dirty, dead;
    uint64_t deadline_ns; /* the handshake must be over by then; 0: it is */
    char name[80];        /* the other end's address, in words */
    struct netconn *next, *next_dirty;
};

/* What head and agent make of their connections. */
struct net_ops {
    bool (*opened)(struct pmirun *pr, struct netconn *nc); /* false: not welcome */
    bool (*frame)(struct pmirun *pr, struct netconn *nc, const void *p, size_t n);
    void (*closed)(struct pmirun *pr, struct netconn *nc,
                   const char *why); /* one that was open, or dialled. Not after net_close() */
};

struct net {
    struct channel_self self;
    const struct net_ops *ops;
    struct source listener;
    struct netconn *conns, *dirty;
    uint64_t deadline_ns; /* when to look at handshakes or for silence, 0: never */
    uint64_t listen_ns;   /* when to look for silence, 0: never */
    uint32_t n_strangers, n_complaints;
    bool any_dead;
};

/* Before anything else: libsodium too. Exits when that fails. */
void net_init(struct pmirun *pr, const struct net_ops *ops);
/* Listens at `address` (a number; NULL: everywhere). 0 or -errno, and the port. */
int net_listen(struct pmirun *pr, const char *address, uint16_t *port);
/* NULL when that is no address, or memory or descriptors ran out; *err says why. Else opened() or
 * closed() follows. */
struct netconn *net_dial(struct pmirun *pr, const char *address, uint16_t port, uint32_t peer,
                         int *err);
int net_send(struct pmirun *pr, struct netconn *nc, const void *p, size_t n);
int net_send2(struct pmirun *pr, struct netconn *nc, const void *head, size_t head_len,
              const void *p, size_t n);
void net_close(struct pmirun *pr, struct netconn *nc);
size_t net_waiting(const struct netconn *nc); /* bytes that are still to be sent */
/* The numeric address of either end; empty when there is none. */
void net_address(const struct netconn *nc, bool local, char *out, size_t n);
/* This machine's addresses, numeric, blanks between them, the loopback's last. */
char *net_own_addresses(void);

void net_flush(struct pmirun *pr);
void net_bury(struct pmirun *pr);
void net_deadlines(struct pmirun *pr); /* at deadline_ns */

#endif
