/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "children.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "stores.h"

static void child(const struct children_ops *ops, void *ctx, unsigned i, pid_t parent,
                  const int *up, const int *down, double *figures)
{
    char byte = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    close(up[0]);
    close(down[1]);
    ops->ready(ctx, i);
    /* The parent answers by closing its end, which all see at once. */
    if (write(up[1], &byte, 1) != 1 || read(down[0], &byte, 1) != 0)
        _exit(1);
    ops->go(ctx, i, figures);
    _exit(0); /* no second run of the parent's exit handlers */
}

void children_run(const struct children_ops *ops, void *ctx, unsigned n,
                  double figures[][MAX_FIGURES])
{
    size_t bytes = MAX_CHILDREN * MAX_FIGURES * sizeof(double);
    double *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[MAX_CHILDREN], parent = getpid();
    int up[2], down[2], failed = 0;

    if (n > MAX_CHILDREN || shared == MAP_FAILED || pipe(up) != 0 || pipe(down) != 0)
        die("cannot start %u processes", n);
    fflush(NULL);
    for (unsigned i = 0; i < n; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            child(ops, ctx, i, parent, up, down, shared + i * MAX_FIGURES);
        failed += pids[i] < 0;
    }
    close(up[1]);
    close(down[0]);
    for (unsigned i = 0; i < n - (unsigned)failed; i++) {
        char byte;

        if (read(up[0], &byte, 1) != 1)
            failed = (int)n; /* one has died */
    }
    close(down[1]);
    close(up[0]);
    for (unsigned i = 0; i < n; i++) {
        int status = 1;

        if (pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i] && status != 0)
            failed = (int)n;
    }
    if (failed)
        die("a process failed");
    memcpy(figures, shared, n * MAX_FIGURES * sizeof(double));
    munmap(shared, bytes);
}
