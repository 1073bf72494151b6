/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that measure together: n children are forked, each gets ready, all start at the same
 * time, and each leaves its figures in memory that the parent reads. A child that fails fails the
 * benchmark; children die with their parent.
 */
#ifndef FENCEPOST_SHMHT_CHILDREN_H
#define FENCEPOST_SHMHT_CHILDREN_H

#define MAX_CHILDREN 64u
#define MAX_FIGURES  4u

/* Calls ready() and, when all are ready, go(), in n children; figures[child] is what go() wrote. */
struct children_ops {
    void (*ready)(void *ctx, unsigned child);
    void (*go)(void *ctx, unsigned child, double *figures);
};

void children_run(const struct children_ops *ops, void *ctx, unsigned n,
                  double figures[][MAX_FIGURES]);

#endif
