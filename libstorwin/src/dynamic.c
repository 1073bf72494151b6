/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows that are synced together: an array under a lock. */
#include "internal.h"

#include <errno.h>

struct storwin_dynamic {
    const struct storwin_allocator *allocator;
    pthread_mutex_t lock;
    struct storwin_window **wins;
    size_t n, cap;
};

int storwin_dynamic_create(const struct storwin_allocator *allocator, struct storwin_dynamic **out)
{
    struct storwin_dynamic *dyn;

    if (!out || storwin__allocator_check(allocator, NULL) < 0)
        return -EINVAL;
    dyn = storwin__calloc(allocator, 1, sizeof(*dyn));
    if (!dyn)
        return -ENOMEM;
    dyn->allocator = allocator;
    pthread_mutex_init(&dyn->lock, NULL);
    *out = dyn;
    return 0;
}

void storwin_dynamic_destroy(struct storwin_dynamic *dyn)
{
    if (!dyn)
        return;
    for (size_t i = 0; i < dyn->n; i++)
        atomic_fetch_sub(&dyn->wins[i]->attached, 1);
    pthread_mutex_destroy(&dyn->lock);
    storwin__free(dyn->allocator, dyn->wins);
    storwin__free(dyn->allocator, dyn);
}

/* Returns the window's index in the array; dyn->n: not attached. */
static size_t place_of(const struct storwin_dynamic *dyn, const struct storwin_window *win)
{
    size_t i = 0;

    while (i < dyn->n && dyn->wins[i] != win)
        i++;
    return i;
}

static int attach_window(struct storwin_dynamic *dyn, struct storwin_window *win)
{
    if (place_of(dyn, win) < dyn->n)
        return -EEXIST;
    if (dyn->n == dyn->cap) {
        size_t cap = dyn->cap ? dyn->cap * 2 : 8;
        struct storwin_window **grown =
            storwin__realloc(dyn->allocator, dyn->wins, cap * sizeof(struct storwin_window *));

        if (!grown)
            return -ENOMEM;
        dyn->wins = grown;
        dyn->cap = cap;
    }
    dyn->wins[dyn->n++] = win;
    atomic_fetch_add(&win->attached, 1);
    return 0;
}

int storwin_dynamic_attach(struct storwin_dynamic *dyn, struct storwin_window *win)
{
    int rc;

    if (!dyn || !win || !win->map)
        return -EINVAL;
    pthread_mutex_lock(&dyn->lock);
    rc = attach_window(dyn, win);
    pthread_mutex_unlock(&dyn->lock);
    return rc;
}

int storwin_dynamic_detach(struct storwin_dynamic *dyn, struct storwin_window *win)
{
    int rc = STORWIN_ENOWIN;
    size_t at;

    if (!dyn || !win)
        return -EINVAL;
    pthread_mutex_lock(&dyn->lock);
    at = place_of(dyn, win);
    if (at < dyn->n) {
        dyn->wins[at] = dyn->wins[--dyn->n];
        atomic_fetch_sub(&win->attached, 1);
        rc = 0;
    }
    pthread_mutex_unlock(&dyn->lock);
    return rc;
}

int storwin_dynamic_sync(struct storwin_dynamic *dyn, struct storwin_error *err)
{
    int rc = 0;

    if (!dyn)
        return storwin__fail(err, -EINVAL, NULL, "an argument is NULL");
    pthread_mutex_lock(&dyn->lock);
    for (size_t i = 0; i < dyn->n; i++) {
        int one = storwin_sync(dyn->wins[i], 0, STORWIN_TO_END, rc < 0 ? NULL : err);

        if (one < 0 && rc == 0)
            rc = one;
    }
    pthread_mutex_unlock(&dyn->lock);
    return rc;
}
