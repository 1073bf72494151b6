/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The role of this pmirun: alone, or on several nodes a head or an agent. The code of one node
 * (local/) sees nothing else of the code of several (multinode/).
 *
 * An agent starts its ranks, serves them PMI and reports to its head what happens to them; it makes
 * no decisions. The head has a `struct rank` for each and handles a report as a pmirun of one node
 * handles an event of its own: job.c decides what an exit means, output.c makes lines and labels.
 * The head orders its agents to signal and end ranks. So the role matters only where code touches a
 * process: to start it, to signal it, to read its bytes.
 */
#ifndef PMIRUN_ROLE_H
#define PMIRUN_ROLE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <pmiwire/server.h>

struct job;
struct msg_in;
struct pmirun;
struct rank;
struct stream;

/* What the loop calls for the connections of a head or an agent. */
struct node_ops {
    void (*run_deadlines)(struct pmirun *pr);
    uint64_t (*deadline)(const struct pmirun *pr); /* the next, 0: none */
    void (*progress)(struct pmirun *pr);           /* handles messages; ranks may get answers */
    void (*flush)(struct pmirun *pr);              /* sends queued bytes */
    void (*bury)(struct pmirun *pr);               /* frees what was closed in this batch */
    bool (*may_end)(struct pmirun *pr); /* all ranks known here have ended: have the others'? */
    bool (*ended)(struct pmirun *pr);   /* and all has been said, here: there too? */
    void (*stop)(struct pmirun *pr);    /* frees everything before the exit */
};

/* What an agent reports to its head. */
struct agent_ops {
    const char *(*host)(const struct pmirun *pr);               /* this one's name */
    uint32_t (*node)(const struct pmirun *pr);                  /* and number */
    bool (*say)(struct pmirun *pr, const char *text, size_t n); /* false: the head cannot hear */
    void (*started)(struct pmirun *pr, const struct rank *r);
    void (*state)(struct pmirun *pr, const struct rank *r, uint32_t state);
    void (*aborted)(struct pmirun *pr, const struct rank *r, int32_t code, const char *text);
    void (*exited)(struct pmirun *pr, const struct rank *r, const siginfo_t *si);
    void (*launched)(struct pmirun *pr, const struct job *job);         /* all of its ranks here */
    void (*gave_up)(struct pmirun *pr, const struct job *job, int err); /* a spawned one */
    bool (*output)(struct pmirun *pr, const struct stream *st, const char *p, size_t n);
    void (*took)(struct pmirun *pr, uint32_t n);   /* bytes of stdin that all have been given */
    void (*fatal)(struct pmirun *pr, int status);  /* the job must be stopped */
    void (*failed)(struct pmirun *pr, int status); /* the job fails, and continues */
    void (*signalled)(struct pmirun *pr, int sig); /* a signal asks us to end */
    void (*spawn)(struct pmirun *pr, const struct rank *by, const struct pmiwire_spawn *req,
                  uint64_t token);
    /* A collective cannot complete: this rank is gone. */
    void (*stuck)(struct pmirun *pr, const struct job *job, uint32_t rank, uint32_t coll,
                  uint32_t why);
    void (*chose)(struct pmirun *pr, const struct job *job); /* which way its ranks here go */
    /* The server's, see pmiwire/server.h. */
    int (*name)(void *ctx, const struct pmiwire_peer *who, uint32_t what,
                struct pmiwire_str service, struct pmiwire_str port, uint64_t token);
    /* Sends a frame to another node, as the server's op. 0, or 1: the queue is full,
     * exchange_room() follows. lost(): the node is out of reach. */
    int (*send)(struct pmirun *pr, uint32_t node, uint32_t job, const struct iovec *iov,
                uint32_t n_iov);
    void (*lost)(struct pmirun *pr, uint32_t node, const char *why);
    /* As send, a frame of the PMIx host. */
    int (*pmix)(struct pmirun *pr, uint32_t node, uint32_t job, const struct iovec *iov,
                uint32_t n_iov);
    /* Asks the head about a name; host_answer() follows. */
    void (*ask_name)(struct pmirun *pr, uint64_t token, uint32_t owner, uint32_t what,
                     struct pmiwire_str service, struct pmiwire_str port);
};

/* Orders of a head to its agents. */
struct head_ops {
    const char *(*name)(const struct pmirun *pr, uint32_t node);
    /* Places n ranks on the nodes named in `hosts` (NULL: all). False: a name is not in the job. */
    bool (*place)(const struct pmirun *pr, uint32_t n, const char *hosts, uint32_t *node_of);
    void (*launch)(struct pmirun *pr, struct job *job, const struct msg_in *preputs);
    void (*signal)(struct pmirun *pr, int sig);
    void (*stop)(struct pmirun *pr);                           /* starting processes */
    void (*abandon)(struct pmirun *pr, const struct job *job); /* ends its ranks: it failed */
    void (*over)(struct pmirun *pr, const struct job *job);    /* nothing of it is left anywhere */
    void (*spawned)(struct pmirun *pr, const struct job *job, int err);
    void (*room)(struct pmirun *pr, bool is_err); /* bytes of that kind of output have gone */
    void (*reaped)(struct pmirun *pr, const siginfo_t *si); /* a child that is no rank */
    void (*stats)(const struct pmirun *pr, struct pmiwire_stats_server *s);
};

/* For main(); in multinode/. Both exit on failure. */
void head_set_up(struct pmirun *pr);
void agent_set_up(struct pmirun *pr, char **args); /* args: see multinode/step.h */

#endif
