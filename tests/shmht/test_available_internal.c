/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that cgroups of version 2 leave: made-up ones, in a child with mounts of its own. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../../libshmht/src/internal.h"
#include "cm.h"

#define ROOT "/sys/fs/cgroup"

static void write_file(const char *name, const char *text)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof(path), ROOT "%s", name);
    f = fopen(path, "we");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Where this process may mount: an empty file system for the groups, and its place in them. */
static void mount_groups(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", ROOT, "tmpfs", 0, "size=1m") != 0)
        _exit(77);
    write_file("/place", "4:memory:/other\n0::/job/task\n");
    if (mount(ROOT "/place", "/proc/self/cgroup", NULL, MS_BIND, NULL) != 0)
        _exit(77);
    CHECK(mkdir(ROOT "/job", 0700) == 0 && mkdir(ROOT "/job/task", 0700) == 0);
}

/* The least that the process's group and those above it allow; inactive files count as free. */
static void test_groups(void **state)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        mount_groups();
        CHECK(shmht__available_bytes() > 9000000); /* without a limit */
        write_file("/job/task/memory.max", "max\n");
        write_file("/job/memory.max", "9000000\n");
        write_file("/job/memory.current", "4000000\n");
        CHECK(shmht__available_bytes() == 5000000);
        write_file("/job/memory.stat", "anon 1\ninactive_file 1000\nactive_file 2\n");
        CHECK(shmht__available_bytes() == 5001000);
        write_file("/job/task/memory.max", "5000000\n");
        write_file("/job/task/memory.current", "1\n");
        CHECK(shmht__available_bytes() == 4999999);
        write_file("/job/task/memory.current", "5000001\n");
        CHECK(shmht__available_bytes() == 0);
        write_file("/place", "0::/\n");
        CHECK(shmht__available_bytes() > 9000000);
        write_file("/memory.max", "3000000\n");
        CHECK(shmht__available_bytes() == 3000000);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        printf("no mount namespace here: limits of cgroups not tested\n");
        return;
    }
    assert_int_equal(status, 0);
}

static void test_descriptors(void **state)
{
    int fds = n_fds();

    assert_true(shmht__available_bytes() > 0);
    assert_int_equal(n_fds(), fds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
