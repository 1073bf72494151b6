/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives among processes: collectives TRANSPORT [kills|stops] (shm, cma, ucx, ucx-thread,
 * ibv). Every call against a plain computation; groups and teams; wrong arguments; errors that end
 * a call at every member; and members that are killed (kills) or stopped (stops) in the middle,
 * which must be named.
 */
#define _GNU_SOURCE
#include "collectives.h"

#include <complex.h>
#include <sched.h>

#ifdef HAVE_UCX
#include <asymreg-ucx.h>
#endif
#ifdef HAVE_IBV
#include <asymreg-ibv.h>
#endif

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libuct.so\nleak:libucp.so\n";
}

struct board *board;
const char *transport;

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

void meet(struct self *s)
{
    uint32_t *count = &board->met[s->met++], all = s->n;

    if (__atomic_load_n(&board->killed, __ATOMIC_SEQ_CST))
        all--;
    CHECK(s->met <= sizeof(board->met) / sizeof(*board->met));
    __atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < all) {
        CHECK(asymreg_progress(s->w) >= 0);
        usleep(100);
    }
}

/* A wrapper around shared memory or CMA. Either its flush returns only after the other member is
 * gone, or its puts and gets first fail with ASYMREG_EBUSY. */
enum { NONE, SYNC, BROADCAST, ALLGATHER, BUSY };
static int late_call;         /* in which it happens */
static uint32_t flushes_left; /* until then */
static uint32_t busy_left;    /* puts and gets that fail */
static const struct asymreg_transport_ops *plain_ops;
static struct asymreg_transport_ops late_ops;

static int query_without_direct(struct asymreg_transport *t, struct asymreg_transport_caps *caps)
{
    int rc = plain_ops->query(t, caps);

    caps->flags &= ~ASYMREG_CAP_DIRECT; /* so that each flush calls our function */
    return rc;
}

static int late_flush(struct asymreg_transport *t, struct asymreg_ep *ep)
{
    if (flushes_left && --flushes_left == 0)
        while (plain_ops->flush(t, ep) != ASYMREG_EPEER)
            usleep(1000);
    return plain_ops->flush(t, ep);
}

static int busy_put(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
                    uint64_t addr, const void *src, size_t bytes, struct asymreg_mem *local,
                    struct asymreg_op *op)
{
    return busy_left && busy_left-- ? ASYMREG_EBUSY
                                    : plain_ops->put(t, ep, rkey, addr, src, bytes, local, op);
}

static int busy_get(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
                    uint64_t addr, void *dst, size_t bytes, struct asymreg_mem *local,
                    struct asymreg_op *op)
{
    return busy_left && busy_left-- ? ASYMREG_EBUSY
                                    : plain_ops->get(t, ep, rkey, addr, dst, bytes, local, op);
}

static struct asymreg_context *open_late(uint32_t local_flags)
{
    struct asymreg_local_opts local = {.size = sizeof(local), .flags = local_flags};
    struct asymreg_opts opts = {.size = sizeof(opts), .max_regions = 1000};
    struct asymreg_context *c;

    CHECK_EQ(asymreg_local_create(&local, &opts.transport, NULL), 0);
    plain_ops = opts.transport->ops;
    late_ops = *plain_ops;
    late_ops.query = query_without_direct;
    late_ops.flush = late_flush;
    late_ops.put = busy_put;
    late_ops.get = busy_get;
    opts.transport->ops = &late_ops;
    CHECK_EQ(asymreg_open(&opts, &c, NULL), 0);
    return c;
}

static struct asymreg_context *open_over(const char *name)
{
    struct asymreg_opts opts = {.size = sizeof(opts), .max_regions = 1000};
    struct asymreg_context *c;

    if (late_call)
        return open_late(*name == 's' ? ASYMREG_LOCAL_SHM : ASYMREG_LOCAL_CMA);
    if (strcmp(name, "shm") == 0 || strcmp(name, "cma") == 0)
        return open_context(*name == 's' ? ASYMREG_LOCAL_SHM : ASYMREG_LOCAL_CMA, 0, 1000);
#ifdef HAVE_UCX
    if (strncmp(name, "ucx", 3) == 0) {
        struct asymreg_ucx_opts o = {.size = sizeof(o),
                                     .flags = strcmp(name, "ucx") ? ASYMREG_UCX_THREAD : 0};
        CHECK_EQ(asymreg_ucx_create(&o, &opts.transport, NULL), 0);
    }
#endif
#ifdef HAVE_IBV
    if (strcmp(name, "ibv") == 0) {
        struct asymreg_ibv_opts o = {.size = sizeof(o), .timeout_ms = 3000};
        CHECK_EQ(asymreg_ibv_create(&o, &opts.transport, NULL), 0);
    }
#endif
    CHECK(opts.transport != NULL);
    CHECK_EQ(asymreg_open(&opts, &c, NULL), 0);
    return c;
}

int of_array(struct self *s, uint32_t n, uint32_t me, void *scratch, uint32_t channel,
             uint32_t timeout_ms, struct asymreg_group **g)
{
    struct asymreg_group_opts opts = {.size = sizeof(opts),
                                      .n = n,
                                      .me = me,
                                      .scratch = scratch,
                                      .channel = channel,
                                      .timeout_ms = timeout_ms,
                                      .members = s->scratches};

    return asymreg_group_create(s->w, &opts, g, NULL);
}

