/* SPDX-License-Identifier: BSD-3-Clause */
/* libswmpi's windows: bound to MPI's by an attribute, and listed for MPI_Finalize. MPI_Win_free,
 * _sync, and what MPI_Finalize does. */
#include "swmpi.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t window_lock = PTHREAD_MUTEX_INITIALIZER; /* of the key and the list */
static int keyval = MPI_KEYVAL_INVALID;
static struct swmpi_window *windows;

struct swmpi_window *swmpi_window_new(int flavor, struct swmpi_error *e)
{
    struct swmpi_window *w = calloc(1, sizeof(*w));

    if (!w || pthread_mutex_init(&w->lock, NULL) != 0) {
        free(w);
        swmpi_say(e, MPI_ERR_NO_MEM, "no memory for a window");
        return NULL;
    }
    w->flavor = flavor;
    w->group = MPI_COMM_NULL;
    return w;
}

static void unlist_window(struct swmpi_window *w)
{
    pthread_mutex_lock(&window_lock);
    for (struct swmpi_window **at = &windows; *at; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            break;
        }
    }
    pthread_mutex_unlock(&window_lock);
}

void swmpi_window_delete(struct swmpi_window *w, struct swmpi_error *e)
{
    struct storwin_error cause;
    int rc;

    unlist_window(w);
    storwin_dynamic_destroy(w->dynamic);
    rc = storwin_free(w->storage, &cause);
    if (rc < 0 && !e->code)
        swmpi_say_storwin(e, "free", rc, &cause);
    while (w->regions) {
        struct swmpi_region *r = w->regions;

        w->regions = r->next;
        free(r);
    }
    swmpi_peers_close(w);
    if (w->group != MPI_COMM_NULL)
        PMPI_Comm_free(&w->group);
    free(w->segments);
    free(w->unlink_path);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* The working directory may change, and the file under the name. */
void swmpi_unlink_later(struct swmpi_window *w, const char *path, struct swmpi_error *e)
{
    struct stat st;

    w->unlink_path = realpath(path, NULL);
    if (!w->unlink_path || stat(w->unlink_path, &st) < 0) {
        swmpi_say(e, MPI_ERR_FILE, "storage_alloc_unlink: \"%.200s\": %s", path, strerror(errno));
        return;
    }
    w->unlink_dev = st.st_dev;
    w->unlink_ino = st.st_ino;
}

static void unlink_now(const struct swmpi_window *w, struct swmpi_error *e)
{
    struct stat st;
    int rc = w->unlink_path ? lstat(w->unlink_path, &st) : 0;

    if (w->unlink_path && rc == 0 && st.st_dev == w->unlink_dev && st.st_ino == w->unlink_ino)
        rc = unlink(w->unlink_path);
    if (rc < 0 && errno != ENOENT)
        swmpi_say(e, MPI_ERR_FILE, "storage_alloc_unlink: remove \"%.200s\": %s", w->unlink_path,
                  strerror(errno));
}

int swmpi_window_bind(struct swmpi_window *w, MPI_Win win, int number)
{
    struct swmpi_window **at = &windows;
    int rc = swmpi_at_finalize();

    pthread_mutex_lock(&window_lock);
    if (rc == MPI_SUCCESS && keyval == MPI_KEYVAL_INVALID)
        rc = PMPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &keyval, NULL);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Win_set_attr(win, keyval, w);
    if (rc == MPI_SUCCESS) {
        w->win = win;
        w->number = number;
        while (*at && (*at)->number > number)
            at = &(*at)->next;
        w->next = *at;
        *at = w;
    }
    pthread_mutex_unlock(&window_lock);
    return rc;
}

struct swmpi_window *swmpi_window_of(MPI_Win win)
{
    struct swmpi_window *w = NULL;
    int found = 0, key;

    pthread_mutex_lock(&window_lock);
    key = keyval;
    pthread_mutex_unlock(&window_lock);
    if (win == MPI_WIN_NULL || key == MPI_KEYVAL_INVALID ||
        PMPI_Win_get_attr(win, key, &w, &found) != MPI_SUCCESS || !found)
        return NULL;
    return w;
}

static int sync_storage(struct swmpi_window *w, struct swmpi_error *e)
{
    struct storwin_error cause;
    int rc;

    e->code = MPI_SUCCESS;
    pthread_mutex_lock(&w->lock);
    rc = w->dynamic ? storwin_dynamic_sync(w->dynamic, &cause)
                    : storwin_sync(w->storage, 0, STORWIN_TO_END, &cause);
    pthread_mutex_unlock(&w->lock);
    if (rc < 0)
        swmpi_say_storwin(e, "sync", rc, &cause);
    return e->code;
}

