/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors of writing back and of reading. The linker puts this file's versions of the system's
 * functions before the library's calls (--wrap): they fail where the test chooses, for any user and
 * on any file system. In fuse_errors_internal.c the kernel itself reports the errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "../../libstorwin/src/internal.h"
#include "../../libstorwin/src/ring.h"
#include "storwin_test.h"

#define PAGES 5000u /* more than one unit in which errors are told apart */

static uint64_t page;
static atomic_llong bad_from, bad_to; /* file offsets that fail */
static atomic_int bad_times, bad_code, flush_fails, names_synced, name_fails, n_flushes;
static uint8_t bad_tag[STORWIN__RING_DEPTH], empty_tag[STORWIN__RING_DEPTH];
static atomic_llong lost_at; /* one write over this file offset is lost, with success; 0: none */
static uint32_t lost_bytes[STORWIN__RING_DEPTH];
static atomic_int n_empty, empty_code; /* requests of the ring that write nothing, their result */
static uint8_t *watched;               /* base of the window whose msync() may fail */
static void *synced_at;                /* by the last msync() */
static size_t synced_bytes;

ssize_t __real_pwrite(int fd, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *data, size_t bytes, off_t offset);
ssize_t __real_pread(int fd, void *data, size_t bytes, off_t offset);
ssize_t __wrap_pread(int fd, void *data, size_t bytes, off_t offset);
void __real_storwin__ring_write(struct storwin__ring *r, int fd, const void *from, uint32_t bytes,
                                uint64_t offset, uint64_t tag);
void __wrap_storwin__ring_write(struct storwin__ring *r, int fd, const void *from, uint32_t bytes,
                                uint64_t offset, uint64_t tag);
void __real_storwin__ring_wait(struct storwin__ring *r, uint64_t *tag, int *result);
void __wrap_storwin__ring_wait(struct storwin__ring *r, uint64_t *tag, int *result);
int __real_sync_file_range(int fd, off_t offset, off_t bytes, unsigned flags);
int __wrap_sync_file_range(int fd, off_t offset, off_t bytes, unsigned flags);
int __real_msync(void *addr, size_t bytes, int flags);
int __wrap_msync(void *addr, size_t bytes, int flags);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

static int fails(off_t offset, size_t bytes)
{
    if (offset >= atomic_load(&bad_to) || offset + (off_t)bytes <= atomic_load(&bad_from))
        return 0;
    if (atomic_fetch_sub(&bad_times, 1) <= 0)
        return 0;
    errno = atomic_load(&bad_code);
    return 1;
}

/* As a full loop device loses a part of a request. */
static int is_lost(off_t offset, size_t bytes)
{
    long long at = atomic_load(&lost_at);

    return at > 0 && offset <= at && at < offset + (off_t)bytes &&
           atomic_compare_exchange_strong(&lost_at, &at, 0);
}

ssize_t __wrap_pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    if (is_lost(offset, bytes))
        return (ssize_t)bytes;
    if (fails(offset, bytes))
        return errno == 0 ? 0 : -1;
    return __real_pwrite(fd, data, bytes, offset);
}

ssize_t __wrap_pread(int fd, void *data, size_t bytes, off_t offset)
{
    return atomic_load(&bad_code) == EMEDIUMTYPE && offset < atomic_load(&bad_to) &&
                   offset + (off_t)bytes > atomic_load(&bad_from)
               ? (errno = EIO, -1)
               : __real_pread(fd, data, bytes, offset);
}

/* io_uring makes no call that could be wrapped: a failing write is replaced by an empty request
 * that ends with the error. */
void __wrap_storwin__ring_write(struct storwin__ring *r, int fd, const void *from, uint32_t bytes,
                                uint64_t offset, uint64_t tag)
{
    bad_tag[tag] = (uint8_t)fails((off_t)offset, bytes);
    lost_bytes[tag] = is_lost((off_t)offset, bytes) ? bytes : 0;
    empty_tag[tag] = atomic_fetch_sub(&n_empty, 1) > 0;
    if (bad_tag[tag] || lost_bytes[tag] || empty_tag[tag])
        bytes = 0;
    __real_storwin__ring_write(r, fd, from, bytes, offset, tag);
}

void __wrap_storwin__ring_wait(struct storwin__ring *r, uint64_t *tag, int *result)
{
    __real_storwin__ring_wait(r, tag, result);
    if (bad_tag[*tag])
        *result = -atomic_load(&bad_code);
    else if (empty_tag[*tag])
        *result = -atomic_load(&empty_code);
    else if (lost_bytes[*tag])
        *result = (int)lost_bytes[*tag];
}