void begin_member(struct self *s, uint32_t me, uint32_t n)
{
    size_t all = ASYMREG_GROUP_SCRATCH_BYTES + BUF_BYTES;
    void *p = NULL;
    ssize_t len;

    *s = (struct self){.me = me, .n = n, .context = open_over(transport)};
    CHECK_EQ(asymreg_worker_create(s->context, &s->w), 0);
    if (strcmp(transport, "shm") == 0)
        CHECK_EQ(asymreg_segment_alloc(s->context, all, &p, NULL), 0);
    else
        CHECK((p = aligned_alloc(4096, all)) != NULL);
    memset(p, 0, all);
    s->scratch = p;
    s->buf = (char *)p + ASYMREG_GROUP_SCRATCH_BYTES;
    CHECK_EQ(asymreg_register(s->context, s->scratch, ASYMREG_GROUP_SCRATCH_BYTES, ASYMREG_RW, 0,
                              NULL, NULL),
             0);
    CHECK_EQ(asymreg_register(s->context, s->buf, BUF_BYTES, ASYMREG_RW, 0, NULL, NULL), 0);
    CHECK((len = asymreg_export(s->context, board->member[me].blob, ASYMREG_MAX_BLOB_BYTES, NULL)) >
          0);
    board->member[me].n = (size_t)len;
    board->member[me].scratch = (uintptr_t)s->scratch;
    board->member[me].buf = (uintptr_t)s->buf;
    __atomic_store_n(&board->member[me].ready, 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < n; i++) {
        while (!__atomic_load_n(&board->member[i].ready, __ATOMIC_ACQUIRE))
            usleep(100);
        CHECK_EQ(
            asymreg_import(s->context, PE + i, board->member[i].blob, board->member[i].n, NULL), 0);
        s->scratches[i] = (struct asymreg_member){.pe = PE + i, .addr = board->member[i].scratch};
        s->bufs[i] = (struct asymreg_member){.pe = PE + i, .addr = board->member[i].buf};
    }
    meet(s);
}

void close_member(struct self *s)
{
    asymreg_group_destroy(s->g);
    asymreg_worker_destroy(s->w);
    asymreg_close(s->context);
}

void end_member(struct self *s)
{
    meet(s); /* no member closes while another may still access it */
    close_member(s);
    exit(0);
}

/* ---- teams ---- */

/* For every member: the answer when a group asks for its address, and the number of questions. */
struct directory {
    const struct asymreg_member *all;
    const uint32_t *team; /* numbers in `all` */
    uint32_t asked, n;
    int fails;
};

static int look_up(void *ctx, uint32_t number, struct asymreg_member *where)
{
    struct directory *d = ctx;

    CHECK(number < d->n);
    d->asked++;
    *where = d->all[d->team ? d->team[number] : number];
    return d->fails;
}

/*
 * Teams of some members, over the scratch regions that the group of all has: the even and the odd
 * ones concurrently, on one channel as they share no member; all but the first on another channel
 * at the same time; and each three times on the same channel, with a barrier of all between.
 */
static void teams(struct self *s)
{
    uint32_t me = s->me, n = s->n;

    for (uint32_t round = 0; round < 3; round++) {
        uint32_t team[2][MAX], size[2] = {0}, at[2] = {0};
        struct asymreg_group *g[2] = {NULL, NULL};
        struct asymreg_member where[MAX];
        for (uint32_t i = 0; i < n; i++) {
            if (i % 2 == me % 2)
                team[0][size[0]++] = i;
            if (i)
                team[1][size[1]++] = i;
        }
        for (int t = 0; t < 2; t++) {
            struct directory d = {.all = s->scratches, .team = team[t], .n = size[t]};
            struct asymreg_group_opts opts = {.size = sizeof(opts),
                                              .n = size[t],
                                              .scratch = s->scratch,
                                              .timeout_ms = 60000,
                                              .channel = t ? ASYMREG_GROUP_CHANNELS - 1 : 3,
                                              .serial = round + 1,
                                              .member = look_up,
                                              .ctx = &d};
            if (t && !me)
                continue;
            while (team[t][at[t]] != me)
                at[t]++;
            opts.me = at[t];
            CHECK_EQ(asymreg_group_create(s->w, &opts, &g[t], NULL), 0);
            CHECK_EQ(d.asked, 0); /* not before the first access */
            if (size[t] > 1 && round == 0) {
                static const int fails[] = {ASYMREG_ENOPEER, 1}; /* not a valid error code */
                for (int i = 0; i < 2; i++) {
                    d.fails = fails[i];
                    CHECK_EQ(asymreg_sync(g[t], NULL), i ? -EINVAL : ASYMREG_ENOPEER);
                    asymreg_group_destroy(g[t]); /* no member has heard of it: repeat */
                    CHECK_EQ(asymreg_group_create(s->w, &opts, &g[t], NULL), 0);
                }
                d.fails = 0;
                d.asked = 0;
            }
            for (int i = 0; i < 20; i++)
                CHECK_EQ(asymreg_sync(g[t], NULL), 0);
            uint32_t steps = 0;
            for (uint32_t step = 1; step < size[t]; step *= 2)
                steps++;
            CHECK_EQ(d.asked, 2 * steps);
            for (uint32_t i = 0; i < size[t]; i++) {
                where[i] = s->bufs[team[t][i]];
                where[i].addr +=
                    (uint64_t)(t * size[t] * 16); /* the even ones may be at the second already */
            }
            uint64_t mine[2] = {me, round}, *got = (uint64_t *)(void *)(s->buf + t * size[t] * 16);
            for (int i = 0; i < 5; i++) {
                memset(got, 0xff, size[t] * 16);
                CHECK_EQ(asymreg_allgather(g[t], mine, got, where, 16, NULL), 0);
                for (uint32_t k = 0; k < size[t]; k++)
                    CHECK(got[2 * k] == team[t][k] && got[2 * k + 1] == round);
                CHECK_EQ(asymreg_barrier(g[t], NULL), 0);
            }
        }
        CHECK_EQ(asymreg_barrier(s->g, NULL), 0);
        asymreg_group_destroy(g[0]);
        asymreg_group_destroy(g[1]);
    }
}

