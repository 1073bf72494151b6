/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters and times of the job, as a line of JSON or as a table. */
#define _GNU_SOURCE
#include "stats.h"

#include <stdarg.h>
#include <stdio.h>

#include "pmirun.h"
#include "mpi_detect.h"

static double ns_to_ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static void print_json(struct pmirun *pr, const struct pmiwire_stats_server *s)
{
    const struct job *first = pr->jobs;
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
        pr->n_jobs, (unsigned long long)pr->n_ranks, pr->status, ns_to_ms(pr->at.launch_begin),
        ns_to_ms(pr->at.launch_end), ns_to_ms(pr->at.launch_busy), ns_to_ms(pr->at.first_init),
        ns_to_ms(pr->at.last_init), ns_to_ms(pr->at.first_finalize), ns_to_ms(pr->at.last_finalize),
        ns_to_ms(pr->at.last_exit), ns_to_ms(clock_ns() - pr->start_ns),
        (unsigned long long)s->n_messages, (unsigned long long)s->n_bad,
        (unsigned long long)s->n_puts, (unsigned long long)s->n_gets,
        (unsigned long long)s->n_misses, (unsigned long long)s->n_fences,
        (unsigned long long)s->bytes_in, (unsigned long long)s->bytes_out,
        (unsigned long long)s->kvs_bytes, (unsigned long long)s->n_failed, way_name(first),
        first->way_why ? first->way_why : "");
    output_text(pr, line, (size_t)n);
}

/* ---- a table ---- */

static void put_line(struct pmirun *pr, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put_line(struct pmirun *pr, const char *format, ...)
{
    char line[512];
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    if (n > 0)
        output_text(pr, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

/* When something happened first and last; 0: it has not. */
static void put_times(struct pmirun *pr, const char *what, uint64_t first, uint64_t last)
{
    char begin[32] = "-", end[32] = "-";

    if (first)
        snprintf(begin, sizeof(begin), "%.3f", ns_to_ms(first));
    if (last)
        snprintf(end, sizeof(end), "%.3f", ns_to_ms(last));
    put_line(pr, "  %-12s %12s %12s\n", what, begin, end);
}

static void put_count(struct pmirun *pr, const char *what, uint64_t n, const char *of, uint64_t k)
{
    put_line(pr, "  %-18s %14llu", what, (unsigned long long)n);
    if (of)
        put_line(pr, "   %s %llu", of, (unsigned long long)k);
    put_line(pr, "\n");
}

static void print_stats_table(struct pmirun *pr, const struct pmiwire_stats_server *s)
{
    const struct job *first = pr->jobs;

    put_line(pr, "pmirun: status %d, %llu processes, %u job%s; --mpi %s (%s)\n", pr->status,
             (unsigned long long)pr->n_ranks, pr->n_jobs, pr->n_jobs == 1 ? "" : "s",
             way_name(first), first->way_why ? first->way_why : "no process was started");
    put_line(pr, "  %-12s %12s %12s\n", "ms", "first", "last");
    put_times(pr, "launch", pr->at.launch_begin, pr->at.launch_end);
    put_times(pr, "init", pr->at.first_init, pr->at.last_init);
    put_times(pr, "finalize", pr->at.first_finalize, pr->at.last_finalize);
    put_times(pr, "exit", 0, pr->at.last_exit);
    put_times(pr, "end", 0, clock_ns() - pr->start_ns);
    put_count(pr, "PMI messages", s->n_messages, "bad", s->n_bad);
    put_count(pr, "puts", s->n_puts, NULL, 0);
    put_count(pr, "gets", s->n_gets, "not found", s->n_misses);
    put_count(pr, "fences", s->n_fences, NULL, 0);
    put_count(pr, "bytes received", s->bytes_in, "sent", s->bytes_out);
    put_count(pr, "bytes of pairs", s->kvs_bytes, NULL, 0);
    put_count(pr, "failed connections", s->n_failed, NULL, 0);
}

void stats_print(struct pmirun *pr)
{
    struct pmiwire_stats_server s;

    if (pr->head)
        head_stats(pr, &s);
    else
        pmiwire_server_stats(pr->server, &s);
    if (pr->opt.stats == STATS_TABLE)
        print_stats_table(pr, &s);
    else
        print_json(pr, &s);
    output_flush(pr);
}
