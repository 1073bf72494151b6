/* SPDX-License-Identifier: BSD-3-Clause */
/* Commits while threads and other processes store, and asynchronous commits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../../libstorwin/src/commit.h"
#include "../../libstorwin/src/sum.h"
#include "storwin_test.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define N_WORDS UINT64_C(64) /* that a thread stores in turn, each in a page of its own */
#define PLENTY  10u          /* commits beside a thread that stores */

static const uint32_t atomics[] = {STORWIN_ATOMIC_JOURNAL, STORWIN_ATOMIC_SLOTS,
                                   STORWIN_ATOMIC_AUTO};
/* by scans, by faults, by comparing */
static const unsigned withouts[] = {0, STORWIN__NO_SCAN, STORWIN__NO_SCAN | STORWIN__NO_UFFD};

static uint64_t page, bytes;

static uint8_t *at_scan;         /* each search for stores meets one; NULL: none does */
static uint8_t *flag_at;         /* set before a fork, with a store to at_scan[1]; reset after it */
static uint8_t *at_flush;        /* the next flush meets a store here; NULL: it does not */
static int failing_flush;        /* counts down to the one that fails */
static atomic_int flush_is_held; /* each waits until this is 0 */

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    const int rc = __real_ioctl(fd, request, arg);

    if (at_scan && _IOC_TYPE(request) == 'f')
        (*at_scan)++;
    if (flag_at)
        *flag_at = 0;
    return rc;
}

static int is_orphan; /* the calls below find another process's number, as after the parent's end */

/* A commit calls it as it begins, and before it forks. */
pid_t __real_getpid(void);
pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
    if (flag_at) {
        *flag_at = 1;
        at_scan[1]++;
    }
    return is_orphan ? 1 << 30 : __real_getpid();
}

static uint8_t *brief_at;     /* a store comes here after a sum of these bytes ... */
static unsigned brief_sum;    /* counts down to that sum; 0: none comes */
static unsigned brief_to_end; /* ... and is undone before their next sum */

static void brief_undo(void)
{
    *brief_at ^= (uint8_t)brief_to_end;
    brief_to_end = 0;
}

uint64_t __real_storwin__sum_ahead(const void *data, size_t n, uint64_t seed, const void *next);
uint64_t __wrap_storwin__sum_ahead(const void *data, size_t n, uint64_t seed, const void *next);
uint64_t __wrap_storwin__sum_ahead(const void *data, size_t n, uint64_t seed, const void *next)
{
    uint64_t sum;

    if (data == brief_at)
        brief_undo();
    sum = __real_storwin__sum_ahead(data, n, seed, next);
    if (data == brief_at && brief_sum > 0 && --brief_sum == 0) {
        brief_to_end = 1;
        *brief_at ^= 1;
    }
    return sum;
}

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    while (atomic_load(&flush_is_held))
        sched_yield();
    if (at_flush) {
        (*at_flush)++;
        at_flush = NULL;
    }
    if (failing_flush > 0 && --failing_flush == 0) {
        errno = EIO;
        return -1;
    }
    (void)fd; /* a process that is not killed needs none */
    return 0;
}

static struct storwin_window *open_window(const char *name, uint32_t atomic)
{
    struct storwin_window *win = test_commit_open(test_path(name), atomic, 0, bytes);

    assert_non_null(win);
    return win;
}

static void commit_window(struct storwin_window *win)
{
    struct storwin_error err;

    if (storwin_commit(win, &err) < 0)
        fail_msg("commit: %s", err.text);
}

/* The state of a file that another window has open: of a copy of the file. */
static void read_state(const char *name, uint8_t *to)
{
    const size_t n = (size_t)file_size(test_path(name));
    uint8_t *all = malloc(n);
    struct storwin_window *win;

    assert_non_null(all);
    read_file(test_path(name), 0, all, n);
    write_file(test_path("copy"), 0, all, n);
    free(all);
    win = open_window("copy", STORWIN_ATOMIC_AUTO);
    memcpy(to, storwin_base(win), bytes);
    assert_int_equal(storwin_free(win, NULL), 0);
    unlink(test_path("copy"));
}

