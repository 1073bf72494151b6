/* SPDX-License-Identifier: BSD-3-Clause */
/* Readers of a file of commits: what they see, when, and that they change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "storwin_test.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#define BYTES (1u << 18)
#define LONG  (BYTES + (1u << 18))

static uint8_t want[LONG];

static struct storwin_opts file_opts(void)
{
    struct storwin_opts opts;

    storwin_opts_init(&opts);
    opts.filename = test_path("read");
    return opts;
}

static struct storwin_window *open_writer(uint32_t atomic, uint64_t bytes)
{
    struct storwin_window *win = test_commit_open(test_path("read"), atomic, 0, bytes);

    assert_non_null(win);
    return win;
}

static void commit_state(struct storwin_window *win)
{
    test_state(window_generation(win) + 1, storwin_base(win), (uint32_t)window_bytes(win));
    assert_int_equal(storwin_commit(win, NULL), 0);
}

static struct storwin_window *open_reader(uint64_t generation)
{
    struct storwin_opts opts = file_opts();
    struct storwin_window *win;
    struct storwin_error err;

    opts.generation = generation;
    if (storwin_open_read(&opts, &win, &err) < 0)
        fail_msg("%s: %s", err.hint, err.text);
    return win;
}

static int open_fails(const struct storwin_opts *opts, struct storwin_error *err)
{
    struct storwin_window *win = NULL;
    int rc = storwin_open_read(opts, &win, err);

    assert_null(win);
    assert_int_equal(rc, err->code);
    return rc;
}

static int holds(const struct storwin_window *win, uint64_t generation, uint32_t bytes)
{
    test_state(generation, want, bytes);
    return window_generation(win) == generation && window_bytes(win) == bytes &&
           memcmp(storwin_base(win), want, bytes) == 0;
}

static void free_window(struct storwin_window *win)
{
    assert_int_equal(storwin_free(win, NULL), 0);
}

/* Every way of committing, seen by a reader that follows each commit, by one that follows some, and
 * by new ones; journals fill up and areas change meanwhile. */
static void follows(void **state)
{
    for (uint32_t atomic = STORWIN_ATOMIC_JOURNAL; atomic <= STORWIN_ATOMIC_AUTO; atomic++) {
        struct storwin_window *win = open_writer(atomic, BYTES), *each, *some;

        commit_state(win);
        each = open_reader(0);
        some = open_reader(0);
        for (uint64_t g = 1; g < 40; g++) {
            struct storwin_window *new = open_reader(0);
            const void *base = storwin_base(some);

            assert_true(holds(new, g, BYTES));
            free_window(new);
            if (g > 1)
                assert_int_equal(storwin_follow(each, NULL), 1);
            assert_int_equal(storwin_follow(each, NULL), 0);
            assert_true(holds(each, g, BYTES));
            if (g % 5 == 0)
                assert_int_equal(storwin_follow(some, NULL), 1);
            else
                assert_ptr_equal(storwin_base(some), base);
            assert_true(holds(some, g < 5 ? 1 : g / 5 * 5, BYTES));
            commit_state(win);
        }
        assert_int_equal(storwin_commit_generation(win, 100, NULL), 0); /* nothing changed */
        assert_int_equal(storwin_follow(each, NULL), 1);
        assert_int_equal(window_generation(each), 100);
        free_window(win);
        free_window(each);
        free_window(some);
        unlink(test_path("read"));
    }
}

/* The state returns to an earlier one, in the same area, but with another journal. */
static void same_home(void **state)
{
    struct storwin_window *win = open_writer(STORWIN_ATOMIC_AUTO, BYTES), *reader = NULL;
    uint8_t *base = storwin_base(win);

    for (unsigned g = 1; g < 6; g++) {
        if (g == 2 || g == 5)
            base[g * 5000] = (uint8_t)g;
        else
            memset(base, g == 3 ? 'x' : 'a', BYTES);
        assert_int_equal(storwin_commit(win, NULL), 0);
        if (g == 2)
            reader = open_reader(0);
    }
    assert_int_equal(storwin_follow(reader, NULL), 1);
    assert_memory_equal(storwin_base(reader), base, BYTES);
    free_window(win);
    free_window(reader);
    unlink(test_path("read"));
}

