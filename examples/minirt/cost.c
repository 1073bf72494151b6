/* SPDX-License-Identifier: BSD-3-Clause */
/* Time and memory by part: a stopwatch and malloc()'s own figures, of which one part at a time is charged. */
#include "internal.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

int minirt__charge(struct minirt *rt, int part)
{
    struct mallinfo2 m = mallinfo2();
    struct cost *cost = &rt->cost[rt->part], now = {.heap = (int64_t)(m.uordblks + m.hblkhd)};
    int before = rt->part;
    struct rusage usage;
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    getrusage(RUSAGE_SELF, &usage);
    now.faults = (uint64_t)usage.ru_minflt;
    now.ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    cost->ns += now.ns - rt->since.ns;
    cost->heap += now.heap - rt->since.heap;
    cost->faults += now.faults - rt->since.faults;
    rt->since = now;
    rt->part = part;
    return before;
}

/* What a library itself says that it holds; 0: it does not say. */
static uint64_t told(const struct minirt *rt, int part)
{
    uint64_t maps = rankmap_bytes(rt->nodes), windows = storwin_bytes(rt->service_window->storage);

    for (uint32_t i = 0; i < MINIRT_MAX_TEAMS; i++)
        maps += rt->teams[i] ? rankmap_bytes(rt->teams[i]->map) : 0;
    for (uint32_t i = 0; i < MINIRT_MAX_WINDOWS; i++)
        windows += rt->windows[i] ? storwin_bytes(rt->windows[i]->storage) : 0;
    return part == MINIRT_MAPS ? maps : part == MINIRT_AV ? rankmap_av_bytes(rt->av) : part == MINIRT_WINDOWS ? windows : 0;
}

int minirt_report(struct minirt *rt, FILE *to)
{
    static const char *const parts[MINIRT_N_PARTS][2] = {
        [MINIRT_PMI] = {"wire-up", "libpmiwire, libshmht"}, [MINIRT_MAPS] = {"teams", "librankmap"},
        [MINIRT_AV] = {"address vector", "librankmap"},     [MINIRT_WINDOWS] = {"windows", "libstorwin"},
        [MINIRT_REGISTRY] = {"registry", "libasymreg"},     [MINIRT_PEERS] = {"peers", "libasymreg"},
    };
    struct cost cost[MINIRT_N_PARTS];
    struct minirt_info info;

    minirt_get_info(rt, &info);
    for (int i = 0; i < MINIRT_N_PARTS; i++) /* before minirt_min() adds to them */
        cost[i] = rt->cost[i];
    if (rt->rank == 0)
        fprintf(to, "minirt: %u ranks, %u nodes, transport %s, wire-up by %s, cards of %u characters, %u peers known\n%-16s %-22s %10s %10s %10s %10s %10s\n",
                info.n_ranks, info.n_nodes, info.transport, info.wireup, info.card_chars, info.n_peers, "part", "library", "ms",
                "slowest ms", "heap", "touched", "told");
    for (int i = 0; i < MINIRT_N_PARTS; i++) {
        uint64_t slowest = ~cost[i].ns;
        int rc = minirt_min(rt->world, &slowest);

        if (rc < 0)
            return rc;
        if (rt->rank == 0)
            fprintf(to, "%-16s %-22s %10.3f %10.3f %10" PRId64 " %10" PRIu64 " %10" PRIu64 "\n", parts[i][0], parts[i][1],
                    (double)cost[i].ns / 1e6, (double)~slowest / 1e6, cost[i].heap, cost[i].faults * (uint64_t)sysconf(_SC_PAGESIZE),
                    told(rt, i));
    }
    return 0;
}
