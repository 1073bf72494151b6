/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../heap.h"
#include "cm.h"

static void test_array(void **state)
{
    struct shmht_array_opts opts = {.size = sizeof(opts), .n_ranks = 1000, .stride_bytes = 32};
    struct shmht_array *a, *r;
    struct shmht_info_array info;
    struct shmht_bytes value;
    struct shmht_desc desc;
    static unsigned char values[1000 * 32];
    unsigned char v[33] = "0123456789abcdef0123456789abcdef";

    assert_int_equal(shmht_array_create(&opts, &a, NULL), 0);
    assert_true(shmht_array_share(a, &desc) >= 0);
    assert_int_equal(desc.kind, SHMHT_KIND_ARRAY);
    assert_int_equal(shmht_array_attach(&desc, shmht_array_share(a, NULL), NULL, &r, NULL), 0);
    value = (struct shmht_bytes){"old", 3};
    assert_int_equal(shmht_array_get(r, 0, &value), SHMHT_ENOENT);
    assert_true(!value.ptr && value.len == 0);
    value = (struct shmht_bytes){"old", 3};
    assert_int_equal(shmht_array_get(r, 1000, &value), SHMHT_ERANK);
    assert_true(!value.ptr && value.len == 0);
    assert_int_equal(shmht_array_get(r, UINT64_MAX, &value), SHMHT_ERANK);
    assert_int_equal(shmht_array_put(a, 1000, v, 1), SHMHT_ERANK);
    assert_int_equal(shmht_array_put(a, 3, v, 33), SHMHT_EVALLEN);
    assert_int_equal(shmht_array_put(a, 3, v, 32), 0);
    assert_int_equal(shmht_array_put(a, 3, v, 32), SHMHT_EEXIST);
    assert_int_equal(shmht_array_put(a, 999, v, 5), 0);
    assert_int_equal(shmht_array_put(r, 5, v, 5), -EINVAL);
    assert_int_equal(shmht_array_share(r, NULL), -EINVAL);
    assert_int_equal(shmht_array_get(r, 3, &value), 0);
    assert_true(value.len == 32 && memcmp(value.ptr, v, 32) == 0);
    shmht_array_query(r, &info);
    assert_ptr_equal(value.ptr, (const unsigned char *)info.values + 3 * 32);
    assert_true((uintptr_t)info.values % 4096 == 0);
    assert_int_equal(shmht_array_get(r, 999, &value), 0);
    assert_true(value.len == 32 && memcmp(value.ptr, "01234\0\0\0\0\0\0", 11) == 0);
    for (size_t i = 0; i < sizeof(values); i++)
        values[i] = (unsigned char)mix(i);
    assert_int_equal(shmht_array_get(r, 0, &value), SHMHT_ENOENT);
    for (uint64_t i = 0; i < 999; i++)
        assert_int_equal(shmht_array_put(a, i, values + i * 32, 32), i == 3 ? SHMHT_EEXIST : 0);
    for (uint64_t i = 0; i < 999; i++) {
        assert_int_equal(shmht_array_get(r, i, &value), 0);
        assert_memory_equal(value.ptr, i == 3 ? v : values + i * 32, 32);
    }
    shmht_array_query(r, &info);
    assert_true(info.n_set == 1000 && info.n_ranks == 1000 && info.stride_bytes == 32 &&
                info.generation == 1);
    assert_true(info.total_bytes == 4096 + 32768);
    shmht_array_detach(r);
    shmht_array_destroy(a);
    shmht_array_detach(NULL);
    shmht_array_destroy(NULL);
}

