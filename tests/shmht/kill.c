/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill <trials>: SIGKILL of the writer at random points of puts, updates, deletes, merges and
 * growth. A reader attached before, and one attached afterwards, find every pair whose put returned
 * and none whose delete returned, and so does a new table made of the pairs that they iterate over.
 * Odd trials use a named object, even ones a memfd.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define N_KEYS  20000u
#define DELETED 0x80000000u /* in a floor: the version below it was put, then deleted */

struct shared {
    _Atomic uint32_t deleting; /* key + 1 of the delete that has not returned; 0: none */
    _Atomic uint32_t floor[N_KEYS];
};

static const struct shmht_writer_opts base_opts = {
    .size = sizeof(base_opts), .max_bytes = 64 << 20, .expected_entries = 1};

/* A writer that is not killed in time, on a busy machine, waits for it at its cap. */
static void at_cap(int rc)
{
    while (rc == SHMHT_EFULL)
        pause();
    CHECK(rc >= 0);
}

static uint32_t version_now(struct shared *shared, uint32_t i)
{
    return atomic_load_explicit(&shared->floor[i], memory_order_relaxed) & ~DELETED;
}

static void delete_version(struct shmht_writer *w, struct shared *shared, uint32_t i)
{
    int there = !(atomic_load_explicit(&shared->floor[i], memory_order_relaxed) & DELETED);
    char key[16];

    key16(key, i);
    atomic_store_explicit(&shared->deleting, i + 1, memory_order_release);
    CHECK(shmht_delete(w, key, 16) == (there ? 0 : SHMHT_ENOENT));
    atomic_fetch_or_explicit(&shared->floor[i], DELETED, memory_order_release);
    atomic_store_explicit(&shared->deleting, 0, memory_order_release);
}

static void put_version(struct shmht_writer *w, struct shared *shared, uint32_t i)
{
    uint32_t version = version_now(shared, i) + 1;
    unsigned char value[32];
    char key[16];

    key16(key, i);
    fill32(value, i, version);
    at_cap(shmht_put(w, key, 16, value, 32));
    atomic_store_explicit(&shared->floor[i], version, memory_order_release);
}

static void merge_versions(struct shmht_writer *w, struct shared *shared, uint32_t first,
                           uint32_t n)
{
    static unsigned char buf[SHMHT_BLOCK_HEADER_BYTES + 256 * 52];
    unsigned char value[32];
    struct block b;
    char key[16];

    block_begin(&b, buf, sizeof(buf));
    for (uint32_t i = first; i < first + n; i++) {
        key16(key, i);
        fill32(value, i, version_now(shared, i) + 1);
        block_add(&b, key, 16, value, 32);
    }
    at_cap(shmht_writer_merge(w, buf, block_end(&b), NULL));
    for (uint32_t i = first; i < first + n; i++)
        atomic_store_explicit(&shared->floor[i], version_now(shared, i) + 1, memory_order_release);
}

static void write_for_ever(struct shmht_writer *w, struct shared *shared, uint64_t seed)
{
    uint32_t next = 0;

    for (uint64_t rng = seed;;) {
        uint64_t what = next_random(&rng);

        if (what % 64 == 0 && next > 256)
            merge_versions(w, shared, (uint32_t)(what >> 8) % (next - 256), 256);
        else if (what % 64 == 1 && next + 256 < N_KEYS) {
            merge_versions(w, shared, next, 256);
            next += 256;
        } else if (what % 5 == 0 && next > 0)
            delete_version(w, shared, (uint32_t)(what >> 8) % next);
        else if (what % 3 != 0 && next < N_KEYS)
            put_version(w, shared, next++);
        else if (next > 0)
            put_version(w, shared, (uint32_t)(what >> 8) % next);
    }
}

/* The writer's process: hands out the table, then writes until it is killed, or its cap stops it.
 * */
static void writer(int sock, struct shared *shared, int named, uint64_t seed)
{
    struct shmht_writer_opts opts = base_opts;
    struct shmht_writer *w;
    struct shmht_desc desc;
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    opts.flags = named ? SHMHT_NAMED : 0;
    CHECK(shmht_writer_create(&opts, &w, NULL) == 0);
    fd = shmht_writer_share(w, &desc);
    CHECK(fd >= 0 && shmht_fd_send(sock, fd, &desc) == 0);
    write_for_ever(w, shared, seed);
}

/* The interrupted put, those of a merge, and the pair of an interrupted delete may be present or
 * not. */
