/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes on one node that share no memory, like containers, but see each other's process ids:
 * they reach each other over TCP, and UCX prints no error. The test's output must be empty of UCX's
 * errors.
 */
#define _GNU_SOURCE
#include "../asymreg/targets.h"

#include <asymreg-ucx.h>
#include <sched.h>

enum { N = 4 };

static struct board {
    struct {
        size_t bytes;
        char blob[ASYMREG_MAX_BLOB_BYTES];
        uint64_t addr;
    } at[N];
    int published, done;
} * board;

static struct asymreg_context *open_over_ucx(void)
{
    struct asymreg_ucx_opts ucx = {.size = sizeof(ucx), .flags = ASYMREG_UCX_THREAD};
    struct asymreg_opts opts = {.size = sizeof(opts)};
    struct asymreg_context *c;

    CHECK(asymreg_ucx_create(&ucx, &opts.transport, NULL) == 0);
    CHECK(asymreg_open(&opts, &c, NULL) == 0);
    return c;
}

/* Waits until all processes are here. */
static void meet(int *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < N)
        usleep(1000);
}

/* Puts its number into each other's memory, and reads it back. */
static void work(int me)
{
    static uint64_t memory[N];
    struct asymreg_context *c = open_over_ucx();
    struct asymreg_worker *w;
    uint64_t number = 100 + (uint64_t)me, back;
    ssize_t n;

    CHECK(asymreg_register(c, memory, sizeof(memory), ASYMREG_ALL, NULL, NULL, NULL) == 0);
    CHECK(asymreg_worker_create(c, &w) == 0);
    n = asymreg_export(c, board->at[me].blob, ASYMREG_MAX_BLOB_BYTES, NULL);
    CHECK(n > 0);
    board->at[me].bytes = (size_t)n;
    board->at[me].addr = (uintptr_t)&memory[0];
    meet(&board->published);
    for (uint32_t i = 1; i < N; i++) {
        uint32_t pe = ((uint32_t)me + i) % N;
        uint64_t at = board->at[pe].addr + (uint64_t)me * sizeof(*memory);

        CHECK(asymreg_import(c, pe, board->at[pe].blob, board->at[pe].bytes, NULL) == 0);
        CHECK(asymreg_put(w, pe, at, ASYMREG_ANY, &number, sizeof(number)) == 0);
        CHECK(asymreg_flush(w, pe) == 0);
        CHECK(asymreg_get(w, pe, at, ASYMREG_ANY, &back, sizeof(back)) == 0);
        CHECK(back == number);
    }
    meet(&board->done);
    for (uint64_t i = 0; i < N; i++)
        CHECK(memory[i] == (i == (uint64_t)me ? 0 : 100 + i));
    asymreg_worker_destroy(w);
    asymreg_close(c);
}

int main(void)
{
    pid_t pids[N];
    int status;

    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED);
    if (unshare(CLONE_NEWIPC) != 0) {
        printf("skip: no namespace of shared memory: %s\n", strerror(errno));
        return 77;
    }
    for (int me = 0; me < N; me++) {
        pids[me] = fork();
        if (pids[me] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            CHECK(unshare(CLONE_NEWIPC) == 0);
            work(me);
            exit(0);
        }
        CHECK(pids[me] > 0);
    }
    for (int me = 0; me < N; me++) {
        CHECK(waitpid(pids[me], &status, 0) == pids[me]);
        CHECK(status == 0);
    }
    return 0;
}
