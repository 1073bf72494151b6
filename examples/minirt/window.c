/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: libstorwin reads the hints and allocates, libasymreg registers. storwin_part_query()
 * returns what backs each part of a window. A part whose descriptor, mapped by a peer, shows the
 * same bytes at once (`part.coherent`: a file under the kernel pager; memory, requested as a memfd,
 * which has no name that a killed process could leave behind) is registered with that descriptor,
 * and peers map it; the others are for CMA and UCX.
 */
#include "internal.h"

#include <unistd.h>

#define MAX_HINTS 32
#define MAX_TEXT  8192

/* Hints with %r replaced. The options point into `text`. */
static int read_hints(struct minirt *rt, const char *hints, char *text, struct storwin_opts *opts)
{
    struct storwin_hint list[MAX_HINTS];
    struct storwin_error err = {0};
    size_t len = 0;
    int n, rc;

    for (const char *p = hints; *p && len < MAX_TEXT; p++)
        if (p[0] == '%' && p[1] == 'r')
            len += (size_t)snprintf(text + len, MAX_TEXT - len, "%u", rt->rank), p++;
        else
            text[len++] = *p;
    if (len >= MAX_TEXT)
        return minirt__fail(rt, MINIRT_EINVAL, NULL, "hints of %d bytes and more", MAX_TEXT);
    text[len] = '\0';
    storwin_opts_init(opts);
    rc = n = storwin_hints_split(text, list, MAX_HINTS, &err);
    for (int i = 0; rc >= 0 && i < n; i++) {
        rc = storwin_opts_set(opts, list[i].key, list[i].value, &err);
        if (rc == STORWIN_UNKNOWN)
            return minirt__fail(rt, MINIRT_EINVAL, NULL, "hint %.40s: unknown name", list[i].key);
    }
    return rc < 0 ? minirt__fail(rt, MINIRT_EINVAL, NULL, "hint %s: %s", err.hint, err.text) : 0;
}

/* A transport may pin the pages that it writes, or have the kernel do so; stores into pages that
 * the user pager evicts meanwhile are lost. */
static int allocate_storage(struct minirt_window *w, uint64_t bytes, struct storwin_opts *opts)
{
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_error err = {0};
    int rc;

    if (opts->alloc_type == STORWIN_STORAGE && opts->pager == STORWIN_PAGER_USER)
        return minirt__fail(
            w->rt, MINIRT_ENOTSUP, NULL,
            "storage_alloc_pager=user: peers cannot write to a window whose pages come and go");
    opts->flags |= w->rt->transport == SHM ? STORWIN_MEMFD : 0;
    rc = storwin_alloc(opts, bytes, &w->storage, &err);
    if (rc < 0)
        return minirt__fail(w->rt, rc == -ENOMEM ? MINIRT_ENOMEM : MINIRT_EWINDOW, err.text,
                            "window of %llu bytes%s%s", (unsigned long long)bytes,
                            err.hint[0] ? ": " : "", err.hint);
    (void)storwin_query(w->storage, &info);
    /* As soon as it is open, so that a killed process leaves no file either. */
    if (info.target == STORWIN_TARGET_FILE && opts->flags & STORWIN_UNLINK)
        (void)unlink(opts->filename);
    else if (info.created)
        w->created = strdup(opts->filename);
    return 0;
}

/* Every part becomes a region, which peers may access; with shared memory they map it. */
static int register_parts(struct minirt_window *w, uint64_t bytes)
{
    struct storwin_info_part part = {.size = sizeof(part)};
    struct asymreg_register_opts mapped = {.size = sizeof(mapped),
                                           .flags = ASYMREG_FD | ASYMREG_TRUSTED};
    struct minirt *rt = w->rt;
    struct asymreg_error err;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && storwin_part_query(w->storage, i, &part) == 0; i++) {
        int maps = rt->transport == SHM && part.fd >= 0 && part.coherent;

        mapped.fd = part.fd;
        mapped.fd_offset = part.fd_offset;
        rc = asymreg_register(rt->ctx, (char *)storwin_base(w->storage) + part.offset, part.bytes,
                              ASYMREG_ALL, maps ? &mapped : NULL, &w->region[i], &err);
    }
    return rc < 0 ? minirt__fail(rt, minirt__remote_code(rc), err.text,
                                 "registering a window of %llu bytes", (unsigned long long)bytes)
                  : 0;
}

