/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuse_errors: a file system in user space, mounted by an ordinary user, that holds one file in
 * memory and fails chosen writes, flushes and reads. So the kernel itself reports the errors, from
 * write-back of the page cache, from direct writes and from io_uring: each error must reach the
 * caller once, with its range, and the sync after it must store everything. It also delays a write
 * while the writer is killed.
 */
#define FUSE_USE_VERSION 31
#include <fuse3/fuse.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/wait.h>

#include "../../libstorwin/src/internal.h"
#include "storwin_test.h"

#define PAGES    5000u
#define CAPACITY (UINT64_C(32) << 20)
#define FUSE_FS  0x65735546

/* Shared by the test and its file system. */
struct disk {
    atomic_ullong bad_from, bad_to; /* of the file: writes here fail */
    atomic_int bad_times, bad_code, bad_reads, flush_fails;
    atomic_int hold; /* the next write: HOLD_NEXT, HELD, LET_GO, LANDED */
    atomic_uint n_writes, n_flushes, exists;
    atomic_ullong size;
    uint8_t data[CAPACITY];
};
enum { HOLD_NONE, HOLD_NEXT, HELD, LET_GO, LANDED };
static struct disk *disk;
static uint64_t page;

static int is_bad(uint64_t offset, uint64_t bytes)
{
    return offset < atomic_load(&disk->bad_to) && offset + bytes > atomic_load(&disk->bad_from);
}

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
    memset(st, 0, sizeof(*st));
    st->st_uid = geteuid();
    st->st_gid = getegid();
    st->st_nlink = 1;
    if (strcmp(path, "/") == 0) {
        st->st_mode = S_IFDIR | 0700;
        return 0;
    }
    if (strcmp(path, "/file") != 0 || !atomic_load(&disk->exists))
        return -ENOENT;
    st->st_mode = S_IFREG | 0600;
    st->st_size = (off_t)atomic_load(&disk->size);
    st->st_blocks = st->st_size / 512; /* no holes */
    return 0;
}

static int fs_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
    (void)mode, (void)fi;
    if (strcmp(path, "/file") != 0)
        return -ENOSPC;
    memset(disk->data, 0, sizeof(disk->data));
    atomic_store(&disk->size, 0);
    atomic_store(&disk->exists, 1);
    return 0;
}

static int fs_unlink(const char *path)
{
    atomic_store(&disk->exists, 0);
    return 0;
}

static int fs_open(const char *path, struct fuse_file_info *fi)
{
    (void)path, (void)fi;
    return 0;
}

static int fs_read(const char *path, char *to, size_t bytes, off_t offset,
                   struct fuse_file_info *fi)
{
    const uint64_t size = atomic_load(&disk->size), at = (uint64_t)offset;

    (void)path, (void)fi;
    if (atomic_load(&disk->bad_reads) && is_bad(at, bytes))
        return -EIO;
    if (at >= size)
        return 0;
    if (bytes > size - at)
        bytes = size - at;
    memcpy(to, disk->data + at, bytes);
    return (int)bytes;
}

static int fs_write(const char *path, const char *from, size_t bytes, off_t offset,
                    struct fuse_file_info *fi)
{
    const uint64_t at = (uint64_t)offset;
    int next = HOLD_NEXT, let_go = LET_GO;

    (void)path, (void)fi;
    atomic_fetch_add(&disk->n_writes, 1);
    if (atomic_compare_exchange_strong(&disk->hold, &next, HELD))
        while (atomic_load(&disk->hold) == HELD)
            usleep(1000);
    if (at > CAPACITY || bytes > CAPACITY - at)
        return -ENOSPC;
    if (is_bad(at, bytes) && atomic_load(&disk->bad_times) > 0) {
        atomic_fetch_sub(&disk->bad_times, 1);
        return -atomic_load(&disk->bad_code);
    }
    memcpy(disk->data + at, from, bytes);
    if (at + bytes > atomic_load(&disk->size))
        atomic_store(&disk->size, at + bytes);
    if (next == HOLD_NEXT)
        (void)atomic_compare_exchange_strong(&disk->hold, &let_go, LANDED);
    return (int)bytes;
}

static int fs_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
    (void)path, (void)fi;
    atomic_store(&disk->size, (uint64_t)size);
    return 0;
}

static int fs_fallocate(const char *path, int mode, off_t offset, off_t bytes,
                        struct fuse_file_info *fi)
{
    (void)path, (void)fi;
    if (mode & ~FALLOC_FL_KEEP_SIZE || (uint64_t)(offset + bytes) > CAPACITY)
        return mode & ~FALLOC_FL_KEEP_SIZE ? -EOPNOTSUPP : -ENOSPC;
    if (!(mode & FALLOC_FL_KEEP_SIZE) && (uint64_t)(offset + bytes) > atomic_load(&disk->size))
        atomic_store(&disk->size, (uint64_t)(offset + bytes));
    return 0;
}

static int fs_fsync(const char *path, int data_only, struct fuse_file_info *fi)
{
    (void)path, (void)data_only, (void)fi;
    atomic_fetch_add(&disk->n_flushes, 1);
    return atomic_fetch_sub(&disk->flush_fails, 1) > 0 ? -EIO : 0;
}