SWMPI_EXPORT int MPI_Win_sync(MPI_Win win)
{
    struct swmpi_window *w = swmpi_window_of(win);
    struct swmpi_error e;
    int rc = PMPI_Win_sync(win);

    if (!w || !w->sync || rc != MPI_SUCCESS)
        return rc;
    if (sync_storage(w, &e) || (w->sync == SWMPI_SYNC_ALL && swmpi_peers_sync(w, &e)))
        return swmpi_raise_win(win, "MPI_Win_sync", &e);
    return MPI_SUCCESS;
}

/* Waits until no rank has operations on the window in flight, so that the sync covers all of them.
 * An error must not reach the handler: the caller asked for no fence. */
static void wait_for_operations(MPI_Win win)
{
    MPI_Errhandler handler;

    if (PMPI_Win_get_errhandler(win, &handler) != MPI_SUCCESS)
        return;
    PMPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    PMPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    PMPI_Win_set_errhandler(win, handler);
    if (handler != MPI_ERRORS_ARE_FATAL && handler != MPI_ERRORS_RETURN)
        PMPI_Errhandler_free(&handler);
}

/* Prints what the storage of a window has cost: the basis for choosing a pager or a budget. */
static void trace_stats(const struct swmpi_window *w)
{
    struct storwin_stats stats = {.size = sizeof(stats)};

    storwin_window_stats(w->storage, &stats);
    swmpi_trace(2,
                "MPI_Win_free: window %d: %llu syncs and commits; %llu bytes changed, %llu written "
                "by %llu requests; %llu faults, %llu bytes read",
                w->number, (unsigned long long)stats.n_syncs, (unsigned long long)stats.dirty_bytes,
                (unsigned long long)stats.written_bytes, (unsigned long long)stats.n_requests,
                (unsigned long long)stats.n_faults, (unsigned long long)stats.read_bytes);
}

/* The storage is synced while the window, and with it its error handler, still exists. */
static int free_window(struct swmpi_window *w, MPI_Win *win)
{
    struct swmpi_error e = {.code = MPI_SUCCESS};
    int rc, raised = MPI_SUCCESS;

    if (w->storage) {
        wait_for_operations(*win);
        if (w->group != MPI_COMM_NULL) {
            rc = swmpi_commit_last(w, !w->discard && !w->unlink && !w->broken, &e);
            if (rc != MPI_SUCCESS && !e.code)
                swmpi_say(&e, MPI_ERR_OTHER, "the last commit: MPI error %d", rc);
        } else if (!w->discard && !w->unlink) {
            (void)sync_storage(w, &e);
        }
        if (e.code)
            raised = swmpi_raise_win(*win, "MPI_Win_free", &e);
        trace_stats(w);
        if (w->adopted) { /* MPI frees its memory with the window, and no commit follows */
            (void)storwin_free(w->storage, NULL);
            w->storage = NULL;
            w->sync = SWMPI_SYNC_MEMORY;
            w->broken = 1;
        }
    }
    rc = PMPI_Win_free(win);
    if (rc != MPI_SUCCESS)
        return rc;
    e.code = MPI_SUCCESS;
    unlink_now(w, &e);
    swmpi_window_delete(w, &e);
    if (e.code)
        raised = swmpi_raise_comm(MPI_COMM_SELF, "MPI_Win_free", &e);
    return raised;
}

SWMPI_EXPORT int MPI_Win_free(MPI_Win *win)
{
    struct swmpi_window *w = win ? swmpi_window_of(*win) : NULL;

    return w ? free_window(w, win) : PMPI_Win_free(win);
}

/* Frees the windows that are left, which is collective. It cannot hang: no rank of such a window
 * has freed it, and all ranks free in the order of the numbers that they agreed on. */
static int free_rest(MPI_Comm self, int self_keyval, void *value, void *extra)
{
    struct swmpi_window *w;
    MPI_Win win;

    (void)self, (void)self_keyval, (void)value, (void)extra;
    while ((w = windows)) {
        swmpi_trace(1, "MPI_Finalize: window %d was not freed", w->number);
        if (w->flavor == MPI_WIN_FLAVOR_CREATE) { /* other ranks may not know of it */
            struct swmpi_error ignored = {.code = MPI_ERR_OTHER};

            swmpi_window_delete(w, &ignored);
            continue;
        }
        win = w->win;
        free_window(w, &win);
        if (win != MPI_WIN_NULL)
            break; /* MPI refused */
    }
    swmpi_memory_finish();
    return MPI_SUCCESS;
}

int swmpi_at_finalize(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int done;
    int self_keyval, rc = MPI_SUCCESS;

    pthread_mutex_lock(&lock);
    if (!done) {
        rc = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_rest, &self_keyval, NULL);
        if (rc == MPI_SUCCESS) {
            rc = PMPI_Comm_set_attr(MPI_COMM_SELF, self_keyval, NULL);
            PMPI_Comm_free_keyval(&self_keyval); /* it lives as long as the attribute */
        }
        done = rc == MPI_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}
