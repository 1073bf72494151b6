/* SPDX-License-Identifier: BSD-3-Clause */
/* Combined windows: every small size, factor and order against a map made page by page; sizes at
 * the limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/mman.h>

#include "storwin_test.h"

static uint64_t page;

/* The nearest number of pages, a half up, with nothing lost: |2 * (k * 10^9 - pages * ppb)| is
 * least. */
static uint64_t naive_pages(uint64_t pages, uint32_t ppb)
{
    for (uint64_t k = 0;; k++)
        if (2 * pages * ppb < (2 * k + 1) * UINT64_C(1000000000))
            return k;
}

/* The parts follow each other, and their descriptors hold what the window does. The window is
 * synced. */
static void check_parts(const struct storwin_window *win, int memfd, int kernel)
{
    uint8_t *base = storwin_base(win);
    struct storwin_info_part part;
    uint64_t at = 0;
    uint32_t i;

    for (i = 0, part.size = sizeof(part); storwin_part_query(win, i, &part) == 0; i++) {
        uint8_t *map = MAP_FAILED;

        assert_int_equal(part.offset, at);
        assert_int_equal(part.fd >= 0, part.kind == STORWIN_STORAGE || memfd);
        assert_int_equal(part.coherent, part.fd >= 0 && (part.kind == STORWIN_MEMORY || kernel));
        if (part.fd >= 0) {
            map = mmap(NULL, part.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, part.fd,
                       (off_t)part.fd_offset);
            assert_ptr_not_equal(map, MAP_FAILED);
            assert_memory_equal(map, base + at, part.bytes);
        }
        if (part.coherent) {
            map[part.bytes - 1] ^= 0x55;
            assert_int_equal(base[at + part.bytes - 1], map[part.bytes - 1]);
            base[at] ^= 0xaa;
            assert_int_equal(base[at], map[0]);
        }
        if (part.fd >= 0 && part.kind == STORWIN_MEMORY)
            assert_true(ftruncate(part.fd, 0) < 0); /* sealed */
        if (map != MAP_FAILED)
            munmap(map, part.bytes);
        at += part.bytes;
        part = (struct storwin_info_part){.size = sizeof(part)};
    }
    assert_int_equal(at, window_bytes(win));
    assert_int_equal(storwin_part_query(win, i, &part), STORWIN_ERANGE);
}

/* The part that holds the byte at an offset. */
static struct storwin_info_part part_of(const struct storwin_window *win, uint64_t offset)
{
    struct storwin_info_part part = {.size = sizeof(part)};

    for (uint32_t i = 0; storwin_part_query(win, i, &part) == 0; i++)
        if (offset >= part.offset && offset - part.offset < part.bytes)
            return part;
    fail_msg("no part has the byte at %lu", (unsigned long)offset);
    return part;
}

/* storwin_part_query()'s answer for each byte's page, the memory that a store reaches, and the
 * file's contents agree. */
static void check_window(uint64_t bytes, uint32_t ppb, uint32_t order, uint32_t pager)
{
    const char *path = test_path("layout");
    struct storwin_opts opts = storage_opts(path);
    const uint64_t pages = (bytes + page - 1) / page, storage = naive_pages(pages, ppb);
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win;
    const int memfd = pages % 2 == 0;
    uint64_t in_storage = 0;
    uint8_t *base;

    opts.factor_ppb = ppb;
    opts.order = order;
    opts.pager = pager;
    opts.budget_bytes = STORWIN_MIN_BUDGET;
    opts.flags = STORWIN_UNLINK | (memfd ? STORWIN_MEMFD : 0);
    assert_int_equal(storwin_alloc(&opts, bytes, &win, NULL), 0);
    base = storwin_base(win);
    assert_int_equal(window_bytes(win), bytes);
    assert_int_equal((uintptr_t)base % page, 0);
    for (uint64_t p = 0; p < pages; p++) {
        int here = order == STORWIN_STORAGE_FIRST ? p < storage : p >= pages - storage;
        uint64_t first = order == STORWIN_STORAGE_FIRST ? 0 : pages - storage;
        uint64_t last = p + 1 < pages ? (p + 1) * page - 1 : bytes - 1;

        for (int end = 0; end < 2; end++) {
            const struct storwin_info_part part = part_of(win, end ? last : p * page);

            assert_int_equal(part.kind, here ? STORWIN_STORAGE : STORWIN_MEMORY);
            assert_true(part.offset <= p * page && part.offset + part.bytes > last);
            if (here)
                assert_int_equal(part.fd_offset + p * page - part.offset, (p - first) * page);
        }
        memset(base + p * page, (int)(p * 7 + 1), last + 1 - p * page);
        in_storage += here ? last + 1 - p * page : 0;
    }
    storwin_query(win, &info);
    assert_int_equal(info.storage_bytes, in_storage);
    assert_int_equal(info.memory_bytes + info.storage_bytes, bytes);
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
    if (in_storage > 0) {
        uint8_t *copy = malloc(in_storage);

        assert_int_equal(file_size(path), in_storage);
        read_file(path, 0, copy, in_storage);
        assert_memory_equal(copy,
                            base + (order == STORWIN_STORAGE_FIRST ? 0 : (pages - storage) * page),
                            in_storage);
        free(copy);
    } else {
        assert_int_equal(file_size(path), UINT64_MAX);
    }
    check_parts(win, memfd, pager == STORWIN_PAGER_KERNEL);
    assert_int_equal(storwin_free(win, NULL), 0);
    assert_int_equal(file_size(path), UINT64_MAX);
}