static void *fs_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
    config->hard_remove = 1; /* a file that is open is not renamed first */
    return NULL;
}

static const struct fuse_operations operations = {.init = fs_init,
                                                  .getattr = fs_getattr,
                                                  .create = fs_create,
                                                  .unlink = fs_unlink,
                                                  .open = fs_open,
                                                  .read = fs_read,
                                                  .write = fs_write,
                                                  .truncate = fs_truncate,
                                                  .fallocate = fs_fallocate,
                                                  .fsync = fs_fsync};

/* Serves the file system in a process of its own, which ends with this one. */
static pid_t serve(const char *where)
{
    char *argv[] = {strdup("fuse_errors"), strdup("-f"), strdup(where), NULL};
    const pid_t parent = getpid();
    struct statfs fs;
    pid_t pid;
    int status;

    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int rc = prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent ||
                 fuse_main(3, argv, &operations, NULL);

        (void)rmdir(where); /* which whoever died could not */
        (void)rmdir(test_dir);
        _exit(rc);
    }
    for (unsigned i = 0; i < 3; i++)
        free(argv[i]);
    for (int i = 0; i < 6000; i++) {
        if (statfs(where, &fs) == 0 && fs.f_type == FUSE_FS)
            return pid;
        if (waitpid(pid, &status, WNOHANG) == pid) { /* it has said why */
            printf(
                "skip: needs /dev/fuse and fusermount3 (fuse3), and to be allowed to use them\n");
            exit(77);
        }
        usleep(10000);
    }
    CHECK(!"the file system is mounted");
    return -1;
}

static void fail_writes(uint64_t from, uint64_t to, int times, int code)
{
    atomic_store(&disk->bad_from, from);
    atomic_store(&disk->bad_to, to);
    atomic_store(&disk->bad_code, code);
    atomic_store(&disk->bad_times, times);
}

struct mode {
    const char *name;
    uint32_t pager;
    unsigned without;
};

/* Writes of one page fail until a sync has reported it. */
static void writes(const struct mode *m, const char *path)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win;
    struct storwin_error err;
    uint8_t *base;
    int rc;

    atomic_store(&storwin__without, m->without);
    opts.pager = m->pager;
    opts.offset_bytes = page;
    opts.budget_bytes = CAPACITY;
    opts.flags = STORWIN_UNLINK;
    rc = storwin_alloc(&opts, PAGES * page - 1, &win, &err);
    if (rc == STORWIN_EPAGER) {
        printf("%s: not on this kernel\n", m->name);
        return;
    }
    if (rc < 0)
        fprintf(stderr, "%s: %s: %s\n", m->name, err.hint, err.text);
    CHECK(rc == 0);
    base = storwin_base(win);
    for (unsigned round = 0; round < 6; round++) {
        const uint64_t bad = round % 3 == 0 ? 0 : round % 3 == 1 ? PAGES - 1 : 2345;
        const int code = round % 2 ? ENOSPC : EIO;

        for (uint64_t p = bad % 7; p < PAGES; p += 7)
            base[p * page + 1] = (uint8_t)(round + p);
        base[bad * page + 1] = (uint8_t)(round + 99);
        fail_writes((bad + 1) * page, (bad + 2) * page, 1 << 30,
                    code); /* however often it is tried */
        memset(&err, 0, sizeof(err));
        rc = storwin_sync(win, 0, STORWIN_TO_END, &err);
        if (round == 0)
            printf("%s: %s\n", m->name, err.text);
        if (rc != -code)
            fprintf(stderr, "%s: round %u: %d: %s\n", m->name, round, rc, err.text);
        CHECK(rc == -code && err.code == rc);
        CHECK(strcmp(err.hint, "storage_alloc_filename") == 0);
        CHECK(err.bytes > 0 && err.bytes <= UINT64_C(16) << 20);
        CHECK(err.offset <= bad * page && err.offset + err.bytes > bad * page);
        fail_writes(0, 0, 0, 0);
        CHECK(storwin_sync(win, 0, STORWIN_TO_END, &err) ==
              0); /* told once; and what was not stored is stored now */
        for (uint64_t p = bad % 7; p < PAGES; p += 7)
            CHECK(disk->data[(p + 1) * page + 1] == (p == bad ? round + 99 : (uint8_t)(round + p)));
        CHECK(disk->data[(bad + 1) * page + 1] == round + 99);
        CHECK(storwin_sync(win, 0, STORWIN_TO_END, &err) == 0);
    }
    for (uint64_t p = 0; p < PAGES;
         p++) /* the device fails to flush: all that was written is in doubt */
        base[p * page] = 7;
    atomic_store(&disk->flush_fails, 1);
    CHECK(storwin_sync(win, 0, STORWIN_TO_END, &err) == -EIO);
    /* The user pager flushes after each quarter of its budget. */
    CHECK(err.offset == 0 && (m->pager == STORWIN_PAGER_USER ? err.bytes >= CAPACITY / 8
                                                             : err.bytes == PAGES * page - 1));
    CHECK(storwin_sync(win, 0, STORWIN_TO_END, &err) == 0);
    for (uint64_t p = 0; p < PAGES; p++)
        CHECK(disk->data[(p + 1) * page] == 7);
    CHECK(storwin_free(win, &err) == 0);
    CHECK(!atomic_load(&disk->exists));
}

