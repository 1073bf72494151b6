/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The nodes of a batch system's allocation, from its environment, and the syntax of host names. The
 * environment and its files are untrusted: names become arguments of ssh, numbers are counts of
 * processes.
 *
 *     Slurm  SLURM_JOB_NODELIST "n[0-2],m07", SLURM_TASKS_PER_NODE "2(x3),1"
 *     PBS    PBS_NODEFILE: a file with a line for each process that a host takes
 *     LSF    LSB_MCPU_HOSTS "a 2 b 4", or LSB_DJOB_HOSTFILE: a file as that of PBS
 *     SGE    PE_HOSTFILE: a file with lines "host slots queue processors"
 */
#ifndef PMIRUN_ALLOCATION_H
#define PMIRUN_ALLOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_HOSTS       65536u
#define HOST_NAME_BYTES 255u

struct allocation {
    const char *variable; /* that names it; NULL: there is none, or options name the hosts */
    const char *launch;   /* how to get to its nodes: a template (template.h); NULL: srun */
    char **hosts;
    uint32_t *slots; /* processes for each, before the next host gets some; all 0: not known */
    uint32_t n_hosts;
    uint32_t *index; /* of hosts by name */
};

/* Reads the environment. NULL, or an error text to be freed, and *a is empty. */
char *allocation_find(struct allocation *a);
void allocation_free(struct allocation *a);
/* Is pmirun one of several tasks of a Slurm step? Then the allocation is not for it. */
bool is_one_task_of_many(void);
/* Adds a host, of n bytes; one that is there already has the slots of both. slots 0: not said, but
 * one where it is added up. NULL, or an error text. */
char *host_add(struct allocation *a, const char *name, size_t n, uint32_t slots);
/* Adds the hosts that n[0-2,07]x stands for, n bytes. NULL, or an error text. */
char *host_ranges(struct allocation *a, const char *text, size_t n, uint32_t slots);

/* Letters, digits and ._-@%: but no - at the start, nor after @. */
bool host_is_name(const char *name, size_t n);
/* "localhost", or a name of this host: gethostname()'s, whole or up to its first dot. */
bool host_is_own(const char *name);

#endif