/* ---- calls refused locally ---- */

static void rejects_groups(struct self *s)
{
    const size_t bytes = ASYMREG_GROUP_SCRATCH_BYTES / ASYMREG_GROUP_CHANNELS;
    struct directory d = {.all = s->scratches, .n = 1};
    struct asymreg_error err;
    struct asymreg_group_opts good = {.size = sizeof(good),
                                      .n = 1,
                                      .scratch = s->scratch,
                                      .member = look_up,
                                      .ctx = &d},
                              o;
    struct asymreg_group *g;

    CHECK_EQ(asymreg_group_create(NULL, &good, &g, NULL), -EINVAL);
    CHECK_EQ(asymreg_group_create(s->w, NULL, &g, NULL), -EINVAL);
    CHECK_EQ(asymreg_group_create(s->w, &good, NULL, NULL), -EINVAL);
#define REJECTED(field, value)                                                                     \
    o = good;                                                                                      \
    o.field = value;                                                                               \
    CHECK_EQ(asymreg_group_create(s->w, &o, &g, NULL), -EINVAL)
    REJECTED(size, sizeof(o) - 1);
    REJECTED(n, 0);
    REJECTED(n, (1u << 24) + 1);
    REJECTED(me, 1);
    REJECTED(scratch, NULL);
    REJECTED(scratch, (char *)s->scratch + 8);
    REJECTED(channel, ASYMREG_GROUP_CHANNELS);
    REJECTED(member, NULL);
    o = good;
    o.n = 1u << 24;
    o.channel = ASYMREG_GROUP_CHANNELS - 1;
    CHECK_EQ(asymreg_group_create(s->w, &o, &g, NULL), 0);
    asymreg_group_destroy(g);

    uint64_t *channel = (uint64_t *)s->scratch + bytes / sizeof(uint64_t) * 5;
    o = good;
    o.channel = 5;
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
        channel[i] = 0x1ffffff; /* a failure of a nonexistent member */
    CHECK_EQ(asymreg_group_create(s->w, &o, &g, NULL), 0);
    CHECK_EQ(asymreg_sync(g, &err), ASYMREG_ENOREGION);
    CHECK_EQ(err.member, 0);
    asymreg_group_destroy(g);
    memset(channel, 0, bytes);
}

static void rejects(struct self *s)
{
    const struct asymreg_strides none = {.n = 1, .here = 1, .there = 1},
                                 huge = {8, SIZE_MAX / 8, 2, 1}, wide = {8, SIZE_MAX / 8, 1, 2},
                                 plain = {8, 1, 1, 1};
    struct asymreg_error err = {.code = 0};
    char src[64] = {0};

#define REFUSED(code_, call)                                                                       \
    err.code = 0;                                                                                  \
    CHECK_EQ(call, code_);                                                                         \
    CHECK(err.code == (code_) && err.text[0] && err.member == UINT32_MAX)
    REFUSED(-EINVAL, asymreg_sync(NULL, &err));
    REFUSED(-EINVAL, asymreg_barrier(NULL, &err));
    REFUSED(-EINVAL, asymreg_broadcast(s->g, s->n, s->buf, s->bufs, 1, &err));
    CHECK(strstr(err.text, "root"));
    REFUSED(-EINVAL, asymreg_broadcast(s->g, 0, NULL, s->bufs, 1, &err));
    REFUSED(-EINVAL, asymreg_broadcast(s->g, 0, s->buf, NULL, 1, &err));
    REFUSED(-EINVAL, asymreg_allgather(s->g, NULL, s->buf, s->bufs, 1, &err));
    REFUSED(-EINVAL, asymreg_allgather(NULL, src, s->buf, s->bufs, 1, &err));
    if (s->n > 1) {
        REFUSED(-EINVAL, asymreg_allgather(s->g, src, s->buf, s->bufs, SIZE_MAX / 2 + 1, &err));
    }
    REFUSED(-EINVAL, asymreg_collect(s->g, NULL, 1, s->buf, 8, s->bufs, &err));
    REFUSED(-EINVAL, asymreg_collect(s->g, src, 1, NULL, 8, s->bufs, &err));
    REFUSED(-EINVAL, asymreg_collect(s->g, src, 1, s->buf, 8, NULL, &err));
    REFUSED(-EINVAL, asymreg_alltoall(s->g, src, s->buf, s->bufs, NULL, &err));
    REFUSED(-EINVAL, asymreg_alltoall(s->g, src, s->buf, s->bufs, &none, &err));
    REFUSED(-EINVAL, asymreg_alltoall(s->g, NULL, s->buf, s->bufs, &plain, &err));
    REFUSED(ASYMREG_EOVERFLOW, asymreg_alltoall(s->g, src, s->buf, s->bufs, &huge, &err));
    REFUSED(ASYMREG_EOVERFLOW, asymreg_alltoall(s->g, src, s->buf, s->bufs, &wide, &err));
    REFUSED(-EINVAL, asymreg_reduce(s->g, 7, 0, src, s->buf, s->bufs, 1, &err));
    REFUSED(-EINVAL, asymreg_reduce(s->g, 0, 13, src, s->buf, s->bufs, 1, &err));
    CHECK(strstr(err.text, "13"));
    REFUSED(-EINVAL, asymreg_reduce(s->g, ASYMREG_OP_AND, ASYMREG_TYPE_FLOAT, src, s->buf, s->bufs,
                                    1, &err));
    REFUSED(-EINVAL, asymreg_reduce(s->g, ASYMREG_OP_MIN, ASYMREG_TYPE_COMPLEX_FLOAT, src, s->buf,
                                    s->bufs, 1, &err));
    REFUSED(-EINVAL, asymreg_reduce(s->g, 0, 0, NULL, s->buf, s->bufs, 1, &err));
    REFUSED(-EINVAL, asymreg_reduce(s->g, 0, 0, src, NULL, s->bufs, 1, &err));
    REFUSED(-EINVAL, asymreg_reduce(s->g, 0, 0, src, s->buf, NULL, 1, &err));
    REFUSED(ASYMREG_EALIGN,
            asymreg_reduce(s->g, 0, ASYMREG_TYPE_INT64, src, s->buf + 2, s->bufs, 1, &err));
    REFUSED(ASYMREG_EOVERFLOW, asymreg_reduce(s->g, 0, ASYMREG_TYPE_INT64, src, s->buf, s->bufs,
                                              SIZE_MAX / 8 + 1, &err));
}

