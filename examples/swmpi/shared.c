/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Win_allocate_shared and MPI_Win_shared_query. MPI allocates the window as it would in memory,
 * and every rank maps the storage over all segments: operations cost as much as in memory. Where
 * MPI's segments do not begin on pages (Open MPI puts its own data before them), every rank maps
 * the storage elsewhere, and MPI creates a window over the rank's own segment: then the target
 * carries out the operations, on the same pages that the other ranks load and store.
 */
#include "swmpi.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Whether MPI's segments may begin on pages. In Open MPI 4 the first never does, and a test would
 * take room for all of them in /dev/shm. */
#ifdef OPEN_MPI
#define MAY_FIT 0
#else
#define MAY_FIT 1
#endif

struct shared_request {
    MPI_Aint bytes, disp_unit;
    MPI_Info info;
    MPI_Comm comm;
    int large;
    int rank, size; /* in the communicator */
    struct swmpi_names names;
    struct swmpi_hints hints; /* rank 0's on all */
    char shm_name[64];
    uint64_t *lengths;           /* of all segments */
    char **files;                /* one for each, or NULL */
    struct swmpi_before *before; /* rank 0: of each file; else NULL */
};

static const char *shared_function(const struct shared_request *q)
{
    return q->large ? "MPI_Win_allocate_shared_c" : "MPI_Win_allocate_shared";
}

static int native_shared(const struct shared_request *q, MPI_Info info, void *baseptr, MPI_Win *win)
{
#if MPI_VERSION >= 4
    if (q->large)
        return PMPI_Win_allocate_shared_c(q->bytes, q->disp_unit, info, q->comm, baseptr, win);
#endif
    return PMPI_Win_allocate_shared(q->bytes, (int)q->disp_unit, info, q->comm, baseptr, win);
}

/* The segments have one layout, so the hints of rank 0 hold for all. The ranks run one program on
 * one machine, so the bytes of a struct are valid at each. */
static int same_hints(struct shared_request *q)
{
    struct timespec now;

    if (q->rank == 0) {
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(q->shm_name, sizeof(q->shm_name), "/swmpi.%ld.%llx", (long)getpid(),
                 (unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec);
    }
    PMPI_Bcast(q->shm_name, sizeof(q->shm_name), MPI_CHAR, 0, q->comm);
    q->hints.opts.filename = NULL;
    /* the only one that shares; MPI_Win_get_info shows it */
    q->hints.opts.pager = STORWIN_PAGER_KERNEL;
    return PMPI_Bcast(&q->hints, sizeof(q->hints), MPI_BYTE, 0, q->comm);
}

/* Whether each segment begins on a page, so that it can have a file of its own. */
static int on_pages(const struct shared_request *q)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t at = 0;

    for (int i = 0; i < q->size; at += q->lengths[i++])
        if (!q->hints.noncontig && q->lengths[i] > 0 && at % page != 0)
            return 0;
    return 1;
}

/* The name of every rank's file, where they differ by rank; else rank 0's holds all. */
static void name_files(struct shared_request *q, const struct swmpi_segment *segments,
                       struct swmpi_error *e)
{
    struct swmpi_hints *h = &q->hints;
    struct swmpi_names names = q->names;
    int separate = 0;

    for (const char *p = h->name; *p && !separate && on_pages(q); p++)
        if (*p == '%' && p[1])
            separate = *++p == 'r';
    if (separate)
        q->files = calloc((size_t)q->size, sizeof(*q->files));
    if (separate && !q->files)
        swmpi_say(e, MPI_ERR_NO_MEM, "no memory for file names");
    /* Rank 0 comes last: its name remains in h->path. */
    for (int r = q->files ? q->size - 1 : 0; r >= 0 && !e->code; r--) {
        names.rank = segments[r].world_rank;
        swmpi_hints_expand(h, &names, e);
        if (q->files && !e->code)
            q->files[r] = strdup(h->path);
        if (q->files && !e->code && !q->files[r])
            swmpi_say(e, MPI_ERR_NO_MEM, "no memory for file names");
    }
}

/* MPI_Win_free removes the file of this rank's segment; at rank 0, the one file of all. */
static void unlink_own_later(const struct shared_request *q, struct swmpi_window *w,
                             struct swmpi_error *e)
{
    const uint32_t file = q->files ? (uint32_t)q->rank : 0;
    struct storwin_info_part part = {.size = sizeof(part)};
    struct storwin_info info = {.size = sizeof(info)};

