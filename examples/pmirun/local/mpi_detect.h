/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the ranks of a job find each other (--mpi), and the variables and files this takes.
 *
 *   MPI_PMI      PMI-1 or PMI-2: MPICH and its relatives, and programs without MPI
 *   MPI_OPENMPI  Open MPI 4 by its component for Flux, pmix/flux, which loads the libpmi that a
 *                variable names and uses PMI-1. The variable names ours, whose Gets read the
 *                job's shared table
 *   MPI_PMIX     PMIx (host.h), beside PMI: Open MPI 5, programs linked with PRRTE or libpmix, Open
 *                MPI 4 where its component for Flux is missing, and programs that may start or load
 *                any MPI: scripts, shells, wrappers, interpreters
 */
#ifndef PMIRUN_MPI_DETECT_H
#define PMIRUN_MPI_DETECT_H

struct job;

/* Before the first rank of the job is launched here: sets job->mpi, job->mpi_reason, job->vars and
 * job->bound.
 * 0, or a STATUS_* and *why, a sentence to be freed. */
int mpi_detect_choose(struct job *job, char **why);
/* Reports the choice to the user; in a head, once for all nodes. */
void mpi_detect_report(const struct job *job);
const char *mpi_detect_name(const struct job *job); /* of the choice, as --mpi has it */
/* The job's last rank here has ended. */
void mpi_detect_ended(struct job *job);

#endif
