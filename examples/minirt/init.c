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

int minirt__fail(struct minirt *rt, int code, const char *format, ...)
{
    va_list list;
    int n = snprintf(rt->why, sizeof(rt->why), "rank %u: ", rt->rank);

    va_start(list, format);
    vsnprintf(rt->why + n, sizeof(rt->why) - (size_t)n, format, list);
    va_end(list);
    rt->part = MINIRT_N_PARTS; /* whatever was being timed is not ended */
    if (code == MINIRT_EPEER)
        rt->broken = 1;
    return code;
}

int minirt__fail_asymreg(struct minirt *rt, int rc, const char *format, ...)
{
    const char *reason = rt->ctx && (rc == ASYMREG_ENOTSUP || rc == ASYMREG_EUNREACH) ? asymreg_why(rt->ctx) : NULL;
    char what[256];
    va_list list;

    va_start(list, format);
    vsnprintf(what, sizeof(what), format, list);
    va_end(list);
    return minirt__fail(rt,
                        rc == ASYMREG_EPEER     ? MINIRT_EPEER
                        : rc == ASYMREG_ENOTSUP ? MINIRT_ENOTSUP
                        : rc == -ENOMEM         ? MINIRT_ENOMEM
                                                : MINIRT_EREMOTE,
                        "%s: %s%s%s", what, asymreg_strerror(rc), reason ? ": " : "", reason ? reason : "");
}

const char *minirt_why(const struct minirt *rt)
{
    return rt && rt->why[0] ? rt->why : "nothing has failed";
}

static int start_pmi(struct minirt *rt)
{
    char mapping[PMI2_MAX_ATTRVALUE + 1] = "";
    struct rankmap_info info = {.size = sizeof(info)};
    struct lap lap = minirt__begin(rt, MINIRT_PMI);
    int spawned, size = 0, rank = 0, appnum, found = 0, rc = PMI2_Init(&spawned, &size, &rank, &appnum);

    if (rc != PMI2_SUCCESS)
        return minirt__fail(rt, MINIRT_EPMI, "PMI2_Init failed with %d", rc);
    rt->has_pmi = 1;
    rt->rank = (uint32_t)rank;
    rt->n = (uint32_t)size;
    if (rt->n > MINIRT_MAX_RANKS)
        return minirt__fail(rt, MINIRT_EINVAL, "%d ranks are more than %u", size, MINIRT_MAX_RANKS);
    rc = PMI2_Info_GetJobAttr("PMI_process_mapping", mapping, sizeof(mapping), &found);
    minirt__end(&lap);

    lap = minirt__begin(rt, MINIRT_MAPS);
    if (rc != PMI2_SUCCESS || !found)
        snprintf(mapping, sizeof(mapping), "(vector,(0,1,%u))", rt->n); /* a server that does not tell: all together */
    rc = rankmap_nodes_from_text(mapping, strlen(mapping), rt->n, NULL, &rt->nodes);
    if (rc < 0 || (rc = rankmap_info_get(rt->nodes, &info)) < 0)
        return minirt__fail(rt, MINIRT_EMAP, "process mapping \"%.100s\": %s", mapping, rankmap_strerror(rc));
    rt->n_nodes = (uint32_t)info.max_id + 1;
    rt->cost[MINIRT_MAPS].told_bytes += rankmap_bytes(rt->nodes);
    minirt__end(&lap);
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
    struct lap lap = minirt__begin(rt, MINIRT_REGISTRY);
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
        if (rc < 0)
            return minirt__fail_asymreg(rt, rc, "transport %s", transports[rt->transport]);
    }
    if ((rc = asymreg_open(&opts, &rt->ctx)) < 0 || (rc = asymreg_worker_create(rt->ctx, &rt->worker)) < 0)
        return minirt__fail_asymreg(rt, rc, "opening libasymreg over %s", transports[rt->transport]);
    minirt__end(&lap);
    return 0;
}

