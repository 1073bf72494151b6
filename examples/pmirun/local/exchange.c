/* SPDX-License-Identifier: BSD-3-Clause */
#include "exchange.h"

#include "host.h"
#include "job.h"
#include "pmi.h"
#include "role.h"

int exchange_on_send(void *ctx, const struct pmiwire_peer *peer, uint32_t node,
                     const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    const struct job *job = peer->job_cookie;

    return agent_send_frame(job->jobs->agent, false, node, job->number, iov, n_iov);
}

void exchange_on_failed(void *ctx, const struct pmiwire_peer *peer, int rc, uint32_t node)
{
    struct jobs *jobs = ((struct pmi *)ctx)->jobs;

    if (rc == PMIWIRE_ELOST && jobs->agent && node != agent_node(jobs->agent)) {
        agent_report_lost(jobs->agent, node, "it is gone");
        return;
    }
    say("the key-value exchange has failed: %s; stopping the job", any_strerror(rc));
    job_stop(jobs, STATUS_RESOURCES);
}

bool exchange_frame(const struct job *job, uint32_t from, const void *p, size_t n)
{
    const int rc = pmiwire_server_frame(job->server, job->id, from, p, n);

    return rc != PMIWIRE_EPROTO && rc != PMIWIRE_EVERSION; /* failed() has reported another error */
}

void exchange_room(struct jobs *jobs, uint32_t node)
{
    for (const struct job *job = jobs->first; job; job = job->next)
        pmiwire_server_link_ready(job->server, job->id, node);
    host_room(node);
}

void exchange_lost(struct jobs *jobs, uint32_t node)
{
    for (const struct job *job = jobs->first; job; job = job->next)
        pmiwire_server_node_lost(job->server, job->id, node);
}
