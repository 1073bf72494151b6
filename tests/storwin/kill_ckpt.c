/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill_ckpt ROUNDS [commit]: a writer is killed at random points between and within its commits,
 * and followed at once by another. Whatever it had acknowledged comes back bit for bit, and what
 * comes back is a state that was committed whole. With "commit" it is a window with atomic commits,
 * else a checkpoint file.
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

/* A window with commits, in one way after the other; waits for a killed process by itself. */
static struct storwin_window *open_window(unsigned way)
{
    struct storwin_opts opts = storage_opts(test_path("killed"));
    struct storwin_window *win;
    struct storwin_error err;

    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = STORWIN_ATOMIC_JOURNAL + way % 3;
    opts.flags = STORWIN_DISCARD | (way % 2 ? STORWIN_SPARSE : 0);
    if (storwin_alloc(&opts, STATE, &win, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        CHECK(!"opens");
    }
    return win;
}

static uint64_t window_generation(const struct storwin_window *win)
{
    struct storwin_info info = {.size = sizeof(info)};

    CHECK(storwin_query(win, &info) == 0);
    return info.generation;
}

static void commit_writer(int out, unsigned way)
{
    struct storwin_window *win = open_window(way);

    for (uint64_t g = window_generation(win) + 1;; g++) {
        test_state(g, storwin_base(win), STATE);
        CHECK(storwin_commit(win, NULL) == 0);
        CHECK(write(out, &g, sizeof(g)) == sizeof(g));
    }
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
static uint64_t one_round(void (*write_states)(int out, uint32_t way), uint32_t way, uint64_t *rng)
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
        write_states(ends[1], way);
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

/* What came back; its generation. */
static uint64_t found_ckpt(uint32_t pager, uint8_t *data)
{
    struct storwin_info_ckpt info = {.size = sizeof(info)};
    struct storwin_ckpt *ckpt = open_it(pager);

    if (storwin_ckpt_query(ckpt, &info) == 0)
        memcpy(data, info.data, STATE);
    storwin_ckpt_close(ckpt);
    return info.generation;
}

static uint64_t found_window(unsigned way, uint8_t *data)
{
    struct storwin_window *win = open_window(way);
    const uint64_t generation = window_generation(win);

    memcpy(data, storwin_base(win), STATE);
    CHECK(storwin_free(win, NULL) == 0);
    return generation;
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
    const int commits = argc > 2 && strcmp(argv[2], "commit") == 0;
    static uint8_t want[STATE], got[STATE];
    uint64_t rng = (uint64_t)time(NULL) * 2654435761u | 1, newest = 0, committed = 0, beyond = 0;

    test_begin();
    printf("seed %llu\n", (unsigned long long)rng);
    for (unsigned round = 0; round < rounds; round++) {
        const uint32_t way = round % (commits ? 6 : 2);
        uint64_t acked = one_round(commits ? commit_writer : writer, way, &rng);
        uint64_t generation = commits ? found_window(way + 1, got) : found_ckpt(1 - way, got);

        if (acked < newest)
            acked = newest;
        CHECK(generation == acked || generation == acked + 1);
        beyond += generation == acked + 1;
        if (generation > 0) {
            test_state(generation, want, STATE);
            CHECK(memcmp(got, want, STATE) == 0);
        }
        committed += generation - newest;
        newest = generation;
    }
    printf("%u kills, %llu states committed, none lost; %llu were whole before they were "
           "acknowledged\n",
           rounds, (unsigned long long)committed, (unsigned long long)beyond);
    CHECK(committed > rounds / 4); /* some are killed before their first */
    return 0;
}
