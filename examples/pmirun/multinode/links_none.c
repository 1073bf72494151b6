/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces links_ucx.c in builds without libucp. */
#include "links.h"

#include <errno.h>

int ucx_start(struct pmirun *pr)
{
    return -ENOSYS;
}

const void *ucx_address(size_t *n)
{
    *n = 0;
    return NULL;
}

int ucx_join(struct pmirun *pr)
{
    return -ENOSYS;
}

int ucx_send(struct pmirun *pr, uint32_t node, const void *p, size_t n)
{
    (void)pr, (void)node, (void)p, (void)n;
    return -ENOSYS;
}

int ucx_connect(struct pmirun *pr, uint32_t node)
{
    (void)pr, (void)node;
    return -ENOSYS;
}

bool ucx_full(uint32_t node)
{
    return false;
}

void ucx_progress(void)
{
}

bool ucx_more(void)
{
    return false;
}

void ucx_stop(struct pmirun *pr)
{
}
