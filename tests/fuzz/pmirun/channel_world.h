/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the parts of fuzz_pmirun_channel: the server under test, and the links to it. */
#ifndef FENCEPOST_TESTS_CHANNEL_WORLD_H
#define FENCEPOST_TESTS_CHANNEL_WORLD_H

#include <stdlib.h>

#include <sodium.h>

#include "../../../examples/pmirun/local/pmirun.h"
#include "../../../examples/pmirun/multinode/agent.h"
#include "../../../examples/pmirun/multinode/head.h"

enum { LINKS = 3, FIRST_PID = 1000000000, SUM_BYTES = 32 };

static inline void check(bool holds)
{
    if (!holds)
        abort();
}

/* One that has the secret, at the other end of a link. */
struct peer_end {
    struct channel_self self;
    struct channel ch;
    struct netconn *nc;
    uint64_t n_sent, n_heard; /* frames that went into the link, and that were taken out of it */
    uint64_t out_of_turn;     /* whatever follows that one cannot be taken */
    size_t sent_len;          /* of the last frame */
    uint8_t sent[SUM_BYTES];  /* its payload's hash */
    uint8_t *kept;
    size_t kept_len; /* bytes of what was delivered last */
};

struct world {
    struct pmirun pr;
    struct head head;
    struct agent agent;
    struct net *net; /* of one of them */
    struct peer_end peers[LINKS];
    struct peer_end *speaks; /* whose bytes are being read */
    bool altered;            /* and they are not what was sent */
};

/* channel_system.c: what stands in for the system, and for pmirun's files that own its objects */
extern struct source *stdin_copy;                      /* the one source that is real */
extern struct randombytes_implementation same_numbers; /* libsodium's: the same in each run */

/* fuzz_pmirun_channel.c: what its connections bring along */
void begin_net(struct world *w, struct net *net, uint32_t id);

/* channel_link.c: links to the server, and those at their other ends */
void connect_link(struct world *w, int i, uint32_t id, bool dials);
void broken(struct world *w, struct peer_end *e, const char *why);
void listen_to_server(struct world *w);
void deliver(struct world *w, struct peer_end *e, const uint8_t *p, size_t n);
void seal(struct peer_end *e, const uint8_t *payload, size_t n);
void say_frame(struct world *w, struct peer_end *e, const uint8_t *payload, size_t n);
void say_msg(struct world *w, struct peer_end *e, struct msg *m);
void peer_replayed(void *ctx, struct channel *c, uint64_t number);

/* channel_head.c: a head with three agents */
void begin_head(struct world *w, bool with_prelude);
void end_head(struct head *h);

/* channel_agent.c: an agent with its head and two others */
void begin_agent(struct world *w, bool with_prelude);
void end_agent(struct agent *a);
void launch_all(struct jobs *jobs);
void end_rank(struct jobs *jobs, unsigned which);

#endif
