/* SPDX-License-Identifier: BSD-3-Clause */
/* libpmix, by dlopen. */
#define _GNU_SOURCE
#include "lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct lib lib;

#define MISSING "libpmix.so.2 is not on this node: apt install libpmix2"
#define TOO_OLD                                                                                    \
    "libpmix.so.2 on this node is older than 4.2, or reports no version: install a later one"

/* "OpenPMIx 4.2.2 (PMIx Standard: ...". */
static bool version_is_recent(const char *version)
{
    const char *digits = strpbrk(version, "0123456789");
    unsigned major, minor;

    return digits && sscanf(digits, "%u.%u", &major, &minor) == 2 &&
           (major > 4 || (major == 4 && minor >= 2));
}

static const char *lib_find(void)
{
    /* Its own components link it again: the same, by its name. */
    void *so = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);

    if (!so)
        return MISSING;
#define FIND(name)                                                                                 \
    *(void **)&lib.name = dlsym(so, #name);                                                        \
    if (!lib.name)                                                                                 \
        return TOO_OLD;
    LIB_FUNCTIONS(FIND)
    return version_is_recent(lib.PMIx_Get_version()) ? NULL : TOO_OLD;
}

int lib_load(const char **why)
{
    static bool loaded;
    static const char *failure;

    if (!loaded)
        failure = lib_find();
    loaded = true;
    *why = failure;
    return failure ? -1 : 0;
}

/* ---- waiting ---- */

struct lib_wait {
    sem_t done;
    pmix_status_t status;
    int n_owners; /* who waits, and libpmix: the last one frees it */
};

struct lib_wait *lib_wait(void)
{
    struct lib_wait *w = malloc(sizeof(*w));

    if (!w)
        return NULL;
    *w = (struct lib_wait){.n_owners = 2};
    sem_init(&w->done, 0, 0);
    return w;
}

static void wait_release(struct lib_wait *w, int n)
{
    if (__atomic_sub_fetch(&w->n_owners, n, __ATOMIC_ACQ_REL) != 0)
        return;
    sem_destroy(&w->done);
    free(w);
}

void lib_on_done(pmix_status_t status, void *arg)
{
    struct lib_wait *w = arg;

    w->status = status;
    sem_post(&w->done);
    wait_release(w, 1);
}

static pmix_status_t wait_end(struct lib_wait *w, pmix_status_t rc, int seconds)
{
    struct timespec end;

    if (!w)
        return PMIX_ERR_NOMEM;
    if (rc != PMIX_SUCCESS) { /* no callback will follow */
        wait_release(w, 2);
        return rc == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : rc;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += seconds;
    while ((rc = sem_clockwait(&w->done, CLOCK_MONOTONIC, &end)) != 0 && errno == EINTR)
        ;
    rc = rc != 0                                 ? PMIX_ERR_TIMEOUT
         : w->status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS
                                                 : w->status;
    wait_release(w, 1);
    return rc;
}

pmix_status_t lib_waited(struct lib_wait *w, pmix_status_t rc)
{
    return wait_end(w, rc, LIB_WAIT_S);
}

/* In libpmix's thread. */
static void thread_sleep(pmix_status_t status, void *w)
{
    lib_on_done(status, w);
    for (;;)
        pause();
}

bool lib_park(void)
{
    struct lib_wait *w = lib_wait();

    return wait_end(w, w ? lib.PMIx_server_register_resources(NULL, 0, thread_sleep, w) : 0, 1) ==
           PMIX_SUCCESS;
}