int __wrap_sync_file_range(int fd, off_t offset, off_t bytes, unsigned flags)
{
    if ((flags & SYNC_FILE_RANGE_WAIT_AFTER) && fails(offset, (size_t)bytes))
        return -1;
    return __real_sync_file_range(fd, offset, bytes, flags);
}

static int flush_fails_now(void)
{
    atomic_fetch_add(&n_flushes, 1);
    if (atomic_fetch_sub(&flush_fails, 1) <= 0)
        return 0;
    errno = EIO;
    return 1;
}

int __wrap_msync(void *addr, size_t bytes, int flags)
{
    /* The window of these tests begins one page into its file. */
    if (flush_fails_now() || (watched && fails((uint8_t *)addr - watched + (off_t)page, bytes)))
        return -1;
    synced_at = addr;
    synced_bytes = bytes;
    return __real_msync(addr, bytes, flags);
}

int __wrap_fdatasync(int fd)
{
    return flush_fails_now() ? -1 : __real_fdatasync(fd);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) /* the library calls it for names alone */
{
    atomic_fetch_add(&names_synced, 1);
    return atomic_fetch_sub(&name_fails, 1) > 0 ? (errno = EIO, -1) : __real_fsync(fd);
}

static void fail_at(uint64_t from, uint64_t to, int times, int code)
{
    atomic_store(&bad_from, (long long)from);
    atomic_store(&bad_to, (long long)to);
    atomic_store(&bad_code, code);
    atomic_store(&bad_times, times);
}

static struct storwin_window *open_pager(const char *path, uint32_t pager, unsigned without,
                                         uint64_t budget)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win;
    int rc;

    opts.pager = pager;
    opts.budget_bytes = budget;
    opts.offset_bytes = page;
    opts.flags = STORWIN_DISCARD;
    atomic_store(&storwin__without, without);
    rc = storwin_alloc(&opts, PAGES * page - 1, &win, NULL);
    if (rc == STORWIN_EPAGER)
        return NULL;
    assert_int_equal(rc, 0);
    return win;
}

/* The error comes once, with a range that covers the failed write; the sync after that writes
 * it. */
static void check_error(struct storwin_window *win, const char *path, uint32_t pager,
                        uint64_t bad_page, int async)
{
    uint8_t *base = storwin_base(win), *copy = malloc(page);
    struct storwin_error err;
    int rc;

    watched = base;
    for (unsigned round = 0; round < 4; round++) {
        const unsigned code = round % 2;
        /* The kernel pager finds the place if the error comes again. */
        const int times = pager == STORWIN_PAGER_KERNEL && round >= 2 ? 2 : 1;

        for (uint64_t p = bad_page % 7; p < PAGES; p += 7)
            base[p * page + 1] += 1;
        base[bad_page * page + 1] = (uint8_t)(round + 99);
        fail_at((bad_page + 1) * page, (bad_page + 2) * page, times, code ? ENOSPC : EIO);
        memset(&err, 0, sizeof(err));
        if (async) {
            assert_int_equal(storwin_sync_start(win, 0, STORWIN_TO_END, NULL), 0);
            rc = storwin_sync_wait(win, &err);
        } else {
            rc = storwin_sync(win, 0, STORWIN_TO_END, &err);
        }
        assert_int_equal(rc, code ? -ENOSPC : -EIO);
        assert_int_equal(err.code, rc);
        assert_true(err.bytes > 0 && err.offset <= bad_page * page &&
                    err.offset + err.bytes >= (bad_page + 1) * page - (bad_page + 1 == PAGES));
        assert_true(err.bytes <= UINT64_C(16) << 20 ||
                    (pager == STORWIN_PAGER_KERNEL && times == 1));
        assert_non_null(strstr(err.text, "window"));
        assert_string_equal(err.hint, "storage_alloc_filename");
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), 0);
        read_file(path, (bad_page + 1) * page, copy, page - 1);
        assert_int_equal(copy[1], round + 99);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
    }
    watched = NULL;
    free(copy);
}