/* ---- data ---- */

static void moves(struct self *s)
{
    uint32_t n = s->n;

    for (uint32_t i = 1; i <= 30; i++) {
        __atomic_fetch_add(&board->entered, 1, __ATOMIC_SEQ_CST);
        CHECK_EQ(asymreg_sync(s->g, NULL), 0);
        CHECK(__atomic_load_n(&board->entered, __ATOMIC_SEQ_CST) >= i * n); /* all entered */
    }
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t root = i % n;
        size_t bytes = i < 15 ? i % 7 * 100 + i % 2 : (5 << 19) + 3; /* more than two pieces */
        if (s->me == root)
            memset(s->buf, (int)('a' + i % 26), bytes);
        CHECK_EQ(asymreg_broadcast(s->g, root, s->buf, s->bufs, bytes, NULL), 0);
        for (size_t k = 0; k < bytes; k++)
            CHECK_EQ(s->buf[k], 'a' + (int)i % 26);
    }
    CHECK_EQ(asymreg_broadcast(s->g, n - 1, NULL, NULL, 0, NULL), 0); /* 0 bytes have no address */
    CHECK_EQ(asymreg_allgather(s->g, NULL, NULL, NULL, 0, NULL), 0);
    CHECK_EQ(asymreg_reduce(s->g, 0, 0, NULL, NULL, NULL, 0, NULL), 0);
    for (uint32_t i = 0; i < 15; i++) {
        char mine[BLOCK];
        size_t bytes = i % 5 * 200 + i % 3;
        for (size_t k = 0; k < bytes; k++)
            mine[k] = (char)(s->me * 31 + i + k);
        CHECK_EQ(asymreg_allgather(s->g, mine, s->buf, s->bufs, bytes, NULL), 0);
        for (uint32_t m = 0; m < n; m++)
            for (size_t k = 0; k < bytes; k++)
                CHECK_EQ(s->buf[m * bytes + k], (char)(m * 31 + i + k));
    }
}

/* Puts without waiting have arrived after a barrier. */
static void barriers(struct self *s)
{
    enum { BYTES = 1 << 18 };
    unsigned char *src = malloc(BYTES), *mine = (void *)s->buf;

    CHECK(src != NULL);
    CHECK_EQ(asymreg_sync(s->g, NULL), 0); /* the buffer is free again */
    for (uint32_t i = 1; i <= 5; i++) {
        memset(src, (int)(i * 16 + s->me), BYTES);
        for (uint32_t to = 0; to < s->n; to++) {
            uint64_t at = s->bufs[to].addr + s->me * BYTES;
            const struct asymreg_transfer halves[] = {
                {.raddr = at, .here = src, .bytes = BYTES / 2},
                {.raddr = at + BYTES / 2, .here = src + BYTES / 2, .bytes = BYTES / 2}};
            CHECK_EQ(asymreg_put_many(s->w, PE + to, halves, 2, NULL), 0);
        }
        CHECK_EQ(asymreg_barrier(s->g, NULL), 0);
        for (uint32_t from = 0; from < s->n; from++)
            CHECK(mine[from * BYTES] == i * 16 + from &&
                  memcmp(mine + from * BYTES, mine + from * BYTES + 1, BYTES - 1) == 0);
        CHECK_EQ(asymreg_barrier(s->g, NULL), 0);
    }
    free(src);
}

/* The length of member m's block in a round: 0, small, or more than a put takes. */
static size_t length_of(uint32_t round, uint32_t m)
{
    uint32_t state = round * 77 + m * 5 + 1;
    uint32_t r = next_random(&state);

    if (round == 19)
        return m == 1 ? (1 << 20) + 77 : 10;
    return r % 4 == 0 ? 0 : r % 4 == 1 ? r / 4 % 8 : r / 4 % 3000;
}