static void check_all(const struct shmht_reader *r, struct shared *shared)
{
    for (uint32_t i = 0; i < N_KEYS; i++) {
        uint32_t floor = atomic_load_explicit(&shared->floor[i], memory_order_acquire);
        struct shmht_bytes value;
        char key[16];
        int64_t version;
        int rc;

        key16(key, i);
        rc = shmht_get(r, key, 16, &value);
        CHECK(rc == 0 || (rc == SHMHT_ENOENT && (floor == 0 || floor & DELETED ||
                                                 atomic_load(&shared->deleting) == i + 1)));
        if (rc == 0) {
            version = version32(&value, i);
            CHECK((version == floor && !(floor & DELETED)) || version == (floor & ~DELETED) + 1);
        }
    }
}

/* The interrupted delete has happened, or it has not: later deletes are noted in its place. */
static void settle_delete(const struct shmht_reader *r, struct shared *shared)
{
    const uint32_t deleting = atomic_exchange(&shared->deleting, 0);
    struct shmht_bytes value;
    char key[16];

    if (deleting == 0)
        return;
    key16(key, deleting - 1);
    if (shmht_get(r, key, 16, &value) == SHMHT_ENOENT)
        atomic_fetch_or(&shared->floor[deleting - 1], DELETED);
}

static uint64_t count(const struct shmht_reader *r)
{
    struct shmht_iter it = {0};
    struct shmht_bytes key, value;
    uint64_t n = 0;
    int rc;

    while ((rc = shmht_reader_next(r, &it, &key, &value)) == 1)
        n++;
    CHECK(rc == 0);
    return n;
}

/* Makes the table that continues the one of a dead writer. */
static struct shmht_writer *continue_table(const struct shmht_reader *r)
{
    struct shmht_bytes key, value;
    struct shmht_iter it = {0};
    struct shmht_writer *w;
    int rc;

    CHECK(shmht_writer_create(&base_opts, &w, NULL) == 0);
    while ((rc = shmht_reader_next(r, &it, &key, &value)) == 1)
        CHECK(shmht_put(w, key.ptr, key.len, value.ptr, value.len) >= 0);
    CHECK(rc == 0);
    return w;
}

static void trial(struct shared *shared, int number, uint64_t *rng, uint64_t *written)
{
    struct timespec wait = {0, (long)(next_random(rng) % (number % 4 == 0 ? 100000 : 4000000))};
    struct shmht_reader *before, *after, *view;
    struct shmht_writer *w;
    struct shmht_stats stats;
    struct shmht_desc desc;
    int named = number % 2, pair[2], fd, status;
    uint64_t seed = next_random(rng), value = 5;
    struct shmht_bytes got;
    pid_t pid;

    memset(shared, 0, sizeof(*shared));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(pair[0]);
        writer(pair[1], shared, named, seed);
    }
    close(pair[1]);
    fd = shmht_fd_recv(pair[0], &desc);
    CHECK(fd >= 0);
    CHECK(shmht_reader_attach(&desc, named ? -1 : fd, NULL, &before, NULL) == 0);
    nanosleep(&wait, NULL);
    CHECK(kill(pid, SIGKILL) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

    check_all(before, shared);
    CHECK(shmht_reader_attach(&desc, named ? -1 : fd, NULL, &after, NULL) == 0);
    check_all(after, shared);

    w = continue_table(after);
    shmht_reader_detach(after);
    view = shmht_writer_view(w);
    check_all(view, shared);
    shmht_reader_stats(view, &stats);
    CHECK(stats.entries == count(view));
    CHECK(stats.total_bytes == stats.header_bytes + stats.live_bytes + stats.garbage_bytes +
                                   stats.table_bytes + stats.old_table_bytes + stats.free_bytes);
    settle_delete(view, shared);
    for (uint32_t i = 0; i < 300; i++) /* continues, with growth */
        put_version(w, shared, i);
    for (uint32_t i = 0; i < 300; i += 3)
        delete_version(w, shared, i);
    CHECK(shmht_put(w, "continued", 9, &value, sizeof(value)) == SHMHT_PUT_NEW);
    check_all(view, shared);
    CHECK(shmht_get(view, "continued", 9, &got) == 0);
    *written += stats.entries;
    shmht_reader_detach(before);
    shmht_writer_destroy(w);
    if (named)
        CHECK(unlink(desc.name) == 0);
    close(fd);
    close(pair[0]);
}

int main(int argc, char **argv)
{
    int trials = argc == 2 ? atoi(argv[1]) : 0;
    uint64_t rng = (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid(), written = 0;
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (trials < 1) {
        fprintf(stderr, "usage: kill <trials>\n");
        return 2;
    }
    CHECK(shared != MAP_FAILED);
    printf("seed %llu\n", (unsigned long long)rng);
    fflush(stdout);
    for (int i = 0; i < trials; i++)
        trial(shared, i, &rng, &written);
    printf("%d writers killed, %llu keys found\n", trials, (unsigned long long)written);
    return 0;
}
