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
    static const struct {
        const char *word;
        enum launch_kind kind;
    } words[] = {
        {"fork", LAUNCH_FORK}, {"ssh", LAUNCH_SSH}, {"srun", LAUNCH_SRUN}, {"slurm", LAUNCH_SRUN}};
    struct template t;
    char *why, *all;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(how, words[i].word) != 0)
            continue;
        opt->launch = words[i].kind;
        return NULL;
    }
    if (!strpbrk(how, " \t\n%"))
        return xprintf("wants fork, ssh, srun, or a command with %%h for the host and %%c for what "
                       "to run there, not \"%s\"",
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

bool reach_wants_hosts(const struct options *opt)
{
    return !opt->given.n_hosts && opt->launch != LAUNCH_FORK &&
           (opt->launch != LAUNCH_TEMPLATE || opt->template->has_host);
}

char *reach_allocation(struct options *opt)
{
    char *why = reach_wants_hosts(opt) ? allocation_find(&opt->given) : NULL;

    if (!why && opt->given.variable && opt->n_nodes) /* ranks are divided evenly among n_nodes */
        memset(opt->given.slots, 0, opt->given.n_hosts * sizeof(*opt->given.slots));
    return why;
}

/* Chooses the way to hosts without --launch. None, if an allocation has this host alone. */
static void choose_launch(struct options *opt)
{
    if (!opt->given.variable)
        opt->launch = LAUNCH_SSH;
    else if (opt->n_nodes > 1 || !host_is_own(opt->given.hosts[0]))
        opt->launch = opt->given.launch ? LAUNCH_SSH : LAUNCH_SRUN;
}

char *reach_settle(struct options *opt)
{
    const bool said = opt->launch != LAUNCH_HERE;
    struct template t;

    if (!said && opt->given.n_hosts)
        choose_launch(opt);
    if (!opt->given.n_hosts &&
        (opt->launch == LAUNCH_SSH || (opt->launch == LAUNCH_TEMPLATE && opt->template->has_host)))
        return xprintf("--launch %s: no host is given: use --hosts",
                       opt->launch == LAUNCH_SSH ? "ssh" : template_name(opt->template));
    if (opt->launch == LAUNCH_TEMPLATE && opt->launch_agent)
        return xprintf("--launch-agent %s: --launch names the program already", opt->launch_agent);
    if (opt->launch == LAUNCH_TEMPLATE && opt->given.n_hosts && !opt->template->has_host)
        return xprintf("--launch \"%s ...\": it lacks %%h, which stands for the host",
                       template_name(opt->template));
    if (opt->launch != LAUNCH_SSH)
        return NULL;
    /* A built-in template is valid. --launch-agent replaces its program. */
    free(template_parse(&t, !said && opt->given.launch ? opt->given.launch : by_ssh));
    if (opt->launch_agent) {
        free(t.words[0]);
        t.words[0] = xprintf("%s", opt->launch_agent);
    }
    take_template(opt, &t);
    return NULL;
}
