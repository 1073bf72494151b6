/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sync, against a model of the window's and the file's contents. Every pager, with
 * and without the facilities of newer kernels; whole, ranges, asynchronous.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/wait.h>

#include "../../libstorwin/src/internal.h"
#include "storwin_test.h"

static uint64_t page;

struct mode {
    const char *name;
    uint32_t pager, style;
    unsigned without;
    uint32_t track;
};

static const struct mode modes[] = {
    {"kernel", STORWIN_PAGER_KERNEL, 0, 0, STORWIN_TRACK_MSYNC},
    {"kernel, random", STORWIN_PAGER_KERNEL, STORWIN_ACCESS_RANDOM, 0, STORWIN_TRACK_MSYNC},
    {"kernel, sequential", STORWIN_PAGER_KERNEL, STORWIN_ACCESS_SEQUENTIAL, 0, STORWIN_TRACK_MSYNC},
    {"resident", STORWIN_PAGER_RESIDENT, 0, 0, STORWIN_TRACK_SCAN},
    {"resident, no io_uring", STORWIN_PAGER_RESIDENT, 0, STORWIN__NO_RING, STORWIN_TRACK_SCAN},
    {"resident, no O_DIRECT", STORWIN_PAGER_RESIDENT, 0, STORWIN__NO_DIRECT, STORWIN_TRACK_SCAN},
    {"resident, no PAGEMAP_SCAN", STORWIN_PAGER_RESIDENT, 0, STORWIN__NO_SCAN,
     STORWIN_TRACK_FAULTS},
    {"resident, no userfaultfd", STORWIN_PAGER_RESIDENT, 0, STORWIN__NO_UFFD, STORWIN_TRACK_ALL},
    {"user", STORWIN_PAGER_USER, 0, 0, STORWIN_TRACK_FAULTS},
    {"user, random", STORWIN_PAGER_USER, STORWIN_ACCESS_RANDOM, 0, STORWIN_TRACK_FAULTS},
    {"user, sequential", STORWIN_PAGER_USER, STORWIN_ACCESS_SEQUENTIAL, 0, STORWIN_TRACK_FAULTS},
    {"user, no O_DIRECT", STORWIN_PAGER_USER, STORWIN_ACCESS_REVERSE, STORWIN__NO_DIRECT,
     STORWIN_TRACK_FAULTS},
};
#define N_MODES (sizeof(modes) / sizeof(modes[0]))

/* The window of one mode; NULL when this kernel has less than the mode needs. */
static struct storwin_window *open_mode(const struct mode *m, const char *path, uint64_t bytes,
                                        uint64_t offset)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win;
    int rc;

    opts.pager = m->pager;
    opts.access_style = m->style;
    opts.offset_bytes = offset;
    opts.budget_bytes = STORWIN_MIN_BUDGET;
    atomic_store(&storwin__without, m->without);
    rc = storwin_alloc(&opts, bytes, &win, NULL);
    if (rc == STORWIN_EPAGER) {
        print_message("not tried: %s: %s\n", m->name, storwin_strerror(rc));
        return NULL;
    }
    assert_int_equal(rc, 0);
    storwin_query(win, &info);
    if (info.track != m->track)
        print_message("%s: tracked by %u instead of %u\n", m->name, info.track, m->track);
    return win;
}

struct model {
    uint8_t *window, *file; /* bytes each; file as of the last syncs */
    uint64_t bytes, offset;
};

static void check_file(const struct model *m, const char *path, uint64_t lo, uint64_t hi,
                       const char *name)
{
    uint8_t *copy = malloc(hi - lo + 1);

    read_file(path, m->offset + lo, copy, hi - lo);
    for (uint64_t i = lo; i < hi; i++)
        if (copy[i - lo] != m->file[i])
            fail_msg("%s: byte %lu of the file is %u, not %u", name, (unsigned long)i, copy[i - lo],
                     m->file[i]);
    free(copy);
}

