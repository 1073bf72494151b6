/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kinds [FOLDER OFFSET]: every one-sided call, in every kind of epoch, on every kind of window.
 * Segments are short and of different lengths, so that those of a shared window without gaps begin
 * within a page, at no multiple of 16. Loads check the results, and where SWMPI_HINTS and
 * SWMPI_APPLY put the window on storage, its file does after MPI_Win_sync. With FOLDER, memory of
 * MPI_Alloc_mem is also in files there, from OFFSET on.
 */
#include "window.h"
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 11 /* of int, in the shortest window */

enum epoch { FENCE, PSCW, LOCK, LOCK_ALL, N_EPOCHS };
static const char *const epochs[] = {"fence", "post-start-complete-wait", "lock", "lock_all"};

static struct world w;
static int to, from;
static MPI_Group to_group, from_group;

/* A window of this rank, and where the next rank's slots are. */
struct window {
    const char *kind;
    MPI_Win win;
    int *base;
    int n;               /* own slots */
    MPI_Aint at, stride; /* of the next rank's first slot, and from slot to slot, in its units */
};

static void begin(enum epoch e, MPI_Win win)
{
    switch (e) {
    case FENCE: MPI_Win_fence(0, win); break;
    case PSCW:
        MPI_Win_post(from_group, 0, win);
        MPI_Win_start(to_group, 0, win);
        break;
    case LOCK: MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win); break;
    default: MPI_Win_lock_all(0, win);
    }
}

