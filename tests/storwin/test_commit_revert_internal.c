/* SPDX-License-Identifier: BSD-3-Clause */
/* storwin_revert(), and a file that is shortened under its window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "commit_test_internal.h"

#include <linux/userfaultfd.h>
#include <sys/mman.h>

static unsigned n_reads;
static off_t unreadable; /* in the file; 0: none */
/* A page into which another thread stores, and which it protects, before the next read. */
static uint8_t *taken_away;
ssize_t __real_preadv(int fd, const struct iovec *iov, int n, off_t offset);
ssize_t __wrap_preadv(int fd, const struct iovec *iov, int n, off_t offset);
ssize_t __wrap_preadv(int fd, const struct iovec *iov, int n, off_t offset)
{
    off_t end = offset;

    n_reads++;
    if (taken_away) {
        *taken_away ^= 1;
        (void)mprotect(taken_away, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE);
        taken_away = NULL;
    }
    for (int i = 0; i < n; i++)
        end += (off_t)iov[i].iov_len;
    if (unreadable >= offset && unreadable < end) {
        errno = EIO;
        return -1;
    }
    return __real_preadv(fd, iov, n, offset);
}

static atomic_uint n_protects;
static atomic_uint_least64_t unprotectable; /* an address; 0: none */
int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    n_protects += request == UFFDIO_WRITEPROTECT;
    if (request == UFFDIO_WRITEPROTECT && unprotectable > 0) {
        const struct uffdio_writeprotect *wp = arg;

        if (wp->mode == UFFDIO_WRITEPROTECT_MODE_WP &&
            unprotectable - wp->range.start < wp->range.len) {
            errno = ENOENT;
            return -1;
        }
    }
    return __real_ioctl(fd, request, arg);
}

/* A window comes back to its last commit, in place, whatever commits and failures were before. */
static void reverts_of(uint32_t atomic, unsigned without)
{
    struct storwin_opts opts = commit_opts(atomic);
    uint8_t *model = malloc(BYTES), *base;
    struct storwin_window *win;
    struct storwin_error err;
    uint64_t rng = 3 + atomic + without;

    atomic_store(&storwin__without, without);
    win = alloc_window(&opts, BYTES);
    base = storwin_base(win);
    base[3] = 3;
    assert_int_equal(storwin_revert(win, &err), STORWIN_ENONE);
    assert_int_equal(base[3], 3);
    for (unsigned round = 0; round < 40; round++) {
        const unsigned n = round % 8 == 5 ? 3000 : round % 5 * 2;

        for (unsigned i = 0; i < n; i++)
            base[test_random(&rng) % BYTES] = (uint8_t)test_random(&rng);
        commit_window(win);
        memcpy(model, base, BYTES);
        for (unsigned i = 0; i < 1 + round % 3 * 20; i++)
            base[test_random(&rng) % BYTES] ^= 1;
        if (round % 4 == 3) { /* it may have written data to the other area */
            failing_flush = 1;
            assert_int_equal(storwin_commit(win, &err), -EIO);
            base[test_random(&rng) % BYTES] ^= 1;
        }
        assert_int_equal(storwin_revert(win, &err), 0);
        assert_memory_equal(base, model, BYTES);
        if (without < STORWIN__NO_SCAN) { /* nothing counts as changed */
            const uint64_t generation = window_info(win).generation;

            commit_window(win);
            assert_int_equal(window_info(win).generation, generation);
        }
        if (round % 9 == 8) {
            memset(base, 'x', BYTES);
            discard(win);
            win = alloc_window(&opts, BYTES);
            base = storwin_base(win);
            assert_memory_equal(base, model, BYTES);
        }
    }
    /* A failed record: the commit counts. */
    base[9] ^= 1;
    memcpy(model, base, BYTES);
    failing_flush = 2;
    assert_int_equal(storwin_commit(win, &err), -EIO);
    base[9] ^= 2;
    assert_int_equal(storwin_revert(win, &err), 0);
    assert_memory_equal(base, model, BYTES);
    discard(win);
    win = alloc_window(&opts, BYTES + 100000); /* longer: the memory behind is kept */
    base = storwin_base(win);
    memset(base, 'x', BYTES + 5);
    assert_int_equal(storwin_revert(win, &err), 0);
    assert_memory_equal(base, model, BYTES);
    assert_memory_equal(base + BYTES, "xxxxx", 6);
    commit_window(win);
    base[0] ^= 1;
    assert_int_equal(truncate(opts.filename, 200000), 0);
    assert_int_equal(storwin_revert(win, &err), STORWIN_ESHORT);
    assert_int_equal(base[0], model[0] ^ 1);
    failing_flush = 1;
    assert_int_equal(storwin_commit(win, &err), -EIO);
    assert_int_equal(storwin_revert(win, &err), STORWIN_ESHORT);
    assert_int_equal(base[0], model[0] ^ 1);
    commit_window(win);
    assert_int_equal(storwin_revert(win, &err), 0);
    discard(win);
    unlink(opts.filename);
    free(model);
}

