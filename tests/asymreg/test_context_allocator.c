/* SPDX-License-Identifier: BSD-3-Clause */
/* A context with the caller's allocator: all blocks come from it and return to it, and when it
 * fails the call reports that and leaks nothing. */
#include "targets.h"

struct counted {
    int n_blocks, n_calls, fail_at; /* 0: never */
    size_t bytes;                   /* of all blocks so far */
};

static void *count_realloc(void *ctx, void *ptr, size_t bytes)
{
    struct counted *c = ctx;

    CHECK(ptr == NULL);
    if (++c->n_calls == c->fail_at)
        return NULL;
    c->n_blocks++;
    c->bytes += bytes;
    ptr = malloc(bytes);
    CHECK(ptr != NULL);
    return memset(ptr, 0x5a, bytes); /* the library clears what it needs cleared */
}

static void count_free(void *ctx, void *ptr)
{
    struct counted *c = ctx;

    CHECK(ptr != NULL);
    c->n_blocks--;
    free(ptr);
}

/* An allocator without a function is refused before its first call. */
static void refused(const struct asymreg_allocator *a)
{
    struct asymreg_opts o = {.size = sizeof(o), .allocator = a};
    struct asymreg_local_opts lo = {.size = sizeof(lo), .allocator = a};
    struct asymreg_error err = {0};
    struct asymreg_transport *t;
    struct asymreg_context *c;

    CHECK_EQ(asymreg_open(&o, &c, &err), -EINVAL);
    CHECK(strstr(err.text, "allocator"));
    err.text[0] = '\0';
    CHECK_EQ(asymreg_local_create(&lo, &t, &err), -EINVAL);
    CHECK(strstr(err.text, "allocator"));
}

/* A life of a context that talks to itself. Returns 0, or the first error. */
static int life(const struct asymreg_allocator *a)
{
    static char memory[100];
    struct asymreg_opts o = {.size = sizeof(o), .max_regions = 1000, .allocator = a};
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    struct asymreg_error err = {0};
    struct asymreg_worker *w = NULL;
    struct asymreg_context *c;
    ssize_t n;
    int rc = asymreg_open(&o, &c, &err);

    if (rc < 0) {
        CHECK_EQ(err.code, rc);
        CHECK(err.text[0]);
        return rc;
    }
    n = asymreg_export(c, blob, sizeof(blob), NULL);
    CHECK(n > 0);
    rc = asymreg_register(c, memory, sizeof(memory), ASYMREG_RW, NULL, NULL, NULL);
    if (rc == 0)
        rc = asymreg_import(c, 3, blob, (size_t)n, NULL);
    if (rc == 0)
        rc = asymreg_worker_create(c, &w);
    if (rc == 0)
        rc = asymreg_put(w, 3, (uintptr_t)memory, ASYMREG_ANY, "x", 1);
    asymreg_worker_destroy(w);
    asymreg_close(c);
    return rc;
}

/* The bytes that 16 more peers with default tables take from the allocator. */
static size_t peers(const struct asymreg_allocator *a)
{
    static char memory[100];
    struct asymreg_opts o = {.size = sizeof(o), .allocator = a};
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    struct asymreg_worker *w;
    struct asymreg_context *c;
    size_t before = 0;
    ssize_t n;

    CHECK_EQ(asymreg_open(&o, &c, NULL), 0);
    CHECK_EQ(asymreg_register(c, memory, sizeof(memory), ASYMREG_RW, NULL, NULL, NULL), 0);
    CHECK((n = asymreg_export(c, blob, sizeof(blob), NULL)) > 0);
    CHECK_EQ(asymreg_worker_create(c, &w), 0);
    for (uint32_t pe = 0; pe < 17; pe++) {
        CHECK_EQ(asymreg_import(c, pe, blob, (size_t)n, NULL), 0);
        CHECK_EQ(asymreg_put(w, pe, (uintptr_t)memory, ASYMREG_ANY, "x", 1), 0);
        if (pe == 0) /* also the worker's table of peers */
            before = ((struct counted *)a->ctx)->bytes;
    }
    asymreg_worker_destroy(w);
    asymreg_close(c);
    return ((struct counted *)a->ctx)->bytes - before;
}

/* A segment that is removed while the allocator fails is removed, or as before. */
static void segments(struct counted *c, const struct asymreg_allocator *a)
{
    struct asymreg_opts opts = {.size = sizeof(opts), .allocator = a, .max_segments = 600};
    struct asymreg_context *ctx;
    int n_failed = 0;
    asymreg_id id;
    void *at;

    CHECK_EQ(asymreg_open(&opts, &ctx, NULL), 0);
    for (int i = 0; i < 500; i++) {
        int rc;

        CHECK_EQ(asymreg_segment_alloc(ctx, 4096, &at, NULL), 0);
        c->fail_at = c->n_calls + 1;
        rc = asymreg_segment_remove(ctx, at);
        c->fail_at = 0;
        if (rc == 0) {
            CHECK_EQ(asymreg_segment_alloc(ctx, 4096, &at, NULL), 0);
            continue;
        }
        CHECK_EQ(rc, -ENOMEM);
        n_failed++;
        CHECK_EQ(asymreg_register(ctx, at, 100, ASYMREG_RW, NULL, &id, NULL), 0);
        CHECK_EQ(asymreg_segment_remove(ctx, at), ASYMREG_EBUSY);
        CHECK_EQ(asymreg_unregister(ctx, id), 0);
    }
    CHECK(n_failed > 0);
    asymreg_close(ctx);
    CHECK_EQ(c->n_blocks, 0);
}

int main(void)
{
    struct counted c = {0};
    const struct asymreg_allocator a = {count_realloc, count_free, &c};
    int n_calls;

    refused(&(struct asymreg_allocator){.realloc = count_realloc, .ctx = &c});
    refused(&(struct asymreg_allocator){.free = count_free, .ctx = &c});
    refused(&(struct asymreg_allocator){.ctx = &c});
    CHECK_EQ(c.n_calls, 0);
    CHECK_EQ(life(&a), 0);
    CHECK_EQ(c.n_blocks, 0);
    n_calls = c.n_calls;
    CHECK(n_calls > 10);
    for (int i = 1; i <= n_calls; i++) {
        c = (struct counted){.fail_at = i};
        CHECK_EQ(life(&a), -ENOMEM);
        CHECK_EQ(c.n_blocks, 0);
    }
    CHECK_EQ(life(NULL), 0);
    c = (struct counted){0};
    CHECK(peers(&a) < 16 * 8192); /* tables of the peer's table's size are in mapped pages */
    CHECK_EQ(c.n_blocks, 0);
    segments(&c, &a);
    printf("%d blocks\n", n_calls);
    return 0;
}
