/* SPDX-License-Identifier: BSD-3-Clause */
/* Setting up sessions, servers and exchanges: libc's allocator, and option structs of other
 * releases. */
#include <errno.h>
#include <stdlib.h>

#include "base_internal.h"

/* No struct is near this: a larger size was never set. */
#define MAX_STRUCT_BYTES 4096u

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

int pmiwire__opts_take(void *to, const void *from, size_t bytes)
{
    const unsigned char *given = from;
    size_t size;

    memset(to, 0, bytes);
    if (!from)
        return 0;
    memcpy(&size, from, sizeof(size));
    if (size < bytes || size > MAX_STRUCT_BYTES)
        return -EINVAL;
    for (size_t i = bytes; i < size; i++)
        if (given[i])
            return -EINVAL;
    memcpy(to, from, bytes);
    return 0;
}
