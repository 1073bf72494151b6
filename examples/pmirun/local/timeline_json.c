/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A timeline as Chrome's trace events: a process a node, a thread a rank; times in µs. From events
 * come spans: the phases of a rank's life, and inside them its collectives.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include <pmiwire/server.h>

#include "job.h"
#include "timeline.h"

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Its place among the rows of its node. */
static uint64_t row_key(const struct timeline_event *e)
{
    return e->rank == TIMELINE_NODE ? 0 : ((uint64_t)e->job << 32 | e->rank) + 1;
}

static int compare_events(const void *pa, const void *pb)
{
    const struct timeline_event *a = pa, *b = pb;
    int c = compare_u64(a->node, b->node);

    if (c == 0)
        c = compare_u64(row_key(a), row_key(b));
    if (c == 0)
        c = compare_u64(a->ns, b->ns);
    return c ? c : compare_u64(a->what, b->what);
}

/* ---- JSON ---- */

static void put_string(FILE *f, const char *s)
{
    putc('"', f);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            putc('\\', f);
        putc((unsigned char)*s >= 32 && (unsigned char)*s < 127 ? *s : '?', f);
    }
    putc('"', f);
}

/* A row, and its open span; without one: NULL. */
struct row {
    FILE *f;
    uint32_t node, thread; /* threads count from 1 */
    const char *span;
    uint64_t since_ns;
};

static void put_name(const struct row *r, const char *what, const char *name)
{
    fprintf(r->f,
            ",\n{\"ph\":\"M\",\"name\":\"%s_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":", what,
            r->node, r->thread);
    put_string(r->f, name);
    fputs("}}", r->f);
}

static void put_row_name(const struct row *r, const struct timeline_event *e)
{
    char name[32] = "agent";

    if (e->rank != TIMELINE_NODE && e->job == 0)
        snprintf(name, sizeof(name), "rank %u", e->rank);
    else if (e->rank != TIMELINE_NODE)
        snprintf(name, sizeof(name), "rank %u:%u", e->job, e->rank);
    put_name(r, "thread", name);
}

static void put_mark(const struct row *r, uint64_t ns, const char *text)
{
    fprintf(r->f, ",\n{\"ph\":\"i\",\"s\":\"t\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f}",
            text, r->node, r->thread, (double)ns / 1e3);
}

static void change_span(struct row *r, uint64_t ns, const char *next)
{
    if (r->span)
        fprintf(r->f,
                ",\n{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f}",
                r->span, r->node, r->thread, (double)r->since_ns / 1e3,
                (double)(ns - r->since_ns) / 1e3);
    r->span = next;
    r->since_ns = ns;
}

/* ---- events to spans ---- */

static const char *collective_name(uint32_t coll)
{
    switch (coll) {
    case PMIWIRE_COLL_FENCE: return "fence";
    case PMIWIRE_COLL_ALLGATHER: return "Allgather";
    case PMIWIRE_COLL_RING: return "Ring";
    default: return "group barrier";
    }
}

static void mark_exit(const struct row *r, const struct timeline_event *e)
{
    char text[64];

    snprintf(text, sizeof(text),
             e->arg & TIMELINE_SIGNAL ? "died of signal %u" : "exited with status %u",
             e->arg & ~TIMELINE_SIGNAL);
    put_mark(r, e->ns, text);
}

static void change_phase(struct row *r, const struct timeline_event *e)
{
    switch (e->what) {
    case TIMELINE_LAUNCH: change_span(r, e->ns, "before init"); break;
    case TIMELINE_INIT: change_span(r, e->ns, "init to finalize"); break;
    case TIMELINE_FINALIZE: change_span(r, e->ns, "after finalize"); break;
    case TIMELINE_EXIT:
        change_span(r, e->ns, NULL);
        mark_exit(r, e);
        break;
    case TIMELINE_READY:
    case TIMELINE_LOST:
        put_mark(r, e->ns, e->what == TIMELINE_LOST ? "is lost" : "answers");
        change_span(r, e->ns, NULL);
        break;
    default: break;
    }
}

/* The n events of a row. What has not ended ends at end_ns. */
static void put_row(const struct timeline *tl, const struct timeline_event *e, uint32_t n,
                    uint64_t end_ns, const struct row *row)
{
    struct row phases = *row, colls = *row;
    uint64_t colls_end = end_ns;

    put_row_name(row, e);
    if (e->rank == TIMELINE_NODE)
        phases.span = "agent starts";
    for (uint32_t i = 0; i < n; i++)
        change_phase(&phases, &e[i]);
    change_span(&phases, end_ns, NULL);
    for (uint32_t i = 0; i < n; i++) {
        if (e[i].what == TIMELINE_EXIT)
            colls_end = e[i].ns;
        if (e[i].what == TIMELINE_ENTER || e[i].what == TIMELINE_LEAVE)
            change_span(&colls, e[i].ns,
                        e[i].what == TIMELINE_ENTER ? collective_name(e[i].arg) : NULL);
    }
    if (tl->n_lost && tl->cut_ns < colls_end) /* its end is not recorded */
        colls_end = tl->cut_ns > colls.since_ns ? tl->cut_ns : colls.since_ns;
    change_span(&colls, colls_end, NULL);
}

void timeline_put_json(FILE *f, struct timeline *tl, uint64_t end_ns, const char *about,
                       const struct jobs *jobs)
{
    struct row row = {.f = f};
    char name[128];

    if (tl->n)
        qsort(tl->events, tl->n, sizeof(*tl->events), compare_events);
    fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"about\":", f);
    put_string(f, about);
    fprintf(f,
            "},\"traceEvents\":[\n{\"ph\":\"i\",\"s\":\"g\",\"name\":\"end\",\"pid\":0,\"tid\":0,"
            "\"ts\":%.3f}",
            (double)end_ns / 1e3);
    for (uint32_t i = 0, k; i < tl->n; i = k) {
        const struct timeline_event *e = &tl->events[i];

        for (k = i + 1;
             k < tl->n && e->node == tl->events[k].node && row_key(e) == row_key(&tl->events[k]);
             k++)
            ;
        if (row.thread++ == 0 || e->node != row.node) {
            row.node = e->node;
            snprintf(name, sizeof(name), "node %u (%.100s)", e->node, node_name(jobs, e->node));
            put_name(&row, "process", name);
        }
        put_row(tl, e, k - i, end_ns, &row);
    }
    fputs("\n]}\n", f);
}
