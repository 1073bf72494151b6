/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many puts at once. A single operation waits for its hint or the tree, then for its slot.
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
static void batch_search(struct link *l, const struct asymreg_transfer *x, uint32_t n,
                         uint32_t *words)
{
    const struct asymreg__index *ix = l->reader->index;
    uint64_t addrs[ASYMREG__BATCH];
    uint32_t found[ASYMREG__BATCH], n_sought = 0, k = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = (uint32_t)x[i].id;

        link_prefetch(l, x[i].raddr);
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

int asymreg_put_many(struct asymreg_worker *worker, uint32_t pe,
                     const struct asymreg_transfer *transfers, size_t n, size_t *done)
{
    uint32_t words[ASYMREG__BATCH];
    size_t begun = 0;
    struct link *l;
    int rc = 0;

    if (done)
        *done = 0;
    if (!worker || (n && !transfers))
        return -EINVAL;
    while (begun < n && rc == 0) {
        const struct asymreg_transfer *x = transfers + begun;
        uint32_t k = n - begun < ASYMREG__BATCH ? (uint32_t)(n - begun) : ASYMREG__BATCH;

        memset(words, 0, sizeof(words));
        if (link_get(worker, pe, &l) == 0 && l->plain) {
            asymreg__reader_enter(l->reader);
            batch_search(l, x, k, words);
            asymreg__reader_exit(l->reader);
        }
        for (uint32_t i = 0; i < k && rc == 0; i++) {
            rc = asymreg__put_near(worker, pe, &x[i], words[i]);
            begun += rc == 0;
        }
    }
    if (done)
        *done = begun;
    return rc;
}