/* Handles are freed, also those of an attach that fails. */
static void test_array_handles(void **state)
{
    struct heap heap = {0};
    const struct shmht_allocator allocator = {heap_realloc, heap_free, &heap};
    struct shmht_array_opts opts = {
        .size = sizeof(opts), .n_ranks = 4, .stride_bytes = 8, .allocator = &allocator};
    struct shmht_reader_opts how = {.size = sizeof(how), .allocator = &allocator};
    struct shmht_array *a, *r;
    struct shmht_desc desc;

    assert_int_equal(shmht_array_create(&opts, &a, NULL), 0);
    assert_true(shmht_array_share(a, &desc) >= 0);
    assert_int_equal(shmht_array_attach(&desc, shmht_array_share(a, NULL), &how, &r, NULL), 0);
    assert_int_equal(heap.n_live, 2);
    shmht_array_detach(r);
    assert_int_equal(heap.n_live, 1);
    desc.kind = SHMHT_KIND_TABLE;
    assert_int_equal(shmht_array_attach(&desc, shmht_array_share(a, NULL), &how, &r, NULL),
                     SHMHT_EKIND);
    assert_int_equal(heap.n_live, 1);
    heap.fail_at = heap.n_calls + 1;
    assert_int_equal(shmht_array_attach(NULL, shmht_array_share(a, NULL), &how, &r, NULL), -ENOMEM);
    shmht_array_destroy(a);
    heap.fail_at = heap.n_calls + 1;
    assert_int_equal(shmht_array_create(&opts, &a, NULL), -ENOMEM);
    assert_int_equal(heap.n_live, 0);
}

/* An array of one rank, and headers that contradict themselves. */
static void test_sizes_refused(void **state)
{
    static const struct {
        uint64_t n_ranks, stride;
        int rc;
        const char *what;
    } sizes[] = {
        {1, 8, 0, NULL},
        {504, 8, 0, NULL}, /* with their bits they end before byte 8192 */
        {505, 8, SHMHT_ECORRUPT, "n_ranks"},
        {0, 8, SHMHT_ECORRUPT, "n_ranks"},
        {UINT64_MAX, 8, SHMHT_ECORRUPT, "n_ranks"},
        {SHMHT_MAX_REGION_BYTES + 1, 1, SHMHT_ECORRUPT, "n_ranks"},
        {1, 0, SHMHT_ECORRUPT, "stride_bytes"},
        {1, SHMHT_MAX_STRIDE_BYTES, SHMHT_ECORRUPT, "n_ranks"},
        {1, SHMHT_MAX_STRIDE_BYTES + 1, SHMHT_ECORRUPT, "stride_bytes"},
    };
    struct shmht_array_opts opts = {.size = sizeof(opts), .n_ranks = 1, .stride_bytes = 8};
    struct shmht_reader_opts how = {.size = sizeof(how), .flags = SHMHT_UNSEALED};
    int fd = memfd_create("shmht-test", MFD_CLOEXEC), status;
    struct shmht_array *a, *r;
    struct shmht_info_array info;
    struct shmht_bytes value;
    struct shmht_error err;
    uint64_t *h;
    pid_t pid, parent;

    assert_true(fd >= 0 && ftruncate(fd, 8192) == 0);
    h = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(h != MAP_FAILED);
    assert_int_equal(shmht_array_create(&opts, &a, NULL), 0);
    assert_int_equal(shmht_array_put(a, 0, "12345678", 8), 0);
    assert_int_equal(pread(shmht_array_share(a, NULL), h, 8192, 0), 8192);
    shmht_array_destroy(a);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        h[5] = sizes[i].n_ranks; /* LAYOUT.md */
        h[6] = sizes[i].stride;
        assert_int_equal(shmht_array_attach(NULL, fd, &how, &r, &err), sizes[i].rc);
        if (sizes[i].rc != 0) {
            assert_string_equal(err.what, sizes[i].what);
            continue;
        }
        assert_int_equal(shmht_array_get(r, sizes[i].n_ranks, &value), SHMHT_ERANK);
        shmht_array_detach(r);
    }
    /* Another process keeps changing the stride while this one attaches. */
    h[5] = 1;
    parent = getpid();
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        volatile uint64_t *stride = &h[6];

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(0);
        for (;;) {
            *stride = 8;
            *stride = 0;
        }
    }
    for (int i = 0; i < 5000; i++) {
        if (shmht_array_attach(NULL, fd, &how, &r, NULL) != 0)
            continue;
        shmht_array_query(r, &info);
        shmht_array_detach(r);
        if (info.stride_bytes != 8) {
            kill(pid, SIGKILL);
            fail_msg("round %d: an array of %d bytes", i, (int)info.stride_bytes);
        }
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    munmap(h, 8192);
    close(fd);
}

