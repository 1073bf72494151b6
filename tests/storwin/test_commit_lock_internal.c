/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock on a file of commits, and a window that forgets storage_alloc_atomic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "commit_test_internal.h"

#include <signal.h>
#include <sys/wait.h>

static unsigned n_alone; /* locks that exclude all other windows, so far */

int __real_fcntl(int fd, int what, void *arg);
int __wrap_fcntl(int fd, int what, void *arg);
int __wrap_fcntl(int fd, int what, void *arg)
{
    const struct flock *lock = arg;

    n_alone += what == F_OFD_SETLK && lock->l_type == F_WRLCK && lock->l_start == INT64_MAX - 8;
    return __real_fcntl(fd, what, arg);
}

/* Another process has the file open for some milliseconds. Returns when it has. */
static pid_t hold_file(const struct storwin_opts *opts, unsigned ms)
{
    int ready[2], status = 0;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        struct storwin_window *win;

        alarm(100);
        status = storwin_alloc(opts, BYTES, &win, NULL);
        if (write(ready[1], &status, sizeof(status)) > 0)
            usleep(ms * 1000);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &status, sizeof(status)), sizeof(status));
    assert_int_equal(status, 0);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static uint64_t open_busy(const struct storwin_opts *opts)
{
    struct storwin_error err;
    const uint64_t start = storwin__now_ms();

    assert_int_equal(open_fails(opts, BYTES, &err), STORWIN_EBUSY);
    assert_non_null(strstr(err.text, opts->filename));
    return storwin__now_ms() - start;
}

/* One window at a time has a file with commits: a second one of this process fails at once, one of
 * another process at a deadline, or waits. */
static void locked(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO),
                        plain = storage_opts(opts.filename);
    struct storwin_window *win = alloc_window(&opts, BYTES), *others[2];
    int status;
    pid_t pid;

    atomic_store(&storwin__lock_ms, 60000);
    assert_true(open_busy(&opts) < 30000);
    plain.flags = STORWIN_RAW;
    assert_true(open_busy(&plain) < 30000);
    discard(win);
    pid = hold_file(&opts, 300);
    win = alloc_window(&opts, BYTES); /* waits */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    discard(win);
    atomic_store(&storwin__lock_ms, 20);
    pid = hold_file(&opts, 100000);
    assert_true(open_busy(&opts) >= 20);
    assert_true(open_busy(&plain) >= 20);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (unsigned i = 0; i < 2; i++) /* without commits they share it */
        others[i] = alloc_window(&plain, BYTES);
    open_busy(&opts);
    for (unsigned i = 0; i < 2; i++)
        discard(others[i]);
    atomic_store(&storwin__lock_ms, 1000);
    unlink(opts.filename);
}

/* A file of commits is not opened without them, unless the options say so. */
static void forgotten_hint(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO),
                        plain = storage_opts(opts.filename);
    struct storwin_window *win;
    struct storwin_error err;

    for (uint64_t offset = 0; offset <= 65536; offset += 65536) {
        opts.offset_bytes = offset;
        win = alloc_window(&opts, BYTES);
        fill(storwin_base(win), BYTES, 1);
        commit_window(win);
        discard(win);
        for (plain.pager = 0; plain.pager < test_pagers; plain.pager++)
            for (plain.offset_bytes = offset; plain.offset_bytes <= 65536;
                 plain.offset_bytes += 65536) {
                const uint64_t size = file_size(opts.filename);

                n_alone = 0;
                assert_int_equal(open_fails(&plain, 100 * BYTES, &err), STORWIN_EFORMAT);
                assert_int_equal(n_alone, 0); /* others can open the file meanwhile */
                assert_non_null(strstr(err.text, "storage_alloc_atomic"));
                assert_non_null(strstr(err.text, opts.filename));
                assert_int_equal(file_size(opts.filename), size);
            }
        win = alloc_window(&opts, BYTES);
        assert_true(holds(storwin_base(win), BYTES, 1));
        discard(win);
        plain.pager = STORWIN_PAGER_KERNEL;
        plain.offset_bytes = offset;
        plain.flags = STORWIN_RAW;
        win = alloc_window(&plain, BYTES);
        assert_memory_equal(storwin_base(win), "SWINATOM", 8);
        plain.flags = 0;
        discard(win);
        unlink(opts.filename);
    }
}

