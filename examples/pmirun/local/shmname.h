/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of shared memory, for --pmi-port. */
#ifndef PMIRUN_SHMNAME_H
#define PMIRUN_SHMNAME_H

struct guard;

#define SHM_NAME_BYTES 64
/* Makes a new name that others cannot guess. */
void shm_name(const struct guard *g, char name[SHM_NAME_BYTES]);
void shm_remove(const char *key); /* all names of the pmirun whose guard has this key */
void shm_sweep(void);             /* removes the names that a killed pmirun left behind */

#endif