/* A bad sector while a resident window is read: an error at once. */
static void reads(const char *path)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win;
    struct storwin_error err;

    atomic_store(&storwin__without, 0);
    write_file(path, 100 * page - 1, "x", 1);
    opts.pager = STORWIN_PAGER_RESIDENT;
    fail_writes(50 * page, 51 * page, 0, EIO);
    atomic_store(&disk->bad_reads, 1);
    CHECK(storwin_alloc(&opts, 100 * page, &win, &err) == -EIO);
    CHECK(strcmp(err.hint, "storage_alloc_filename") == 0);
    atomic_store(&disk->bad_reads, 0);
    CHECK(storwin_alloc(&opts, 100 * page, &win, &err) == 0);
    CHECK(((uint8_t *)storwin_base(win))[100 * page - 1] == 'x');
    CHECK(storwin_free(win, &err) == 0);
}

static void wait_for(int hold)
{
    for (int i = 0; i < 30000 && atomic_load(&disk->hold) != hold; i++)
        usleep(1000);
    CHECK(atomic_load(&disk->hold) == hold);
}

/* A process that stores, and syncs. */
static pid_t start_writer(const char *path, uint32_t pager, uint64_t bytes, int value)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win;
    const pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    opts.pager = pager;
    if (storwin_alloc(&opts, bytes, &win, NULL) < 0)
        _exit(1);
    memset(storwin_base(win), value, bytes);
    _exit(storwin_sync(win, 0, STORWIN_TO_END, NULL) < 0);
}

/* Ends within half a second, and can be reaped afterwards. */
static int ends_soon(pid_t pid)
{
    for (int i = 0; i < 500; i++) {
        siginfo_t ended = {.si_pid = 0};

        CHECK(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0);
        if (ended.si_pid == pid)
            return 1;
        usleep(1000);
    }
    return 0;
}

/* A process dies while a direct write of its sync is in flight. That write must not overwrite data
 * that the next process has synced. */
static void killed_writer(const char *path, uint32_t pager)
{
    const uint64_t bytes = 64 * page;
    pid_t dead, next;
    int status;

    atomic_store(&storwin__without, 0);
    write_file(path, bytes - 1, "", 1);
    atomic_store(&disk->hold, HOLD_NEXT);
    dead = start_writer(path, STORWIN_PAGER_RESIDENT, bytes, 1);
    wait_for(HELD);
    CHECK(kill(dead, SIGKILL) == 0);
    if (!ends_soon(dead)) {
        printf(
            "left out: writes of a killed process: this kernel reaps it after they have ended\n");
        atomic_store(&disk->hold, LET_GO);
        CHECK(waitpid(dead, &status, 0) == dead && unlink(path) == 0);
        return;
    }
    CHECK(waitpid(dead, &status, 0) == dead);
    next = start_writer(path, pager, bytes, 2);
    (void)ends_soon(next); /* if it does not wait */
    atomic_store(&disk->hold, LET_GO);
    wait_for(LANDED);
    CHECK(waitpid(next, &status, 0) == next && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (uint64_t i = 0; i < bytes; i++)
        CHECK(disk->data[i] == 2);
    CHECK(unlink(path) == 0);
}

int main(void)
{
    static const struct mode modes[] = {
        {"kernel", STORWIN_PAGER_KERNEL, 0},
        {"resident, io_uring", STORWIN_PAGER_RESIDENT, 0},
        {"resident, pwrite", STORWIN_PAGER_RESIDENT, STORWIN__NO_RING},
        {"resident, buffered", STORWIN_PAGER_RESIDENT, STORWIN__NO_DIRECT},
        {"user", STORWIN_PAGER_USER, 0}};
    char where[128];
    pid_t server;
    int status;

    setvbuf(stdout, NULL, _IOLBF, 0);
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (page * (PAGES + 1) > CAPACITY) {
        printf("skip: needs pages of 4 KiB\n");
        return 77;
    }
    disk = mmap(NULL, sizeof(*disk), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(disk != MAP_FAILED);
    test_begin();
    snprintf(where, sizeof(where), "%s", test_path("mnt"));
    CHECK(mkdir(where, 0700) == 0);
    server = serve(where);
    for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        writes(&modes[i], test_path("mnt/file"));
    reads(test_path("mnt/file"));
    CHECK(unlink(test_path("mnt/file")) == 0);
    for (uint32_t pager = 0; pager < test_pagers; pager++)
        killed_writer(test_path("mnt/file"), pager);
    printf("user %u; %u writes and %u flushes reached the file system\n", geteuid(),
           atomic_load(&disk->n_writes), atomic_load(&disk->n_flushes));
    kill(server, SIGTERM); /* fuse_main() unmounts */
    CHECK(waitpid(server, &status, 0) == server);
    return 0;
}
