/* SPDX-License-Identifier: BSD-3-Clause */
/* Setting up sessions, servers and exchanges: libc's allocator, and option structs of other
 * releases. */
#include <errno.h>
#include <stdlib.h>

#include "base_internal.h"

#define MAX_STRUCT_BYTES 4096u /* no struct is near this: a larger size was never set */

static void *libc_realloc(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    return realloc(ptr, bytes);
}

static void libc_free(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

int pmiwire__allocator_take(struct pmiwire_allocator *to, const struct pmiwire_allocator *from)
{
    static const struct pmiwire_allocator libc = {libc_realloc, libc_free, NULL};

    if (from && (!from->realloc || !from->free))
        return -EINVAL;
    *to = from ? *from : libc;
    return 0;
}

int pmiwire__opts_take(void *to, size_t to_size, const void *from, size_t from_size)
{
    const unsigned char *bytes = from;

    memset(to, 0, to_size);
    if (!from)
        return 0;
    if (from_size < to_size || from_size > MAX_STRUCT_BYTES)
        return -EINVAL;
    for (size_t i = to_size; i < from_size; i++)
        if (bytes[i])
            return -EINVAL;
    memcpy(to, from, to_size);
    return 0;
}
