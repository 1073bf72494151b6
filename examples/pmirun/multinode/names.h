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

/* The head; an agent's question to it, false if it is malformed. */
int names_init(struct pmirun *pr);
bool names_asked(struct pmirun *pr, struct node *node, struct msg_in *in);

#endif
