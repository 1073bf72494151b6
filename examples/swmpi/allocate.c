/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Win_allocate: where hints ask for storage, MPI creates the window over libstorwin's memory.
 *
 * Open MPI operates through shared memory only on memory that it allocated itself. Commits that
 * compare find the stores of other processes too, so for them MPI allocates and libstorwin adopts.
 */
#include "swmpi.h"
#include <string.h>

#ifdef OPEN_MPI
#define OWN_MEMORY_IS_FASTER 1
#else
#define OWN_MEMORY_IS_FASTER 0
#endif

/* The request of one call. */
struct request {
    MPI_Aint bytes, disp_unit;
    MPI_Info info;
    MPI_Comm comm;
    int large; /* the function whose name ends in _c */
    int rank;  /* in the communicator */
    struct swmpi_names names;
    struct swmpi_hints hints;
};

static const char *function_name(const struct request *q)
{
    return q->large ? "MPI_Win_allocate_c" : "MPI_Win_allocate";
}

static int native_allocate(const struct request *q, void *baseptr, MPI_Win *win)
{
#if MPI_VERSION >= 4
    if (q->large)
        return PMPI_Win_allocate_c(q->bytes, q->disp_unit, q->info, q->comm, baseptr, win);
#endif
    return PMPI_Win_allocate(q->bytes, (int)q->disp_unit, q->info, q->comm, baseptr, win);
}

int swmpi_win_create(void *base, MPI_Aint bytes, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                     MPI_Win *win)
{
#if MPI_VERSION >= 4
    return PMPI_Win_create_c(base, bytes, disp_unit, info, comm, win);
#else
    return PMPI_Win_create(base, bytes, (int)disp_unit, info, comm, win);
#endif
}

/* swmpi_file=shared: in the one file each rank begins where the one before it ends, rounded up to
 * the largest page that Linux has, so that the layout does not depend on the machine, or for long
 * windows to what huge pages of the page cache want. A file of commits holds one part. */
static int place_in_file(struct request *q, struct swmpi_error *e)
{
    uint64_t page = q->bytes < 2 << 20 ? 65536 : 2 << 20;
    const int commits = q->bytes > 0 && q->hints.one_file && q->hints.opts.atomic &&
                        q->hints.opts.alloc_type == STORWIN_STORAGE && !strstr(q->hints.name, "%r");
    uint64_t mine[2] = {((uint64_t)q->bytes + page - 1) / page * page, (uint64_t)commits};
    uint64_t before[2] = {0, 0};
    int rc = PMPI_Exscan(mine, before, 2, MPI_UINT64_T, MPI_SUM, q->comm);

    if (rc != MPI_SUCCESS)
        return rc;
    PMPI_Comm_rank(q->comm, &q->rank);
    if (q->hints.one_file && q->rank > 0 && !e->code) {
        if (commits && before[1] > 0)
            swmpi_say(e, MPI_ERR_INFO_VALUE,
                      "storage_alloc_atomic: a file of commits holds the part of one rank, and "
                      "with swmpi_file=shared several have one");
        else if (before[0] > STORWIN_MAX_BYTES)
            swmpi_say(e, MPI_ERR_SIZE,
                      "swmpi_file: the ranks before this one fill the largest file");
        else
            q->hints.opts.offset_bytes += before[0];
    }
    return MPI_SUCCESS;
}

/* Whether this rank's part cannot be memory that MPI allocates. */
static int must_map(const struct request *q)
{
    const struct storwin_opts *o = &q->hints.opts;

    return !OWN_MEMORY_IS_FASTER ||
           (q->bytes > 0 &&
            (o->alloc_type != STORWIN_STORAGE || o->factor_ppb != STORWIN_FACTOR_ONE ||
             o->pager != STORWIN_PAGER_RESIDENT || o->atomic == STORWIN_ATOMIC_NONE ||
             o->changes != STORWIN_CHANGES_COMPARED || o->flags & STORWIN_MEMFD));
}

int swmpi_storage(struct swmpi_window *w, const struct storwin_opts *opts, uint64_t bytes,
                  struct storwin_error *cause)
{
    return w->adopted ? storwin_adopt(w->adopted, bytes, opts, &w->storage, cause)
                      : storwin_alloc(opts, bytes, &w->storage, cause);
}

/* This rank's memory, unless it is MPI's. libstorwin allocates it even without hints, because other
 * ranks have storage. */
static struct swmpi_window *make_window(struct request *q, void *adopted, struct swmpi_error *e)
{
    struct storwin_info info = {.size = sizeof(info)};
    struct swmpi_window *w;
    struct storwin_error cause;
    int rc;

    if (e->code || !(w = swmpi_window_new(MPI_WIN_FLAVOR_ALLOCATE, e)))
        return NULL;
    w->sync = q->hints.sync;
    w->lead = q->hints.lead;
    w->adopted = adopted;
    w->discard = q->hints.discard;
    w->unlink = q->hints.opts.flags & STORWIN_UNLINK ? 1 : 0;
    /* MPI_Win_free syncs and removes; a failure before that must not remove a file that existed
     * before. */
    q->hints.opts.flags |= STORWIN_DISCARD;
    q->hints.opts.flags &= ~STORWIN_UNLINK;
    rc = swmpi_storage(w, &q->hints.opts, q->bytes ? (uint64_t)q->bytes + w->lead : 0, &cause);
    if (rc < 0) {
        w->storage = NULL;
        swmpi_say_storwin(e, "allocation", rc, &cause);
        swmpi_window_delete(w, e);
        return NULL;
    }
    storwin_query(w->storage, &info);
    w->created = (int)info.created;
    w->on_file = info.target == STORWIN_TARGET_FILE;
    if (w->unlink && w->on_file)
        swmpi_unlink_later(w, q->hints.path, e);
    return w;
}

