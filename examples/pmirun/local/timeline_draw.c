/* SPDX-License-Identifier: BSD-3-Clause */
/* From events to rows with spans. */
#include "timeline_draw.h"

#include <stdlib.h>

#include <pmiwire/server.h>

const char *const timeline_names[SPANS] = {
    [SPAN_AGENT] = "agent starts",
    [SPAN_STARTING] = "before init",
    [SPAN_RUNNING] = "init to finalize",
    [SPAN_ENDING] = "after finalize",
    [SPAN_FENCE] = "fence",
    [SPAN_ALLGATHER] = "Allgather",
    [SPAN_RING] = "Ring",
    [SPAN_GROUP] = "group barrier",
};

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static uint64_t row_key(const struct timeline_event *e)
{
    return e->rank == TIMELINE_NODE ? 0 : ((uint64_t)e->job << 32 | e->rank) + 1;
}

static int by_row(const void *pa, const void *pb)
{
    const struct timeline_event *a = pa, *b = pb;
    int c = compare(a->node, b->node);

    if (c == 0)
        c = compare(row_key(a), row_key(b));
    if (c == 0)
        c = compare(a->ns, b->ns);
    return c ? c : compare(a->what, b->what);
}

void timeline_sort(struct timeline *tl)
{
    if (tl->n)
        qsort(tl->events, tl->n, sizeof(*tl->events), by_row);
}

void timeline_row_name(uint32_t job, uint32_t rank, char *text, size_t n)
{
    if (rank == TIMELINE_NODE)
        snprintf(text, n, "agent");
    else if (job == 0)
        snprintf(text, n, "rank %u", rank);
    else
        snprintf(text, n, "rank %u:%u", job, rank);
}

static enum timeline_span span_of(uint32_t coll)
{
    switch (coll) {
    case PMIWIRE_COLL_FENCE: return SPAN_FENCE;
    case PMIWIRE_COLL_ALLGATHER: return SPAN_ALLGATHER;
    case PMIWIRE_COLL_RING: return SPAN_RING;
    default: return SPAN_GROUP;
    }
}

/* A row with an open span; without one: SPANS. */
struct row {
    const struct timeline_form *form;
    void *ctx;
    enum timeline_span open;
    uint64_t since;
};

static void change(struct row *r, uint64_t at, enum timeline_span next)
{
    if (r->open != SPANS)
        r->form->span(r->ctx, r->open, r->since, at);
    r->open = next;
    r->since = at;
}

static void mark_exit(const struct row *r, const struct timeline_event *e)
{
    const bool died = e->arg & TIMELINE_SIGNAL;
    char text[64];

    snprintf(text, sizeof(text), died ? "died of signal %u" : "exited with status %u",
             e->arg & ~TIMELINE_SIGNAL);
    r->form->mark(r->ctx, e->ns, e->arg != 0, text);
}

static void life(struct row *r, const struct timeline_event *e)
{
    switch (e->what) {
    case TIMELINE_LAUNCH: change(r, e->ns, SPAN_STARTING); break;
    case TIMELINE_INIT: change(r, e->ns, SPAN_RUNNING); break;
    case TIMELINE_FINALIZE: change(r, e->ns, SPAN_ENDING); break;
    case TIMELINE_EXIT:
        change(r, e->ns, SPANS);
        mark_exit(r, e);
        break;
    case TIMELINE_READY:
    case TIMELINE_LOST:
        r->form->mark(r->ctx, e->ns, e->what == TIMELINE_LOST,
                      e->what == TIMELINE_LOST ? "is lost" : "answers");
        change(r, e->ns, SPANS);
        break;
    default: break;
    }
}

static void collective(struct row *r, const struct timeline_event *e)
{
    change(r, e->ns, e->what == TIMELINE_ENTER ? span_of(e->arg) : SPANS);
}

/* Its events: phases first, since later spans are drawn over them. */
static void walk_row(const struct timeline *tl, const struct timeline_event *e, uint32_t n,
                     uint64_t end, const struct timeline_form *form, void *ctx)
{
    struct row phases = {form, ctx, e->rank == TIMELINE_NODE ? SPAN_AGENT : SPANS, 0};
    struct row colls = {form, ctx, SPANS, 0};
    uint64_t colls_end = end;

    form->row(ctx, e->node, e->job, e->rank);
    for (uint32_t i = 0; i < n; i++)
        life(&phases, &e[i]);
    change(&phases, end, SPANS);
    for (uint32_t i = 0; i < n; i++) {
        if (e[i].what == TIMELINE_EXIT)
            colls_end = e[i].ns;
        if (e[i].what == TIMELINE_ENTER || e[i].what == TIMELINE_LEAVE)
            collective(&colls, &e[i]);
    }
    if (tl->n_lost && tl->cut_ns < colls_end) /* its end is not recorded */
        colls_end = tl->cut_ns > colls.since ? tl->cut_ns : colls.since;
    change(&colls, colls_end, SPANS);
}

void timeline_walk(const struct timeline *tl, uint64_t end, const struct timeline_form *form,
                   void *ctx)
{
    for (uint32_t i = 0, k; i < tl->n; i = k) {
        const struct timeline_event *e = &tl->events[i];

        for (k = i + 1;
             k < tl->n && e->node == tl->events[k].node && row_key(e) == row_key(&tl->events[k]);
             k++)
            ;
        walk_row(tl, e, k - i, end, form, ctx);
    }
}
