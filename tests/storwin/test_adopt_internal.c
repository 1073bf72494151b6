/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows over existing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "commit_test_internal.h"

#include <sys/mman.h>
#include <sys/wait.h>

/* Changes the first page and the last ones, which a commit writes together. */
static void change_ends(uint8_t *base)
{
    base[0] ^= 1;
    for (uint64_t i = 0; i < 8; i++)
        base[BYTES - 1 - i * STORWIN__BLOCK] ^= 1;
}

/* The program's own memory, wherever it begins. */
static void adopted(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("commit"));
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), room = BYTES + 5000 + page;
    uint8_t *whole = aligned_alloc(page, (room / page + 1) * page);

    for (unsigned i = 0; i < 8; i++) {
        /* The last ends with a page, although it does not begin with one. */
        uint8_t *at = whole + (i < 6 ? i / 2 * 1237 + 1 : page - BYTES % page);
        const struct storwin__record *last;
        struct storwin_window *win;
        struct storwin_error err;
        uint8_t pad;

        /* Direct I/O refuses such addresses. */
        atomic_store(&storwin__without, i % 2 ? 0 : STORWIN__NO_DIRECT);
        memset(whole, 0xee, room);
        fill(at, BYTES, 1);
        if (storwin_adopt(at, BYTES, &opts, &win, &err) < 0)
            fail_msg("%s: %s", err.hint, err.text);
        assert_ptr_equal(storwin_base(win), at);
        last = &win->commit->last;
        commit_window(win);
        change_ends(at);
        commit_window(win);
        assert_int_equal(window_info(win).generation, 2);
        assert_true(last->journal_bytes > 0); /* zeros are behind its last block, and not 0xee */
        read_file(opts.filename, storwin__area_at(last, 2) + last->journal_bytes - 1, &pad, 1);
        assert_int_equal(pad, 0);
        assert_int_equal(at[-1], 0xee);
        assert_int_equal(at[BYTES], 0xee);
        discard(win);
        memset(whole, 0xaa, room);
        assert_int_equal(storwin_adopt(at, BYTES, &opts, &win, &err), 0);
        assert_int_equal(at[-1], 0xaa);
        assert_int_equal(at[BYTES], 0xaa);
        change_ends(at);
        assert_true(holds(at, BYTES, 1));
        assert_int_equal(storwin_free(win, NULL), 0);
        at[0]++; /* it is still the program's */
        unlink(opts.filename);
    }
    atomic_store(&storwin__without, STORWIN__NO_DIRECT);
    free(whole);
}

/* The program maps a part of adopted memory anew, or has the kernel drop pages of it: both are
 * changes, and so are stores into it afterwards. */
static void mapped_anew(void **state)
{
    const uint64_t lo = 8 * (uint64_t)sysconf(_SC_PAGESIZE), hi = 3 * lo, bytes = 8 * lo;
    struct storwin_opts opts = storage_opts(test_path("commit"));
    uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (unsigned way = 0; way < 2; way++) {
        struct storwin_window *win;

        assert_int_equal(storwin_adopt(at, bytes, &opts, &win, NULL), 0);
        fill(at, bytes, 1);
        commit_window(win);
        if (way == 0)
            assert_ptr_equal(mmap(at + lo, hi - lo, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                             at + lo);
        else
            assert_int_equal(madvise(at + lo, hi - lo, MADV_DONTNEED), 0);
        commit_window(win);
        assert_int_equal(window_info(win).generation, 2);
        at[lo + 1] = 5;
        commit_window(win);
        assert_int_equal(window_info(win).generation, 3);
        commit_window(win);
        assert_int_equal(window_info(win).generation, 3);
        discard(win);
        memset(at, 'x', bytes);
        assert_int_equal(storwin_adopt(at, bytes, &opts, &win, NULL), 0);
        assert_int_equal(at[lo + 1], 5);
        for (uint64_t i = lo; i < hi; i++) {
            assert_int_equal(at[i], i == lo + 1 ? 5 : 0);
            at[i] = (uint8_t)(i * 31 / 7 + 13);
        }
        assert_true(holds(at, bytes, 1));
        discard(win);
        unlink(opts.filename);
    }
    munmap(at, bytes);
}

/* Stores of another process: found by comparing, and refused otherwise. */
static void shared_memory(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("commit"));
    uint8_t *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct storwin_window *win;
    struct storwin_error err;
    int status;

    assert_int_equal(storwin_adopt(at, BYTES, &opts, &win, &err), -EOPNOTSUPP);
    assert_string_equal(err.hint, "storage_alloc_changes");
    assert_int_equal(storwin_adopt(NULL, BYTES, &opts, &win, &err), -EINVAL);
    assert_int_equal(storwin_adopt(at, 0, &opts, &win, &err), -EINVAL);
    opts.pager = STORWIN_PAGER_USER;
    assert_int_equal(storwin_adopt(at, BYTES, &opts, &win, &err), STORWIN_ECONFLICT);
    assert_string_equal(err.hint, "storage_alloc_pager");
    opts.pager = 0;
    opts.changes = STORWIN_CHANGES_COMPARED;
    fill(at, BYTES, 3);
    assert_int_equal(storwin_adopt(at, BYTES, &opts, &win, &err), 0);
    commit_window(win);
    if (fork() == 0) {
        at[100000] = 1;
        at[200000] = 2;
        _exit(0);
    }
    assert_true(wait(&status) > 0 && status == 0);
    commit_window(win);
    discard(win);
    memset(at, 0, BYTES);
    assert_int_equal(storwin_adopt(at, BYTES, &opts, &win, &err), 0);
    assert_int_equal(at[100000], 1);
    assert_int_equal(at[200000], 2);
    discard(win);
    unlink(opts.filename);
    assert_int_equal(mprotect(at, 4096, PROT_READ), 0);
    assert_int_equal(storwin_adopt(at, BYTES, &opts, &win, &err), -EFAULT);
    munmap(at, BYTES);
}

