/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints by commits: their cost, storwin_file_query() on a file's states, the states that
 * open, and the distinction between damage and an interrupted commit. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <sys/mman.h>
#include <sys/wait.h>

#include "../../libstorwin/src/commit.h"
#include "../../libstorwin/src/sum.h"
#include "storwin_test.h"

#define BYTES (UINT64_C(1) << 20)

static const uint32_t atomics[] = {STORWIN_ATOMIC_JOURNAL, STORWIN_ATOMIC_SLOTS,
                                   STORWIN_ATOMIC_AUTO};

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    (void)fd; /* a process that is not killed needs none, and disks are slow */
    return 0;
}

static unsigned names_synced, name_fails;
static off_t bad_sector = -1;

int __wrap_fsync(int fd);
int __wrap_fsync(int fd) /* the library calls it for names alone */
{
    names_synced++;
    return name_fails > 0 && name_fails-- > 0 ? (errno = EIO, -1) : 0;
}

ssize_t __real_pread(int fd, void *to, size_t bytes, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t offset)
{
    if (offset <= bad_sector && bad_sector < offset + (off_t)bytes) {
        errno = EIO;
        return -1;
    }
    return __real_pread(fd, to, bytes, offset);
}

static struct storwin_opts stored_opts(uint32_t atomic)
{
    struct storwin_opts opts = storage_opts(test_path("stored"));

    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = atomic;
    opts.flags = STORWIN_DISCARD;
    return opts;
}

static struct storwin_window *open_state(const struct storwin_opts *opts, uint64_t bytes)
{
    struct storwin_window *win;
    struct storwin_error err;

    if (storwin_alloc(opts, bytes, &win, &err) < 0)
        fail_msg("%s: %s", err.hint, err.text);
    return win;
}

static void close_state(struct storwin_window *win)
{
    assert_int_equal(storwin_free(win, NULL), 0);
}

static int refused(const struct storwin_opts *opts, uint64_t bytes)
{
    struct storwin_window *win = NULL;
    struct storwin_error err;
    int rc = storwin_alloc(opts, bytes, &win, &err);

    assert_null(win);
    assert_int_equal(rc, err.code);
    assert_true(err.text[0] != 0);
    return rc;
}

static struct storwin_info_file file_info(const struct storwin_opts *opts)
{
    struct storwin_info_file info = {.size = sizeof(info)};
    struct storwin_error err;

    if (storwin_file_query(opts, &info, &err) < 0)
        fail_msg("%s: %s", err.hint, err.text);
    return info;
}

/* No report, and no write. */
static int no_info(const struct storwin_opts *opts)
{
    struct storwin_info_file info = {.size = sizeof(info), .generation = 77};
    struct storwin_error err = {.code = 0};
    int rc = storwin_file_query(opts, &info, &err);

    assert_int_equal(info.generation, 77);
    assert_int_equal(rc, err.code);
    assert_true(rc < 0 && err.text[0] != 0);
    return rc;
}

static void commit_state(struct storwin_window *win, uint64_t generation)
{
    test_state(generation, storwin_base(win), BYTES);
    assert_int_equal(storwin_commit(win, NULL), 0);
    assert_int_equal(window_generation(win), generation);
}

static int holds(const struct storwin_window *win, uint64_t generation)
{
    static uint8_t want[BYTES];

    test_state(generation, want, BYTES);
    return memcmp(storwin_base(win), want, BYTES) == 0;
}

/* One page in a hundred of 16 MiB changes: the written bytes follow that, and no address
 * changes. */