static void reverts(void **state)
{
    for (unsigned a = 0; a < 3; a++)
        for (unsigned w = 0; w < N_WITHOUTS; w++)
            reverts_of(atomics[a], withouts[w]);
    atomic_store(&storwin__without, STORWIN__NO_DIRECT);
}

/* The program has protected a page: no revert can read into it, and none ends the process. Without
 * the protection the next one succeeds. */
static void protected_page(void **state)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    for (unsigned i = 0; i < 2 * N_WITHOUTS; i++) {
        struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO);
        struct storwin_window *win;
        uint8_t *base;

        atomic_store(&storwin__without, withouts[i / 2]);
        win = alloc_window(&opts, BYTES);
        fill(storwin_base(win), BYTES, 1);
        commit_window(win);
        if (i % 2) { /* it is read whole */
            discard(win);
            win = alloc_window(&opts, BYTES + 100000);
        }
        base = storwin_base(win);
        base[3 * page] ^= 1;
        base[6 * page] ^= 1;
        assert_int_equal(mprotect(base + 3 * page, page, PROT_READ), 0);
        assert_int_equal(storwin_revert(win, NULL), -EFAULT);
        assert_int_equal(mprotect(base + 3 * page, page, PROT_READ | PROT_WRITE), 0);
        assert_int_equal(storwin_revert(win, NULL), 0);
        assert_true(holds(base, BYTES, 1));
        if (i % 2 == 0) { /* protected meanwhile */
            base[3 * page] ^= 1;
            taken_away = base + 6 * page;
            assert_int_equal(storwin_revert(win, NULL), -EFAULT);
            assert_int_equal(mprotect(base + 6 * page, page, PROT_READ | PROT_WRITE), 0);
            assert_int_equal(storwin_revert(win, NULL), 0);
            assert_true(holds(base, BYTES, 1));
        }
        base[3 * page] ^= 1; /* it is tracked again */
        commit_window(win);
        discard(win);
        win = alloc_window(&opts, BYTES + 100000);
        base = storwin_base(win);
        base[3 * page] ^= 1;
        assert_true(holds(base, BYTES, 1));
        discard(win);
        unlink(opts.filename);
    }
    atomic_store(&storwin__without, STORWIN__NO_DIRECT);
}

/* Changes three bytes of each of n pages, `step` apart. */
static void change_pages(uint8_t *base, uint64_t page, unsigned n, uint64_t step)
{
    for (unsigned i = 0; i < n; i++, base += step * page) {
        base[0] ^= 1;
        base[i * 7 % page] ^= 2;
        base[page - 1] ^= 4;
    }
}

/* Changed pages that are far apart come back by few reads, and what is between them stays: the home
 * area has another content there. The reads are of at most 1,024 pieces. */
