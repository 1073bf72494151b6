/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_internal: windows on block devices, through loop devices; and devices whose writes really
 * fail, since the file behind them is on a full file system. Needs root.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "../../libstorwin/src/internal.h"
#include "loop_device.h"
#include "storwin_test.h"

#define SIZE (UINT64_C(8) << 20)

static uint64_t page;

static struct storwin_opts dev_opts(uint32_t pager, uint64_t offset)
{
    struct storwin_opts opts = storage_opts(loop_path);

    opts.pager = pager;
    opts.offset_bytes = offset;
    opts.budget_bytes = STORWIN_MIN_BUDGET;
    opts.flags = STORWIN_UNLINK; /* no effect */
    return opts;
}

static void windows(void)
{
    struct storwin_error err;

    for (uint32_t pager = 0; pager < test_pagers; pager++) {
        struct storwin_opts a = dev_opts(pager, 0), b = dev_opts(pager, SIZE / 2);
        struct storwin_info info = {.size = sizeof(info)};
        struct storwin_window *wa, *wb;
        struct stat st;
        uint8_t *copy = malloc(SIZE);

        CHECK(storwin_alloc(&a, SIZE / 2, &wa, &err) == 0);
        CHECK(storwin_alloc(&b, SIZE / 2, &wb, &err) == 0);
        storwin_query(wb, &info);
        CHECK(info.target == STORWIN_TARGET_DEVICE && info.created == 0 &&
              info.offset_bytes == SIZE / 2);
        memset(storwin_base(wa), 'a' + (int)pager, SIZE / 2);
        memset(storwin_base(wb), 'k' + (int)pager, SIZE / 2);
        CHECK(storwin_sync(wa, 0, STORWIN_TO_END, &err) == 0 &&
              storwin_sync(wb, 0, STORWIN_TO_END, &err) == 0);
        read_file(loop_path, 0, copy, SIZE);
        for (uint64_t i = 0; i < SIZE; i++)
            CHECK(copy[i] == (i < SIZE / 2 ? 'a' : 'k') + (int)pager);
        CHECK(storwin_free(wa, &err) == 0 && storwin_free(wb, &err) == 0);
        CHECK(stat(loop_path, &st) == 0 && S_ISBLK(st.st_mode));
        free(copy);
    }
}

static void refusals(void)
{
    struct storwin_error err;
    struct storwin_window *win;

    for (uint32_t pager = 0; pager < test_pagers; pager++) {
        struct storwin_opts opts = dev_opts(pager, 0);

        CHECK(storwin_alloc(&opts, SIZE + 1, &win, &err) == STORWIN_ESHORT);
        CHECK(strcmp(err.hint, "storage_alloc_filename") == 0);
        CHECK(storwin_alloc(&opts, SIZE, &win, &err) == 0);
        CHECK(storwin_free(win, &err) == 0);
        opts.offset_bytes = SIZE - page;
        CHECK(storwin_alloc(&opts, page + 1, &win, &err) == STORWIN_ESHORT);
        CHECK(storwin_alloc(&opts, page, &win, &err) == 0);
        CHECK(storwin_free(win, &err) == 0);
        opts.offset_bytes = SIZE;
        CHECK(storwin_alloc(&opts, 1, &win, &err) == STORWIN_ESHORT);
        CHECK(strcmp(err.hint, "storage_alloc_offset") == 0);
        opts.offset_bytes = INT64_MAX / page * page;
        CHECK(storwin_alloc(&opts, 1, &win, &err) == STORWIN_ESHORT);
        opts.flags = STORWIN_SPARSE; /* a device has no holes: that excuses nothing */
        CHECK(storwin_alloc(&opts, 1, &win, &err) == STORWIN_ESHORT);
    }
}

