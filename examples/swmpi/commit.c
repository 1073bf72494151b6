/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * swmpi_commit(): the parts of all ranks of a window in one commit. Each rank commits its part
 * under the same number; one rank, the decider, commits after all others. After a crash all ranks
 * open the lowest of their newest commits. All ranks hold it, since no rank begins commit n + 1
 * before all have finished commit n.
 */
#include "swmpi.h"
#include <string.h>

#define TRIES 3 /* of a failed commit, without stores in between */

/* The ranks' files, in one reduction by minimum; signed, as MPICH 4.0 compares. `least` is the
 * lowest of their newest commits. */
struct held {
    int64_t least, minus_most, minus_newest;
    int64_t no_new; /* 0: some file is new */
};

/* A file without a commit beside files with one was lost, or is another job's. */
static void check_held(const struct held *held, struct swmpi_error *e)
{
    const int64_t most = -held->minus_most;

    if (held->least == 0 && (most > 1 || (most == 1 && !held->no_new)))
        swmpi_say(e, MPI_ERR_FILE,
                  "swmpi_commit: a rank's file holds up to commit %lld, and another's none: bring "
                  "back the missing file. If none is missing, the first commit was cut off twice: "
                  "remove all of them to begin anew",
                  (long long)most);
}

/* Opens the commit that all ranks hold. 0: they hold none, and the window begins empty. */
static void reopen_commit(struct swmpi_window *w, struct swmpi_hints *h, uint64_t common,
                          uint64_t bytes, struct swmpi_error *e)
{
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_error cause;
    int rc = 0;

    if (common == 0) {
        memset(storwin_base(w->storage), 0, bytes);
        return;
    }
    h->opts.generation = common;
    (void)storwin_free(w->storage, NULL); /* it locks the file */
    w->storage = NULL;
    if (w->adopted) /* it holds newer bytes, and may be longer */
        memset(w->adopted, 0, bytes);
    rc = swmpi_storage(w, &h->opts, bytes, &cause);
    if (rc < 0) {
        swmpi_say_storwin(e, "swmpi_commit: what the other ranks hold", rc, &cause);
        return;
    }
    storwin_query(w->storage, &info);
    if (info.generation != common)
        swmpi_say(e, MPI_ERR_FILE,
                  "swmpi_commit: this rank's file holds commit %llu, and some rank's no other than "
                  "%llu: set storage_alloc_generation to one that all hold",
                  (unsigned long long)info.generation, (unsigned long long)common);
}

int swmpi_commit_open(struct swmpi_window *w, MPI_Comm comm, struct swmpi_hints *h,
                      struct swmpi_error *e)
{
    struct storwin_info info = {.size = sizeof(info)};
    struct held mine = {INT64_MAX, 0, 0, 1}, all;
    int rank, size, first, rc;

    if (!e->code) {
        storwin_query(w->storage, &info);
        if (info.bytes > 0 && (info.storage_bytes == 0 || info.atomic == STORWIN_ATOMIC_NONE))
            swmpi_say(e, MPI_ERR_INFO_VALUE,
                      "swmpi_commit: 'all' needs storage and storage_alloc_atomic on every rank");
    }
    rc = swmpi_agree(comm, NULL, e);
    if (rc != MPI_SUCCESS || e->code)
        return rc;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    w->votes = info.storage_bytes > 0;
    first = w->votes ? rank : size - 1;
    if (w->votes)
        mine = (struct held){(int64_t)info.generation, -(int64_t)info.generation,
                             -(int64_t)info.newest_generation, !info.created};
    rc = PMPI_Comm_dup(comm, &w->group);
    if (rc != MPI_SUCCESS ||
        (rc = PMPI_Allreduce(&first, &w->decider, 1, MPI_INT, MPI_MIN, comm)) != MPI_SUCCESS ||
        (rc = PMPI_Allreduce(&mine, &all, 4, MPI_INT64_T, MPI_MIN, comm)) != MPI_SUCCESS)
        return rc;
    w->newest = (uint64_t)-all.minus_newest;
    w->sync = SWMPI_SYNC_MEMORY; /* MPI_Win_sync must not commit one rank alone */
    check_held(&all, e);
    if (w->votes && !e->code && info.generation != (uint64_t)all.least)
        reopen_commit(w, h, (uint64_t)all.least, info.bytes, e);
    return MPI_SUCCESS;
}

/* The ranks that vote commit; then every rank knows whether all have. */
static int vote_commit(struct swmpi_window *w, int votes, struct swmpi_error *e)
{
    int done = !votes || !w->votes, rc = MPI_SUCCESS;

    for (int i = 0; i < TRIES && rc == MPI_SUCCESS && (i == 0 || e->code); i++) {
        struct storwin_error cause;
        int failed = 0;

        e->code = MPI_SUCCESS;
        if (!done) {
            pthread_mutex_lock(&w->lock);
            failed = storwin_commit_generation(w->storage, w->newest, &cause);
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
    rc = vote_commit(w, rank != w->decider, e);
    if (rc == MPI_SUCCESS && !e->code)
        rc = vote_commit(w, rank == w->decider, e);
    /* Some ranks have this number and some do not. The next commit would overwrite, at those that
     * do, the last commit that all ranks hold. */
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

    if (win == MPI_WIN_NULL) {
        swmpi_say(&e, MPI_ERR_WIN, "the window is MPI_WIN_NULL");
        return swmpi_raise_comm(MPI_COMM_SELF, "swmpi_commit", &e);
    }
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
