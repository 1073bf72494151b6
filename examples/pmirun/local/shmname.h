/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of shared memory, for --pmi-port. */
#ifndef PMIRUN_SHMNAME_H
#define PMIRUN_SHMNAME_H

struct pmirun;

#define SHM_NAME_BYTES 64
/* Makes a new name that others cannot guess. */
void shm_name(const struct pmirun *pr, char name[SHM_NAME_BYTES]);
void shm_remove(const char *key);  /* all names of the pmirun whose guard has this key */
void shm_sweep(struct pmirun *pr); /* removes the names that a killed pmirun left behind */

#endif
