/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * swmpi_commit(): the parts of all ranks of a window in one commit. Each rank commits its part
 * under the same number; one of them, which decides, does so when all others have. After a crash
 * all open the number that this one holds.
 */
#include "swmpi.h"
#include <string.h>

#define TRIES 3 /* of a commit that fails, with nothing stored in between */

/* Opens what the ranks decided on; 0: they never did, and the window begins empty. */
static void reopen(struct swmpi_window *w, struct swmpi_hints *h, uint64_t decided, uint64_t bytes,
                   struct swmpi_error *e)
{
    struct storwin_error cause;
    int rc = 0;

    if (decided == 0) {
        memset(storwin_base(w->storage), 0, bytes);
        return;
    }
    h->opts.generation = decided;
    (void)storwin_free(w->storage, NULL);
    w->storage = NULL;
    rc = storwin_alloc(&h->opts, bytes, &w->storage, &cause);
    if (rc < 0)
        swmpi_say_storwin(e, "swmpi_commit: what the other ranks hold", rc, &cause);
}

int swmpi_commit_open(struct swmpi_window *w, MPI_Comm comm, struct swmpi_hints *h,
                      struct swmpi_error *e)
{
    struct storwin_info info = {.size = sizeof(info)};
    uint64_t decided;
    int rank, size, first, rc;

    if (!e->code) {
        storwin_query(w->storage, &info);
        if (info.bytes > 0 && (info.storage_bytes == 0 || info.atomic == STORWIN_ATOMIC_NONE))
            swmpi_say(e, MPI_ERR_INFO_VALUE,
                      "swmpi_commit: 'all' needs storage and storage_alloc_atomic on every rank");
    }
    if ((rc = swmpi_agree(comm, NULL, e)) != MPI_SUCCESS || e->code)
        return rc;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    first = info.storage_bytes > 0 ? rank : size - 1;
    if ((rc = PMPI_Comm_dup(comm, &w->group)) != MPI_SUCCESS ||
        (rc = PMPI_Allreduce(&first, &w->decider, 1, MPI_INT, MPI_MIN, comm)) != MPI_SUCCESS ||
        (rc = PMPI_Allreduce(&info.newest_generation, &w->newest, 1, MPI_UINT64_T, MPI_MAX,
                             comm)) != MPI_SUCCESS)
        return rc;
    decided = info.generation;
    if ((rc = PMPI_Bcast(&decided, 1, MPI_UINT64_T, w->decider, comm)) != MPI_SUCCESS)
        return rc;
    w->sync = SWMPI_SYNC_MEMORY; /* a commit of one rank would be one of its own */
    if (info.storage_bytes > 0 && info.generation != decided)
        reopen(w, h, decided, info.bytes, e);
    return MPI_SUCCESS;
}

/* Those who vote commit; then all know whether all have. */
static int vote(struct swmpi_window *w, int votes, struct swmpi_error *e)
{
    int done = !votes, rc = MPI_SUCCESS;

    for (int i = 0; i < TRIES && rc == MPI_SUCCESS && (i == 0 || e->code); i++) {
        struct storwin_error cause;
        int failed = 0;

        e->code = MPI_SUCCESS;
        if (!done) {
            pthread_mutex_lock(&w->lock);
            failed = storwin_commit_as(w->storage, w->newest, &cause);
            pthread_mutex_unlock(&w->lock);
            done = failed == 0;
        }
        if (failed < 0)
            swmpi_say_storwin(e, "commit", failed, &cause);
        rc = swmpi_agree(w->group, NULL, e);
    }
    return rc;
}

static int commit_all(struct swmpi_window *w, struct swmpi_error *e)
{
    int rank, rc;

    PMPI_Comm_rank(w->group, &rank);
    w->newest++;
    rc = vote(w, rank != w->decider, e);
    if (rc == MPI_SUCCESS && !e->code)
        rc = vote(w, rank == w->decider, e);
    /* Some have this number and some have not: another one would cost these what was decided. */
    w->broken = rc != MPI_SUCCESS || e->code;
    return rc;
}

int swmpi_commit_last(struct swmpi_window *w, int wanted, struct swmpi_error *e)
{
    int all, rc = PMPI_Allreduce(&wanted, &all, 1, MPI_INT, MPI_MIN, w->group);

    return rc == MPI_SUCCESS && all ? commit_all(w, e) : rc;
}

SWMPI_EXPORT int swmpi_commit(MPI_Win win)
{
    struct swmpi_window *w = swmpi_window_of(win);
    struct swmpi_error e = {.code = MPI_SUCCESS};
    int rc = MPI_SUCCESS;

    if (!w)
        return MPI_SUCCESS;
    if (w->group == MPI_COMM_NULL)
        swmpi_say(&e, MPI_ERR_WIN, "the window was allocated without swmpi_commit=all");
    else if (w->broken)
        swmpi_say(&e, MPI_ERR_OTHER,
                  "a commit of the window has failed: free it and allocate it again");
    else
        rc = commit_all(w, &e);
    return e.code ? swmpi_raise_win(win, "swmpi_commit", &e) : rc;
}
