/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The role of this pmirun: alone, or on several nodes a head (jobs->head) or an agent
 * (jobs->agent). The code of one node (local/) calls only these functions of the code of several
 * (multinode/).
 *
 * An agent starts its ranks, serves them PMI and reports to its head what happens to them; it makes
 * no decisions. The head has a `struct rank` for each and handles a report as a pmirun of one node
 * handles an event of its own: job_end.c decides what an exit means, output.c makes lines and
 * labels. The head orders its agents to signal and end ranks. So the role matters only where code
 * touches a process: to start it, to signal it, to read its bytes.
 */
#ifndef PMIRUN_ROLE_H
#define PMIRUN_ROLE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <pmiwire/server.h>

#include "message.h"

struct agent;
struct app;
struct head;
struct job;
struct jobs;
struct msg_in;
struct pmirun;
struct rank;
struct stream;

/* For main(). Both exit on failure. */
void head_set_up(struct pmirun *pr);
void agent_set_up(struct pmirun *pr, char **args); /* args: see multinode/step.h */

/* ---- the loop calls these; with neither a head nor an agent they are no-ops ---- */

void nodes_progress(const struct jobs *jobs);    /* handles messages; ranks may get answers */
void nodes_flush(const struct jobs *jobs);       /* sends queued bytes */
void nodes_free_closed(const struct jobs *jobs); /* connections closed in this batch */
bool nodes_may_end(
    const struct jobs *jobs);              /* all ranks known here have ended: have the others'? */
bool nodes_ended(const struct jobs *jobs); /* and all has been said, here: there too? */
void nodes_stop(const struct jobs *jobs);  /* frees everything before the exit */

/* ---- an agent's reports to its head ---- */

uint32_t agent_node(const struct agent *a);                          /* its number */
bool agent_report_text(struct agent *a, const char *text, size_t n); /* false: it has no head */
void agent_report(struct agent *a, enum message what, const struct report *r);
bool agent_report_output(struct agent *a, const struct stream *st, const char *p, size_t n);
void agent_signalled(struct agent *a, int sig); /* a signal asks us to end */
/* The request's programs, and its pairs. 0, or -EMSGSIZE: too large for a message. */
int agent_spawn(struct agent *a, const struct rank *by, struct app *apps,
                const struct pmiwire_spawn *req, uint64_t token);
/* Sends a frame to another node, of the server's exchange or the PMIx host. 0, or 1: the queue is
 * full; the server and the host hear when it has room. agent_report_lost(): the node is out of
 * reach. */
int agent_send_frame(struct agent *a, bool is_pmix, uint32_t node, uint32_t job,
                     const struct iovec *iov, uint32_t n_iov);
void agent_report_lost(struct agent *a, uint32_t node, const char *why);
/* Asks the head about a name: the answer goes to the server or to host_answer(). */
void agent_request_name(struct agent *a, uint64_t token, uint32_t owner, uint32_t what,
                        struct pmiwire_str service, struct pmiwire_str port);

/* ---- a head's orders to its agents ---- */

const char *head_node_name(const struct head *h, uint32_t node);
/* Places n ranks on the nodes named in `hosts` (NULL: all). False: a name is not in the job. */
bool head_place_ranks(const struct head *h, uint32_t n, const char *hosts, uint32_t *node_of);
void head_order(struct head *h, enum message what, uint32_t number); /* to all, with a number */
bool head_send_input(struct head *h, const char *p, size_t n); /* n 0: its end. False: nobody */
void head_launch_job(struct head *h, struct job *job, const struct msg_in *preputs);
void head_answer_spawn(struct head *h, const struct job *job, int err);
void head_give_room(struct head *h, bool is_err);            /* that output has gone */
void head_reap_starter(struct head *h, const siginfo_t *si); /* a child that is no rank */
void head_drop_names(struct head *h, const struct job *job); /* that it has published */
void head_stats(const struct head *h, struct pmiwire_stats_server *s);

#endif