static char byte_of(uint32_t round, uint32_t m, size_t k)
{
    return (char)(round * 3 + m * 31 + k * 7 + k / 251);
}

static void collects(struct self *s)
{
    char *src = malloc(2 << 20);

    CHECK(src != NULL);
    for (uint32_t round = 0; round < 20; round++) {
        size_t mine = length_of(round, s->me), all = 0;
        memset(s->buf, 0x55, 32768);
        for (size_t k = 0; k < mine; k++)
            src[k] = byte_of(round, s->me, k);
        for (uint32_t m = 0; m < s->n; m++)
            all += length_of(round, m);
        CHECK_EQ(asymreg_collect(s->g, mine ? src : NULL, mine, s->buf, all, s->bufs, NULL), 0);
        for (uint32_t m = 0, at = 0; m < s->n; m++)
            for (size_t k = 0; k < length_of(round, m); k++, at++)
                if (s->buf[at] != byte_of(round, m, k)) {
                    fprintf(stderr, "round %u: byte %zu of member %u\n", round, k, m);
                    exit(1);
                }
        CHECK(all > 32768 || s->buf[all] == 0x55);
    }
    free(src);
}

/* Blocks of elements, dense and strided; the bytes between are unchanged. */
static void alltoalls(struct self *s)
{
    static const struct asymreg_strides cases[] = {
        {1, 1, 1, 1}, {8, 100, 1, 1}, {3, 7, 1, 1},   {8, 0, 1, 1},      {4, 5, 3, 1},
        {4, 5, 1, 2}, {16, 9, 2, 5},  {8, 600, 2, 1}, {1 << 18, 1, 1, 1}};
    char *src = malloc(BUF_BYTES);

    CHECK(src != NULL);
    for (uint32_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
        const struct asymreg_strides *x = &cases[c];
        size_t element = x->element_bytes, here = x->n * x->here * element,
               there = x->n * x->there * element;
        memset(s->buf, 0x55, s->n * there + 1);
        memset(src, 0x33, s->n * here + 1);
        for (uint32_t to = 0; to < s->n; to++)
            for (size_t i = 0; i < x->n * element; i++)
                src[to * here + i / element * x->here * element + i % element] =
                    byte_of(c * 5 + to, s->me, i);
        CHECK_EQ(asymreg_alltoall(s->g, src, s->buf, s->bufs, x, NULL), 0);
        for (uint32_t from = 0; from < s->n; from++)
            for (size_t i = 0; i < x->n * x->there * element; i++) {
                size_t at = i / element, within = i % element;
                char expected = at % x->there == 0
                                    ? byte_of(c * 5 + s->me, from, at / x->there * element + within)
                                    : 0x55;
                CHECK_EQ(s->buf[from * there + i], expected);
            }
        CHECK_EQ(s->buf[s->n * there], 0x55);
        CHECK_EQ(asymreg_sync(s->g, NULL), 0); /* the buffer is free again */
    }
    free(src);
}

/* ---- reductions ---- */

enum { ELEMENTS = 2100 }; /* several times the largest piece of a put */

static uint64_t seed_of(uint32_t round, uint32_t m, size_t i)
{
    uint64_t x =
        (round * 131u + m) * UINT64_C(0x9e3779b97f4a7c15) + i * UINT64_C(0xbf58476d1ce4e5b9);

    x ^= x >> 31;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 29;
}

/* Members' elements: any bits of an integer; numbers near 1 of other types, so that a product of
 * all stays finite and rounds. */
#define INTEGER_OF(T, x) ((T)(x))
#define REAL_OF(T, x)    ((T)(((double)((x) >> 11) / 9007199254740992.0 - 0.5) * 3))
#define COMPLEX_OF(T, x) ((T)(REAL_OF(double, x) + REAL_OF(double, (x)*31) * I))

#define CASE(op_, result)                                                                          \
    if (op == (op_))                                                                               \
        return result;
#define ANY_OP(x, y)   CASE(ASYMREG_OP_SUM, x + y) CASE(ASYMREG_OP_PROD, x *(y))
#define ORDER_OP(x, y) CASE(ASYMREG_OP_MIN, y < x ? y : x) CASE(ASYMREG_OP_MAX, y > x ? y : x)
#define BITS_OP(x, y)                                                                              \
    CASE(ASYMREG_OP_AND, x &(y)) CASE(ASYMREG_OP_OR, x | y) CASE(ASYMREG_OP_XOR, x ^ y)

/*
 * The plain computation: every member's element is computed here, and combined in the order and
 * with the brackets that the header promises. WIDE is a type in which the operation does not
 * overflow. Another compilation may round complex products differently; for them the test checks
 * only that all members have the same bits.
 */
