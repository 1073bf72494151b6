/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

#define MAX_OPTS_BYTES 4096u /* none is near that: the size was not set */

static void *libc_alloc(void *ctx, size_t bytes)
{
    (void)ctx;
    return malloc(bytes);
}

static void libc_free(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

static const struct shmht_allocator libc_allocator = {libc_alloc, libc_free, NULL};

int shmht__opts_known(const void *opts, size_t ours)
{
    const unsigned char *bytes = opts;
    size_t size;

    memcpy(&size, opts, sizeof(size));
    if (size < ours || size > MAX_OPTS_BYTES)
        return 0;
    for (size_t i = ours; i < size; i++)
        if (bytes[i])
            return 0;
    return 1;
}

/* A zeroed handle of so many bytes, in the caller's place, from his allocator or from malloc(). */
int shmht__handle_alloc(size_t bytes, const struct shmht_allocator *wanted, void *place,
                        size_t place_bytes, struct shmht_allocator *used, void **handle)
{
    void *p = place;

    memset(used, 0, sizeof(*used));
    if (place) {
        if (place_bytes < bytes || (uintptr_t)place % 64 != 0)
            return -EINVAL;
    } else {
        *used = wanted ? *wanted : libc_allocator;
        if (!used->alloc || !used->free)
            return -EINVAL;
        p = used->alloc(used->ctx, bytes);
        if (!p)
            return -ENOMEM;
    }
    memset(p, 0, bytes);
    *handle = p;
    return 0;
}

void shmht__handle_free(const struct shmht_allocator *used, void *handle)
{
    struct shmht_allocator allocator = *used; /* it may lie in the handle */

    if (allocator.free)
        allocator.free(allocator.ctx, handle);
}
