/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "agent.h"
#include "net.h"
#include "nodes.h"
#include "pmirun.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

void print_stats(struct pmirun *pr)
{
    struct pmiwire_stats_server s;
    char line[1536];
    int n;

    if (pr->head)
        nodes_stats(pr, &s);
    else
        pmiwire_server_stats(pr->server, &s);
    n = snprintf(
        line, sizeof(line),
        "{\"program\":\"pmirun\",\"jobs\":%u,\"processes\":%llu,\"status\":%d,"
        "\"launch_begin_ms\":%.3f,\"launch_end_ms\":%.3f,\"launch_busy_ms\":%.3f,\"first_init_ms\":"
        "%.3f,"
        "\"last_init_ms\":%.3f,\"first_finalize_ms\":%.3f,\"last_finalize_ms\":%.3f,\"last_exit_"
        "ms\":%.3f,"
        "\"total_ms\":%.3f,\"messages\":%llu,\"bad\":%llu,\"puts\":%llu,\"gets\":%llu,\"misses\":%"
        "llu,\"fences\":%llu,"
        "\"bytes_in\":%llu,\"bytes_out\":%llu,\"kvs_bytes\":%llu,\"failed_connections\":%llu}\n",
        pr->n_jobs, (unsigned long long)pr->n_ranks, pr->status, ms(pr->at.launch_begin),
        ms(pr->at.launch_end), ms(pr->at.launch_busy), ms(pr->at.first_init), ms(pr->at.last_init),
        ms(pr->at.first_finalize), ms(pr->at.last_finalize), ms(pr->at.last_exit),
        ms(clock_ns() - pr->start_ns), (unsigned long long)s.n_messages,
        (unsigned long long)s.n_bad, (unsigned long long)s.n_puts, (unsigned long long)s.n_gets,
        (unsigned long long)s.n_misses, (unsigned long long)s.n_fences,
        (unsigned long long)s.bytes_in, (unsigned long long)s.bytes_out,
        (unsigned long long)s.kvs_bytes, (unsigned long long)s.n_failed);
    output_text(pr, line, (size_t)n);
    output_flush(pr);
}

/* Children of whoever exec'ed us are not ours to end. */
static void note_inherited(struct pmirun *pr)
{
    char path[64];
    FILE *f;
    int pid;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    f = fopen(path, "re");
    while (f && fscanf(f, "%d", &pid) == 1) {
        pr->inherited = xrealloc(pr->inherited, (pr->n_inherited + 1) * sizeof(pid_t));
        pr->inherited[pr->n_inherited++] = pid;
    }
    if (f)
        fclose(f);
}

static void find_programs(struct pmirun *pr)
{
    for (uint32_t i = 0; i < pr->opt.n_apps; i++) {
        struct app *app = &pr->opt.apps[i];
        int err = launch_resolve(app);

        if (err == NO_WDIR)
            die(STATUS_NOEXEC, "%s: no such working directory", app->wdir);
        if (err)
            die(err == ENOENT ? STATUS_NOTFOUND : STATUS_NOEXEC, "cannot start %s: %s",
                app->argv[0], strerror(err));
    }
}

/* What every pmirun needs: the loop, output, signals. */
static void set_up_loop(struct pmirun *pr)
{
    int err;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pr->scratch = xrealloc(NULL, SCRATCH_BYTES);
    pr->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (pr->epoll < 0)
        die(STATUS_RESOURCES, "epoll_create1: %s", strerror(errno));
    output_init(pr);
    err = signals_init(pr);
    if (err)
        die(STATUS_RESOURCES, "signalfd: %s", strerror(-err));
}

static void set_up_launcher(struct pmirun *pr)
{
    int err = launch_init(pr); /* first of all: it takes the low descriptors */

    if (err)
        die(STATUS_RESOURCES, "cannot start: %s", strerror(-err));
}

