/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reader_crash STATES [SEED]: readers between the writes of commits. Records every write of some
 * commits. Then a reader opens the file and follows it while these writes arrive one by one: before
 * each read of the reader some more of them, the last perhaps torn between sectors, as a reader
 * sees them beside the writer. At a random write the writer is killed. Each copy must be a commit
 * of its generation, whole, and no older than the newest at the beginning of the call. A new writer
 * continues from that state.
 */
#include <sys/uio.h>
#include <time.h>

#include "../../libstorwin/src/commit.h"
#include "storwin_test.h"

#define BYTES       (5 * 65536u)
#define MOST_STATES 400u
#define SECTOR      512u

struct write {
    uint64_t at, bytes, generation; /* generation: acknowledged after this write; 0: none */
    uint8_t *data;
};

static struct write *writes;
static size_t n_writes, cap_writes, next_write; /* next_write: to arrive at the reader's file */
static uint64_t rng, torn; /* torn: bytes of the next write that are there already */
static int recording, interfering, file = -1;
static uint64_t newest; /* generation acknowledged in what has arrived */
static uint8_t *states[MOST_STATES];
static unsigned n_arrived;

static void record_write(uint64_t at, const void *data, uint64_t bytes)
{
    if (!recording || bytes == 0)
        return;
    if (n_writes == cap_writes) {
        cap_writes = 2 * cap_writes + 64;
        writes = realloc(writes, cap_writes * sizeof(*writes));
        CHECK(writes != NULL);
    }
    writes[n_writes] = (struct write){at, bytes, 0, malloc(bytes)};
    CHECK(writes[n_writes].data != NULL);
    memcpy(writes[n_writes++].data, data, bytes);
}

ssize_t __real_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at)
{
    const ssize_t done = __real_pwrite(fd, p, n, at);

    if (done > 0)
        record_write((uint64_t)at, p, (uint64_t)done);
    return done;
}

ssize_t __real_pwritev(int fd, const struct iovec *iov, int n, off_t at);
ssize_t __wrap_pwritev(int fd, const struct iovec *iov, int n, off_t at);
ssize_t __wrap_pwritev(int fd, const struct iovec *iov, int n, off_t at)
{
    const ssize_t done = __real_pwritev(fd, iov, n, at);

    for (ssize_t left = done; left > 0; iov++) {
        const size_t bytes = iov->iov_len < (size_t)left ? iov->iov_len : (size_t)left;

        record_write((uint64_t)at, iov->iov_base, bytes);
        at += (off_t)bytes;
        left -= (ssize_t)bytes;
    }
    return done;
}

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    (void)fd; /* a process that is killed needs none */
    return 0;
}

/* The next write arrives, or a beginning of it that ends with a sector. */
static void one_arrives(int tear)
{
    const struct write *w = &writes[next_write];
    uint64_t end = w->bytes;

    if (tear && w->bytes - torn > SECTOR)
        end = torn + (1 + test_random(&rng) % ((w->bytes - torn) / SECTOR)) * SECTOR;
    end = end < w->bytes ? end : w->bytes;
    CHECK(__real_pwrite(file, w->data + torn, end - torn, (off_t)(w->at + torn)) ==
          (ssize_t)(end - torn));
    torn = end;
    if (end < w->bytes)
        return;
    newest = w->generation > newest ? w->generation : newest;
    torn = 0;
    next_write++;
    n_arrived++;
}

static size_t killed_at; /* no write from this one on arrives whole */

static void some_arrive(unsigned most)
{
    for (unsigned n = (unsigned)(test_random(&rng) % (most + 1)); n > 0; n--)
        if (next_write < killed_at)
            one_arrives(n == 1 && test_random(&rng) % 2);
}

ssize_t __real_pread(int fd, void *p, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *p, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *p, size_t n, off_t at)
{
    static unsigned most;

    if (interfering) {
        if (test_random(&rng) % 8 == 0) /* phases of a fast writer and of a slow one */
            most = test_random(&rng) % 4 ? (unsigned)(test_random(&rng) % 3) : 60;
        some_arrive(most);
    }
    return __real_pread(fd, p, n, at);
}

static struct storwin_opts file_opts(uint32_t atomic, uint32_t generations)
{
    struct storwin_opts opts = storage_opts(test_path("crash"));

    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = atomic;
    opts.generations = generations;
    opts.flags = STORWIN_DISCARD;
    opts.n_threads = 1;
    return opts;
}

static void keep_state(uint64_t generation, const void *data)
{
    CHECK(generation < MOST_STATES);
    if (!states[generation])
        states[generation] = malloc(BYTES);
    CHECK(states[generation] != NULL);
    memcpy(states[generation], data, BYTES);
}

