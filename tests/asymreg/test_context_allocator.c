/* SPDX-License-Identifier: BSD-3-Clause */
/* A context with the caller's allocator: all blocks come from it and return to it, and when it
 * fails the call reports that and leaks nothing. */
#include "targets.h"

struct counted {
    int n_blocks, n_calls, fail_at; /* 0: never */
};

static void *count_realloc(void *ctx, void *ptr, size_t bytes)
{
    struct counted *c = ctx;

    CHECK(ptr == NULL);
    if (++c->n_calls == c->fail_at)
        return NULL;
    c->n_blocks++;
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
    static char memory[100], scratch[ASYMREG_GROUP_SCRATCH_BYTES] __attribute__((aligned(64)));
    struct asymreg_opts o = {.size = sizeof(o), .max_regions = 1000, .allocator = a};
    struct asymreg_member self = {.pe = 3};
    struct asymreg_group_opts go = {
        .size = sizeof(go), .n = 1, .scratch = scratch, .members = &self};
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    struct asymreg_error err = {0};
    struct asymreg_worker *w = NULL;
    struct asymreg_group *g = NULL;
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
    rc = asymreg_register(c, memory, sizeof(memory), ASYMREG_RW, 0, NULL, NULL);
    if (rc == 0)
        rc = asymreg_import(c, 3, blob, (size_t)n, NULL);
    if (rc == 0)
        rc = asymreg_worker_create(c, &w);
    if (rc == 0)
        rc = asymreg_put(w, 3, (uintptr_t)memory, ASYMREG_ANY, "x", 1);
    if (rc == 0)
        rc = asymreg_group_create(w, &go, &g, NULL);
    asymreg_group_destroy(g);
    asymreg_worker_destroy(w);
    asymreg_close(c);
    return rc;
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
    printf("%d blocks\n", n_calls);
    return 0;
}
