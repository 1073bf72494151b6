/* SPDX-License-Identifier: BSD-3-Clause */
/* Options and memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define ALL_FLAGS (RANKMAP_ALLOW_DUPLICATES | RANKMAP_FAST | RANKMAP_NO_VIEW)

static void *libc_alloc(void *ctx, size_t bytes)
{
    (void)ctx;
    return malloc(bytes);
}

static void libc_free(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    (void)bytes;
    free(ptr);
}

const struct rankmap_allocator rankmap__libc = {.alloc = libc_alloc, .free = libc_free};

#define MAX_OPTS_BYTES 4096u /* none is near that: the size was not set */

int rankmap__opts_known(const void *opts, size_t ours)
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

int rankmap__make_init(struct make *mk, const struct rankmap_opts *opts)
{
    *mk = (struct make){
        .alloc = &rankmap__libc, .id_limit = RANKMAP_ID_LIMIT, .max_check = UINT64_MAX};
    if (!opts)
        return 0;
    if (!rankmap__opts_known(opts, sizeof(*opts)) || opts->flags & ~ALL_FLAGS ||
        opts->reserved != 0)
        return -EINVAL;
    if (opts->id_limit > RANKMAP_ID_LIMIT)
        return RANKMAP_ERANGE;
    if (opts->alloc) {
        if (!opts->alloc->alloc || !opts->alloc->free)
            return -EINVAL;
        mk->alloc = opts->alloc;
    }
    if (opts->id_limit)
        mk->id_limit = opts->id_limit;
    mk->flags = opts->flags;
    return 0;
}

/* n elements; NULL also when n · size overflows. */
void *rankmap__alloc(const struct rankmap_allocator *alloc, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    return alloc->alloc(alloc->ctx, bytes ? bytes : 1);
}

void rankmap__free(const struct rankmap_allocator *alloc, void *p, size_t n, size_t size)
{
    size_t bytes = n * size;

    if (p)
        alloc->free(alloc->ctx, p, bytes ? bytes : 1);
}