static void once_with_its_range(void **state)
{
    static const struct {
        uint32_t pager;
        unsigned without;
    } modes[] = {{STORWIN_PAGER_KERNEL, 0},
                 {STORWIN_PAGER_RESIDENT, 0},
                 {STORWIN_PAGER_RESIDENT, STORWIN__NO_RING},
                 {STORWIN_PAGER_RESIDENT, STORWIN__NO_DIRECT},
                 {STORWIN_PAGER_RESIDENT, STORWIN__NO_SCAN},
                 {STORWIN_PAGER_RESIDENT, STORWIN__NO_UFFD},
                 {STORWIN_PAGER_USER, 0},
                 {STORWIN_PAGER_USER, STORWIN__NO_RING}};
    const char *path = test_path("errors");

    for (unsigned k = 0; k < sizeof(modes) / sizeof(modes[0]); k++) {
        struct storwin_window *win =
            open_pager(path, modes[k].pager, modes[k].without, UINT64_C(96) << 20);

        if (!win)
            continue;
        check_error(win, path, modes[k].pager, 0, 0);
        check_error(win, path, modes[k].pager, PAGES - 1, 1);
        check_error(win, path, modes[k].pager, 2345, 0);
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(path);
    }
}

/* Nothing was ever stored to most of the file. The error does not come again: its range covers the
 * failed write all the same. */
static void in_a_sparse_file(void **state)
{
    const char *path = test_path("sparse");
    struct storwin_window *win = open_pager(path, STORWIN_PAGER_KERNEL, 0, 0);
    struct storwin_error err;

    assert_non_null(win);
    watched = storwin_base(win);
    /* Readahead would bring the rest into memory, and the search for the error then writes it. */
    assert_int_equal(madvise(watched, window_bytes(win), MADV_RANDOM), 0);
    memset(watched, 1, 4 << 20); /* a unit in which the kernel pager finds errors */
    fail_at(page, 2 * page, 1, EIO);
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), -EIO);
    assert_true(err.offset == 0 && err.bytes >= page);
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
    watched = NULL;
    assert_int_equal(storwin_free(win, NULL), 0);
    unlink(path);
}

/* A sync of a range syncs its pages, and no others. */
static void pages_of_a_range(void **state)
{
    const char *path = test_path("range");
    struct storwin_window *win = open_pager(path, STORWIN_PAGER_KERNEL, 0, 0);
    uint8_t *base = storwin_base(win);

    base[3 * page] = 1;
    assert_int_equal(storwin_sync(win, 2 * page + 5, page, NULL), 0);
    assert_ptr_equal(synced_at, base + 2 * page);
    assert_int_equal(synced_bytes, 2 * page);
    assert_int_equal(storwin_free(win, NULL), 0);
    unlink(path);
}

/* The device fails to flush: everything written directly since may be lost; once. */
static void flush(void **state)
{
    const char *path = test_path("flush");

    for (uint32_t pager = 0; pager <= STORWIN_PAGER_USER; pager++) {
        struct storwin_window *win = open_pager(path, pager, 0, UINT64_C(96) << 20);
        struct storwin_error err;

        if (!win)
            continue;
        memset(storwin_base(win), 1, window_bytes(win));
        atomic_store(&flush_fails, 1);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), -EIO);
        assert_int_equal(err.offset, 0);
        assert_true(err.bytes == window_bytes(win));
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), 0);
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(path);
    }
}

/* The sync after a failed one repairs the storage part behind a memory part. */
static void storage_behind_memory(void **state)
{
    for (uint32_t pager = 0; pager < test_pagers; pager++) {
        struct storwin_opts opts = storage_opts(test_path("behind"));
        struct storwin_window *win;

        opts.pager = pager;
        opts.factor_ppb = STORWIN_FACTOR_ONE / 2;
        opts.budget_bytes = UINT64_C(1) << 24;
        opts.flags = STORWIN_UNLINK;
        assert_int_equal(storwin_alloc(&opts, 20 * page, &win, NULL), 0);
        memset(storwin_base(win), 1, 20 * page);
        atomic_store(&flush_fails, 1);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), -EIO);
        assert_int_equal(win->unmended.code, -EIO);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        assert_int_equal(win->unmended.code, 0);
        assert_int_equal(storwin_free(win, NULL), 0);
    }
}

/* The first sync of a new file that is to stay makes its name durable too, and fails if that
 * fails. */