    storwin_query(w->storage, &info);
    if (!w->unlink || info.target != STORWIN_TARGET_FILE || (!q->files && q->rank != 0))
        return;
    for (uint32_t i = 0; storwin_part_query(w->storage, i, &part) == 0; i++) {
        if (part.kind == STORWIN_STORAGE && part.file == file) {
            swmpi_unlink_later(w, q->files ? q->files[file] : q->hints.path, e);
            return;
        }
    }
}

static struct swmpi_window *make_shared(struct shared_request *q,
                                        const struct swmpi_segment *segments, struct swmpi_error *e)
{
    struct storwin_shared shared = {
        .size = sizeof(shared), .n_ranks = (uint32_t)q->size, .rank = (uint32_t)q->rank};
    const struct storwin_opts *o = &q->hints.opts;
    struct storwin_error cause;
    struct swmpi_window *w = e->code ? NULL : swmpi_window_new(MPI_WIN_FLAVOR_SHARED, e);
    int rc;

    if (!w)
        return NULL;
    w->segments = malloc((size_t)q->size * sizeof(*segments));
    if (w->segments) {
        memcpy(w->segments, segments, (size_t)q->size * sizeof(*segments));
        w->n_segments = q->size;
        w->sync = q->hints.sync;
        w->discard = q->hints.discard;
        w->unlink = o->flags & STORWIN_UNLINK ? 1 : 0;
        q->hints.opts.flags |= STORWIN_DISCARD; /* as in MPI_Win_allocate */
        q->hints.opts.flags &= ~STORWIN_UNLINK;
        if (o->factor_ppb != STORWIN_FACTOR_ONE)
            q->hints.opts.flags |= STORWIN_MEMFD; /* to be mapped a second time */
        shared.bytes = q->lengths;
        shared.filenames = (const char *const *)q->files;
        shared.shm_name = o->factor_ppb != STORWIN_FACTOR_ONE ? q->shm_name : NULL;
        shared.flags = q->hints.noncontig ? STORWIN_SHARED_NONCONTIG : 0;
        rc = storwin_alloc_shared(o, &shared, &w->storage, &cause);
        if (rc == 0) {
            unlink_own_later(q, w, e);
            return w;
        }
        swmpi_say_storwin(e, "allocation", rc, &cause);
    } else {
        swmpi_say(e, MPI_ERR_NO_MEM, "no memory for a window");
    }
    w->storage = NULL;
    swmpi_window_delete(w, e);
    return NULL;
}

/* Frees this rank's part. Rank 0 puts the files back: new ones go, grown ones shrink. */
static void undo_shared(const struct shared_request *q, struct swmpi_window *w)
{
    struct swmpi_error ignored = {.code = MPI_ERR_OTHER};
    struct storwin_info info = {.size = sizeof(info)};
    int n_files = q->files ? q->size : 1;

    if (!w)
        return;
    storwin_query(w->storage, &info);
    swmpi_window_delete(w, &ignored);
    for (int i = 0; q->before && info.target == STORWIN_TARGET_FILE && i < n_files; i++)
        swmpi_put_back(&q->before[i], q->files ? q->files[i] : q->hints.path,
                       !q->before[i].existed);
}

/* Rank 0 creates the files, then the others map them. */
static int make_on_all(struct shared_request *q, const struct swmpi_segment *segments,
                       struct swmpi_window **w, struct swmpi_error *e)
{
    int n_files = q->files ? q->size : 1, rc;
    struct swmpi_hints *h = &q->hints;

    *w = NULL;
    if (q->rank == 0)
        q->before = calloc((size_t)q->size, sizeof(*q->before));
    if (q->rank == 0 && !q->before)
        swmpi_say(e, MPI_ERR_NO_MEM, "no memory for a window");
    for (int i = 0; q->before && i < n_files; i++) {
        struct storwin_opts o = {.filename = q->files ? q->files[i] : h->opts.filename};

        swmpi_before(&q->before[i], &o);
    }
    if (q->rank == 0)
        *w = make_shared(q, segments, e);
    rc = swmpi_agree(q->comm, NULL, e);
    if (rc == MPI_SUCCESS && !e->code) {
        if (q->rank != 0)
            *w = make_shared(q, segments, e);
        rc = swmpi_agree(q->comm, NULL, e);
    }
    if (rc == MPI_SUCCESS && !e->code && q->rank == 0)
        storwin_shared_unlink((*w)->storage, NULL);
    return rc;
}

