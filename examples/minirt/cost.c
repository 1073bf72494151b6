/* SPDX-License-Identifier: BSD-3-Clause */
/* Time and memory by part: a stopwatch and malloc()'s own figures, of which one part at a time is
 * charged; and the libraries' own reports. */
#include "internal.h"

#include <malloc.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

int minirt__charge(struct minirt *rt, int part)
{
    struct mallinfo2 m = mallinfo2();
    struct minirt_cost *cost = &rt->cost[rt->part],
                       now = {.heap = (int64_t)(m.uordblks + m.hblkhd)};
    int before = rt->part;
    struct rusage usage;
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    getrusage(RUSAGE_SELF, &usage);
    now.touched = (uint64_t)(usage.ru_minflt * sysconf(_SC_PAGESIZE));
    now.ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    cost->ns += now.ns - rt->since.ns;
    cost->heap += now.heap - rt->since.heap;
    cost->touched += now.touched - rt->since.touched;
    rt->since = now;
    rt->part = part;
    return before;
}

static uint64_t map_bytes(const struct rankmap *map)
{
    struct rankmap_info info = {.size = sizeof(info)};

    rankmap_query(map, &info);
    return info.total_bytes;
}

void minirt_get_info(const struct minirt *rt, struct minirt_info *info)
{
    struct rankmap_info_av av = {.size = sizeof(av)};

    rankmap_av_query(rt->av, &av);
    *info = (struct minirt_info){.transport = minirt__transports[rt->transport],
                                 .wireup = rt->wireup->name,
                                 .n_ranks = rt->n,
                                 .n_nodes = rt->n_nodes,
                                 .n_peers = rt->n_peers,
                                 .card_chars = (uint32_t)(CARD_HEAD + rt->card.blob_bytes) * 2,
                                 .service_bytes = sizeof(struct service),
                                 .finger_bytes = sizeof(struct finger)};
    memcpy(info->cost, rt->cost, sizeof(info->cost));
    info->cost[MINIRT_AV].told = av.bytes;
    info->cost[MINIRT_MAPS].told = map_bytes(rt->nodes);
    info->cost[MINIRT_WINDOWS].told = sizeof(*rt->service);
    for (uint32_t i = 0; i < MINIRT_SLOTS; i++) {
        const struct minirt_team *team = rt->teams[i];

        info->cost[MINIRT_MAPS].told += team ? map_bytes(team->map) : 0;
        info->cost[MINIRT_WINDOWS].told += rt->windows[i] ? rt->service->window[i].bytes : 0;
    }
}
