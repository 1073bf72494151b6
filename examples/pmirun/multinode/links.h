/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between agents over UCX; links_none.c in builds without UCX. */
#ifndef PMIRUN_LINKS_H
#define PMIRUN_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UCX_QUEUE_BYTES (1u << 20) /* pending in UCX for a node that is not full */

struct pmirun;

int ucx_start(struct pmirun *pr); /* 0, or why not: then TCP */
const void *ucx_address(size_t *n);
int ucx_join(struct pmirun *pr);                   /* the other agents are known */
int ucx_connect(struct pmirun *pr, uint32_t node); /* begins to: 0, or why it cannot */
int ucx_send(struct pmirun *pr, uint32_t node, const void *p, size_t n);
/* Do more than UCX_QUEUE_BYTES wait for that node? Then exchange_room() follows. */
bool ucx_full(uint32_t node);
void ucx_progress(void); /* some */
bool ucx_more(void);     /* and there is more to make */
void ucx_stop(struct pmirun *pr);

#endif