/* A writer's life: opens the file, which its records may change, and commits. */
static void run_writer(uint32_t atomic, uint32_t generations, unsigned commits)
{
    const struct storwin_opts opts = file_opts(atomic, generations);
    struct storwin_window *win;
    uint8_t *base;

    recording = 1;
    CHECK(storwin_alloc(&opts, BYTES, &win, NULL) == 0);
    base = storwin_base(win);
    if (n_writes > 0) /* the record that it found, which its writer may not have acknowledged */
        writes[n_writes - 1].generation = window_generation(win);
    for (unsigned i = 0; i < commits; i++) {
        const unsigned n = test_random(&rng) % 4 ? 4 : 200;

        for (unsigned k = 0; k < n; k++)
            base[test_random(&rng) % BYTES] = (uint8_t)test_random(&rng);
        base[0]++;
        CHECK(storwin_commit(win, NULL) == 0);
        keep_state(window_generation(win), base);
        writes[n_writes - 1].generation = window_generation(win);
    }
    recording = 0;
    CHECK(storwin_free(win, NULL) == 0);
}

static unsigned n_copies, n_busy, n_none;

/* Checks the result of a reader's call, which began when `since` was the newest commit. */
static void check_copy(const struct storwin_window *win, int rc, const struct storwin_error *err,
                       uint64_t since)
{
    if (rc == STORWIN_EBUSY) {
        n_busy++;
        return;
    }
    if (rc == STORWIN_ENONE && since == 0) {
        n_none++;
        return;
    }
    CHECK_MSG(rc >= 0, "%s", err->text);
    n_copies++;
    CHECK_MSG(window_generation(win) >= since && window_generation(win) <= newest + 1,
              "generation %llu, from %llu to %llu", (unsigned long long)window_generation(win),
              (unsigned long long)since, (unsigned long long)newest + 1);
    CHECK(memcmp(storwin_base(win), states[window_generation(win)], BYTES) == 0);
}

/* A reader beside the arriving writes. */
static void run_reader(uint32_t atomic)
{
    const struct storwin_opts opts = file_opts(atomic, 0);
    struct storwin_window *win = NULL;
    struct storwin_error err;

    while (next_write < killed_at) {
        const uint64_t since = newest;
        int rc;

        some_arrive(3);
        interfering = 1;
        rc = win ? storwin_follow(win, &err) : storwin_open_read(&opts, &win, &err);
        interfering = 0;
        if (win)
            check_copy(win, rc, &err, rc == STORWIN_EBUSY ? 0 : since);
        else
            check_copy(win, rc, &err, since);
        if (win && test_random(&rng) % 8 == 0) {
            CHECK(storwin_free(win, NULL) == 0);
            win = NULL;
        }
    }
    CHECK(storwin_free(win, NULL) == 0);
}

int main(int argc, char **argv)
{
    static const uint32_t atomics[] = {STORWIN_ATOMIC_JOURNAL, STORWIN_ATOMIC_SLOTS,
                                       STORWIN_ATOMIC_AUTO};
    const unsigned want = argc > 1 ? (unsigned)atoi(argv[1]) : 2000;
    const char *path;
    uint8_t *start = NULL;
    uint32_t atomic = 0, generations = 0;

    rng = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 2654435761u | 1;
    test_begin();
    printf("seed %llu\n", (unsigned long long)rng);
    path = test_path("crash");
    atomic_store(&storwin__without, STORWIN__NO_RING | STORWIN__NO_DIRECT);
    for (unsigned round = 0; n_copies < want; round++) {
        uint64_t bytes;

        if (round % 16 == 0) { /* a new file */
            unlink(path);
            newest = 0;
            atomic = atomics[test_random(&rng) % 3];
            generations =
                atomic == STORWIN_ATOMIC_SLOTS ? 2 + (uint32_t)(test_random(&rng) % 4) : 2;
            CHECK(storwin_free(NULL, NULL) == 0);
            file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
            CHECK(file >= 0);
            CHECK(ftruncate(file, (off_t)storwin__commit_space(BYTES, atomic, generations)) == 0);
        } else {
            file = open(path, O_RDWR | O_CLOEXEC);
            CHECK(file >= 0);
        }
        bytes = file_size(path);
        start = realloc(start, bytes);
        CHECK(start != NULL && __real_pread(file, start, bytes, 0) == (ssize_t)bytes);
        run_writer(atomic, generations, 1 + (unsigned)(test_random(&rng) % 20));
        CHECK(__real_pwrite(file, start, bytes, 0) == (ssize_t)bytes);
        killed_at = test_random(&rng) % 2 ? n_writes : 1 + test_random(&rng) % n_writes;
        run_reader(atomic);
        if (next_write < n_writes) /* the kill */
            one_arrives(1);
        close(file);
        for (size_t i = 0; i < n_writes; i++)
            free(writes[i].data);
        n_writes = next_write = 0;
        torn = 0;
    }
    printf(
        "%u copies of readers beside %u writes, none mixed; %u times the writer was too fast, %u "
        "times there was no commit yet\n",
        n_copies, n_arrived, n_busy, n_none);
    for (unsigned i = 0; i < MOST_STATES; i++)
        free(states[i]);
    free(start);
    free(writes);
    return 0;
}
