/* SPDX-License-Identifier: BSD-3-Clause */
/* The available memory: the kernel's estimate and the limits of control groups, read from files
 * that this test writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../../libstorwin/src/internal.h"
#include "storwin_test.h"

static struct storwin__memory_source src;
static char meminfo[128], cgroup[128], mountinfo[128];

static void put(const char *name, const char *text)
{
    char path[256], *slash;

    snprintf(path, sizeof(path), "%s/%s", test_dir, name);
    for (slash = strchr(path + strlen(test_dir) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    unlink(path);
    write_file(path, 0, text, strlen(text));
}

static const char v2_mount[] =
    "30 20 0:26 / /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
static const char v1_mount[] = "30 20 0:26 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                               "31 20 0:27 / /cg/memory rw,nosuid - cgroup cgroup rw,memory\n";
static const char v1_groups[] = "5:cpu,cpuacct:/other\n4:memory:/job/step\n0::/unified\n";

static void available(const char *what, uint64_t want)
{
    const unsigned fds = count_fds();
    uint64_t got = storwin__memory_available(&src);

    assert_int_equal(count_fds(), fds);
    if (got != want)
        fail_msg("%s: %llu instead of %llu", what, (unsigned long long)got,
                 (unsigned long long)want);
}

static void no_groups(void **state)
{
    put("meminfo", "MemTotal:       16000 kB\nMemFree:  100 kB\nMemAvailable:    8000 kB\n");
    available("neither cgroup nor mountinfo", 8000 * 1024);
    put("mountinfo", "");
    put("cgroup", "");
    available("empty", 8000 * 1024);
    put("mountinfo", "nonsense\n1 2 3\n- - -\n1 2 0:3 / /cg rw - cgroup2\n\n");
    put("cgroup", "nonsense\n:\n::\n");
    available("nonsense", 8000 * 1024);
    put("meminfo", "MemTotal: 5 kB\nMemAvailable: x kB\n");
    assert_true(storwin__memory_available(&src) > 0); /* what sysconf() says then */
}

static void version_2(void **state)
{
    put("meminfo", "MemAvailable: 1000000 kB\n");
    put("mountinfo", v2_mount);
    put("cgroup", "0::/a/b\n");
    available("files missing", UINT64_C(1000000) * 1024);
    put("cg/a/b/memory.max", "max\n");
    put("cg/a/b/memory.current", "5000\n");
    available("no limit", UINT64_C(1000000) * 1024);
    put("cg/a/b/memory.max", "100000\n");
    available("limit", 95000);
    put("cg/a/b/memory.stat", "anon 3000\nfile 2000\ninactive_file 1500\nactive_file 500\n");
    available("inactive pages of files count as free", 96500);
    put("cg/a/memory.max", "50000\n");
    put("cg/a/memory.current", "20000\n");
    available("the group above", 30000);
    put("cg/a/memory.current", "60000\n");
    available("over its limit", 0);
    put("cg/a/memory.max", "max\n");
    put("cg/memory.max", "7777\n"); /* the mount's own */
    put("cg/memory.current", "0\n");
    available("the top", 7777);
    put("cg/memory.max", "max\n");
    put("cg/a/b/memory.stat", "inactive_file 999999\n");
    available("more reclaimable than used", 95000);
    put("meminfo", "MemAvailable: 10 kB\n");
    available("the machine has less", 10240);
    put("cgroup", "0::/\n");
    available("the root group", 10240);
}

static void version_1(void **state)
{
    put("meminfo", "MemAvailable: 1000000 kB\n");
    put("mountinfo", v1_mount);
    put("cgroup", v1_groups);
    put("cg/memory/job/step/memory.limit_in_bytes", "9223372036854771712\n");
    put("cg/memory/job/step/memory.usage_in_bytes", "4096\n");
    available("no limit", UINT64_C(1000000) * 1024);
    put("cg/memory/job/step/memory.limit_in_bytes", "800000\n");
    available("limit", 800000 - 4096);
    put("cg/memory/job/step/memory.stat", "inactive_file 1\ntotal_inactive_file 4000\n");
    available("reclaimable", 800000 - 96);
    put("cg/memory/job/memory.limit_in_bytes", "10000\n");
    put("cg/memory/job/memory.usage_in_bytes", "1\n");
    available("above", 9999);
}

/* A container mounts a part of the tree, while /proc/self/cgroup still has the whole path. */
static void container(void **state)
{
    put("mountinfo", "31 20 0:27 /job /cg/inside rw,nosuid - cgroup cgroup rw,memory\n");
    put("cg/inside/step/memory.limit_in_bytes", "4242\n");
    put("cg/inside/step/memory.usage_in_bytes", "42\n");
    available("below the mount's root", 4200);
    put("cgroup", "4:memory:/elsewhere\n");
    put("cg/inside/memory.limit_in_bytes", "3000\n");
    put("cg/inside/memory.usage_in_bytes", "0\n");
    available("outside of it: its root counts", 3000);
}

static void this_machine(void **state)
{
    uint64_t now = storwin__memory_available(NULL);

    assert_in_range(now, 1 << 20, UINT64_C(1) << 48);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_groups), cmocka_unit_test(version_2),    cmocka_unit_test(version_1),
        cmocka_unit_test(container), cmocka_unit_test(this_machine),
    };

    test_begin();
    snprintf(meminfo, sizeof(meminfo), "%s/meminfo", test_dir);
    snprintf(cgroup, sizeof(cgroup), "%s/cgroup", test_dir);
    snprintf(mountinfo, sizeof(mountinfo), "%s/mountinfo", test_dir);
    src = (struct storwin__memory_source){meminfo, cgroup, mountinfo, test_path("")};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
