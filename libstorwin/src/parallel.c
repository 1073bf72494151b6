/* SPDX-License-Identifier: BSD-3-Clause */
#include "internal.h"

#include <signal.h>

/* Starts a thread with all signals blocked. */
int storwin__thread(pthread_t *thread, void *(*start)(void *), void *ctx)
{
    sigset_t all, old;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(thread, NULL, start, ctx);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -rc;
}

struct worker {
    void (*work)(void *ctx);
    void *ctx;
};

static void *run_worker(void *arg)
{
    struct worker *worker = arg;

    worker->work(worker->ctx);
    return NULL;
}

void storwin__parallel(unsigned n, void (*work)(void *ctx), void *ctx)
{
    struct worker worker = {work, ctx};
    pthread_t threads[64];
    unsigned started = 0;

    while (started + 1 < n && started < 64 &&
           storwin__thread(&threads[started], run_worker, &worker) == 0)
        started++;
    work(ctx); /* does it all if no thread could be started */
    while (started > 0)
        pthread_join(threads[--started], NULL);
}