static void named(void **state)
{
    struct storwin_window *win = open_writer(STORWIN_ATOMIC_JOURNAL, BYTES), *reader;
    struct storwin_opts opts = file_opts();
    struct storwin_error err;

    assert_int_equal(open_fails(&opts, &err), STORWIN_ENONE);
    for (unsigned i = 0; i < 3; i++)
        commit_state(win);
    for (uint64_t g = 1; g < 4; g++) {
        struct storwin_info info = {.size = sizeof(info)};

        reader = open_reader(g);
        assert_true(holds(reader, g, BYTES));
        assert_int_equal(storwin_query(reader, &info), 0);
        assert_int_equal(info.newest_generation, 3);
        assert_int_equal(info.app_version, 1);
        assert_int_equal(info.recovery, g < 3 ? STORWIN_RECOVERY_OLDER : STORWIN_RECOVERY_CLEAN);
        assert_int_equal(storwin_follow(reader, NULL), g < 3);
        assert_true(holds(reader, 3, BYTES));
        free_window(reader);
    }
    opts.generation = 9;
    assert_int_equal(open_fails(&opts, &err), STORWIN_ENONE);
    assert_non_null(strstr(err.text, opts.filename));
    opts.generation = 0;
    opts.app_version = 2;
    assert_int_equal(open_fails(&opts, &err), STORWIN_EVERSION);
    opts.app_version = 1;
    opts.filename = test_path("absent");
    assert_int_equal(open_fails(&opts, &err), -ENOENT);
    opts.filename = NULL;
    assert_int_equal(open_fails(&opts, &err), STORWIN_EMISSING);
    opts.filename = test_path("other");
    write_file(opts.filename, 0, "something else", 14);
    assert_int_equal(open_fails(&opts, &err), STORWIN_EFORMAT);
    assert_int_equal(storwin_open_read(NULL, &reader, &err), -EINVAL);
    free_window(win);
    unlink(test_path("read"));
}

/* The state becomes longer, and its areas move. */
static void longer(void **state)
{
    struct storwin_window *win = open_writer(STORWIN_ATOMIC_AUTO, BYTES), *reader;

    commit_state(win);
    reader = open_reader(0);
    free_window(win);
    win = open_writer(STORWIN_ATOMIC_AUTO, LONG);
    for (uint64_t g = 2; g < 6; g++) {
        commit_state(win);
        assert_int_equal(storwin_follow(reader, NULL), 1);
        assert_true(holds(reader, g, LONG));
    }
    free_window(win);
    free_window(reader);
    unlink(test_path("read"));
}

