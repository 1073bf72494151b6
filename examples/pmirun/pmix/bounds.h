/* SPDX-License-Identifier: BSD-3-Clause */
/* What libpmix's server does not bound by itself. */
#ifndef PMIRUN_BOUNDS_H
#define PMIRUN_BOUNDS_H

#define BOUNDS_MESSAGE_MIB 4  /* of a client, at most: beyond that libpmix cuts it off */
#define BOUNDS_GREETING_S  10 /* for a newcomer to say who it is */
#define BOUNDS_TICKS       60 /* without an answer of libpmix's server, until the job is stopped */

struct pmirun;

/* Before and after PMIx_server_init(). A user's own settings of libpmix win. */
void bounds_begin(void);
void bounds_end(void);
/* Every half second while the server runs: does it answer? */
void bounds_tick(struct pmirun *pr);

#endif