static int make_vector(struct minirt *rt)
{
    struct rankmap_av_opts opts = {.size = sizeof(opts), .entry_bytes = 8, .capacity = rt->n, .tag_mask = TAG_MASK};
    struct rankmap_av_group world;
    struct lap lap = minirt__begin(rt, MINIRT_AV);
    int rc = rankmap_av_create(&opts, &rt->av);

    if (rc == 0)
        rc = rankmap_av_group_add(rt->av, rt->n, &world);
    if (rc < 0)
        return minirt__fail(rt, MINIRT_EMAP, "address vector of %u: %s", rt->n, rankmap_strerror(rc));
    rt->entries = rankmap_av_base(rt->av);
    rt->cost[MINIRT_AV].told_bytes = rankmap_av_bytes(rt->av);
    minirt__end(&lap);
    return 0;
}

/* The card: where this process's struct service is, and how libasymreg gets there. */
static int write_card(struct minirt *rt)
{
    ssize_t n = asymreg_export(rt->ctx, rt->card.blob, sizeof(rt->card.blob));

    if (n < 0)
        return minirt__fail_asymreg(rt, (int)n, "export");
    rt->card.magic = 0x3154524du;
    rt->card.blob_bytes = (uint32_t)n;
    rt->card.service = (uintptr_t)rt->service;
    rt->card_bytes = CARD_HEAD + (size_t)n;
    return 0;
}

static void print_costs(const struct minirt *rt)
{
    fprintf(stderr, "minirt: %u ranks on %u nodes, transport %s, wire-up by %s, %u peers known, card of %zu bytes\n", rt->n,
            rt->n_nodes, transports[rt->transport], rt->wireup->name, rt->n_peers, rt->card_bytes);
    fprintf(stderr, "minirt: %-18s %-24s %10s %12s %12s\n", "part", "library", "ms", "heap bytes", "told bytes");
    for (int i = 0; i < MINIRT_N_PARTS; i++)
        fprintf(stderr, "minirt: %-18s %-24s %10.3f %12lld %12llu\n", rt->cost[i].part, rt->cost[i].library,
                (double)rt->cost[i].ns / 1e6, (long long)rt->cost[i].heap_bytes, (unsigned long long)rt->cost[i].told_bytes);
}

int minirt_init(struct minirt **out)
{
    static const struct minirt_cost parts[MINIRT_N_PARTS] = {
        [MINIRT_PMI] = {.part = "wire-up", .library = "libpmiwire, libshmht"},
        [MINIRT_MAPS] = {.part = "teams", .library = "librankmap"},
        [MINIRT_AV] = {.part = "address vector", .library = "librankmap"},
        [MINIRT_WINDOWS] = {.part = "windows", .library = "libstorwin"},
        [MINIRT_REGISTRY] = {.part = "registry", .library = "libasymreg"},
        [MINIRT_PEERS] = {.part = "peers", .library = "libasymreg"},
    };
    const char *stats = getenv("MINIRT_STATS");
    struct minirt *rt = *out = calloc(1, sizeof(*rt));
    int rc;

    if (!rt)
        return MINIRT_ENOMEM;
    memcpy(rt->cost, parts, sizeof(parts));
    rt->part = MINIRT_N_PARTS;
    if ((rc = start_pmi(rt)) < 0 || (rc = choose_transport(rt)) < 0 || (rc = open_registry(rt)) < 0 ||
        (rc = make_vector(rt)) < 0 || (rc = minirt__service_window(rt)) < 0 || (rc = write_card(rt)) < 0 ||
        (rc = minirt__wire_up(rt)) < 0 || (rc = minirt__world(rt)) < 0 || (rc = minirt_barrier(rt->world)) < 0)
        return rc;
    if (rt->rank == 0 && stats && strcmp(stats, "1") == 0)
        print_costs(rt);
    return 0;
}

int minirt_fini(struct minirt *rt)
{
    int rc = 0, clean;

    if (!rt)
        return 0;
    /* Nobody's memory goes while others use it, be it to find out whether one that they wait for in this very barrier lives. */
    if (rt->world && !rt->broken && (rc = minirt_barrier(rt->world)) == 0 && PMI2_KVS_Fence() != PMI2_SUCCESS)
        rc = MINIRT_EPMI;
    clean = rt->world && rc == 0 && !rt->broken;
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
                                 .n_nodes = rt->n_nodes, .n_peers = rt->n_peers, .card_bytes = (uint32_t)rt->card_bytes * 2,
                                 .blob_bytes = rt->card.blob_bytes, .service_bytes = sizeof(struct service)};
}
