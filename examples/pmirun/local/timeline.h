/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --timeline FILE.json: what each rank did when, as a trace for Perfetto and chrome://tracing.
 * Events are collected while the job runs and written at its end,
 * also for a job that does not start, is stopped or killed; a pmirun that dies of SIGKILL leaves an
 * empty file.
 *
 * On several nodes each agent sends the events of its ranks (21 bytes each) to the head twice a
 * second, when 16 KiB wait, and before it ends. Clocks: an agent's starts when
 * it reads its set-up, so after the head has sent it; and each message leaves the agent before the
 * head reads it. The head takes the middle of these two bounds. So an agent's times are off by half
 * a round trip at first, and later by the drift between the two clocks too: some 10 ms an hour are
 * usual. No event is written after the job's end.
 *
 * Memory: 24 bytes an event. Beyond TIMELINE_MAX events it records no collectives, beyond twice as
 * many nothing; pmirun reports both.
 */
#ifndef PMIRUN_TIMELINE_H
#define PMIRUN_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fields.h"

#ifndef TIMELINE_MAX
#define TIMELINE_MAX (1u << 20) /* events */
#endif

struct jobs;
struct rank;

enum timeline_what {
    TIMELINE_LAUNCH,
    TIMELINE_INIT,
    TIMELINE_FINALIZE,
    TIMELINE_EXIT,  /* arg: its status, or TIMELINE_SIGNAL and the signal */
    TIMELINE_ENTER, /* arg: PMIWIRE_COLL_* or PMIWIRE_STUCK_GROUP */
    TIMELINE_LEAVE, /* the same */
    TIMELINE_READY, /* a node: its agent has answered */
    TIMELINE_LOST,  /* a node */
    TIMELINE_WHATS
};

#define TIMELINE_SIGNAL 0x10000u
#define TIMELINE_NODE   0xffffffffu /* the rank of what happens to a node */

struct timeline_event {
    uint64_t ns; /* of its node's clock; of the head's for TIMELINE_NODE */
    uint32_t job, rank, arg;
    uint32_t node : 24, what : 8;
};

/* The bounds of a node's clock zero, in ns since the head's start. */
struct timeline_clock {
    uint64_t from, to;
};

struct timeline {
    bool on;
    bool of_agent;    /* which sends the events of its ranks to its head */
    const char *path; /* NULL: an agent's */
    uint64_t zero_ns; /* what this node's clock said at its beginning */
    struct timeline_event *events;
    uint32_t n;
    size_t cap;      /* bytes */
    uint32_t n_lost; /* not recorded */
    bool reported[2];
    uint64_t cut_ns;               /* when the first of them happened, about */
    struct timeline_clock *clocks; /* by node; NULL: one node, whose clock is ours */
    /* An agent's. */
    uint32_t n_sent;
    uint64_t sent_ns; /* when events were sent last */
};

/* Makes the file, which is empty until the end. Exits when that fails. */
void timeline_open(struct timeline *tl, const char *path);
/* Starts recording in an agent, which the head has asked for it. */
void timeline_begin(struct timeline *tl);
/* The head sends its agents their set-up. */
void timeline_asked(struct timeline *tl, uint32_t n_nodes);
/* Record an event of a rank of this node, or of a node. No-ops without --timeline, and for a head's
 * ranks, whose agents report theirs. */
void timeline_rank(struct timeline *tl, const struct rank *r, enum timeline_what what,
                   uint32_t arg);
void timeline_node(struct timeline *tl, uint32_t node, enum timeline_what what);
/* Agent: is it time to send the events? */
bool timeline_is_due(const struct timeline *tl);
void timeline_take(struct timeline *tl, struct msg *m); /* puts it into a message */
/* Head: takes a node's events. False: the message is invalid. */
bool timeline_heard(struct timeline *tl, uint32_t node, struct msg_in *in);
/* Writes the file, once. `early`: pmirun gives up. 0, or an errno. */
int timeline_write(struct timeline *tl, const struct jobs *jobs, bool early);
/* timeline_json.c: sorts the events and writes them. */
void timeline_put_json(FILE *f, struct timeline *tl, uint64_t end_ns, const char *about,
                       const struct jobs *jobs);

#endif
