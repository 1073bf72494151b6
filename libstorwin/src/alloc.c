/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for handles and tables, from the caller's allocator or from libc. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Checks an allocator before its first use. */
int storwin__allocator_check(const struct storwin_allocator *a, struct storwin_error *err)
{
    return !a || (a->realloc && a->free)
               ? 0
               : storwin__fail(err, -EINVAL, NULL, "an allocator without realloc or free");
}

void *storwin__realloc(const struct storwin_allocator *a, void *ptr, size_t bytes)
{
    return a ? a->realloc(a->ctx, ptr, bytes) : realloc(ptr, bytes);
}

/* Allocates zeroed memory. libc's calloc() does not touch pages that it knows to be zero. */
void *storwin__calloc(const struct storwin_allocator *a, size_t n, size_t bytes)
{
    void *ptr;

    if (!a)
        return calloc(n, bytes);
    if (n > SIZE_MAX / bytes)
        return NULL;
    ptr = a->realloc(a->ctx, NULL, n * bytes);
    return ptr ? memset(ptr, 0, n * bytes) : NULL;
}

char *storwin__strndup(const struct storwin_allocator *a, const char *text, size_t len)
{
    char *copy = storwin__calloc(a, len + 1, 1);

    return copy ? memcpy(copy, text, len) : NULL;
}

char *storwin__strdup(const struct storwin_allocator *a, const char *text)
{
    return storwin__strndup(a, text, strlen(text));
}

void storwin__free(const struct storwin_allocator *a, void *ptr)
{
    if (!a)
        free(ptr);
    else if (ptr)
        a->free(a->ctx, ptr);
}