static void scattered_of(unsigned without, uint64_t shift)
{
    static const unsigned counts[] = {1, 511, 512, 513, 550};
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), gap = 65536 / page;
    const uint64_t bytes = 1300 * page + 5;
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_JOURNAL);
    uint8_t *model = malloc(bytes), *memory = aligned_alloc(page, bytes / page * page + 2 * page);
    uint8_t *base = memory + shift;
    struct storwin_window *win;
    uint64_t home;

    atomic_store(&storwin__without, without);
    assert_int_equal(storwin_adopt(base, bytes, &opts, &win, NULL), 0);
    fill(base, bytes, 1);
    commit_window(win);
    change_pages(base + page, page, 550, 2); /* into the journal */
    commit_window(win);
    memcpy(model, base, bytes);
    assert_true(win->commit->last.journal_bytes > 0);
    home = opts.offset_bytes + storwin__area_at(&win->commit->last, win->commit->last.home);
    write_file(opts.filename, home + page, "damage", 6); /* older data than the commit's */
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const unsigned n = counts[i];

        change_pages(base, page, n, 2);
        n_reads = 0;
        assert_int_equal(storwin_revert(win, NULL), 0);
        assert_memory_equal(base, model, bytes);
        if (shift == 0 && without == STORWIN__NO_DIRECT)
            assert_int_equal(n_reads, 1 + (n > 512));
    }
    for (uint64_t g = gap - 1; g <= gap + 1; g++) {
        change_pages(base, page, 3, g + 1);
        base[bytes - 1] ^= 1;
        n_reads = 0;
        assert_int_equal(storwin_revert(win, NULL), 0);
        assert_memory_equal(base, model, bytes);
        if (shift == 0 && without == STORWIN__NO_DIRECT)
            assert_int_equal(n_reads, g <= gap ? 2 : 4);
    }
    /* A page in the middle cannot be read: all still count as changed. One between them does not
     * matter. With a shift, that one may count as changed, too. */
    for (unsigned i = shift > 0; i < 2; i++) {
        change_pages(base, page, 550, 2);
        unreadable = (off_t)(home + (i ? 600 : 601) * page + 9);
        assert_int_equal(storwin_revert(win, NULL), i ? -EIO : 0);
        unreadable = 0;
        assert_int_equal(storwin_revert(win, NULL), 0);
        assert_memory_equal(base, model, bytes);
    }
    if (shift == 0) { /* else the page may be in the journal, too */
        write_file(opts.filename, home + 600 * page, "damage", 6);
        change_pages(base, page, 550, 2);
        assert_int_equal(storwin_revert(win, NULL), STORWIN_EDAMAGED);
    }
    fill(base, bytes, 2);
    commit_window(win);
    change_pages(base, page, 550, 2);
    assert_int_equal(storwin_revert(win, NULL), 0);
    assert_true(holds(base, bytes, 2));
    discard(win);
    unlink(opts.filename);
    free(memory);
    free(model);
}

static void scattered(void **state)
{
    for (unsigned w = 0; w < N_WITHOUTS; w++)
        for (uint64_t shift = 0; shift <= 16; shift += 16)
            scattered_of(withouts[w], shift);
    atomic_store(&storwin__without, STORWIN__NO_DIRECT);
}

/* A commit and a revert protect changed pages and those between them in one range. If one page
 * cannot be protected, only that one counts as changed. */
