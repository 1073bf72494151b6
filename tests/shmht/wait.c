/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shmht_get_wait(): processes that cannot write the table, as this user and, if this is root, as
 * user 65534, sleep until a key is there; a wait ends with its time, with a compaction, and
 * through signals not at all. No wake is lost in 20,000 rounds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define ROUNDS      20000u
#define SECOND_NS   INT64_C(1000000000)
#define N_SLEEPERS  3
#define PATIENCE_NS (20 * SECOND_NS) /* only a lost wake lasts so long */

static struct shmht_writer *create(void)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 64 << 20};
    struct shmht_writer *w;

    CHECK(shmht_writer_create(&opts, &w, NULL) == 0);
    return w;
}

static struct shmht_reader *attach(int fd)
{
    struct shmht_reader *r;

    CHECK(shmht_reader_attach(NULL, fd, NULL, &r, NULL) == 0);
    return r;
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND_NS + t.tv_nsec;
}

static pid_t fork_checked(void)
{
    pid_t pid = fork();

    CHECK(pid >= 0);
    return pid;
}

static void join(pid_t pid)
{
    int status;

    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Waits until a process sleeps in the kernel. */
static void await_sleep(pid_t pid)
{
    char path[64], state = 'R';

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    for (int i = 0; i < 10000 && state != 'S'; i++) {
        FILE *f = fopen(path, "r");

        CHECK(f && fscanf(f, "%*d %*s %c", &state) == 1);
        fclose(f);
        usleep(1000);
    }
    CHECK(state == 'S');
}

static void check_results(void)
{
    struct shmht_writer *w = create();
    struct shmht_reader *r = attach(shmht_writer_share(w, NULL));
    struct shmht_bytes value = {"", 1};
    int64_t before = now_ns();

    CHECK(shmht_put(w, "key", 3, "value", 5) == 0);
    CHECK(shmht_get_wait(r, "key", 3, -1, &value) == 0 && value.len == 5);
    CHECK(shmht_get_wait(r, "", 0, -1, &value) == SHMHT_EKEYLEN && !value.ptr);
    CHECK(shmht_get_wait(r, "none", 4, 0, &value) == -ETIMEDOUT && !value.ptr);
    CHECK(shmht_get_wait(r, "none", 4, SECOND_NS / 20, &value) == -ETIMEDOUT && !value.ptr);
    CHECK(now_ns() - before >= SECOND_NS / 20);
    CHECK(shmht_writer_wake(w) == 0);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

/* Each wake counts, also without a sleeper: a reader may be about to sleep (LAYOUT.md). */
static void check_count(void)
{
    static _Alignas(64) unsigned char region[SHMHT_MIN_REGION_BYTES];
    struct shmht_writer_opts opts = {
        .size = sizeof(opts), .max_bytes = sizeof(region), .region = region};
    struct shmht_writer *w;
    uint32_t wakes;

    CHECK(shmht_writer_create(&opts, &w, NULL) == 0);
    for (uint32_t n = 0; n < 3; n++) {
        memcpy(&wakes, region + 168, sizeof(wakes));
        CHECK(wakes == n);
        CHECK(shmht_put(w, &n, sizeof(n), NULL, 0) == 0 && shmht_writer_wake(w) == 0);
    }
    shmht_writer_destroy(w);
}

/* Readers of another user sleep on the read-only mapping, and one wake wakes them all. */
static void check_sleepers(uid_t uid)
{
    struct shmht_writer *w = create();
    pid_t pids[N_SLEEPERS];

    for (int i = 0; i < N_SLEEPERS; i++) {
        pids[i] = fork_checked();
        if (pids[i] == 0) {
            struct shmht_reader *r;
            struct shmht_bytes value;

            if (uid != 0)
                CHECK(setgid(uid) == 0 && setuid(uid) == 0);
            r = attach(shmht_writer_share(w, NULL));
            CHECK(shmht_get_wait(r, "key", 3, PATIENCE_NS, &value) == 0);
            CHECK(value.len == 5 && memcmp(value.ptr, "value", 5) == 0);
            _exit(0);
        }
    }
    for (int i = 0; i < N_SLEEPERS; i++)
        await_sleep(pids[i]);
    CHECK(shmht_put(w, "other", 5, "x", 1) == 0);
    CHECK(shmht_writer_wake(w) == N_SLEEPERS); /* woken, and asleep again */
    for (int i = 0; i < N_SLEEPERS; i++)
        await_sleep(pids[i]);
    CHECK(shmht_put(w, "key", 3, "value", 5) == 0);
    CHECK(shmht_writer_wake(w) == N_SLEEPERS);
    for (int i = 0; i < N_SLEEPERS; i++)
        join(pids[i]);
    shmht_writer_destroy(w);
}

static void on_alarm(int number)
{
    (void)number;
}

/* Signals do not end a wait, its time does. */
static void check_signals(void)
{
    struct shmht_writer *w = create();
    struct shmht_reader *r = attach(shmht_writer_share(w, NULL));
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct shmht_bytes value;
    int64_t before = now_ns();

    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    CHECK(shmht_get_wait(r, "none", 4, SECOND_NS / 5, &value) == -ETIMEDOUT);
    CHECK(now_ns() - before >= SECOND_NS / 5);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

/* A wait that times out still finds a key that was put without a wake. */
static void check_put_without_wake(void)
{
    int status = 1;

    /* On a busy machine the put may come after the limit: then again. */
    for (int i = 0; status != 0 && i < 5; i++) {
        struct shmht_writer *w = create();
        pid_t pid = fork_checked();

        if (pid == 0) {
            struct shmht_reader *r = attach(shmht_writer_share(w, NULL));
            struct shmht_bytes value;

            _exit(shmht_get_wait(r, "key", 3, SECOND_NS, &value) != 0 || value.len != 5);
        }
        await_sleep(pid);
        CHECK(shmht_put(w, "key", 3, "value", 5) == 0);
        CHECK(waitpid(pid, &status, 0) == pid);
        shmht_writer_destroy(w);
    }
    CHECK(status == 0);
}

/* A compaction ends the waits in the old table. */
static void check_compaction(void)
{
    struct shmht_writer *w = create(), *next;
    pid_t pid = fork_checked();

    if (pid == 0) {
        struct shmht_reader *r = attach(shmht_writer_share(w, NULL));
        struct shmht_bytes value = {"", 1};

        CHECK(shmht_get_wait(r, "key", 3, PATIENCE_NS, &value) == SHMHT_ESTALE && !value.ptr);
        CHECK(shmht_get_wait(r, "key", 3, -1, &value) == SHMHT_ESTALE);
        _exit(0);
    }
    await_sleep(pid);
    CHECK(shmht_writer_compact(w, NULL, &next, NULL) == 0);
    join(pid);
    shmht_writer_destroy(next);
    shmht_writer_destroy(w);
}

/* Finds a key without sleeping, then lets up to a microsecond pass. */
static void poll_key(const struct shmht_reader *r, uint32_t i, uint64_t *rng)
{
    int64_t end = now_ns() + PATIENCE_NS;
    struct shmht_bytes value;

    while (shmht_get(r, &i, sizeof(i), &value) != 0)
        CHECK(now_ns() < end);
    for (uint64_t n = next_random(rng) % 512; n > 0; n--)
        atomic_signal_fence(memory_order_seq_cst);
}

/* A process asks, and waits for the answer; the other answers at once, while the first one is
 * falling asleep. With a lost wake it would not return. */
static void check_rounds(void)
{
    struct shmht_writer *w = create();
    uint64_t rng = 1;
    struct shmht_reader *r;
    struct shmht_desc desc;
    int pair[2], fd;
    pid_t pid;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid = fork_checked();
    if (pid == 0) {
        struct shmht_writer *own = create();
        struct shmht_bytes value;

        r = attach(shmht_writer_share(w, NULL));
        CHECK(shmht_fd_send(pair[1], shmht_writer_share(own, &desc), &desc) == 0);
        for (uint32_t i = 0; i < ROUNDS; i++) {
            CHECK(shmht_put(own, &i, sizeof(i), NULL, 0) == SHMHT_PUT_NEW);
            CHECK(shmht_get_wait(r, &i, sizeof(i), PATIENCE_NS, &value) == 0);
        }
        _exit(0);
    }
    fd = shmht_fd_recv(pair[0], &desc);
    CHECK(fd >= 0);
    r = attach(fd);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        poll_key(r, i, &rng);
        CHECK(shmht_put(w, &i, sizeof(i), NULL, 0) == SHMHT_PUT_NEW);
        CHECK(shmht_writer_wake(w) >= 0);
    }
    join(pid);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
    close(fd);
}

int main(void)
{
    check_results();
    check_count();
    check_signals();
    check_sleepers(0);
    if (geteuid() == 0)
        check_sleepers(65534);
    check_put_without_wake();
    check_compaction();
    check_rounds();
    return 0;
}
