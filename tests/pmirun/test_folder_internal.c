/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Removal of temporary folders under interference: a link replaces a folder between two calls,
 * another user owns a folder, a thread fills a folder as fast as it is emptied, a folder that looks
 * abandoned is made again.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY    "0123456789abcdef"
#define NOBODY 65534
#define MANY   (1u << 22) /* entries: more than a removal examines */

static int test_openat(int parent, const char *name, int flags);
static int test_fstat(int fd, struct stat *st);
static int test_fstatat(int parent, const char *name, struct stat *st, int flags);
static struct dirent *test_readdir(DIR *d);
static int test_unlinkat(int parent, const char *name, int flags);
static int test_flock(int fd, int operation);

#define openat   test_openat
#define fstat    test_fstat
#define fstatat  test_fstatat
#define readdir  test_readdir
#define unlinkat test_unlinkat
#define flock    test_flock
#include "../../examples/pmirun/local/folder.c"
#undef openat
#undef fstat
#undef fstatat
#undef readdir
#undef unlinkat
#undef flock

/* ---- pmirun, as far as folder.c calls it ---- */

uint64_t clock_ns(void)
{
    static uint64_t now;

    return ++now;
}

const char *own_host(void)
{
    return "host";
}

uint32_t hash_text(const char *text)
{
    return (uint32_t)strlen(text);
}

void log_verbose(const char *format, ...)
{
}

char *xprintf(const char *format, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, format);
    assert_true(vasprintf(&text, format, ap) >= 0);
    va_end(ap);
    return text;
}

/* ---- interference ---- */

static char dir[32], folder[128], aside[64], kept[64], inside[160];
static int n_calls, swap_at; /* at which call a link takes the folder's place; 0: never */
static bool swapped;
static enum { NOT_FILLED, FILES, FOLDERS } filling; /* with entries that vanish; that stay */
static unsigned n_seen;

static int called(int rc)
{
    const int err = errno;

    if (++n_calls == swap_at) /* unless it is gone by then */
        swapped = rename(folder, aside) == 0 && symlink(kept, folder) == 0;
    errno = err;
    return rc;
}

static int test_openat(int parent, const char *name, int flags)
{
    return called(openat(parent, name, flags));
}

static int test_fstat(int fd, struct stat *st)
{
    return called(fstat(fd, st));
}

/* Only an implementation that resolves a name calls it. */
__attribute__((unused)) static int test_fstatat(int parent, const char *name, struct stat *st,
                                                int flags)
{
    return called(fstatat(parent, name, st, flags));
}

static struct dirent *test_readdir(DIR *d)
{
    static struct dirent entry = {.d_name = "sub"};

    if (!filling)
        return readdir(d);
    if (++n_seen > MANY)
        fail_msg("more than %u entries, and no end", MANY);
    return &entry;
}

static int test_unlinkat(int parent, const char *name, int flags)
{
    if (!filling)
        return unlinkat(parent, name, flags);
    if (filling == FILES && strcmp(name, "sub") == 0)
        return 0;
    errno = ENOTEMPTY;
    return -1;
}

/* Another pmirun has removed the folder, and its owner makes it again and locks it. */
static bool is_made_again;
static int owners = -1;

static int test_flock(int fd, int operation)
{
    if (is_made_again && owners < 0) {
        assert_int_equal(rmdir(inside), 0);
        assert_int_equal(rmdir(folder), 0);
        assert_int_equal(mkdir(folder, 0700), 0);
        owners = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(flock(owners, LOCK_EX), 0);
    }
    return flock(fd, operation);
}

/* ---- the tests ---- */

