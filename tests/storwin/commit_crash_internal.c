/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * commit_crash STATES [SEED]: simulated crashes during commits. Records every write and flush of
 * the file; a crash state has all writes before some flush, and a random part of the later ones,
 * torn between sectors. Writes and flushes also fail now and then, whole or short, and data of a
 * failed flush may be lost although later flushes succeed. Each state must open as the last
 * acknowledged commit or a later one, whole. The next round begins with one of these states. In
 * some rounds the window has grown, and the areas move. Some files keep more than two generations:
 * all but the oldest of these open in each state. A reader gets what a window gets. In some rounds
 * stores come during each commit, before its writes, flushes and sums, and around each search for
 * changes and the fork, as those of another thread do, up to so many that a fork must hold the
 * picture; and some commits are asynchronous, with stores until they are complete. Some windows
 * adopt memory whose first and last page have other bytes, too.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>

#include "../../libstorwin/src/commit.h"
#include "storwin_test.h"

#define SHORT  ((UINT64_C(1) << 17) + 100)
#define LONG   (4 * UINT64_C(65536) - 50)
#define IMAGE  (4 * 65536 + 4 * (3 * 65536) + 4 * (4 * 65536)) /* of four generations */
#define SECTOR 512u

enum kind { WRITE, FLUSH, ACK, TRY };

struct event {
    enum kind kind;
    int lost_perhaps; /* of a write: a flush that failed was to make it durable */
    uint64_t at, bytes;
    uint8_t *data; /* of a write; of an ACK or TRY the state */
};

static struct event *events;
static size_t n_events, cap_events;
static int recording;
static unsigned faults; /* one call in so many fails; 0: none */
static uint64_t rng, window_length = SHORT;
static uint32_t generations = 2; /* that the file keeps */
/* An older generation was opened: its predecessors may have been overwritten by then. */
static int went_back;

static uint8_t *live_base; /* of the window whose commit is to meet stores; NULL: none */
static unsigned meddling;  /* one call in so many meets one */
static unsigned long n_meddled, n_started;
static _Thread_local int meddler; /* this thread, for no other may be inside the library's locks */

static void record(enum kind kind, uint64_t at, const void *data, uint64_t bytes)
{
    struct event *e;

    if (!recording)
        return;
    if (n_events == cap_events) {
        cap_events = 2 * cap_events + 64;
        events = realloc(events, cap_events * sizeof(*events));
        CHECK(events != NULL);
    }
    e = &events[n_events++];
    *e = (struct event){kind, 0, at, bytes, bytes ? malloc(bytes) : NULL};
    if (bytes) {
        CHECK(e->data != NULL);
        memcpy(e->data, data, bytes);
    }
}

/* What another thread could store now: the memory is then one more state that a commit may have. */
static void meddle(void)
{
    if (!meddler || !live_base || test_random(&rng) % meddling)
        return;
    live_base[test_random(&rng) % window_length] += 1;
    live_base[test_random(&rng) % window_length] += 1;
    record(TRY, 0, live_base, window_length);
    n_meddled++;
}

static int fault(void)
{
    return recording && faults && test_random(&rng) % faults == 0;
}

/* The effect of a write that may fail: 0: all of it; else the number of written bytes, or -1. */
static ssize_t shorten(size_t bytes)
{
    if (!fault())
        return 0;
    errno = test_random(&rng) % 2 ? EIO : ENOSPC;
    return bytes > SECTOR && test_random(&rng) % 2 ? (ssize_t)(bytes / SECTOR / 2 * SECTOR) : -1;
}

ssize_t __real_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at)
{
    const ssize_t less = shorten(n);
    ssize_t done;

    meddle();
    done = less < 0 ? -1 : __real_pwrite(fd, p, less ? (size_t)less : n, at);

    if (done > 0)
        record(WRITE, (uint64_t)at, p, (uint64_t)done);
    return done;
}

