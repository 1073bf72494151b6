/* SPDX-License-Identifier: BSD-3-Clause */
/* Life cycle: PMI, the transport and its context, the memory that others reach, and the end of all that. */
#include "internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pmi2.h"
#ifdef MINIRT_UCX
#include <asymreg-ucx.h>
#endif

static const char *const transports[] = {[SHM] = "shm", [CMA] = "cma", [UCX] = "ucx"};

/* Whose code it is shows in its block of numbers; what is none of the libraries' is minirt's own, or the system's. */
int minirt__fail(struct minirt *rt, int rc, const char *format, ...)
{
    const char *reason = NULL, *more = NULL;
    int code = rc, n = snprintf(rt->why, sizeof(rt->why), "rank %u: ", rt->rank);
    va_list list;

    switch (-rc / 1000) {
    case -RANKMAP_EDUP / 1000:
        code = MINIRT_EMAP;
        reason = rankmap_strerror(rc);
        break;
    case -STORWIN_EVALUE / 1000:
        code = MINIRT_EWINDOW;
        reason = storwin_strerror(rc);
        break;
    case -ASYMREG_ENOREGION / 1000:
        code = rc == ASYMREG_EPEER ? MINIRT_EPEER : rc == ASYMREG_ENOTSUP ? MINIRT_ENOTSUP : MINIRT_EREMOTE;
        reason = asymreg_strerror(rc);
        more = rt->ctx && (rc == ASYMREG_ENOTSUP || rc == ASYMREG_EUNREACH) ? asymreg_why(rt->ctx) : NULL;
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
        snprintf(rt->why + n, sizeof(rt->why) - (size_t)n, ": %s%s%s", reason, more ? ": " : "", more ? more : "");
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
    rt->has_pmi = 1;
    rt->rank = (uint32_t)rank;
    rt->n = (uint32_t)size;
    return rt->n <= MINIRT_MAX_RANKS ? 0 : minirt__fail(rt, MINIRT_EINVAL, "%d ranks are more than %u", size, MINIRT_MAX_RANKS);
}

static int map_nodes(struct minirt *rt)
{
    char mapping[PMI2_MAX_ATTRVALUE + 1] = "";
    struct rankmap_info info = {.size = sizeof(info)};
    int outer = minirt__charge(rt, MINIRT_PMI), found = 0;
    int rc = PMI2_Info_GetJobAttr("PMI_process_mapping", mapping, sizeof(mapping), &found);

    minirt__charge(rt, outer);
    if (rc != PMI2_SUCCESS || !found)
        snprintf(mapping, sizeof(mapping), "(vector,(0,1,%u))", rt->n); /* a server that does not tell: all together */
    if ((rc = rankmap_nodes_from_text(mapping, strlen(mapping), rt->n, NULL, &rt->nodes)) < 0 ||
        (rc = rankmap_info_get(rt->nodes, &info)) < 0)
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
        for (i = 0; i <= UCX && strcmp(name, transports[i]) != 0; i++)
            ;
    if (i > UCX)
        return minirt__fail(rt, MINIRT_EINVAL, "MINIRT_TRANSPORT=%.40s is not shm, cma or ucx", name);
    if (i != UCX && rt->n_nodes > 1)
        return minirt__fail(rt, MINIRT_ENOTSUP, "MINIRT_TRANSPORT=%s reaches one node, and the job has %u", transports[i], rt->n_nodes);
    rt->transport = i;
    return 0;
}

static int open_registry(struct minirt *rt)
{
    /* A combined window is two regions side by side: one operation may cross from the one into the other. */
    struct asymreg_opts opts = {.size = sizeof(opts), .flags = ASYMREG_SPLIT, .max_regions = 4096, .max_segments = 256};
    struct asymreg_local_opts local = {.size = sizeof(local)};
    int rc;

    if (rt->transport == UCX) {
#ifdef MINIRT_UCX
        struct asymreg_ucx_opts ucx = {.size = sizeof(ucx), .flags = ASYMREG_UCX_THREAD};

        rc = asymreg_ucx_create(&ucx, &opts.transport);
        if (rc < 0)
            return minirt__fail(rt, MINIRT_ENOTSUP, "UCX: %s", asymreg_ucx_strerror(rc));
#else
        return minirt__fail(rt, MINIRT_ENOTSUP, "built without UCX: apt install libucx-dev");
#endif
    } else {
        /* The ranks of a job trust one another not to shorten the files of their windows. */
        local.flags = rt->transport == SHM ? ASYMREG_LOCAL_SHM | ASYMREG_LOCAL_CMA | ASYMREG_LOCAL_TRUST : ASYMREG_LOCAL_CMA;
        rc = asymreg_local_create(&local, &opts.transport);
    }
    if (rc < 0 || (rc = asymreg_open(&opts, &rt->ctx)) < 0 || (rc = asymreg_worker_create(rt->ctx, &rt->worker)) < 0)
        return minirt__fail(rt, rc, "opening libasymreg over %s", transports[rt->transport]);
    return 0;
}

static int make_vector(struct minirt *rt)
{
    struct rankmap_av_opts opts = {.size = sizeof(opts), .entry_bytes = 8, .capacity = rt->n};
    struct rankmap_av_group world;
    int rc = rankmap_av_create(&opts, &rt->av);

    if (rc < 0 || (rc = rankmap_av_group_add(rt->av, rt->n, &world)) < 0)
        return minirt__fail(rt, rc, "address vector of %u", rt->n);
    rt->entries = rankmap_av_base(rt->av);
    return 0;
}

/* The card: where this process's struct service is, and how libasymreg gets there. */
static int write_card(struct minirt *rt)
{
    ssize_t n = asymreg_export(rt->ctx, rt->card.blob, sizeof(rt->card.blob));

    if (n < 0)
        return minirt__fail(rt, (int)n, "export");
    rt->card.magic = 0x3154524du;
    rt->card.blob_bytes = (uint32_t)n;
    rt->card.service = (uintptr_t)rt->service;
    return 0;
}

static int meet(struct minirt *rt)
{
    rt->ready = 1;
    return minirt_barrier(rt->world);
}

int minirt_init(struct minirt **out)
{
    static const struct {
        int (*take)(struct minirt *rt);
        int part;
    } steps[] = {
        {start_pmi, MINIRT_PMI},
        {map_nodes, MINIRT_MAPS},
        {choose_transport, MINIRT_REGISTRY},
        {open_registry, MINIRT_REGISTRY},
        {make_vector, MINIRT_AV},
        {minirt__world, MINIRT_MAPS},
        {minirt__service_window, MINIRT_WINDOWS},
        {write_card, MINIRT_REGISTRY},
        {minirt__wire_up, MINIRT_PMI},
        {meet, MINIRT_N_PARTS}, /* nobody's: most of it is waiting */
    };
    const char *stats = getenv("MINIRT_STATS");
    struct minirt *rt = *out = calloc(1, sizeof(*rt));
    int rc = 0;

    if (!rt)
        return MINIRT_ENOMEM;
    rt->part = MINIRT_N_PARTS;
    for (size_t i = 0; rc == 0 && i < sizeof(steps) / sizeof(steps[0]); i++) {
        minirt__charge(rt, steps[i].part);
        rc = steps[i].take(rt);
        minirt__charge(rt, MINIRT_N_PARTS);
    }
    return rc == 0 && stats && strcmp(stats, "1") == 0 ? minirt_report(rt, stderr) : rc;
}

int minirt_fini(struct minirt *rt)
{
    int rc = 0, clean;

    if (!rt)
        return 0;
    /* Nobody's memory goes while others use it, be it to find out whether one that they wait for in this very barrier lives. */
    if (rt->ready && !rt->broken && (rc = minirt_barrier(rt->world)) == 0 && PMI2_KVS_Fence() != PMI2_SUCCESS)
        rc = MINIRT_EPMI;
    clean = rt->ready && rc == 0 && !rt->broken;
    for (uint32_t i = 0; i < MINIRT_MAX_WINDOWS; i++)
        minirt__window_drop(rt->windows[i]);
    for (uint32_t i = 0; i < MINIRT_MAX_TEAMS; i++)
        minirt__team_drop(rt->teams[i]);
    asymreg_worker_destroy(rt->worker);
    rt->worker = NULL;
    minirt__window_drop(rt->service_window);
    asymreg_close(rt->ctx);
    rankmap_av_destroy(rt->av);
    rankmap_unref(rt->nodes);
    if (rt->has_pmi && clean && PMI2_Finalize() != PMI2_SUCCESS)
        rc = MINIRT_EPMI;
    free(rt);
    return rc;
}

void minirt_abort(struct minirt *rt, int status)
{
    if (rt && rt->has_pmi)
        PMI2_Abort(status, minirt_why(rt)); /* which prints it */
    fprintf(stderr, "minirt: %s\n", minirt_why(rt));
    exit(status);
}

void minirt_get_info(const struct minirt *rt, struct minirt_info *info)
{
    *info = (struct minirt_info){.transport = transports[rt->transport], .wireup = rt->wireup->name, .n_ranks = rt->n,
                                 .n_nodes = rt->n_nodes, .n_peers = rt->n_peers,
                                 .card_chars = (uint32_t)(CARD_HEAD + rt->card.blob_bytes) * 2, .service_bytes = sizeof(struct service),
                                 .finger_bytes = sizeof(struct finger)};
}