static void unprotected_page(void **state)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_JOURNAL);
    struct storwin_window *win;
    uint8_t *base;

    atomic_store(&storwin__without, STORWIN__NO_SCAN);
    win = alloc_window(&opts, BYTES);
    base = storwin_base(win);
    if (win->track == STORWIN_TRACK_FAULTS) {
        fill(base, BYTES, 1);
        commit_window(win);
        for (unsigned i = 0; i < 2; i++) {
            change_pages(base, page, 4, 3);
            n_protects = 0;
            assert_int_equal(i ? storwin_revert(win, NULL) : storwin_commit(win, NULL), 0);
            assert_int_equal(n_protects, 1);
        }
        for (unsigned i = 0; i < 4; i++) { /* pages changed and not */
            unprotectable = (uint64_t)(uintptr_t)base + (3 + i / 2) * page + 1;
            change_pages(base, page, 4, 3);
            if (i % 2)
                assert_int_equal(storwin_revert(win, NULL), 0);
            else
                commit_window(win);
            assert_int_equal(storwin__find_changes(win, 1, NULL), 0);
            assert_int_equal(storwin__set_count(win->commit->changed, 0, storwin__pages(win)),
                             i / 2 == 0);
            unprotectable = 0;
            commit_window(win);
            assert_int_equal(storwin__find_changes(win, 1, NULL), 0);
            assert_int_equal(storwin__set_count(win->commit->changed, 0, storwin__pages(win)), 0);
            change_pages(base, page, 4, 3); /* each is tracked */
            assert_int_equal(storwin__find_changes(win, 1, NULL), 0);
            assert_int_equal(storwin__set_count(win->commit->changed, 0, storwin__pages(win)), 4);
            assert_int_equal(storwin_revert(win, NULL), 0);
        }
    }
    discard(win);
    unlink(opts.filename);
    atomic_store(&storwin__without, STORWIN__NO_DIRECT);
}

/* The memory before the storage part is not committed, and does not come back. */
static void combined(void **state)
{
    for (unsigned a = 0; a < 3; a++) {
        struct storwin_opts opts = commit_opts(atomics[a]);
        struct storwin_info info;
        struct storwin_window *win;
        uint8_t *base;

        opts.factor_ppb = STORWIN_FACTOR_ONE / 2;
        win = alloc_window(&opts, BYTES);
        base = storwin_base(win);
        info = window_info(win);
        assert_in_range(info.memory_bytes, 1, BYTES - 1);
        fill(base, BYTES, 1);
        commit_window(win);
        for (uint64_t at = 5; at < BYTES; at += 50000) /* into the journal, if there is one */
            base[at] ^= 1;
        commit_window(win);
        memset(base, 'x', BYTES);
        assert_int_equal(storwin_revert(win, NULL), 0);
        for (uint64_t at = 0; at < info.memory_bytes; at++)
            assert_int_equal(base[at], 'x');
        fill(base, info.memory_bytes, 1);
        for (uint64_t at = 5; at < BYTES; at += 50000)
            base[at] ^= at >= info.memory_bytes;
        assert_true(holds(base, BYTES, 1));
        discard(win);
        unlink(opts.filename);
    }
}

/* Somebody shortens the file under the window: the next commit writes all of it again, and reserves
 * the space of the areas unless the file is sparse. */
static void shortened(void **state)
{
    for (unsigned a = 0; a < 3; a++)
        for (unsigned i = 0; i < 6; i++) {
            struct storwin_opts opts = commit_opts(atomics[a]);
            const unsigned to = i / 2;
            struct storwin_window *win;
            struct stat st;
            uint64_t size;

            opts.flags = i % 2 ? STORWIN_SPARSE : 0;
            win = alloc_window(&opts, BYTES);
            for (unsigned g = 1; g <= 3; g++) {
                if (g == 1)
                    fill(storwin_base(win), BYTES, 1);
                else
                    ((uint8_t *)storwin_base(win))[70000] ^= 1;
                commit_window(win);
            }
            if (atomics[a] == STORWIN_ATOMIC_JOURNAL) /* nothing was written twice so far */
                assert_int_equal(win->commit->last.home_generation, 1);
            size = file_size(opts.filename);
            assert_int_equal(truncate(opts.filename, to == 0 ? 0 : to == 1 ? 140000 : 300000), 0);
            if (to == 0)
                ((uint8_t *)storwin_base(win))[BYTES - 1] ^= 2;
            commit_window(win);
            assert_int_equal(stat(opts.filename, &st), 0);
            assert_int_equal(st.st_size, size);
            assert_int_equal((uint64_t)st.st_blocks * 512 < size - STORWIN__FIRST_AREA, i % 2);
            assert_int_equal(window_info(win).generation, 4);
            discard(win);
            win = alloc_window(&opts, BYTES);
            if (to == 0)
                ((uint8_t *)storwin_base(win))[BYTES - 1] ^= 2;
            assert_true(holds(storwin_base(win), BYTES, 1));
            assert_int_equal(window_info(win).generation, 4);
            discard(win);
            unlink(opts.filename);
        }
}

