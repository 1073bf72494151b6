/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill_ckpt ROUNDS: a writer is killed at random points between and within its commits. Whatever it
 * had acknowledged comes back bit for bit, and what comes back is a state that was committed whole.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "storwin_test.h"

#define STATE (1u << 18)

static struct storwin_ckpt *open_it(uint32_t pager)
{
    struct storwin_ckpt *ckpt = test_ckpt_open(test_path("killed"), pager, STATE);

    CHECK(ckpt != NULL);
    return ckpt;
}

/* Commits until it is killed; says so after each. */
static void writer(int out, uint32_t pager)
{
    struct storwin_ckpt *ckpt = open_it(pager);
    struct storwin_info_ckpt info = {.size = sizeof(info)};

    storwin_ckpt_query(ckpt, &info);
    for (uint64_t g = info.generation + 1;; g++) {
        void *data;

        CHECK(storwin_ckpt_begin(ckpt, g % 2 ? STORWIN_CKPT_COPY : 0, &data, NULL) == 0);
        test_state(g, data, STATE);
        CHECK(storwin_ckpt_commit(ckpt, NULL) == 0);
        CHECK(write(out, &g, sizeof(g)) == sizeof(g));
    }
}

/* Kills it between 0 and 12 ms after its first commit; returns the last generation that it
 * acknowledged. */
static uint64_t one_round(uint32_t pager, uint64_t *rng)
{
    uint64_t acked = 0, g;
    int ends[2], status;
    struct timespec pause = {0, (long)(test_random(rng) % 12000000)};
    pid_t pid;

    CHECK(pipe(ends) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        writer(ends[1], pager);
    }
    close(ends[1]);
    if (test_random(rng) % 8) /* now and then it does not get that far */
        CHECK(read(ends[0], &acked, sizeof(acked)) == sizeof(acked));
    nanosleep(&pause, NULL);
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (read(ends[0], &g, sizeof(g)) == sizeof(g))
        acked = g;
    close(ends[0]);
    return acked;
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
    static uint8_t want[STATE];
    uint64_t rng = (uint64_t)time(NULL) * 2654435761u | 1, newest = 0, committed = 0, beyond = 0;

    test_begin();
    printf("seed %llu\n", (unsigned long long)rng);
    for (unsigned round = 0; round < rounds; round++) {
        const uint32_t pager = round % 2 ? STORWIN_PAGER_RESIDENT : STORWIN_PAGER_KERNEL;
        uint64_t acked = one_round(pager, &rng);
        struct storwin_info_ckpt info = {.size = sizeof(info)};
        struct storwin_ckpt *ckpt = open_it(1 - pager);

        if (acked < newest)
            acked = newest;
        storwin_ckpt_query(ckpt, &info);
        CHECK(info.generation == acked || info.generation == acked + 1);
        beyond += info.generation == acked + 1;
        if (info.generation > 0) {
            test_state(info.generation, want, STATE);
            CHECK(memcmp(info.data, want, STATE) == 0);
        }
        committed += info.generation - newest;
        newest = info.generation;
        storwin_ckpt_close(ckpt);
    }
    printf("%u kills, %llu checkpoints, none lost; %llu were whole before they were acknowledged\n",
           rounds, (unsigned long long)committed, (unsigned long long)beyond);
    CHECK(committed > rounds / 2);
    return 0;
}
