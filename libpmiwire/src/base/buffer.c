/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory within a limit, and buffers that grow by doubling. */
#include <errno.h>

#include "base_internal.h"

void *pmiwire__mem_realloc(struct pmiwire__mem *m, void *ptr, size_t old_bytes, size_t bytes)
{
    void *p;

    if (bytes == 0) {
        if (ptr)
            m->a.free(m->a.ctx, ptr);
        m->bytes -= old_bytes;
        return NULL;
    }
    /* Old and new memory count together while realloc() runs. */
    m->at_max = !m->no_max && (bytes > m->max || m->bytes > m->max - bytes);
    if (m->at_max)
        return NULL;
    p = m->a.realloc(m->a.ctx, ptr, bytes);
    if (!p)
        return NULL;
    m->bytes += bytes;
    if (m->bytes > m->peak)
        m->peak = m->bytes;
    m->bytes -= old_bytes;
    return p;
}

int pmiwire__buf_room(struct pmiwire__mem *m, struct pmiwire__buf *b, size_t bytes)
{
    size_t live = b->len - b->off, cap = b->cap ? b->cap : 64;
    char *p;

    if (b->cap - b->len >= bytes)
        return 0;
    if (bytes > SIZE_MAX / 4)
        return -ENOMEM;
    /* Move the bytes to the front only if that frees half the buffer: less does not pay. */
    if (b->off >= live && b->cap - live >= bytes) {
        memmove(b->ptr, b->ptr + b->off, live);
        b->off = 0;
        b->len = live;
        return 0;
    }
    while (cap - b->len < bytes)
        cap *= 2;
    p = pmiwire__mem_realloc(m, b->ptr, b->cap, cap);
    if (!p)
        return -ENOMEM;
    b->ptr = p;
    b->cap = cap;
    return 0;
}

int pmiwire__buf_append(struct pmiwire__mem *m, struct pmiwire__buf *b, const void *p, size_t n)
{
    int rc = pmiwire__buf_room(m, b, n);

    if (rc == 0)
        pmiwire__buf_add(b, p, n);
    return rc;
}

void pmiwire__buf_free(struct pmiwire__mem *m, struct pmiwire__buf *b)
{
    (void)pmiwire__mem_realloc(m, b->ptr, b->cap, 0);
    memset(b, 0, sizeof(*b));
}

void pmiwire__buf_reset(struct pmiwire__mem *m, struct pmiwire__buf *b)
{
    if (b->cap > PMIWIRE__BUF_KEEP)
        pmiwire__buf_free(m, b);
    else
        b->off = b->len = 0;
}