/* Frees what this rank made, and restores its file after `all` have: two may share it. With `all`,
 * returns when all files are restored: then a rank may raise the error, which may end the job. */
static void undo_window(struct request *q, struct swmpi_window *w,
                        const struct swmpi_before *before, int all)
{
    struct swmpi_error ignored = {.code = MPI_ERR_OTHER};
    const int on_file = w && w->on_file, created = w && w->created;

    if (w)
        swmpi_window_delete(w, &ignored);
    if (all)
        PMPI_Barrier(q->comm);
    if (on_file)
        swmpi_put_back(before, q->hints.path, created);
    if (all)
        PMPI_Barrier(q->comm);
}

/* Names the file and examines it, until the window has a number of its own. All ranks have examined
 * theirs before one changes a file. */
static int name_file(struct request *q, struct swmpi_before *before, struct swmpi_error *e)
{
    int all = 0, rc = swmpi_names(q->comm, &q->names);

    while (rc == MPI_SUCCESS && !all) {
        swmpi_hints_expand(&q->hints, &q->names, e);
        swmpi_before(before, &q->hints.opts);
        rc = swmpi_claim(q->comm, &q->names.number, &all);
    }
    return rc;
}

static int allocate_window(struct request *q, void *baseptr, MPI_Win *win)
{
    struct swmpi_error e = {.code = MPI_SUCCESS};
    struct swmpi_before before = {.bytes = -1};
    struct swmpi_agreed agreed;
    struct swmpi_window *w;
    unsigned char *base = NULL;
    int rc;

    swmpi_hints_read(&q->hints, q->info, SWMPI_ALLOCATE, &e);
    if (!e.code && q->bytes < 0)
        swmpi_say(&e, MPI_ERR_SIZE, "size: %lld bytes", (long long)q->bytes);
    else if (!e.code && q->disp_unit <= 0)
        swmpi_say(&e, MPI_ERR_DISP, "disp_unit: %lld", (long long)q->disp_unit);
    agreed = (struct swmpi_agreed){.storage = q->hints.opts.alloc_type == STORWIN_STORAGE,
                                   .one_file = q->hints.one_file,
                                   .sync_all = q->hints.sync == SWMPI_SYNC_ALL,
                                   .commit = q->hints.commit,
                                   .mapped = must_map(q)};
    rc = swmpi_agree(q->comm, &agreed, &e);
    if (rc != MPI_SUCCESS)
        return rc;
    if (e.code)
        return swmpi_raise_comm(q->comm, function_name(q), &e);
    if (!agreed.storage)
        return native_allocate(q, baseptr, win);
    if (agreed.one_file && agreed.commit) {
        swmpi_say(&e, MPI_ERR_INFO_VALUE,
                  "swmpi_commit: 'all' needs a file of each rank's, not swmpi_file=shared");
        return swmpi_raise_comm(q->comm, function_name(q), &e);
    }
    q->names.number = agreed.number;
    if (agreed.one_file && (rc = place_in_file(q, &e)) != MPI_SUCCESS)
        return rc;
    rc = name_file(q, &before, &e);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!agreed.mapped && (rc = native_allocate(q, &base, win)) != MPI_SUCCESS)
        return rc;
    if (base)
        memset(base, 0, (size_t)q->bytes); /* as a new file reads */
    w = make_window(q, q->bytes > 0 ? base : NULL, &e);
    if (agreed.sync_all && (rc = swmpi_peers_open(w, q->comm, &q->hints, &e)) != MPI_SUCCESS)
        return rc;
    if (agreed.commit && (rc = swmpi_commit_open(w, q->comm, &q->hints, &e)) != MPI_SUCCESS)
        return rc;
    rc = swmpi_agree(q->comm, NULL, &e);
    if (rc == MPI_SUCCESS && e.code)
        rc = -1;
    if (rc == MPI_SUCCESS && agreed.mapped) {
        base = storwin_base(w->storage);
        base = base ? base + w->lead : NULL;
        rc = swmpi_win_create(base, q->bytes, q->disp_unit, q->info, q->comm, win);
    }
    if (rc != MPI_SUCCESS) {
        undo_window(q, w, &before, rc == -1);
        if (!agreed.mapped)
            PMPI_Win_free(win);
        return rc == -1 ? swmpi_raise_comm(q->comm, function_name(q), &e) : rc;
    }
    memcpy(baseptr, &base, sizeof(base));
    swmpi_trace(2, "%s: %lld bytes%s at %p: %s", function_name(q), (long long)q->bytes,
                w->adopted ? " of MPI's own" : "", (void *)base,
                q->hints.opts.alloc_type == STORWIN_STORAGE ? q->hints.path : "memory");
    return swmpi_window_bind(w, *win, q->names.number);
}

SWMPI_EXPORT int MPI_Win_allocate(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm,
                                  void *baseptr, MPI_Win *win)
{
    struct request q = {.bytes = size, .disp_unit = disp_unit, .info = info, .comm = comm};

    return allocate_window(&q, baseptr, win);
}

#if MPI_VERSION >= 4
SWMPI_EXPORT int MPI_Win_allocate_c(MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                                    void *baseptr, MPI_Win *win)
{
    struct request q = {
        .bytes = size, .disp_unit = disp_unit, .info = info, .comm = comm, .large = 1};

    return allocate_window(&q, baseptr, win);
}
#endif
