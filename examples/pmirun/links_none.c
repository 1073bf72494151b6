/* SPDX-License-Identifier: BSD-3-Clause */
/* In the place of links_ucx.c where libucp is not built in. */
#include "pmirun.h"

#include <errno.h>

bool ucx_is_built_in(void)
{
    return false;
}

int ucx_start(struct pmirun *pr)
{
    (void)pr;
    return -ENOSYS;
}

const void *ucx_address(const struct pmirun *pr, size_t *n)
{
    (void)pr;
    *n = 0;
    return NULL;
}

int ucx_join(struct pmirun *pr)
{
    (void)pr;
    return -ENOSYS;
}

int ucx_send(struct pmirun *pr, uint32_t node, const void *p, size_t n)
{
    (void)pr, (void)node, (void)p, (void)n;
    return -ENOSYS;
}

void ucx_event(struct pmirun *pr)
{
    (void)pr;
}

void ucx_stop(struct pmirun *pr)
{
    (void)pr;
}
