/* SPDX-License-Identifier: BSD-3-Clause */
/* The start of the programs, and a table of its cost. */
#include "program.h"

void program_report(struct minirt *rt, FILE *to)
{
    static const char *const parts[MINIRT_N_PARTS][2] = {
        [MINIRT_PMI] = {"wire-up", "libpmiwire, libshmht"},
        [MINIRT_MAPS] = {"teams", "librankmap"},
        [MINIRT_AV] = {"address vector", "librankmap"},
        [MINIRT_WINDOWS] = {"windows", "libstorwin"},
        [MINIRT_REGISTRY] = {"registry", "libasymreg"},
        [MINIRT_PEERS] = {"peers", "libasymreg"},
    };
    struct minirt_team *world = minirt_world(rt);
    struct minirt_info info;

    minirt_get_info(rt, &info);
    if (minirt_rank(world) == 0)
        fprintf(to,
                "minirt: %u ranks, %u nodes, transport %s, wire-up by %s, cards of %u characters, "
                "%u peers known\n%-16s %-22s %10s %10s %10s %10s %10s\n",
                info.n_ranks, info.n_nodes, info.transport, info.wireup, info.card_chars,
                info.n_peers, "part", "library", "ms", "slowest ms", "heap", "touched", "reported");
    for (int i = 0; i < MINIRT_N_PARTS; i++) {
        const struct minirt_cost *cost = &info.cost[i];
        uint64_t slowest = ~cost->ns;

        MUST(rt, minirt_min(world, &slowest));
        if (minirt_rank(world) == 0)
            fprintf(to, "%-16s %-22s %10.3f %10.3f %10" PRId64 " %10" PRIu64 " %10" PRIu64 "\n",
                    parts[i][0], parts[i][1], (double)cost->ns / 1e6, (double)~slowest / 1e6,
                    cost->heap, cost->touched, cost->told);
    }
}

struct minirt *program_start(void)
{
    const char *stats = getenv("MINIRT_STATS");
    struct minirt *rt;

    MUST(rt, minirt_init(&rt));
    if (stats && strcmp(stats, "1") == 0)
        program_report(rt, stderr);
    return rt;
}