static void cost(void **state)
{
    const uint64_t bytes = 16 << 20, page = (uint64_t)sysconf(_SC_PAGESIZE), n = bytes / page / 100;

    for (unsigned a = 0; a < 3; a++) {
        const struct storwin_opts opts = stored_opts(atomics[a]);
        struct storwin_window *win = open_state(&opts, bytes);
        uint8_t *base = storwin_base(win);
        uint64_t before;

        memset(base, 1, bytes);
        assert_int_equal(storwin_commit(win, NULL), 0);
        base[0] = 2;
        assert_int_equal(storwin_commit(win, NULL), 0); /* with slots the other copy, whole */
        before = window_stats(win).written_bytes;
        for (unsigned round = 0; round < 5; round++) {
            for (uint64_t i = 0; i < n; i++)
                base[(i * 97 + round) * page % bytes]++;
            assert_int_equal(storwin_commit(win, NULL), 0);
        }
        assert_ptr_equal(base, storwin_base(win));
        if (window_stats(win).written_bytes - before > 5 * (2 * n * page + 10 * page))
            fail_msg("%u: %llu bytes for 5 commits of %llu pages", atomics[a],
                     (unsigned long long)(window_stats(win).written_bytes - before),
                     (unsigned long long)n);
        close_state(win);
        unlink(opts.filename);
    }
}

/* A grown state opens in a longer window; a file query gives its length. */
static void grown(void **state)
{
    for (unsigned a = 0; a < 3; a++) {
        const struct storwin_opts opts = stored_opts(atomics[a]);
        struct storwin_window *win = open_state(&opts, BYTES);

        assert_int_equal(no_info(&opts), STORWIN_ENONE); /* nothing is committed yet */
        for (uint64_t g = 1; g < 4; g++)
            commit_state(win, g);
        assert_int_equal(file_info(&opts).bytes, BYTES); /* also of one that is open */
        close_state(win);
        assert_int_equal(refused(&opts, BYTES - 1), STORWIN_EFORMAT);
        win = open_state(&opts, 3 * BYTES + 5);
        assert_true(holds(win, 3));
        for (uint64_t i = BYTES; i < 3 * BYTES + 5; i += 1001)
            assert_int_equal(((uint8_t *)storwin_base(win))[i], 0);
        assert_int_equal(file_info(&opts).bytes, BYTES); /* so far */
        ((uint8_t *)storwin_base(win))[3 * BYTES + 4] = 9;
        commit_state(win, 4);
        close_state(win);
        assert_int_equal(file_info(&opts).bytes, 3 * BYTES + 5);
        assert_int_equal(file_info(&opts).generation, 4);
        win = open_state(&opts, file_info(&opts).bytes);
        assert_true(holds(win, 4));
        assert_int_equal(((uint8_t *)storwin_base(win))[3 * BYTES + 4], 9);
        close_state(win);
        unlink(opts.filename);
    }
}

/* The generation before the newest opens, and reading it does not change the file. */
static void older(void **state)
{
    for (unsigned a = 0; a < 3; a++) {
        struct storwin_opts opts = stored_opts(atomics[a]);

        for (uint64_t g = 1; g < 12; g++) {
            struct storwin_window *win = open_state(&opts, BYTES);
            struct storwin_info_file file;

            commit_state(win, g);
            close_state(win);
            file = file_info(&opts);
            assert_int_equal(file.generation, g);
            assert_int_equal(file.older_generation, g - 1);
            assert_int_equal(file.damaged, 0);
            for (opts.generation = g - 1; opts.generation > 0; opts.generation = 0) {
                win = open_state(&opts, BYTES);
                assert_true(holds(win, g - 1));
                close_state(win);
                assert_int_equal(file_info(&opts).generation, g - 1); /* as asked */
                opts.generation = 0;
                assert_int_equal(file_info(&opts).generation, g);
            }
            opts.generation = 0;
        }
        opts.generation = 50;
        assert_int_equal(refused(&opts, BYTES), STORWIN_ENONE);
        unlink(opts.filename);
    }
}

