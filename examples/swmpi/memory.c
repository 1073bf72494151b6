/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Alloc_mem on storage, and the windows that are created over it or attach it. */
#include "swmpi.h"
#include <stdlib.h>
#include <string.h>

/* The communicator whose handler gets errors that belong to no object. */
#if MPI_VERSION >= 4
#define NO_OBJECT MPI_COMM_SELF
#else
#define NO_OBJECT MPI_COMM_WORLD
#endif

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct swmpi_memory *memories;

/* Finds an address on storage: the link of the list that points to its memory, or the list's end.
 * The lock is held. */
static struct swmpi_memory **find_memory(const void *address)
{
    uintptr_t at = (uintptr_t)address;
    struct swmpi_memory **m;

    for (m = &memories; *m; m = &(*m)->next) {
        if (at >= (*m)->base && at - (*m)->base < (*m)->bytes)
            break;
    }
    return m;
}

SWMPI_EXPORT int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *baseptr)
{
    struct swmpi_error e = {.code = MPI_SUCCESS};
    struct swmpi_memory *m = NULL;
    struct swmpi_hints h;
    struct storwin_error cause;
    struct swmpi_names names = {0};
    unsigned char *base;
    int rc;

    swmpi_hints_read(&h, info, SWMPI_ALLOC_MEM, &e);
    if (!e.code && (h.opts.alloc_type != STORWIN_STORAGE || size <= 0))
        return PMPI_Alloc_mem(size, info, baseptr);
    swmpi_at_finalize();
    PMPI_Comm_rank(MPI_COMM_WORLD, &names.rank);
    names.leader = names.rank;
    if (!e.code) {
        names.number = swmpi_number_own();
        swmpi_hints_expand(&h, &names, &e);
    }
    if (!e.code && !(m = malloc(sizeof(*m))))
        swmpi_say(&e, MPI_ERR_NO_MEM, "no memory for a window");
    if (h.discard)
        h.opts.flags |= STORWIN_DISCARD;
    if (!e.code && (rc = storwin_alloc(&h.opts, (uint64_t)size + h.lead, &m->window, &cause)) < 0)
        swmpi_say_storwin(&e, "allocation", rc, &cause);
    if (e.code) {
        free(m);
        return swmpi_raise_comm(NO_OBJECT, "MPI_Alloc_mem", &e);
    }
    m->bytes = (uint64_t)size;
    base = (unsigned char *)storwin_base(m->window) + h.lead;
    m->base = (uintptr_t)base;
    memcpy(baseptr, &base, sizeof(base));
    pthread_mutex_lock(&memory_lock);
    m->next = memories;
    memories = m;
    pthread_mutex_unlock(&memory_lock);
    return MPI_SUCCESS;
}

SWMPI_EXPORT int MPI_Free_mem(void *base)
{
    struct swmpi_error e;
    struct swmpi_memory **at, *m;
    struct storwin_error cause;
    int rc;

    pthread_mutex_lock(&memory_lock);
    at = find_memory(base);
    m = *at;
    if (!m || m->base != (uintptr_t)base) {
        pthread_mutex_unlock(&memory_lock);
        return PMPI_Free_mem(base);
    }
    rc = storwin_free(m->window, &cause);
    if (rc != STORWIN_EBUSY) {
        *at = m->next;
        free(m);
    }
    pthread_mutex_unlock(&memory_lock);
    if (rc == 0)
        return MPI_SUCCESS;
    if (rc == STORWIN_EBUSY)
        swmpi_say(&e, MPI_ERR_RMA_ATTACH, "the memory is still attached to a window");
    else
        swmpi_say_storwin(&e, "free", rc, &cause);
    return swmpi_raise_comm(NO_OBJECT, "MPI_Free_mem", &e);
}

void swmpi_memory_finish(void)
{
    struct storwin_error cause;

    pthread_mutex_lock(&memory_lock);
    while (memories) {
        struct swmpi_memory *m = memories;

        memories = m->next;
        if (storwin_free(m->window, &cause) < 0)
            swmpi_trace(1, "MPI_Finalize: memory of MPI_Alloc_mem: %s", cause.text);
        free(m);
    }
    pthread_mutex_unlock(&memory_lock);
}

SWMPI_EXPORT int MPI_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
    struct swmpi_error e = {.code = MPI_SUCCESS};
    struct swmpi_agreed agreed = {0};
    struct swmpi_hints h;
    struct swmpi_window *w = NULL;
    int rc, all = 0;

    swmpi_hints_read(&h, info, SWMPI_ALLOC_MEM, &e);
    if (!e.code && h.sync == SWMPI_SYNC_ALL)
        swmpi_say(&e, MPI_ERR_INFO_VALUE,
                  "swmpi_sync: 'all' is not for dynamic windows: each rank syncs what it attached");
    if (!e.code && (w = swmpi_window_new(MPI_WIN_FLAVOR_DYNAMIC, &e)) &&
        storwin_dynamic_create(NULL, &w->dynamic) < 0)
        swmpi_say(&e, MPI_ERR_NO_MEM, "no memory for a window");
    rc = swmpi_agree(comm, &agreed, &e);
    while (rc == MPI_SUCCESS && !e.code && !all)
        rc = swmpi_claim(comm, &agreed.number, &all);
    if (rc == MPI_SUCCESS && !e.code &&
        (rc = PMPI_Win_create_dynamic(info, comm, win)) == MPI_SUCCESS) {
        w->sync = h.sync;
        return swmpi_window_bind(w, *win, agreed.number);
    }
    rc = rc == MPI_SUCCESS ? swmpi_raise_comm(comm, "MPI_Win_create_dynamic", &e) : rc;
    if (w)
        swmpi_window_delete(w, &e);
    return rc;
}