ssize_t __real_pwritev(int fd, const struct iovec *iov, int n, off_t at);
ssize_t __wrap_pwritev(int fd, const struct iovec *iov, int n, off_t at);
ssize_t __wrap_pwritev(int fd, const struct iovec *iov, int n, off_t at)
{
    const ssize_t less = n == 1 ? shorten(iov->iov_len) : fault() ? 512 : 0;
    struct iovec first = {iov->iov_base, (size_t)less};
    ssize_t done;

    meddle();
    if (less < 0)
        return -1;
    done = less ? __real_pwritev(fd, &first, 1, at) : __real_pwritev(fd, iov, n, at);
    for (ssize_t left = done; left > 0; iov++) {
        const size_t bytes = iov->iov_len < (size_t)left ? iov->iov_len : (size_t)left;

        record(WRITE, (uint64_t)at, iov->iov_base, bytes);
        at += (off_t)bytes;
        left -= (ssize_t)bytes;
    }
    return done;
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    meddle();
    if (fault()) {
        for (size_t i = n_events; i > 0 && events[i - 1].kind != FLUSH; i--)
            events[i - 1].lost_perhaps = 1;
        errno = EIO;
        return -1;
    }
    record(FLUSH, 0, NULL, 0);
    return 0;
}

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    const int scan = _IOC_TYPE(request) == 'f'; /* no lock is held */
    int rc;

    if (scan)
        meddle();
    rc = __real_ioctl(fd, request, arg);
    if (scan)
        meddle();
    return rc;
}

uint64_t __real_storwin__sum_ahead(const void *data, size_t n, uint64_t seed, const void *next);
uint64_t __wrap_storwin__sum_ahead(const void *data, size_t n, uint64_t seed, const void *next);
uint64_t __wrap_storwin__sum_ahead(const void *data, size_t n, uint64_t seed, const void *next)
{
    if (meddler && live_base && test_random(&rng) % 16 == 0)
        meddle();
    return __real_storwin__sum_ahead(data, n, seed, next);
}

pid_t __real_storwin__freeze(void);
pid_t __wrap_storwin__freeze(void);
pid_t __wrap_storwin__freeze(void)
{
    pid_t pid;

    meddle();
    pid = __real_storwin__freeze();
    meddle();
    return pid;
}

int __real_fallocate(int fd, int mode, off_t at, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t at, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t at, off_t bytes)
{
    int rc = __real_fallocate(fd, mode, at, bytes);

    if (rc == 0 && mode & FALLOC_FL_PUNCH_HOLE) { /* zeros, some time */
        void *zeros = calloc(1, (size_t)bytes);

        CHECK(zeros != NULL);
        record(WRITE, (uint64_t)at, zeros, (uint64_t)bytes);
        free(zeros);
    }
    return rc;
}

static unsigned long n_older;

static void forget(void)
{
    for (size_t i = 0; i < n_events; i++)
        free(events[i].data);
    n_events = 0;
}

/* NULL: there is no such generation. The newest one (0) must exist. */
static struct storwin_window *open_window(uint32_t atomic, unsigned without, uint64_t generation,
                                          uint64_t bytes)
{
    struct storwin_opts opts = storage_opts(test_path("crash"));
    struct storwin_window *win = NULL;
    struct storwin_error err;
    int rc;

    opts.generation = generation;
    opts.generations = generations;
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = generations > 2 ? STORWIN_ATOMIC_SLOTS : atomic;
    opts.flags = STORWIN_DISCARD;
    opts.n_threads = 1 + (uint32_t)test_random(&rng) % 2; /* so short a window has one for writes */
    atomic_store(&storwin__without, STORWIN__NO_RING | without);
    atomic_store(&storwin__sum_min, 1);
    opts.app_version = 1;
    if (test_random(&rng) % 3 == 0) {
        static _Alignas(4096) uint8_t room[LONG + 8192];

        memset(room, 0, sizeof(room));
        opts.generations = generations > 2 ? generations : 0;
        rc = storwin_adopt(room + test_random(&rng) % 4096, bytes, &opts, &win, &err);
    } else {
        rc = storwin_alloc(&opts, bytes, &win, &err);
    }
    if (rc < 0 && generation == 0) {
        fprintf(stderr, "%s\n", err.text);
        CHECK(!"opens");
    }
    return win;
}

static void store_some(uint8_t *base, uint64_t *random)
{
    static const unsigned most[] = {1, 3, 10, 40, 200};
    const unsigned n = 1 + (unsigned)(test_random(random) % most[test_random(random) % 5]);

    for (unsigned i = 0; i < n; i++)
        base[test_random(random) % window_length] = (uint8_t)test_random(random);
}

/* Opens the newest generation, or now and then the one before it if that still exists: from the
 * first commit on a crash may leave that state. */
