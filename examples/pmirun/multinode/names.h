/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks publish, on several nodes. */
#ifndef PMIRUN_NAMES_H
#define PMIRUN_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include <pmiwire/server.h>

struct msg_in;
struct node;
struct pmirun;

/* An agent: for its server. */
int names_on_name(void *ctx, const struct pmiwire_peer *who, uint32_t what,
                  struct pmiwire_str service, struct pmiwire_str port, uint64_t token);
/* An agent: for the PMIx host. */
void names_ask(struct pmirun *pr, uint64_t token, uint32_t owner, uint32_t what,
               struct pmiwire_str service, struct pmiwire_str port);
/* The head; an agent's question to it, false if it is malformed. */
int names_init(struct pmirun *pr);
bool names_asked(struct pmirun *pr, struct node *node, struct msg_in *in);

#endif
