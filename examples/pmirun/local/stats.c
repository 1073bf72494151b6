/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters and times of the job, as a line of JSON or as a table. */
#define _GNU_SOURCE
#include "stats.h"

#include <stdarg.h>
#include <stdio.h>

#include "job.h"
#include "loop.h"
#include "mpi_detect.h"

static double ns_to_ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static void print_json(const struct jobs *jobs, const struct pmiwire_stats_server *s)
{
    const struct job *first = jobs->first;
    char line[2048];
    int n;

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
        jobs->n_jobs, (unsigned long long)jobs->n_ranks, jobs->status,
        ns_to_ms(jobs->at.launch_begin), ns_to_ms(jobs->at.launch_end),
        ns_to_ms(jobs->at.launch_busy), ns_to_ms(jobs->at.first_init), ns_to_ms(jobs->at.last_init),
        ns_to_ms(jobs->at.first_finalize), ns_to_ms(jobs->at.last_finalize),
        ns_to_ms(jobs->at.last_exit), ns_to_ms(run_ns()), (unsigned long long)s->n_messages,
        (unsigned long long)s->n_bad, (unsigned long long)s->n_puts, (unsigned long long)s->n_gets,
        (unsigned long long)s->n_misses, (unsigned long long)s->n_fences,
        (unsigned long long)s->bytes_in, (unsigned long long)s->bytes_out,
        (unsigned long long)s->kvs_bytes, (unsigned long long)s->n_failed, mpi_detect_name(first),
        first->mpi_reason ? first->mpi_reason : "");
    print_text(line, (size_t)n);
}

/* ---- a table ---- */

__attribute__((format(printf, 1, 2))) static void put_line(const char *format, ...)
{
    char line[512];
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    if (n > 0)
        print_text(line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

/* When something happened first and last; 0: it has not. */
static void put_times(const char *what, uint64_t first, uint64_t last)
{
    char begin[32] = "-", end[32] = "-";

    if (first)
        snprintf(begin, sizeof(begin), "%.3f", ns_to_ms(first));
    if (last)
        snprintf(end, sizeof(end), "%.3f", ns_to_ms(last));
    put_line("  %-12s %12s %12s\n", what, begin, end);
}

static void put_count(const char *what, uint64_t n, const char *of, uint64_t k)
{
    put_line("  %-18s %14llu", what, (unsigned long long)n);
    if (of)
        put_line("   %s %llu", of, (unsigned long long)k);
    put_line("\n");
}

static void print_stats_table(const struct jobs *jobs, const struct pmiwire_stats_server *s)
{
    const struct job *first = jobs->first;

    put_line("pmirun: status %d, %llu processes, %u job%s; --mpi %s (%s)\n", jobs->status,
             (unsigned long long)jobs->n_ranks, jobs->n_jobs, jobs->n_jobs == 1 ? "" : "s",
             mpi_detect_name(first),
             first->mpi_reason ? first->mpi_reason : "no process was started");
    put_line("  %-12s %12s %12s\n", "ms", "first", "last");
    put_times("launch", jobs->at.launch_begin, jobs->at.launch_end);
    put_times("init", jobs->at.first_init, jobs->at.last_init);
    put_times("finalize", jobs->at.first_finalize, jobs->at.last_finalize);
    put_times("exit", 0, jobs->at.last_exit);
    put_times("end", 0, run_ns());
    put_count("PMI messages", s->n_messages, "bad", s->n_bad);
    put_count("puts", s->n_puts, NULL, 0);
    put_count("gets", s->n_gets, "not found", s->n_misses);
    put_count("fences", s->n_fences, NULL, 0);
    put_count("bytes received", s->bytes_in, "sent", s->bytes_out);
    put_count("bytes of pairs", s->kvs_bytes, NULL, 0);
    put_count("failed connections", s->n_failed, NULL, 0);
}

void stats_print(const struct jobs *jobs, const struct pmiwire_stats_server *s)
{
    if (jobs->opt->stats == STATS_TABLE)
        print_stats_table(jobs, s);
    else
        print_json(jobs, s);
}