/* A window in memory, callers with an older and a newer header, and refused calls. */
static void parts(void **state)
{
    struct storwin_opts opts;
    struct storwin_window *win;
    struct storwin_info_part part = {.size = sizeof(part) - 1, .bytes = 99};
    struct {
        struct storwin_info_part part;
        uint64_t more;
    } longer;
    char value[8];

    storwin_opts_init(&opts);
    opts.flags = STORWIN_MEMFD;
    assert_int_equal(storwin_alloc(&opts, 3 * page + 5, &win, NULL), 0);
    assert_int_equal(storwin_hint_query(win, "storage_alloc_memfd", value, sizeof(value)), 4);
    assert_string_equal(value, "true");
    memset(storwin_base(win), 'm', 3 * page + 5);
    check_parts(win, 1, 0);
    assert_int_equal(storwin_part_query(win, 0, &part), -EINVAL);
    assert_int_equal(part.bytes, 99);
    part.size = 0;
    assert_int_equal(storwin_part_query(win, 0, &part), -EINVAL);
    memset(&longer, 0x77, sizeof(longer));
    longer.part.size = sizeof(longer);
    assert_int_equal(storwin_part_query(win, 0, &longer.part), 0);
    assert_int_equal(longer.part.size, sizeof(longer));
    assert_int_equal(longer.part.bytes, 3 * page + 5);
    assert_int_equal(longer.more, 0x7777777777777777); /* what this release does not know */
    assert_int_equal(storwin_part_query(win, 0, NULL), -EINVAL);
    assert_int_equal(storwin_part_query(NULL, 0, &part), -EINVAL);
    assert_int_equal(storwin_free(win, NULL), 0);
}

/* Without a standard input the memory's descriptor is 0. */
static void descriptor_zero(void **state)
{
    const int input = fcntl(0, F_DUPFD_CLOEXEC, 3);
    struct storwin_info_part part = {.size = sizeof(part)};
    struct storwin_opts opts;
    struct storwin_window *win;

    close(0);
    storwin_opts_init(&opts);
    opts.flags = STORWIN_MEMFD;
    assert_int_equal(storwin_alloc(&opts, 3 * page, &win, NULL), 0);
    assert_int_equal(storwin_part_query(win, 0, &part), 0);
    assert_int_equal(part.fd, 0);
    check_parts(win, 1, 0);
    assert_int_equal(storwin_free(win, NULL), 0);
    assert_int_equal(fcntl(0, F_GETFD), -1);
    if (input >= 0)
        assert_int_equal(dup2(input, 0), 0);
    close(input);
}

/* Descriptors that a program started by this one would have. */
static unsigned count_inherited(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 256; fd++) {
        const int flags = fcntl(fd, F_GETFD);

        n += flags >= 0 && !(flags & FD_CLOEXEC);
    }
    return n;
}

