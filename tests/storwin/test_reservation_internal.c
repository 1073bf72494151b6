/* SPDX-License-Identifier: BSD-3-Clause */
/* Refusals at allocation: each names its hint, and leaves nothing behind. And the files that a
 * window leaves when it is freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../../libstorwin/src/internal.h"
#include "storwin_test.h"

static uint64_t page;

/* Refused with this code and hint; the directory, descriptors and maps are as before. */
static void refused(const struct storwin_opts *opts, uint64_t bytes, int code, const char *hint)
{
    struct storwin_window *win = (void *)&page;
    struct storwin_error err;
    unsigned fds = count_fds(), files = count_entries(test_dir), maps;
    int rc;

    memset(&err, 0, sizeof(err));
    rc = storwin_alloc(opts, bytes, &win, &err);
    if (rc != code)
        fail_msg("%s: %d (%s) instead of %d", opts->filename, rc, err.text, code);
    assert_ptr_equal(win, &page);
    assert_int_equal(err.code, code);
    assert_string_equal(err.hint, hint);
    assert_true(strlen(err.text) > 10);
    maps = count_maps();
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(storwin_alloc(opts, bytes, &win, NULL), code);
    assert_int_equal(count_fds(), fds);
    assert_int_equal(count_entries(test_dir), files);
    assert_in_range(count_maps(), 1, maps + 10); /* a sanitizer's own come and go */
}

static void wrong_kind(void **state)
{
    static const char NAME[] = "storage_alloc_filename";
    struct storwin_opts opts = storage_opts(NULL);

    refused(&opts, page, STORWIN_EMISSING, NAME);
    opts.filename = "";
    refused(&opts, page, STORWIN_EVALUE, NAME);
    opts.filename = test_dir;
    refused(&opts, page, STORWIN_ETYPE, NAME);
    opts.filename = "/";
    refused(&opts, page, STORWIN_ETYPE, NAME);
    opts.filename = ".";
    refused(&opts, page, STORWIN_ETYPE, NAME);
    opts.filename = "..";
    refused(&opts, page, STORWIN_ETYPE, NAME);
    opts.filename = "/dev/null";
    refused(&opts, page, STORWIN_ETYPE, NAME);
    opts.filename = test_path("none/x");
    refused(&opts, page, -ENOENT, NAME);
    opts.filename = test_path("slash/");
    refused(&opts, page, STORWIN_ETYPE, NAME);
    assert_int_equal(mkfifo(test_path("fifo"), 0600), 0);
    opts.filename = test_path("fifo"); /* and it must not wait for a reader */
    refused(&opts, page, STORWIN_ETYPE, NAME);
    unlink(test_path("fifo"));
    write_file(test_path("file"), 0, "x", 1);
    opts.filename = test_path("file/x");
    refused(&opts, page, -ENOTDIR, NAME);
    unlink(test_path("file"));
}

static void offsets(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("offset"));

    opts.offset_bytes = 1;
    refused(&opts, page, STORWIN_EVALUE, "storage_alloc_offset");
    opts.offset_bytes = page / 2;
    refused(&opts, page, STORWIN_EVALUE, "storage_alloc_offset");
    opts.offset_bytes = INT64_MAX / page * page;
    refused(&opts, 2 * page, -EFBIG, "storage_alloc_offset");
    opts.offset_bytes =
        INT64_MAX / page * page - 4 * page; /* below 2^63, above what any file system holds here */
    refused(&opts, page, -EFBIG, "storage_alloc_filename");
}

