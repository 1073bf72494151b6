/* SPDX-License-Identifier: BSD-3-Clause */
/* The user-level pager: its bound holds under several threads, and no data is lost or misplaced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "../../libstorwin/src/internal.h"
#include "storwin_test.h"

static uint64_t page;

static struct storwin_window *open_user(const char *path, uint64_t bytes, uint64_t budget,
                                        uint32_t style)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win = NULL;
    struct storwin_error err;
    int rc;

    opts.pager = STORWIN_PAGER_USER;
    opts.budget_bytes = budget;
    opts.access_style = style;
    opts.flags = STORWIN_UNLINK;
    rc = storwin_alloc(&opts, bytes, &win, &err);
    if (rc == STORWIN_EPAGER) {
        print_message("skip: %s\n", err.text);
        skip();
    }
    assert_int_equal(rc, 0);
    return win;
}

struct worker {
    pthread_t thread;
    struct storwin_window *win;
    unsigned id, n;
    uint64_t budget;
    uint32_t *model; /* of this worker's words */
};

/* Words id, id + n, ... of the window belong to worker id: neighbours on a page belong to different
 * threads. */
static void *work(void *arg)
{
    struct worker *w = arg;
    uint32_t *words = storwin_base(w->win);
    const uint64_t mine = window_bytes(w->win) / sizeof(*words) / w->n;
    struct storwin_info info = {.size = sizeof(info)};
    uint64_t rng = w->id * 7919 + 1;

    for (unsigned i = 0; i < 3000; i++) {
        uint64_t k = test_random(&rng) % mine;
        uint32_t *word = &words[k * w->n + w->id];

        if (i % 1000 < 150) /* a stretch in order, for read-ahead */
            k = (w->id * 1000 + i) % mine, word = &words[k * w->n + w->id];
        CHECK(*word == w->model[k]);
        if (test_random(&rng) % 2)
            *word = w->model[k] = (uint32_t)test_random(&rng);
        if (i % 64 == 0) {
            storwin_query(w->win, &info);
            CHECK(window_stats(w->win).resident_bytes <= info.budget_bytes &&
                  info.budget_bytes <= w->budget);
        }
    }
    return NULL;
}