static void name(void **state)
{
    const char *path = test_path("named");

    for (unsigned is_new = 2; is_new-- > 0;) {
        struct storwin_opts opts = storage_opts(path);
        struct storwin_window *win;
        struct storwin_error err;

        opts.flags = STORWIN_DISCARD;
        assert_int_equal(storwin_alloc(&opts, 3 * page, &win, NULL), 0);
        atomic_store(&names_synced, 0);
        atomic_store(&name_fails, 1);
        memset(storwin_base(win), 1, 3 * page);
        if (is_new) {
            assert_int_equal(storwin_sync(win, page, page, &err), -EIO);
            assert_true(err.offset == page && err.bytes == page);
            assert_string_equal(err.hint, "storage_alloc_filename");
        }
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        assert_int_equal(atomic_load(&names_synced), 2 * is_new);
        assert_int_equal(storwin_free(win, NULL), 0);
    }
    unlink(path);
    atomic_store(&name_fails, 0);
}

/* The next sync flushes the data that evictions wrote, even with nothing else to write, and names
 * the range if that fails. */
static void flush_of_evicted(void **state)
{
    const char *path = test_path("evicted");
    struct storwin_window *win = open_pager(path, STORWIN_PAGER_USER, 0, STORWIN_MIN_BUDGET);
    struct storwin_error err;
    const volatile uint8_t *base;
    unsigned sum = 0;

    if (!win)
        skip();
    base = storwin_base(win);
    for (unsigned round = 0; round < 2; round++) {
        memset(storwin_base(win), (int)round + 1, 100 * page);
        for (uint64_t p = 1000; p < PAGES; p++) /* sixteen times what may stay */
            sum += base[p * page];
        atomic_store(&flush_fails, (int)round);
        atomic_store(&n_flushes, 0);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), round ? -EIO : 0);
        assert_true(atomic_load(&n_flushes) > 0);
        assert_true(!round || (err.offset == 0 && err.bytes >= 100 * page));
        atomic_store(&n_flushes, 0);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), 0);
        /* no more than needed: after a failure what is in memory is written again */
        assert_int_equal(atomic_load(&n_flushes) > 0, round);
    }
    assert_int_equal(sum, 0);
    assert_int_equal(storwin_free(win, NULL), 0);
    unlink(path);
}

/* The same of the first page alone. */
static void flush_of_one_evicted(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("first"));
    struct storwin_window *win;
    struct storwin_error err;
    volatile uint8_t *base;
    unsigned sum = 0;

    opts.pager = STORWIN_PAGER_USER;
    opts.access_style = STORWIN_ACCESS_RANDOM;
    opts.budget_bytes = STORWIN_MIN_BUDGET;
    opts.block_bytes = page;
    opts.flags = STORWIN_UNLINK;
    if (storwin_alloc(&opts, PAGES * page, &win, NULL) == STORWIN_EPAGER)
        skip();
    base = storwin_base(win);
    base[0] = 1;
    for (uint64_t p = 1; p < PAGES; p++)
        sum += base[p * page];
    assert_int_equal(sum, 0);
    atomic_store(&flush_fails, 1);
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), -EIO);
    atomic_store(&flush_fails, 0);
    assert_int_equal(err.offset, 0);
    assert_int_equal(storwin_free(win, NULL), 0);
}

/* A device that fails has lost what it took before, with success: the next sync writes everything
 * in memory again. */
static void lost_before_failure(void **state)
{
    const char *path = test_path("lost");
    uint8_t *copy = malloc(PAGES * page);

    assert_non_null(copy);
    for (uint32_t pager = STORWIN_PAGER_RESIDENT; pager < test_pagers; pager++) {
        struct storwin_window *win = open_pager(path, pager, 0, 2 * PAGES * page);
        const uint64_t bytes = win ? window_bytes(win) : 0;
        struct storwin_error err;

        assert_in_range(bytes, 200 * page, PAGES * page);
        memset(storwin_base(win), 3, bytes);
        atomic_store(&lost_at, (long long)(100 * page)); /* another slice than the failure */
        fail_at(bytes - 10 * page, bytes, 100, ENOSPC);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), -ENOSPC);
        assert_int_equal(atomic_load(&lost_at), 0);
        fail_at(0, 0, 0, 0);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), 0);
        read_file(path, page, copy, bytes);
        for (uint64_t i = 0; i < bytes; i++)
            assert_int_equal(copy[i], 3);
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(path);
    }
    free(copy);
}

