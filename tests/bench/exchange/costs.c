/* SPDX-License-Identifier: BSD-3-Clause */
#include "costs.h"

/* clang-format off */
#define GIVEN(name, unit, hosts, own, source) \
    {#name, unit, offsetof(struct costs, name), COST_GIVEN, hosts, own, source, 0, 0}
#define MEASURED(name, unit, value) \
    {#name, unit, offsetof(struct costs, name), COST_MEASURED, value, value, \
     "measured by wire_costs", 0, 0}
#define FITTED(name, value, from, to) \
    {#name, "ns", offsetof(struct costs, name), COST_FITTED, value, value, \
     "fitted to processor times at 4 nodes", from, to}
#define IDLE(name, value, from, to) \
    {#name, "ns", offsetof(struct costs, name), COST_IDLE, value, value, \
     "fitted to times at 4 nodes", from, to}

/*
 * fit_exchange prints its results and those of wire_costs as lines for this table. The hosts' L and
 * G are 0: a frame's way from namespace to namespace is its sender's processor time, which `packet`
 * and `copy_byte` have.
 */
const struct cost cost_table[N_COSTS] = {
    GIVEN(skew, "ns", 0, 50000, "hosts: all wait for one moment; own: a guess"),
    FITTED(arrive, 27538, 100, 1e6),
    FITTED(cold, 20367, 100, 1e6),
    FITTED(rank, 12430, 100, 1e6),
    FITTED(turn, 13577, 100, 1e6),
    FITTED(request, 10727, 100, 1e6),
    FITTED(packet, 15845, 100, 1e6),
    MEASURED(frame, "ns", 775),
    MEASURED(copy_byte, "ns/byte", 0.09),
    MEASURED(crypt_byte, "ns/byte", 0.65),
    FITTED(pair, 247, 10, 1e5),
    MEASURED(connect, "ns", 21118),
    MEASURED(shake, "ns", 61353),
    IDLE(wake, 49081, 100, 2e5),
    IDLE(switch_to, 3893, 10, 2e4),
    GIVEN(L, "ns", 0, 20000, "hosts: see above; own: a guess, TCP on a fast network"),
    GIVEN(G, "ns/byte", 0, 0.8, "as L"),
};
/* clang-format on */

double *cost_of(struct costs *c, const struct cost *which)
{
    return (double *)(void *)((char *)c + which->offset);
}

void costs_hosts(struct costs *c)
{
    for (size_t i = 0; i < N_COSTS; i++)
        *cost_of(c, &cost_table[i]) = cost_table[i].hosts;
}

void costs_own(struct costs *c)
{
    for (size_t i = 0; i < N_COSTS; i++)
        *cost_of(c, &cost_table[i]) = cost_table[i].own;
}