static void many_threads(uint32_t style)
{
    const uint64_t bytes = UINT64_C(8) << 20, budget = UINT64_C(2) << 20;
    const char *path = test_path("threads");
    struct storwin_window *win = open_user(path, bytes, budget, style);
    struct storwin_stats stats;
    struct worker workers[4];
    uint32_t *copy = malloc(bytes);
    int rc;

    for (unsigned i = 0; i < 4; i++) {
        workers[i] = (struct worker){.win = win, .id = i, .n = 4, .budget = budget};
        workers[i].model = calloc(bytes / 16, sizeof(uint32_t));
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 10; i++) { /* syncs beside them */
        assert_int_equal(storwin_sync_start(win, 0, bytes, NULL), 0);
        while ((rc = storwin_sync_test(win, NULL)) == STORWIN_PENDING)
            usleep(1000);
        assert_int_equal(rc, 0);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(workers[i].thread, NULL);
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
    read_file(path, 0, copy, bytes);
    for (uint64_t k = 0; k < bytes / 16; k++)
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(copy[k * 4 + i], workers[i].model[k]);
    stats = window_stats(win);
    assert_true(stats.n_faults > 0 && stats.read_bytes > 0 && stats.written_bytes > 0);
    assert_in_range(stats.resident_bytes, 1, budget);
    for (unsigned i = 0; i < 4; i++)
        free(workers[i].model);
    free(copy);
    assert_int_equal(storwin_free(win, NULL), 0);
}

static void threads_random(void **state)
{
    many_threads(STORWIN_ACCESS_RANDOM);
}

static void threads_unknown(void **state)
{
    many_threads(0);
}

static void threads_sequential(void **state)
{
    many_threads(STORWIN_ACCESS_SEQUENTIAL);
}

/* As before Linux 6.8: evicted from its place. */
static void threads_in_place(void **state)
{
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win;

    atomic_store(&storwin__without, STORWIN__NO_MOVE);
    win = open_user(test_path("in_place"), page, STORWIN_MIN_BUDGET, 0);
    storwin_query(win, &info);
    assert_int_equal(info.keeps_pinned, 0);
    assert_int_equal(storwin_free(win, NULL), 0);
    many_threads(STORWIN_ACCESS_RANDOM);
    atomic_store(&storwin__without, 0);
}

/* Forward and backward through a window of many budgets; pages read ahead are used. */
static void streams(void **state)
{
    static const uint32_t styles[] = {0, STORWIN_ACCESS_SEQUENTIAL, STORWIN_ACCESS_REVERSE};
    const uint64_t bytes = (UINT64_C(8) << 20) + 77, words = bytes / 8;

    for (unsigned s = 0; s < 3; s++) {
        struct storwin_window *win =
            open_user(test_path("streams"), bytes, STORWIN_MIN_BUDGET, styles[s]);
        uint64_t *base = storwin_base(win), wrong = 0;

        for (uint64_t i = 0; i < words; i++)
            base[styles[s] == STORWIN_ACCESS_REVERSE ? words - 1 - i : i] = i * 3 + 1;
        for (uint64_t i = 0; i < words; i++)
            wrong += base[styles[s] == STORWIN_ACCESS_REVERSE ? words - 1 - i : i] != i * 3 + 1;
        assert_int_equal(wrong, 0);
        ((uint8_t *)base)[bytes - 1] = 9;
        assert_in_range(window_stats(win).read_bytes, bytes, bytes * 3);
        assert_int_equal(storwin_free(win, NULL), 0);
    }
}

/* System calls read and write the window too, except in modes without kernel faults. */
static void system_calls(void **state)
{
    const uint64_t bytes = UINT64_C(4) << 20;
    struct storwin_window *win = open_user(test_path("calls"), bytes, STORWIN_MIN_BUDGET, 0);
    struct storwin_info info = {.size = sizeof(info)};
    uint8_t *base = storwin_base(win);
    int ends[2];

    storwin_query(win, &info);
    assert_int_equal(pipe(ends), 0);
    for (uint64_t at = 0; !info.user_faults_only && at + page <= bytes; at += 17 * page) {
        assert_int_equal(write(ends[1], &at, sizeof(at)), sizeof(at));
        assert_int_equal(read(ends[0], base + at + 8, sizeof(at)), sizeof(at));
    }
    for (uint64_t at = 0; !info.user_faults_only && at + page <= bytes; at += 17 * page)
        assert_int_equal(*(uint64_t *)(void *)(base + at + 8), at);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(storwin_free(win, NULL), 0);
}

static void refused(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("refused"));
    struct storwin_window *win;
    struct storwin_error err;

    opts.pager = STORWIN_PAGER_USER;
    atomic_store(&storwin__without, STORWIN__NO_UFFD);
    assert_int_equal(storwin_alloc(&opts, page, &win, &err), STORWIN_EPAGER);
    atomic_store(&storwin__without, 0);
    assert_string_equal(err.hint, "storage_alloc_pager");
    assert_int_equal(file_size(opts.filename), UINT64_MAX);
}