/* The program takes pages away: the commit fails, names them, and changes nothing. */
static void unreadable(void **state)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bytes = 64 * page;
    struct storwin_opts opts = storage_opts(test_path("commit"));

    static const unsigned places[] = {6, 0, 63}; /* page that cannot be read, of 64 */

    for (unsigned way = 0; way < 4; way++) /* protected, unmapped; compared too */
        for (unsigned i = 0; i < 9; i++) {
            const unsigned a = i % 3;
            const uint64_t bad = places[i / 3] * page;
            uint8_t *at =
                mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            struct storwin_window *win;
            struct storwin_error err;

            opts.atomic = atomics[a];
            opts.changes = way < 2 ? STORWIN_CHANGES_TRACKED : STORWIN_CHANGES_COMPARED;
            assert_int_equal(storwin_adopt(at, bytes, &opts, &win, NULL), 0);
            for (unsigned g = 1; g < 4; g++) {
                fill(at, bytes, g);
                commit_window(win);
            }
            for (unsigned k = 63; k < 66; k++) /* its neighbours, too */
                at[(bad + k * page) % bytes + 9] ^= 1;
            if (way % 2)
                munmap(at + bad, page);
            else
                assert_int_equal(mprotect(at + bad, page, PROT_NONE), 0);
            for (unsigned tries = 0; tries < 2; tries++) {
                assert_int_equal(storwin_commit(win, &err), -EFAULT);
                assert_int_equal(err.offset, bad);
                assert_int_equal(err.bytes, page);
            }
            assert_int_equal(window_info(win).generation, 3);
            if (way % 2 == 0) {
                assert_int_equal(mprotect(at + bad, page, PROT_READ), 0);
                commit_window(win);
                assert_int_equal(window_info(win).generation, 4);
            }
            discard(win);
            munmap(at, bytes);
            at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            assert_int_equal(storwin_adopt(at, bytes, &opts, &win, NULL), 0);
            for (unsigned k = 63; way % 2 == 0 && k < 66; k++)
                at[(bad + k * page) % bytes + 9] ^= 1;
            assert_true(holds(at, bytes, 3));
            discard(win);
            munmap(at, bytes);
            unlink(opts.filename);
        }
}

/* The program protects a page of which the window has only a part. */
static void protected_edge(void **state)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bytes = 10 * page + 100;
    struct storwin_opts opts = storage_opts(test_path("commit"));

    for (unsigned i = 0; i < 12; i++) {
        uint8_t *whole =
            mmap(NULL, 11 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uint8_t *at = i % 2 ? whole : whole + page - 100, *edge = i % 2 ? whole + 10 * page : whole;
        struct storwin_window *win;
        struct storwin_error err;

        opts.atomic = atomics[i / 4];
        assert_int_equal(storwin_adopt(at, bytes, &opts, &win, NULL), 0);
        commit_window(win);
        at[bytes / 2] ^= 1;
        win->commit->stores_meanwhile = (int)(i / 2 % 2);
        assert_int_equal(mprotect(edge, page, PROT_NONE), 0);
        assert_int_equal(storwin_commit(win, &err), -EFAULT);
        assert_int_equal(err.offset, i % 2 ? 10 * page : 0);
        assert_int_equal(mprotect(edge, page, PROT_READ | PROT_WRITE), 0);
        commit_window(win);
        assert_int_equal(window_info(win).generation, 2);
        discard(win);
        munmap(whole, 11 * page);
        unlink(opts.filename);
    }
}

/* A page behind the end of a mapped file has a mapping that can be read, and no memory. */
static void shortened_file(void **state)
{
    const size_t bytes = 200 * (size_t)sysconf(_SC_PAGESIZE);
    struct storwin_opts opts = storage_opts(test_path("commit"));
    const int fd = open(".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    struct storwin_window *win;
    struct storwin_error err;
    uint8_t *at;

    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    assert_true(at != MAP_FAILED);
    opts.changes = STORWIN_CHANGES_COMPARED;
    assert_int_equal(storwin_adopt(at, bytes, &opts, &win, NULL), 0);
    memset(at, 1, bytes / 2);
    commit_window(win);
    assert_int_equal(ftruncate(fd, (off_t)(bytes / 2)), 0);
    at[0] = 2;
    assert_int_equal(storwin_commit(win, &err), -EFAULT);
    assert_int_equal(err.offset, bytes / 2);
    assert_int_equal(storwin_commit_start(win, &err), -EFAULT);
    discard(win);
    munmap(at, bytes);
    close(fd);
    unlink(opts.filename);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adopted),        cmocka_unit_test(mapped_anew),
        cmocka_unit_test(shared_memory),  cmocka_unit_test(unreadable),
        cmocka_unit_test(protected_edge), cmocka_unit_test(shortened_file),
    };

    commit_test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