static void test_options(void **state)
{
    struct shmht_array_opts opts = {.size = sizeof(opts), .n_ranks = 10, .stride_bytes = 1}, bad;
    struct shmht_writer_opts topts = {.size = sizeof(topts), .max_bytes = 1 << 20};
    static _Alignas(64) unsigned char region[65536];
    struct shmht_reader_opts mapped = {
        .size = sizeof(mapped), .region = region, .region_bytes = sizeof(region)};
    struct shmht_array *a, *r;
    struct shmht_reader *t;
    struct shmht_writer *w;
    struct shmht_desc desc;

#define REFUSED(member, value, code)                                                               \
    bad = opts;                                                                                    \
    bad.member = value;                                                                            \
    assert_int_equal(shmht_array_create(&bad, &a, NULL), code)
    REFUSED(size, 1, -EINVAL);
    assert_int_equal(shmht_array_create(&opts, NULL, NULL), -EINVAL);
    assert_int_equal(shmht_array_attach(NULL, -1, NULL, NULL, NULL), -EINVAL);
    REFUSED(n_ranks, 0, -EINVAL);
    REFUSED(n_ranks, UINT64_MAX, -EINVAL);
    REFUSED(n_ranks, SHMHT_MAX_REGION_BYTES, -EINVAL); /* with the header it is too large */
    REFUSED(stride_bytes, 0, -EINVAL);
    REFUSED(stride_bytes, SHMHT_MAX_STRIDE_BYTES + 1, -EINVAL);
    REFUSED(flags, SHMHT_POPULATE, -EINVAL);
    REFUSED(name, "/dev/shm/x", -EINVAL);
    REFUSED(min_free_bytes, UINT64_MAX / 2, 0); /* not checked below a megabyte */
    shmht_array_destroy(a);
    bad.n_ranks = 2 << 20;
    assert_int_equal(shmht_array_create(&bad, &a, NULL), -ENOMEM);
    assert_int_equal(shmht_array_create(&opts, &a, NULL), 0);
    assert_int_equal(shmht_writer_create(&topts, &w, NULL), 0);
    assert_int_equal(shmht_reader_attach(NULL, shmht_array_share(a, NULL), NULL, &t, NULL),
                     SHMHT_EKIND);
    assert_int_equal(shmht_array_attach(NULL, shmht_writer_share(w, NULL), NULL, &r, NULL),
                     SHMHT_EKIND);
    assert_int_equal(shmht_array_attach(NULL, -1, &mapped, &r, NULL), -EINVAL); /* an object only */
    assert_true(shmht_array_share(a, &desc) >= 0);
    desc.generation++;
    assert_int_equal(shmht_array_attach(&desc, shmht_array_share(a, NULL), NULL, &r, NULL),
                     SHMHT_ESTALE);
    shmht_writer_destroy(w);
    shmht_array_destroy(a);
}

/* A million ranks of 32 bytes take 32 MB and an eighth of a byte each, for any number of
 * readers. */
static void test_size(void **state)
{
    struct shmht_array_opts opts = {
        .size = sizeof(opts), .n_ranks = 1000000, .stride_bytes = 32, .flags = SHMHT_NAMED};
    struct shmht_array *a, *r;
    struct shmht_info_array info;
    struct shmht_desc desc;

    assert_int_equal(shmht_array_create(&opts, &a, NULL), 0);
    assert_true(shmht_array_share(a, &desc) >= 0);
    assert_int_equal(shmht_array_attach(&desc, -1, NULL, &r, NULL), 0);
    shmht_array_query(r, &info);
    assert_true(info.total_bytes < 33000000 && info.n_set == 0);
    shmht_array_destroy(a);
    assert_int_equal(shmht_array_attach(&desc, -1, NULL, &a, NULL),
                     -ENOENT); /* the name has gone, the mapping has not */
    shmht_array_query(r, &info);
    shmht_array_detach(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_array),         cmocka_unit_test(test_array_handles),
        cmocka_unit_test(test_sizes_refused), cmocka_unit_test(test_options),
        cmocka_unit_test(test_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