static void commits(void)
{
    static const char zeros[4096];
    const uint64_t bytes = 1 << 20, used = 2 * 65536 + 3 * bytes;
    struct storwin_opts opts = dev_opts(STORWIN_PAGER_RESIDENT, page);
    struct storwin_info_file file = {.size = sizeof(file)};
    struct storwin_window *win, *other;
    struct storwin_error err;

    opts.atomic = STORWIN_ATOMIC_JOURNAL;
    opts.flags = STORWIN_DISCARD;
    CHECK(storwin_file_query(&opts, &file, &err) == STORWIN_EFORMAT);
    for (uint64_t at = 0; at < SIZE; at += sizeof(zeros)) /* no commits so far */
        write_file(loop_path, at, zeros, sizeof(zeros));
    CHECK(storwin_file_query(&opts, &file, &err) == STORWIN_ENONE);
    for (uint64_t g = 1; g < 5; g++) {
        CHECK(storwin_alloc(&opts, bytes, &win, &err) == 0);
        CHECK(window_generation(win) == g - 1);
        CHECK(((uint8_t *)storwin_base(win))[12345] == g - 1);
        memset(storwin_base(win), (int)g, bytes);
        CHECK(storwin_commit(win, &err) == 0);
        CHECK(storwin_free(win, &err) == 0);
        CHECK(storwin_file_query(&opts, &file, &err) == 0);
        CHECK(file.bytes == bytes && file.generation == g && file.older_generation == g - 1);
    }
    CHECK(storwin_alloc(&opts, bytes - 1, &win, &err) == STORWIN_EFORMAT);
    CHECK(storwin_alloc(&opts, 2 * bytes, &win, &err) == STORWIN_ESHORT); /* behind the old areas */
    CHECK(storwin_alloc(&opts, bytes, &win, &err) == 0);
    atomic_store(&storwin__lock_ms, 20);
    CHECK(storwin_alloc(&opts, bytes, &other, &err) == STORWIN_EBUSY);
    opts.offset_bytes = page + used; /* what lies behind it is not locked */
    CHECK(storwin_alloc(&opts, bytes, &other, &err) == 0);
    atomic_store(&storwin__lock_ms, 10000);
    CHECK(storwin_free(other, &err) == 0 && storwin_free(win, &err) == 0);
}

static atomic_int flusher_stop;

/* Acts as the kernel's flusher, without pause: writes changed pages, through its own descriptor. */
static void *flusher(void *dev)
{
    while (!atomic_load(&flusher_stop))
        (void)fdatasync(*(int *)dev);
    return NULL;
}

/* The device has SIZE bytes; the file system below has no room for the last part until the test
 * enlarges it. */
static void failing(uint32_t pager, int dev)
{
    struct storwin_opts opts = dev_opts(pager, 0);
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win;
    struct storwin_error err;
    uint8_t *base, *copy = malloc(SIZE);
    pthread_t thread;
    int rc;

    opts.flags = STORWIN_DISCARD;
    opts.budget_bytes = 2 * SIZE;
    CHECK(storwin_alloc(&opts, SIZE, &win, &err) == 0);
    storwin_query(win, &info);
    if (info.track == STORWIN_TRACK_ALL) {
        printf("pager %u: not tried: changes cannot be tracked here, so all is written\n", pager);
        CHECK(storwin_free(win, &err) == 0);
        free(copy);
        return;
    }
    base = storwin_base(win);
    memset(base, 1, SIZE / 2);
    rc = storwin_sync(win, 0, STORWIN_TO_END, &err);
    CHECK(rc == 0);
    atomic_store(&flusher_stop, 0);
    CHECK(pthread_create(&thread, NULL, flusher, &dev) == 0);
    memset(base + SIZE * 3 / 4, 2, SIZE / 4);
    rc = storwin_sync(win, 0, STORWIN_TO_END, &err);
    atomic_store(&flusher_stop, 1);
    pthread_join(thread, NULL);
    printf("pager %u: %d: %s\n", pager, rc, err.text);
    CHECK(rc == -EIO || rc == -ENOSPC);
    CHECK(err.offset >= SIZE / 2 &&
          err.offset + err.bytes > SIZE * 3 / 4); /* what could be stored is not in doubt */
    CHECK(mount("none", test_path("full"), NULL, MS_REMOUNT, "size=64m") == 0);
    /* Writes again what failed, without new stores. The kernel may have tried by itself before
     * there was room (its flusher, another process's sync()): the next sync reports that failure
     * first. */
    if (storwin_sync(win, 0, STORWIN_TO_END, &err) < 0)
        CHECK(storwin_sync(win, 0, STORWIN_TO_END, &err) == 0);
    CHECK(storwin_free(win, NULL) == 0);
    read_file(test_path("full/back"), 0, copy, SIZE);
    for (uint64_t i = 0; i < SIZE; i++)
        CHECK(copy[i] == (i < SIZE / 2 ? 1 : i < SIZE * 3 / 4 ? 0 : 2));
    free(copy);
}