/* Somebody cuts off the journal, which has a part of the last commit: no revert changes the window.
 * By then the file may be open for commits without a journal, also in a longer window. */
static void shortened_journal(void **state)
{
    for (unsigned i = 0; i < 6; i++) {
        struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_JOURNAL);
        struct storwin_window *win = alloc_window(&opts, BYTES);
        struct storwin__record last;
        uint8_t *base = storwin_base(win);

        fill(base, BYTES, 1);
        commit_window(win);
        base[70000] ^= 1;
        commit_window(win);
        last = win->commit->last;
        assert_true(last.journal_bytes > 0);
        if (i / 2) {
            discard(win);
            opts.atomic = STORWIN_ATOMIC_SLOTS;
            win = alloc_window(&opts, i < 4 ? BYTES : BYTES + 100000);
            base = storwin_base(win);
        }
        base[70000] ^= 2;
        assert_int_equal(storwin_revert(win, NULL), 0);
        base[70000] ^= 2;
        assert_int_equal(truncate(opts.filename, (off_t)(storwin__area_at(&last, 2) +
                                                         (i % 2 ? last.journal_bytes - 1 : 0))),
                         0);
        assert_int_equal(storwin_revert(win, NULL), STORWIN_ESHORT);
        base[70000] ^= 3;
        assert_true(holds(base, BYTES, 1));
        discard(win);
        unlink(opts.filename);
    }
}

/* The journal is damaged under a window that has become longer: no revert returns a part of the
 * commit. */
static void damaged_twice(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_JOURNAL);
    struct storwin_window *win = alloc_window(&opts, BYTES);
    const struct storwin__record *last = &win->commit->last;
    uint64_t at = 0; /* of the last batch in the file */

    for (unsigned g = 1; g <= 3; g++) {
        at = opts.offset_bytes + storwin__area_at(last, 2) + last->journal_bytes;
        ((uint8_t *)storwin_base(win))[g * 70000] = 1;
        commit_window(win);
    }
    discard(win);
    win = alloc_window(&opts, BYTES + 100000);
    write_file(opts.filename, at, "damage", 6);
    for (unsigned tries = 0; tries < 2; tries++)
        assert_int_equal(storwin_revert(win, NULL), STORWIN_EDAMAGED);
    discard(win);
    unlink(opts.filename);
}

/* The home area is damaged under a window that has become longer: the revert fails, and the next
 * commit is whole. */
static void damaged_home(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_SLOTS);
    struct storwin_window *win = alloc_window(&opts, BYTES);

    fill(storwin_base(win), BYTES, 1);
    commit_window(win);
    discard(win);
    win = alloc_window(&opts, BYTES + 100000);
    write_file(opts.filename, opts.offset_bytes + STORWIN__FIRST_AREA + 5000, "damage", 6);
    assert_int_equal(storwin_revert(win, NULL), STORWIN_EDAMAGED);
    fill(storwin_base(win), BYTES + 100000, 2);
    commit_window(win);
    discard(win);
    win = alloc_window(&opts, BYTES + 100000);
    assert_true(holds(storwin_base(win), BYTES + 100000, 2));
    discard(win);
    unlink(opts.filename);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reverts),           cmocka_unit_test(protected_page),
        cmocka_unit_test(combined),          cmocka_unit_test(shortened),
        cmocka_unit_test(shortened_journal), cmocka_unit_test(damaged_twice),
        cmocka_unit_test(damaged_home),      cmocka_unit_test(scattered),
        cmocka_unit_test(unprotected_page),
    };

    commit_test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