static void links(void **state)
{
    static const char NAME[] = "storage_alloc_filename";
    struct storwin_opts opts = storage_opts(test_path("link"));
    struct storwin_window *win;

    assert_int_equal(symlink("target", test_path("link")),
                     0); /* one's own, and dangling: the target is created */
    assert_int_equal(storwin_alloc(&opts, page, &win, NULL), 0);
    assert_int_equal(storwin_free(win, NULL), 0);
    assert_int_equal(file_size(test_path("target")), page);
    unlink(test_path("target"));
    assert_int_equal(symlink("loop", test_path("loop")), 0);
    opts.filename = test_path("loop");
    refused(&opts, page, -ELOOP, NAME);
    if (geteuid() == 0) {
        assert_int_equal(lchown(test_path("link"), 12345, 12345), 0);
        opts.filename = test_path("link");
        refused(&opts, page, STORWIN_EOWNER, NAME);
        assert_int_equal(mkdir(test_path("sticky"), 0777), 0);
        assert_int_equal(chmod(test_path("sticky"), 01777), 0);
        write_file(test_path("sticky/theirs"), 0, "x", 1);
        assert_int_equal(chown(test_path("sticky/theirs"), 12345, 12345), 0);
        opts.filename = test_path("sticky/theirs");
        refused(&opts, page, STORWIN_EOWNER, NAME);
        assert_int_equal(file_size(opts.filename), 1);
        assert_int_equal(chmod(test_path("sticky"), 0700),
                         0); /* nobody else could have put it there */
        assert_int_equal(storwin_alloc(&opts, page, &win, NULL), 0);
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(test_path("sticky/theirs"));
        rmdir(test_path("sticky"));
    }
    unlink(test_path("link"));
    unlink(test_path("loop"));
}

/* In a child, whose limits and rights are its own. */
static void in_child(void (*run)(void))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        run();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void check_refused(const char *path, uint64_t bytes, int code)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win;
    struct storwin_error err;

    CHECK(storwin_alloc(&opts, bytes, &win, &err) == code);
    CHECK(strcmp(err.hint, "storage_alloc_filename") == 0);
}

static void size_limit_child(void)
{
    struct rlimit limit = {3 * 4096, 3 * 4096};
    struct storwin_opts opts = storage_opts(test_path("limited"));
    struct storwin_window *win;

    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    check_refused(opts.filename, 3 * 4096 + 1, -EFBIG); /* and no SIGXFSZ */
    CHECK(file_size(opts.filename) == UINT64_MAX);
    opts.offset_bytes = page;
    CHECK(storwin_alloc(&opts, 3 * 4096, &win, NULL) == -EFBIG);
    opts.offset_bytes = 0;
    CHECK(storwin_alloc(&opts, 3 * 4096, &win, NULL) == 0);
    CHECK(storwin_free(win, NULL) == 0);
    unlink(opts.filename);
}

/* Memory that has a descriptor counts as a file. */
static void memory_limit_child(void)
{
    struct rlimit limit = {3 * 4096, 3 * 4096};
    uint64_t bytes = 3 * 4096 + 1;
    char name[80];
    struct storwin_shared shared = {
        .size = sizeof(shared), .n_ranks = 1, .bytes = &bytes, .shm_name = name};
    struct storwin_opts opts;
    struct storwin_window *win;
    struct storwin_error err;

    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    storwin_opts_init(&opts);
    opts.flags = STORWIN_MEMFD;
    CHECK(storwin_alloc(&opts, bytes, &win, &err) == -EFBIG &&
          strcmp(err.hint, "storage_alloc_memfd") == 0);
    CHECK(storwin_alloc(&opts, bytes - 1, &win, NULL) == 0);
    CHECK(storwin_free(win, NULL) == 0);
    snprintf(name, sizeof(name), "/%s", test_dir);
    CHECK(storwin_alloc_shared(NULL, &shared, &win, NULL) == -EFBIG);
    CHECK(shm_unlink(name) < 0 && errno == ENOENT);
    bytes--;
    CHECK(storwin_alloc_shared(NULL, &shared, &win, NULL) == 0);
    CHECK(storwin_free(win, NULL) == 0);
}

/* A nameless file gets its name through /proc; without /proc it has one from the beginning. */
static void no_proc_child(void)
{
    struct storwin_opts opts = storage_opts(test_path("no_proc"));
    struct storwin_window *win;

    if (private_mounts() < 0 || mount("none", "/proc", "tmpfs", 0, NULL) < 0) {
        printf("left out: without /proc: needs root and mount()\n");
        return;
    }
    for (opts.pager = 0; opts.pager < test_pagers; opts.pager++) {
        opts.budget_bytes = opts.pager == STORWIN_PAGER_USER ? STORWIN_MIN_BUDGET : 0;
        CHECK(storwin_alloc(&opts, 3 * page, &win, NULL) == 0);
        *(char *)storwin_base(win) = 'x';
        CHECK(storwin_free(win, NULL) == 0);
        CHECK(file_size(opts.filename) == 3 * page && unlink(opts.filename) == 0);
    }
}

