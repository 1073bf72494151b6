/* SPDX-License-Identifier: BSD-3-Clause */
/* Option structs, of this release and of later ones. */
#include "base.h"

#include <errno.h>
#include <string.h>

#define MAX_OPTS_BYTES 4096u /* no struct comes near: a larger size was never set */

int asymreg__opts_take(void *to, const void *from, size_t bytes)
{
    const unsigned char *byte = from;
    size_t size;

    if (!from)
        return 0;
    memcpy(&size, from, sizeof(size));
    if (size < bytes || size > MAX_OPTS_BYTES)
        return -EINVAL;
    memcpy(to, from, bytes);
    for (size_t i = bytes; i < size; i++)
        if (byte[i])
            return -EINVAL;
    return 0;
}

int asymreg__allocator_ok(const struct asymreg_allocator *a)
{
    return !a || (a->realloc && a->free);
}