/* Another window opens and commits a file that this one has created and not locked yet. */
struct overtaking {
    struct storwin_opts opts; /* of the other window */
    struct storwin_window *win;
};

static void *overtaken_realloc(void *ctx, void *ptr, size_t bytes)
{
    struct overtaking *o = ctx;

    if (!o->win && file_size(o->opts.filename) != UINT64_MAX) {
        o->win = alloc_window(&o->opts, BYTES);
        fill(storwin_base(o->win), BYTES, 1);
        commit_window(o->win);
    }
    return realloc(ptr, bytes);
}

static void overtaken_free(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

/* A window that fails since another one has the file leaves the file alone. */
static void overtaken(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct overtaking o = {.opts = commit_opts(STORWIN_ATOMIC_AUTO)};
        const struct storwin_allocator hook = {overtaken_realloc, overtaken_free, &o};
        struct storwin_opts opts = o.opts;

        atomic_store(&storwin__without, i == 0 ? STORWIN__NO_DIRECT : 0);
        opts.allocator = &hook;
        open_busy(&opts);
        assert_non_null(o.win);
        discard(o.win);
        o.win = alloc_window(&o.opts, BYTES);
        assert_true(holds(storwin_base(o.win), BYTES, 1));
        discard(o.win);
        unlink(o.opts.filename);
    }
    atomic_store(&storwin__without, STORWIN__NO_DIRECT);
}

/* A window creates the file, takes the lock, waits for another process to open the file, and
 * fails. */
struct failing {
    const char *path;
    int pipe, told;
};

static void *failing_realloc(void *ctx, void *ptr, size_t bytes)
{
    struct failing *f = ctx;
    struct flock lock = {.l_type = F_RDLCK, .l_start = INT64_MAX - 8, .l_len = 1};
    const int fd = open(f->path, O_RDWR | O_CLOEXEC);

    if (fd >= 0 && !f->told && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK) {
        f->told = write(f->pipe, "", 1) == 1;
        usleep(200000);
    }
    if (fd >= 0)
        close(fd);
    return realloc(ptr, bytes);
}

/* Makes a window of the other process durable, as soon as the first one has the lock. */
static int sync_beside(const struct storwin_opts *opts, int begin)
{
    struct storwin_window *win;
    char byte;

    alarm(100);
    if (read(begin, &byte, 1) != 1 || storwin_alloc(opts, BYTES, &win, NULL) < 0)
        return 1;
    fill(storwin_base(win), BYTES, 1);
    return storwin_sync(win, 0, STORWIN_TO_END, NULL) < 0 || storwin_discard(win, NULL) < 0;
}

/* What a window made durable can be found, although the window that created the file has failed,
 * and removed the file. */
static void removed(void **state)
{
    atomic_store(&storwin__lock_ms, 60000);
    for (unsigned plain = 0; plain < 2; plain++) {
        struct failing f = {.path = test_path("commit")};
        const struct storwin_allocator hook = {failing_realloc, overtaken_free, &f};
        struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO),
                            other = plain ? storage_opts(opts.filename) : opts;
        struct storwin_window *win;
        struct storwin_error err;
        int begin[2], status;
        pid_t pid;

        assert_int_equal(pipe(begin), 0);
        f.pipe = begin[1];
        pid = fork();
        if (pid == 0)
            _exit(sync_beside(&other, begin[0]));
        opts.allocator = &hook;
        opts.generation = 1;
        assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_ENONE);
        assert_true(f.told);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(access(opts.filename, F_OK), 0);
        win = alloc_window(&other, BYTES);
        assert_true(holds(storwin_base(win), BYTES, 1));
        discard(win);
        unlink(opts.filename);
        close(begin[0]);
        close(begin[1]);
    }
    atomic_store(&storwin__lock_ms, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locked),
        cmocka_unit_test(forgotten_hint),
        cmocka_unit_test(overtaken),
        cmocka_unit_test(removed),
    };

    commit_test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