static void without_proc(void **state)
{
    in_child(no_proc_child);
}

static void read_only_child(void)
{
    if (geteuid() == 0)
        CHECK(setgid(12345) == 0 && setuid(12345) == 0);
    check_refused(test_path("mine"), page, -EACCES);
    check_refused(test_path("new"), page, -EACCES);
    CHECK(file_size(test_path("mine")) == 1);
}

static void limits(void **state)
{
    in_child(size_limit_child);
    in_child(memory_limit_child);
    write_file(test_path("mine"), 0, "x", 1);
    assert_int_equal(chmod(test_path("mine"), 0444), 0);
    assert_int_equal(chmod(test_dir, 0555), 0);
    in_child(read_only_child);
    assert_int_equal(chmod(test_dir, 0700), 0);
    unlink(test_path("mine"));
}

/* A file system of 1 MiB, or a skip. */
static int mount_small(const char *dir, const char *options)
{
    if (private_mounts() == 0 && mkdir(dir, 0700) == 0 &&
        mount("none", dir, "tmpfs", 0, options) == 0)
        return 0;
    rmdir(dir);
    return -1;
}

static void full_disk(void **state)
{
    static const char NAME[] = "storage_alloc_filename";
    char path[200] = "";
    struct storwin_opts opts = storage_opts(path);
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win;

    if (mount_small(test_path("small"), "size=1m") < 0) {
        print_message("skip: a small file system needs root and mount()\n");
        skip();
    }
    snprintf(path, sizeof(path), "%s", test_path("small/file"));
    for (unsigned without = 0; without <= (STORWIN__NO_TMPFILE | STORWIN__NO_FALLOCATE);
         without += STORWIN__NO_TMPFILE) {
        atomic_store(&storwin__without, without);
        for (uint32_t pager = 0; pager < test_pagers; pager++) {
            opts.pager = pager;
            opts.flags = 0;
            refused(&opts, 2 << 20, -ENOSPC, NAME);
            assert_int_equal(count_entries(test_path("small")), 0);
            /* An existing file keeps its size, its content, and the rest of the disk. */
            write_file(path, 0, "keep", 4);
            refused(&opts, 2 << 20, -ENOSPC, NAME);
            assert_int_equal(file_size(path), 4);
            assert_int_equal(storwin_alloc(&opts, 900 << 10, &win, NULL), 0);
            assert_memory_equal(storwin_base(win), "keep", 4);
            assert_int_equal(storwin_free(win, NULL), 0);
            unlink(path);
            opts.flags = STORWIN_SPARSE; /* on request it may be too long */
            assert_int_equal(storwin_alloc(&opts, 2 << 20, &win, NULL), 0);
            storwin_query(win,
                          &info); /* where nothing tells that nothing has changed, all is written */
            assert_int_equal(storwin_free(win, NULL),
                             info.track == STORWIN_TRACK_ALL ? -ENOSPC : 0);
            unlink(path);
        }
    }
    atomic_store(&storwin__without, 0);
    opts.pager = STORWIN_PAGER_KERNEL;
    opts.flags = 0;
    if (mount("none", test_path("small"), NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0)
        refused(&opts, page, -EROFS, NAME);
    umount(test_path("small"));
    rmdir(test_path("small"));
}

static void permissions(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("perm"));
    struct storwin_window *win;
    struct stat st;
    mode_t mask = umask(027);

    for (unsigned without = 0; without <= STORWIN__NO_TMPFILE; without += STORWIN__NO_TMPFILE) {
        atomic_store(&storwin__without, without);
        for (uint32_t perm = 0; perm <= 0777; perm += 7) {
            opts.file_perm = perm;
            assert_int_equal(storwin_alloc(&opts, 10, &win, NULL), 0);
            assert_int_equal(stat(opts.filename, &st), 0);
            assert_int_equal(st.st_mode & 07777, perm & ~027u);
            assert_int_equal(storwin_free(win, NULL), 0);
            unlink(opts.filename);
        }
    }
    atomic_store(&storwin__without, 0);
    umask(mask);
}

/* With and without the facilities of newer kernels and richer file systems, the result is the
 * same. */
