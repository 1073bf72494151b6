/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the local transport that is not in its table of operations. */
#ifndef ASYMREG_SRC_LOCAL_H
#define ASYMREG_SRC_LOCAL_H

#include <asymreg/transport.h>

#include <stdint.h>

/*
 * What /proc/PID/stat tells of a process: when it began, in clock ticks since boot, and whether all
 * its threads have ended, waited for or not. 0, -ENOENT or -ESRCH (no such process, or no /proc),
 * another -errno.
 */
int asymreg__process_stat(uint64_t pid, uint64_t *started, int *ended);

/* NULL when it is another transport. */
struct asymreg__local *asymreg__local_of(struct asymreg_transport *t);

/* See asymreg_fds_send() and asymreg_fds_recv(). */
int asymreg__local_fds_send(struct asymreg__local *t, int sock);
int asymreg__local_fds_recv(struct asymreg__local *t, int sock);

#endif
