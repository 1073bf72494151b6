/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of hosts. */
#ifndef PMIRUN_HOSTS_H
#define PMIRUN_HOSTS_H

#include "row.h"

/* Handlers: a list, a file. They add to opt->hosts. */
option_fn set_hosts, set_hostfile;
/* The file that HYDRA_HOST_FILE names, if it is set, and this is not one of several tasks. */
void hosts_of_hydra(struct parse *p);

#endif