/* Makes the folder that has our key, with a folder in it. */
static int setup(void **state)
{
    char name[NAME_BYTES];

    strcpy(dir, "/tmp/test-folder-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(setenv("TMPDIR", dir, 1), 0);
    folder_name(KEY, name);
    snprintf(folder, sizeof(folder), "%s/%s", dir, name);
    snprintf(inside, sizeof(inside), "%s/sub", folder);
    snprintf(aside, sizeof(aside), "%s/aside", dir);
    snprintf(kept, sizeof(kept), "%s/kept", dir);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(mkdir(inside, 0700), 0);
    swap_at = n_calls = 0;
    filling = NOT_FILLED;
    n_seen = 0;
    return 0;
}

static int teardown(void **state)
{
    char command[128];

    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
    snprintf(command, sizeof(command), "chmod -R u+rwX %s; rm -rf %s", dir, dir);
    return system(command) == 0 ? 0 : -1;
}

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* A folder that no user may enter, not even its owner; as root the test switches to another
 * user. */
static void test_closed(void **state)
{
    if (geteuid() == 0) {
        assert_int_equal(chown(dir, NOBODY, (gid_t)-1), 0);
        assert_int_equal(chown(folder, NOBODY, (gid_t)-1), 0);
        assert_int_equal(chown(inside, NOBODY, (gid_t)-1), 0);
        assert_int_equal(seteuid(NOBODY), 0);
        prctl(PR_SET_DUMPABLE, 1); /* else /proc/self is root's */
    }
    assert_int_equal(chmod(inside, 0), 0);
    assert_int_equal(chmod(folder, 0), 0);
    assert_true(folder_remove(KEY));
    assert_false(exists(folder));
}

/* The same, and a link to a file of ours takes its place after the first call, the second... */
static void test_swapped(void **state)
{
    struct stat st;
    int fd, at = 0;

    assert_int_equal(rmdir(inside), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(dir, NOBODY, (gid_t)-1), 0);
        assert_int_equal(chown(folder, NOBODY, (gid_t)-1), 0);
        assert_int_equal(seteuid(NOBODY), 0);
        prctl(PR_SET_DUMPABLE, 1);
    }
    fd = open(kept, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    do {
        mkdir(folder, 0700); /* where the last round has removed it */
        assert_int_equal(chmod(folder, 0), 0);
        swap_at = ++at;
        n_calls = 0;
        swapped = false;
        folder_remove(KEY);
        assert_int_equal(stat(kept, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        if (swapped) {
            unlink(folder);
            assert_int_equal(rename(aside, folder), 0);
        }
    } while (swapped);
    assert_true(at > 3);
}

/* Another user's, in our folder or in its place, is left alone. */
static void test_foreign(void **state)
{
    char file[192];
    int fd;

    if (geteuid() != 0)
        skip(); /* only root can give folders away */
    snprintf(file, sizeof(file), "%s/file", inside);
    fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(chown(inside, NOBODY, (gid_t)-1), 0);
    assert_false(folder_remove(KEY));
    assert_true(exists(file));
    assert_int_equal(chown(inside, 0, (gid_t)-1), 0);
    assert_int_equal(chown(folder, NOBODY, (gid_t)-1), 0);
    assert_false(folder_remove(KEY));
    assert_true(exists(file));
    assert_int_equal(chown(folder, 0, (gid_t)-1), 0);
    assert_true(folder_remove(KEY));
    assert_false(exists(folder));
}

static void test_filled(void **state)
{
    filling = FILES;
    assert_false(folder_remove(KEY));
    assert_true(n_seen > 1000);
    n_seen = 0;
    filling = FOLDERS;
    assert_false(folder_remove(KEY));
    assert_true(n_seen > 1000);
    filling = NOT_FILLED;
    assert_true(folder_remove(KEY));
}

static void test_made_again(void **state)
{
    is_made_again = true;
    sweep_place(dir);
    is_made_again = false;
    assert_true(owners >= 0);
    assert_true(exists(folder));
    close(owners);
    sweep_place(dir); /* now its owner is gone */
    assert_false(exists(folder));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_swapped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign, setup, teardown),
        cmocka_unit_test_setup_teardown(test_filled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_made_again, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