static atomic_int storing;
static unsigned nap_us;
static atomic_ulong n_stored;

/* ThreadSanitizer: in a child, threads of its parent are not lost. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "report_thread_leaks=0";
}

/* Stores 1 into each word in turn, then 2, ...: at each moment no word is behind its successor, and
 * none more than one round behind the first. A commit reads them meanwhile, as it may. */
__attribute__((no_sanitize_thread)) static void *store_words(void *base)
{
    for (uint64_t round = 1;; round++)
        for (uint64_t i = 0; i < N_WORDS; i++) {
            if (!atomic_load(&storing))
                return NULL;
            atomic_store((_Atomic uint64_t *)base + i * page / 8, round);
            atomic_fetch_add(&n_stored, 1);
            if (nap_us > 0)
                usleep(nap_us);
        }
}

static void check_moment(const uint8_t *state)
{
    uint64_t first, before, word;

    memcpy(&first, state, 8);
    before = first;
    for (uint64_t i = 0; i < N_WORDS; i++) {
        memcpy(&word, state + i * page, 8);
        if (word > before || word + 1 < first)
            fail_msg("a mixture: word %u is %u, after %u and %u", (unsigned)i, (unsigned)word,
                     (unsigned)before, (unsigned)first);
        before = word;
    }
}

/* Commits beside a thread that stores. Returns how many failed with STORWIN_ERACE. */
static unsigned commits_beside(uint32_t atomic, unsigned nap, unsigned n)
{
    struct storwin_window *win = open_window("beside", atomic);
    uint8_t *base = storwin_base(win), *state = malloc(bytes);
    unsigned races = 0;
    pthread_t thread;

    assert_non_null(state);
    commit_window(win);
    nap_us = nap;
    atomic_store(&storing, 1);
    assert_int_equal(pthread_create(&thread, NULL, store_words, base), 0);
    for (unsigned i = 0; i < n; i++) {
        const unsigned long before = atomic_load(&n_stored);
        struct storwin_error err;
        int rc;

        base[bytes - 1 - i * page]++;
        while (atomic_load(&n_stored) == before)
            sched_yield();
        rc = storwin_commit(win, &err);
        races += rc == STORWIN_ERACE;
        if (rc == STORWIN_ERACE)
            continue;
        if (rc < 0)
            fail_msg("%s", err.text);
        read_state("beside", state);
        check_moment(state);
        assert_int_equal(state[bytes - 1 - i * page], 1);
    }
    atomic_store(&storing, 0);
    pthread_join(thread, NULL);
    commit_window(win); /* has what came after the last picture */
    read_state("beside", state);
    assert_memory_equal(state, base, bytes);
    free(state);
    assert_int_equal(storwin_free(win, NULL), 0);
    unlink(test_path("beside"));
    return races;
}

/* A store every 3 ms stops no commit. */
static void slow_stores(void **state)
{
    (void)state;
    for (unsigned w = 0; w < 3; w++) {
        atomic_store(&storwin__without, withouts[w]);
        for (unsigned a = 0; a < 3; a++)
            assert_int_equal(commits_beside(atomics[a], 3000, PLENTY), 0);
    }
}

/* A thread that never pauses stops none either. */
static void fast_stores(void **state)
{
    (void)state;
    for (unsigned w = 0; w < 3; w++) {
        atomic_store(&storwin__without, withouts[w]);
        for (unsigned a = 0; a < 3; a++)
            assert_int_equal(commits_beside(atomics[a], 0, PLENTY), 0);
    }
}

/* Each search meets a store, so no round is the last: a fork holds the moment, or nothing is
 * committed and nothing is lost. */