/* So does the next commit, also what the area lacked before. */
static void lost_before_failed_commit(void **state)
{
    const uint64_t area = 2 * 65536; /* the offset of the first and the third commit's */
    const char *path = test_path("lost_commit");
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win;
    uint8_t *base;

    atomic_store(&storwin__without, 0);
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = STORWIN_ATOMIC_SLOTS;
    opts.flags = STORWIN_DISCARD;
    assert_int_equal(storwin_alloc(&opts, PAGES * page, &win, NULL), 0);
    base = storwin_base(win);
    for (int g = 1; g <= 2; g++) {
        memset(base, g, PAGES * page);
        assert_int_equal(storwin_commit(win, NULL), 0);
    }
    base[4900 * page] = 3;
    atomic_store(&lost_at, (long long)(area + 100 * page));
    fail_at(area + 4900 * page, area + 4901 * page, 100, ENOSPC);
    assert_int_equal(storwin_commit(win, NULL), -ENOSPC);
    assert_int_equal(atomic_load(&lost_at), 0);
    fail_at(0, 0, 0, 0);
    assert_int_equal(storwin_commit(win, NULL), 0);
    assert_int_equal(storwin_free(win, NULL), 0);
    assert_int_equal(storwin_alloc(&opts, PAGES * page, &win, NULL), 0);
    base = storwin_base(win);
    assert_int_equal(window_generation(win), 3);
    for (uint64_t i = 0; i < PAGES * page; i++)
        assert_int_equal(base[i], i == 4900 * page ? 3 : 2);
    assert_int_equal(storwin_free(win, NULL), 0);
    unlink(path);
}

/* A write of nothing without an error is a full device, and not to be repeated forever. */
static void nothing_written(void **state)
{
    const char *path = test_path("nothing");
    struct storwin_window *win = open_pager(path, STORWIN_PAGER_RESIDENT, STORWIN__NO_RING, 0);

    assert_non_null(win);
    *(uint8_t *)storwin_base(win) = 1;
    fail_at(page, 2 * page, 1, 0);
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), -ENOSPC);
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
    assert_int_equal(storwin_free(win, NULL), 0);
    unlink(path);
}

/* Requests that write nothing, without an error or with one that another way of writing may not
 * have, are written again. */
static void empty_requests(void **state)
{
    static const int codes[] = {0, EAGAIN, EINVAL, EINTR, EOPNOTSUPP};
    const char *path = test_path("empty");
    struct storwin_window *win = open_pager(path, STORWIN_PAGER_RESIDENT, 0, 0);
    uint8_t *copy = malloc(PAGES * page);

    assert_true(win != NULL && copy != NULL);
    for (unsigned k = 0; k < sizeof(codes) / sizeof(codes[0]); k++) {
        memset(storwin_base(win), (int)k + 1, window_bytes(win));
        atomic_store(&empty_code, codes[k]);
        atomic_store(&n_empty, 3);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        atomic_store(&n_empty, 0);
        read_file(path, page, copy, window_bytes(win));
        assert_memory_equal(copy, storwin_base(win), window_bytes(win));
    }
    free(copy);
    assert_int_equal(storwin_free(win, NULL), 0);
    unlink(path);
}

/* An eviction cannot write: no data is lost, no thread hangs, and the next sync reports it. */
static void eviction(void **state)
{
    const char *path = test_path("evict");
    struct storwin_window *win = open_pager(path, STORWIN_PAGER_USER, 0, STORWIN_MIN_BUDGET);
    struct storwin_error err;
    uint8_t *base;

    if (!win)
        skip();
    base = storwin_base(win);
    fail_at(0, INT64_MAX, 1 << 30, ENOSPC);
    for (uint64_t p = 0; p < 600; p++)
        base[p * page] = (uint8_t)(p + 1);
    for (uint64_t p = 0; p < 600; p++)
        assert_int_equal(base[p * page], (uint8_t)(p + 1));
    fail_at(0, 0, 0,
            0); /* from here on everything can be written, but what failed before is to be told */
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, &err), -ENOSPC);
    assert_true(err.offset < 600 * page && err.bytes > 0);
    while (storwin_sync(win, 0, STORWIN_TO_END, &err) < 0) /* an eviction may have been under way */
        assert_int_equal(err.code, -ENOSPC);
    for (uint64_t p = 0; p < 600; p++) {
        uint8_t c;

        read_file(path, (p + 1) * page, &c, 1);
        assert_int_equal(c, (uint8_t)(p + 1));
    }
    assert_int_equal(storwin_free(win, NULL), 0);
    unlink(path);
}

