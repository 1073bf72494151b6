/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters and times of the job, as a line of JSON or as a table. */
#define _GNU_SOURCE
#include "stats.h"

#include <stdio.h>
#include <stdlib.h>

#include "job.h"
#include "loop.h"
#include "mpi_detect.h"

static double ns_to_ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static void put_json(FILE *f, const struct jobs *jobs, const struct pmiwire_stats_server *s)
{
    const struct job *first = jobs->first;

    fprintf(
        f,
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
}

/* ---- a table ---- */

/* When something happened first and last; 0: it has not. */
static void put_times(FILE *f, const char *what, uint64_t first, uint64_t last)
{
    char begin[32] = "-", end[32] = "-";

    if (first)
        snprintf(begin, sizeof(begin), "%.3f", ns_to_ms(first));
    if (last)
        snprintf(end, sizeof(end), "%.3f", ns_to_ms(last));
    fprintf(f, "  %-12s %12s %12s\n", what, begin, end);
}

static void put_count(FILE *f, const char *what, uint64_t n, const char *of, uint64_t k)
{
    fprintf(f, "  %-18s %14llu", what, (unsigned long long)n);
    if (of)
        fprintf(f, "   %s %llu", of, (unsigned long long)k);
    fprintf(f, "\n");
}

static void put_table(FILE *f, const struct jobs *jobs, const struct pmiwire_stats_server *s)
{
    const struct job *first = jobs->first;

    fprintf(f, "pmirun: status %d, %llu processes, %u job%s; --mpi %s (%s)\n", jobs->status,
            (unsigned long long)jobs->n_ranks, jobs->n_jobs, jobs->n_jobs == 1 ? "" : "s",
            mpi_detect_name(first),
            first->mpi_reason ? first->mpi_reason : "no process was started");
    fprintf(f, "  %-12s %12s %12s\n", "ms", "first", "last");
    put_times(f, "launch", jobs->at.launch_begin, jobs->at.launch_end);
    put_times(f, "init", jobs->at.first_init, jobs->at.last_init);
    put_times(f, "finalize", jobs->at.first_finalize, jobs->at.last_finalize);
    put_times(f, "exit", 0, jobs->at.last_exit);
    put_times(f, "end", 0, run_ns());
    put_count(f, "PMI messages", s->n_messages, "bad", s->n_bad);
    put_count(f, "puts", s->n_puts, NULL, 0);
    put_count(f, "gets", s->n_gets, "not found", s->n_misses);
    put_count(f, "fences", s->n_fences, NULL, 0);
    put_count(f, "bytes received", s->bytes_in, "sent", s->bytes_out);
    put_count(f, "bytes of pairs", s->kvs_bytes, NULL, 0);
    put_count(f, "failed connections", s->n_failed, NULL, 0);
}

void stats_print(const struct jobs *jobs, const struct pmiwire_stats_server *s)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    if (!f)
        die(STATUS_RESOURCES, "out of memory");
    if (jobs->opt->stats == STATS_TABLE)
        put_table(f, jobs, s);
    else
        put_json(f, jobs, s);
    if (fclose(f) != 0)
        die(STATUS_RESOURCES, "out of memory");
    print_text(text, len);
    free(text);
}