static void held_or_refused(void **state)
{
    uint8_t *now = malloc(bytes);

    (void)state;
    assert_non_null(now);
    for (unsigned a = 0; a < 3; a++) {
        struct storwin_window *win;
        struct storwin_error err;
        uint8_t *base;

        atomic_store(&storwin__without, 0);
        win = open_window("held", atomics[a]);
        base = storwin_base(win);
        if (win->track != STORWIN_TRACK_SCAN) {
            assert_int_equal(storwin_free(win, NULL), 0);
            break;
        }
        commit_window(win);
        commit_window(win);
        base[5] = 7;
        at_scan = base + 3 * page;
        commit_window(win);
        at_scan = NULL;
        read_state("held", now);
        assert_int_equal(now[5], 7);
        assert_in_range(now[3 * page], 1, base[3 * page]);
        commit_window(win);
        read_state("held", now);
        assert_memory_equal(now, base, bytes);
        atomic_store(&storwin__without, STORWIN__NO_FORK);
        base[5] = 8;
        at_scan = base + 3 * page;
        assert_int_equal(storwin_commit(win, &err), STORWIN_ERACE);
        assert_non_null(strstr(err.text, "fork"));
        assert_int_equal(storwin_commit_start(win, &err), STORWIN_ERACE);
        assert_int_equal(storwin_commit_wait(win, NULL), STORWIN_ESTATE);
        at_scan = NULL;
        read_state("held", now);
        assert_int_equal(now[5], 7);
        /* The failed commit has written to the other area: after a revert, too, the next commit
         * writes that area whole. */
        assert_int_equal(storwin_revert(win, NULL), 0);
        assert_memory_equal(now, base, bytes);
        base[bytes - 1] ^= 1;
        commit_window(win);
        read_state("held", now);
        assert_memory_equal(now, base, bytes);
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(test_path("held"));
    }
    free(now);
}

/* A store that comes while an area is written: of the pages only this one is written again. */
static void raced_area(void **state)
{
    uint8_t *now = malloc(bytes);

    (void)state;
    assert_non_null(now);
    for (unsigned w = 0; w < 3; w++)
        for (unsigned a = 0; a < 3; a++) {
            struct storwin_window *win;
            uint64_t before;
            uint8_t *base;

            atomic_store(&storwin__without, withouts[w]);
            win = open_window("raced", atomics[a]);
            base = storwin_base(win);
            commit_window(win);
            memset(base, 7, bytes);
            before = atomic_load(&win->written_bytes);
            at_flush = base + 3 * page;
            commit_window(win);
            assert_null(at_flush);
            if (atomics[a] != STORWIN_ATOMIC_JOURNAL) /* a batch is written twice */
                assert_in_range(atomic_load(&win->written_bytes) - before, bytes + page,
                                bytes + 4 * page);
            read_state("raced", now);
            assert_memory_equal(now, base, bytes);
            assert_int_equal(now[3 * page], 8);
            assert_int_equal(storwin_free(win, NULL), 0);
            unlink(test_path("raced"));
        }
    free(now);
}

/* A flag in a page that is tracked only by its sum, since other data share the page: it is set, a
 * store into another page follows, and when the fork holds both the flag is reset. */