static sigjmp_buf jump;

static void on_signal(int sig)
{
    siglongjmp(jump, sig);
}

/* A bad sector under the pager is SIGBUS (SIGSEGV before Linux 6.6), and its neighbours are
 * readable. */
static void bad_sector(void **state)
{
    static const uint32_t styles[] = {STORWIN_ACCESS_RANDOM, 0, STORWIN_ACCESS_SEQUENTIAL,
                                      STORWIN_ACCESS_REVERSE};
    const char *path = test_path("sector");
    uint8_t *data = malloc(1 << 20);
    unsigned major = 0, minor = 0;
    struct utsname kernel;

    assert_int_equal(uname(&kernel), 0);
    assert_int_equal(sscanf(kernel.release, "%u.%u", &major, &minor), 2);
    for (uint64_t i = 0; i < 1 << 20; i++)
        data[i] = (uint8_t)(i / 4096 + 1);
    for (unsigned s = 0; s < 4; s++) {
        struct storwin_opts opts = storage_opts(path);
        struct storwin_window *win;
        struct sigaction on = {.sa_handler = on_signal}, bus, segv;
        volatile unsigned hits = 0, readable = 0;
        struct storwin_info info = {.size = sizeof(info)};
        uint8_t *base;
        int rc;

        write_file(path, 0, data, 1 << 20);
        opts.pager = STORWIN_PAGER_USER;
        opts.access_style = styles[s];
        opts.budget_bytes = STORWIN_MIN_BUDGET;
        opts.flags = STORWIN_UNLINK;
        rc = storwin_alloc(&opts, 1 << 20, &win, NULL);
        if (rc == STORWIN_EPAGER)
            break;
        assert_int_equal(rc, 0);
        base = storwin_base(win);
        fail_at(80 * 4096, 81 * 4096, 0, EMEDIUMTYPE); /* pread() only */
        sigaction(SIGBUS, &on, &bus);
        sigaction(SIGSEGV, &on, &segv);
        for (volatile unsigned i = 0; i < 256; i++) {
            int sig = sigsetjmp(jump, 1);

            if (sig == 0) {
                if (((volatile uint8_t *)base)[(uint64_t)i * 4096] == (uint8_t)(i + 1))
                    readable++;
            } else {
                assert_true(sig == SIGBUS || major * 100 + minor < 606);
                hits++;
            }
        }
        sigaction(SIGBUS, &bus, NULL);
        sigaction(SIGSEGV, &segv, NULL);
        fail_at(0, 0, 0, 0);
        assert_int_equal(hits + readable, 256);
        assert_int_equal(storwin_query(win, &info), 0);
        assert_int_equal(hits, info.block_bytes / 4096); /* its block, no more */
        assert_int_equal(storwin_free(win, NULL), 0);
    }
    free(data);
}

/* The resident pager reads at allocation: an error then, and the file stays as it was. */
static void bad_sector_at_allocation(void **state)
{
    const char *path = test_path("load");
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win;
    struct storwin_error err;
    char text[40];

    write_file(path, 20 * page, "x", 1);
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.offset_bytes = 3 * page;
    fail_at(20 * page, 21 * page, 0, EMEDIUMTYPE);
    assert_int_equal(storwin_alloc(&opts, 30 * page, &win, &err), -EIO);
    assert_string_equal(err.hint, "storage_alloc_filename");
    snprintf(text, sizeof(text), "at offset %u of", 3 * (unsigned)page);
    assert_non_null(strstr(err.text, text)); /* of the region that could not be read */
    fail_at(0, 0, 0, 0);
    assert_int_equal(file_size(path), 20 * page + 1);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(once_with_its_range),
        cmocka_unit_test(in_a_sparse_file),
        cmocka_unit_test(pages_of_a_range),
        cmocka_unit_test(flush),
        cmocka_unit_test(name),
        cmocka_unit_test(flush_of_evicted),
        cmocka_unit_test(flush_of_one_evicted),
        cmocka_unit_test(storage_behind_memory),
        cmocka_unit_test(lost_before_failure),
        cmocka_unit_test(lost_before_failed_commit),
        cmocka_unit_test(nothing_written),
        cmocka_unit_test(empty_requests),
        cmocka_unit_test(eviction),
        cmocka_unit_test(bad_sector),
        cmocka_unit_test(bad_sector_at_allocation),
    };

    page = (uint64_t)sysconf(_SC_PAGESIZE);
    test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