static void versions(void **state)
{
    struct storwin_opts opts = stored_opts(STORWIN_ATOMIC_AUTO);
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win;
    uint64_t size;
    char text[32];

    assert_int_equal(storwin_opts_set(&opts, "storage_alloc_version", "7", NULL), 0);
    win = open_state(&opts, BYTES);
    for (uint64_t g = 1; g < 4; g++)
        commit_state(win, g);
    assert_int_equal(storwin_hint_query(win, "storage_alloc_version", text, sizeof(text)), 1);
    assert_string_equal(text, "7");
    close_state(win);
    size = file_size(opts.filename);
    assert_int_equal(file_info(&opts).app_version, 7);
    opts.app_version = 8;
    assert_int_equal(refused(&opts, BYTES), STORWIN_EVERSION);
    assert_int_equal(refused(&opts, 5 * BYTES), STORWIN_EVERSION);
    assert_int_equal(file_size(opts.filename), size);
    assert_int_equal(file_info(&opts).app_version, 7);
    opts.app_version = 0; /* any, and it stays */
    win = open_state(&opts, BYTES);
    assert_true(holds(win, 3));
    for (uint64_t g = 4; g < 7; g++)
        commit_state(win, g);
    assert_int_equal(storwin_query(win, &info), 0);
    assert_int_equal(info.app_version, 7);
    close_state(win);
    opts.app_version = 7;
    opts.generation = 5;
    win = open_state(&opts, BYTES);
    assert_true(holds(win, 5));
    close_state(win);
    unlink(opts.filename);
}

/* The places of a record's copies. */
static uint64_t copy_at(unsigned place, unsigned copy)
{
    return place * STORWIN__PLACE_BYTES + copy * STORWIN__COPY_BYTES;
}

static void spoil(const char *path, uint64_t at)
{
    uint8_t byte;

    read_file(path, at, &byte, 1);
    byte ^= 0x10;
    write_file(path, at, &byte, 1);
}

/* Damage is reported; an interrupted commit is not damage. */
static void damage(void **state)
{
    struct storwin_opts opts = stored_opts(STORWIN_ATOMIC_SLOTS);
    struct storwin_window *win = open_state(&opts, BYTES);
    static const uint8_t zeros[4096];

    for (uint64_t g = 1; g < 4; g++) /* the third is in place 0, as the first was, and in area 0 */
        commit_state(win, g);
    close_state(win);
    spoil(opts.filename, copy_at(0, 1) + 64);
    assert_int_equal(file_info(&opts).generation, 3); /* one copy does not matter */
    assert_int_equal(file_info(&opts).damaged, 0);
    spoil(opts.filename, copy_at(0, 0) + 64);
    assert_int_equal(file_info(&opts).generation, 2);
    assert_int_equal(file_info(&opts).damaged, 1);
    assert_int_equal(refused(&opts, BYTES), STORWIN_EDAMAGED);
    for (unsigned copy = 0; copy < 2; copy++)
        write_file(opts.filename, copy_at(0, copy), zeros, sizeof(zeros));
    spoil(opts.filename,
          copy_at(0, 0) + 5); /* as if the third had been cut off in its first copy */
    assert_int_equal(file_info(&opts).generation, 2);
    assert_int_equal(file_info(&opts).damaged, 0);
    win = open_state(&opts, BYTES);
    assert_true(holds(win, 2));
    commit_state(win, 3);
    close_state(win);
    spoil(opts.filename, STORWIN__FIRST_AREA + 12345);
    assert_int_equal(file_info(&opts).damaged, 0); /* the records are whole, and the data are not */
    assert_int_equal(refused(&opts, BYTES), STORWIN_EDAMAGED);
    opts.generation = file_info(&opts).older_generation;
    assert_int_equal(opts.generation, 2);
    win = open_state(&opts, BYTES); /* which shares nothing with it */
    assert_true(holds(win, 2));
    close_state(win);
    for (unsigned i = 0; i < 4; i++)
        spoil(opts.filename, copy_at(i / 2, i % 2) + 64);
    assert_int_equal(no_info(&opts), STORWIN_EDAMAGED);
    unlink(opts.filename);
}