static void reset_flag(void **state)
{
    struct storwin_opts opts = storage_opts(NULL);
    uint8_t *whole = malloc(bytes + 1), *base = whole + 1, *now = malloc(bytes);

    (void)state;
    assert_true(whole && now && (uintptr_t)base % page != 0);
    atomic_store(&storwin__without, 0);
    opts.app_version = 1;
    opts.flags = STORWIN_DISCARD;
    for (unsigned i = 0; i < 6; i++) {
        const uint64_t flag = i % 2 ? 0 : bytes - 1, word = 9 * page;
        struct storwin_window *win;

        opts.filename = test_path("flag");
        opts.atomic = atomics[i / 2];
        memset(base, 0, bytes);
        assert_int_equal(storwin_adopt(base, bytes, &opts, &win, NULL), 0);
        commit_window(win);
        if (win->track == STORWIN_TRACK_SCAN) {
            at_scan = base + word;
            flag_at = base + flag;
            commit_window(win);
            at_scan = flag_at = NULL;
            assert_int_equal(base[flag], 0);
            read_state("flag", now);
            assert_int_equal(now[word + 1], 2); /* of the fork */
            assert_int_equal(now[flag], 1);
            commit_window(win);
            read_state("flag", now);
            assert_memory_equal(now, base, bytes);
        }
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(test_path("flag"));
    }
    free(whole);
    free(now);
}

static int readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0);
}

/* The picture is of the start; poll() knows the end. */
static void asynchronous(void **state)
{
    uint8_t *then = malloc(bytes), *now = malloc(bytes);

    (void)state;
    assert_true(then && now);
    for (unsigned w = 0; w < 3; w++)
        for (unsigned a = 0; a < 3; a++) {
            const uint64_t n_fds = count_fds();
            struct storwin_window *win;
            struct storwin_error err;
            uint8_t *base;
            int fd = -1;

            atomic_store(&storwin__without, withouts[w]);
            win = open_window("async", atomics[a]);
            base = storwin_base(win);
            for (unsigned i = 1; i < 9; i++) {
                for (uint64_t at = 0; at < bytes; at += i == 4 ? 1 : page * i)
                    base[at] = (uint8_t)(i + at);
                memcpy(then, base, bytes);
                atomic_store(&flush_is_held, 1);
                assert_int_equal(storwin_commit_start(win, &err), 0);
                if (i % 2)
                    fd = storwin_commit_fd(win, NULL);
                assert_int_equal(storwin_commit_test(win, &err), STORWIN_PENDING);
                assert_int_equal(storwin_commit_start(win, &err), STORWIN_ESTATE);
                assert_int_equal(storwin_commit(win, &err), STORWIN_ESTATE);
                assert_int_equal(storwin_revert(win, &err), STORWIN_ESTATE);
                assert_int_equal(storwin_free(win, &err), STORWIN_EBUSY);
                memset(base, 0xee, bytes / 2);
                assert_int_equal(readable(fd), 0);
                atomic_store(&flush_is_held, 0);
                while (!readable(fd))
                    usleep(100);
                assert_int_equal(
                    i % 3 ? storwin_commit_test(win, &err) : storwin_commit_wait(win, &err), 0);
                assert_int_equal(readable(fd), 0);
                assert_int_equal(storwin_commit_test(win, &err), STORWIN_ESTATE);
                assert_int_equal(window_generation(win), 2 * i - 1);
                read_state("async", now);
                assert_memory_equal(now, then, bytes);
                commit_window(win); /* what came later */
                read_state("async", now);
                assert_memory_equal(now, base, bytes);
            }
            assert_int_equal(storwin_free(win, NULL), 0);
            assert_int_equal(count_fds(), n_fds);
            unlink(test_path("async"));
        }
    free(then);
    free(now);
}

/* A failed asynchronous commit reports its error once; the next commit has all changes. */
static void asynchronous_failures(void **state)
{
    uint8_t *now = malloc(bytes);

    (void)state;
    assert_non_null(now);
    atomic_store(&storwin__without, 0);
    for (unsigned a = 0; a < 3; a++)
        for (int flush = 1; flush < 3; flush++) {
            struct storwin_window *win = open_window("async", atomics[a]);
            uint8_t *base = storwin_base(win);
            struct storwin_error err;

            commit_window(win);
            memset(base, 1, bytes);
            failing_flush = flush;
            assert_int_equal(storwin_commit_start(win, &err), 0);
            base[7] = 2;
            assert_int_equal(storwin_commit_wait(win, &err), -EIO);
            assert_int_equal(err.code, -EIO);
            assert_int_equal(storwin_commit_test(win, &err), STORWIN_ESTATE);
            commit_window(win);
            read_state("async", now);
            assert_memory_equal(now, base, bytes);
            assert_int_equal(storwin_free(win, NULL), 0);
            unlink(test_path("async"));
        }
    free(now);
}

