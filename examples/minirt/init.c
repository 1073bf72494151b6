/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Life cycle: opens each library, in the order of their dependencies, and closes it. libpmi2
 * (libpmiwire, libshmht) gives rank and size, librankmap the node of every rank. Then libasymreg
 * opens a transport, librankmap an address vector, and libstorwin allocates the memory that others
 * access.
 */
#include "internal.h"

#include <stdarg.h>

#include "pmi2.h"
#ifdef MINIRT_UCX
#include <asymreg-ucx.h>
#endif

const char *const minirt__transports[] = {[SHM] = "shm", [CMA] = "cma", [UCX] = "ucx"};

int(minirt__fail)(struct minirt *rt, int code, const char *reason, const char *format, ...)
{
    int n = snprintf(rt->why, sizeof(rt->why), "rank %u: ", rt->rank);
    va_list list;

    va_start(list, format);
    n += vsnprintf(rt->why + n, sizeof(rt->why) - (size_t)n, format, list);
    va_end(list);
    if (reason && n < (int)sizeof(rt->why))
        snprintf(rt->why + n, sizeof(rt->why) - (size_t)n, ": %s", reason);
    rt->broken |= code == MINIRT_EPEER;
    return code;
}

/* The libraries return the system's codes as -errno, and their own outside of its range. */
static int code_of(int rc, int otherwise)
{
    return rc == -ENOMEM ? MINIRT_ENOMEM : rc > -4096 ? MINIRT_ESYSTEM : otherwise;
}

int minirt__map_code(int rc)
{
    return code_of(rc, MINIRT_EMAP);
}

int minirt__remote_code(int rc)
{
    return rc == ASYMREG_EPEER     ? MINIRT_EPEER
           : rc == ASYMREG_ENOTSUP ? MINIRT_ENOTSUP
                                   : code_of(rc, MINIRT_EREMOTE);
}

const char *minirt_why(const struct minirt *rt)
{
    return rt && rt->why[0] ? rt->why : "nothing has failed";
}

static int start_pmi(struct minirt *rt)
{
    int spawned, size = 0, rank = 0, appnum, rc = PMI2_Init(&spawned, &size, &rank, &appnum);

    if (rc != PMI2_SUCCESS)
        return minirt__fail(rt, MINIRT_EPMI, NULL, "PMI2_Init failed with %d", rc);
    rt->rank = (uint32_t)rank;
    rt->n = (uint32_t)size;
    return rt->n <= MINIRT_MAX_RANKS
               ? 0
               : minirt__fail(rt, MINIRT_EINVAL, NULL, "%d ranks are more than %u", size,
                              MINIRT_MAX_RANKS);
}

static int map_nodes(struct minirt *rt)
{
    char mapping[PMI2_MAX_ATTRVALUE + 1] = "";
    struct rankmap_info info = {.size = sizeof(info)};
    int found = 0, rc;

    CHARGE(rt, MINIRT_PMI, rc,
           PMI2_Info_GetJobAttr("PMI_process_mapping", mapping, sizeof(mapping), &found));
    /* Without a mapping from the server: all on one node. */
    if (rc != PMI2_SUCCESS || !found)
        snprintf(mapping, sizeof(mapping), "(vector,(0,1,%u))", rt->n);
    rc = rankmap_nodes_from_text(mapping, strlen(mapping), rt->n, NULL, &rt->nodes, NULL);
    if (rc >= 0)
        rc = rankmap_query(rt->nodes, &info);
    if (rc < 0)
        return minirt__fail(rt, minirt__map_code(rc), rankmap_strerror(rc),
                            "process mapping \"%.100s\"", mapping);
    rt->n_nodes = (uint32_t)info.max_id + 1;
    return 0;
}