/* Maps the part of window offsets [offset, offset + bytes) that is on storage at `at`. */
static int map_run(const struct shared_request *q, struct storwin_window *storage,
                   unsigned char *at, uint64_t offset, uint64_t bytes, struct swmpi_error *e)
{
    const uint32_t style = q->hints.opts.access_style;
    struct storwin_info_part part = {.size = sizeof(part)};

    for (uint32_t i = 0; !e->code && storwin_part_query(storage, i, &part) == 0; i++) {
        uint64_t lo = part.offset > offset ? part.offset : offset, hi = part.offset + part.bytes;
        void *to = at + (lo - offset);

        hi = hi < offset + bytes ? hi : offset + bytes;
        if (lo >= hi)
            continue;
        if (mmap(to, hi - lo, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, part.fd,
                 (off_t)(part.fd_offset + (lo - part.offset))) == MAP_FAILED)
            swmpi_say(e, MPI_ERR_NO_MEM, "map %llu bytes over the window: %s",
                      (unsigned long long)(hi - lo), storwin_strerror(-errno));
        else if (part.kind == STORWIN_STORAGE && style & STORWIN_ACCESS_RANDOM)
            (void)madvise(to, hi - lo, MADV_RANDOM);
        else if (part.kind == STORWIN_STORAGE && style & STORWIN_ACCESS_SEQUENTIAL)
            (void)madvise(to, hi - lo, MADV_SEQUENTIAL);
    }
    return e->code;
}

/* The place of a rank's segment in MPI's window, and its offset in libstorwin's. */
static unsigned char *segment_place(const struct swmpi_window *w, MPI_Win win, int rank,
                                    uint64_t *offset)
{
    MPI_Aint bytes;
    void *base = NULL;
    int unit;

    PMPI_Win_shared_query(win, rank, &bytes, &unit, &base);
    storwin_shared_segment(w->storage, (uint32_t)rank, NULL, offset, NULL);
    return base;
}

/* Whether every page of [lo, hi) is a shared mapping. Any other memory, such as the heap, may hold
 * more than the segment. */
static int all_shared(uintptr_t lo, uintptr_t hi)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long begin, end;
    size_t room = 0;
    char *line = NULL, kind;

    while (lo < hi && maps && getline(&line, &room, maps) > 0)
        if (sscanf(line, "%lx-%lx %*3c%c", &begin, &end, &kind) == 3 && begin <= lo && lo < end &&
            kind == 's')
            lo = end;
    free(line);
    if (maps)
        fclose(maps);
    return lo >= hi;
}

/* Whether MPI's segments can be replaced page by page. They are shared memory; without gaps the
 * first begins on a page and the others follow as ours do, else each begins on a page. */
static int segments_fit(const struct shared_request *q, const struct swmpi_window *w, MPI_Win win)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = 0, at = 0;
    uint64_t offset, all = 0;

    for (int i = 0, first = 1; i < q->size; i++) {
        all += q->lengths[i];
        if (!q->lengths[i])
            continue;
        at = (uintptr_t)segment_place(w, win, i, &offset);
        if (first)
            begin = at - offset;
        first = 0;
        if (q->hints.noncontig ? at % page != 0 || !all_shared(at, at + q->lengths[i])
                               : begin % page != 0 || at - offset != begin)
            return 0;
    }
    return q->hints.noncontig || all_shared(begin, begin + all);
}

static void map_segments(const struct shared_request *q, const struct swmpi_window *w, MPI_Win win,
                         struct swmpi_error *e)
{
    uint64_t offset, all = 0;
    unsigned char *at;

    for (int i = 0; i < q->size; i++)
        all += q->lengths[i];
    for (int i = 0; i < q->size && !e->code; i++) {
        if (!q->lengths[i])
            continue;
        at = segment_place(w, win, i, &offset);
        if (!q->hints.noncontig) {
            map_run(q, w->storage, at - offset, 0, all, e);
            return;
        }
        map_run(q, w->storage, at, offset, q->lengths[i], e);
    }
}

/* MPI's own window, or one whose creation may fail without a call of an error handler. */
static int native_quietly(const struct shared_request *q, void *baseptr, MPI_Win *win)
{
    MPI_Errhandler handler;
    MPI_Info info;
    int rc = q->info == MPI_INFO_NULL ? PMPI_Info_create(&info) : PMPI_Info_dup(q->info, &info);

    if (rc == MPI_SUCCESS)
        rc = PMPI_Comm_get_errhandler(q->comm, &handler);
    if (rc != MPI_SUCCESS)
        return rc;
    PMPI_Info_set(info, "alloc_shared_noncontig", q->hints.noncontig ? "true" : "false");
    PMPI_Comm_set_errhandler(q->comm, MPI_ERRORS_RETURN);
    rc = native_shared(q, info, baseptr, win);
    PMPI_Comm_set_errhandler(q->comm, handler);
    if (handler != MPI_ERRORS_ARE_FATAL && handler != MPI_ERRORS_RETURN)
        PMPI_Errhandler_free(&handler);
    PMPI_Info_free(&info);
    return rc;
}