/* Windows without commits, or without storage; a descriptor made after the end; a child. */
static void other_windows(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("other"));
    struct storwin_window *win;
    struct storwin_error err;
    pid_t pid;
    int fd, status;

    (void)state;
    opts.flags = STORWIN_UNLINK;
    assert_int_equal(storwin_commit_start(NULL, &err), -EINVAL);
    assert_int_equal(storwin_commit_fd(NULL, &err), -EINVAL);
    assert_int_equal(storwin_alloc(&opts, bytes, &win, NULL), 0);
    assert_int_equal(storwin_commit_start(win, &err), STORWIN_ESTATE);
    assert_int_equal(storwin_sync_start(win, 0, STORWIN_TO_END, &err), 0);
    while (atomic_load(&win->async) != STORWIN__DONE)
        usleep(100);
    fd = storwin_commit_fd(win, &err);
    assert_true(fd >= 0);
    assert_int_equal(readable(fd), 1);
    pid = fork();
    if (pid == 0)
        _exit(storwin_commit_fd(win, NULL) == STORWIN_ESTATE &&
                      storwin_commit_start(win, NULL) == STORWIN_ESTATE
                  ? 0
                  : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(storwin_sync_wait(win, NULL), 0);
    assert_int_equal(readable(fd), 0);
    assert_int_equal(storwin_commit_fd(win, NULL), fd);
    assert_int_equal(storwin_free(win, NULL), 0);
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = STORWIN_ATOMIC_AUTO;
    opts.factor_ppb = 0;
    assert_int_equal(storwin_alloc(&opts, bytes, &win, NULL), 0);
    assert_int_equal(storwin_commit_start(win, NULL), 0);
    assert_int_equal(storwin_commit_wait(win, NULL), 0);
    assert_int_equal(storwin_free(win, NULL), 0);
}

/* Another process stores into shared memory every 3 ms: it is compared, and what was stored is
 * committed at one moment. */
static void shared_memory(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("shared"));
    uint8_t *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint8_t *now = malloc(bytes);
    struct storwin_window *win;
    struct storwin_error err;
    pid_t pid;

    (void)state;
    assert_true(base != MAP_FAILED && now);
    opts.changes = STORWIN_CHANGES_COMPARED;
    opts.app_version = 1;
    opts.flags = STORWIN_DISCARD;
    atomic_store(&storwin__without, 0);
    assert_int_equal(storwin_adopt(base, bytes, &opts, &win, NULL), 0);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        nap_us = 3000;
        atomic_store(&storing, 1);
        store_words(base);
    }
    for (unsigned i = 0; i < PLENTY; i++) {
        const uint64_t before = *(_Atomic uint64_t *)(void *)(base + (N_WORDS - 1) * page);
        uint64_t word;
        int rc;

        for (unsigned tries = 0; (rc = storwin_commit(win, &err)) == STORWIN_ERACE; tries++)
            assert_in_range(tries, 0, 1000);
        if (rc < 0)
            fail_msg("%s", err.text);
        read_state("shared", now);
        check_moment(now);
        memcpy(&word, now + (N_WORDS - 1) * page, 8);
        assert_true(word >= before);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(storwin_free(win, NULL), 0);
    munmap(base, bytes);
    free(now);
    unlink(opts.filename);
}

/* Stores that only sums can show, as of a lock that is taken and released: whichever sum one comes
 * after, an acknowledged commit can be read. */
