/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Life cycle: each library is opened, in the order in which they need one another, and closed.
 * libpmi2 (libpmiwire, libshmht) tells who is there; librankmap which node everybody is on; then
 * libasymreg opens a transport, librankmap an address vector, and libstorwin allocates the memory
 * that others reach.
 */
#include "internal.h"

#include <stdarg.h>

#include "pmi2.h"
#ifdef MINIRT_UCX
#include <asymreg-ucx.h>
#endif

const char *const minirt__transports[] = {[SHM] = "shm", [CMA] = "cma", [UCX] = "ucx"};

/* Whose code it is shows in its block of numbers; what is none of the libraries' is minirt's own,
 * or the system's. */
int minirt__fail(struct minirt *rt, int rc, const char *format, ...)
{
    int code = rc, n = snprintf(rt->why, sizeof(rt->why), "rank %u: ", rt->rank);
    const char *reason = NULL, *why;
    va_list list;

    switch (rc / 1000) {
    case RANKMAP_EDUP / 1000:
        code = MINIRT_EMAP;
        reason = rankmap_strerror(rc);
        break;
    case STORWIN_EVALUE / 1000:
        code = MINIRT_EWINDOW;
        reason = storwin_strerror(rc);
        break;
    case ASYMREG_ENOREGION / 1000:
        code = rc == ASYMREG_EPEER     ? MINIRT_EPEER
               : rc == ASYMREG_ENOTSUP ? MINIRT_ENOTSUP
                                       : MINIRT_EREMOTE;
        why = rt->ctx && (rc == ASYMREG_ENOTSUP || rc == ASYMREG_EUNREACH) ? asymreg_why(rt->ctx)
                                                                           : NULL;
        reason = why ? why : asymreg_strerror(rc);
        break;
    case 0:
        code = rc == -ENOMEM ? MINIRT_ENOMEM : MINIRT_ESYSTEM;
        reason = strerror(-rc);
        break;
    }
    va_start(list, format);
    n += vsnprintf(rt->why + n, sizeof(rt->why) - (size_t)n, format, list);
    va_end(list);
    if (reason && n < (int)sizeof(rt->why))
        snprintf(rt->why + n, sizeof(rt->why) - (size_t)n, ": %s", reason);
    rt->broken |= code == MINIRT_EPEER;
    return code;
}

const char *minirt_why(const struct minirt *rt)
{
    return rt && rt->why[0] ? rt->why : "nothing has failed";
}

static int start_pmi(struct minirt *rt)
{
    int spawned, size = 0, rank = 0, appnum, rc = PMI2_Init(&spawned, &size, &rank, &appnum);

    if (rc != PMI2_SUCCESS)
        return minirt__fail(rt, MINIRT_EPMI, "PMI2_Init failed with %d", rc);
    rt->rank = (uint32_t)rank;
    rt->n = (uint32_t)size;
    return rt->n <= MINIRT_MAX_RANKS ? 0
                                     : minirt__fail(rt, MINIRT_EINVAL, "%d ranks are more than %u",
                                                    size, MINIRT_MAX_RANKS);
}

static int map_nodes(struct minirt *rt)
{
    char mapping[PMI2_MAX_ATTRVALUE + 1] = "";
    struct rankmap_info info = {.size = sizeof(info)};
    int found = 0,
        rc = PMI2_Info_GetJobAttr("PMI_process_mapping", mapping, sizeof(mapping), &found);

    minirt__charge(rt, MINIRT_MAPS);
    if (rc != PMI2_SUCCESS || !found)
        snprintf(mapping, sizeof(mapping), "(vector,(0,1,%u))",
                 rt->n); /* a server that does not tell: all together */
    if ((rc = rankmap_nodes_from_text(mapping, strlen(mapping), rt->n, NULL, &rt->nodes, NULL)) <
            0 ||
        (rc = rankmap_query(rt->nodes, &info)) < 0)
        return minirt__fail(rt, rc, "process mapping \"%.100s\"", mapping);
    rt->n_nodes = (uint32_t)info.max_id + 1;
    return 0;
}

/* What MINIRT_TRANSPORT says, or else what reaches everybody. */
static int choose_transport(struct minirt *rt)
{
    const char *name = getenv("MINIRT_TRANSPORT");
    size_t i = rt->n_nodes > 1 ? UCX : SHM;

    if (name && *name)
        for (i = 0; i <= UCX && strcmp(name, minirt__transports[i]) != 0; i++)
            ;
    if (i > UCX)
        return minirt__fail(rt, MINIRT_EINVAL, "MINIRT_TRANSPORT=%.40s is not shm, cma or ucx",
                            name);
    if (i != UCX && rt->n_nodes > 1)
        return minirt__fail(rt, MINIRT_ENOTSUP,
                            "MINIRT_TRANSPORT=%s reaches one node, and the job has %u", name,
                            rt->n_nodes);
    rt->transport = i;
    return 0;
}