static void reserved(void **state)
{
    static const unsigned poor[] = {0, STORWIN__NO_TMPFILE, STORWIN__NO_FALLOCATE,
                                    STORWIN__NO_DIRECT, 31};
    const uint64_t bytes = 40 * page + 100;
    struct storwin_opts opts = storage_opts(test_path("reserved"));
    struct storwin_window *win;
    struct stat st;

    for (unsigned i = 0; i < 5; i++) {
        atomic_store(&storwin__without, poor[i]);
        opts.flags = 0;
        assert_int_equal(storwin_alloc(&opts, bytes, &win, NULL), 0);
        assert_int_equal(stat(opts.filename, &st), 0);
        assert_int_equal(st.st_size, bytes);
        assert_true((uint64_t)st.st_blocks * 512 >= bytes);
        for (uint64_t k = 0; k < bytes; k += 511)
            assert_int_equal(((char *)storwin_base(win))[k], 0);
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(opts.filename);
        /* Holes of an existing file are reserved, and its data is kept. */
        write_file(opts.filename, 20 * page, "data", 4);
        assert_int_equal(storwin_alloc(&opts, bytes, &win, NULL), 0);
        assert_memory_equal((char *)storwin_base(win) + 20 * page, "data", 4);
        assert_int_equal(stat(opts.filename, &st), 0);
        assert_true((uint64_t)st.st_blocks * 512 >= bytes);
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(opts.filename);
        opts.flags = STORWIN_SPARSE;
        assert_int_equal(storwin_alloc(&opts, bytes, &win, NULL), 0);
        assert_int_equal(stat(opts.filename, &st), 0);
        assert_int_equal(st.st_size, bytes);
        assert_int_equal(st.st_blocks, 0);
        assert_int_equal(storwin_free(win, NULL), 0);
        unlink(opts.filename);
    }
    atomic_store(&storwin__without, 0);
}

static void unlink_and_discard(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("gone"));
    struct storwin_window *win;
    char c;

    for (uint32_t pager = 0; pager < test_pagers; pager++) {
        opts.pager = pager;
        opts.flags = STORWIN_UNLINK;
        assert_int_equal(storwin_alloc(&opts, page, &win, NULL), 0);
        assert_int_equal(storwin_free(win, NULL), 0);
        assert_int_equal(file_size(opts.filename), UINT64_MAX);
        /* Another file has replaced it: that one stays. */
        assert_int_equal(storwin_alloc(&opts, page, &win, NULL), 0);
        unlink(opts.filename);
        write_file(opts.filename, 0, "other", 5);
        assert_int_equal(storwin_free(win, NULL), 0);
        assert_int_equal(file_size(opts.filename), 5);
        unlink(opts.filename);
        /* It is gone already. */
        assert_int_equal(storwin_alloc(&opts, page, &win, NULL), 0);
        unlink(opts.filename);
        assert_int_equal(storwin_free(win, NULL), 0);

        opts.flags = STORWIN_DISCARD;
        assert_int_equal(storwin_alloc(&opts, page, &win, NULL), 0);
        *(char *)storwin_base(win) = 'x';
        assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
        *(char *)storwin_base(win) = 'y';
        assert_int_equal(storwin_free(win, NULL), 0);
        read_file(opts.filename, 0, &c, 1);
        assert_int_equal(c, pager == STORWIN_PAGER_KERNEL
                                ? 'y'
                                : 'x'); /* a shared mapping shows the store, durable or not */
        unlink(opts.filename);
    }
}

/* Allocates and frees windows of one pager in this thread's own range of a file that all threads of
 * that pager create, grow and remove. */
static void *churn(void *arg)
{
    const unsigned id = (unsigned)(uintptr_t)arg;
    const uint32_t pager = id % test_pagers;
    struct storwin_opts opts = storage_opts(test_path(pager == 0   ? "kernel"
                                                      : pager == 1 ? "resident"
                                                                   : "user"));
    uint64_t rng = id * 977 + 1;

    for (unsigned i = 0; i < 150; i++) {
        struct storwin_error err = {.text = ""};
        struct storwin_window *win;

        opts.pager = pager;
        opts.offset_bytes = (id * 100 + test_random(&rng) % 64) * page;
        opts.budget_bytes = STORWIN_MIN_BUDGET;
        CHECK(storwin_alloc(&opts, 1 + test_random(&rng) % (32 * page), &win, NULL) == 0);
        memset(storwin_base(win), 'x', window_bytes(win));
        if (storwin_free(win, &err) < 0)
            fprintf(stderr, "free: %s\n", err.text);
        CHECK(err.code == 0);
        if (test_random(&rng) % 8 == 0)
            unlink(opts.filename);
    }
    unlink(opts.filename);
    return NULL;
}