static void close_on_exec(void **state)
{
    const unsigned before = count_inherited();

    for (uint32_t pager = 0; pager < test_pagers; pager++)
        for (unsigned commits = 0; commits < 2; commits++) {
            struct storwin_opts opts = storage_opts(test_path("inherited"));
            struct storwin_window *win, *reader = NULL;

            opts.pager = pager;
            opts.factor_ppb = STORWIN_FACTOR_ONE / 2;
            opts.flags = STORWIN_UNLINK | STORWIN_MEMFD;
            if (commits && pager != STORWIN_PAGER_RESIDENT)
                continue;
            opts.atomic = commits ? STORWIN_ATOMIC_AUTO : STORWIN_ATOMIC_NONE;
            assert_int_equal(storwin_alloc(&opts, 20 * page, &win, NULL), 0);
            memset(storwin_base(win), 1, 20 * page);
            assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
            assert_true(storwin_commit_fd(win, NULL) >= 0);
            if (commits)
                assert_int_equal(storwin_open_read(&opts, &reader, NULL), 0);
            assert_int_equal(count_inherited(), before);
            assert_int_equal(storwin_free(reader, NULL), 0);
            assert_int_equal(storwin_free(win, NULL), 0);
        }
}

static void every_small_size(void **state)
{
    static const uint32_t factors[] = {0,         1,         249999999, 250000000,
                                       333333333, 499999999, 500000000, 500000001,
                                       666666667, 800000000, 999999999, 1000000000};

    for (uint64_t pages = 0; pages <= 9; pages++)
        for (int delta = -1; delta <= 1; delta++)
            for (unsigned f = 0; f < sizeof(factors) / sizeof(factors[0]); f++)
                for (uint32_t order = 0; order < 2; order++)
                    if (pages > 0 || delta >= 0)
                        check_window(pages * page + (uint64_t)delta, factors[f], order,
                                     f % 4 == 0 ? (uint32_t)(pages % test_pagers)
                                                : STORWIN_PAGER_KERNEL);
}

static void zero_and_one(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("small"));
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_info_part part = {.size = sizeof(part)};
    struct storwin_window *win;

    for (uint32_t pager = 0; pager < test_pagers; pager++) {
        opts.pager = pager;
        assert_int_equal(storwin_alloc(&opts, 0, &win, NULL), 0);
        assert_null(storwin_base(win));
        assert_int_equal(storwin_part_query(win, 0, &part), STORWIN_ERANGE);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        assert_int_equal(storwin_sync(win, 0, 0, NULL), 0);
        assert_int_equal(storwin_sync(win, 0, 1, NULL), STORWIN_ERANGE);
        assert_int_equal(storwin_sync_start(win, 0, 0, NULL), 0);
        assert_int_equal(storwin_sync_wait(win, NULL), 0);
        assert_int_equal(storwin_free(win, NULL), 0);

        assert_int_equal(storwin_alloc(&opts, 1, &win, NULL), 0);
        *(char *)storwin_base(win) = 'x';
        assert_int_equal(storwin_free(win, NULL), 0); /* syncs */
        assert_int_equal(file_size(opts.filename), 1);
        read_file(opts.filename, 0, &(char){0}, 1);
        assert_int_equal(storwin_alloc(&opts, 1, &win, NULL), 0);
        assert_int_equal(*(char *)storwin_base(win), 'x');
        storwin_query(win, &info);
        assert_int_equal(info.created, 0);
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(opts.filename);
    }
    assert_int_equal(storwin_alloc(NULL, 0, &win, NULL), 0);
    assert_int_equal(storwin_free(win, NULL), 0);
    assert_int_equal(storwin_free(NULL, NULL), 0);
    assert_int_equal(storwin_alloc(NULL, STORWIN_MAX_BYTES + 1, &win, NULL), -EINVAL);
    assert_int_equal(storwin_alloc(NULL, UINT64_MAX, &win, NULL), -EINVAL);
    assert_int_equal(storwin_alloc(NULL, 1, NULL, NULL), -EINVAL);
}

