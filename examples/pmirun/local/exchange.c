/* SPDX-License-Identifier: BSD-3-Clause */
#include "exchange.h"

#include "host.h"
#include "pmirun.h"

int exchange_on_send(void *ctx, const struct pmiwire_peer *peer, uint32_t node,
                     const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    struct pmirun *pr = ctx;
    const struct job *job = peer->job_cookie;

    return agent_send_frame(pr, node, job->number, iov, n_iov);
}

void exchange_on_failed(void *ctx, const struct pmiwire_peer *peer, int rc, uint32_t node)
{
    struct pmirun *pr = ctx;

    if (rc == PMIWIRE_ELOST && pr->agent && node != agent_node(pr)) {
        agent_report_lost(pr, node, "it is gone");
        return;
    }
    say(pr, "the key-value exchange has failed: %s; stopping the job", any_strerror(rc));
    job_stop(pr, STATUS_RESOURCES);
}

bool exchange_frame(struct pmirun *pr, struct job *job, uint32_t from, const void *p, size_t n)
{
    const int rc = pmiwire_server_frame(pr->server, job->id, from, p, n);

    return rc != PMIWIRE_EPROTO && rc != PMIWIRE_EVERSION; /* failed() has reported another error */
}

void exchange_room(struct pmirun *pr, uint32_t node)
{
    for (const struct job *job = pr->jobs; job; job = job->next)
        pmiwire_server_link_ready(pr->server, job->id, node);
    host_room(pr, node);
}

void exchange_lost(struct pmirun *pr, uint32_t node)
{
    for (const struct job *job = pr->jobs; job; job = job->next)
        pmiwire_server_node_lost(pr->server, job->id, node);
}
