/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_pmirun_channel: a head with three agents. */
#define _GNU_SOURCE
#include <string.h>

#include "../../../examples/pmirun/multinode/job_message.h"
#include "channel_world.h"

static struct app *one_app(uint32_t n_procs)
{
    struct app *app = calloc(1, sizeof(*app));

    check(app != NULL);
    app->n_procs = n_procs;
    app->argv = calloc(2, sizeof(*app->argv));
    check(app->argv != NULL);
    app->argv[0] = xprintf("prog");
    return app;
}

/* As an agent's first message; no command has brought it. */
static void come(struct world *w, int i)
{
    struct msg m = {0};

    msg_begin(&m, MSG_TRY);
    report_put(&m, &(struct report){0});
    say_msg(w, &w->peers[i], &m);
}

static void ready(struct world *w, int i)
{
    struct msg m = {0};

    msg_begin(&m, MSG_READY);
    report_put(&m, &(struct report){.value = 5000, .text = "name"});
    say_msg(w, &w->peers[i], &m);
}

void begin_head(struct world *w, bool with_prelude)
{
    struct pmirun *pr = &w->pr;
    struct job plan = {.n_apps = 1};

    pr->jobs.head = pr->input.head = &w->head;
    w->head.opt = &pr->opt;
    w->head.jobs = &pr->jobs;
    w->head.output = &pr->output;
    w->head.input = &pr->input;
    begin_net(w, &w->head.net, CHANNEL_HEAD);
    net_init(w->net, &pr->opt, &head_net_ops, &w->head);
    pr->opt.labels = pr->timeline.on = with_prelude;
    w->head.nodes = calloc(LINKS, sizeof(*w->head.nodes));
    w->head.starters = calloc(LINKS, sizeof(*w->head.starters));
    w->head.n_starters = LINKS;
    check(w->head.nodes != NULL && w->head.starters != NULL);
    for (uint32_t i = 0; i < LINKS; i++) {
        struct starter *s = &w->head.starters[i];

        *s = (struct starter){.src.fd = -1, .in = -1, .state = STARTER_EXITED, .first = i, .n = 1};
        w->head.nodes[i].id = i;
        w->head.nodes[i].name = xprintf("node%u", i);
    }
    plan.apps = one_app(4);
    plan.node_of = calloc(4, sizeof(*plan.node_of));
    check(plan.node_of != NULL);
    head_place_ranks(&w->head, 4, NULL, plan.node_of);
    job_create(&pr->jobs, &plan);
    check(names_init(&w->head) == 0);
    for (int i = 0; i < LINKS; i++)
        connect_link(w, i, (uint32_t)i, false);
    for (int i = 0; i < LINKS; i++)
        come(w, i);
    for (int i = 0; i < LINKS && with_prelude; i++)
        ready(w, i);
}

void end_head(struct head *h)
{
    for (uint32_t i = 0; i < LINKS && h->nodes; i++) {
        free(h->nodes[i].name);
    }
    free(h->nodes);
    free(h->starters);
    free(h->msg.p);
    pmiwire_server_destroy(h->names);
}