static void end(enum epoch e, MPI_Win win)
{
    switch (e) {
    case FENCE: MPI_Win_fence(0, win); break;
    case PSCW:
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        break;
    case LOCK: MPI_Win_unlock(to, win); break;
    default: MPI_Win_unlock_all(win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The others' puts and this rank's stores act on the same memory. */
static void own(const struct window *v, void (*what)(const struct window *, int), int value)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w.rank, 0, v->win);
    MPI_Win_sync(v->win);
    what(v, value);
    MPI_Win_sync(v->win);
    MPI_Win_unlock(w.rank, v->win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void fill(const struct window *v, int unused)
{
    (void)unused;
    for (int i = 0; i < v->n; i++)
        v->base[i] = 1000 * w.rank + i;
}

/* Slots: 0 put, 1 accumulated, 2 and 3 fetched, 4 swapped, 5 got, 6 to 9 by requests. */
static void communicate(const struct window *v, enum epoch e)
{
    const int put = 7000 + 10 * (int)e + w.rank, one = 1, three = 3, seven = 7;
    const int before = 1000 * to;
    int compare = before + 4, old[4] = {-1, -1, -1, -1}, got[2] = {-1, -1};
    MPI_Request requests[4];

#define AT(slot) to, v->at + (slot)*v->stride
    begin(e, v->win);
    MPI_Put(&put, 1, MPI_INT, AT(0), 1, MPI_INT, v->win);
    MPI_Accumulate(&seven, 1, MPI_INT, AT(1), 1, MPI_INT, MPI_SUM, v->win);
    MPI_Get_accumulate(&three, 1, MPI_INT, &old[0], 1, MPI_INT, AT(2), 1, MPI_INT, MPI_SUM, v->win);
    MPI_Fetch_and_op(&one, &old[1], MPI_INT, AT(3), MPI_SUM, v->win);
    MPI_Compare_and_swap(&put, &compare, &old[2], MPI_INT, AT(4), v->win);
    MPI_Get(got, 1, MPI_INT, AT(5), 1, MPI_INT, v->win);
    if (e == LOCK || e == LOCK_ALL) {
        MPI_Rput(&put, 1, MPI_INT, AT(6), 1, MPI_INT, v->win, &requests[0]);
        MPI_Rget(&got[1], 1, MPI_INT, AT(7), 1, MPI_INT, v->win, &requests[1]);
        MPI_Raccumulate(&seven, 1, MPI_INT, AT(8), 1, MPI_INT, MPI_MAX, v->win, &requests[2]);
        MPI_Rget_accumulate(&put, 1, MPI_INT, &old[3], 1, MPI_INT, AT(9), 1, MPI_INT, MPI_REPLACE,
                            v->win, &requests[3]);
        for (int i = 0; i < 4; i++)
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        CHECK_MSG(got[1] == before + 7 && old[3] == before + 9, "%s, %s: requests got %d and %d",
                  v->kind, epochs[e], got[1], old[3]);
    }
    end(e, v->win);
    CHECK_MSG(old[0] == before + 2 && old[1] == before + 3 && old[2] == before + 4 &&
                  got[0] == before + 5,
              "%s, %s: got %d, %d, %d, %d", v->kind, epochs[e], old[0], old[1], old[2], got[0]);
}

static int arrived(const struct window *v, int slot, enum epoch e)
{
    const int was = 1000 * w.rank + slot, put = 7000 + 10 * (int)e + from;
    const int after[10] = {put, was + 7, was + 3, was + 1, put, was, was, was, was, was};

    (void)v;
    if (slot >= 10 || ((slot == 6 || slot == 9) && e < LOCK))
        return was;
    if (slot == 6 || slot == 9)
        return put;
    return slot == 8 && e >= LOCK && was < 7 ? 7 : after[slot];
}

static void check(const struct window *v, int e)
{
    for (int i = 0; i < v->n; i++)
        CHECK_MSG(v->base[i] == arrived(v, i, (enum epoch)e), "%s, %s: slot %d is %d and not %d",
                  v->kind, epochs[e], i, v->base[i], arrived(v, i, (enum epoch)e));
}

/* After MPI_Win_sync the file equals the window. */
static void check_file(const struct window *v, const char *path, long offset)
{
    int stored[SLOTS * 64], fd;
    ssize_t bytes = v->n * (ssize_t)sizeof(int);

    CHECK_MSG((fd = open(path, O_RDONLY)) >= 0, "%s: %s", v->kind, path);
    CHECK_MSG(pread(fd, stored, (size_t)bytes, offset) == bytes, "%s: %s is short", v->kind, path);
    CHECK_MSG(memcmp(stored, v->base, (size_t)bytes) == 0, "%s: %s at %ld has not what was put",
              v->kind, path, offset);
    close(fd);
}

static void all_epochs(const struct window *v)
{
    for (int e = 0; e < N_EPOCHS; e++) {
        own(v, fill, 0);
        communicate(v, (enum epoch)e);
        own(v, check, e);
    }
}

static void allocated(void)
{
    struct window v = {.kind = "allocate", .n = SLOTS + w.rank, .stride = 1};

    MPI_Win_allocate(v.n * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &v.base, &v.win);
    all_epochs(&v);
    if (strcmp(hint_of(v.win, "alloc_type"), "storage") == 0)
        check_file(&v, hint_of(v.win, "storage_alloc_filename"), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&v.win);
}

/* Rank r has SLOTS + r slots. */
static void shared(const char *gaps)
{
    struct window v = {.kind = strcmp(gaps, "true") ? "shared" : "shared with gaps",
                       .n = SLOTS + w.rank,
                       .stride = 1};
    long before = 0;
    MPI_Info info;
    MPI_Aint bytes;
    int unit, *theirs;

    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", gaps);
    MPI_Win_allocate_shared(v.n * (MPI_Aint)sizeof(int), sizeof(int), info, MPI_COMM_WORLD, &v.base,
                            &v.win);
    MPI_Info_free(&info);
    all_epochs(&v);
    MPI_Win_shared_query(v.win, to, &bytes, &unit, &theirs);
    MPI_Win_lock_all(0, v.win);
    MPI_Win_sync(v.win);
    CHECK_MSG(theirs[SLOTS - 1] == 1000 * to + SLOTS - 1, "%s: the next rank's slot is %d", v.kind,
              theirs[SLOTS - 1]);
    MPI_Barrier(MPI_COMM_WORLD);
    theirs[SLOTS - 1] = 99 + w.rank;
    MPI_Win_sync(v.win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(v.win);
    CHECK_MSG(v.base[SLOTS - 1] == 99 + from, "%s: the last slot is %d", v.kind, v.base[SLOTS - 1]);
    MPI_Win_unlock_all(v.win);
    for (int r = 0; r < w.rank; r++)
        before += (SLOTS + r) * (long)sizeof(int);
    if (strcmp(gaps, "true") != 0 && strcmp(hint_of(v.win, "alloc_type"), "storage") == 0)
        check_file(&v, hint_of(v.win, "storage_alloc_filename"), before);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&v.win);
}

/* Memory of MPI_Alloc_mem under a window: in a file of its own, or as the environment chooses. */
static void over_memory(const char *folder, int offset, int dynamic)
{
    struct window v = {
        .kind = dynamic ? "dynamic" : "create", .n = SLOTS + w.rank, .stride = dynamic ? 4 : 1};
    const MPI_Aint bytes = v.n * (MPI_Aint)sizeof(int);
    MPI_Info info = MPI_INFO_NULL;
    char hints[4096], path[2048] = "";
    MPI_Aint mine;

    if (folder) {
        snprintf(path, sizeof(path), "%s/%s.%d", folder, v.kind, w.rank);
        snprintf(
            hints, sizeof(hints),
            "alloc_type=storage;storage_alloc_filename=%s;storage_alloc_offset=%d;file_perm=384",
            path, offset);
        info = info_of(hints);
    }
    MPI_Alloc_mem(bytes, info, &v.base);
    if (dynamic) {
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &v.win);
        MPI_Win_attach(v.win, v.base, bytes);
        MPI_Get_address(v.base, &mine);
        MPI_Sendrecv(&mine, 1, MPI_AINT, from, 0, &v.at, 1, MPI_AINT, to, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    } else {
        MPI_Win_create(v.base, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &v.win);
    }
    all_epochs(&v);
    if (folder)
        check_file(&v, path, offset);
    MPI_Barrier(MPI_COMM_WORLD);
    if (dynamic)
        MPI_Win_detach(v.win, v.base);
    MPI_Win_free(&v.win);
    MPI_Free_mem(v.base);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
}

/* Pages of a file that are dirty in the page cache and not under write-back; -1: this kernel has no
 * such call. */
static long dirty_pages(const char *path)
{
    uint64_t range[2] = {0, 0}, stat[5];
    int fd = open(path, O_RDONLY);
    long rc;

    CHECK_MSG(fd >= 0, "%s", path);
    rc = syscall(451, fd, range, stat, 0); /* cachestat() of Linux 6.5 */
    close(fd);
    return rc < 0 ? -1 : (long)(stat[1] + stat[2]);
}

/* swmpi_sync=all: a put, a flush and MPI_Win_sync, all at the origin, store it at the target. */
static void other_ranks(const char *folder)
{
    struct window v = {.kind = "swmpi_sync=all", .n = SLOTS};
    char hints[4096], path[2048];
    const int value = 55;
    MPI_Info info;

    snprintf(hints, sizeof(hints),
             "alloc_type=storage;storage_alloc_filename=%s/all.%%r;swmpi_sync=all", folder);
    snprintf(path, sizeof(path), "%s/all.%d", folder, to);
    info = info_of(hints);
    MPI_Win_allocate(v.n * (MPI_Aint)sizeof(int), sizeof(int), info, MPI_COMM_WORLD, &v.base,
                     &v.win);
    MPI_Info_free(&info);
    CHECK_MSG(strcmp(hint_of(v.win, "swmpi_sync"), "all") == 0, "swmpi_sync is %s",
              hint_of(v.win, "swmpi_sync"));
    v.base[3] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, v.win);
    if (w.rank == 0) {
        MPI_Put(&value, 1, MPI_INT, to, 3, 1, MPI_INT, v.win);
        MPI_Win_flush(to, v.win);
        MPI_Win_sync(v.win);
        CHECK_MSG(dirty_pages(path) <= 0, "%s has %ld dirty pages", path, dirty_pages(path));
    }
    MPI_Win_unlock_all(v.win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_MSG(v.base[3] == (from == 0 ? value : 0), "the slot is %d", v.base[3]);
    MPI_Win_free(&v.win);
}

int main(int argc, char **argv)
{
    const char *folder;
    MPI_Group all;

    w = world_start(&argc, &argv);
    folder = argc > 2 ? argv[1] : NULL;
    to = (w.rank + 1) % w.size;
    from = (w.rank + w.size - 1) % w.size;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &to, &to_group);
    MPI_Group_incl(all, 1, &from, &from_group);
    allocated();
    shared("false");
    shared("true");
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        over_memory(NULL, 0, dynamic);
        if (folder)
            over_memory(folder, atoi(argv[2]), dynamic);
    }
    if (folder && strcmp(argv[2], "4096") != 0) /* the pager is the kernel's */
        other_ranks(folder);
    MPI_Group_free(&all);
    MPI_Group_free(&to_group);
    MPI_Group_free(&from_group);
    return world_end(&w, "kinds");
}