/* The window over storage: *win is MPI's own with the storage in place of its memory, or, if
 * w->native stays 0, none. */
static int over_native(const struct shared_request *q, struct swmpi_window *w, void *baseptr,
                       MPI_Win *win, struct swmpi_error *e)
{
    enum { FAILED, UNFIT, FIT };
    int mine = FAILED, all, rc;

    /* The only rank's segment is not shared memory: MPICH takes it from the heap. */
    if (MAY_FIT && q->size > 1 && native_quietly(q, baseptr, win) == MPI_SUCCESS)
        mine = segments_fit(q, w, *win) ? FIT : UNFIT;
    rc = PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, q->comm);
    if (rc != MPI_SUCCESS)
        return rc;
    if (all == FIT)
        map_segments(q, w, *win, e);
    w->native = all == FIT;
    if (all == FIT && (rc = swmpi_agree(q->comm, NULL, e)) != MPI_SUCCESS)
        return rc;
    return all == UNFIT || (all == FIT && e->code) ? PMPI_Win_free(win) : MPI_SUCCESS;
}

static int allocate_storage(struct shared_request *q, void *baseptr, MPI_Win *win)
{
    struct swmpi_error e = {.code = MPI_SUCCESS};
    struct swmpi_segment mine = {q->bytes, q->disp_unit, q->names.rank};
    struct swmpi_segment *segments = calloc((size_t)q->size, sizeof(*segments));
    struct swmpi_window *w = NULL;
    void *base = NULL;
    int rc;

    q->lengths = calloc((size_t)q->size, sizeof(*q->lengths));
    if (!segments || !q->lengths)
        swmpi_say(&e, MPI_ERR_NO_MEM, "no memory for a window");
    rc = swmpi_agree(q->comm, NULL, &e);
    if (rc != MPI_SUCCESS || e.code)
        goto out;
    rc = PMPI_Allgather(&mine, sizeof(mine), MPI_BYTE, segments, sizeof(mine), MPI_BYTE, q->comm);
    if (rc != MPI_SUCCESS)
        goto out;
    for (int i = 0; i < q->size; i++)
        q->lengths[i] = (uint64_t)segments[i].bytes;
    name_files(q, segments, &e);
    rc = make_on_all(q, segments, &w, &e);
    if (rc == MPI_SUCCESS && !e.code)
        rc = over_native(q, w, &base, win, &e);
    if (rc == MPI_SUCCESS && !e.code && !w->native) {
        base = storwin_base(w->storage);
        rc = swmpi_win_create(base, q->bytes, q->disp_unit, q->info, q->comm, win);
    }
    if (rc == MPI_SUCCESS && !e.code) {
        memcpy(baseptr, &base, sizeof(base));
        rc = swmpi_window_bind(w, *win, q->names.number);
        swmpi_trace(2, "%s: %lld bytes at %p: %s", shared_function(q), (long long)q->bytes, base,
                    q->hints.path);
    } else {
        undo_shared(q, w);
        if (rc == MPI_SUCCESS) /* raising the error may end the job, and rank 0 puts files back */
            PMPI_Barrier(q->comm);
    }
out:
    for (int i = 0; q->files && i < q->size; i++)
        free(q->files[i]);
    free(q->files);
    free(q->before);
    free(q->lengths);
    free(segments);
    return rc == MPI_SUCCESS && e.code ? swmpi_raise_comm(q->comm, shared_function(q), &e) : rc;
}

