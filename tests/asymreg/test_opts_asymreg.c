/* SPDX-License-Identifier: BSD-3-Clause */
/* Option structs of other releases. tests/asymreg-net has those of the network transports.
 * */
#include "../opts_size.h"
#include "targets.h"

static int context(void *opts, void *ctx)
{
    struct asymreg_context *c;
    int rc = asymreg_open(opts, &c, NULL);

    if (rc == 0)
        asymreg_close(c);
    return rc;
}

static int transport(void *opts, void *ctx)
{
    struct asymreg_transport *t;
    int rc = asymreg_local_create(opts, &t, NULL);

    if (rc == 0)
        t->ops->destroy(t);
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
    int rc = asymreg_group_create(worker, opts, &g, NULL);

    if (rc == 0)
        asymreg_group_destroy(g);
    return rc;
}

static int n_destroyed;

static void count_destroy(struct asymreg_transport *t)
{
    n_destroyed++;
}

/* The library takes a transport over even if it refuses other options, but not if the struct is too
 * short to hold one. */
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

    CHECK_EQ(asymreg_open(&longer.opts, &c, NULL), -EINVAL);
    CHECK_EQ(n_destroyed, 1);
    longer.opts.size = sizeof(longer.opts) - 1;
    CHECK_EQ(asymreg_open(&longer.opts, &c, NULL), -EINVAL);
    longer.opts.size = 4097;
    CHECK_EQ(asymreg_open(&longer.opts, &c, NULL), -EINVAL);
    CHECK_EQ(n_destroyed, 1);
    longer.opts.size = sizeof(longer.opts);
    longer.opts.flags = 1u << 31;
    CHECK_EQ(asymreg_open(&longer.opts, &c, NULL), -EINVAL);
    CHECK_EQ(n_destroyed, 2);
    CHECK_EQ(asymreg_open(&longer.opts, NULL, NULL), -EINVAL);
    CHECK_EQ(n_destroyed, 3);
}

/* A filled struct: the call writes up to its size and this release's; a shorter one is refused. */
static void filled(struct asymreg_context *c)
{
    struct {
        struct asymreg_info info;
        uint64_t later;
    } i = {.info = {.size = sizeof(i)}, .later = 5};
    struct {
        struct asymreg_stats stats;
        uint64_t later;
    } s = {.stats = {.size = sizeof(s)}, .later = 5};

    CHECK_EQ(asymreg_context_query(c, &i.info), 0);
    CHECK(i.info.transport && i.info.size == sizeof(i) && i.later == 5);
    CHECK_EQ(asymreg_context_stats(c, &s.stats), 0);
    CHECK(s.stats.n_segments && s.stats.size == sizeof(s) && s.later == 5);
    i.info = (struct asymreg_info){.size = sizeof(i.info) - 1};
    CHECK_EQ(asymreg_context_query(c, &i.info), -EINVAL);
    CHECK(!i.info.transport);
    s.stats = (struct asymreg_stats){.size = sizeof(s.stats) - 1};
    CHECK_EQ(asymreg_context_stats(c, &s.stats), -EINVAL);
    CHECK(!s.stats.n_segments);
}

/* Lengths of the change log; the error names the option and its limits. */
static void rings(void)
{
    static const uint32_t bad[] = {1, 8, 17, 0x100001, 0x200000, UINT32_MAX},
                          good[] = {0, 16, 0x100000};
    struct asymreg_opts o = {.size = sizeof(o), .max_regions = 100};

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct asymreg_error err = {0};
        struct asymreg_context *c;
        o.ring = bad[i];
        CHECK_EQ(asymreg_open(&o, &c, &err), -EINVAL);
        CHECK(strstr(err.text, "ring is ") && strstr(err.text, " from 16 to 1048576"));
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        o.ring = good[i];
        CHECK_EQ(context(&o, NULL), 0);
    }
}

/* The error of a wrong argument has its value, and what is allowed. */
static void arguments(struct asymreg_context *c, struct asymreg_worker *w, unsigned char *scratch)
{
    struct asymreg_group_opts go = {
        .size = sizeof(go), .n = 2, .me = 2, .scratch = scratch, .member = nobody};
    struct asymreg_error err = {0};
    struct asymreg_group *g;

    CHECK_EQ(asymreg_register(c, scratch, 0, ASYMREG_READ, 0, NULL, &err), -EINVAL);
    CHECK(strstr(err.text, "bytes 0"));
    CHECK_EQ(asymreg_register(c, scratch, 1, 8, 0, NULL, &err), -EINVAL);
    CHECK(strstr(err.text, "prot 0x8"));
    CHECK_EQ(asymreg_register(c, scratch, 1, ASYMREG_READ, 2, NULL, &err), -EINVAL);
    CHECK(strstr(err.text, "flags 0x2"));
    CHECK_EQ(asymreg_import(c, ASYMREG_MAX_PEERS, "", 1, &err), -EINVAL);
    CHECK(strstr(err.text, "16777216 is not below 16777216"));
    CHECK_EQ(asymreg_group_create(w, &go, &g, &err), -EINVAL);
    CHECK(strstr(err.text, "member 2 of 2 on channel 0: a group has 1 to 16777216 members"));
}

int main(void)
{
    static unsigned char scratch[ASYMREG_GROUP_SCRATCH_BYTES] __attribute__((aligned(64)));
    struct asymreg_opts co = {.size = sizeof(co), .max_regions = 100};
    struct asymreg_local_opts lo = {.size = sizeof(lo)};
    struct asymreg_group_opts go = {
        .size = sizeof(go), .n = 1, .scratch = scratch, .member = nobody};
    struct asymreg_context *c = open_context(0, 0, 100);
    struct asymreg_worker *w;

    CHECK_EQ(opts_sizes("asymreg_opts", &co, sizeof(co), context, NULL), 0);
    CHECK_EQ(opts_sizes("asymreg_local_opts", &lo, sizeof(lo), transport, NULL), 0);
    CHECK_EQ(asymreg_worker_create(c, &w), 0);
    CHECK_EQ(opts_sizes("asymreg_group_opts", &go, sizeof(go), group, w), 0);
    /* Bytes that must be 0 may get a meaning later. */
    lo.reserved = go.reserved = 1;
    co.flags = 1u << 31;
    CHECK_EQ(context(&co, NULL), -EINVAL);
    CHECK_EQ(transport(&lo, NULL), -EINVAL);
    CHECK_EQ(group(&go, w), -EINVAL);
    transport_is_taken();
    rings();
    arguments(c, w, scratch);
    filled(c);
    asymreg_worker_destroy(w);
    asymreg_close(c);
    return 0;
}
