/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of hosts. */
#ifndef PMIRUN_HOSTS_H
#define PMIRUN_HOSTS_H

#include "row.h"

#define MAX_HOSTS 65536u

/* Letters, digits and ._-@%: without a - at the beginning, of what follows @ too; 255 bytes. */
bool host_is_name(const char *name, size_t n);
/* Handlers: a list, a file. They add to opt->hosts. */
option_fn set_hosts, set_hostfile;
/* Of hosts that were named more than once, one entry with all slots. */
void hosts_merge(struct options *opt);

#endif
