/* SPDX-License-Identifier: BSD-3-Clause */
/* What libpmix's server does not bound by itself. */
#ifndef BOUNDS_H
#define BOUNDS_H

#include <stdbool.h>

#define BOUNDS_MESSAGE_MIB 4  /* of a client, at most: beyond that libpmix cuts it off */
#define BOUNDS_GREETING_S  10 /* for a newcomer to say who it is */
#define BOUNDS_TICKS       60 /* without an answer of libpmix's server, until the job is stopped */

/* Before and after PMIx_server_init(). A user's own settings of libpmix win. */
void bounds_begin(void);
void bounds_end(void);
/* Every half second while the server runs. False, once: it does not answer any more. */
bool bounds_tick(void);

#endif
