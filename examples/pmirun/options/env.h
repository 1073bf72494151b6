/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks' environment. */
#ifndef PMIRUN_ENV_H
#define PMIRUN_ENV_H

#include "row.h"

option_fn set_x, set_env, set_envlist;
option_fn set_envmode; /* row->min: ENV_* */
option_fn set_mca;     /* a parameter of Open MPI's */
/* Completes a group that has been read with the options for all groups. */
void env_settle(const struct options *opt, struct app *app);

#endif
