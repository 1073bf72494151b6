/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "reach.h"

#include <stdlib.h>
#include <string.h>

#include "allocation.h"
#include "local/util.h"
#include "template.h"

/* A shell reads what ssh hands on. */
static const char by_ssh[] = "ssh -x %h 'exec %c'";

/* ---- --launch ---- */

static void take_template(struct options *opt, struct template *t)
{
    if (opt->template)
        template_free(opt->template);
    else
        opt->template = xrealloc(NULL, sizeof(*t));
    *opt->template = *t;
}

char *reach_launch(struct options *opt, const char *how)
{
    static const char *const words[] = {"fork", "ssh", "srun"};
    struct template t;
    char *why, *all;

    for (int i = 0; i < 3; i++) {
        if (strcmp(how, words[i]) != 0)
            continue;
        opt->launch = (enum launch_kind)(LAUNCH_FORK + i);
        return NULL;
    }
    if (!strpbrk(how, " \t\n%"))
        return xprintf("wants fork, ssh, srun, or a command with %%h for the host and %%c for the "
                       "agent's command, not \"%s\"",
                       how);
    why = template_parse(&t, how);
    if (!why) {
        opt->launch = LAUNCH_TEMPLATE;
        take_template(opt, &t);
        return NULL;
    }
    all = xprintf("\"%.200s\": %s", how, why);
    free(why);
    return all;
}

/* ---- hosts of an allocation ---- */

/* The first nodes that have slots for all ranks; all, where slots are not known or too few. */
static uint32_t nodes_wanted(const struct allocation *a, uint32_t n_procs)
{
    uint64_t slots = 0;

    for (uint32_t i = 0; i < a->n_hosts; i++) {
        slots += a->slots[i];
        if (slots >= n_procs)
            return i + 1;
    }
    return a->n_hosts;
}

/* The hosts of an allocation become those of the job, unless it is this host alone. */
static void take_allocation(struct options *opt, struct allocation *a)
{
    uint32_t n = opt->n_nodes ? opt->n_nodes : nodes_wanted(a, opt->n_procs);

    n = n > opt->n_procs ? opt->n_procs : n;
    if (opt->launch == LAUNCH_HERE && n == 1 && host_is_own(a->hosts[0]))
        return;
    if (opt->launch == LAUNCH_HERE) {
        opt->launch = a->launch ? LAUNCH_SSH : LAUNCH_SRUN;
        opt->way = a->launch;
    }
    opt->allocation = a->variable;
    opt->hosts = a->hosts;
    opt->n_hosts = a->n_hosts;
    a->hosts = NULL;
    a->n_hosts = 0;
    if (opt->n_nodes)
        return; /* ranks are divided evenly among so many */
    opt->n_nodes = n;
    if (a->slots[0]) {
        opt->slots = a->slots;
        a->slots = NULL;
    }
}

static char *find_allocation(struct options *opt)
{
    struct allocation a;
    char *why = NULL;

    if (opt->n_hosts || opt->launch == LAUNCH_FORK)
        return NULL;
    if (opt->launch == LAUNCH_TEMPLATE && !opt->template->has_host)
        return NULL;
    why = allocation_find(&a);
    if (!why && a.n_hosts && opt->n_nodes > a.n_hosts)
        why = xprintf("-N %u: the allocation in %s has %u nodes", opt->n_nodes, a.variable,
                      a.n_hosts);
    else if (!why && a.n_hosts)
        take_allocation(opt, &a);
    allocation_free(&a);
    return why;
}

/* ---- all of it ---- */

/* ssh is a template that we know; --launch-agent names another program for it. */
static char *settle_way(struct options *opt)
{
    struct template t;

    if (opt->launch == LAUNCH_TEMPLATE && opt->launch_agent)
        return xprintf("--launch-agent %s: --launch names the program already", opt->launch_agent);
    if (opt->launch == LAUNCH_TEMPLATE && opt->n_hosts && !opt->template->has_host)
        return xprintf("--launch \"%s ...\": it lacks %%h, which stands for the host",
                       template_name(opt->template));
    if (opt->launch != LAUNCH_SSH)
        return NULL;
    free(template_parse(&t, opt->way ? opt->way : by_ssh)); /* nothing is wrong with these */
    if (opt->launch_agent) {
        free(t.words[0]);
        t.words[0] = xprintf("%s", opt->launch_agent);
    }
    take_template(opt, &t);
    return NULL;
}

char *reach_settle(struct options *opt)
{
    char *why = find_allocation(opt);

    if (why)
        return why;
    if (opt->n_nodes == 0)
        opt->n_nodes = opt->n_hosts ? opt->n_hosts : 1;
    if (opt->launch == LAUNCH_HERE) {
        if (opt->n_hosts)
            opt->launch = LAUNCH_SSH;
        else if (opt->n_nodes > 1)
            return xprintf("-N %u: how to get there? Give --hosts, or --launch srun or fork",
                           opt->n_nodes);
    }
    if (!opt->n_hosts &&
        (opt->launch == LAUNCH_SSH || (opt->launch == LAUNCH_TEMPLATE && opt->template->has_host)))
        return xprintf("--launch %s: to which hosts? Give --hosts",
                       opt->launch == LAUNCH_SSH ? "ssh" : template_name(opt->template));
    if (opt->n_hosts && opt->n_hosts < opt->n_nodes)
        return xprintf("%u hosts for %u nodes", opt->n_hosts, opt->n_nodes);
    if (opt->n_nodes > opt->n_procs)
        opt->n_nodes = opt->n_procs; /* a node without ranks has no part in the job */
    return settle_way(opt);
}

void reach_share(const uint32_t *slots, uint32_t n, uint32_t n_nodes, uint32_t *share)
{
    for (uint32_t i = 0; i < n_nodes; i++)
        share[i] = slots ? 0 : n / n_nodes + (i < n % n_nodes);
    while (slots && n > 0) {
        for (uint32_t i = 0; i < n_nodes && n > 0; i++) {
            const uint32_t more = slots[i] < n ? slots[i] : n;

            share[i] += more;
            n -= more;
        }
    }
}
