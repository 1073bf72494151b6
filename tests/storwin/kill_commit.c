/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill_commit ROUNDS [file|tmpfs|loop]: a writer is killed at random points between and within its
 * commits, and followed at once by another. The restored state must be one that was committed
 * whole, bit for bit, and no older than the last acknowledged one. Files are in the file system of
 * the working directory, whole and sparse in turn, or on a tmpfs; loop: a block device.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "loop_device.h"
#include "storwin_test.h"

#define STATE (1u << 18)

static const char *path;

/* Opens a window with commits, by each method in turn; the library waits for a killed process. */
static struct storwin_window *open_window(unsigned way)
{
    struct storwin_window *win = test_commit_open(path, STORWIN_ATOMIC_JOURNAL + way % 3,
                                                  way % 2 ? STORWIN_SPARSE : 0, STATE);

    CHECK(win != NULL);
    return win;
}

/* Commits until it is killed; reports each commit. */
static void writer(int out, unsigned way)
{
    struct storwin_window *win = open_window(way);

    for (uint64_t g = window_generation(win) + 1;; g++) {
        test_state(g, storwin_base(win), STATE);
        CHECK(storwin_commit(win, NULL) == 0);
        CHECK(write(out, &g, sizeof(g)) == sizeof(g));
    }
}

/* Kills it between 0 and 12 ms after its first commit; returns the last generation that it
 * acknowledged. */
static uint64_t one_round(unsigned way, uint64_t *rng)
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
        writer(ends[1], way);
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

/* Checks the restored state; returns its generation. */
static uint64_t found(unsigned way, uint8_t *data)
{
    struct storwin_window *win = open_window(way);
    const uint64_t generation = window_generation(win);

    memcpy(data, storwin_base(win), STATE);
    CHECK(storwin_free(win, NULL) == 0);
    return generation;
}

/* The place of the file; -1, or a descriptor that keeps it there. */
static int prepare(const char *where)
{
    path = test_path("killed");
    if (strcmp(where, "file") == 0)
        return -1;
    if (geteuid() != 0 || private_mounts() < 0)
        loop_skip("mounts of its own");
    if (strcmp(where, "tmpfs") == 0) {
        CHECK(mkdir(test_path("mount"), 0700) == 0);
        CHECK(mount("none", test_path("mount"), "tmpfs", 0, "size=16m") == 0);
        path = test_path("mount/killed");
        return -1;
    }
    CHECK(strcmp(where, "loop") == 0);
    write_file(test_path("back"), 4 * STATE - 1, "", 1); /* as long as it must be, and sparse */
    path = loop_path;
    return loop_attach(test_path("back"));
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
    static uint8_t want[STATE], got[STATE];
    uint64_t rng = (uint64_t)time(NULL) * 2654435761u | 1, newest = 0, committed = 0, beyond = 0;
    int kept;

    test_begin();
    kept = prepare(argc > 2 ? argv[2] : "file");
    printf("seed %llu\n", (unsigned long long)rng);
    for (unsigned round = 0; round < rounds; round++) {
        const unsigned way = round % 6;
        uint64_t acked = one_round(way, &rng), generation = found(way + 1, got);

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
    if (kept >= 0)
        close(kept);
    (void)umount2(test_path("mount"), MNT_DETACH);
    return 0;
}
