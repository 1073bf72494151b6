/* SPDX-License-Identifier: BSD-3-Clause */
/* Option structs of other releases. Those of the transports over networks are in tests/asymreg-net.
 * */
#include "../opts_size.h"
#include "harness.h"

static int context(void *opts, void *ctx)
{
    struct asymreg_context *c;
    int rc = asymreg_open(opts, &c);

    (void)ctx;
    if (rc == 0)
        asymreg_close(c);
    return rc;
}

static int transport(void *opts, void *ctx)
{
    struct asymreg_transport *t;
    int rc = asymreg_local_create(opts, &t);

    (void)ctx;
    if (rc == 0)
        t->ops->destroy(t);
    return rc;
}

static int an_index(void *opts, void *ctx)
{
    struct asymreg_index *ix;
    int rc = asymreg_index_create(opts, &ix);

    (void)ctx;
    if (rc == 0)
        asymreg_index_destroy(ix);
    return rc;
}

static int table(void *opts, void *memory)
{
    struct asymreg_table *t;
    int rc = asymreg_table_create(opts, memory, 42, &t);

    CHECK((asymreg_table_bytes(opts) > 0) == (rc == 0));
    if (rc == 0)
        asymreg_table_destroy(t);
    return rc;
}

static int cache(void *opts, void *ctx)
{
    struct asymreg_cache *c;
    int rc = asymreg_cache_create(opts, &c);

    (void)ctx;
    if (rc == 0)
        asymreg_cache_destroy(c);
    return rc;
}

static int nobody(void *ctx, uint32_t number, struct asymreg_member *where)
{
    (void)ctx, (void)number, (void)where;
    return ASYMREG_ENOPEER;
}

static int group(void *opts, void *worker)
{
    struct asymreg_group *g;
    int rc = asymreg_group_open(worker, opts, &g);

    if (rc == 0)
        asymreg_group_destroy(g);
    return rc;
}

static int n_destroyed;

static void count_destroy(struct asymreg_transport *t)
{
    (void)t;
    n_destroyed++;
}

/* A transport is taken over also where the rest of the options is refused; not where they may not
 * even hold one. */
static void transport_is_taken(void)
{
    const struct asymreg_transport_ops ops = {
        .size = sizeof(ops), .version = ASYMREG_TRANSPORT_VERSION, .destroy = count_destroy};
    struct asymreg_transport t = {.ops = &ops};
    struct {
        struct asymreg_opts opts;
        uint64_t later;
    } longer = {.opts = {.size = sizeof(longer), .transport = &t}, .later = 1};
    struct asymreg_context *c;

    CHECK_EQ(asymreg_open(&longer.opts, &c), -EINVAL);
    CHECK_EQ(n_destroyed, 1);
    longer.opts.size = sizeof(longer.opts) - 1;
    CHECK_EQ(asymreg_open(&longer.opts, &c), -EINVAL);
    longer.opts.size = 4097;
    CHECK_EQ(asymreg_open(&longer.opts, &c), -EINVAL);
    CHECK_EQ(n_destroyed, 1);
    longer.opts.size = sizeof(longer.opts);
    longer.opts.reserved = 1;
    CHECK_EQ(asymreg_open(&longer.opts, &c), -EINVAL);
    CHECK_EQ(n_destroyed, 2);
    CHECK_EQ(asymreg_open(&longer.opts, NULL), -EINVAL);
    CHECK_EQ(n_destroyed, 3);
}

int main(void)
{
    static unsigned char scratch[ASYMREG_GROUP_SCRATCH_BYTES] __attribute__((aligned(64)));
    struct asymreg_opts co = {.size = sizeof(co), .max_regions = 100};
    struct asymreg_local_opts lo = {.size = sizeof(lo)};
    const struct asymreg_index_opts io = {.size = sizeof(io), .max_regions = 100};
    struct asymreg_table_opts to = {
        .size = sizeof(to), .max_regions = 100, .max_segments = 10, .ring = 16};
    struct asymreg_cache_opts ca = {.size = sizeof(ca), .incarnation = 42};
    struct asymreg_group_opts go = {
        .size = sizeof(go), .n = 1, .scratch = scratch, .member = nobody};
    struct asymreg_context *c = open_context(0, 0, 100);
    struct asymreg_worker *w;
    struct asymreg_table *t;
    size_t bytes = asymreg_table_bytes(&to);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(bytes > 0 && memory != MAP_FAILED);
    CHECK_EQ(opts_sizes("asymreg_opts", &co, sizeof(co), context, NULL), 0);
    CHECK_EQ(opts_sizes("asymreg_local_opts", &lo, sizeof(lo), transport, NULL), 0);
    CHECK_EQ(opts_sizes("asymreg_index_opts", &io, sizeof(io), an_index, NULL), 0);
    CHECK_EQ(opts_sizes("asymreg_table_opts", &to, sizeof(to), table, memory), 0);
    memset(memory, 0, bytes);
    CHECK_EQ(asymreg_table_create(&to, memory, 42, &t), 0);
    ca.mapped = memory;
    ca.bytes = bytes;
    CHECK_EQ(opts_sizes("asymreg_cache_opts", &ca, sizeof(ca), cache, NULL), 0);
    CHECK_EQ(asymreg_worker_create(c, &w), 0);
    CHECK_EQ(opts_sizes("asymreg_group_opts", &go, sizeof(go), group, w), 0);
    /* What is to be 0 may have a meaning one day. */
    co.reserved = lo.reserved = to.reserved = ca.reserved = go.reserved = 1;
    CHECK_EQ(context(&co, NULL), -EINVAL);
    CHECK_EQ(transport(&lo, NULL), -EINVAL);
    CHECK_EQ(table(&to, memory), -EINVAL);
    CHECK_EQ(cache(&ca, NULL), -EINVAL);
    CHECK_EQ(group(&go, w), -EINVAL);
    asymreg_table_destroy(t);
    transport_is_taken();
    asymreg_worker_destroy(w);
    asymreg_close(c);
    munmap(memory, bytes);
    return 0;
}