static void other_files(void **state)
{
    struct storwin_opts opts = stored_opts(STORWIN_ATOMIC_AUTO);
    struct storwin_info_file info = {.size = sizeof(info) - 1};
    struct storwin_window *win;
    struct storwin_error err;

    assert_int_equal(no_info(&opts), -ENOENT);
    assert_int_equal(file_size(opts.filename), UINT64_MAX);
    write_file(opts.filename, 0, "", 0);
    assert_int_equal(no_info(&opts), STORWIN_ENONE);
    write_file(opts.filename, 70000, "prose", 5);
    assert_int_equal(no_info(&opts), STORWIN_EFORMAT);
    unlink(opts.filename);
    opts.filename = test_dir;
    assert_int_equal(no_info(&opts), STORWIN_ETYPE);
    opts.filename = NULL;
    assert_int_equal(no_info(&opts), STORWIN_EMISSING);
    opts.filename = test_path("stored");
    opts.offset_bytes = 1;
    assert_int_equal(no_info(&opts), STORWIN_EVALUE);
    opts.offset_bytes = 0;
    assert_int_equal(storwin_file_query(NULL, &info, &err), -EINVAL);
    win = open_state(&opts, BYTES);
    commit_state(win, 1);
    close_state(win);
    assert_int_equal(storwin_file_query(&opts, &info, &err), -EINVAL);
    assert_int_equal(storwin_file_query(&opts, NULL, &err), -EINVAL);
    unlink(opts.filename);
}

/* An unreadable sector does not count as zeros, nor the file as a new one. */
static void unreadable(void **state)
{
    const struct storwin_opts opts = stored_opts(STORWIN_ATOMIC_AUTO);

    write_file(opts.filename, STORWIN__FIRST_AREA, "", 1);
    assert_int_equal(no_info(&opts), STORWIN_ENONE);
    bad_sector = STORWIN__PLACE_BYTES - 512; /* behind the copies of a record */
    assert_int_equal(no_info(&opts), -EIO);
    assert_int_equal(refused(&opts, BYTES), -EIO);
    bad_sector = -1;
    assert_int_equal(file_size(opts.filename), STORWIN__FIRST_AREA + 1);
    unlink(opts.filename);
}

/* The name of a file is durable before its first commit, also if another process created it. */
static void names(void **state)
{
    const struct storwin_opts opts = stored_opts(STORWIN_ATOMIC_AUTO);
    struct storwin_window *win;

    name_fails = 1;
    assert_int_equal(refused(&opts, BYTES), -EIO);
    assert_int_equal(file_size(opts.filename), UINT64_MAX);
    for (unsigned made = 0; made < 2; made++) { /* 1: by a process that was killed meanwhile */
        if (made)
            write_file(opts.filename, 0, "", 0);
        names_synced = 0;
        win = open_state(&opts, BYTES);
        assert_int_equal(names_synced, 1);
        name_fails = 1;
        test_state(1, storwin_base(win), BYTES);
        assert_int_equal(storwin_commit_generation(win, 1, NULL), 0);
        assert_int_equal(names_synced, 1);
        name_fails = 0;
        close_state(win);
        win = open_state(&opts, BYTES);
        assert_int_equal(names_synced, 1);
        close_state(win);
        unlink(opts.filename);
    }
}

/* Other users' links are not followed. */
static void links(void **state)
{
    struct storwin_opts opts = stored_opts(STORWIN_ATOMIC_AUTO);
    struct storwin_window *win = open_state(&opts, BYTES);

    commit_state(win, 1);
    close_state(win);
    opts.filename = test_path("link");
    assert_int_equal(symlink("stored", opts.filename), 0);
    assert_int_equal(file_info(&opts).generation, 1);
    if (lchown(opts.filename, 65534, 65534) == 0) /* only root may */
        assert_int_equal(no_info(&opts), STORWIN_EOWNER);
    unlink(opts.filename);
    unlink(test_path("stored"));
}

