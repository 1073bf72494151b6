/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the local transport outside of its table of operations. */
#ifndef ASYMREG_SRC_LOCAL_H
#define ASYMREG_SRC_LOCAL_H

#include <asymreg/transport.h>

#include "../base/base.h"

struct asymreg__local;

/* Returns NULL for any other transport. */
struct asymreg__local *asymreg__local_of(struct asymreg_transport *t);

/* See asymreg_fds_send() and asymreg_fds_recv(). */
int asymreg__local_fds_send(struct asymreg__local *t, int sock);
int asymreg__local_fds_recv(struct asymreg__local *t, int sock);

#endif
