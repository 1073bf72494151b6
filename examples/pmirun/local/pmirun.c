/* SPDX-License-Identifier: BSD-3-Clause */
#include "pmirun.h"

#include "host.h"

/* What each part needs of the others: INSIDE.md draws it. */
void pmirun_init(struct pmirun *pr)
{
    pr->jobs.pmi = &pr->pmi;
    pr->jobs.guard = &pr->guard;
    pr->jobs.folders = &pr->folders;
    pr->jobs.timeline = &pr->timeline;
    pr->jobs.progress = &pr->progress;
    pr->pmi.jobs = pr->output.jobs = pr->signals.jobs = &pr->jobs;
    pr->pmi.port = &pr->port;
    pr->port.pmi = &pr->pmi;
    pr->signals.output = pr->progress.output = &pr->output;
    pr->topology.folders = &pr->folders;
    pr->jobs.topology = &pr->topology;
    pr->jobs.opt = pr->input.opt = pr->topology.opt = &pr->opt;
    pr->folders.key = pr->guard.key;
    pr->port.listener.fd = pr->input.src.fd = pr->port.diag_fd = -1;
    host_init(&pr->jobs);
    messages.write = output_text;
    messages.flush = output_flush_stderr;
    messages.to = &pr->output;
}
