/* SPDX-License-Identifier: BSD-3-Clause */
/* Option structs, and memory of handles. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/* no struct is near this: a larger size was never set */
#define MAX_OPTS_BYTES 4096u

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

static const struct shmht_allocator libc_allocator = {libc_realloc, libc_free, NULL};

int shmht__opts_take(void *to, const void *from, size_t bytes, struct shmht_error *err)
{
    const unsigned char *p = from;
    size_t size = bytes;

    if (from)
        memcpy(&size, from, sizeof(size));
    if (size < bytes || size > MAX_OPTS_BYTES)
        return shmht__refused(err, -EINVAL, "size", size);
    for (size_t i = bytes; i < size; i++)
        if (p[i])
            return shmht__refused(err, -EINVAL, "size", size);
    if (from)
        memcpy(to, from, bytes);
    else
        memset(to, 0, bytes);
    memcpy(to, &bytes, sizeof(bytes));
    return 0;
}

int shmht__handle_alloc(const struct shmht_allocator *allocator, size_t bytes, void *handle,
                        struct shmht_error *err)
{
    const struct shmht_allocator *a = allocator ? allocator : &libc_allocator;
    void *p;

    if (!a->realloc || !a->free)
        return shmht__refused(err, -EINVAL, "allocator", 0);
    p = a->realloc(a->ctx, NULL, bytes);
    if (!p)
        return shmht__failed(err, -ENOMEM, "allocate", "the handle");
    memset(p, 0, bytes);
    memcpy(handle, &p, sizeof(p));
    return 0;
}

void shmht__handle_free(const struct shmht_allocator *allocator, void *handle)
{
    const struct shmht_allocator *a = allocator ? allocator : &libc_allocator;

    a->free(a->ctx, handle);
}
