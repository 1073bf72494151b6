/* SPDX-License-Identifier: BSD-3-Clause */
/* For `suite`, by LD_PRELOAD: a rank that waits gives its processor to another rank. MPICH over UCX
 * polls without a pause, so that more ranks than processors would wait for the scheduler's tick. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

unsigned ucp_worker_progress(void *worker);

unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*real)(void *);
    unsigned n;

    if (!real)
        real = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
    n = real(worker);
    if (n == 0)
        sched_yield();
    return n;
}
