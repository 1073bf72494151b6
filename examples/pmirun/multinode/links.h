/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between agents over UCX; links_none.c where that is not built in. */
#ifndef PMIRUN_LINKS_H
#define PMIRUN_LINKS_H

#include <stddef.h>
#include <stdint.h>

struct pmirun;

int ucx_start(struct pmirun *pr); /* 0, or why not: then TCP */
const void *ucx_address(size_t *n);
int ucx_join(struct pmirun *pr); /* the other agents are known */
int ucx_send(struct pmirun *pr, uint32_t node, const void *p, size_t n);
void ucx_progress(void);
void ucx_stop(struct pmirun *pr);

#endif
