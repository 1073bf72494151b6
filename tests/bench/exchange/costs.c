/* SPDX-License-Identifier: BSD-3-Clause */
#include "costs.h"

#define FIT      "fit-hosts: fitted at 4 nodes"
#define MEASURED "wire_costs: measured"
#define GUESS    "hosts: in packet and copy_byte; own: a guess, TCP on a fast network"

#define COST(name, unit, hosts, own, source)                                                       \
    {                                                                                              \
#name, unit, offsetof(struct costs, name), hosts, own, 0, 0, false, source                 \
    }
#define FITTED(name, value, from, to, is_idle)                                                     \
    {                                                                                              \
#name, "ns", offsetof(struct costs, name), value, value, from, to, is_idle, FIT            \
    }

/* The hosts' L and G are 0: what a frame takes from namespace to namespace is the sender's
 * processor time, and is in `packet` and `copy_byte`. */
const struct cost cost_table[N_COSTS] = {
    COST(skew, "ns", 0, 50000, "hosts: all wait for one moment; own: a guess"),
    FITTED(arrive, 24000, 100, 1e6, false),
    FITTED(cold, 20300, 100, 1e6, false),
    FITTED(rank, 11300, 100, 1e6, false),
    FITTED(turn, 12500, 100, 1e6, false),
    FITTED(request, 11800, 100, 1e6, false),
    FITTED(packet, 11300, 100, 1e6, false),
    COST(frame, "ns", 775, 775, MEASURED),
    COST(copy_byte, "ns/byte", 0.08, 0.08, MEASURED),
    COST(crypt_byte, "ns/byte", 0.66, 0.66, MEASURED),
    FITTED(pair, 170, 10, 1e5, false),
    COST(connect, "ns", 21600, 21600, MEASURED),
    COST(shake, "ns", 62300, 62300, MEASURED),
    FITTED(wake, 6400, 100, 2e5, true),
    FITTED(switch_to, 566, 10, 2e4, true),
    COST(L, "ns", 0, 20000, GUESS),
    COST(G, "ns/byte", 0, 0.8, GUESS),
};

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
