/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that are gone: finalized, ended, without a connection, cut off. The exchange ends fences,
 * rings, Allgathers and Gets that need them. This file ends group barriers and waits for node
 * attributes, which concern one node, and has the error texts for all.
 */
#include <stdio.h>

#include "server_internal.h"

uint32_t pmiwire__rank_why(const struct pmiwire__job *j, int32_t rank)
{
    const uint32_t i = pmiwire__local_index(j, rank);

    return i == PMIWIRE__NOT_HERE ? 0 : j->gone[i];
}

bool pmiwire__others_left(const struct pmiwire__job *j, int32_t rank)
{
    return j->n_gone - (pmiwire__rank_why(j, rank) != 0) < j->n_local - 1;
}

int32_t pmiwire__gone_other(const struct pmiwire__job *j, int32_t rank, uint32_t *why)
{
    for (uint32_t i = 0; i < j->n_local && j->n_gone; i++) {
        const int32_t r = (int32_t)(j->locals ? j->locals[i] : i);

        if (j->gone[i] && r != rank) {
            *why = j->gone[i];
            return r;
        }
    }
    return PMIWIRE_RANK_NONE;
}

const char *pmiwire__gone_text(char text[PMIWIRE__GONE_TEXT], int32_t rank, uint32_t why,
                               const char *what)
{
    static const char *const whys[] = {
        [0] = "is gone",
        [PMIWIRE_GONE_FINALIZED] = "has finalized",
        [PMIWIRE_GONE_ENDED] = "has ended",
        [PMIWIRE_GONE_CLOSED] = "has closed its connection",
        [PMIWIRE_GONE_CUT_OFF] = "was cut off",
        [PMIWIRE_GONE_ABSENT] = "has ended without init",
    };

    snprintf(text, PMIWIRE__GONE_TEXT, "rank %d %s: %s", (int)rank,
             whys[why < sizeof(whys) / sizeof(whys[0]) ? why : 0], what);
    return text;
}

void pmiwire__rank_gone(struct pmiwire__job *j, int32_t rank, uint32_t why,
                        const struct pmiwire__group *entered)
{
    const uint32_t i = pmiwire__local_index(j, rank);

    if (j->s->ending || i == PMIWIRE__NOT_HERE || j->gone[i])
        return;
    j->gone[i] = (uint8_t)why;
    j->n_gone++;
    (void)pmiwire_exchange_gone(j->x, rank, why);
    pmiwire__groups_gone(j, rank, why, entered);
    pmiwire__nodeattr_gone(j, rank, why);
}

void pmiwire__stuck(struct pmiwire_conn *c, uint32_t coll, int32_t rank, uint32_t why,
                    const char *text)
{
    struct pmiwire__job *j = c->job;
    struct pmiwire_server *s = c->s;
    const struct pmiwire_conn *gone;
    struct pmiwire_peer who;

    if (j->stuck >> coll & 1)
        return;
    j->stuck |= 1u << coll;
    if (!s->ops.stuck) {
        pmiwire__diag(c, PMIWIRE_EGONE, text);
        return;
    }
    gone = pmiwire__conn_of(j, rank);
    pmiwire__job_peer(j, &who);
    who.rank = rank;
    who.cookie = gone ? gone->cookie : NULL;
    who.conn = (struct pmiwire_conn *)(uintptr_t)gone;
    s->ops.stuck(s->opts.ctx, &who, coll, why);
}

bool pmiwire__refuse_gone(struct pmiwire_conn *c, uint16_t cmd)
{
    const uint32_t why = pmiwire__rank_why(c->job, c->rank);
    char text[PMIWIRE__GONE_TEXT];

    if (why)
        pmiwire__refuse(
            c, cmd, PMIWIRE_EGONE,
            pmiwire__gone_text(text, c->rank, why, "it takes part in no further operation"));
    return why != 0;
}
