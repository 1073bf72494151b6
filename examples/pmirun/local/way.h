/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the ranks of a job use to find each other (--mpi), and what they need for it.
 *
 *   MPI_PMI      PMI-1 or PMI-2: MPICH and all that is like it, and programs that are no MPI's
 *   MPI_OPENMPI  Open MPI 4 by its component for Flux, pmix/flux: that loads the libpmi which a
 *                variable names, and does everything by PMI-1. It names ours, whose Gets read from
 *                the job's shared table
 *   MPI_PMIX     PMIx (host.h): Open MPI 5, what is linked with PRRTE or libpmix, and Open MPI 4
 *                where the first way is missing
 */
#ifndef PMIRUN_WAY_H
#define PMIRUN_WAY_H

struct job;
struct pmirun;

/* Before the first rank of the job is launched here: sets job->way, job->way_why, job->vars and
 * job->bound. 0,
 * or a STATUS_* and *why, a sentence to be freed. */
int way_choose(struct pmirun *pr, struct job *job, char **why);
/* Tells the user what was chosen; in a head, once for all nodes. */
void way_report(struct pmirun *pr, const struct job *job);
const char *way_name(const struct job *job); /* as --mpi has it */
/* At pr->look_ns: has a script hidden an MPI that this job does not serve? Says so. */
void way_look(struct pmirun *pr);

#endif