static void automatic(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("auto"));
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win;
    char text[32];

    opts.factor_ppb = STORWIN_FACTOR_AUTO;
    opts.memory_bytes = 5 * page + 17;
    opts.flags = STORWIN_UNLINK;
    for (uint64_t pages = 1; pages <= 12; pages++) {
        assert_int_equal(storwin_alloc(&opts, pages * page, &win, NULL), 0);
        storwin_query(win, &info);
        assert_int_equal(info.memory_bytes, (pages < 5 ? pages : 5) * page);
        assert_int_equal(info.factor_ppb, STORWIN_FACTOR_AUTO);
        assert_true(storwin_hint_query(win, "storage_alloc_factor", text, sizeof(text)) > 0);
        assert_string_equal(text, pages <= 5 ? "0" : pages == 10 ? "0.5" : text);
        assert_int_equal(file_size(opts.filename), pages <= 5 ? UINT64_MAX : (pages - 5) * page);
        assert_int_equal(storwin_free(win, NULL), 0);
    }
    /* A page certainly fits into this machine's memory. */
    opts.memory_bytes = 0;
    assert_int_equal(storwin_alloc(&opts, page, &win, NULL), 0);
    storwin_query(win, &info);
    assert_int_equal(info.storage_bytes, 0);
    assert_int_equal(storwin_free(win, NULL), 0);
}

/* Two windows on one file; the second begins where the first ends, in the middle of neither. */
static void two_on_one_file(void **state)
{
    const char *path = test_path("both");
    struct storwin_opts a = storage_opts(path), b = storage_opts(path);
    struct storwin_window *wa, *wb;
    uint8_t *copy = malloc(7 * page);

    for (uint32_t pager = 0; pager < test_pagers; pager++) {
        a.pager = b.pager = pager;
        a.offset_bytes = 4 * page; /* the later one first: the file grows in front of nobody */
        b.offset_bytes = page;
        assert_int_equal(storwin_alloc(&a, 3 * page, &wa, NULL), 0);
        assert_int_equal(file_size(path), 7 * page);
        assert_int_equal(storwin_alloc(&b, 3 * page - 5, &wb, NULL), 0);
        memset(storwin_base(wa), 'a' + (int)pager, 3 * page);
        memset(storwin_base(wb), 'm' + (int)pager, 3 * page - 5);
        assert_int_equal(storwin_sync(wb, 0, STORWIN_TO_END, NULL), 0);
        assert_int_equal(storwin_sync(wa, 0, STORWIN_TO_END, NULL), 0);
        assert_int_equal(file_size(path), 7 * page);
        read_file(path, 0, copy, 7 * page);
        for (uint64_t i = 0; i < 7 * page; i++) {
            int want = i < page || (i >= 4 * page - 5 && i < 4 * page) ? 0
                       : i < 4 * page                                  ? 'm' + (int)pager
                                                                       : 'a' + (int)pager;

            assert_int_equal(copy[i], want);
        }
        assert_int_equal(storwin_free(wa, NULL), 0);
        assert_int_equal(storwin_free(wb, NULL), 0);
        unlink(path);
    }
    free(copy);
}

/* Longer than this machine's memory, sparse, with a few pages touched. */
static void larger_than_memory(void **state)
{
    const uint64_t bytes = UINT64_C(1) << 40;
    const char *path = test_path("large");
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win;
    struct stat st;
    void *room = bytes > SIZE_MAX ? MAP_FAILED
                                  : mmap(NULL, (size_t)bytes, PROT_NONE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (room == MAP_FAILED) {
        print_message("skip: no address space of 1 TiB (a limit, or valgrind)\n");
        skip();
    }
    munmap(room, (size_t)bytes);
    for (uint32_t pager = 0; pager < test_pagers; pager += 2) {
        uint8_t byte;

        opts.pager = pager;
        opts.flags = STORWIN_SPARSE;
        opts.budget_bytes = UINT64_C(4) << 20;
        assert_int_equal(storwin_alloc(&opts, bytes, &win, NULL), 0);
        for (uint64_t at = 12345; at < bytes; at += bytes / 37)
            ((uint8_t *)storwin_base(win))[at] = (uint8_t)(at % 251 + 1);
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        for (uint64_t at = 12345; at < bytes; at += bytes / 37) {
            read_file(path, at, &byte, 1);
            assert_int_equal(byte, at % 251 + 1);
        }
        assert_int_equal(stat(path, &st), 0);
        assert_true(st.st_blocks < 65536 * 2); /* 512 bytes each: still a sparse file */
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_size), cmocka_unit_test(parts),
        cmocka_unit_test(zero_and_one),     cmocka_unit_test(automatic),
        cmocka_unit_test(two_on_one_file),  cmocka_unit_test(larger_than_memory),
        cmocka_unit_test(descriptor_zero),  cmocka_unit_test(close_on_exec),
    };

    page = (uint64_t)sysconf(_SC_PAGESIZE);
    test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
