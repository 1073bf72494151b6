/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of hosts. */
#ifndef PMIRUN_HOSTS_H
#define PMIRUN_HOSTS_H

#include "row.h"

/* Handlers: a list, a file. They add to opt->hosts. */
option_fn set_hosts, set_hostfile;
/* Of hosts that were named more than once, one entry with all slots. NULL, or what is wrong: a host
 * has more than MAX_PROCS. */
const char *hosts_merge(struct options *opt);

#endif