/* Where the system allows a user only the faults of user mode, the pager serves these. */
static void user_mode_only(void **state)
{
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_opts opts = storage_opts("unprivileged");
    struct storwin_window *win;
    int status, fd;
    pid_t pid;

    if (geteuid() != 0 || test_pagers <= STORWIN_PAGER_USER) {
        print_message("skip: needs root, for a user without privileges, and that pager\n");
        skip();
    }
    assert_int_equal(chmod(test_dir, 0777), 0);
    pid = fork();
    if (pid == 0) {
        if (setgid(12345) != 0 || setuid(12345) != 0)
            _exit(77); /* a user namespace with one user */
        CHECK(chdir(test_dir) == 0);
        fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
        opts.pager = STORWIN_PAGER_USER;
        opts.flags = STORWIN_UNLINK;
        CHECK(storwin_alloc(&opts, 64 * page, &win, NULL) == (fd < 0 ? STORWIN_EPAGER : 0));
        if (fd < 0)
            _exit(0);
        memset(storwin_base(win), 3, 64 * page);
        CHECK(storwin_query(win, &info) == 0);
        close(fd);
        fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
        CHECK(fd < 0 || !info.user_faults_only); /* or by /dev/userfaultfd */
        CHECK(storwin_free(win, NULL) == 0);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(chmod(test_dir, 0700), 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

/* A child has no mapping there: a fault, not zeros. */
/* Running out of descriptors is not reported as a forbidden pager; and an optional facility's
 * absence is no error of an allocation. */
static void few_descriptors(void **state)
{
    const char *path = test_path("few");
    struct storwin_opts opts = storage_opts(path);
    struct storwin_error err = {0};
    struct storwin_window *win = NULL;
    struct rlimit old, limit;
    int rc = -EMFILE, n = 0;

    opts.pager = STORWIN_PAGER_USER;
    opts.budget_bytes = STORWIN_MIN_BUDGET;
    if (storwin_alloc(&opts, 64 * page, &win, NULL) == STORWIN_EPAGER)
        skip();
    assert_int_equal(storwin_free(win, NULL), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    limit = old;
    for (limit.rlim_cur = 3; rc == -EMFILE; limit.rlim_cur++, n++) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        rc = storwin_alloc(&opts, 64 * page, &win, NULL);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(rc, 0);
    assert_true(n > 3);
    assert_int_equal(storwin_free(win, NULL), 0);
    opts.pager = STORWIN_PAGER_RESIDENT;
    atomic_store(&storwin__without, STORWIN__NO_SCAN | STORWIN__NO_UFFD);
    assert_int_equal(storwin_alloc(&opts, 64 * page, &win, &err), 0);
    atomic_store(&storwin__without, 0);
    assert_int_equal(err.code, 0);
    assert_int_equal(storwin_free(win, NULL), 0);
    unlink(path);
}

static void after_fork(void **state)
{
    struct storwin_window *win = open_user(test_path("fork"), 16 * page, STORWIN_MIN_BUDGET, 0);
    volatile uint8_t *base = storwin_base(win);
    int status;
    pid_t pid;

    base[0] = 1;
    pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL); /* also where a sanitizer has its own handler */
        _exit(base[0]);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_int_equal(storwin_free(win, NULL), 0);
}

/* Blocks have the requested length, within a sixteenth of the bound; syncs and evictions write only
 * stored pages. */
static void exact(void **state)
{
    const uint64_t bytes = UINT64_C(8) << 20, block = 262144;
    const char *path = test_path("exact");
    struct storwin_opts opts = storage_opts(path);
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win;
    uint8_t *base, *copy = malloc(bytes);
    uint64_t written;

    opts.pager = STORWIN_PAGER_USER;
    opts.budget_bytes = STORWIN_MIN_BUDGET;
    opts.block_bytes = block;
    opts.flags = STORWIN_UNLINK;
    if (storwin_alloc(&opts, bytes, &win, NULL) == STORWIN_EPAGER)
        skip();
    assert_int_equal(storwin_query(win, &info), 0);
    assert_int_equal(info.block_bytes, STORWIN_MIN_BUDGET / 16);
    assert_int_equal(storwin_free(win, NULL), 0);
    opts.budget_bytes = UINT64_C(16) << 20;
    assert_int_equal(storwin_alloc(&opts, bytes, &win, NULL), 0);
    assert_int_equal(storwin_query(win, &info), 0);
    assert_int_equal(info.block_bytes, block);
    base = storwin_base(win);
    for (uint64_t at = 0; at < bytes; at += block)
        base[at + 5 * page] = 3; /* as the block is filled */
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
    assert_int_equal(window_stats(win).written_bytes, bytes / block * page);
    for (uint64_t at = 0; at < bytes; at += block)
        base[at + 9 * page] = 4; /* in a block that is there */
    written = window_stats(win).written_bytes;
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
    assert_int_equal(window_stats(win).written_bytes - written, bytes / block * page);
    assert_int_equal(storwin_free(win, NULL), 0);
    opts.budget_bytes = STORWIN_MIN_BUDGET;
    assert_int_equal(storwin_alloc(&opts, bytes, &win, NULL), 0);
    base = storwin_base(win);
    for (uint64_t at = 0; at < bytes; at += block)
        base[at + 7 * page] = 6;
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
    assert_int_equal(window_stats(win).written_bytes, bytes / block * page);
    read_file(path, 0, copy, bytes);
    for (uint64_t at = 0; at < bytes; at += page)
        assert_int_equal(copy[at], at % block == 7 * page ? 6 : 0);
    free(copy);
    assert_int_equal(storwin_free(win, NULL), 0);
}

/* After sequential stores as many of the next pages of the block count as changed too; with a
 * sequential style, all of them. */
static void touched_ahead(void **state)
{
    static const struct {
        uint32_t style, n_pages; /* changed after one store, into page 5 */
    } cases[] = {{0, 1},
                 {STORWIN_ACCESS_RANDOM, 1},
                 {STORWIN_ACCESS_SEQUENTIAL, 11},
                 {STORWIN_ACCESS_REVERSE, 11}};

    for (unsigned i = 0; i < 4; i++) {
        struct storwin_opts opts = storage_opts(test_path("ahead"));
        struct storwin_window *win;
        uint8_t *base;

        opts.pager = STORWIN_PAGER_USER;
        opts.budget_bytes = 256 * page;
        opts.block_bytes = 16 * page;
        opts.access_style = cases[i].style;
        opts.flags = STORWIN_UNLINK;
        if (storwin_alloc(&opts, 256 * page, &win, NULL) == STORWIN_EPAGER)
            skip();
        base = storwin_base(win);
        for (unsigned present = 0; present < 2; present++) { /* fills the block, or finds it */
            const uint64_t before = window_stats(win).written_bytes;

            base[5 * page] = 1;
            assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
            assert_int_equal(window_stats(win).written_bytes - before, cases[i].n_pages * page);
        }
        if (cases[i].n_pages == 1) {
            const uint64_t before = window_stats(win).written_bytes;

            for (unsigned p = 5; p < 8; p++)
                base[p * page] = 2;
            base[9 * page] = 2; /* 8 counts as changed already; now 10, 11 and 12 do, too */
            base[14 * page] = 2;
            assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
            assert_int_equal(window_stats(win).written_bytes - before, 9 * page);
        }
        assert_int_equal(storwin_free(win, NULL), 0);
    }
}

/* Another process shortens the file, and evictions extend it again before the next sync, which must
 * still report the whole lost range. */
static void shortened(void **state)
{
    const uint64_t bytes = UINT64_C(8) << 20, left = UINT64_C(2) << 20;
    const char *path = test_path("shortened");
    struct storwin_window *win = open_user(path, bytes, STORWIN_MIN_BUDGET, 0);
    uint8_t *copy = malloc(bytes);
    struct storwin_error err;

    memset(storwin_base(win), 1, bytes);
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
    assert_int_equal(truncate(path, (off_t)left), 0);
    memset(storwin_base(win), 2, bytes);
    assert_true(file_size(path) > left); /* an eviction did that */
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), STORWIN_ESHORT);
    assert_int_equal(err.offset, left);
    assert_int_equal(err.bytes, bytes - left);
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), 0);
    read_file(path, 0, copy, bytes);
    for (uint64_t i = 0; i < bytes; i++)
        assert_int_equal(copy[i], 2);
    free(copy);
    assert_int_equal(storwin_free(win, NULL), 0);
}

