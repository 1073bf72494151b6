/* SPDX-License-Identifier: BSD-3-Clause */
/* Time and memory by part: a stopwatch and malloc()'s own figures around what each library does. */
#include "internal.h"

#include <malloc.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int64_t heap(void)
{
    struct mallinfo2 m = mallinfo2();

    return (int64_t)(m.uordblks + m.hblkhd);
}

struct lap minirt__begin(struct minirt *rt, int part)
{
    struct lap lap = {rt, part, rt->part, now_ns(), heap()};

    rt->part = part;
    return lap;
}

/* What an inner part took is not the outer one's. */
void minirt__end(const struct lap *lap)
{
    struct minirt *rt = lap->rt;
    uint64_t ns = now_ns() - lap->ns;
    int64_t bytes = heap() - lap->heap;

    rt->cost[lap->part].ns += ns;
    rt->cost[lap->part].heap_bytes += bytes;
    rt->part = lap->outer;
    if (lap->outer != MINIRT_N_PARTS) {
        rt->cost[lap->outer].ns -= ns;
        rt->cost[lap->outer].heap_bytes -= bytes;
    }
}

void minirt_costs(const struct minirt *rt, struct minirt_cost *costs)
{
    memcpy(costs, rt->cost, sizeof(rt->cost));
}