static void undone_stores(void **state)
{
    uint8_t *whole = malloc(bytes + 1), *now = malloc(bytes), *base;
    struct storwin_opts opts = storage_opts(NULL);

    (void)state;
    assert_true(whole && now);
    opts.app_version = 1;
    opts.flags = STORWIN_DISCARD;
    for (unsigned i = 0; i < 3 * 2 * 2 * 2 * 8; i++) {
        const unsigned picture = i / 2 % 2, meets = 2 + i / 4 % 2, after = i / 8 % 8 + 1;
        struct storwin_window *win;

        opts.filename = test_path("undone");
        opts.atomic = atomics[i / 64];
        /* All pages are compared, or the first one, which also has another byte. */
        opts.changes = i % 2 ? STORWIN_CHANGES_COMPARED : STORWIN_CHANGES_TRACKED;
        base = whole + 1 - i % 2;
        memset(base, 1, bytes);
        assert_int_equal(storwin_adopt(base, bytes, &opts, &win, NULL), 0);
        for (unsigned g = 1; g < 4; g++) {
            /* The second commit changes the first pages, which an area lacks in the third. */
            memset(base + g % 2 * bytes / 2, (int)g, 5 * page);
            brief_at = g == meets ? base : NULL;
            brief_sum = after;
            win->commit->stores_meanwhile = (int)picture;
            if (picture && opts.atomic == STORWIN_ATOMIC_SLOTS)
                at_flush = base + 2 * page; /* an area has no picture without a store */
            commit_window(win);
            if (brief_at)
                brief_undo();
            brief_at = NULL;
            read_state("undone", now);
            now[0] = base[0]; /* as stored or as undone */
            assert_memory_equal(now, base, bytes);
        }
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(test_path("undone"));
    }
    free(whole);
    free(now);
}

/* A batch of more blocks than a commit holds as copies at a time. */
static void many_copies(void **state)
{
    const uint64_t most = 1000 * STORWIN__BLOCK;
    struct storwin_opts opts = storage_opts(test_path("copies"));
    uint8_t *base = malloc(most);
    struct storwin_window *win;

    (void)state;
    assert_non_null(base);
    opts.atomic = STORWIN_ATOMIC_JOURNAL;
    opts.changes = STORWIN_CHANGES_COMPARED;
    opts.flags = STORWIN_DISCARD;
    memset(base, 1, most);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(storwin_adopt(base, most, &opts, &win, NULL), 0);
        for (uint64_t at = 0; at < most; at++)
            if (i == 0)
                base[at] = (uint8_t)(at / 5000);
            else
                assert_int_equal(base[at], (uint8_t)(at / 5000 + at / STORWIN__BLOCK % 2));
        commit_window(win);
        for (uint64_t at = 0; i == 0 && at < most; at++)
            base[at] += (uint8_t)(at / STORWIN__BLOCK % 2);
        commit_window(win);
        assert_int_equal(storwin_free(win, NULL), 0);
        memset(base, 1, most);
    }
    free(base);
    unlink(opts.filename);
}

/* The fork that holds a moment ends without its parent, and never runs the program. */
static void orphan(void **state)
{
    int status;
    pid_t pid;

    is_orphan = 1;
    pid = storwin__freeze();
    if (pid == 0)
        _exit(1);
    is_orphan = 0;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, __WALL), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_stores),
        cmocka_unit_test(fast_stores),
        cmocka_unit_test(held_or_refused),
        cmocka_unit_test(raced_area),
        cmocka_unit_test(reset_flag),
        cmocka_unit_test(asynchronous),
        cmocka_unit_test(asynchronous_failures),
        cmocka_unit_test(other_windows),
        cmocka_unit_test(shared_memory),
        cmocka_unit_test(undone_stores),
        cmocka_unit_test(many_copies),
        cmocka_unit_test(orphan),
    };

    page = (uint64_t)sysconf(_SC_PAGESIZE);
    bytes = 3 * N_WORDS * page - 100;
    test_begin();
    atomic_store(&storwin__sum_min, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