/* This process's part of a window, without communication. */
static int make_window(struct minirt *rt, uint64_t bytes, const char *hints,
                       struct minirt_window **out)
{
    struct minirt_window *w = *out = calloc(1, sizeof(*w));
    struct storwin_opts opts;
    char text[MAX_TEXT];
    int rc;

    if (!w)
        return minirt__fail(rt, MINIRT_ENOMEM, NULL, "out of memory");
    w->rt = rt;
    rc = read_hints(rt, hints ? hints : "", text, &opts);
    if (rc < 0)
        return rc;
    CHARGE(rt, MINIRT_WINDOWS, rc, allocate_storage(w, bytes, &opts));
    if (rc == 0)
        CHARGE(rt, MINIRT_REGISTRY, rc, register_parts(w, bytes));
    return rc;
}

/* Registrations first: no peer is admitted any more. Closing libasymreg has ended them all. */
int minirt__window_drop(struct minirt_window *w)
{
    struct storwin_error err = {0};
    int rc;

    if (!w)
        return 0;
    for (uint32_t i = 0; w->rt->ctx && i < 2; i++) {
        if (w->region[i])
            (void)asymreg_unregister(w->rt->ctx, w->region[i]);
    }
    if (w->team) {
        w->rt->service->window[w->slot].base = 0;
        w->team->n_windows--;
        w->rt->windows[w->slot] = NULL;
    }
    rc = storwin_free(w->storage, &err);
    if (rc < 0)
        rc = minirt__fail(w->rt, MINIRT_EWINDOW, err.text, "freeing a window");
    free(w->created);
    free(w->where);
    free(w);
    return rc;
}

int minirt__service_window(struct minirt *rt)
{
    int rc = make_window(rt, sizeof(struct service), NULL, &rt->service_window);

    if (rc == 0)
        rt->service = storwin_base(rt->service_window->storage);
    return rc;
}

/* Collective. If one process fails, all fail, and everything is released. */
int minirt_window_create(struct minirt_team *team, uint64_t bytes, const char *hints,
                         struct minirt_window **window)
{
    struct minirt *rt = team->rt;
    struct minirt_window *w;
    uint32_t slot;
    int rc = minirt__agree_on_slot(team, rt->windows, make_window(rt, bytes, hints, &w), &slot);

    if (rc < 0) {
        if (w && w->created)
            (void)unlink(w->created);
        minirt__window_drop(w);
        return rc;
    }
    w->team = team;
    w->slot = slot;
    team->n_windows++;
    rt->windows[slot] = w;
    rt->service->window[slot] = (struct part){(uintptr_t)storwin_base(w->storage), bytes};
    rc = minirt_barrier(team);
    if (rc == 0) /* else minirt_fini() drops it */
        *window = w;
    return rc;
}

int minirt_window_free(struct minirt_window *w)
{
    int rc, dropped;

    if (!w)
        return 0;
    rc = minirt_barrier(w->team); /* every member has finished with it */
    dropped = minirt__window_drop(w);
    return rc < 0 ? rc : dropped;
}

void *minirt_window_base(const struct minirt_window *w)
{
    return storwin_base(w->storage);
}

struct storwin_window *minirt_window_storage(struct minirt_window *w)
{
    return w->storage;
}

int minirt_window_at(struct minirt_window *w, struct minirt_team *team, uint32_t rank,
                     uint64_t offset, uint64_t *addr)
{
    struct minirt *rt = w->rt;
    struct part *there;
    uint32_t id;
    int rc = minirt__reach(team, rank, &id);

    if (rc < 0)
        return rc;
    if (rankmap_rank(w->team->map, id) < 0) /* its window in this slot is another */
        return minirt__fail(rt, MINIRT_EINVAL, NULL,
                            "rank %u (process %u) has no part of this window", rank, id);
    if (!w->where)
        w->where = calloc(rt->n, sizeof(*w->where));
    if (!w->where)
        return minirt__fail(rt, MINIRT_ENOMEM, NULL, "out of memory");
    there = &w->where[id];
    if (there->base == 0)
        rc = minirt__read(rt, id, &rt->service->window[w->slot], there, sizeof(*there));
    if (rc < 0)
        return rc;
    if (there->base == 0 || offset > there->bytes)
        return minirt__fail(rt, MINIRT_EINVAL, NULL,
                            "offset %llu of a window of rank %u (process %u), which has %llu bytes",
                            (unsigned long long)offset, rank, id,
                            there->base ? (unsigned long long)there->bytes : 0);
    *addr = there->base + offset;
    return 0;
}
