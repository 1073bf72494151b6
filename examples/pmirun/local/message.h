/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of head and agents, each the payload of a frame (multinode/channel.h): a byte for its
 * kind, then its fields (fields.h). A malformed frame is refused as a whole, and its connection is
 * closed.
 */
#ifndef PMIRUN_MESSAGE_H
#define PMIRUN_MESSAGE_H

#include <pmiwire/server.h>

#include "fields.h"

#define BOOT_VERSION "7" /* in the first of them: raise it with each change of messages */
/* of the lines that an agent reads from its stdin, at most: an empty pipe has room for them,
 * unless its user has too many pipes */
#define BOOT_BYTES 65536u

/* Counters of an agent's server, as they stand in MSG_DONE. */
union node_counters {
    struct pmiwire_stats_server stats; /* all of its members are uint64_t */
    uint64_t each[sizeof(struct pmiwire_stats_server) / sizeof(uint64_t)];
};

#define NODE_COUNTERS (sizeof(struct pmiwire_stats_server) / sizeof(uint64_t))

/* What most messages say. What a kind has no use for is 0, or empty. */
struct report {
    uint32_t job, rank;
    uint32_t value, detail;
    const char *text;
};

enum message {
    /* agent to head. Reports, each with what it uses of one: */
    MSG_READY = 1, /* value: port of its listener; text: host name */
    MSG_STARTED,   /* job, rank; value: pid */
    MSG_LAUNCHED,  /* job: all of its ranks here, or it has none */
    MSG_FAILED,    /* job; value: -errno: a spawned job could not be started */
    MSG_STATE,     /* job, rank; value: PMIWIRE_CONN_* */
    MSG_EXIT,      /* job, rank; value: si_code; detail: si_status */
    MSG_ABORT,     /* job, rank; value: code; text */
    MSG_TOOK,      /* value: bytes of stdin that its ranks have got */
    MSG_FATAL,     /* value: status: the job must be stopped */
    MSG_LOST,      /* value: node; text: why: the connection to it is lost */
    MSG_STUCK,     /* job, rank that is gone; value: PMIWIRE_COLL_*; detail: PMIWIRE_GONE_* */
    MSG_STATUS,    /* value: status: the job fails, and continues */
    MSG_CHOSE,     /* job; value: MPI_*; text: why; detail 1: not what its program needs */
    MSG_HERE,      /* the answer to MSG_ASK */
    MSG_TRY,       /* value: the try that started it, from its boot lines: its first message */
    /* and others: */
    MSG_SAY,    /* text, for standard error */
    MSG_OUTPUT, /* u32 job, u32 rank, u32 1 or 2, text; an empty one is its end */
    MSG_SPAWN,  /* u64 token, u32 job, u32 rank, programs (job_message.c), pairs */
    MSG_DONE,   /* u32 NODE_COUNTERS, each as u64 */
    MSG_NAME,   /* u64 token, u32 owner, u32 PMIWIRE_NAME_*, text name, text port */
    MSG_RANKS,  /* u32 n, n u32: ranks that Slurm starts there (step.c) */
    MSG_TIMES,  /* u64 its clock, u32 n, n events (local/timeline.c) */
    /* head to agent */
    MSG_SETUP = 64, /* options, directory, environment (job_message.c) */
    MSG_PEERS,      /* u32 n, for each: text address, u32 port */
    MSG_JOB,    /* a job (job_message.c), pairs; a node without a rank of it answers MSG_LAUNCHED */
    MSG_SIGNAL, /* u32 signal, for all ranks */
    MSG_STOP,   /* the job is being stopped */
    MSG_ABANDON, /* u32 job: end its ranks, it failed */
    MSG_OVER,    /* u32 job: it has ended on all nodes */
    MSG_ROOM,    /* u32 1 or 2, u32 bytes of output that the head took */
    MSG_INPUT,   /* text for the stdin of the ranks that get it; an empty one is its end */
    MSG_SPAWNED, /* u64 token, u32 rc as int32, text its job id */
    MSG_NAMED,   /* u64 token, u32 rc as int32, text port: the answer to MSG_NAME */
    MSG_ASK,     /* are you there? */
    MSG_END,     /* all ranks have ended: sweep, say DONE and leave */
    MSG_ENDED,   /* a report, for PMIx: job, rank elsewhere; value: PMIX_HOST_*; detail: status */
    /* agent to agent */
    MSG_EXCHANGE = 128, /* u32 job, and a frame of the exchange */
    MSG_PMIX,           /* the same, of the PMIx host */
};

#endif