#define TYPE(NAME, T, VALUE, DIFFER, OPS)                                                          \
    static T NAME##_one(uint32_t op, T x, T y)                                                     \
    {                                                                                              \
        OPS abort();                                                                               \
    }                                                                                              \
    static T NAME##_fold(uint32_t round, uint32_t op, uint32_t first, uint32_t n, size_t i)        \
    {                                                                                              \
        uint32_t upper = 1;                                                                        \
                                                                                                   \
        if (n == 1)                                                                                \
            return VALUE(T, seed_of(round, first, i));                                             \
        while (upper * 2 < n)                                                                      \
            upper *= 2;                                                                            \
        return NAME##_one(op, NAME##_fold(round, op, first, n - upper, i),                         \
                          NAME##_fold(round, op, first + n - upper, upper, i));                    \
    }                                                                                              \
    static void NAME##_reduces(struct self *s, uint32_t type, uint32_t op, size_t n, int in_place) \
    {                                                                                              \
        T *src = in_place ? (void *)s->buf : calloc(n + 1, sizeof(T)), *got = (void *)s->buf;      \
        uint32_t round = type * 16 + op;                                                           \
                                                                                                   \
        CHECK(src != NULL);                                                                        \
        memset(s->buf + n * sizeof(T), 0x55, 64);                                                  \
        for (size_t i = 0; i < n; i++)                                                             \
            src[i] = VALUE(T, seed_of(round, s->me, i));                                           \
        CHECK_EQ(asymreg_reduce(s->g, op, type, src, s->buf, s->bufs, n, NULL), 0);                \
        for (size_t i = 0; i < n; i++) {                                                           \
            T expected = NAME##_fold(round, op, 0, s->n, i);                                       \
            if (DIFFER(got[i], expected)) {                                                        \
                fprintf(stderr, #NAME ": operation %u, element %zu of %zu\n", op, i, n);           \
                exit(1);                                                                           \
            }                                                                                      \
        }                                                                                          \
        if (n == ELEMENTS)                                                                         \
            same_everywhere(s, n * sizeof(T));                                                     \
        CHECK_EQ(s->buf[n * sizeof(T)], 0x55);                                                     \
        if (!in_place)                                                                             \
            free(src);                                                                             \
    }

#define UNEQUAL(x, y) ((x) != (y))
#define FAR(x, y)     (cabs((x) - (y)) > 1e-5 * (1 + cabs(y)))
#define INTEGER(NAME, T, WIDE)                                                                     \
    TYPE(NAME, T, INTEGER_OF, UNEQUAL, ANY_OP((WIDE)x, (WIDE)y) ORDER_OP(x, y) BITS_OP(x, y))
#define REAL(NAME, T)    TYPE(NAME, T, REAL_OF, UNEQUAL, ANY_OP(x, y) ORDER_OP(x, y))
#define COMPLEX(NAME, T) TYPE(NAME, T, COMPLEX_OF, FAR, ANY_OP(x, y))

/* The first bytes of `buf`, at all members. */
static void same_everywhere(struct self *s, size_t bytes)
{
    struct asymreg_member there[MAX];
    uint64_t hash = 1, *hashes = (void *)(s->buf + (1 << 20));

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)s->buf[i]) * UINT64_C(0x100000001b3);
    for (uint32_t i = 0; i < s->n; i++) {
        there[i] = s->bufs[i];
        there[i].addr += 1 << 20;
    }
    CHECK_EQ(asymreg_allgather(s->g, &hash, hashes, there, sizeof(hash), NULL), 0);
    for (uint32_t i = 0; i < s->n; i++)
        CHECK_EQ(hashes[i], hash);
}

INTEGER(int8, int8_t, unsigned)
INTEGER(int16, int16_t, unsigned)
INTEGER(int32, int32_t, unsigned)
INTEGER(int64, int64_t, uint64_t)
INTEGER(uint8, uint8_t, unsigned)
INTEGER(uint16, uint16_t, unsigned)
INTEGER(uint32, uint32_t, unsigned)
INTEGER(uint64, uint64_t, uint64_t)
REAL(float, float)
REAL(double, double)
REAL(long_double, long double)
COMPLEX(complex_float, float complex)
COMPLEX(complex_double, double complex)

static void reduces(struct self *s)
{
    static const struct {
        void (*run)(struct self *s, uint32_t type, uint32_t op, size_t n, int in_place);
        uint32_t n_ops;
    } types[] = {{int8_reduces, 7},          {int16_reduces, 7},       {int32_reduces, 7},
                 {int64_reduces, 7},         {uint8_reduces, 7},       {uint16_reduces, 7},
                 {uint32_reduces, 7},        {uint64_reduces, 7},      {float_reduces, 4},
                 {double_reduces, 4},        {long_double_reduces, 4}, {complex_float_reduces, 2},
                 {complex_double_reduces, 2}};

    /* Reductions do not depend on the transport: over networks one group runs only some of them. */
    uint32_t by =
        strcmp(transport, "shm") == 0 || strcmp(transport, "cma") == 0 || s->n == 5 ? 1 : 4;

    for (uint32_t type = 0; type < sizeof(types) / sizeof(*types); type += by)
        for (uint32_t op = 0; op < types[type].n_ops; op++) {
            types[type].run(s, type, op, ELEMENTS, op & 1);
            if (op == 0)
                types[type].run(s, type, op, type % 4, 0);
        }
}

/* ---- errors that end a call at every member ---- */

/* Every member's call has returned this code, and so does its next call. */
static void all_fail(struct self *s, struct asymreg_group *g, int rc, int expected,
                     const struct asymreg_error *err, uint32_t member)
{
    struct asymreg_error next;

    CHECK_EQ(rc, expected);
    CHECK_EQ(err->code, expected);
    CHECK(strstr(err->text, "member "));
    if (member < MAX) {
        CHECK_EQ(err->member, member);
        CHECK(member == s->me || err->pe == PE + member);
    }
    CHECK_EQ(asymreg_sync(g, &next), expected);
    CHECK_EQ(next.member, err->member);
    meet(s); /* over UCX, a member without progress delays the error's way to the others */
    asymreg_group_destroy(g);
}