/* Makes the pager evict everything that it may evict. */
static void push_out(struct storwin_window *win, uint64_t from)
{
    volatile uint8_t *base = storwin_base(win);
    uint8_t sum = 0;

    for (unsigned i = 0; i < 3; i++)
        for (uint64_t at = from; at < window_bytes(win); at += page)
            sum = (uint8_t)(sum + base[at]);
}

/* One page pinned as io_uring's fixed buffer, into which a file can be read past the page tables.
 * */
struct pinned {
    int ring, file;
    uint8_t *rings, *sqes;
    struct io_uring_params params;
};

static int pin(struct pinned *pin, void *at)
{
    struct iovec buffer = {at, page};

    memset(pin, 0, sizeof(*pin));
    pin->ring = (int)syscall(SYS_io_uring_setup, 1, &pin->params);
    if (pin->ring < 0)
        return -1;
    pin->rings = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, pin->ring,
                      IORING_OFF_SQ_RING);
    pin->sqes = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, pin->ring,
                     IORING_OFF_SQES);
    assert_true(pin->rings != MAP_FAILED && pin->sqes != MAP_FAILED &&
                (pin->params.features & IORING_FEAT_SINGLE_MMAP));
    return (int)syscall(SYS_io_uring_register, pin->ring, IORING_REGISTER_BUFFERS, &buffer, 1);
}