/* A reader neither takes a lock nor waits for one, writes nothing, and has one descriptor. */
static void only_reads(void **state)
{
    struct storwin_window *win = open_writer(STORWIN_ATOMIC_SLOTS, BYTES), *reader;
    const unsigned fds = count_fds();
    struct storwin_error err;
    struct stat before, after;
    int status;
    pid_t pid;

    commit_state(win);
    free_window(win);
    assert_int_equal(stat(test_path("read"), &before), 0);
    reader = open_reader(0);
    win = open_writer(STORWIN_ATOMIC_SLOTS, BYTES); /* not refused */
    free_window(win);
    assert_int_equal(storwin_follow(reader, NULL), 0);
    assert_int_equal(storwin_commit(reader, &err), STORWIN_ESTATE);
    assert_non_null(strstr(err.text, "only reads"));
    assert_int_equal(storwin_commit_generation(reader, 9, NULL), STORWIN_ESTATE);
    assert_int_equal(storwin_revert(reader, NULL), STORWIN_ESTATE);
    assert_int_equal(storwin_sync(reader, 0, 1, NULL), STORWIN_ESTATE);
    assert_int_equal(storwin_sync_start(reader, 0, 1, NULL), STORWIN_ESTATE);
    assert_int_equal(storwin_follow(NULL, NULL), -EINVAL);
    pid = fork();
    if (pid == 0) { /* the copy is there, but is the parent's to follow and free */
        alarm(100);
        _exit(storwin_follow(reader, NULL) != STORWIN_ESTATE || !holds(reader, 1, BYTES));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile uint8_t *)storwin_base(reader) = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0); /* a sanitizer exits */
    free_window(reader);
    assert_int_equal(stat(test_path("read"), &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    win = open_writer(STORWIN_ATOMIC_SLOTS, BYTES);
    assert_int_equal(storwin_follow(win, &err), STORWIN_ESTATE);
    assert_int_equal(count_fds(), fds);
    reader = open_reader(0);
    assert_int_equal(count_fds(), fds + 1);
    free_window(win);
    free_window(reader);
    unlink(test_path("read"));
}

/* A file that this user may only read, in a directory where it can create nothing. */
static void permissions(void **state)
{
    struct storwin_window *win = open_writer(STORWIN_ATOMIC_AUTO, BYTES);
    int status;
    pid_t pid;

    commit_state(win);
    assert_int_equal(chmod(test_dir, 0555), 0);
    assert_int_equal(chmod(test_path("read"), 0444), 0);
    pid = fork();
    if (pid == 0) {
        struct storwin_opts opts = file_opts();
        struct storwin_window *reader;

        alarm(100);
        if (geteuid() == 0 && setuid(65534) < 0)
            _exit(1);
        if (storwin_open_read(&opts, &reader, NULL) < 0)
            _exit(2);
        if (!holds(reader, 1, BYTES))
            _exit(3);
        _exit(storwin_free(reader, NULL) != 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(chmod(test_dir, 0700), 0);
    assert_int_equal(status, 0);
    free_window(win);
    unlink(test_path("read"));
}

/* A read-only mount, with a writer beside it. */
static void read_only_mount(void **state)
{
    struct storwin_window *win;
    int status;
    pid_t pid;

    if (geteuid() != 0)
        skip();
    win = open_writer(STORWIN_ATOMIC_AUTO, BYTES);
    commit_state(win);
    pid = fork();
    if (pid == 0) {
        struct storwin_opts opts = file_opts();
        struct storwin_window *reader;

        alarm(100);
        if (private_mounts() < 0)
            _exit(77);
        if (mount(test_dir, test_dir, NULL, MS_BIND, NULL) < 0 ||
            mount(NULL, test_dir, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) < 0)
            _exit(77);
        if (open(test_path("new"), O_CREAT | O_RDWR | O_CLOEXEC, 0600) >= 0)
            _exit(1);
        if (storwin_open_read(&opts, &reader, NULL) < 0)
            _exit(2);
        _exit(!holds(reader, 1, BYTES));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        print_message("left out: mounts are not allowed here\n");
    else
        assert_int_equal(status, 0);
    free_window(win);
    unlink(test_path("read"));
}

/* Damage is reported, and a reader keeps the copy that it has. */
static void damage(void **state)
{
    const uint64_t journal = 131072 + 2 * BYTES;
    struct storwin_window *win = open_writer(STORWIN_ATOMIC_JOURNAL, BYTES), *reader;
    struct storwin_opts opts = file_opts();
    struct storwin_error err;

    commit_state(win);
    reader = open_reader(0);
    commit_state(win);
    for (unsigned field = 0; field < 8; field++) { /* of the head of the journal's first batch */
        const uint64_t at = journal + 8 * field, bad = UINT64_C(1) << 40;
        uint64_t good;

        read_file(opts.filename, at, &good, 8);
        write_file(opts.filename, at, &bad, 8);
        assert_int_equal(storwin_follow(reader, &err), STORWIN_EDAMAGED);
        assert_true(holds(reader, 1, BYTES));
        write_file(opts.filename, at, &good, 8);
    }
    write_file(opts.filename, journal + 8192, "oops", 4); /* a block of it */
    for (unsigned tries = 0; tries < 2; tries++) {
        assert_int_equal(storwin_follow(reader, &err), STORWIN_EDAMAGED);
        assert_non_null(strstr(err.text, opts.filename));
        assert_true(holds(reader, 1, BYTES));
    }
    assert_int_equal(open_fails(&opts, &err), STORWIN_EDAMAGED);
    free_window(reader);
    reader = open_reader(1);
    assert_true(holds(reader, 1, BYTES));
    write_file(opts.filename, 131072 + 5000, "oops", 4); /* the area */
    opts.generation = 1;
    assert_int_equal(open_fails(&opts, &err), STORWIN_EDAMAGED);
    free_window(win);
    free_window(reader);
    unlink(test_path("read"));
}

/* Both copies of the newest record are damaged: a reader does not take the one before for the
 * newest. */
static void damaged_record(void **state)
{
    struct storwin_window *win = open_writer(STORWIN_ATOMIC_SLOTS, BYTES), *reader;
    struct storwin_opts opts = file_opts();
    struct storwin_error err;

    commit_state(win);
    commit_state(win);
    reader = open_reader(0);
    commit_state(win); /* in place 0 */
    write_file(opts.filename, 40, "oops", 4);
    write_file(opts.filename, 32768 + 40, "oops", 4);
    assert_int_equal(storwin_follow(reader, &err), STORWIN_EDAMAGED);
    assert_true(holds(reader, 2, BYTES));
    assert_int_equal(open_fails(&opts, &err), STORWIN_EDAMAGED);
    free_window(reader);
    reader = open_reader(2);
    assert_true(holds(reader, 2, BYTES));
    free_window(win);
    free_window(reader);
    unlink(opts.filename);
}

/* A writer opens an older generation and commits: readers follow it there. */
static void goes_back(void **state)
{
    struct storwin_window *win = open_writer(STORWIN_ATOMIC_AUTO, BYTES), *reader;
    struct storwin_opts opts = storage_opts(test_path("read"));

    for (unsigned g = 1; g < 4; g++)
        commit_state(win);
    free_window(win);
    reader = open_reader(0);
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = STORWIN_ATOMIC_AUTO;
    opts.generation = 2;
    opts.flags = STORWIN_DISCARD;
    assert_int_equal(storwin_alloc(&opts, BYTES, &win, NULL), 0);
    assert_int_equal(storwin_follow(reader, NULL), 0); /* nothing has changed yet */
    test_state(4, storwin_base(win), BYTES);
    assert_int_equal(storwin_commit(win, NULL), 0);
    assert_int_equal(storwin_follow(reader, NULL), 1);
    assert_true(holds(reader, 4, BYTES));
    free_window(win);
    free_window(reader);
    unlink(test_path("read"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows),         cmocka_unit_test(named),
        cmocka_unit_test(same_home),       cmocka_unit_test(longer),
        cmocka_unit_test(only_reads),      cmocka_unit_test(permissions),
        cmocka_unit_test(read_only_mount), cmocka_unit_test(damage),
        cmocka_unit_test(damaged_record),  cmocka_unit_test(goes_back),
    };

    test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
