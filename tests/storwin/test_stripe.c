/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Striping, with a stand-in for Lustre: by --wrap, fstatfs() names that file system and ioctl()
 * takes the layout. Tests the layout sent and the handling of a refusal, not Lustre itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "storwin_test.h"

static int lustre, refuses;
static unsigned calls;
static uint8_t sent[32];

int __real_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs)
{
    int rc = __real_fstatfs(fd, fs);

    if (lustre)
        fs->f_type = 0x0BD00BD0;
    return rc;
}

int __real_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...)
{
    va_list args;
    void *arg;

    va_start(args, what);
    arg = va_arg(args, void *);
    va_end(args);
    if (what != _IOW('f', 154, long))
        return __real_ioctl(fd, what, arg);
    calls++;
    memcpy(sent, arg, sizeof(sent));
    if (!refuses)
        return 0;
    errno = ENOSPC;
    return -1;
}

static uint32_t outcome(const char *path, char *hint)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win;

    opts.striping_factor = 7;
    opts.striping_unit = 3 << 20;
    assert_int_equal(storwin_alloc(&opts, 100000, &win, NULL), 0);
    storwin_query(win, &info);
    if (storwin_hint_query(win, "striping_unit", hint, 32) < 0)
        strcpy(hint, "none");
    assert_int_equal(storwin_free(win, NULL), 0);
    assert_int_equal(file_size(path), 100000);
    return info.striping;
}

static void applied(void **state)
{
    static const struct {
        uint32_t magic, pattern;
        uint64_t object[2];
        uint32_t unit;
        uint16_t factor, first;
    } layout = {.magic = 0x0BD10BD0, .pattern = 1, .unit = 3 << 20, .factor = 7, .first = 0xffff};
    char hint[32];

    lustre = 1;
    assert_int_equal(outcome(test_path("a"), hint), STORWIN_STRIPING_APPLIED);
    assert_string_equal(hint, "3145728");
    assert_int_equal(calls, 1);
    assert_int_equal(sizeof(layout), sizeof(sent));
    assert_memory_equal(sent, &layout, sizeof(layout)); /* lov_user_md_v1 */
    assert_int_equal(outcome(test_path("a"), hint), STORWIN_STRIPING_EXISTING);
    assert_string_equal(hint, "none");
    assert_int_equal(calls, 1);
}

static void refused(void **state)
{
    char hint[32];

    lustre = refuses = 1;
    assert_int_equal(outcome(test_path("b"), hint), STORWIN_STRIPING_UNSUPPORTED);
    assert_string_equal(hint, "unsupported");
    lustre = refuses = 0;
    calls = 0;
    assert_int_equal(outcome(test_path("c"), hint), STORWIN_STRIPING_UNSUPPORTED);
    assert_int_equal(calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(applied), cmocka_unit_test(refused)};

    test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