/* MINIRT_TRANSPORT, or else a transport that reaches every process. */
static int choose_transport(struct minirt *rt)
{
    const char *name = getenv("MINIRT_TRANSPORT");
    size_t i = rt->n_nodes > 1 ? UCX : SHM;

    if (name && *name)
        for (i = 0; i <= UCX && strcmp(name, minirt__transports[i]) != 0; i++)
            ;
    if (i > UCX)
        return minirt__fail(rt, MINIRT_EINVAL, NULL,
                            "MINIRT_TRANSPORT=%.40s is not shm, cma or ucx", name);
    if (i != UCX && rt->n_nodes > 1)
        return minirt__fail(rt, MINIRT_ENOTSUP, NULL,
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
    struct asymreg_error err;
    int rc;

    if (rt->transport == UCX) {
#ifdef MINIRT_UCX
        struct asymreg_ucx_opts ucx = {.size = sizeof(ucx), .flags = ASYMREG_UCX_THREAD};

        if (asymreg_ucx_create(&ucx, &opts.transport, &err) < 0)
            return minirt__fail(rt, MINIRT_ENOTSUP, err.text, "UCX");
#else
        return minirt__fail(rt, MINIRT_ENOTSUP, NULL, "built without UCX: apt install libucx-dev");
#endif
    } else {
        rc = asymreg_local_create(&local, &opts.transport, &err);
        if (rc < 0)
            return minirt__fail(rt, minirt__remote_code(rc), err.text, "libasymreg's transport");
    }
    rc = asymreg_open(&opts, &rt->ctx, &err);
    if (rc < 0)
        return minirt__fail(rt, minirt__remote_code(rc), err.text, "opening libasymreg over %s",
                            minirt__transports[rt->transport]);
    rc = asymreg_worker_create(rt->ctx, &rt->worker);
    if (rc < 0)
        return minirt__fail(rt, minirt__remote_code(rc), asymreg_strerror(rc), "worker");
    return 0;
}

static int make_vector(struct minirt *rt)
{
    struct rankmap_av_opts opts = {.size = sizeof(opts), .entry_bytes = 8, .capacity = rt->n};
    struct rankmap_info_av info = {.size = sizeof(info)};
    struct rankmap_av_group world;
    int rc = rankmap_av_create(&opts, &rt->av);

    if (rc == 0)
        rc = rankmap_av_group_add(rt->av, rt->n, &world);
    if (rc == 0)
        rc = rankmap_av_query(rt->av, &info);
    if (rc < 0)
        return minirt__fail(rt, minirt__map_code(rc), rankmap_strerror(rc), "address vector of %u",
                            rt->n);
    rt->entries = info.base;
    return 0;
}

int minirt_init(struct minirt **out)
{
    static const struct {
        int (*run)(struct minirt *rt);
        int part; /* that time and memory are charged to */
    } steps[] = {
        {start_pmi, MINIRT_PMI},         {map_nodes, MINIRT_MAPS},
        {choose_transport, MINIRT_MAPS}, {open_registry, MINIRT_REGISTRY},
        {make_vector, MINIRT_AV},        {minirt__service_window, MINIRT_WINDOWS},
        {minirt__world, MINIRT_MAPS},    {minirt__wire_up, MINIRT_PMI},
    };
    struct minirt *rt = *out = calloc(1, sizeof(*rt));
    int rc = 0;

    if (!rt)
        return MINIRT_ENOMEM;
    rt->part = MINIRT_N_PARTS;
    minirt__charge(rt, MINIRT_N_PARTS); /* the stopwatch runs for no part */
    for (size_t i = 0; rc == 0 && i < sizeof(steps) / sizeof(steps[0]); i++)
        CHARGE(rt, steps[i].part, rc, steps[i].run(rt));
    /* The rest is charged to no part: most of it is waiting. */
    rt->ready = rc == 0;
    return rc == 0 ? minirt_barrier(rt->world) : rc;
}

int minirt_fini(struct minirt *rt)
{
    int rc = 0;

    if (!rt)
        return 0;
    /* No memory is freed while others use it, even if only to find out whether a peer that they
     * wait for in this barrier is alive. */
    rt->ready &= !rt->broken;
    if (rt->ready)
        rc = minirt_barrier(rt->world);
    if (rt->ready && rc == 0 && PMI2_KVS_Fence() != PMI2_SUCCESS)
        rc = MINIRT_EPMI;
    for (uint32_t i = 0; i < MINIRT_SLOTS; i++) {
        struct minirt_window *w = rt->windows[i];

        if (w)
            w->team = NULL;
        minirt__team_drop(rt->teams[i]);
    }
    asymreg_worker_destroy(rt->worker);
    /* After a peer is gone, others may still get from this process: libasymreg serves them until it
     * is closed, so memory is freed after that. */
    asymreg_close(rt->ctx);
    rt->ctx = NULL;
    for (uint32_t i = 0; i < MINIRT_SLOTS; i++)
        minirt__window_drop(rt->windows[i]);
    minirt__window_drop(rt->service_window);
    rankmap_av_destroy(rt->av);
    rankmap_unref(rt->nodes);
    if (rt->ready && rc == 0 && PMI2_Finalize() != PMI2_SUCCESS)
        rc = MINIRT_EPMI;
    free(rt);
    return rc;
}

void minirt_abort(struct minirt *rt)
{
    if (rt && PMI2_Initialized())
        PMI2_Abort(1, minirt_why(rt)); /* which prints it, and exits with 1 */
    fprintf(stderr, "minirt: %s\n", minirt_why(rt));
    exit(1);
}
