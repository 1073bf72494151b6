/* SPDX-License-Identifier: BSD-3-Clause */
/* errors DIR: an allocation that fails on one rank or on all fails on every rank, through the
 * communicator's handler with the right class, and leaves no file, mapping or descriptor. Also the
 * effect of MPI_Win_set_info, and MPI_Finalize with unfreed windows. Under libswmpi.so only. */
#include "window.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define PAGE 4096

static struct world w;
static const char *dir;
static int handler_calls, handler_class;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handler_calls++;
    MPI_Error_class(*code, &handler_class);
}

static const char *format(char *text, const char *hints)
{
    int length = snprintf(text, 4096, hints, dir, dir); /* no test has more than two */

    CHECK_MSG(length > 0 && length < 4096, "too long");
    return text;
}

static int n_entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;

    CHECK_MSG(d, "%s cannot be opened", path);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static int n_lines(const char *path)
{
    FILE *f = fopen(path, "r");
    int n = 0, c;

    CHECK_MSG(f, "%s cannot be opened", path);
    while ((c = fgetc(f)) != EOF)
        n += c == '\n';
    fclose(f);
    return n;
}

/* One allocation, which fails on every rank, and leaves nothing. */
static void fails(const char *what, int shared, const char *hints, MPI_Aint bytes, int class)
{
    char text[4096];
    MPI_Info info = info_of(format(text, hints));
    int before, calls = handler_calls, code, got = -1;
    MPI_Win win = MPI_WIN_NULL;
    void *base;

    MPI_Barrier(MPI_COMM_WORLD);
    before = n_entries(dir);
    MPI_Barrier(MPI_COMM_WORLD);
    code = shared ? MPI_Win_allocate_shared(bytes, 1, info, MPI_COMM_WORLD, &base, &win)
                  : MPI_Win_allocate(bytes, 1, info, MPI_COMM_WORLD, &base, &win);
    MPI_Info_free(&info);
    CHECK_MSG(code != MPI_SUCCESS, "%s: no error", what);
    MPI_Error_class(code, &got);
    CHECK_MSG(got == class, "%s: class %d, expected %d", what, got, class);
    CHECK_MSG(handler_calls == calls + 1 && handler_class == class, "%s: %d calls of the handler",
              what, handler_calls - calls);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_MSG(n_entries(dir) == before, "%s: a file is left", what);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Commits with swmpi_file=shared, where no two ranks have a part in one file. */
static void test_one_file(void)
{
    static const char *const hints[] = {
        "alloc_type=memory;storage_alloc_filename=%s/one;swmpi_file=shared;"
        "storage_alloc_pager=resident;storage_alloc_atomic=auto",
        "alloc_type=storage;storage_alloc_filename=%s/one;swmpi_file=shared;"
        "storage_alloc_pager=resident;storage_alloc_atomic=auto",
        "alloc_type=storage;storage_alloc_filename=%s/one.%%r;swmpi_file=shared;"
        "storage_alloc_pager=resident;storage_alloc_atomic=auto"};
    char text[4096];

    for (int i = 0; i < 3; i++) {
        MPI_Info info = info_of(format(text, hints[i]));
        const MPI_Aint bytes = i == 1 && w.rank != w.size - 1 ? 0 : PAGE;
        MPI_Win win;
        void *base;

        CHECK_MSG(MPI_Win_allocate(bytes, 1, info, MPI_COMM_WORLD, &base, &win) == MPI_SUCCESS,
                  "commits with one file, %d", i);
        MPI_Win_free(&win);
        MPI_Info_free(&info);
    }
    snprintf(text, sizeof(text), "%s/one.%d", dir, w.rank);
    CHECK_MSG(unlink(text) == 0, "%s", text);
    snprintf(text, sizeof(text), "%s/one", dir);
    CHECK_MSG(w.rank != 0 || unlink(text) == 0, "%s", text);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void test_classes(void)
{
    const char *bad = w.rank == w.size - 1
                          ? "alloc_type=storage;storage_alloc_filename=%s/none/x.%%r"
                          : "alloc_type=storage;storage_alloc_filename=%s/one.%%r";

    for (int shared = 0; shared < 2; shared++) {
        fails("factor", shared,
              "alloc_type=storage;storage_alloc_filename=%s/f;storage_alloc_factor=1.5", PAGE,
              MPI_ERR_INFO_VALUE);
        fails("type", shared, "alloc_type=flash", PAGE, MPI_ERR_INFO_VALUE);
        fails("sync", shared, "alloc_type=storage;storage_alloc_filename=%s/f;swmpi_sync=always",
              PAGE, MPI_ERR_INFO_VALUE);
        fails("no name", shared, "alloc_type=storage", PAGE, MPI_ERR_INFO_NOKEY);
        fails("no folder", shared, "alloc_type=storage;storage_alloc_filename=%s/none/f.%%r", PAGE,
              MPI_ERR_NO_SUCH_FILE);
        fails("a folder", shared, "alloc_type=storage;storage_alloc_filename=%s", PAGE,
              MPI_ERR_BAD_FILE);
        fails("disk full", shared, "alloc_type=storage;storage_alloc_filename=%s/f.%%r",
              (MPI_Aint)1 << 44, MPI_ERR_NO_SPACE);
        fails("size", shared, "alloc_type=storage;storage_alloc_filename=%s/f.%%r", -1,
              MPI_ERR_SIZE);
    }
    fails("commits of a shared window", 1,
          "alloc_type=storage;storage_alloc_filename=%s/f.%%r;storage_alloc_pager=resident;"
          "storage_alloc_atomic=auto",
          PAGE, MPI_ERR_INFO_VALUE);
    if (w.size > 1)
        fails("one file of commits", 0,
              "alloc_type=storage;storage_alloc_filename=%s/f;swmpi_file=shared;"
              "storage_alloc_pager=resident;storage_alloc_atomic=auto",
              PAGE, MPI_ERR_INFO_VALUE);
    fails("one rank", 0, bad, 3 * PAGE, MPI_ERR_NO_SUCH_FILE);
    fails("one rank's hint", 0,
          w.rank == 0 ? "alloc_type=storage;storage_alloc_filename=%s/f.%%r;file_perm=rw"
                      : "alloc_type=storage;storage_alloc_filename=%s/f.%%r",
          PAGE, MPI_ERR_INFO_VALUE);
}

/* A file that a well rank has grown has its old length, and its bytes, when another rank fails. */
static void test_grown(void)
{
    char path[2048], text[4096];
    struct stat st;
    int fd;

    snprintf(path, sizeof(path), "%s/grown.%d", dir, w.rank);
    CHECK_MSG((fd = open(path, O_CREAT | O_RDWR, 0600)) >= 0 && write(fd, "kept", 4) == 4, "%s",
              path);
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(text, sizeof(text), "alloc_type=storage;storage_alloc_filename=%s",
             w.rank == w.size - 1 ? "%s/none/x" : path);
    fails("grown", 0, text, 5 * PAGE, MPI_ERR_NO_SUCH_FILE);
    CHECK_MSG(fstat(fd, &st) == 0 && st.st_size == 4, "the file has %lld bytes",
              (long long)st.st_size);
    CHECK_MSG(pread(fd, text, 4, 0) == 4 && memcmp(text, "kept", 4) == 0,
              "the file has other bytes");
    close(fd);
    unlink(path);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* MPI_Win_free removes the files of a shared window, and a failure of another rank than 0 none that
 * existed before. */
static void test_shared_kept(void)
{
    struct rlimit limit, low;
    char path[2048], text[2048], hints[4096];
    MPI_Info info;
    MPI_Win win;
    void *base;
    int fd;

    for (int i = 0; w.size > 1 && i < 2; i++) {
        snprintf(path, sizeof(path), i ? "%s/kept.%d" : "%s/kept", dir, w.rank);
        CHECK_MSG((fd = open(path, O_CREAT | O_RDWR, 0600)) >= 0, "%s", path);
        close(fd);
        snprintf(text, sizeof(text),
                 "alloc_type=storage;storage_alloc_filename=%%s/%s;storage_alloc_unlink=true",
                 i ? "kept.%%r" : "kept");
        getrlimit(RLIMIT_NOFILE, &limit);
        low = limit;
        low.rlim_cur = (rlim_t)fd + 1; /* a descriptor for the folder, and none for a file */
        if (w.rank == w.size - 1)
            setrlimit(RLIMIT_NOFILE, &low);
        fails("kept", 1, text, PAGE, MPI_ERR_OTHER);
        setrlimit(RLIMIT_NOFILE, &limit);
        CHECK_MSG(access(path, F_OK) == 0, "%s is removed", path);
        info = info_of(format(hints, text));
        CHECK_MSG(MPI_Win_allocate_shared(PAGE, 1, info, MPI_COMM_WORLD, &base, &win) ==
                      MPI_SUCCESS,
                  "%s", path);
        MPI_Info_free(&info);
        MPI_Win_free(&win);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_MSG(access(path, F_OK) < 0, "%s remains", path);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Failures and successes many times: the process has the same resources afterwards. */
static void test_leaks(void)
{
    char text[4096];
    MPI_Info good =
        info_of(format(text, "alloc_type=storage;storage_alloc_filename=%s/"
                             "leak.%%r;storage_alloc_unlink=true;storage_alloc_factor=0.5"));
    int descriptors = 0, maps = 0;
    void *base;
    MPI_Win win;

    for (int i = 0; i < 60; i++) {
        if (i == 10) { /* what MPI keeps for itself is there by then */
            descriptors = n_entries("/proc/self/fd");
            maps = n_lines("/proc/self/maps");
        }
        MPI_Win_allocate(4 * PAGE, 1, good, MPI_COMM_WORLD, &base, &win);
        memset(base, 1, 4 * PAGE);
        MPI_Win_free(&win);
        if (i % 5 == 0)
            fails("leak", i % 2,
                  w.rank == 0 ? "alloc_type=storage;storage_alloc_filename=%s/none/f"
                              : "alloc_type=storage;storage_alloc_filename=%s/f",
                  PAGE, MPI_ERR_NO_SUCH_FILE);
    }
    MPI_Info_free(&good);
    CHECK_MSG(n_entries("/proc/self/fd") == descriptors, "%d descriptors, %d before",
              n_entries("/proc/self/fd"), descriptors);
    CHECK_MSG(n_lines("/proc/self/maps") <= maps + 4, "%d maps, %d before",
              n_lines("/proc/self/maps"), maps);
}

/* What a file holds at a place, as another program reads it. */
static int byte_of(const char *name, off_t at)
{
    char path[PATH_MAX];
    unsigned char byte;
    int fd;

    snprintf(path, sizeof(path), "%s/%s.%d", dir, name, w.rank);
    CHECK_MSG((fd = open(path, O_RDONLY)) >= 0 && pread(fd, &byte, 1, at) == 1, "%s", path);
    close(fd);
    return byte;
}

static void sync_now(MPI_Win win)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w.rank, 0, win);
    MPI_Win_sync(win);
    MPI_Win_unlock(w.rank, win);
}

/* The resident pager writes only on request, so that its file shows a sync's effect. */
static void test_sync_and_info(void)
{
    char text[4096];
    const char *hints = format(text, "alloc_type=storage;storage_alloc_filename=%s/"
                                     "sync.%%r;storage_alloc_pager=resident;unknown_hint=1");
    MPI_Info info = info_of(hints), change;
    unsigned char *base;
    MPI_Win win;

    MPI_Win_allocate(3 * PAGE, 1, info, MPI_COMM_WORLD, &base, &win);
    CHECK_MSG(strcmp(hint_of(win, "storage_alloc_pager"), "resident") == 0, "'%s'",
              hint_of(win, "storage_alloc_pager"));
    CHECK_MSG(strcmp(hint_of(win, "storage_alloc_discard"), "false") == 0, "'%s'",
              hint_of(win, "storage_alloc_discard"));
    CHECK_MSG(strcmp(hint_of(win, "swmpi_sync"), "storage") == 0, "'%s'",
              hint_of(win, "swmpi_sync"));
    CHECK_MSG(strstr(hint_of(win, "storage_alloc_filename"), "/sync."), "'%s'",
              hint_of(win, "storage_alloc_filename"));
    base[PAGE] = 7;
    CHECK_MSG(byte_of("sync", PAGE) == 0, "written before the sync");
    sync_now(win);
    CHECK_MSG(byte_of("sync", PAGE) == 7, "not written by the sync");
    change = info_of("swmpi_sync=memory");
    CHECK_MSG(MPI_Win_set_info(win, change) == MPI_SUCCESS, "MPI_Win_set_info");
    MPI_Info_free(&change);
    CHECK_MSG(strcmp(hint_of(win, "swmpi_sync"), "memory") == 0, "'%s'",
              hint_of(win, "swmpi_sync"));
    base[PAGE] = 8;
    sync_now(win);
    CHECK_MSG(byte_of("sync", PAGE) == 7, "written by a sync of memory");
    MPI_Win_free(&win);
    CHECK_MSG(byte_of("sync", PAGE) == 8, "not written by MPI_Win_free");

    MPI_Win_allocate(3 * PAGE, 1, info, MPI_COMM_WORLD, &base, &win);
    CHECK_MSG(base[PAGE] == 8, "the file's bytes are not in the window: %d", base[PAGE]);
    change = info_of("storage_alloc_discard=true");
    MPI_Win_set_info(win, change);
    MPI_Info_free(&change);
    base[PAGE] = 9;
    MPI_Win_free(&win);
    CHECK_MSG(byte_of("sync", PAGE) == 8, "written though discarded");

    MPI_Win_allocate(3 * PAGE, 1, info, MPI_COMM_WORLD, &base, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    change = info_of("swmpi_sync=perhaps");
    CHECK_MSG(MPI_Win_set_info(win, change) != MPI_SUCCESS, "a bad value was taken");
    MPI_Info_free(&change);
    MPI_Win_free(&win);
    MPI_Info_free(&info);
}

/* What another rank puts while this one waits in MPI_Win_free is in the file. */
static void test_free_is_last(void)
{
    char text[4096];
    MPI_Info info = info_of(format(
        text,
        "alloc_type=storage;storage_alloc_filename=%s/last.%%r;storage_alloc_pager=resident"));
    unsigned char *base, value = 77;
    int to = w.size - 1;
    MPI_Win win;

    MPI_Win_allocate(2 * PAGE, 1, info, MPI_COMM_WORLD, &base, &win);
    if (w.rank == 0) {
        usleep(300000); /* the others are in MPI_Win_free by now */
        MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
        MPI_Put(&value, 1, MPI_UNSIGNED_CHAR, to, PAGE + 1, 1, MPI_UNSIGNED_CHAR, win);
        MPI_Win_unlock(to, win);
    }
    MPI_Win_free(&win);
    CHECK_MSG(w.rank != to || byte_of("last", PAGE + 1) == value, "the file holds %d",
              byte_of("last", PAGE + 1));
    MPI_Info_free(&info);
}

/* Rank 0 on storage, the others in memory; then windows of communicators that do not overlap, whose
 * files differ though all have the same hints. */
static void test_mixed_and_split(void)
{
    char text[4096];
    MPI_Info storage =
        info_of(format(text, "alloc_type=storage;storage_alloc_filename=%s/split.%%r.%%w"));
    MPI_Info one_file = info_of(format(
        text, "alloc_type=storage;storage_alloc_filename=%s/group.%%c.%%w;swmpi_file=shared"));
    MPI_Info unlinked = info_of("storage_alloc_unlink=true"); /* without alloc_type: memory */
    int value = 1000 + w.rank, to = (w.rank + 1) % w.size, from = (w.rank + w.size - 1) % w.size,
        *base, *more, *group;
    MPI_Win win, win_more, win_group;
    MPI_Comm alone;

    MPI_Win_allocate(PAGE, 1, w.rank == 0 ? storage : unlinked, MPI_COMM_WORLD, &base, &win);
    CHECK_MSG(flavor_of(win) == MPI_WIN_FLAVOR_ALLOCATE, "flavor %d", flavor_of(win));
    CHECK_MSG(strcmp(hint_of(win, "alloc_type"), w.rank == 0 ? "storage" : "memory") == 0, "'%s'",
              hint_of(win, "alloc_type"));
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_INT, to, 8, 1, MPI_INT, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    CHECK_MSG(base[2] == 1000 + from, "%d", base[2]);

    MPI_Comm_split(MPI_COMM_WORLD, w.rank, 0, &alone); /* every rank is rank 0 of its own */
    MPI_Win_allocate(PAGE, 1, storage, alone, &more, &win_more);
    MPI_Win_allocate(PAGE, 1, one_file, alone, &group, &win_group);
    *more = value;
    *group = -value;
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_MSG(*more == value && *group == -value && base[2] == 1000 + from, "windows share a file");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win_group);
    MPI_Win_free(&win_more);
    MPI_Win_free(&win);
    MPI_Comm_free(&alone);
    MPI_Info_free(&storage);
    MPI_Info_free(&one_file);
    MPI_Info_free(&unlinked);
}

static void test_alloc_mem(void)
{
    char text[4096];
    MPI_Info info = info_of(format(text, "alloc_type=storage;storage_alloc_filename=%s/mem.%%r")),
             bad;
    unsigned char *base = NULL, *other;
    MPI_Win win;
    int code, class;

    CHECK_MSG(MPI_Alloc_mem(2 * PAGE, info, &base) == MPI_SUCCESS && base, "MPI_Alloc_mem");
    base[PAGE] = 5;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, base, PAGE);
    MPI_Win_attach(win, base + PAGE, PAGE); /* two regions of one allocation */
    MPI_Win_detach(win, base);
    code = MPI_Free_mem(base);
    MPI_Error_class(code, &class);
    CHECK_MSG(class == MPI_ERR_RMA_ATTACH, "freed while attached: class %d", class);
    MPI_Win_detach(win, base + PAGE);
    CHECK_MSG(MPI_Free_mem(base) == MPI_SUCCESS, "MPI_Free_mem");
    MPI_Win_free(&win);
    CHECK_MSG(byte_of("mem", PAGE) == 5, "the file holds %d", byte_of("mem", PAGE));
    bad = info_of("alloc_type=storage;storage_alloc_filename=/nowhere/at/all");
    code = MPI_Alloc_mem(PAGE, bad, &other);
    MPI_Error_class(code, &class);
    CHECK_MSG(class == MPI_ERR_NO_SUCH_FILE, "class %d", class);
    MPI_Info_free(&bad);
    MPI_Info_free(&info);
}

/* No other rank can have a dynamic window's memory synced: a request for it is refused. */
static void test_dynamic_sync_all(void)
{
    MPI_Info info = info_of("swmpi_sync=all");
    int calls = handler_calls;
    MPI_Win win = MPI_WIN_NULL;

    CHECK_MSG(MPI_Win_create_dynamic(info, MPI_COMM_WORLD, &win) != MPI_SUCCESS, "no error");
    CHECK_MSG(handler_calls == calls + 1 && handler_class == MPI_ERR_INFO_VALUE,
              "class %d, %d calls", handler_class, handler_calls - calls);
    MPI_Info_free(&info);
}

/* swmpi_sync=all where some rank has no byte on storage, and so no file. */
static void test_sync_all_empty(void)
{
    char text[4096];

    for (int i = 0; i < 2; i++) {
        MPI_Info info = info_of(format(
            text, i ? "alloc_type=storage;storage_alloc_filename=%s/empty.%%r;swmpi_sync=all;"
                      "storage_alloc_unlink=true;storage_alloc_factor=0.3"
                    : "alloc_type=storage;storage_alloc_filename=%s/empty.%%r;swmpi_sync=all;"
                      "storage_alloc_unlink=true"));
        MPI_Win win;
        void *base;

        CHECK_MSG(MPI_Win_allocate(i || w.rank == 0 ? PAGE : 0, 1, info, MPI_COMM_WORLD, &base,
                                   &win) == MPI_SUCCESS,
                  "swmpi_sync=all with an empty rank, %d", i);
        sync_now(win);
        MPI_Win_free(&win);
        MPI_Info_free(&info);
    }
}

/* MPI_Win_create over storage at one rank, of which the info asks for too much: an error of the
 * communicator on every rank. */
static void test_create_sync_all(void)
{
    char text[4096];
    MPI_Info info =
        info_of(format(text, "alloc_type=storage;storage_alloc_filename=%s/create.%%r"));
    MPI_Info all = info_of("swmpi_sync=all");
    int calls = handler_calls;
    MPI_Win win = MPI_WIN_NULL;
    void *base;

    MPI_Alloc_mem(PAGE, info, &base);
    CHECK_MSG(MPI_Win_create(base, w.rank == 0 ? PAGE : 0, 1, all, MPI_COMM_WORLD, &win) !=
                  MPI_SUCCESS,
              "no error");
    CHECK_MSG(handler_calls == calls + 1 && handler_class == MPI_ERR_INFO_VALUE,
              "class %d, %d calls", handler_class, handler_calls - calls);
    CHECK_MSG(MPI_Win_create(base, PAGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win) == MPI_SUCCESS,
              "MPI_Win_create");
    CHECK_MSG(MPI_Free_mem(base) != MPI_SUCCESS, "freed under a window");
    MPI_Win_free(&win);
    CHECK_MSG(MPI_Free_mem(base) == MPI_SUCCESS, "MPI_Free_mem");
    MPI_Info_free(&info);
    MPI_Info_free(&all);
}

/* The only rank of a shared window: MPICH takes its segment from the heap, where some of many lie
 * on pages. No file may be mapped over that. */
static void test_shared_alone(void)
{
    enum { N = 100 };
    char text[4096];
    MPI_Info info = info_of(format(text, "alloc_type=storage;storage_alloc_filename=%s/"
                                         "alone.%%r.%%w;storage_alloc_unlink=true"));
    unsigned char *base;
    extern char end; /* of the program; the heap follows it */
    MPI_Win win[N];

    for (int i = 0; i < 400; i++) {
        if (i >= N)
            MPI_Win_free(&win[i % N]);
        MPI_Win_allocate_shared(16 * (i % 251 + 1), 1, info, MPI_COMM_SELF, &base, &win[i % N]);
        CHECK_MSG((char *)base < &end || (char *)base >= (char *)sbrk(0),
                  "window %d: %p is the heap's", i, (void *)base);
        memset(base, i, 16);
    }
    for (int i = 0; i < N; i++)
        MPI_Win_free(&win[i]);
    MPI_Info_free(&info);
}

/* A library's window, which its attribute of MPI_COMM_SELF frees in MPI_Finalize. */
static int free_attribute(MPI_Comm comm, int keyval, void *win, void *extra)
{
    (void)comm, (void)keyval, (void)extra;
    CHECK_MSG(MPI_Win_free(win) == MPI_SUCCESS && *(MPI_Win *)win == MPI_WIN_NULL, "MPI_Win_free");
    return MPI_SUCCESS;
}

static void free_at_end(void)
{
    static MPI_Win win;
    char text[4096];
    MPI_Info info = info_of(format(
        text, "alloc_type=storage;storage_alloc_filename=%s/end.%%r;storage_alloc_unlink=true"));
    void *base;
    int keyval;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_attribute, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &win);
    MPI_Comm_free_keyval(&keyval);
    MPI_Win_allocate(PAGE, 1, info, MPI_COMM_WORLD, &base, &win);
    MPI_Info_free(&info);
}

/* A window that is never freed: the script that runs this finds its bytes in the file, and no other
 * file. */
static void leave_open(void)
{
    char text[4096];
    MPI_Info info = info_of(format(
        text,
        "alloc_type=storage;storage_alloc_filename=%s/open.%%r;storage_alloc_pager=resident"));
    MPI_Info gone = info_of(format(
        text, "alloc_type=storage;storage_alloc_filename=%s/gone.%%r;storage_alloc_unlink=true"));
    char *base;
    MPI_Win win;

    MPI_Win_allocate(2 * PAGE, 1, info, MPI_COMM_WORLD, &base, &win);
    snprintf(base + PAGE, 32, "left by rank %d", w.rank);
    MPI_Win_allocate(2 * PAGE, 1, gone, MPI_COMM_WORLD, &base, &win);
    MPI_Alloc_mem(PAGE, gone, &base);
    MPI_Info_free(&info);
    MPI_Info_free(&gone);
}

/* An allocation that should not come back. */
static int fatal(void)
{
    void *base;
    MPI_Win win;

    MPI_Win_allocate(PAGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_free(&win);
    return world_end(&w, "errors");
}

static void spawned_window(const char *name, MPI_Comm comm, const char *hints, int class)
{
    MPI_Info info = info_of(hints);
    int code, got = -1, rank;
    MPI_Win win;
    int *base;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    code = MPI_Win_allocate(PAGE, 1, info, comm, &base, &win);
    MPI_Error_class(code, &got);
    MPI_Info_free(&info);
    CHECK_MSG(got == class, "%s: class %d, expected %d", name, got, class);
    if (code != MPI_SUCCESS)
        return;
    *base = rank;
    MPI_Barrier(comm);
    CHECK_MSG(*base == rank, "%s: rank %d has the bytes of rank %d", name, rank, *base);
    MPI_Win_free(&win);
}

/* A parent and a spawned child, each rank 0 of its world: no file of one is the other's. The
 * environment has the hints of a window that every process allocates alone. */
static int with_spawned(void)
{
    char why[MPI_MAX_ERROR_STRING], path[4096], preload[4096], hints[4096];
    char *args[] = {preload, hints, path, "--spawn", NULL}; /* MPI hands no environment on */
    MPI_Comm other, all;
    int child;

    MPI_Comm_get_parent(&other);
    child = other != MPI_COMM_NULL;
    if (!child && !world_has_ports(why, sizeof(why)))
        return world_skip(&w, "errors", why);
    if (!child) {
        snprintf(path, sizeof(path), "%s", own_path());
        snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", getenv("LD_PRELOAD"));
        snprintf(hints, sizeof(hints), "SWMPI_HINTS=%s", getenv("SWMPI_HINTS"));
        MPI_Comm_spawn("env", args, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
                       MPI_ERRCODES_IGNORE);
    }
    MPI_Intercomm_merge(other, child, &all);
    spawned_window("%r", all, "storage_alloc_filename=spawn.%r.%w", MPI_ERR_INFO_VALUE);
    spawned_window("%c", all, "storage_alloc_filename=spawn.%c.%w", MPI_ERR_INFO_VALUE);
    spawned_window("%w", all, "storage_alloc_filename=spawn.%w;swmpi_file=shared", MPI_SUCCESS);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&other);
    spawned_window("own name", MPI_COMM_WORLD,
                   child ? "storage_alloc_filename=child.%r" : "storage_alloc_filename=parent.%r",
                   MPI_SUCCESS);
    spawned_window("environment", MPI_COMM_WORLD, "", child ? MPI_ERR_INFO_VALUE : MPI_SUCCESS);
    if (child)
        return MPI_Finalize();
    return world_end(&w, "errors");
}

int main(int argc, char **argv)
{
    MPI_Errhandler ours;

    w = world_start(&argc, &argv);
    CHECK_MSG(argc == 2, "usage: errors DIR, errors --fatal, or errors --spawn");
    dir = argv[1];
    if (strcmp(dir, "--fatal") == 0)
        return fatal();
    if (strcmp(dir, "--spawn") == 0)
        return with_spawned();
    MPI_Comm_create_errhandler(handler, &ours);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, ours);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    free_at_end();
    test_classes();
    test_one_file();
    test_grown();
    test_shared_kept();
    test_leaks();
    test_sync_and_info();
    test_free_is_last();
    test_mixed_and_split();
    test_alloc_mem();
    test_dynamic_sync_all();
    test_sync_all_empty();
    test_create_sync_all();
    test_shared_alone();
    MPI_Errhandler_free(&ours);
    leave_open();
    return world_end(&w, "errors");
}
