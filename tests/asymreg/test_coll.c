/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives among 1 to 9 processes, over shared memory and over CMA; and what happens when a
 * member dies. */
#define _GNU_SOURCE
#include "targets.h"

enum { MAX = 9, BLOCK = 1000 };

/* Shared by the processes of the test itself, to exchange addresses and to keep count. */
struct board {
    struct {
        size_t n;
        unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
        uint64_t scratch, buf;
        int ready;
    } member[MAX];
    uint32_t entered;
    int imported;
};
static struct board *board;

/* Of every member: what is told when a group asks for it, and how often that was. */
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
 * ones at a time, on one channel as they have no member in common; all but the first on another, at
 * the same time; and each three times on the same channel, with a barrier of all between.
 */
static void teams(struct asymreg_worker *w, struct asymreg_group *all,
                  const struct asymreg_member *scratches, struct asymreg_member *bufs,
                  void *scratch, char *buf, uint32_t me, uint32_t n)
{
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
            struct directory d = {.all = scratches, .team = team[t], .n = size[t]};
            struct asymreg_group_opts opts = {.size = sizeof(opts),
                                              .n = size[t],
                                              .scratch = scratch,
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
            CHECK_EQ(asymreg_group_create(w, &opts, &g[t], NULL), 0);
            CHECK_EQ(d.asked, 0); /* not before it is needed */
            if (size[t] > 1 && round == 0) {
                static const int fails[] = {ASYMREG_ENOPEER, 1}; /* no error that there is */
                for (int i = 0; i < 2; i++) {
                    d.fails = fails[i];
                    CHECK_EQ(asymreg_barrier(g[t]), i ? -EINVAL : ASYMREG_ENOPEER);
                    asymreg_group_destroy(g[t]); /* nobody has been told anything: again */
                    CHECK_EQ(asymreg_group_create(w, &opts, &g[t], NULL), 0);
                }
                d.fails = 0;
                d.asked = 0;
            }
            for (int i = 0; i < 20; i++)
                CHECK_EQ(asymreg_barrier(g[t]), 0);
            uint32_t steps = 0;
            for (uint32_t step = 1; step < size[t]; step *= 2)
                steps++;
            CHECK_EQ(d.asked, 2 * steps);
            for (uint32_t i = 0; i < size[t]; i++) {
                where[i] = bufs[team[t][i]];
                where[i].addr +=
                    (uint64_t)(t * size[t] * 16); /* the even ones may be at the second already */
            }
            uint64_t mine[2] = {me, round}, *got = (uint64_t *)(void *)(buf + t * size[t] * 16);
            for (int i = 0; i < 5; i++) {
                memset(got, 0xff, size[t] * 16);
                CHECK_EQ(asymreg_allgather(g[t], mine, got, where, 16), 0);
                for (uint32_t k = 0; k < size[t]; k++)
                    CHECK(got[2 * k] == team[t][k] && got[2 * k + 1] == round);
                CHECK_EQ(asymreg_barrier(g[t]), 0);
            }
        }
        CHECK_EQ(asymreg_barrier(all), 0);
        asymreg_group_destroy(g[0]);
        asymreg_group_destroy(g[1]);
    }
}

static void rejects(struct asymreg_worker *w, const struct asymreg_member *scratches, void *scratch)
{
    struct directory d = {.all = scratches, .n = 1};
    struct asymreg_group_opts good = {.size = sizeof(good),
                                      .n = 1,
                                      .scratch = scratch,
                                      .member = look_up,
                                      .ctx = &d},
                              o;
    struct asymreg_group *g;

    CHECK_EQ(asymreg_group_create(NULL, &good, &g, NULL), -EINVAL);
    CHECK_EQ(asymreg_group_create(w, NULL, &g, NULL), -EINVAL);
    CHECK_EQ(asymreg_group_create(w, &good, NULL, NULL), -EINVAL);
#define REJECTED(field, value)                                                                     \
    o = good;                                                                                      \
    o.field = value;                                                                               \
    CHECK_EQ(asymreg_group_create(w, &o, &g, NULL), -EINVAL)
    REJECTED(size, sizeof(o) - 1);
    REJECTED(n, 0);
    REJECTED(n, (1u << 24) + 1);
    REJECTED(me, 1);
    REJECTED(scratch, NULL);
    REJECTED(scratch, (char *)scratch + 8);
    REJECTED(channel, ASYMREG_GROUP_CHANNELS);
    REJECTED(member, NULL);
    o = good;
    o.n = 1u << 24;
    o.channel = ASYMREG_GROUP_CHANNELS - 1;
    CHECK_EQ(asymreg_group_create(w, &o, &g, NULL), 0);
    asymreg_group_destroy(g);
}

/* A group of members that are all known. */
static int of_array(struct asymreg_worker *w, const struct asymreg_member *members, uint32_t n,
                    uint32_t me, void *scratch, uint32_t timeout_ms, struct asymreg_group **g)
{
    struct asymreg_group_opts opts = {.size = sizeof(opts),
                                      .n = n,
                                      .me = me,
                                      .scratch = scratch,
                                      .timeout_ms = timeout_ms,
                                      .members = members};

    return asymreg_group_create(w, &opts, g, NULL);
}