static void races(void **state)
{
    pthread_t threads[9];

    for (uintptr_t i = 0; i < 9; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
    for (unsigned i = 0; i < 9; i++)
        pthread_join(threads[i], NULL);
    unlink(test_path("kernel"));
    unlink(test_path("resident"));
    unlink(test_path("user"));
    assert_int_equal(count_entries(test_dir), 0);
}

#if defined(__SANITIZE_ADDRESS__)
static const int sanitized = 1;
#else
static const int sanitized = 0;
#endif

static void no_leaks(void **state)
{
    const char *rounds_text = getenv("STORWIN_ROUNDS");
    const unsigned rounds = rounds_text ? (unsigned)atoi(rounds_text) : 300;
    struct storwin_opts opts = storage_opts(test_path("leak"));
    const unsigned threads = count_threads();
    unsigned fds = 0, maps = 0;
    unsigned long kib = 0;

    for (unsigned i = 0; i < rounds; i++) {
        struct storwin_window *win;

        if (i == 40) { /* what the C library keeps is there by now */
            fds = count_fds();
            maps = count_maps();
            kib = mapped_kib();
        }
        opts.alloc_type = i % 5 ? STORWIN_STORAGE : STORWIN_MEMORY;
        opts.pager = i % test_pagers;
        opts.factor_ppb = i % 4 ? STORWIN_FACTOR_ONE / 4 * (i % 4) : STORWIN_FACTOR_ONE;
        opts.order = i / 2 % 2;
        opts.flags = i % 7 ? STORWIN_UNLINK : 0;
        opts.budget_bytes = STORWIN_MIN_BUDGET;
        assert_int_equal(storwin_alloc(&opts, (uint64_t)(i % 11) * 3 * page + i, &win, NULL), 0);
        if (window_bytes(win) > 0)
            memset(storwin_base(win), (int)i, window_bytes(win));
        if (i % 6 == 0) {
            assert_int_equal(storwin_sync_start(win, 0, STORWIN_TO_END, NULL), 0);
            assert_int_equal(storwin_sync_wait(win, NULL), 0);
        }
        assert_int_equal(storwin_free(win, NULL), 0);
    }
    unlink(opts.filename);
    assert_int_equal(count_fds(), fds);
    assert_true(threads_settle(threads));
    if (!sanitized) { /* AddressSanitizer keeps what has been freed */
        assert_in_range(count_maps(), 1, maps + 4);
        assert_in_range(mapped_kib(), 1,
                        kib + 16 * 1024); /* arenas and stacks that the C library caches */
    }
    assert_int_equal(count_entries(test_dir), 0);
}

static void hints_became(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("hints"));
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win;
    char text[200];

    opts.striping_factor = 4;
    opts.striping_unit = 1 << 20;
    opts.access_style = STORWIN_ACCESS_RANDOM;
    opts.pager = test_pagers - 1;
    opts.budget_bytes = 3 << 20;
    assert_int_equal(storwin_alloc(&opts, page, &win, NULL), 0);
    storwin_query(win, &info);
    assert_int_equal(info.striping, STORWIN_STRIPING_UNSUPPORTED);
    assert_int_equal(info.created, 1);
    assert_int_equal(info.target, STORWIN_TARGET_FILE);
    assert_int_equal(storwin_hint_query(win, "striping_factor", text, sizeof(text)), 11);
    assert_string_equal(text, "unsupported");
    assert_int_equal(storwin_hint_query(win, "striping_unit", text, 11), -ENOBUFS);
    if (opts.pager == STORWIN_PAGER_USER) {
        assert_int_equal(storwin_hint_query(win, "storage_alloc_budget", text, sizeof(text)), 7);
        assert_string_equal(text, "3145728");
    } else {
        assert_int_equal(storwin_hint_query(win, "storage_alloc_budget", text, sizeof(text)),
                         -ENOENT);
    }
    assert_true(storwin_hint_query(win, "storage_alloc_filename", text, sizeof(text)) > 0);
    assert_string_equal(text, opts.filename);
    assert_int_equal(storwin_hint_query(win, "storage_alloc_memory", text, sizeof(text)), -ENOENT);
    assert_int_equal(storwin_hint_query(win, "no_such", text, sizeof(text)), -ENOENT);
    assert_int_equal(storwin_hint_query(win, "alloc_type", NULL, 0), -ENOBUFS);
    assert_int_equal(storwin_free(win, NULL), 0);

    assert_int_equal(storwin_alloc(&opts, page, &win, NULL), 0); /* now it exists */
    storwin_query(win, &info);
    assert_int_equal(info.striping, STORWIN_STRIPING_EXISTING);
    assert_int_equal(storwin_hint_query(win, "striping_factor", text, sizeof(text)), -ENOENT);
    assert_int_equal(storwin_free(win, NULL), 0);
    unlink(opts.filename);

    assert_int_equal(storwin_alloc(NULL, page, &win, NULL), 0);
    for (size_t i = 0; storwin_hint_key(i); i++)
        assert_int_equal(storwin_hint_query(win, storwin_hint_key(i), text, sizeof(text)),
                         i == 0 ? 6 : -ENOENT);
    info.size = sizeof(info) - 1;
    info.bytes = 99;
    assert_int_equal(storwin_query(win, &info), -EINVAL);
    assert_int_equal(info.bytes, 99);
    assert_int_equal(storwin_free(win, NULL), 0);
}

