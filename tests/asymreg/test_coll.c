/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives among 1 to 9 processes, over shared memory and over CMA; and what happens when a member dies. */
#define _GNU_SOURCE
#include "harness.h"

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
        CHECK_EQ(asymreg_alloc(c, 4096 + MAX * BLOCK, &p), 0);
    memset(p, 0, 4096 + MAX * BLOCK);
    char *scratch = p, *buf = scratch + 4096;
    CHECK_EQ(asymreg_register(c, scratch, ASYMREG_GROUP_SCRATCH_BYTES, ASYMREG_RW, 0, NULL), 0);
    CHECK_EQ(asymreg_register(c, buf, MAX * BLOCK, ASYMREG_RW, 0, NULL), 0);
    CHECK((len = asymreg_export(c, board->member[me].blob, ASYMREG_MAX_BLOB_BYTES)) > 0);
    board->member[me].n = (size_t)len;
    board->member[me].scratch = (uintptr_t)scratch;
    board->member[me].buf = (uintptr_t)buf;
    __atomic_store_n(&board->member[me].ready, 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < n; i++) {
        while (!__atomic_load_n(&board->member[i].ready, __ATOMIC_ACQUIRE))
            usleep(100);
        CHECK_EQ(asymreg_import(c, 100 + i, board->member[i].blob, board->member[i].n), 0);
        scratches[i] = (struct asymreg_member){.pe = 100 + i, .addr = board->member[i].scratch};
        bufs[i] = (struct asymreg_member){.pe = 100 + i, .addr = board->member[i].buf};
    }
    __atomic_fetch_add(&board->imported, 1, __ATOMIC_SEQ_CST);
    while ((uint32_t)__atomic_load_n(&board->imported, __ATOMIC_SEQ_CST) < n)
        usleep(100);
    CHECK_EQ(asymreg_worker_create(c, &w), 0);
    CHECK_EQ(asymreg_group_create(w, scratches, 0, 0, scratch, 0, &g), -EINVAL);
    CHECK_EQ(asymreg_group_create(w, scratches, n, n, scratch, 0, &g), -EINVAL);
    CHECK_EQ(asymreg_group_create(w, scratches, n, me, scratch + 8, 0, &g), -EINVAL);
    CHECK_EQ(asymreg_group_create(w, scratches, n, me, scratch, dies ? 1500 : 60000, &g), 0);
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
    printf("%u members, %s%s\n", n, mode == ASYMREG_LOCAL_CMA ? "cma" : "shm", dies ? ", one dies" : "");
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
