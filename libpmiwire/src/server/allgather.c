/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The values of the last Allgather, if ops->gather does not take them. The server keeps them until
 * the next Allgather is complete: by then every rank has used them.
 */
#include <errno.h>
#include <string.h>

#include "server_internal.h"

#define PREFIX "-allgather-"

void pmiwire__gathered_free(struct pmiwire__job *j)
{
    pmiwire__buf_free(&j->s->mem, &j->gathered.values);
    pmiwire__free(j->s, j->gathered.by_rank);
    j->gathered.by_rank = NULL;
    j->gathered.number = 0;
}

static int keep_values(struct pmiwire__job *j, const void *block, size_t bytes)
{
    struct pmiwire__gathered *g = &j->gathered;
    struct pmiwire_keyval kv;
    size_t pos = 0;
    uint32_t rank;
    int rc;

    if (!g->by_rank) {
        g->by_rank = pmiwire__alloc(j->s, j->n_ranks * sizeof(*g->by_rank));
        if (!g->by_rank)
            return -ENOMEM;
    }
    while ((rc = pmiwire_block_next(block, bytes, &pos, &kv)) == 1) {
        memcpy(&rank, kv.key.ptr, sizeof(rank));
        g->by_rank[rank].at = g->values.len;
        g->by_rank[rank].len = kv.value.len;
        if (pmiwire__buf_room(&j->s->mem, &g->values, kv.value.len + 1) != 0)
            return -ENOMEM;
        pmiwire__buf_add(&g->values, kv.value.ptr, kv.value.len);
        pmiwire__buf_add(&g->values, "", 1);
    }
    return rc;
}

int pmiwire__gathered(struct pmiwire__job *j, uint32_t number, const void *block, size_t bytes)
{
    const struct pmiwire_server *s = j->s;
    struct pmiwire_peer who;
    int rc;

    if (s->ops.gather) {
        pmiwire__job_peer(j, &who);
        rc = s->ops.gather(s->opts.ctx, &who, number - 1,
                           pmiwire_exchange_longest_value_bytes(j->x), block, bytes);
        if (rc <= 0)
            return rc;
    }
    if (number != j->gathered.number) { /* the first block of this Allgather */
        pmiwire__gathered_free(j);
        j->gathered.number = number;
    }
    rc = block ? keep_values(j, block, bytes) : 0;
    if (rc != 0)
        pmiwire__gathered_free(j);
    return rc;
}

/* Parses digits without leading zeros, up to `stop`. Returns -1 if they are no such number. */
static int64_t parse_key_number(struct pmiwire_str *s, char stop)
{
    int64_t v = 0;
    size_t i = 0;

    for (; i < s->len && i < 10 && s->ptr[i] >= '0' && s->ptr[i] <= '9'; i++)
        v = v * 10 + (s->ptr[i] - '0');
    if (i == 0 || (i > 1 && s->ptr[0] == '0') ||
        (stop ? i == s->len || s->ptr[i] != stop : i != s->len))
        return -1;
    s->ptr += i + (stop != 0);
    s->len -= i + (stop != 0);
    return v;
}

int pmiwire_gather_key(struct pmiwire_str key, uint32_t *number, uint32_t *rank)
{
    const size_t n = sizeof(PREFIX) - 1;
    int64_t k, r;

    if (key.len < n || memcmp(key.ptr, PREFIX, n) != 0)
        return PMIWIRE_ENOENT;
    key.ptr += n;
    key.len -= n;
    k = parse_key_number(&key, '-');
    r = k < 0 ? -1 : parse_key_number(&key, '\0');
    if (r < 0 || k > UINT32_MAX || r > UINT32_MAX)
        return PMIWIRE_ENOENT;
    *number = (uint32_t)k;
    *rank = (uint32_t)r;
    return 0;
}

bool pmiwire__gathered_find(const struct pmiwire__job *j, struct pmiwire_str key,
                            struct pmiwire_str *value)
{
    const struct pmiwire__gathered *g = &j->gathered;
    uint32_t number, rank;

    if (!g->by_rank || pmiwire_gather_key(key, &number, &rank) != 0 || rank >= j->n_ranks ||
        number + 1 != g->number)
        return false;
    *value = (struct pmiwire_str){g->values.ptr + g->by_rank[rank].at, g->by_rank[rank].len};
    return true;
}