static void synced(struct model *m, uint64_t lo, uint64_t hi)
{
    lo = lo / page * page;
    hi = (hi + page - 1) / page * page;
    if (hi > m->bytes)
        hi = m->bytes;
    memcpy(m->file + lo, m->window + lo, hi - lo);
}

static void step(struct storwin_window *win, struct model *m, uint64_t *rng)
{
    uint64_t n = test_random(rng) % 20, lo, len;
    int to_end;

    for (uint64_t i = 0; i < n; i++) { /* single bytes, runs, and now and then much */
        uint64_t at = test_random(rng) % m->bytes,
                 run = test_random(rng) % 4 ? 1 : test_random(rng) % (20 * page);
        int value = (int)test_random(rng) & 255;

        if (run > m->bytes - at)
            run = m->bytes - at;
        memset(m->window + at, value, run);
        memset((uint8_t *)storwin_base(win) + at, value, run);
    }
    lo = test_random(rng) % m->bytes;
    len = test_random(rng) % (m->bytes - lo) + 1;
    switch (test_random(rng) % 4) {
    case 0:
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        synced(m, 0, m->bytes);
        break;
    case 1:
        to_end = test_random(rng) % 8 == 0;
        if (to_end)
            len = m->bytes - lo;
        assert_int_equal(storwin_sync(win, lo, to_end ? STORWIN_TO_END : len, NULL), 0);
        synced(m, lo, lo + len);
        break;
    case 2:
        assert_int_equal(storwin_sync_start(win, lo, len, NULL), 0);
        assert_int_equal(storwin_sync_wait(win, NULL), 0);
        synced(m, lo, lo + len);
        break;
    default: break;
    }
}

static void random_steps(void **state)
{
    const char *path = test_path("model");

    for (size_t k = 0; k < N_MODES; k++) {
        struct model m = {.bytes = 2 * (UINT64_C(1) << 20) + 1234, .offset = k % 2 * 3 * page};
        struct storwin_window *win;
        uint64_t rng = 88172645463325252u + k;

        m.window = malloc(m.bytes);
        m.file = malloc(m.bytes);
        for (uint64_t i = 0; i < m.bytes; i++)
            m.window[i] = (uint8_t)(i * 13 / 7);
        memcpy(m.file, m.window, m.bytes);
        write_file(path, m.offset, m.window, m.bytes);
        win = open_mode(&modes[k], path, m.bytes, m.offset);
        for (unsigned i = 0; win && i < 25; i++) {
            step(win, &m, &rng);
            if (modes[k].pager ==
                STORWIN_PAGER_RESIDENT) /* exactly what was synced, and nothing else */
                check_file(&m, path, 0, m.bytes, modes[k].name);
            if (memcmp(storwin_base(win), m.window, m.bytes) != 0)
                fail_msg("%s: the window changed by itself", modes[k].name);
        }
        if (win) {
            assert_int_equal(storwin_free(win, NULL), 0); /* syncs what is left */
            memcpy(m.file, m.window, m.bytes);
            check_file(&m, path, 0, m.bytes, modes[k].name);
            assert_int_equal(file_size(path), m.offset + m.bytes);
        }
        free(m.window);
        free(m.file);
        unlink(path);
    }
}

/* Pages that a sync finds changed, against stored pages. */
static void finds_changed(void **state)
{
    const uint64_t bytes = 700 * page + 5;
    const char *path = test_path("changed");
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_stats a, b;

    for (size_t k = 0; k < N_MODES; k++) {
        struct storwin_window *win = open_mode(&modes[k], path, bytes, page);
        uint64_t rng = 12345 + k, n = 0;
        uint8_t stored[700] = {0};

        if (!win)
            continue;
        memset(storwin_base(win), 1, bytes);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        storwin_query(win, &info);
        a = window_stats(win);
        for (unsigned i = 0; i < 40; i++) {
            uint64_t p = test_random(&rng) % 700;

            ((uint8_t *)storwin_base(win))[p * page] = (uint8_t)(i + 2);
            n += !stored[p];
            stored[p] = 1;
        }
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        b = window_stats(win);
        if (info.track == STORWIN_TRACK_MSYNC) /* the page cache does not say */
            assert_int_equal(b.dirty_bytes, 0);
        else if (modes[k].pager == STORWIN_PAGER_RESIDENT && info.track != STORWIN_TRACK_ALL)
            assert_int_equal(b.dirty_bytes - a.dirty_bytes, n * page);
        else if (modes[k].pager == STORWIN_PAGER_RESIDENT)
            assert_int_equal(b.dirty_bytes - a.dirty_bytes, 701 * page);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        a = window_stats(win);
        if (info.track != STORWIN_TRACK_ALL)
            assert_int_equal(a.dirty_bytes, b.dirty_bytes);
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(path);
    }
}

