/* SPDX-License-Identifier: BSD-3-Clause */
/* --map-by and --bind-to. */
#ifndef PMIRUN_PLACING_H
#define PMIRUN_PLACING_H

#include "row.h"

option_fn set_map_by, set_bind_to;
/* After all options are read: sets defaults and refuses contradictions. */
void settle_placing(const struct parse *p);

#endif
