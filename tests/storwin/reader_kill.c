/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reader_kill ROUNDS: a writer commits without pause, and is killed and replaced at random, while
 * readers open the file and follow it. Each copy must be the state of its generation, bit for bit,
 * and no older than what was acknowledged before the call.
 */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "storwin_test.h"

#define STATE     (1u << 18)
#define N_READERS 3u

/* Shared with the children. */
static struct {
    _Atomic uint64_t acked, n_copies, n_busy;
    atomic_int stop;
} * shared;

static const char *path;

static void run_writer(uint32_t atomic)
{
    struct storwin_window *win = test_commit_open(path, atomic, 0, STATE);

    CHECK(win != NULL);
    for (uint64_t g = window_generation(win) + 1;; g++) {
        test_state(g, storwin_base(win), STATE);
        CHECK(storwin_commit(win, NULL) == 0);
        atomic_store(&shared->acked, g);
    }
}

static void run_reader(void)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win = NULL;
    static uint8_t want[STATE];
    struct storwin_error err;

    for (unsigned i = 0; !atomic_load(&shared->stop); i++) {
        const uint64_t since = atomic_load(&shared->acked);
        const int rc = win ? storwin_follow(win, &err) : storwin_open_read(&opts, &win, &err);

        if (rc == STORWIN_EBUSY) {
            atomic_fetch_add(&shared->n_busy, 1);
            continue;
        }
        if ((rc == STORWIN_ENONE || rc == -ENOENT) && since == 0)
            continue;
        CHECK_MSG(rc >= 0, "%s", err.text);
        CHECK(window_generation(win) >= since);
        test_state(window_generation(win), want, STATE);
        CHECK(memcmp(storwin_base(win), want, STATE) == 0);
        atomic_fetch_add(&shared->n_copies, 1);
        if (i % 16 == 15) {
            CHECK(storwin_free(win, NULL) == 0);
            win = NULL;
        }
    }
    CHECK(storwin_free(win, NULL) == 0);
    _exit(0);
}

static pid_t fork_child(void)
{
    const pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0)
        alarm(1000);
    return pid;
}

/* Writers of one kind on one file, killed up to 12 ms after a commit of theirs. */
static void run_writers(uint32_t atomic, unsigned rounds, uint64_t *rng)
{
    pid_t readers[N_READERS], writer;
    int status;

    atomic_store(&shared->acked, 0);
    atomic_store(&shared->stop, 0);
    for (unsigned i = 0; i < N_READERS; i++) {
        readers[i] = fork_child();
        if (readers[i] == 0)
            run_reader();
    }
    for (unsigned round = 0; round < rounds; round++) {
        const uint64_t before = atomic_load(&shared->acked);
        struct timespec pause = {0, (long)(test_random(rng) % 12000000)};

        writer = fork_child();
        if (writer == 0)
            run_writer(atomic);
        while (atomic_load(&shared->acked) == before && waitpid(writer, &status, WNOHANG) == 0)
            usleep(200);
        CHECK(atomic_load(&shared->acked) > before);
        nanosleep(&pause, NULL);
        kill(writer, SIGKILL);
        CHECK(waitpid(writer, &status, 0) == writer);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    atomic_store(&shared->stop, 1);
    for (unsigned i = 0; i < N_READERS; i++) {
        CHECK(waitpid(readers[i], &status, 0) == readers[i]);
        CHECK(status == 0);
    }
    unlink(path);
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 60;
    uint64_t rng = (uint64_t)time(NULL) * 2654435761u | 1;

    test_begin();
    path = test_path("read");
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    for (uint32_t atomic = STORWIN_ATOMIC_JOURNAL; atomic <= STORWIN_ATOMIC_AUTO; atomic++)
        run_writers(atomic, rounds / 3, &rng);
    printf("%u kills, %llu copies of readers, none mixed; %llu times the writer was too fast\n",
           rounds / 3 * 3, (unsigned long long)atomic_load(&shared->n_copies),
           (unsigned long long)atomic_load(&shared->n_busy));
    CHECK(atomic_load(&shared->n_copies) > rounds);
    return 0;
}