/* One page in a hundred changed: a sync writes these and at most a fifth more. */
static void writes_little(void **state)
{
    const uint64_t pages = 6400;
    const char *path = test_path("little");
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_stats a, b;

    for (size_t k = 0; k < N_MODES; k++) {
        struct storwin_window *win;

        if (modes[k].pager != STORWIN_PAGER_RESIDENT || modes[k].track == STORWIN_TRACK_ALL)
            continue;
        win = open_mode(&modes[k], path, pages * page, 0);
        storwin_query(win, &info);
        if (info.track != modes[k].track) {
            assert_int_equal(storwin_free(win, NULL), 0);
            continue;
        }
        memset(storwin_base(win), 1, pages * page);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        a = window_stats(win);
        assert_int_equal(a.dirty_bytes, pages * page);
        assert_int_equal(a.written_bytes, pages * page);
        for (uint64_t i = 0; i < pages / 100;
             i++) /* a few near each other, then far from the next */
            ((uint8_t *)storwin_base(win))[(i / 8 * 800 + i % 8 * 5) * page + 5] = 7;
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        b = window_stats(win);
        assert_int_equal(b.dirty_bytes - a.dirty_bytes, pages / 100 * page);
        assert_in_range(b.written_bytes - a.written_bytes, pages / 100 * page,
                        pages / 100 * page * 12 / 10);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        a = window_stats(win);
        assert_int_equal(a.written_bytes, b.written_bytes);
        assert_int_equal(a.wrote, STORWIN_WROTE_NOTHING);
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(path);
    }
}

static void states(void **state)
{
    const char *path = test_path("states");
    struct storwin_opts opts = storage_opts(path);
    struct storwin_error err;
    struct storwin_window *win;
    int rc;

    assert_int_equal(storwin_alloc(&opts, 64 * page, &win, NULL), 0);
    assert_int_equal(storwin_sync_wait(win, &err), STORWIN_ESTATE);
    assert_int_equal(storwin_sync_test(win, &err), STORWIN_ESTATE);
    assert_int_equal(storwin_sync(win, 0, 64 * page + 1, &err), STORWIN_ERANGE);
    assert_int_equal(storwin_sync(win, 65 * page, 0, &err), STORWIN_ERANGE);
    assert_int_equal(storwin_sync(win, 65 * page, STORWIN_TO_END, &err), STORWIN_ERANGE);
    assert_int_equal(storwin_sync(win, 64 * page, STORWIN_TO_END, &err), 0);
    assert_int_equal(storwin_sync(win, page, UINT64_MAX - 1, &err), STORWIN_ERANGE);
    assert_int_equal(storwin_sync_start(win, 64 * page, 1, &err), STORWIN_ERANGE);
    memset(storwin_base(win), 3, 64 * page);
    assert_int_equal(storwin_sync_start(win, 0, 64 * page, &err), 0);
    assert_int_equal(storwin_sync_start(win, 0, 1, &err), STORWIN_ESTATE);
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), STORWIN_ESTATE);
    assert_int_equal(storwin_free(win, &err), STORWIN_EBUSY);
    while ((rc = storwin_sync_test(win, &err)) == STORWIN_PENDING)
        usleep(100);
    assert_int_equal(rc, 0);
    assert_int_equal(storwin_sync_test(win, &err), STORWIN_ESTATE); /* once */
    assert_int_equal(storwin_sync(NULL, 0, STORWIN_TO_END, &err), -EINVAL);
    assert_int_equal(storwin_free(win, &err), 0);
    unlink(path);
    /* Nothing to do for memory. */
    assert_int_equal(storwin_alloc(NULL, page, &win, NULL), 0);
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), 0);
    assert_int_equal(storwin_free(win, &err), 0);
}

