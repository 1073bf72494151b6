/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fencepost: a SPANK plugin, by which `srun --fencepost ./a.out` serves its ranks PMI from pmirun's
 * server, shared table and exchange. Without the option it does nothing.
 *
 *     srun ---- forks ----> pmirun --step            the head, as the user
 *       |                     |      |
 *       | the step's launch   |      |  pmirun's own channels: TCP, authenticated, encrypted
 *       v                     |      |
 *     slurmstepd (a node)     |    slurmstepd
 *       |--- forks --> pmirun --agent  |--- forks --> pmirun --agent       as the user
 *       |                | PMI_FD      |                | PMI_FD
 *       `--- forks --> ranks           `--- forks --> ranks
 *
 * Which of Slurm's callbacks runs where, in Slurm 22.05:
 *
 *     local_user_init  srun, as the user     starts the head; puts a MUNGE credential that holds
 *                                            what agents must know into the step's environment;
 *                                            an on_exit() handler ends the head
 *     user_init        slurmstepd, its effective ids the user's: makes each rank's pair of sockets
 *                                            and forks the agent
 *     task_init        a task, as the user   leaves the rank its own socket: PMI_FD
 *     task_post_fork   slurmstepd, as root   tells the agent the task's pid
 *     task_exit        slurmstepd, as root   and how it ended; the last one may await the agent
 *     exit             slurmstepd, as root   closes the descriptor by which it does that
 *
 * What runs as root makes descriptors, forks, and writes numbers that Slurm gave it. It reads
 * nothing that a user has written.
 */
#ifndef FENCEPOST_SLURM_PLUGIN_H
#define FENCEPOST_SLURM_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include <slurm/spank.h>

/* Of the step's environment. srun passes on what begins with SLURM, whatever --export says. */
#define CREDENTIAL_VARIABLE "SLURM_FENCEPOST"
#define CREDENTIAL_BYTES    131072u /* at most */

/* What the administrator writes behind the plugin's name in plugstack.conf, NAME=VALUE. */
extern struct settings {
    const char *pmirun; /* the program */
    const char *libpmi; /* our libpmi.so.0, for Open MPI */
    const char *munge;  /* munged's socket; NULL: MUNGE's default */
} settings;

/* credential.c: a text that this user's processes alone can read, on any node of the cluster. Both
 * return NULL, and *why; else a string to be freed. */
char *credential_seal(const char *text, const char **why);
char *credential_open(const char *credential, const char **why);

/* srun.c: 0, or -1, which ends srun. `no_shm`: --fencepost=no-shm. */
int srun_begin(spank_t spank, bool no_shm);

/* stepd.c: always 0. Without an agent, the tasks report that and end. */
int stepd_begin(spank_t spank);
int stepd_task(spank_t spank);
int stepd_forked(spank_t spank);
int stepd_exited(spank_t spank);
int stepd_end(void);

#endif