/* Does the window have this part of a storage window already, through another region? */
static int is_attached(const struct swmpi_window *w, const struct storwin_window *window)
{
    for (const struct swmpi_region *r = w->regions; r; r = r->next)
        if (r->window == window)
            return 1;
    return 0;
}

static int attach_storage(struct swmpi_window *w, const void *base, struct swmpi_error *e)
{
    struct swmpi_region *r = malloc(sizeof(*r));
    struct swmpi_memory *m;

    e->code = MPI_SUCCESS;
    pthread_mutex_lock(&memory_lock); /* no free before it is attached */
    pthread_mutex_lock(&w->lock);
    m = *find_memory(base);
    if (m &&
        (!r || (!is_attached(w, m->window) && storwin_dynamic_attach(w->dynamic, m->window) < 0))) {
        swmpi_say(e, MPI_ERR_RMA_ATTACH, "no memory to attach it");
    } else if (m) {
        *r = (struct swmpi_region){w->regions, base, m->window};
        w->regions = r;
        r = NULL;
    }
    pthread_mutex_unlock(&w->lock);
    pthread_mutex_unlock(&memory_lock);
    free(r);
    return e->code;
}

SWMPI_EXPORT int MPI_Win_attach(MPI_Win win, void *base, MPI_Aint size)
{
    struct swmpi_window *w = swmpi_window_of(win);
    struct swmpi_error e;
    int rc = PMPI_Win_attach(win, base, size);

    if (rc != MPI_SUCCESS || !w || !w->dynamic || size <= 0 || !attach_storage(w, base, &e))
        return rc;
    PMPI_Win_detach(win, base);
    return swmpi_raise_win(win, "MPI_Win_attach", &e);
}

/* A window over MPI_Alloc_mem's memory on storage: MPI_Win_sync syncs all of that memory, which
 * cannot be freed before the window. NULL: other memory, or an error. */
static struct swmpi_window *over_storage(const void *base, MPI_Info info, struct swmpi_error *e)
{
    struct swmpi_window *w;
    int known;

    pthread_mutex_lock(&memory_lock);
    known = *find_memory(base) != NULL;
    pthread_mutex_unlock(&memory_lock);
    if (!known || !(w = swmpi_window_new(MPI_WIN_FLAVOR_CREATE, e)))
        return NULL;
    w->sync = SWMPI_SYNC_STORAGE;
    if (storwin_dynamic_create(NULL, &w->dynamic) < 0)
        swmpi_say(e, MPI_ERR_NO_MEM, "no memory for a window");
    else if (!attach_storage(w, base, e) && swmpi_hints_change(w, info, e) == MPI_SUCCESS)
        return w;
    swmpi_window_delete(w, e);
    return NULL;
}

static int create_window(void *base, MPI_Aint size, MPI_Aint disp_unit, int large, MPI_Info info,
                         MPI_Comm comm, MPI_Win *win)
{
    struct swmpi_error e = {.code = MPI_SUCCESS};
    struct swmpi_window *w = size > 0 ? over_storage(base, info, &e) : NULL;
    int rc = swmpi_agree(comm, NULL, &e);

    if (rc == MPI_SUCCESS && !e.code) {
#if MPI_VERSION >= 4
        if (large)
            rc = PMPI_Win_create_c(base, size, disp_unit, info, comm, win);
        else
#endif
            rc = PMPI_Win_create(base, size, (int)disp_unit, info, comm, win);
        if (rc == MPI_SUCCESS)
            return w ? swmpi_window_bind(w, *win, 0) : MPI_SUCCESS;
    }
    rc = rc == MPI_SUCCESS
             ? swmpi_raise_comm(comm, large ? "MPI_Win_create_c" : "MPI_Win_create", &e)
             : rc;
    if (w)
        swmpi_window_delete(w, &e);
    return rc;
}

SWMPI_EXPORT int MPI_Win_create(void *base, MPI_Aint size, int disp_unit, MPI_Info info,
                                MPI_Comm comm, MPI_Win *win)
{
    return create_window(base, size, disp_unit, 0, info, comm, win);
}

#if MPI_VERSION >= 4
SWMPI_EXPORT int MPI_Win_create_c(void *base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info,
                                  MPI_Comm comm, MPI_Win *win)
{
    return create_window(base, size, disp_unit, 1, info, comm, win);
}
#endif

SWMPI_EXPORT int MPI_Win_detach(MPI_Win win, const void *base)
{
    struct swmpi_window *w = swmpi_window_of(win);
    struct storwin_window *gone = NULL;
    int rc = PMPI_Win_detach(win, base);

    if (rc != MPI_SUCCESS || !w || !w->dynamic)
        return rc;
    pthread_mutex_lock(&w->lock);
    for (struct swmpi_region **at = &w->regions; *at; at = &(*at)->next) {
        struct swmpi_region *r = *at;

        if (r->base == base) {
            *at = r->next;
            gone = r->window;
            free(r);
            break;
        }
    }
    if (gone && !is_attached(w, gone))
        storwin_dynamic_detach(w->dynamic, gone);
    pthread_mutex_unlock(&w->lock);
    return rc;
}