static void failures(struct self *s)
{
    const struct asymreg_strides plain = {8, 1, 1, 1};
    struct asymreg_member wrong[MAX];
    struct asymreg_group *g;
    struct asymreg_error err;
    char src[MAX * 8] = {0};
    int rc;

    if (s->n == 1)
        return;
    CHECK_EQ(of_array(s, s->n, s->me, s->scratch, 1, 60000, &g), 0);
    rc = asymreg_collect(g, src, 8, s->buf, s->n * 8 - 1, s->bufs, &err);
    all_fail(s, g, rc, ASYMREG_ERANGE, &err, s->n - 1);

    memcpy(wrong, s->bufs, sizeof(wrong));
    wrong[1].addr = 8;
    CHECK_EQ(of_array(s, s->n, s->me, s->scratch, 2, 60000, &g), 0);
    rc = asymreg_alltoall(g, src, s->buf, wrong, &plain, &err);
    all_fail(s, g, rc, ASYMREG_ENOREGION, &err, 1);

    memcpy(wrong, s->bufs, sizeof(wrong));
    wrong[0].addr = 8;
    CHECK_EQ(of_array(s, s->n, s->me, s->scratch, 4, 60000, &g), 0);
    rc = asymreg_reduce(g, ASYMREG_OP_MAX, ASYMREG_TYPE_INT8, src, s->buf, wrong, 1, &err);
    all_fail(s, g, rc, ASYMREG_ENOREGION, &err, 0);

    CHECK_EQ(of_array(s, s->n, s->me, s->scratch, 6, 300, &g), 0);
    if (s->me == 0)
        meet(s); /* it arrives when the others no longer wait */
    rc = asymreg_sync(g, &err);
    if (s->me)
        meet(s);
    else if (rc == 0) /* its flags arrived before the failure: the next call fails */
        rc = asymreg_sync(g, &err);
    all_fail(s, g, rc, ASYMREG_ETIMEDOUT, &err, s->n == 2 ? 0 : MAX);
}

/* Any call, the same at each member; its buffers hold anything. */
static int any_call(struct self *s, char *src, struct asymreg_error *err)
{
    uint32_t r = next_random(&s->random), what = r % 7;
    size_t n = r / 7 % 5000;
    const struct asymreg_strides strides = {8, n / 8, 1 + n % 2, 1};

    if (board->leave && (what == 4 || what == 5)) /* these notify no target */
        what = 3;
    switch (what) {
    case 0: return asymreg_sync(s->g, err);
    case 1: return asymreg_barrier(s->g, err);
    case 2: return asymreg_broadcast(s->g, n % s->n, s->buf, s->bufs, n * 20, err);
    case 3: return asymreg_allgather(s->g, src, s->buf, s->bufs, n, err);
    case 4: return asymreg_collect(s->g, src, n / (1 + s->me), s->buf, BUF_BYTES, s->bufs, err);
    case 5: return asymreg_alltoall(s->g, src, s->buf, s->bufs, &strides, err);
    default: return asymreg_reduce(s->g, n % 7, ASYMREG_TYPE_INT32, src, s->buf, s->bufs, n, err);
    }
}

/*
 * A member killed while it sends through UCX's shared memory may block the queue of another one
 * (asymreg-ucx.h, Death), which then closes its connections: members may name that one, or the one
 * that they had waited for. Such a member ends with this status.
 */
#define BLOCKED 3

/* Calls without an end, until one of the members has been killed. */
static void survive(struct self *s)
{
    char *src = calloc(1, BUF_BYTES);
    struct asymreg_error err;
    int rc;

    CHECK(src != NULL);
    s->random = s->n * 31 + board->victim;
    do /* a barrier that every member has entered reports the death by its flush, which names no
        * member */
        rc = any_call(s, src, &err);
    while (rc == 0 || (rc == ASYMREG_EPEER && err.member == UINT32_MAX));
    CHECK_EQ(rc, ASYMREG_EPEER);
    if (err.member != board->victim && strncmp(transport, "ucx", 3) == 0) {
        meet(s);
        _exit(BLOCKED);
    }
    CHECK_EQ(err.member, board->victim);
    CHECK(err.pe == PE + board->victim || board->leave); /* a sync sees only its partners */
    free(src);
    if (!board->leave)
        return;
    close_member(s);
    exit(0);
}

/* ---- a member that returns and closes while another still flushes ---- */

/* Member 0's last flush is late: its flag has arrived, and member 1 has returned and closed. */
static void returns_first(struct self *s)
{
    uint64_t src = s->me;
    int rc;

    flushes_left = s->me ? 0 : late_call == SYNC ? 1 : 3; /* the sync's, the data's, the flag's */
    rc = late_call == SYNC        ? asymreg_sync(s->g, NULL)
         : late_call == BROADCAST ? asymreg_broadcast(s->g, 0, s->buf, s->bufs, 8, NULL)
                                  : asymreg_allgather(s->g, &src, s->buf, s->bufs, 8, NULL);
    CHECK_EQ(rc, 0);
    CHECK_EQ(flushes_left, 0);
    close_member(s);
    exit(0);
}

/* ---- a peer that is too busy to be read ---- */

