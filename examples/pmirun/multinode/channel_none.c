/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces channel.c in builds without libsodium: no channel can be made, so no pmirun becomes a
 * head or an agent. */
#include "channel.h"

#include <errno.h>

int channel_start(void (*misuse)(void))
{
    return -ENOTSUP;
}

void channel_init(struct channel *c, const struct channel_self *self, bool dials, uint32_t peer)
{
}

void channel_fini(struct channel *c)
{
}

int channel_input(struct channel *c, const void *data, size_t n, const struct channel_ops *ops,
                  void *ctx)
{
    return -ENOTSUP;
}

int channel_send(struct channel *c, const void *p, size_t n)
{
    return -ENOTSUP;
}

size_t channel_output(const struct channel *c, const void **data)
{
    return 0;
}

void channel_sent(struct channel *c, size_t n)
{
}

size_t channel_waiting(const struct channel *c)
{
    return 0;
}
