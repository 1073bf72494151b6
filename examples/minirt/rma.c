/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations by (team, rank, address): librankmap maps the rank to its entry of the address vector,
 * which shows whether the process is known yet; its place there is libasymreg's number of the peer.
 * libasymreg does the rest.
 */
#include "internal.h"

int minirt__reach(struct minirt_team *team, uint32_t rank, uint32_t *id)
{
    const uint64_t *entry;

    if (rank >= team->n)
        return minirt__fail(team->rt, MINIRT_EINVAL, NULL, "rank %u in a team of %u", rank,
                            team->n);
    entry = rankmap_addr(&team->lookup, rank);
    *id = (uint32_t)(entry - team->rt->entries);
    return *entry != 0 ? 0 : minirt__connect(team->rt, *id);
}

/* libasymreg explains a failure in a sentence when it is asked afterwards. */
static int fail_operation(struct minirt_team *team, int rc, const char *what, uint32_t need,
                          size_t bytes, uint32_t rank, uint32_t id, uint64_t addr)
{
    struct asymreg_error err;
    const char *reason = asymreg_strerror(rc);

    if (asymreg_resolve(team->rt->worker, id, addr, ASYMREG_ANY, bytes, need, NULL, &err) == rc)
        reason = err.text;
    return minirt__fail(team->rt, minirt__remote_code(rc), reason,
                        "%s of %zu bytes, rank %u (process %u), address %#llx", what, bytes, rank,
                        id, (unsigned long long)addr);
}

int minirt_put(struct minirt_team *team, uint32_t rank, uint64_t addr, const void *src,
               size_t bytes)
{
    uint32_t id;
    int rc = minirt__reach(team, rank, &id);

    if (rc < 0)
        return rc;
    rc = asymreg_put(team->rt->worker, id, addr, ASYMREG_ANY, src, bytes);
    return rc == 0 ? 0 : fail_operation(team, rc, "put", ASYMREG_WRITE, bytes, rank, id, addr);
}

int minirt_get(struct minirt_team *team, uint32_t rank, uint64_t addr, void *dst, size_t bytes)
{
    uint32_t id;
    int rc = minirt__reach(team, rank, &id);

    if (rc < 0)
        return rc;
    rc = asymreg_get(team->rt->worker, id, addr, ASYMREG_ANY, dst, bytes);
    return rc == 0 ? 0 : fail_operation(team, rc, "get", ASYMREG_READ, bytes, rank, id, addr);
}

int minirt_flush(struct minirt_team *team, uint32_t rank)
{
    uint32_t id;
    int rc = minirt__reach(team, rank, &id);

    if (rc < 0)
        return rc;
    rc = asymreg_flush(team->rt->worker, id);
    return rc == 0 ? 0
                   : minirt__fail(team->rt, minirt__remote_code(rc), asymreg_strerror(rc),
                                  "flush of rank %u (process %u)", rank, id);
}

/* The result of an atomic. */
static int end_atomic(struct minirt_team *team, int rc, uint32_t rank, uint32_t id, uint64_t addr)
{
    return rc == 0 ? 0 : fail_operation(team, rc, "atomic", ASYMREG_ATOMIC, 8, rank, id, addr);
}

int minirt_add(struct minirt_team *team, uint32_t rank, uint64_t addr, uint64_t operand,
               uint64_t *before)
{
    struct asymreg_worker *worker = team->rt->worker;
    uint32_t id;
    int rc = minirt__reach(team, rank, &id);

    if (rc < 0)
        return rc;
    rc = before ? asymreg_fetch_add64(worker, id, addr, operand, before)
                : asymreg_add64(worker, id, addr, operand);
    return end_atomic(team, rc, rank, id, addr);
}

int minirt_swap(struct minirt_team *team, uint32_t rank, uint64_t addr, uint64_t operand,
                uint64_t *before)
{
    uint32_t id;
    int rc = minirt__reach(team, rank, &id);

    if (rc < 0)
        return rc;
    rc = asymreg_swap64(team->rt->worker, id, addr, operand, before);
    return end_atomic(team, rc, rank, id, addr);
}

int minirt_compare_swap(struct minirt_team *team, uint32_t rank, uint64_t addr, uint64_t compare,
                        uint64_t operand, uint64_t *before)
{
    uint32_t id;
    int rc = minirt__reach(team, rank, &id);

    if (rc < 0)
        return rc;
    rc = asymreg_compare_swap64(team->rt->worker, id, addr, compare, operand, before);
    return end_atomic(team, rc, rank, id, addr);
}