/* A process is killed; the open waits for its file. */
static void killed_owner(void **state)
{
    const struct storwin_opts opts = stored_opts(STORWIN_ATOMIC_AUTO);
    int ends[2], status;
    char byte;
    pid_t pid;

    unlink(opts.filename);
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        struct storwin_window *win = NULL;

        alarm(100);
        if (storwin_alloc(&opts, BYTES, &win, NULL) < 0)
            _exit(1);
        test_state(1, storwin_base(win), BYTES);
        if (storwin_commit(win, NULL) < 0 || write(ends[1], "", 1) != 1)
            _exit(1);
        usleep(200000); /* the parent is waiting, most likely */
        raise(SIGKILL);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    {
        struct storwin_window *win = open_state(&opts, BYTES);

        assert_true(holds(win, 1));
        close_state(win);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(ends[0]);
    unlink(opts.filename);
}

/* Every bit of a block and its place count; and files of earlier releases have these sums. */
static void sums(void **state)
{
    static const struct {
        size_t bytes;
        uint64_t sum;
    } stored[] = {
        {0, UINT64_C(0x3e2f9e2b0c298e9b)},   {1, UINT64_C(0xe4f9d57bdbd05366)},
        {31, UINT64_C(0xd515ca75636d774a)},  {32, UINT64_C(0x48424dd2241a7c46)},
        {100, UINT64_C(0xa9e68ce44511e4d0)},
    };
    uint8_t block[100];

    for (unsigned i = 0; i < sizeof(block); i++)
        block[i] = (uint8_t)(i / 8 * 37 + 1); /* for any byte order */
    for (unsigned i = 0; i < sizeof(stored) / sizeof(stored[0]); i++)
        assert_int_equal(storwin__sum(block, stored[i].bytes, 5), stored[i].sum);
    memset(block, 0, sizeof(block));
    for (size_t len = 0; len <= sizeof(block); len++) {
        uint64_t sum = storwin__sum(block, len, 5);

        assert_true(storwin__sum(block, len, 6) != sum);
        assert_true(len == 0 || storwin__sum(block, len - 1, 5) != sum);
        for (size_t bit = 0; bit < len * 8; bit++) {
            block[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_true(storwin__sum(block, len, 5) != sum);
            block[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

/* The program maps a part of adopted memory anew, shared with a child, whose stores the page tables
 * do not show: no commit returns 0 without them. */
static void mapped_shared(void **state)
{
    const uint64_t part = 8 * (uint64_t)sysconf(_SC_PAGESIZE);
    struct storwin_opts opts = stored_opts(STORWIN_ATOMIC_AUTO);
    uint8_t *at = mmap(NULL, 4 * part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct storwin_window *win;
    int rc, status;

    assert_int_equal(storwin_adopt(at, 4 * part, &opts, &win, NULL), 0);
    memset(at, 1, 4 * part);
    assert_int_equal(storwin_commit(win, NULL), 0);
    assert_ptr_equal(mmap(at + part, part, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                     at + part);
    (void)storwin_commit(win, NULL);
    if (fork() == 0) {
        at[part + 1] = 5;
        _exit(0);
    }
    assert_true(wait(&status) > 0 && status == 0);
    rc = storwin_commit(win, NULL);
    assert_true(rc == 0 || rc == STORWIN_ERACE); /* 0 where the kernel cannot track: it compares */
    close_state(win);
    at[part + 1] = 0;
    opts.changes = STORWIN_CHANGES_COMPARED;
    assert_int_equal(storwin_adopt(at, 4 * part, &opts, &win, NULL), 0);
    assert_int_equal(at[0], 1);
    if (rc == 0)
        assert_int_equal(at[part + 1], 5);
    close_state(win);
    munmap(at, 4 * part);
    unlink(opts.filename);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost),        cmocka_unit_test(grown),  cmocka_unit_test(older),
        cmocka_unit_test(versions),    cmocka_unit_test(damage), cmocka_unit_test(killed_owner),
        cmocka_unit_test(other_files), cmocka_unit_test(sums),   cmocka_unit_test(unreadable),
        cmocka_unit_test(names),       cmocka_unit_test(links),  cmocka_unit_test(mapped_shared),
    };

    test_begin();
    atomic_store(&storwin__without, STORWIN__NO_DIRECT); /* most need no disk */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