/* Puts and gets that fail with ASYMREG_EBUSY are retried until the timeout. */
static void meets_busy(struct self *s)
{
    const struct asymreg_strides strides = {8, 2, 3, 1};
    struct asymreg_group *g;
    uint64_t src[16] = {s->me + 1};
    int rc;

    for (int call = 0; call < 5; call++) {
        busy_left = 7;
        rc = call == 0   ? asymreg_sync(s->g, NULL)
             : call == 1 ? asymreg_allgather(s->g, src, s->buf, s->bufs, 8, NULL)
             : call == 2 ? asymreg_collect(s->g, src, 8, s->buf, 16, s->bufs, NULL)
             : call == 3 ? asymreg_alltoall(s->g, src, s->buf, s->bufs, &strides, NULL)
                         : asymreg_reduce(s->g, ASYMREG_OP_SUM, ASYMREG_TYPE_UINT64, src, s->buf,
                                          s->bufs, 1, NULL);
        CHECK_EQ(rc, 0);
        CHECK_EQ(busy_left, 0);
    }
    CHECK_EQ(*(uint64_t *)(void *)s->buf, 3);
    CHECK_EQ(of_array(s, 2, s->me, s->scratch, 1, 200, &g), 0);
    busy_left = s->me ? 0 : UINT32_MAX;
    CHECK_EQ(asymreg_sync(g, NULL), ASYMREG_ETIMEDOUT);
    busy_left = 0;
    asymreg_group_destroy(g);
    end_member(s);
}

/* ---- processes ---- */

static void member(uint32_t me, uint32_t n)
{
    struct self self, *s = &self;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(280);
    begin_member(s, me, n);
    CHECK_EQ(of_array(s, 0, 0, s->scratch, 0, 0, &s->g), -EINVAL);
    CHECK_EQ(of_array(s, n, n, s->scratch, 0, 0, &s->g), -EINVAL);
    CHECK_EQ(of_array(s, n, me, (char *)s->scratch + 8, 0, 0, &s->g), -EINVAL);
    CHECK_EQ(of_array(s, n, me, s->scratch, 0, 60000, &s->g), 0);
    if (late_call == BUSY)
        meets_busy(s);
    if (late_call)
        returns_first(s);
    if (board->victim < MAX)
        survive(s);
    if (board->victim == MAX) {
        rejects(s);
        moves(s);
        barriers(s);
        collects(s);
        alltoalls(s);
        reduces(s);
        rejects_groups(s);
        teams(s);
        failures(s);
    }
    end_member(s);
}

/* Of n members one is killed in the middle, unless victim is MAX. Returns how many were blocked. */
static uint32_t group(uint32_t n, uint32_t victim, uint32_t after_us, int leave)
{
    pid_t pids[MAX];
    siginfo_t ended = {.si_pid = 0};
    uint32_t blocked = 0;
    int status;

    memset(board, 0, sizeof(*board));
    board->victim = victim;
    board->leave = leave;
    fflush(stdout);
    for (uint32_t i = 0; i < n; i++) {
        CHECK((pids[i] = fork()) >= 0);
        if (pids[i] == 0)
            member(i, n);
    }
    if (victim < MAX) {
        while (__atomic_load_n(&board->met[0], __ATOMIC_SEQ_CST) < n &&
               waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0)
            usleep(1000);
        usleep(after_us);
        __atomic_store_n(&board->killed, 1, __ATOMIC_SEQ_CST);
        CHECK(kill(pids[victim], SIGKILL) == 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        if (i != victim && WIFEXITED(status) && WEXITSTATUS(status) == BLOCKED) {
            blocked++;
            continue;
        }
        if (i == victim ? !WIFSIGNALED(status) : !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "member %u of %u ends with %#x (member %u is killed after %u us)\n", i,
                    n, (unsigned)status, victim, after_us);
            exit(1);
        }
    }
    return blocked;
}

int main(int argc, char **argv)
{
    static const uint32_t all[] = {2, 4, 5, 1, 3, 9};
    int many, kills = argc == 3 && strcmp(argv[2], "kills") == 0,
              stops = argc == 3 && strcmp(argv[2], "stops") == 0;
    uint32_t random = 1, blocked_groups = 0;

    if (argc != 2 + kills + stops) {
        fprintf(stderr, "usage: collectives shm|cma|ucx|ucx-thread|ibv [kills|stops]\n");
        return 2;
    }
    transport = argv[1];
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED);
    if (stops) {
        stopped_members();
        return 0;
    }
    many = strcmp(transport, "shm") == 0;
    for (uint32_t i = 0; !kills && i < (many ? 6 : 4); i++)
        group(all[i], MAX, 0, 0);
    if (!kills && (many || strcmp(transport, "cma") == 0))
        for (late_call = SYNC; late_call <= BUSY; late_call++)
            group(2, MAX, 0, 0);
    late_call = NONE;
    for (uint32_t i = 0; kills && i < (many ? 24 : 9); i++) {
        uint32_t n = all[i % 3];
        blocked_groups += group(n, next_random(&random) % n, next_random(&random) % 20000, 0) > 0;
    }
    if (blocked_groups)
        printf("%u groups with a blocked member\n", blocked_groups);
    CHECK(blocked_groups <= 1); /* of 9; none is to be expected */
    for (int i = 0; kills && many && i < 12; i++)
        group(MAX, next_random(&random) % MAX, next_random(&random) % 20000, 1);
    printf("%s%s: done\n", transport, kills ? ", members killed" : "");
    return 0;
}
