/* SPDX-License-Identifier: BSD-3-Clause */
/* An owner publishes a region inside a segment that covers other memory: no operation reaches
 * it. */
#include "targets.h"

#include "../../libasymreg/src/rma/context.h"

int main(void)
{
    struct asymreg_opts o = {.size = sizeof(o), .max_regions = 1000};
    static char a[100], b[100];
    char blob[ASYMREG_MAX_BLOB_BYTES];
    const struct asymreg__header *h;
    struct asymreg__segment *s;
    struct asymreg_context *c;
    struct asymreg_worker *w;
    ssize_t n;

    CHECK_EQ(asymreg_open(&o, &c, NULL), 0);
    CHECK(c->whole);
    h = c->memory;
    s = (void *)((char *)c->memory + h->segments_at + (uint32_t)c->whole * h->segment_bytes);
    n = asymreg_export(c, blob, sizeof(blob), NULL);
    CHECK(n > 0);
    CHECK_EQ(asymreg_import(c, 1, blob, (size_t)n, NULL), 0);
    CHECK_EQ(asymreg_worker_create(c, &w), 0);
    CHECK_EQ(asymreg_register(c, a, sizeof(a), ASYMREG_RW, NULL, NULL, NULL), 0);
    CHECK_EQ(asymreg_register(c, b, sizeof(b), ASYMREG_RW, NULL, NULL, NULL), 0);
    /* Without a key: the operation makes none. */
    s->base = (uintptr_t)a + 1;
    s->last = (uintptr_t)a + 99;
    CHECK_EQ(asymreg_put(w, 1, (uintptr_t)a + 50, ASYMREG_ANY, "x", 1), ASYMREG_ETABLE);
    s->base = (uintptr_t)a;
    s->last = (uintptr_t)a + 98;
    CHECK_EQ(asymreg_put(w, 1, (uintptr_t)a + 50, ASYMREG_ANY, "x", 1), ASYMREG_ETABLE);
    /* A key for one region does not serve the other. */
    s->last = (uintptr_t)a + 99;
    CHECK_EQ(asymreg_put(w, 1, (uintptr_t)a + 50, ASYMREG_ANY, "x", 1), 0);
    CHECK_EQ(asymreg_put(w, 1, (uintptr_t)b + 50, ASYMREG_ANY, "x", 1), ASYMREG_ETABLE);
    CHECK_EQ(a[50], 'x');
    CHECK_EQ(b[50], 0);
    asymreg_worker_destroy(w);
    asymreg_close(c);
    return 0;
}