static void dynamic(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("dynamic"));
    struct storwin_window *win[20], *empty;
    struct storwin_dynamic *dyn;
    struct storwin_error err;
    char synced;

    assert_int_equal(storwin_dynamic_create(NULL, &dyn), 0);
    assert_int_equal(storwin_alloc(NULL, 0, &empty, NULL), 0);
    assert_int_equal(storwin_dynamic_attach(dyn, empty), -EINVAL);
    for (unsigned i = 0; i < 20; i++) {
        opts.offset_bytes = i * 4 * page;
        assert_int_equal(storwin_alloc(i % 2 ? &opts : NULL, page + i, &win[i], NULL), 0);
        assert_int_equal(storwin_dynamic_attach(dyn, win[i]), 0);
        assert_int_equal(storwin_dynamic_attach(dyn, win[i]), -EEXIST);
    }
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(storwin_free(win[i], &err), STORWIN_EBUSY);
        *(char *)storwin_base(win[i]) = (char)(i + 1);
    }
    assert_int_equal(storwin_dynamic_sync(dyn, &err), 0);
    for (unsigned i = 1; i < 20; i += 2) {
        char c;

        read_file(opts.filename, i * 4 * page, &c, 1);
        assert_int_equal(c, i + 1);
    }
    assert_int_equal(storwin_free(win[3], &err), STORWIN_EBUSY);
    assert_int_equal(storwin_dynamic_detach(dyn, win[3]), 0);
    assert_int_equal(storwin_dynamic_detach(dyn, win[3]), STORWIN_ENOWIN);
    *(char *)storwin_base(win[3]) = 99;
    *(char *)storwin_base(win[5]) = 77;
    assert_int_equal(storwin_dynamic_sync(dyn, &err), 0);
    read_file(opts.filename, 5 * 4 * page, &synced, 1);
    assert_int_equal(synced, 77);
    storwin_dynamic_destroy(dyn);
    storwin_dynamic_destroy(NULL);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(storwin_free(win[i], &err), 0);
    assert_int_equal(storwin_free(empty, &err), 0);
    unlink(opts.filename);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_kind),
        cmocka_unit_test(offsets),
        cmocka_unit_test(links),
        cmocka_unit_test(limits),
        cmocka_unit_test(without_proc),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(permissions),
        cmocka_unit_test(reserved),
        cmocka_unit_test(unlink_and_discard),
        cmocka_unit_test(races),
        cmocka_unit_test(hints_became),
        cmocka_unit_test(dynamic),
        cmocka_unit_test(no_leaks),
    };

    page = (uint64_t)sysconf(_SC_PAGESIZE);
    test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