static struct storwin_window *begin(uint32_t atomic, unsigned without)
{
    struct storwin_window *win = open_window(atomic, without, 0, window_length), *older = NULL;
    struct storwin_info info = {.size = sizeof(info)};

    record(ACK, 0, storwin_base(win), window_length);
    CHECK(storwin_query(win, &info) == 0);
    if (info.generation < 2 || test_random(&rng) % 3)
        return win;
    CHECK(storwin_free(win, NULL) == 0);
    older = open_window(atomic, without, info.generation - 1, window_length);
    if (!older)
        return open_window(atomic, without, 0, window_length);
    record(TRY, 0, storwin_base(older), window_length);
    went_back = 1;
    return older;
}

/* A window that was brought back holds the last acknowledged state, or that of a commit that failed
 * after it. */
static void check_reverted(const uint8_t *base)
{
    size_t i = n_events;
    int found = 0;

    do {
        i--;
        if (events[i].kind == ACK || events[i].kind == TRY)
            found = memcmp(events[i].data, base, SHORT) == 0;
    } while (!found && i > 0 && events[i].kind != ACK);
    CHECK(found);
}

/* A commit that meets stores has one of the states that the memory had meanwhile: a revert shows
 * which. */
static void commit_meddled(struct storwin_window *win)
{
    uint8_t *base = storwin_base(win);
    size_t i, first = n_events;
    int rc;

    live_base = base;
    meddler = 1;
    rc = storwin_commit(win, NULL);
    live_base = NULL;
    meddler = 0;
    if (rc < 0)
        return;
    CHECK(storwin_revert(win, NULL) == 0);
    for (i = n_events; i >= first; i--)
        if (events[i - 1].kind == TRY && memcmp(events[i - 1].data, base, window_length) == 0)
            break;
    CHECK(i >= first);
    record(ACK, 0, base, window_length);
}

/* An asynchronous commit has the state of its start. */
static void commit_asynchronously(struct storwin_window *win)
{
    uint8_t *base = storwin_base(win), *then = malloc(window_length);
    uint64_t random = test_random(&rng) | 1;

    CHECK(then != NULL);
    memcpy(then, base, window_length);
    if (storwin_commit_start(win, NULL) == 0) {
        store_some(base, &random);
        if (storwin_commit_wait(win, NULL) == 0)
            record(ACK, 0, then, window_length);
        n_started++;
    }
    free(then);
}

/* Some commits in one process's life. */
static void live(uint32_t atomic, unsigned without, unsigned commits)
{
    const unsigned some = faults;
    struct storwin_window *win;
    uint8_t *base;

    recording = 1;
    faults = 0;
    win = begin(atomic, without);
    faults = some;
    base = storwin_base(win);
    for (unsigned i = 0; i < commits; i++) {
        store_some(base, &rng);
        record(TRY, 0, base, window_length);
        if (meddling && test_random(&rng) % 2)
            commit_meddled(win);
        else if (test_random(&rng) % 3 == 0)
            commit_asynchronously(win);
        else if (storwin_commit(win, NULL) == 0)
            record(ACK, 0, base, window_length);
        if (test_random(&rng) % 4 == 0) {
            store_some(base, &rng);
            if (storwin_revert(win, NULL) == 0)
                check_reverted(base);
        }
    }
    recording = 0;
    CHECK(storwin_free(win, NULL) == 0);
}

/* The disk after the first n events. */
static void crash(uint8_t *image, size_t n)
{
    size_t flushed = n;

    while (flushed > 0 && events[flushed - 1].kind != FLUSH)
        flushed--;
    for (size_t i = 0; i < n; i++) {
        const struct event *e = &events[i];
        const unsigned fate = i < flushed && !e->lost_perhaps ? 0 : (unsigned)test_random(&rng) % 4;

        if (e->kind != WRITE || fate == 1)
            continue;
        for (uint64_t at = 0; at < e->bytes;) { /* fate 2: torn */
            const uint64_t to_sector = SECTOR - (e->at + at) % SECTOR;
            const uint64_t bytes = to_sector < e->bytes - at ? to_sector : e->bytes - at;

            if (fate != 2 || test_random(&rng) % 2)
                memcpy(image + e->at + at, e->data + at, bytes);
            at += bytes;
        }
    }
}

/* An event's data, and zeros behind it. */
static int matches(const struct event *e, const uint8_t *base)
{
    static const uint8_t zeros[LONG];

    return memcmp(e->data, base, e->bytes) == 0 &&
           memcmp(base + e->bytes, zeros, LONG - e->bytes) == 0;
}