static struct job *create_job(struct pmirun *pr, uint32_t *node_of)
{
    struct job_plan plan = {.apps = pr->opt.apps, .n_apps = pr->opt.n_apps, .node_of = node_of};
    int err;
    struct job *job = job_create(pr, &plan, &err);

    if (!job)
        die(STATUS_RESOURCES, "cannot start the job: %s", pmiwire_strerror(err));
    return job;
}

/* One node: this one. */
static void set_up_alone(struct pmirun *pr)
{
    uint64_t need, have;
    int err;

    find_programs(pr);
    note_inherited(pr);
    set_up_launcher(pr);
    if (launch_check_limits(pr, pr->opt.n_procs, &need, &have) != 0)
        die(STATUS_RESOURCES,
            "%u processes need %llu descriptors, the limit is %llu: raise it (ulimit -n)",
            pr->opt.n_procs, (unsigned long long)need, (unsigned long long)have);
    set_up_loop(pr);
    err = pmi_init(pr);
    if (err)
        die(STATUS_RESOURCES, "cannot start the PMI server: %s", pmiwire_strerror(err));
    if (pr->opt.use_port) {
        err = port_init(pr);
        if (err)
            die(STATUS_RESOURCES, "cannot listen on 127.0.0.1: %s", strerror(-err));
    }
    job_queue(pr, create_job(pr, NULL));
}

/* 0, 1 and 2 must be something, or what we open would become our own stdout. */
static void open_standard(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

static void set_up_head(struct pmirun *pr)
{
    static struct head head;
    static struct net net;
    uint32_t *node_of;

    pr->head = &head;
    pr->net = &net;
    if (names_init(pr) != 0)
        die(STATUS_RESOURCES, "out of memory");
    open_standard();
    note_inherited(pr);
    set_up_loop(pr);
    node_of = xrealloc(NULL, pr->opt.n_procs * sizeof(*node_of));
    nodes_place(pr, pr->opt.n_procs, NULL, node_of);
    create_job(pr, node_of);
    nodes_start(pr);
}

static void set_up_agent(struct pmirun *pr)
{
    static struct agent agent;
    static struct net net;

    pr->agent = &agent;
    pr->net = &net;
    net_init(pr, &agent_net_ops);
    if (names_init(pr) != 0)
        die(STATUS_RESOURCES, "out of memory");
    note_inherited(pr);
    set_up_launcher(pr);
    set_up_loop(pr);
    agent_start(pr);
}

static struct pmirun run; /* large; every function is handed a pointer to it */

/* However we end, by die() too: what has a name would outlive us. */
static void release_memory(void)
{
    for (struct job *job = run.jobs; job; job = job->next) {
        exchange_destroy(job);
        table_destroy(job); /* takes its name back */
        gather_destroy(job);
        wait_destroy(job);
    }
}

int main(int argc, char **argv)
{
    struct pmirun *pr = &run;
    int err;

    atexit(release_memory);
    pr->start_ns = pr->now_ns = clock_ns();
    pr->jobs_tail = &pr->jobs;
    pr->launch_tail = &pr->launch;
    pr->listener.fd = pr->input.fd = pr->input_pipe.fd = pr->diag_fd = -1;
    if (argc == 2 && strcmp(argv[1], "--agent") == 0) {
        set_up_agent(pr);
    } else {
        options_parse(&pr->opt, argc, argv);
        if (pr->opt.launch == LAUNCH_HERE)
            set_up_alone(pr);
        else
            set_up_head(pr);
    }
    if (pr->opt.timeout_s > 0)
        pr->deadline_ns = pr->now_ns + (uint64_t)(pr->opt.timeout_s * 1e9);
    err = loop_run(pr);
    if (err)
        die(STATUS_RESOURCES, "epoll_wait: %s", strerror(-err));
    if (pr->opt.stats)
        print_stats(pr);
    if (pr->agent)
        ucx_stop(pr);
    pmiwire_server_destroy(pr->server);
    names_fini(pr);
    return pr->status;
}