static int allocate_shared(struct shared_request *q, void *baseptr, MPI_Win *win)
{
    struct swmpi_error e = {.code = MPI_SUCCESS};
    struct swmpi_agreed agreed;
    int rc, together = 1, all = 0;

    swmpi_hints_read(&q->hints, q->info, SWMPI_SHARED, &e);
    if (!e.code && q->bytes < 0)
        swmpi_say(&e, MPI_ERR_SIZE, "size: %lld bytes", (long long)q->bytes);
    else if (!e.code && q->disp_unit <= 0)
        swmpi_say(&e, MPI_ERR_DISP, "disp_unit: %lld", (long long)q->disp_unit);
    agreed = (struct swmpi_agreed){.storage = q->hints.opts.alloc_type == STORWIN_STORAGE};
    rc = swmpi_agree(q->comm, &agreed, &e);
    if (rc != MPI_SUCCESS)
        return rc;
    if (e.code)
        return swmpi_raise_comm(q->comm, shared_function(q), &e);
    PMPI_Comm_rank(q->comm, &q->rank);
    PMPI_Comm_size(q->comm, &q->size);
    if (!agreed.storage)
        return native_shared(q, q->info, baseptr, win);
    rc = same_hints(q);
    if (rc == MPI_SUCCESS)
        rc = swmpi_one_node(q->comm, &together);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!together) {
        swmpi_say(&e, MPI_ERR_RMA_SHARED, "the ranks of the communicator are not all on one node");
        return swmpi_raise_comm(q->comm, shared_function(q), &e);
    }
    if (q->hints.opts.alloc_type != STORWIN_STORAGE)
        return native_shared(q, q->info, baseptr, win);
    if (q->hints.opts.atomic) {
        swmpi_say(&e, MPI_ERR_INFO_VALUE,
                  "storage_alloc_atomic: a shared window has the pager kernel, and no commits");
        return swmpi_raise_comm(q->comm, shared_function(q), &e);
    }
    q->names.number = agreed.number;
    rc = swmpi_names(q->comm, &q->names);
    while (rc == MPI_SUCCESS && !all)
        rc = swmpi_claim(q->comm, &q->names.number, &all);
    if (rc != MPI_SUCCESS)
        return rc;
    return allocate_storage(q, baseptr, win);
}

SWMPI_EXPORT int MPI_Win_allocate_shared(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm,
                                         void *baseptr, MPI_Win *win)
{
    struct shared_request q = {.bytes = size, .disp_unit = disp_unit, .info = info, .comm = comm};

    return allocate_shared(&q, baseptr, win);
}

/* The segment of a rank, or for MPI_PROC_NULL of the first that has one. */
static int query_segment(struct swmpi_window *w, MPI_Win win, const char *function, int rank,
                         MPI_Aint *size, MPI_Aint *disp_unit, void *baseptr)
{
    struct swmpi_error e;
    void *base;
    int r = rank;

    if (rank == MPI_PROC_NULL)
        for (r = 0; r < w->n_segments - 1 && w->segments[r].bytes == 0;)
            r++;
    if (r < 0 || r >= w->n_segments) {
        swmpi_say(&e, w->n_segments ? MPI_ERR_RANK : MPI_ERR_RMA_FLAVOR,
                  w->n_segments ? "no rank %d" : "not a shared window", rank);
        return swmpi_raise_win(win, function, &e);
    }
    storwin_shared_segment(w->storage, (uint32_t)r, &base, NULL, NULL);
    memcpy(baseptr, &base, sizeof(base));
    *size = w->segments[r].bytes;
    *disp_unit = w->segments[r].disp_unit;
    return MPI_SUCCESS;
}

SWMPI_EXPORT int MPI_Win_shared_query(MPI_Win win, int rank, MPI_Aint *size, int *disp_unit,
                                      void *baseptr)
{
    struct swmpi_window *w = swmpi_window_of(win);
    MPI_Aint unit = 0;
    int rc;

    if (!w || w->native)
        return PMPI_Win_shared_query(win, rank, size, disp_unit, baseptr);
    rc = query_segment(w, win, "MPI_Win_shared_query", rank, size, &unit, baseptr);
    if (rc == MPI_SUCCESS)
        *disp_unit = (int)unit;
    return rc;
}

#if MPI_VERSION >= 4
SWMPI_EXPORT int MPI_Win_allocate_shared_c(MPI_Aint size, MPI_Aint disp_unit, MPI_Info info,
                                           MPI_Comm comm, void *baseptr, MPI_Win *win)
{
    struct shared_request q = {
        .bytes = size, .disp_unit = disp_unit, .info = info, .comm = comm, .large = 1};

    return allocate_shared(&q, baseptr, win);
}

SWMPI_EXPORT int MPI_Win_shared_query_c(MPI_Win win, int rank, MPI_Aint *size, MPI_Aint *disp_unit,
                                        void *baseptr)
{
    struct swmpi_window *w = swmpi_window_of(win);

    if (!w || w->native)
        return PMPI_Win_shared_query_c(win, rank, size, disp_unit, baseptr);
    return query_segment(w, win, "MPI_Win_shared_query_c", rank, size, disp_unit, baseptr);
}
#endif