static int open_registry(struct minirt *rt)
{
    /* A combined window is two regions side by side: one operation may cross from the one into the
     * other. */
    struct asymreg_opts opts = {
        .size = sizeof(opts), .flags = ASYMREG_SPLIT, .max_regions = 4096, .max_segments = 256};
    /* The ranks of a job trust one another not to shorten the files of their windows. */
    struct asymreg_local_opts local = {
        .size = sizeof(local),
        .flags = ASYMREG_LOCAL_CMA |
                 (rt->transport == SHM ? ASYMREG_LOCAL_SHM | ASYMREG_LOCAL_TRUST : 0)};
    int rc;

    minirt__charge(rt, MINIRT_REGISTRY);
    if (rt->transport == UCX) {
#ifdef MINIRT_UCX
        struct asymreg_ucx_opts ucx = {.size = sizeof(ucx), .flags = ASYMREG_UCX_THREAD};

        if ((rc = asymreg_ucx_create(&ucx, &opts.transport)) < 0)
            return minirt__fail(rt, MINIRT_ENOTSUP, "UCX: %s", asymreg_ucx_strerror(rc));
#else
        return minirt__fail(rt, MINIRT_ENOTSUP, "built without UCX: apt install libucx-dev");
#endif
    } else {
        rc = asymreg_local_create(&local, &opts.transport);
    }
    if (rc < 0 || (rc = asymreg_open(&opts, &rt->ctx)) < 0 ||
        (rc = asymreg_worker_create(rt->ctx, &rt->worker)) < 0)
        return minirt__fail(rt, rc, "opening libasymreg over %s",
                            minirt__transports[rt->transport]);
    return 0;
}

static int make_vector(struct minirt *rt)
{
    struct rankmap_av_opts opts = {.size = sizeof(opts), .entry_bytes = 8, .capacity = rt->n};
    struct rankmap_info_av info = {.size = sizeof(info)};
    struct rankmap_av_group world;
    int rc;

    minirt__charge(rt, MINIRT_AV);
    if ((rc = rankmap_av_create(&opts, &rt->av)) < 0 ||
        (rc = rankmap_av_group_add(rt->av, rt->n, &world)) < 0 ||
        (rc = rankmap_av_query(rt->av, &info)) < 0)
        return minirt__fail(rt, rc, "address vector of %u", rt->n);
    rt->entries = info.base;
    return 0;
}

int minirt_init(struct minirt **out)
{
    static int (*const steps[])(struct minirt * rt) = {start_pmi,        map_nodes,
                                                       choose_transport, open_registry,
                                                       make_vector,      minirt__service_window,
                                                       minirt__world,    minirt__wire_up};
    struct minirt *rt = *out = calloc(1, sizeof(*rt));
    int rc = 0;

    if (!rt)
        return MINIRT_ENOMEM;
    rt->part = MINIRT_N_PARTS;
    minirt__charge(rt, MINIRT_PMI);
    for (size_t i = 0; rc == 0 && i < sizeof(steps) / sizeof(steps[0]); i++)
        rc = steps[i](rt);
    minirt__charge(rt, MINIRT_N_PARTS); /* what follows is nobody's: most of it is waiting */
    rt->ready = rc == 0;
    return rc == 0 ? minirt_barrier(rt->world) : rc;
}

int minirt_fini(struct minirt *rt)
{
    int rc = 0;

    if (!rt)
        return 0;
    /* Nobody's memory goes while others use it, be it to find out whether one that they wait for in
     * this very barrier lives. */
    rt->ready &= !rt->broken;
    if (rt->ready && (rc = minirt_barrier(rt->world)) == 0 && PMI2_KVS_Fence() != PMI2_SUCCESS)
        rc = MINIRT_EPMI;
    for (uint32_t i = 0; i < MINIRT_SLOTS; i++)
        minirt__window_drop(rt->windows[i]);
    for (uint32_t i = 0; i < MINIRT_SLOTS; i++)
        minirt__team_drop(rt->teams[i]);
    asymreg_worker_destroy(rt->worker);
    minirt__window_drop(rt->service_window);
    asymreg_close(rt->ctx);
    rankmap_av_destroy(rt->av);
    rankmap_unref(rt->nodes);
    if (rt->ready && rc == 0 && PMI2_Finalize() != PMI2_SUCCESS)
        rc = MINIRT_EPMI;
    free(rt);
    return rc;
}

void minirt_abort(struct minirt *rt, int status)
{
    if (rt && PMI2_Initialized())
        PMI2_Abort(status, minirt_why(rt)); /* which prints it */
    fprintf(stderr, "minirt: %s\n", minirt_why(rt));
    exit(status);
}
