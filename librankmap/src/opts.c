/* SPDX-License-Identifier: BSD-3-Clause */
/* Options and memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define ALL_FLAGS (RANKMAP_ALLOW_DUPLICATES | RANKMAP_FAST | RANKMAP_NO_VIEW)

#define MAX_OPTS_BYTES 4096u /* no struct is near this: a larger size was never set */

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

const struct rankmap_allocator rankmap__libc = {.realloc = libc_realloc, .free = libc_free};

int rankmap__opts_take(void *to, const void *from, size_t bytes)
{
    const unsigned char *given = from;
    size_t size;

    memcpy(&size, from, sizeof(size));
    if (size < bytes || size > MAX_OPTS_BYTES)
        return -EINVAL;
    for (size_t i = bytes; i < size; i++)
        if (given[i])
            return -EINVAL;
    memcpy(to, from, bytes);
    return 0;
}

int rankmap__allocator_take(const struct rankmap_allocator **to,
                            const struct rankmap_allocator *from)
{
    if (from && (!from->realloc || !from->free))
        return -EINVAL;
    *to = from ? from : &rankmap__libc;
    return 0;
}

int rankmap__make_fill(struct make *mk, const struct rankmap_opts *opts)
{
    struct rankmap_opts o = {.size = sizeof(o)};

    if (opts && rankmap__opts_take(&o, opts, sizeof(o)) < 0)
        return -EINVAL;
    *mk = (struct make){.id_limit = o.id_limit ? o.id_limit : RANKMAP_ID_LIMIT,
                        .flags = o.flags,
                        .max_check = UINT64_MAX};
    if (o.flags & ~ALL_FLAGS || o.reserved != 0 ||
        rankmap__allocator_take(&mk->alloc, o.allocator) < 0)
        return -EINVAL;
    return o.id_limit > RANKMAP_ID_LIMIT ? RANKMAP_ERANGE : 0;
}

/* Allocates n elements. Returns NULL also if n · size exceeds SIZE_MAX. */
void *rankmap__alloc(const struct rankmap_allocator *alloc, uint64_t n, uint64_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    return alloc->realloc(alloc->ctx, NULL, bytes ? bytes : 1);
}

void rankmap__free(const struct rankmap_allocator *alloc, void *p)
{
    if (p)
        alloc->free(alloc->ctx, p);
}
