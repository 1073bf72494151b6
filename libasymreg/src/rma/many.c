/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many puts or gets at once. A single operation waits for its hint or the tree, then for its slot.
 * Here the searches of a batch advance together, and prefetch the slots that they find before the
 * first operation begins. Each operation then checks its region as usual.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <string.h>

#include "worker.h"

/* Finds where a batch's regions probably are: slots + 1, or 0. */
static void search(struct link *l, const struct asymreg_transfer *x, uint32_t n, uint32_t *words)
{
    const struct asymreg__index *ix = l->reader->index;
    uint64_t addrs[ASYMREG__BATCH];
    uint32_t found[ASYMREG__BATCH], n_sought = 0, k = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = (uint32_t)x[i].id;

        if (x[i].raddr - l->guess_base < l->guess_span)
            __builtin_prefetch(l->guess + (x[i].raddr - l->guess_base), 1);
        if (x[i].id == ASYMREG_ANY)
            addrs[n_sought++] = x[i].raddr;
        else if (slot < ix->max_regions) /* the identifier has the slot */
            __builtin_prefetch(&ix->slots[slot]);
    }
    if (n_sought)
        asymreg__index_search_many(ix, addrs, n_sought, found);
    for (uint32_t i = 0; i < n; i++)
        words[i] = x[i].id == ASYMREG_ANY ? found[k++] : 0;
}

typedef int near_fn(struct asymreg_worker *, uint32_t pe, const struct asymreg_transfer *,
                    uint32_t word);

static int many(struct asymreg_worker *worker, uint32_t pe, const struct asymreg_transfer *x,
                size_t n, size_t *done, near_fn *near)
{
    uint32_t words[ASYMREG__BATCH];
    size_t begun = 0;
    struct link *l;
    int rc = 0;

    if (done)
        *done = 0;
    if (!worker || (n && !x))
        return -EINVAL;
    while (begun < n && rc == 0) {
        uint32_t k = n - begun < ASYMREG__BATCH ? (uint32_t)(n - begun) : ASYMREG__BATCH;

        if ((l = asymreg__plain_link(worker, pe))) {
            asymreg__reader_enter(l->reader);
            search(l, x + begun, k, words);
            asymreg__reader_exit(l->reader);
        } else {
            memset(words, 0, sizeof(words));
        }
        for (uint32_t i = 0; i < k && (rc = near(worker, pe, &x[begun], words[i])) == 0; i++)
            begun++;
    }
    if (done)
        *done = begun;
    return rc;
}

int asymreg_put_many(struct asymreg_worker *worker, uint32_t pe,
                     const struct asymreg_transfer *transfers, size_t n, size_t *done)
{
    return many(worker, pe, transfers, n, done, asymreg__put_near);
}

int asymreg_get_many(struct asymreg_worker *worker, uint32_t pe,
                     const struct asymreg_transfer *transfers, size_t n, size_t *done)
{
    return many(worker, pe, transfers, n, done, asymreg__get_near);
}