static int byte_at(const char *path, uint64_t at)
{
    uint8_t byte = 0;
    int fd = open(path, O_RDONLY);

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    close(fd);
    return byte;
}

/* Calls that a child may not make; a child does not change its parent's window and file. */
static int child_tries(struct storwin_window *win)
{
    struct storwin_error err;

    CHECK(storwin_sync(win, 0, STORWIN_TO_END, &err) == STORWIN_ESTATE &&
          strstr(err.text, "which allocated it"));
    CHECK(storwin_sync(win, 0, page, NULL) == STORWIN_ESTATE);
    CHECK(storwin_sync_start(win, 0, page, NULL) == STORWIN_ESTATE);
    CHECK(storwin_sync_test(win, NULL) == STORWIN_ESTATE);
    CHECK(storwin_sync_wait(win, NULL) == STORWIN_ESTATE);
    CHECK(storwin_free(win, NULL) == STORWIN_ESTATE);
    return 0;
}

static void in_a_child(void **state)
{
    for (unsigned i = 0; i < N_MODES; i++) {
        const char *path = test_path("child");
        struct storwin_window *win = open_mode(&modes[i], path, 64 * page, 0);
        int go[2], status;
        pid_t pid;

        if (!win)
            continue;
        memset(storwin_base(win), 1, 64 * page);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        assert_int_equal(pipe(go), 0);
        pid = fork();
        if (pid == 0) {
            alarm(100); /* rather than wait for threads that only its parent has */
            CHECK(read(go[0], &status, 1) == 1);
            _exit(child_tries(win));
        }
        memset((char *)storwin_base(win) + 5 * page, 2, page); /* not in the child's copy */
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        assert_int_equal(write(go[1], "", 1), 1);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(byte_at(path, 5 * page), 2);
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(path);
        close(go[0]);
        close(go[1]);
    }
}

static void shortened(void **state)
{
    for (unsigned i = 0; i < N_MODES; i++) {
        const char *path = test_path("shortened");
        const uint64_t bytes = 64 * page + 100;
        struct storwin_window *win = open_mode(&modes[i], path, bytes, 2 * page);
        struct storwin_error err;
        int rc;

        if (!win)
            continue;
        memset(storwin_base(win), 1, bytes);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        assert_int_equal(truncate(path, (off_t)(12 * page)), 0);
        assert_int_equal(storwin_sync(win, 0, 10 * page, &err),
                         0); /* nothing has gone from there */
        rc = storwin_sync(win, 0, STORWIN_TO_END, &err);
        assert_int_equal(rc, STORWIN_ESHORT);
        assert_int_equal(err.offset, 10 * page);
        assert_int_equal(err.bytes, bytes - 10 * page);
        if (modes[i].pager == STORWIN_PAGER_RESIDENT) { /* it still had the data */
            for (uint64_t at = 0; at < bytes; at += page)
                assert_int_equal(byte_at(path, 2 * page + at), 1);
            assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), 0);
        } else {
            assert_int_equal(truncate(path, (off_t)(2 * page + bytes)), 0); /* as long as before */
            assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), 0);
            assert_int_equal(truncate(path, (off_t)(2 * page + bytes - 1)), 0);
            assert_int_equal(storwin_free(win, &err), STORWIN_ESHORT);
            assert_int_equal(err.bytes, 1);
            win = NULL;
        }
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_child),    cmocka_unit_test(shortened),
        cmocka_unit_test(random_steps),  cmocka_unit_test(finds_changed),
        cmocka_unit_test(writes_little), cmocka_unit_test(states),
    };

    page = (uint64_t)sysconf(_SC_PAGESIZE);
    test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