/*
 * ext4 on such a device: data that could not be written into reserved blocks is on the device after
 * the sync that reports success, not only in the page cache. The loop device itself reports success
 * for the first part of a request that it could not write whole.
 */
static void reserved_blocks(uint32_t pager)
{
    struct storwin_opts opts = storage_opts(test_path("ext4/file"));
    const uint64_t image = 4 * SIZE, bytes = 2 * SIZE - 100;
    struct storwin_window *win;
    struct storwin_error err;
    uint8_t *base, *copy = malloc(bytes);
    char options[64], command[256];
    int dev, status;

    opts.pager = pager;
    opts.budget_bytes = bytes;

    snprintf(options, sizeof(options), "size=%llu", (unsigned long long)(SIZE * 5 / 4));
    CHECK(copy && (mkdir(test_path("ext4"), 0700) == 0 || errno == EEXIST));
    CHECK(mount("none", test_path("full"), "tmpfs", 0, options) == 0);
    write_file(test_path("full/image"), image - 1, "", 1);
    snprintf(command, sizeof(command),
             "mke2fs -q -F -t ext4 -O ^has_journal -N 64 -E nodiscard %s > %s 2>&1",
             test_path("full/image"), test_path("mke2fs.out"));
    status = system(command);
    dev = loop_attach(test_path("full/image"));
    if (status != 0 || mount(loop_path, test_path("ext4"), "ext4", 0, "errors=continue") < 0) {
        printf("left out: ext4 without room: needs e2fsprogs and a kernel with ext4\n");
        close(dev);
        free(copy);
        return;
    }
    CHECK(storwin_alloc(&opts, bytes, &win, &err) == 0);
    base = storwin_base(win);
    memset(base, 5, bytes);
    CHECK(storwin_sync(win, 0, STORWIN_TO_END, &err) < 0);
    printf("ext4, pager %u: %s\n", pager, err.text);
    CHECK(mount("none", test_path("full"), NULL, MS_REMOUNT, "size=64m") == 0);
    if (storwin_sync(win, 0, STORWIN_TO_END, &err) < 0) /* what the flusher had tried meanwhile */
        CHECK(storwin_sync(win, 0, STORWIN_TO_END, &err) == 0);
    for (uint64_t i = 0; i < bytes; i++)
        CHECK(base[i] == 5);
    CHECK(storwin_free(win, &err) == 0);
    CHECK(file_size(test_path("ext4/file")) == bytes);
    CHECK(umount(test_path("ext4")) == 0 &&
          mount(loop_path, test_path("ext4"), "ext4", 0, "errors=continue") == 0);
    read_file(test_path("ext4/file"), 0, copy, bytes);
    for (uint64_t i = 0; i < bytes; i++)
        CHECK(copy[i] == 5);
    CHECK(umount(test_path("ext4")) == 0);
    close(dev);
    umount2(test_path("full"), MNT_DETACH);
    free(copy);
}

int main(void)
{
    char options[64];
    int dev;

    page = (uint64_t)sysconf(_SC_PAGESIZE);
    setvbuf(stdout, NULL, _IOLBF, 0);
    errno = EPERM;
    if (geteuid() != 0 || private_mounts() < 0)
        loop_skip("mounts of its own");
    test_begin();
    write_file(test_path("back"), SIZE - 1, "", 1);
    dev = loop_attach(test_path("back"));
    windows();
    refusals();
    commits();
    close(dev);

    CHECK(mkdir(test_path("full"), 0700) == 0);
    snprintf(options, sizeof(options), "size=%llu", (unsigned long long)(SIZE * 5 / 8));
    for (uint32_t pager = 0; pager < test_pagers; pager++) {
        if (mount("none", test_path("full"), "tmpfs", 0, options) < 0)
            loop_skip("mount");
        write_file(test_path("full/back"), SIZE - 1, "", 1);
        dev = loop_attach(test_path("full/back"));
        failing(pager, dev);
        close(dev);
        umount2(test_path("full"), MNT_DETACH); /* the device goes a little later */
    }
    for (uint32_t pager = 0; pager < test_pagers; pager++)
        reserved_blocks(pager);
    return 0;
}
