/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives over nodes, matched by signature. Sans-I/O: data of a node's participants and
 * messages of other nodes go in; messages and results come out.
 *
 * A signature is a string of bytes, the same on all nodes: the kind and the sorted list of
 * processes (far.c makes it). Its *members* are the nodes that have some of these processes, in
 * ascending order. The first is the root:
 *
 *   JOIN    member to root    all my participants have entered: their data, or an error status
 *   RESULT  root to members   all have entered: the data of all, in the order of nodes; or a status
 *   ASK     root to member    others wait for you: answer FAIL if you cannot join
 *   FAIL    member to root    I cannot join: one of my participants is gone
 *
 * A signature may be used again, even before the last collective has ended everywhere. No number is
 * sent: links keep the order, so a member's k-th JOIN belongs to its k-th collective of this
 * signature. A failed one stays at its root until all members have joined; each gets the status
 * when it joins, and the count stays right.
 */
#ifndef PMIRUN_COLLECT_H
#define PMIRUN_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "far.h"

/* The limits that pmirun uses, of a node. */
#define COLLECT_PENDING 4096u          /* collectives that have not ended */
#define COLLECT_BYTES   (256ull << 20) /* of the data and signatures that they hold */

enum collect_frame { COLLECT_JOIN = 1, COLLECT_RESULT, COLLECT_ASK, COLLECT_FAIL };

struct collect_limits {
    uint32_t pending;
    uint64_t bytes;
};

/* Whose collective. `members`: nodes in ascending order. */
struct collect_sig {
    const void *p;
    size_t len;
    const uint32_t *members;
    uint32_t n;
};

struct collect_ops {
    /* A message to each of these nodes. */
    void (*send)(void *ctx, const uint32_t *nodes, uint32_t n, enum collect_frame what,
                 const struct collect_sig *sig, int status, const void *data, size_t len);
    /* Is a participant of this node gone that has not entered? */
    bool (*gone)(void *ctx, const struct collect_sig *sig);
    /* Others wait in this collective, which cannot complete: a participant of this node is gone. */
    void (*stuck)(void *ctx, const struct collect_sig *sig);
};

struct collect;

/* NULL: no memory. limits NULL: those above. */
struct collect *collect_create(uint32_t me, const struct collect_limits *limits,
                               const struct collect_ops *ops, void *ctx);
void collect_destroy(struct collect *c); /* without callbacks */
/* All participants of this node have entered, and it is one of several members. */
void collect_enter(struct collect *c, const struct collect_sig *sig, const void *data, size_t len,
                   host_done_fn done, void *done_ctx);
/* A message of another node. FAR_OK; FAR_EINVAL: it is invalid; FAR_ELIMIT, FAR_ENOMEM: it cannot
 * be kept, and the job cannot continue. */
int collect_heard(struct collect *c, uint32_t from, enum collect_frame what,
                  const struct collect_sig *sig, int status, const void *data, size_t len);
/* A process is gone: calls ops->gone() for each collective in which others wait. */
void collect_check(struct collect *c);
/* Ends the collectives for which is_over() is true, with FAR_EGONE. Every node does so by itself.
 */
void collect_drop(struct collect *c, bool (*is_over)(void *ctx, const struct collect_sig *sig),
                  void *ctx);
void collect_tick(struct collect *c); /* asks the members that are missing */
uint32_t collect_pending(const struct collect *c);

#endif
