/* SPDX-License-Identifier: BSD-3-Clause */
/* The beginning and the end. */
#define _GNU_SOURCE
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "local/host.h"
#include "local/job_end.h"
#include "local/launch.h"
#include "local/mpir.h"
#include "local/pmirun.h"
#include "local/program.h"
#include "local/stats.h"
#include "local/table.h"
#include "local/mpi_detect.h"

static void find_all_programs(struct options *opt)
{
    for (uint32_t i = 0; i < opt->n_apps; i++) {
        char *why;
        int status = program_find(&opt->apps[i], &why);

        if (status)
            die(status, "%s", why);
    }
}

/* One node: this one. */
static void set_up_alone(struct pmirun *pr)
{
    struct job *job;
    int err, status;
    char *why;

    find_all_programs(&pr->opt);
    launch_init(&pr->jobs, &pr->output, &pr->input, &pr->signals);
    why = launch_check_limits(pr->jobs.launcher, pr->opt.n_procs, 0);
    if (why)
        die(STATUS_RESOURCES, "%s", why);
    loop_init(pr);
    err = pmi_init(&pr->pmi);
    if (err)
        die(STATUS_RESOURCES, "cannot start the PMI server: %s", pmiwire_strerror(err));
    if (pr->opt.use_port) {
        err = port_init(&pr->port);
        if (err)
            die(STATUS_RESOURCES, "cannot listen on 127.0.0.1: %s", strerror(-err));
    }
    job = job_create_first(&pr->jobs, NULL);
    err = pmi_add_job(&pr->pmi, job);
    if (err)
        die(STATUS_RESOURCES, "cannot start the job: %s", pmiwire_strerror(err));
    status = mpi_detect_choose(job, &why);
    if (status)
        die(status, "%s", why);
    job->queued = true;
}

/* A line for each node. */
static void print_exit_codes(const struct jobs *jobs)
{
    const struct job *job = jobs->first;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    if (!f)
        die(STATUS_RESOURCES, "out of memory");
    for (uint32_t node = 0; node < jobs->opt->n_nodes; node++) {
        const char *between = "";

        fprintf(f, "exit codes: [%s] ", node_name(jobs, node));
        for (uint32_t i = 0; i < job->n_local; i++) {
            const struct rank *r = &job->ranks[i];

            if (r->node != node)
                continue;
            fprintf(f, r->exit_code < 0 ? "%s-" : "%s%d", between, r->exit_code);
            between = ",";
        }
        fputc('\n', f);
    }
    if (fclose(f) != 0)
        die(STATUS_RESOURCES, "out of memory");
    print_text(text, len);
    free(text);
}

/* --timeout has passed. */
static void end_in_time(void *of)
{
    struct jobs *jobs = of;

    job_hasten(jobs);
    log_message("%llu of %llu processes still run after %g s; stopping the job",
                (unsigned long long)jobs->n_live, (unsigned long long)jobs->n_ranks,
                jobs->opt->timeout_s);
    job_stop(jobs, STATUS_TIMEOUT);
}

/* --step, first, is for examples/slurm alone: srun starts the ranks. */
static void parse_command_line(struct options *opt, int argc, char **argv)
{
    const bool step = argc > 1 && strcmp(argv[1], "--step") == 0;

    options_parse(opt, argc - step, argv + step);
    if (!step)
        return;
    if (opt->launch != LAUNCH_FORK || opt->given.n_hosts || opt->use_port || opt->n_apps != 1)
        die(STATUS_USAGE,
            "srun starts the ranks of a step: give options that start or place ranks to srun");
    opt->launch = LAUNCH_STEP;
    opt->stdin_rank = STDIN_NONE;
}

/* A report at the end: the counters of all nodes' servers. */
static void print_stats(const struct jobs *jobs)
{
    struct pmiwire_stats_server counters;

    if (jobs->head)
        head_stats(jobs->head, &counters);
    else
        pmiwire_server_stats(jobs->pmi->server, &counters);
    stats_print(jobs, &counters);
}

static struct pmirun run; /* large */

/* However we end, by die() too: what has a name would outlive us. */
static void release_memory(void)
{
    for (struct job *job = run.jobs.first; job; job = job->next)
        table_destroy(job); /* takes its name back */
    host_stop();
    progress_clear();
    (void)timeline_write(&run.timeline, &run.jobs, true);        /* a no-op unless we give up */
    if (run.jobs.n_live == 0 && folder_remove_all(&run.folders)) /* else it cleans up after us */
        guard_end(&run.guard);
}

int main(int argc, char **argv)
{
    struct pmirun *pr = &run;
    struct jobs *jobs = &pr->jobs;
    int err;

    atexit(release_memory);
#ifdef M_MMAP_THRESHOLD /* what a large Fence has taken goes back to the system when it is freed */
    mallopt(M_MMAP_THRESHOLD, 32 << 10);
#endif
    loop.start_ns = loop.now_ns = clock_ns();
    pmirun_init(pr);
    jobs->leftovers.inherited = children_of(getpid());
    if ((argc == 2 || argc == 4) && strcmp(argv[1], "--agent") == 0) {
        agent_set_up(pr, argv + 2);
    } else {
        parse_command_line(&pr->opt, argc, argv);
        mpir_init();
        messages.verbose = pr->opt.verbose;
        if (pr->opt.as_hydra)
            signal(SIGINT, SIG_DFL); /* a shell has it ignored by what it starts with & */
        if (pr->opt.timeline)
            timeline_open(&pr->timeline, pr->opt.timeline);
        if (pr->opt.progress)
            progress_init(&pr->progress);
        if (pr->opt.launch == LAUNCH_HERE)
            set_up_alone(pr);
        else
            head_set_up(pr);
    }
    if (pr->opt.timeout_s > 0)
        timer_call(&jobs->timeout, loop.now_ns + (uint64_t)(pr->opt.timeout_s * 1e9), end_in_time,
                   jobs);
    err = loop_run(pr);
    if (err)
        die(STATUS_RESOURCES, "epoll_wait: %s", strerror(-err));
    if (pr->opt.exit_codes)
        print_exit_codes(jobs);
    if (pr->opt.stats != STATS_NONE)
        print_stats(jobs);
    output_flush(&pr->output);
    if (output_pending(&pr->output)) /* a reader has not taken these yet */
        loop_run(pr);
    progress_clear();
    nodes_stop(jobs);
    pmiwire_server_destroy(pr->pmi.server);
    err = timeline_write(&pr->timeline, jobs, false);
    if (err)
        die(jobs->status ? jobs->status : STATUS_OUTPUT, "--timeline: cannot write %s: %s",
            pr->opt.timeline, strerror(err));
    /* Unless something stopped the step, Slurm has its ranks' status. */
    return pr->opt.launch == LAUNCH_STEP && !jobs->stopping ? 0 : jobs->status;
}
