/* SPDX-License-Identifier: BSD-3-Clause */
/* The beginning and the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "local/gather.h"
#include "local/host.h"
#include "local/launch.h"
#include "local/pmirun.h"
#include "local/table.h"
#include "local/way.h"

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static void print_stats(struct pmirun *pr)
{
    struct pmiwire_stats_server s;
    const struct job *first = pr->jobs;
    char line[2048];
    int n;

    if (pr->head)
        pr->head->stats(pr, &s);
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
        "\"bytes_in\":%llu,\"bytes_out\":%llu,\"kvs_bytes\":%llu,\"failed_connections\":%llu,"
        "\"mpi\":\"%s\","
        "\"mpi_why\":\"%s\"}\n",
        pr->n_jobs, (unsigned long long)pr->n_ranks, pr->status, ms(pr->at.launch_begin),
        ms(pr->at.launch_end), ms(pr->at.launch_busy), ms(pr->at.first_init), ms(pr->at.last_init),
        ms(pr->at.first_finalize), ms(pr->at.last_finalize), ms(pr->at.last_exit),
        ms(clock_ns() - pr->start_ns), (unsigned long long)s.n_messages,
        (unsigned long long)s.n_bad, (unsigned long long)s.n_puts, (unsigned long long)s.n_gets,
        (unsigned long long)s.n_misses, (unsigned long long)s.n_fences,
        (unsigned long long)s.bytes_in, (unsigned long long)s.bytes_out,
        (unsigned long long)s.kvs_bytes, (unsigned long long)s.n_failed, way_name(first),
        first->way_why ? first->way_why : "");
    output_text(pr, line, (size_t)n);
    output_flush(pr);
}

static void find_programs(struct pmirun *pr)
{
    for (uint32_t i = 0; i < pr->opt.n_apps; i++) {
        char *why;
        int status = launch_find(&pr->opt.apps[i], &why);

        if (status)
            die(status, "%s", why);
    }
}

/* One node: this one. */
static void set_up_alone(struct pmirun *pr)
{
    uint64_t need, have;
    struct job *job;
    int err, status;
    char *why;

    find_programs(pr);
    job_note_inherited(pr);
    launch_init(pr);
    if (launch_check_limits(pr, pr->opt.n_procs, &need, &have) != 0)
        die(STATUS_RESOURCES,
            "%u processes need %llu descriptors, the limit is %llu: raise it (ulimit -n)",
            pr->opt.n_procs, (unsigned long long)need, (unsigned long long)have);
    loop_init(pr);
    err = pmi_init(pr);
    if (err)
        die(STATUS_RESOURCES, "cannot start the PMI server: %s", any_strerror(err));
    if (pr->opt.use_port) {
        err = port_init(pr);
        if (err)
            die(STATUS_RESOURCES, "cannot listen on 127.0.0.1: %s", strerror(-err));
    }
    job = job_create_first(pr, NULL);
    status = way_choose(pr, job, &why);
    if (status)
        die(status, "%s", why);
    job_queue(pr, job);
}

/* A line for each node. */
static void print_exit_codes(struct pmirun *pr)
{
    const struct job *job = pr->jobs;
    char host[256] = "", *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    if (!f)
        die(STATUS_RESOURCES, "out of memory");
    gethostname(host, sizeof(host) - 1);
    for (uint32_t node = 0; node < pr->opt.n_nodes; node++) {
        const char *between = "";

        fprintf(f, "exit codes: [%s] ", pr->head ? pr->head->name(pr, node) : host);
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
    output_text(pr, text, len);
    output_flush(pr);
    free(text);
}

static struct pmirun run; /* large; every function is handed a pointer to it */

/* However we end, by die() too: what has a name would outlive us. */
static void release_memory(void)
{
    for (struct job *job = run.jobs; job; job = job->next) {
        table_destroy(job); /* takes its name back */
        gather_destroy(job);
    }
    host_stop(&run);
    if (run.n_live == 0 && folder_remove_all(&run)) /* else it cleans up after us */
        guard_end(&run);
}

int main(int argc, char **argv)
{
    struct pmirun *pr = &run;
    int err;

    atexit(release_memory);
#ifdef M_MMAP_THRESHOLD /* what a large Fence has taken goes back to the system when it is freed */
    mallopt(M_MMAP_THRESHOLD, 32 << 10);
#endif
    pr->start_ns = pr->now_ns = clock_ns();
    pr->jobs_tail = &pr->jobs;
    pr->by_pid.key = job_pid_of;
    pr->launch_tail = &pr->launch;
    pr->port.listener.fd = pr->input.src.fd = pr->port.diag_fd = -1;
    if (argc == 2 && strcmp(argv[1], "--agent") == 0) {
        agent_set_up(pr);
    } else {
        options_parse(&pr->opt, argc, argv);
        if (pr->opt.as_hydra)
            signal(SIGINT, SIG_DFL); /* a shell has it ignored by what it starts with & */
        if (pr->opt.launch == LAUNCH_HERE)
            set_up_alone(pr);
        else
            head_set_up(pr);
    }
    if (pr->opt.timeout_s > 0)
        pr->deadline_ns = pr->now_ns + (uint64_t)(pr->opt.timeout_s * 1e9);
    err = loop_run(pr);
    if (err)
        die(STATUS_RESOURCES, "epoll_wait: %s", strerror(-err));
    if (pr->opt.exit_codes)
        print_exit_codes(pr);
    if (pr->opt.stats)
        print_stats(pr);
    if (pr->node)
        pr->node->stop(pr);
    pmiwire_server_destroy(pr->server);
    return pr->status;
}
