/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of atomic commits: flushes that fail on request, and windows whose calls must
 * succeed. A program that includes this is linked with --wrap=fdatasync. */
#ifndef STORWIN_COMMIT_TEST_INTERNAL_H
#define STORWIN_COMMIT_TEST_INTERNAL_H

#include "../../libstorwin/src/commit.h"
#include "storwin_test.h"

#define BYTES (UINT64_C(300000)) /* no multiple of anything */

static const uint32_t atomics[]
    __attribute__((unused)) = {STORWIN_ATOMIC_JOURNAL, STORWIN_ATOMIC_SLOTS, STORWIN_ATOMIC_AUTO};
static const unsigned withouts[]
    __attribute__((unused)) = {0,
                               STORWIN__NO_SCAN,
                               STORWIN__NO_SCAN | STORWIN__NO_UFFD,
                               STORWIN__NO_DIRECT,
                               STORWIN__NO_RING,
                               STORWIN__NO_SCAN | STORWIN__NO_SYS_UFFD};
#define N_WITHOUTS (sizeof(withouts) / sizeof(withouts[0]))

/* Called before the next flush. */
static void (*before_flush)(void);
static unsigned failing_flush; /* counts down to the one that fails; 0: none does */

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    void (*hook)(void) = before_flush;

    before_flush = NULL;
    if (hook)
        hook();
    if (failing_flush > 0 && --failing_flush == 0) {
        errno = EIO;
        return -1;
    }
    (void)fd; /* a process that is not killed needs none, and disks are slow */
    return 0;
}

static inline struct storwin_opts commit_opts(uint32_t atomic)
{
    struct storwin_opts opts = storage_opts(test_path("commit"));

    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = atomic;
    return opts;
}

static inline struct storwin_window *alloc_window(const struct storwin_opts *opts, uint64_t bytes)
{
    struct storwin_window *win;
    struct storwin_error err;

    if (storwin_alloc(opts, bytes, &win, &err) < 0)
        fail_msg("%s: %s", err.hint, err.text);
    return win;
}

static inline int open_fails(const struct storwin_opts *opts, uint64_t bytes,
                             struct storwin_error *err)
{
    struct storwin_window *win = NULL;
    int rc = storwin_alloc(opts, bytes, &win, err);

    assert_null(win);
    assert_int_equal(rc, err->code);
    assert_true(err->text[0] != 0);
    return rc;
}

static inline struct storwin_info window_info(const struct storwin_window *win)
{
    struct storwin_info info = {.size = sizeof(info)};

    assert_int_equal(storwin_query(win, &info), 0);
    return info;
}

static inline void commit_window(struct storwin_window *win)
{
    struct storwin_error err;

    if (storwin_commit(win, &err) < 0)
        fail_msg("%s: %s", err.hint, err.text);
}

static inline void discard(struct storwin_window *win)
{
    assert_int_equal(storwin_discard(win, NULL), 0);
}

static inline void fill(uint8_t *at, uint64_t bytes, unsigned with)
{
    for (uint64_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(i * 31 / 7 + with * 13);
}

static inline int holds(const uint8_t *at, uint64_t bytes, unsigned with)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (at[i] != (uint8_t)(i * 31 / 7 + with * 13))
            return 0;
    return 1;
}

static inline void commit_test_begin(void)
{
    test_begin();
    atomic_store(&storwin__lock_ms, 1000); /* a test that fails leaves its file locked */
    atomic_store(&storwin__without, STORWIN__NO_DIRECT); /* most need no disk */
}

#endif
