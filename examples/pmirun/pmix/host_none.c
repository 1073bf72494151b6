/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMIx host where libpmix's headers were missing at build time: there is none. */
#include "../local/host.h"

#include "../local/util.h"

bool host_available(const char **why)
{
    *why = "pmirun was built without PMIx: install libpmix-dev (4.2 or later), and build it again";
    return false;
}

int host_job(struct pmirun *pr, struct job *job, char **why)
{
    const char *text;

    host_available(&text);
    *why = xprintf("%s", text);
    return STATUS_RESOURCES;
}

void host_job_over(struct pmirun *pr, struct job *job)
{
}

void host_rank_gone(struct pmirun *pr, struct rank *r, const siginfo_t *si)
{
}

void host_tick(struct pmirun *pr)
{
}

void host_stop(struct pmirun *pr)
{
}

void host_spawned(struct pmirun *pr, uint64_t token, int rc, const char *nspace)
{
}

void host_modex(struct pmirun *pr, const char *nspace, uint32_t rank, host_done_fn done, void *ctx)
{
    done(ctx, -47, NULL, 0); /* PMIX_ERR_NOT_SUPPORTED */
}

bool host_space(struct pmirun *pr, const struct space *s)
{
    return false;
}

void host_space_over(struct pmirun *pr, const char *nspace)
{
}

void host_event(struct pmirun *pr, int code, const char *nspace, uint32_t rank, int status)
{
}
