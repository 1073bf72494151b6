/* SPDX-License-Identifier: BSD-3-Clause */
/* Option structs of other releases. tests/asymreg-net has those of the network transports. */
#include <limits.h>

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
        struct asymreg_stats stats;
        uint64_t later;
    } s = {.stats = {.size = sizeof(s)}, .later = 5};

    CHECK_EQ(asymreg_context_stats(c, &s.stats), 0);
    CHECK(s.stats.n_segments && s.stats.size == sizeof(s) && s.later == 5);
    s.stats = (struct asymreg_stats){.size = sizeof(s.stats) - 1};
    CHECK_EQ(asymreg_context_stats(c, &s.stats), -EINVAL);
    CHECK(!s.stats.n_segments);
}

/* A phrase for each code of the library, libc's for its numbers, and one for all others. */
static void phrases(void)
{
    for (int code = ASYMREG_ETIMEDOUT; code <= ASYMREG_ENOREGION; code++)
        CHECK(strcmp(asymreg_strerror(code), "unknown error code") != 0);
    CHECK(strcmp(asymreg_strerror(0), "success") == 0);
    CHECK(strcmp(asymreg_strerror(-EIO), strerror(EIO)) == 0);
    CHECK(strcmp(asymreg_strerror(-ENOMEM), strerror(ENOMEM)) == 0);
    CHECK(strcmp(asymreg_strerror(ASYMREG_ETIMEDOUT - 1), "unknown error code") == 0);
    CHECK(strcmp(asymreg_strerror(ASYMREG_ENOREGION + 1), "unknown error code") == 0);
    CHECK(strcmp(asymreg_strerror(-4095), "unknown error code") == 0);
    CHECK(strcmp(asymreg_strerror(INT_MIN), "unknown error code") == 0);
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

static int query_fails(struct asymreg_transport *t, struct asymreg_transport_caps *caps)
{
    return -EIO;
}

/* The largest table is allowed; no larger one is. A transport that fails ends the call before there
 * is any table. */
static void largest(void)
{
    struct asymreg_opts o = {.size = sizeof(o)};
    struct asymreg_transport_ops ops;
    struct asymreg_error err = {0};
    struct asymreg_context *c;

    for (uint32_t over = 0; over < 4; over++) {
        o.max_regions = ASYMREG_MAX_REGIONS + (over & 1);
        o.max_segments = ASYMREG_MAX_SEGMENTS + (over >> 1);
        CHECK_EQ(asymreg_local_create(NULL, &o.transport, NULL), 0);
        ops = *o.transport->ops;
        ops.query = query_fails;
        o.transport->ops = &ops;
        CHECK_EQ(asymreg_open(&o, &c, &err), over ? -EINVAL : -EIO);
        CHECK(!over || strstr(err.text, "max_segments is above 67108864"));
    }
}

/* The error of a wrong argument has its value, and what is allowed. */
static void arguments(struct asymreg_context *c)
{
    static unsigned char memory[64];
    struct asymreg_error err = {0};

    CHECK_EQ(asymreg_register(c, memory, 0, ASYMREG_READ, NULL, NULL, &err), -EINVAL);
    CHECK(strstr(err.text, "bytes 0"));
    CHECK_EQ(asymreg_register(c, memory, 1, 8, NULL, NULL, &err), -EINVAL);
    CHECK(strstr(err.text, "prot 0x8"));
    CHECK_EQ(asymreg_register(c, memory, 1, ASYMREG_READ, FLAGS(2), NULL, &err), -EINVAL);
    CHECK(strstr(err.text, "flags 0x2"));
    CHECK_EQ(asymreg_import(c, ASYMREG_MAX_PEERS, "", 1, &err), -EINVAL);
    CHECK(strstr(err.text, "16777216 is not below 16777216"));
}

int main(void)
{
    struct asymreg_opts co = {.size = sizeof(co), .max_regions = 100};
    struct asymreg_local_opts lo = {.size = sizeof(lo)};
    struct asymreg_context *c = open_context(0, 0, 100);

    CHECK_EQ(opts_sizes("asymreg_opts", &co, sizeof(co), context, NULL), 0);
    CHECK_EQ(opts_sizes("asymreg_local_opts", &lo, sizeof(lo), transport, NULL), 0);
    /* Bytes that must be 0 may get a meaning later. */
    lo.reserved = 1;
    co.flags = 1u << 31;
    CHECK_EQ(context(&co, NULL), -EINVAL);
    CHECK_EQ(transport(&lo, NULL), -EINVAL);
    transport_is_taken();
    rings();
    largest();
    phrases();
    arguments(c);
    filled(c);
    asymreg_close(c);
    return 0;
}
