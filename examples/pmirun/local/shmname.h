/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of shared memory, for --pmi-port. */
#ifndef PMIRUN_SHMNAME_H
#define PMIRUN_SHMNAME_H

struct pmirun;

#define SHM_NAME_BYTES 64
void shm_name(char name[SHM_NAME_BYTES]); /* a new one, that nobody can guess */
void shm_sweep(struct pmirun *pr); /* removes what a pmirun that was killed has left behind */

#endif
