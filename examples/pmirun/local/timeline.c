/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects events with their times; an agent packs them for its head. */
#define _GNU_SOURCE
#include "timeline.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "job.h"
#include "loop.h"

#define SEND_NS    (NS_PER_S / 2)
#define SEND_BYTES 16384u

#define EVENT_BYTES 21u /* of an agent's event in a message: ns, job, rank, arg, what */

/* ---- the beginning ---- */

void timeline_open(struct timeline *tl, const char *path)
{
    FILE *f;

    tl->path = path;
    f = fopen(tl->path, "we"); /* not kept: launch.c wants the low descriptors */
    if (!f || fclose(f) != 0)
        die(STATUS_OUTPUT, "--timeline: cannot write %s: %s", tl->path, strerror(errno));
    tl->zero_ns = loop.start_ns;
    tl->on = true;
}

void timeline_begin(struct timeline *tl)
{
    tl->of_agent = true;
    tl->zero_ns = clock_ns();
    tl->on = true;
}

void timeline_asked(struct timeline *tl, uint32_t n_nodes)
{
    const struct timeline_clock unknown = {run_ns(), UINT64_MAX};

    if (!tl->on)
        return;
    tl->clocks = xrealloc(NULL, n_nodes * sizeof(*tl->clocks));
    for (uint32_t i = 0; i < n_nodes; i++)
        tl->clocks[i] = unknown;
}

/* ---- collecting ---- */

/* Is there no room for it? An agent records one more than its head, which reports the limit. */
static bool is_too_many(struct timeline *tl, enum timeline_what what)
{
    const bool coll = what == TIMELINE_ENTER || what == TIMELINE_LEAVE;
    const uint32_t max = (coll ? TIMELINE_MAX : 2 * TIMELINE_MAX) + (tl->of_agent ? 1 : 0);

    if (tl->n_sent + tl->n < max)
        return false;
    if (tl->n_lost++ == 0)
        tl->cut_ns = run_ns();
    if (!tl->of_agent && !tl->reported[coll])
        log_message("--timeline: %u events recorded, the limit: later %s are left out", max,
                    coll ? "collectives" : "events");
    tl->reported[coll] = true;
    return true;
}

static void keep_event(struct timeline *tl, const struct timeline_event *e)
{
    if (is_too_many(tl, (enum timeline_what)e->what))
        return;
    tl->events = xgrow(tl->events, &tl->cap, (tl->n + 1) * sizeof(*tl->events));
    tl->events[tl->n++] = *e;
}

void timeline_rank(struct timeline *tl, const struct rank *r, enum timeline_what what, uint32_t arg)
{
    struct timeline_event e = {.job = r->job->number, .rank = r->number, .arg = arg};

    if (!tl->on || r->job->jobs->head) /* whose agents record the ranks */
        return;
    e.ns = clock_ns() - tl->zero_ns;
    e.what = what;
    keep_event(tl, &e);
}

void timeline_node(struct timeline *tl, uint32_t node, enum timeline_what what)
{
    struct timeline_event e = {.rank = TIMELINE_NODE};

    if (!tl->on)
        return;
    e.ns = run_ns();
    e.node = node & 0xffffff;
    e.what = what;
    keep_event(tl, &e);
}

/* ---- from agent to head ---- */

bool timeline_is_due(const struct timeline *tl)
{
    return tl->of_agent && tl->n &&
           (tl->n >= SEND_BYTES / EVENT_BYTES || loop.now_ns >= tl->sent_ns + SEND_NS);
}

void timeline_take(struct timeline *tl, struct msg *m)
{
    msg_u64(m, clock_ns() - tl->zero_ns);
    msg_u32(m, tl->n);
    for (uint32_t i = 0; i < tl->n; i++) {
        const struct timeline_event *e = &tl->events[i];
        const uint8_t what = e->what;

        msg_u64(m, e->ns);
        msg_u32(m, e->job);
        msg_u32(m, e->rank);
        msg_u32(m, e->arg);
        msg_bytes(m, &what, 1);
    }
    tl->n_sent += tl->n;
    tl->n = 0;
    tl->sent_ns = loop.now_ns;
}

/* A node's clock says sent_ns, ours now_ns or less. If its clock runs faster than ours the bounds
 * cross: then the earliest possible zero counts. */
static void hear_clock(struct timeline_clock *c, uint64_t sent_ns, uint64_t now_ns)
{
    const uint64_t to = sent_ns < now_ns ? now_ns - sent_ns : 0;

    if (to < c->to)
        c->to = to > c->from ? to : c->from;
}

bool timeline_heard(struct timeline *tl, uint32_t node, struct msg_in *in)
{
    const uint64_t sent_ns = get_u64(in);
    const uint32_t n = get_count(in, EVENT_BYTES);
    struct timeline_event e = {.node = node & 0xffffff};

    if (!tl->clocks || in->bad || in->left != n * (size_t)EVENT_BYTES)
        return false;
    hear_clock(&tl->clocks[node], sent_ns, run_ns());
    for (uint32_t i = 0; i < n; i++) {
        e.ns = get_u64(in);
        e.job = get_u32(in);
        e.rank = get_u32(in);
        e.arg = get_u32(in);
        e.what = (uint8_t)*in->p++;
        in->left--;
        if (e.ns > sent_ns || e.what > TIMELINE_LEAVE || e.rank == TIMELINE_NODE)
            return false;
        keep_event(tl, &e);
    }
    return true;
}

/* ---- the end ---- */

static void describe_job(const struct timeline *tl, const struct jobs *jobs, bool early,
                         uint64_t end, char *text, size_t n)
{
    int k = snprintf(text, n, "pmirun: %llu processes", (unsigned long long)jobs->n_ranks);

    if (jobs->head)
        k += snprintf(text + k, n - (size_t)k, " on %u nodes", jobs->opt->n_nodes);
    k += snprintf(text + k, n - (size_t)k, ", %.3f s", (double)end / 1e9);
    if (early)
        k += snprintf(text + k, n - (size_t)k, ", pmirun gave up");
    else
        k += snprintf(text + k, n - (size_t)k, ", status %d", jobs->status);
    if (tl->n_lost)
        snprintf(text + k, n - (size_t)k, "; %u events are left out", tl->n_lost);
}

/* Times of all nodes by the head's clock, none after the end. */
static void one_clock(struct timeline *tl, uint64_t end)
{
    for (uint32_t i = 0; i < tl->n && tl->clocks; i++) {
        struct timeline_event *e = &tl->events[i];
        const struct timeline_clock *c = &tl->clocks[e->node];

        if (e->rank != TIMELINE_NODE) {
            const uint64_t zero = c->from + (c->to - c->from) / 2;

            e->ns = e->ns < end - zero ? e->ns + zero : end;
        }
    }
}

int timeline_write(struct timeline *tl, const struct jobs *jobs, bool early)
{
    char about[256];
    const uint64_t end = run_ns();
    int err = 0;
    FILE *f;

    if (!tl->on || !tl->path)
        return 0;
    tl->on = false;
    describe_job(tl, jobs, early, end, about, sizeof(about));
    one_clock(tl, end);
    f = fopen(tl->path, "we");
    if (!f)
        return errno;
    timeline_put_json(f, tl, end, about, jobs);
    if (ferror(f))
        err = EIO;
    if (fclose(f) != 0)
        err = errno;
    return err;
}
