/* SPDX-License-Identifier: BSD-3-Clause */
/* subject_storwin kernel|resident|user|commit|shared: a window's stores must be in the file when a
 * sync has returned success; `commit` is a window with commits. */
#define _GNU_SOURCE
#include "subject.h"

#include <errno.h>
#include <fcntl.h>
#include <storwin.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "subject.win"
#define BYTES     (1u << 20)
#define IN_MEMORY (BYTES / 4)

static uint32_t pager;

static int failed(const char *what, int rc, const struct storwin_error *err)
{
    fprintf(stderr, "subject_storwin: %s: %s: %s\n", what, storwin_strerror(rc),
            err ? err->text : "");
    return rc;
}

static char pattern(size_t i, int round)
{
    return (char)(1 + (i / 4096 * 31 + i + (size_t)round * 7) % 250);
}

/* Reads the file as another process would. The read itself may fail; then the contents are
 * unknown. */
static int file_has(size_t from, size_t n, size_t at, int round)
{
    static char buf[BYTES];
    int fd = open(FILE_NAME, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : pread(fd, buf, n, (off_t)at);

    if (fd >= 0)
        close(fd);
    if (got != (ssize_t)n)
        return 1;
    for (size_t i = 0; i < n; i++)
        if (buf[i] != pattern(from + i, round))
            return 0;
    return 1;
}

static int sync_twice(struct storwin_window *win, int round)
{
    struct storwin_error err;
    int rc = storwin_sync(win, 0, STORWIN_TO_END, &err), again = 0;

    if (rc < 0) {
        failed("sync", rc, &err);
        again = storwin_sync(win, 0, STORWIN_TO_END, &err);
        if (again < 0)
            failed("sync", again, &err);
    }
    if (again == 0 && !file_has(IN_MEMORY, BYTES - IN_MEMORY, 0, round))
        WRONG("a sync returned 0 and the file is another");
    return rc;
}

static int async(struct storwin_window *win, int round)
{
    struct storwin_error err;
    int rc = storwin_sync_start(win, 0, BYTES, &err);

    if (rc < 0)
        return failed("start of a sync", rc, &err);
    rc = storwin_sync_wait(win, &err);
    if (rc < 0)
        return failed("sync in the background", rc, &err);
    if (!file_has(IN_MEMORY, BYTES - IN_MEMORY, 0, round))
        WRONG("a sync in the background returned 0 and the file is another");
    return 0;
}

static void store(struct storwin_window *win, int round)
{
    char *base = storwin_base(win);

    for (size_t i = 0; i < BYTES; i++)
        base[i] = pattern(i, round);
}

static int is_there(void)
{
    struct stat st;

    return stat(FILE_NAME, &st) == 0;
}

static int window(void)
{
    struct storwin_window *win = NULL;
    struct storwin_error err;
    struct storwin_opts opts;
    int rc, rc2;

    unlink(FILE_NAME);
    storwin_opts_init(&opts);
    opts.alloc_type = STORWIN_STORAGE;
    opts.filename = FILE_NAME;
    opts.factor_ppb = STORWIN_FACTOR_ONE / 4 * 3;
    opts.pager = pager;
    opts.budget_bytes = pager == STORWIN_PAGER_USER ? STORWIN_MIN_BUDGET : 0;
    rc = storwin_alloc(&opts, BYTES, &win, &err);
    if (rc < 0) {
        CHECK(!win);
        if (is_there() && unlink(FILE_NAME) == 0)
            fprintf(stderr, "(a file was left)\n");
        return failed("allocation", rc, &err);
    }
    store(win, 1);
    rc = sync_twice(win, 1);
    store(win, 2);
    if (rc == 0)
        rc = async(win, 2);
    store(win, 3);
    rc2 = storwin_free(win, &err);
    if (rc2 < 0)
        failed("free", rc2, &err);
    else if (!file_has(IN_MEMORY, BYTES - IN_MEMORY, 0, 3))
        WRONG("the window was freed without an error, and the file is another");
    return rc ? rc : rc2;
}

static int state_is(struct storwin_window *win, int round)
{
    const char *data = storwin_base(win);

    for (size_t i = 0; i < BYTES / 4; i++)
        if (data[i] != pattern(i, round))
            return 0;
    return 1;
}

/* Commits a state, with a second attempt if the first fails. */
static int commit_round(struct storwin_window *win, int round, int *newest)
{
    struct storwin_error err;
    char *data = storwin_base(win);
    int rc, again;

    for (size_t i = 0; i < BYTES / 4; i++)
        data[i] = pattern(i, round);
    rc = again = storwin_commit(win, &err);
    if (rc < 0) {
        failed("commit", rc, &err);
        again = storwin_commit(win, &err);
        if (again < 0)
            failed("commit", again, &err);
    }
    if (again == 0)
        *newest = round;
    return rc;
}

static int commits(void)
{
    struct storwin_window *win = NULL;
    struct storwin_error err;
    struct storwin_opts opts;
    int rc, newest = 0, round = 0;

    unlink(FILE_NAME);
    storwin_opts_init(&opts);
    opts.alloc_type = STORWIN_STORAGE;
    opts.filename = FILE_NAME;
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = STORWIN_ATOMIC_AUTO;
    opts.flags = STORWIN_DISCARD;
    rc = storwin_alloc(&opts, BYTES / 4, &win, &err);
    if (rc < 0) {
        CHECK(!win);
        return failed("open", rc, &err);
    }
    while (rc == 0 && round < 3)
        rc = commit_round(win, ++round, &newest);
    CHECK(storwin_free(win, NULL) == 0);
    win = NULL;
    for (int i = 0; i < 2; i++) { /* the committed state survives every fault */
        int rc2 = storwin_alloc(&opts, BYTES / 4, &win, &err);

        if (rc2 < 0) {
            failed("open again", rc2, &err);
            rc = rc ? rc : rc2;
            continue;
        }
        if (newest)
            CHECK(state_is(win, newest) || state_is(win, round));
        CHECK(storwin_free(win, NULL) == 0);
        break;
    }
    return rc;
}

static int shared(void)
{
    const uint64_t bytes = BYTES;
    const char *files[] = {FILE_NAME};
    struct storwin_shared who = {
        .size = sizeof(who), .n_ranks = 1, .bytes = &bytes, .filenames = files};
    struct storwin_window *win = NULL;
    struct storwin_error err;
    struct storwin_opts opts;
    char name[64];
    int rc, rc2;

    unlink(FILE_NAME);
    snprintf(name, sizeof(name), "/subject-%d", (int)getpid());
    who.shm_name = name;
    storwin_opts_init(&opts);
    opts.alloc_type = STORWIN_STORAGE;
    opts.filename = FILE_NAME;
    opts.factor_ppb = STORWIN_FACTOR_ONE / 4 * 3;
    rc = storwin_alloc_shared(&opts, &who, &win, &err);
    if (rc < 0) {
        CHECK(!win);
        return failed("allocation", rc, &err);
    }
    rc = storwin_shared_unlink(win, NULL);
    if (rc < 0)
        failed("settle", rc, NULL);
    store(win, 1);
    if (rc == 0)
        rc = sync_twice(win, 1);
    store(win, 2);
    rc2 = storwin_free(win, &err);
    if (rc2 < 0)
        failed("free", rc2, &err);
    return rc ? rc : rc2;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "kernel";

    pager = strcmp(what, "resident") == 0 ? STORWIN_PAGER_RESIDENT
            : strcmp(what, "user") == 0   ? STORWIN_PAGER_USER
                                          : STORWIN_PAGER_KERNEL;
    return subject_run(strcmp(what, "commit") == 0   ? commits
                       : strcmp(what, "shared") == 0 ? shared
                                                     : window,
                       0);
}