/* Reads a generation, which must be whole. NULL: there is no commit. */
static struct storwin_window *open_copy(uint64_t generation)
{
    struct storwin_opts opts = storage_opts(test_path("crash"));
    struct storwin_window *win = NULL;
    struct storwin_error err;

    opts.generation = generation;
    if (storwin_open_read(&opts, &win, &err) < 0)
        CHECK_MSG(err.code == STORWIN_ENONE && generation == 0, "%s", err.text);
    return win;
}

/* All generations before the newest open, but the oldest: the next commit overwrites that. */
static void check_older(void)
{
    struct storwin_opts opts = storage_opts(test_path("crash"));
    struct storwin_info_file file = {.size = sizeof(file)};

    for (uint32_t i = 2;
         !went_back && i < generations && storwin_file_query(&opts, &file, NULL) == 0; i++) {
        opts.generation = file.older_generation;
        if (opts.generation == 0)
            return;
        CHECK(storwin_free(open_copy(opts.generation), NULL) == 0);
        n_older++;
    }
}

static void check_state(const uint8_t *image, size_t n, uint32_t atomic)
{
    struct storwin_window *win, *copy;
    size_t i = n;
    int found = 0;

    write_file(test_path("crash"), 0, image, IMAGE);
    copy = open_copy(0);
    check_older();
    win = open_window(atomic, 0, 0, LONG);
    CHECK(window_generation(win) == (copy ? window_generation(copy) : 0));
    CHECK(!copy || memcmp(storwin_base(copy), storwin_base(win), window_bytes(copy)) == 0);
    CHECK(storwin_free(copy, NULL) == 0);
    do {
        i--;
        if (events[i].kind == ACK || events[i].kind == TRY)
            found = matches(&events[i], storwin_base(win));
    } while (!found && i > 0 && events[i].kind != ACK);
    CHECK(found);
    CHECK(storwin_free(win, NULL) == 0);
}

int main(int argc, char **argv)
{
    static const uint32_t atomics[] = {STORWIN_ATOMIC_JOURNAL, STORWIN_ATOMIC_SLOTS,
                                       STORWIN_ATOMIC_AUTO};
    static const unsigned withouts[] = {0, STORWIN__NO_DIRECT, STORWIN__NO_SCAN,
                                        STORWIN__NO_SCAN | STORWIN__NO_UFFD};
    const unsigned states = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
    uint8_t *start = calloc(1, IMAGE), *image = malloc(IMAGE);
    unsigned done = 0, acked = 0;

    rng = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 2654435761u | 1;
    test_begin();
    printf("seed %llu\n", (unsigned long long)rng);
    CHECK(start && image);
    for (unsigned round = 0; done < states; round++) {
        const uint32_t atomic = atomics[test_random(&rng) % 3];
        const unsigned without = withouts[test_random(&rng) % 4];

        if (round % 8 == 0) { /* a new file; it grows half way */
            memset(start, 0, IMAGE);
            went_back = 0;
            generations = round % 16 ? 2 : 2 + (uint32_t)(test_random(&rng) % 3);
        }
        window_length = round % 8 < 4 ? SHORT : LONG;
        write_file(test_path("crash"), 0, start, IMAGE);
        faults = round % 2 ? 12 : 0;
        meddling = (unsigned[]){0, 8, 2, 1}[test_random(&rng) % 4];
        live(atomic, without, 1 + (unsigned)(test_random(&rng) % 12));
        for (unsigned i = 0; i < 10; i++, done++) {
            size_t n = 1 + (size_t)(test_random(&rng) % n_events), first = 0;

            while (events[first].kind != ACK) /* before that it is the state of the last round */
                first++;
            n = n <= first ? first + 1 : n;
            memcpy(image, start, IMAGE);
            crash(image, n);
            check_state(image, n, atomics[test_random(&rng) % 3]);
        }
        for (size_t i = 0; i < n_events; i++)
            acked += events[i].kind == ACK;
        memcpy(start, image, IMAGE);
        forget();
    }
    printf("%u crash states, %u commits acknowledged, none lost; %lu older generations, %lu stores "
           "during commits, %lu commits asynchronous\n",
           done, acked, n_older, n_meddled, n_started);
    free(start);
    free(image);
    free(events);
    return 0;
}
