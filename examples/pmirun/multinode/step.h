/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A step of Slurm: srun and slurmstepd start the ranks, pmirun serves them. The plugin of
 * examples/slurm starts a head beside srun (`pmirun --step OPTION... PROGRAM`) and on each node an
 * agent (`pmirun --agent NODE RANK:FD,...`), which has its ranks' PMI connections from before they
 * were forked.
 *
 * The head prints the lines that agents read to its stdout, for the plugin to carry them there. Its
 * stdin ends with srun. An agent reads them from its stdin, and then slurmstepd's reports about the
 * ranks, until slurmstepd ends:
 *     task RANK PID         it has been forked
 *     exit RANK STATUS      and has ended, with waitpid()'s status
 */
#ifndef PMIRUN_STEP_H
#define PMIRUN_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent;
struct head;
struct job;
struct msg_in;
struct node;
struct step;

/* In an agent. step_join() sets a->step and a->node; it exits when the arguments are malformed. */
void step_join(struct agent *a, const char *node, const char *ranks);
void step_told(struct agent *a, const char *text, size_t n); /* by slurmstepd */
void step_left(struct agent *a);                             /* slurmstepd has ended */
void step_tell_ranks(struct agent *a);                       /* the head: which are here */
void step_adopt(struct agent *a, struct job *job);           /* serves its ranks */

/* In the head: takes `lines`. And: MSG_RANKS of a node. */
void step_begin(struct head *h, char *lines);
bool step_ranks(struct head *h, const struct node *node, struct msg_in *in);
bool step_is_whole(const struct head *h); /* has each rank its node? */

#endif