/* Reads `bytes` of the file into the pinned page. */
static void read_pinned(struct pinned *pin, const char *path, void *to, uint32_t bytes)
{
    const struct io_uring_params *p = &pin->params;
    struct io_uring_sqe *sqe = (struct io_uring_sqe *)(void *)pin->sqes;
    _Atomic uint32_t *tail = (_Atomic uint32_t *)(void *)(pin->rings + p->sq_off.tail);
    _Atomic uint32_t *seen = (_Atomic uint32_t *)(void *)(pin->rings + p->cq_off.head);
    uint32_t head = atomic_load(seen),
             mask = *(uint32_t *)(void *)(pin->rings + p->cq_off.ring_mask);
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = IORING_OP_READ_FIXED;
    sqe->fd = fd;
    sqe->addr = (uint64_t)(uintptr_t)to;
    sqe->len = bytes;
    ((uint32_t *)(void *)(pin->rings + p->sq_off.array))[0] = 0;
    atomic_store(tail, atomic_load(tail) + 1);
    assert_int_equal(syscall(SYS_io_uring_enter, pin->ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0),
                     1);
    assert_int_equal(
        ((struct io_uring_cqe *)(void *)(pin->rings + p->cq_off.cqes))[head & mask].res, bytes);
    atomic_store(seen, head + 1);
    close(fd);
}

static void unpin(struct pinned *pin)
{
    munmap(pin->rings, page);
    munmap(pin->sqes, page);
    assert_int_equal(syscall(SYS_io_uring_register, pin->ring, IORING_UNREGISTER_BUFFERS, NULL, 0),
                     0);
    close(pin->ring);
}

/* Data that arrives in a long-term pinned page is lost neither by evictions nor by an earlier sync,
 * and afterwards the page can be evicted. */
static void pinned_page(void **state)
{
    static const uint32_t styles[] = {0, STORWIN_ACCESS_RANDOM};
    const uint64_t bytes = UINT64_C(8) << 20;
    struct storwin_info info = {.size = sizeof(info)};

    for (unsigned s = 0; s < 2; s++) {
        const char *path = test_path("pinned"), *source = test_path("source");
        struct storwin_window *win = open_user(path, bytes, STORWIN_MIN_BUDGET, styles[s]);
        uint8_t *base = storwin_base(win), byte;
        struct pinned pinned;

        storwin_query(win, &info);
        if (!info.keeps_pinned || info.user_faults_only || pin(&pinned, base + 3 * page) < 0) {
            print_message("skip: needs Linux 6.8, userfaultfd for system calls, and io_uring\n");
            storwin_free(win, NULL);
            skip();
        }
        write_file(source, 0, "0123456789abcdef", 16);
        push_out(win, 16 * page);
        for (unsigned i = 0; i < 4; i++) {
            read_pinned(&pinned, source, base + 3 * page + 100 * i, 16);
            push_out(win, 16 * page);
            assert_memory_equal(base + 3 * page + 100 * i, "0123456789abcdef", 16);
            assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
            read_file(path, 3 * page + 100 * i, &byte, 1);
            assert_int_equal(byte, '0');
        }
        read_pinned(&pinned, source, base + 3 * page + 1000,
                    16); /* nothing but the sync before it knows of this one */
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        read_file(path, 3 * page + 1015, &byte, 1);
        assert_int_equal(byte, 'f');
        assert_true(window_stats(win).n_pinned > 0);
        assert_in_range(window_stats(win).resident_bytes, 1, info.budget_bytes);
        unpin(&pinned);
        push_out(win, 16 * page);
        assert_memory_equal(base + 3 * page + 1000, "0123456789abcdef", 16);
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(source);
    }
}

