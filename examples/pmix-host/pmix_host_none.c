/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMIx host where libpmix's headers were missing at build time: there is none. */
#include "pmix_host.h"

#include <errno.h>

bool pmix_host_available(const char **why)
{
    *why = "pmirun was built without PMIx: install libpmix-dev (4.2 or later), and build it again";
    return false;
}

int pmix_host_create(const struct pmix_host_opts *opts, struct pmix_host **host)
{
    return -ENOTSUP;
}

/* No host exists, so nothing else is called. */

void pmix_host_destroy(struct pmix_host *host)
{
}

int pmix_host_job_begin(struct pmix_host *host, const struct pmix_host_job *job, char ***vars,
                        char **why)
{
    return -1;
}

void pmix_host_job_end(struct pmix_host *host, uint32_t job)
{
}

void pmix_host_rank_ended(struct pmix_host *host, uint32_t job, uint32_t rank,
                          enum pmix_host_end end, int status)
{
}

int pmix_host_fd(const struct pmix_host *host)
{
    return -1;
}

void pmix_host_progress(struct pmix_host *host)
{
}

void pmix_host_tick(struct pmix_host *host, uint64_t now_ns)
{
}

bool pmix_host_frame(struct pmix_host *host, uint32_t node, const void *frame, size_t bytes)
{
    return false;
}

void pmix_host_link_ready(struct pmix_host *host, uint32_t node)
{
}

void pmix_host_answer(struct pmix_host *host, uint64_t token, int rc, struct pmiwire_str text)
{
}