static void member(uint32_t me, uint32_t n, uint32_t mode, int dies)
{
    struct asymreg_context *c = open_context(mode, 0, 1000);
    struct asymreg_member scratches[MAX] = {{0}}, bufs[MAX] = {{0}};
    struct asymreg_worker *w;
    struct asymreg_group *g;
    void *p;
    ssize_t len;

    if (mode == ASYMREG_LOCAL_CMA)
        CHECK((p = aligned_alloc(4096, 16384)) != NULL);
    else
        CHECK_EQ(asymreg_segment_alloc(c, 4096 + MAX * BLOCK, &p, NULL), 0);
    memset(p, 0, 4096 + MAX * BLOCK);
    char *scratch = p, *buf = scratch + 4096;
    CHECK_EQ(asymreg_register(c, scratch, ASYMREG_GROUP_SCRATCH_BYTES, ASYMREG_RW, 0, NULL, NULL),
             0);
    CHECK_EQ(asymreg_register(c, buf, MAX * BLOCK, ASYMREG_RW, 0, NULL, NULL), 0);
    CHECK((len = asymreg_export(c, board->member[me].blob, ASYMREG_MAX_BLOB_BYTES, NULL)) > 0);
    board->member[me].n = (size_t)len;
    board->member[me].scratch = (uintptr_t)scratch;
    board->member[me].buf = (uintptr_t)buf;
    __atomic_store_n(&board->member[me].ready, 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < n; i++) {
        while (!__atomic_load_n(&board->member[i].ready, __ATOMIC_ACQUIRE))
            usleep(100);
        CHECK_EQ(asymreg_import(c, 100 + i, board->member[i].blob, board->member[i].n, NULL), 0);
        scratches[i] = (struct asymreg_member){.pe = 100 + i, .addr = board->member[i].scratch};
        bufs[i] = (struct asymreg_member){.pe = 100 + i, .addr = board->member[i].buf};
    }
    __atomic_fetch_add(&board->imported, 1, __ATOMIC_SEQ_CST);
    while ((uint32_t)__atomic_load_n(&board->imported, __ATOMIC_SEQ_CST) < n)
        usleep(100);
    CHECK_EQ(asymreg_worker_create(c, &w), 0);
    CHECK_EQ(of_array(w, scratches, 0, 0, scratch, 0, &g), -EINVAL);
    CHECK_EQ(of_array(w, scratches, n, n, scratch, 0, &g), -EINVAL);
    CHECK_EQ(of_array(w, scratches, n, me, scratch + 8, 0, &g), -EINVAL);
    CHECK_EQ(of_array(w, scratches, n, me, scratch, dies ? 1500 : 60000, &g), 0);
    CHECK_EQ(asymreg_broadcast(g, n, buf, bufs, 1), -EINVAL);
    if (dies) {
        if (me == n - 1)
            _exit(0);
        int rc = asymreg_barrier(g);
        if (rc == 0) /* cannot be */
            exit(1);
        CHECK(rc == ASYMREG_EPEER || rc == ASYMREG_ETIMEDOUT);
        _exit(0);
    }
    for (uint32_t i = 1; i <= 30; i++) {
        __atomic_fetch_add(&board->entered, 1, __ATOMIC_SEQ_CST);
        CHECK_EQ(asymreg_barrier(g), 0);
        CHECK(__atomic_load_n(&board->entered, __ATOMIC_SEQ_CST) >= i * n); /* nobody is missing */
    }
    for (uint32_t i = 0; i < 30; i++) {
        uint32_t root = i % n;
        size_t bytes = i % 7 * 100 + i % 2;
        if (me == root)
            memset(buf, (int)('a' + i % 26), bytes);
        CHECK_EQ(asymreg_broadcast(g, root, buf, bufs, bytes), 0);
        for (size_t k = 0; k < bytes; k++)
            CHECK_EQ(buf[k], 'a' + (int)i % 26);
    }
    for (uint32_t i = 0; i < 30; i++) {
        char mine[BLOCK];
        size_t bytes = i % 5 * 200 + i % 3;
        for (size_t k = 0; k < bytes; k++)
            mine[k] = (char)(me * 31 + i + k);
        CHECK_EQ(asymreg_allgather(g, mine, buf, bufs, bytes), 0);
        for (uint32_t m = 0; m < n; m++)
            for (size_t k = 0; k < bytes; k++)
                CHECK_EQ(buf[m * bytes + k], (char)(m * 31 + i + k));
    }
    CHECK_EQ(asymreg_barrier(g), 0);
    rejects(w, scratches, scratch);
    teams(w, g, scratches, bufs, scratch, buf, me, n);
    asymreg_group_destroy(g);
    asymreg_worker_destroy(w);
    asymreg_close(c);
    _exit(0);
}

static void group(uint32_t n, uint32_t mode, int dies)
{
    memset(board, 0, sizeof(*board));
    fflush(stdout);
    for (uint32_t i = 0; i < n; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            member(i, n, mode, dies);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        int status;
        CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    printf("%u members, %s%s\n", n, mode == ASYMREG_LOCAL_CMA ? "cma" : "shm",
           dies ? ", one dies" : "");
}

int main(void)
{
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED);
    for (uint32_t n = 1; n <= MAX; n++)
        group(n, n % 2 ? ASYMREG_LOCAL_SHM : ASYMREG_LOCAL_CMA, 0);
    group(4, ASYMREG_LOCAL_SHM, 0);
    group(5, ASYMREG_LOCAL_CMA, 0);
    group(3, ASYMREG_LOCAL_SHM, 1);
    group(4, ASYMREG_LOCAL_CMA, 1);
    return 0;
}
