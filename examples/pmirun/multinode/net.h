/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP connections between head and agents, and between agents: sockets under channels (channel.h).
 * All are served from the one event loop and nothing here waits. A connection between agents is
 * used one way, by its dialler: two agents that dial each other at once need no agreement.
 *
 * Any process may connect to the listener. A connection that has not proven within --node-timeout
 * that it belongs to the job is dropped. With more than NET_MAX_STRANGERS, and one for each node,
 * in the handshake, the oldest is dropped.
 *
 * A queue of bytes to send has no limit of its own: a sender of much data asks net_full(), and
 * continues when ops->room() is called. One event reads at most SCRATCH_BYTES of a connection.
 */
#ifndef PMIRUN_NET_H
#define PMIRUN_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../local/loop.h"
#include "../local/timer.h"
#include "channel.h"

struct options;

#define NET_MAX_STRANGERS 256u       /* and one for each node */
#define NET_QUEUE_BYTES   (1u << 20) /* waiting on a connection that is not full */

struct netconn {
    struct source src;
    struct net *net;
    struct channel ch;
    bool dialled, connecting, dirty, dead;
    bool shaking;          /* the handshake is not over */
    bool full;             /* net_full() said so, and ops->room() follows */
    uint64_t timeout_ns;   /* what it was given for that */
    struct timer deadline; /* for that */
    char name[80];         /* the other end's address, in words */
    struct netconn *next, *next_dirty;
};

/* Callbacks of a head or an agent. */
struct net_ops {
    bool (*opened)(void *of, struct netconn *nc); /* false: not welcome */
    bool (*frame)(void *of, struct netconn *nc, const void *p, size_t n);
    void (*closed)(void *of, struct netconn *nc,
                   const char *why); /* one that was open, or dialled. Not after net_close() */
    void (*room)(void *of, struct netconn *nc); /* net_full() was true, and is no more */
};

struct net {
    const struct options *opt; /* --node-timeout */
    struct channel_self self;
    const struct net_ops *ops;
    void *of; /* handed to them: the head or the agent */
    struct source listener;
    struct netconn *conns, *dirty;
    struct timer listen; /* when to look for silence */
    uint32_t n_strangers, n_complaints;
    bool any_dead;
};

/* Call it first: it initializes libsodium too. Exits on failure. */
void net_init(struct net *net, const struct options *opt, const struct net_ops *ops, void *of);
/* Listens at `address` (a number; NULL: everywhere). 0 or -errno, and the port. */
int net_listen(struct net *net, const char *address, uint16_t *port);
/* NULL: no valid address, or out of memory or descriptors (*err). Else opened() or closed()
 * follows. `hasty`: give up soon, since there is another address to try. */
struct netconn *net_dial(struct net *net, const char *address, uint16_t port, uint32_t peer,
                         bool hasty, int *err);
int net_send(struct netconn *nc, const void *p, size_t n);
void net_close(struct netconn *nc);
/* Do more than NET_QUEUE_BYTES wait to be sent? Then ops->room() is called when half of that has
 * gone, by the loop and never from here. */
bool net_full(struct netconn *nc);
bool net_shaking(const struct net *net);     /* is a dialled connection not open yet? */
uint64_t net_timeout(const struct net *net); /* --node-timeout in ns; never is very long */
/* The numeric address of either end; empty when there is none. */
void net_address(const struct netconn *nc, bool local, char *out, size_t n);
/* This machine's addresses, numeric, blanks between them, the loopback's last. */
char *net_own_addresses(void);

/* Of one node, NULL: no-ops. */
void net_flush(struct net *net);
void net_free_closed(struct net *net);

#endif
