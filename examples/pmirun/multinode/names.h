/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks publish, on several nodes. */
#ifndef PMIRUN_NAMES_H
#define PMIRUN_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include <pmiwire/server.h>

struct head;
struct msg_in;
struct node;

/* The head; an agent's question to it, false if it is malformed. */
int names_init(struct head *h);
bool names_asked(struct head *h, struct node *node, struct msg_in *in);

#endif
