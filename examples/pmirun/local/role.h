/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The role of this pmirun: alone, or on several nodes a head (pr->head) or an agent (pr->agent).
 * The code of one node (local/) calls only these functions of the code of several (multinode/);
 * multinode/nodes_none.c has them in builds without libsodium, where neither flag is ever set.
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

/* For main(). Both exit on failure. */
void head_set_up(struct pmirun *pr);
void agent_set_up(struct pmirun *pr, char **args); /* args: see multinode/step.h */

/* ---- a head or an agent: the loop calls these ---- */

void nodes_progress(struct pmirun *pr);    /* handles messages; ranks may get answers */
void nodes_flush(struct pmirun *pr);       /* sends queued bytes */
void nodes_free_closed(struct pmirun *pr); /* connections closed in this batch */
bool nodes_may_end(struct pmirun *pr);     /* all ranks known here have ended: have the others'? */
bool nodes_ended(struct pmirun *pr);       /* and all has been said, here: there too? */
void nodes_stop(struct pmirun *pr);        /* frees everything before the exit */

/* ---- an agent's reports to its head ---- */

const char *agent_host_name(const struct pmirun *pr);                  /* this one's */
uint32_t agent_node(const struct pmirun *pr);                          /* its number */
bool agent_report_text(struct pmirun *pr, const char *text, size_t n); /* false: nobody hears */
void agent_report_started(struct pmirun *pr, const struct rank *r);
void agent_report_state(struct pmirun *pr, const struct rank *r, uint32_t state);
void agent_report_aborted(struct pmirun *pr, const struct rank *r, int32_t code, const char *text);
void agent_report_exited(struct pmirun *pr, const struct rank *r, const siginfo_t *si);
void agent_report_launched(struct pmirun *pr, const struct job *job); /* all of its ranks here */
void agent_report_spawn_failed(struct pmirun *pr, const struct job *job, int err);
bool agent_report_output(struct pmirun *pr, const struct stream *st, const char *p, size_t n);
void agent_report_input(struct pmirun *pr, uint32_t n);   /* bytes of stdin that all ranks got */
void agent_report_fatal(struct pmirun *pr, int status);   /* the job must be stopped */
void agent_report_failure(struct pmirun *pr, int status); /* the job fails, and continues */
void agent_signalled(struct pmirun *pr, int sig);         /* a signal asks us to end */
void agent_spawn(struct pmirun *pr, const struct rank *by, const struct pmiwire_spawn *req,
                 uint64_t token);
/* A collective cannot complete: this rank is gone. */
void agent_report_stuck(struct pmirun *pr, const struct job *job, uint32_t rank, uint32_t coll,
                        uint32_t why);
void agent_report_mpi(struct pmirun *pr, const struct job *job); /* which way its ranks here go */
/* The server's, see pmiwire/server.h. */
int agent_ask_name(void *ctx, const struct pmiwire_peer *who, uint32_t what,
                   struct pmiwire_str service, struct pmiwire_str port, uint64_t token);
/* Sends a frame to another node, as the server's op. 0, or 1: the queue is full, exchange_room()
 * follows. agent_report_lost(): the node is out of reach. */
int agent_send_frame(struct pmirun *pr, uint32_t node, uint32_t job, const struct iovec *iov,
                     uint32_t n_iov);
void agent_report_lost(struct pmirun *pr, uint32_t node, const char *why);
/* As agent_send_frame(), a frame of the PMIx host. */
int agent_send_pmix(struct pmirun *pr, uint32_t node, uint32_t job, const struct iovec *iov,
                    uint32_t n_iov);
/* Asks the head about a name for the PMIx host; host_answer() follows. */
void agent_request_name(struct pmirun *pr, uint64_t token, uint32_t owner, uint32_t what,
                        struct pmiwire_str service, struct pmiwire_str port);

/* ---- a head's orders to its agents ---- */

const char *head_node_name(const struct pmirun *pr, uint32_t node);
/* Places n ranks on the nodes named in `hosts` (NULL: all). False: a name is not in the job. */
bool head_place_ranks(const struct pmirun *pr, uint32_t n, const char *hosts, uint32_t *node_of);
void head_launch_job(struct pmirun *pr, struct job *job, const struct msg_in *preputs);
void head_signal_ranks(struct pmirun *pr, int sig);
void head_stop_launch(struct pmirun *pr);                         /* starting processes */
void head_abandon_job(struct pmirun *pr, const struct job *job);  /* ends its ranks: it failed */
void head_announce_end(struct pmirun *pr, const struct job *job); /* nothing of it is left */
void head_answer_spawn(struct pmirun *pr, const struct job *job, int err);
void head_give_room(struct pmirun *pr, bool is_err);            /* that output has gone */
void head_reap_starter(struct pmirun *pr, const siginfo_t *si); /* a child that is no rank */
void head_stats(const struct pmirun *pr, struct pmiwire_stats_server *s);

#endif