struct copier {
    struct storwin_window *win;
    unsigned rounds;
    atomic_int done;
};

/* Copies into the whole window as another process would, through pages that the kernel pins. */
static void *copy_pinned(void *arg)
{
    struct copier *c = arg;
    uint8_t *base = storwin_base(c->win);
    const uint64_t bytes = window_bytes(c->win), chunk = UINT64_C(256) << 10;
    uint64_t *from = malloc(chunk);

    for (unsigned round = 1; round <= c->rounds; round++) {
        for (uint64_t at = 0; at < bytes; at += chunk) {
            struct iovec local = {from, chunk}, remote = {base + at, chunk};

            for (uint64_t i = 0; i < chunk / 8; i++)
                from[i] = (at + 8 * i) * 1000 + round;
            CHECK(process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)chunk);
        }
    }
    free(from);
    atomic_store(&c->done, 1);
    return NULL;
}

/* process_vm_writev() into the window, evictions under it, and syncs. */
static void copies_meet_evictions(void **state)
{
    const uint64_t bytes = UINT64_C(8) << 20;
    struct storwin_window *win =
        open_user(test_path("copies"), bytes, STORWIN_MIN_BUDGET, STORWIN_ACCESS_RANDOM);
    struct copier c = {.win = win, .rounds = 4};
    struct storwin_info info = {.size = sizeof(info)};
    const uint64_t *words = storwin_base(win);
    uint64_t wrong = 0;
    pthread_t thread;

    storwin_query(win, &info);
    if (!info.keeps_pinned || info.user_faults_only) {
        print_message("skip: needs Linux 6.8 and userfaultfd for system calls\n");
        storwin_free(win, NULL);
        skip();
    }
    assert_int_equal(pthread_create(&thread, NULL, copy_pinned, &c), 0);
    while (!atomic_load(&c.done)) {
        push_out(win, bytes / 2);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
    }
    pthread_join(thread, NULL);
    for (uint64_t i = 0; i < bytes / 8; i++)
        wrong += words[i] != 8 * i * 1000 + c.rounds;
    assert_int_equal(wrong, 0);
    assert_int_equal(storwin_free(win, NULL), 0);
}

/* The maximal bound for a small window: the pager's memory follows the window's size. */
static void bound_beyond_the_window(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("bound"));
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win = NULL;
    int rc;

    opts.pager = STORWIN_PAGER_USER;
    opts.access_style = STORWIN_ACCESS_RANDOM;
    opts.budget_bytes = STORWIN_MAX_BYTES;
    opts.flags = STORWIN_UNLINK;
    rc = storwin_alloc(&opts, 64 * page, &win, NULL);
    if (rc == STORWIN_EPAGER)
        skip();
    assert_int_equal(rc, 0);
    memset(storwin_base(win), 1, 64 * page);
    assert_int_equal(storwin_query(win, &info), 0);
    assert_int_equal(info.budget_bytes, STORWIN_MAX_BYTES);
    assert_int_equal(window_stats(win).resident_bytes, 64 * page);
    assert_int_equal(storwin_free(win, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_random),
        cmocka_unit_test(threads_unknown),
        cmocka_unit_test(threads_sequential),
        cmocka_unit_test(threads_in_place),
        cmocka_unit_test(streams),
        cmocka_unit_test(system_calls),
        cmocka_unit_test(refused),
        cmocka_unit_test(user_mode_only),
        cmocka_unit_test(after_fork),
        cmocka_unit_test(exact),
        cmocka_unit_test(touched_ahead),
        cmocka_unit_test(shortened),
        cmocka_unit_test(pinned_page),
        cmocka_unit_test(copies_meet_evictions),
        cmocka_unit_test(few_descriptors),
        cmocka_unit_test(bound_beyond_the_window),
    };

    page = (uint64_t)sysconf(_SC_PAGESIZE);
    test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
