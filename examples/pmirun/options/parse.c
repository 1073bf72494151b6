/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line, by the table of options. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../local/job.h"
#include "../local/util.h"
#include "../reach.h"
#include "row.h"

#define MAX_ARGUMENTS  2
#define MAX_NAME_BYTES 40 /* of a name that is compared with a misspelt one */
#define MAX_TYPOS      2

void usage_error(const struct parse *p, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    fputs("pmirun: ", stderr);
    if (p->in_file)
        fprintf(stderr, "%s: ", p->in_file);
    if (p->app && p->opt->n_apps > 0)
        fprintf(stderr, "group %u: ", p->opt->n_apps + 1);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(STATUS_USAGE);
}

/* ---- names ---- */

const char *option_next_name(const char **names, size_t *n)
{
    const char *name = *names;

    if (!*name)
        return NULL;
    *n = strcspn(name, " ");
    *names = name + *n + (name[*n] == ' ');
    return name;
}

/* Names of two or more letters are compared without their dashes. */
static void strip_dashes(const char **name, size_t *n)
{
    size_t dashes = *n > 2 && (*name)[1] == '-' ? 2 : 1;

    if (*n - dashes >= 2) {
        *name += dashes;
        *n -= dashes;
    }
}

static bool is_name(const char *name, size_t n, const char *other, size_t m)
{
    strip_dashes(&name, &n);
    strip_dashes(&other, &m);
    return n == m && memcmp(name, other, n) == 0;
}

static bool are_names(const char *names, const char *name, size_t n)
{
    const char *one;
    size_t len;

    while (names && (one = option_next_name(&names, &len)))
        if (is_name(name, n, one, len))
            return true;
    return false;
}

const struct option_row *option_find(const char *name, size_t n)
{
    for (size_t i = 0; i < n_option_rows; i++)
        if (are_names(option_rows[i].names, name, n))
            return &option_rows[i];
    return NULL;
}

/* Insertions, deletions and replacements that make one name another, both without dashes; at most
 * MAX_TYPOS + 1. */
static size_t count_typos(const char *a, size_t n, const char *b, size_t m)
{
    size_t row[MAX_NAME_BYTES + 1];

    if (n > MAX_NAME_BYTES || m > MAX_NAME_BYTES)
        return MAX_TYPOS + 1;
    for (size_t k = 0; k <= m; k++)
        row[k] = k;
    for (size_t i = 1; i <= n; i++) {
        size_t corner = row[0];

        row[0] = i;
        for (size_t k = 1; k <= m; k++) {
            const size_t other = corner + (a[i - 1] != b[k - 1]);

            corner = row[k];
            row[k] = (row[k] < row[k - 1] ? row[k] : row[k - 1]) + 1;
            if (other < row[k])
                row[k] = other;
        }
    }
    return row[m] <= MAX_TYPOS ? row[m] : MAX_TYPOS + 1;
}

/* A misspelt name without its dashes, and the nearest so far. */
struct typo {
    const char *name, *near; /* NULL: none is close */
    size_t n, near_n, least;
};

static void typo_compare(struct typo *t, const char *names)
{
    const char *one, *bare;
    size_t n, bare_n, typos;

    while (names && (one = option_next_name(&names, &n))) {
        bare = one;
        bare_n = n;
        strip_dashes(&bare, &bare_n);
        typos = count_typos(t->name, t->n, bare, bare_n);
        if (typos > t->least || (typos == t->least && t->near))
            continue;
        t->near = one;
        t->near_n = n;
        t->least = typos;
    }
}

/* ---- options ---- */

static unsigned n_arguments(const struct option_row *row)
{
    return !row->arg || row->arg[0] == '[' ? 0 : strchr(row->arg, ' ') ? 2 : 1;
}

static void refuse_unknown(const struct parse *p, const char *w)
{
    const size_t n = strcspn(w, "=");
    struct typo t = {.name = w, .n = n};

    strip_dashes(&t.name, &t.n);
    t.least = t.n / 3 < MAX_TYPOS ? t.n / 3 : MAX_TYPOS;
    for (size_t i = 0; i < n_option_rows; i++)
        typo_compare(&t, option_rows[i].names);
    for (size_t i = 0; i < n_advices; i++)
        typo_compare(&t, advices[i].names);
    if (t.near)
        usage_error(p, "unknown option %s: did you mean %.*s? (see --help)", w, (int)t.near_n,
                    t.near);
    if (w[1] != '-' && n <= 4 && option_find(w, 2))
        usage_error(p, "unknown option %s; options of one letter are separate words: %.2s ...", w,
                    w);
    usage_error(p, "unknown option %s (see --help)", w);
}

static void refuse_foreign(const struct parse *p, const char *w, size_t n)
{
    for (size_t i = 0; i < n_advices; i++)
        if (are_names(advices[i].names, w, n))
            usage_error(p, "%s is another launcher's option: %s", p->word, advices[i].use);
}

/*
 * Reads one option with its arguments. One argument may be part of the word: behind `=`, or, of a
 * name of one letter, a number behind that.
 */
static void parse_option(struct parse *p)
{
    char *w = p->argv[p->at++], *value[MAX_ARGUMENTS] = {NULL, NULL};
    const size_t whole = strcspn(w, "=");
    const bool number = w[1] != '-' && isdigit((unsigned char)w[2]);
    const size_t n = number ? 2 : whole;
    const struct option_row *row = option_find(w, n);
    const unsigned n_args = row ? n_arguments(row) : 0;

    snprintf(p->word, sizeof(p->word), "%.*s", (int)n, w);
    refuse_foreign(p, w, n);
    if (!row || (number && n_args != 1))
        refuse_unknown(p, w);
    if (row->scope == SCOPE_JOB && p->opt->n_apps > 0)
        usage_error(p, "%s is for the whole job: put it before the first program", p->word);
    if (w[n]) {
        value[0] = w + n + !number;
        if (n_args != 1 && !(row->arg && row->arg[0] == '['))
            usage_error(p,
                        row->arg ? "%s wants its arguments as two words, not \"%s\""
                                 : "%s takes no argument, not \"%s\"",
                        p->word, value[0]);
    } else {
        if (p->argc - p->at < (int)n_args)
            usage_error(p,
                        n_args == 1 ? "%s wants an argument, %s (see --help)"
                                    : "%s wants two arguments, %s (see --help)",
                        p->word, row->arg);
        for (unsigned i = 0; i < n_args; i++)
            value[i] = p->argv[p->at++];
    }
    if (row->set)
        row->set(p, row, value);
}

/* Options up to the program's name. */
static void parse_group_options(struct parse *p)
{
    while (p->at < p->argc) {
        const char *w = p->argv[p->at];

        if (w[0] != '-' || w[1] == '\0')
            return;
        if (strcmp(w, "--") == 0) {
            p->at++;
            return;
        }
        parse_option(p);
    }
}

/* The options that the environment gives, an empty variable none. The command line's come later,
 * and win. */
static void parse_environment(struct parse *p)
{
    for (size_t i = 0; i < n_option_rows; i++) {
        const struct option_row *row = &option_rows[i];
        char *value[MAX_ARGUMENTS] = {row->env ? getenv(row->env) : NULL, NULL};

        if (!value[0] || !value[0][0])
            continue;
        snprintf(p->word, sizeof(p->word), "%s", row->env);
        row->set(p, row, value);
    }
}

/* ---- groups ---- */

/* A group takes over the settings for all groups that it does not override. */
static void settle_group(const struct options *opt, struct app *app)
{
    const char *path = getenv("PATH");

    env_settle(opt, app);
    if (!app->wdir)
        app->wdir = opt->wdir;
    if (!app->search)
        app->search = opt->path;
    if (app->search) /* it is where to look first */
        app->search = xprintf("%s%s%s", app->search, path ? ":" : "", path ? path : "");
}

/* A group: its options, program and arguments, up to the next colon. */
static void parse_group(struct parse *p)
{
    struct options *opt = p->opt;
    struct app app = {.n_procs = 0};
    int first;

    p->app = &app;
    parse_group_options(p);
    first = p->at;
    while (p->at < p->argc && strcmp(p->argv[p->at], ":") != 0)
        p->at++;
    if (p->at == first)
        usage_error(p, "no program given (see --help)");
    if (!p->argv[first][0])
        usage_error(p, "the program's name is empty");
    p->app = NULL;
    settle_group(opt, &app);
    app.argv = xrealloc(NULL, (size_t)(p->at - first + 1) * sizeof(char *));
    memcpy(app.argv, p->argv + first, (size_t)(p->at - first) * sizeof(char *));
    app.argv[p->at - first] = NULL;
    opt->apps = xrealloc(opt->apps, (opt->n_apps + 1) * sizeof(app));
    opt->apps[opt->n_apps++] = app;
}

/* ---- after all of them: defaults, and what contradicts itself ---- */

static void check_reason(const struct parse *p, const char *why)
{
    if (why)
        usage_error(p, "%s", why);
}

static void settle_placing(const struct parse *p)
{
    check_reason(p, place_settle(&p->opt->place));
    if (p->opt->topology && !place_binds(&p->opt->place))
        usage_error(
            p, "--topology \"%s\": no option uses it: add --bind-to, or --map-by with an object",
            p->opt->topology);
}

/* Of all hosts; one without slots counts 1. */
static uint64_t sum_slots(const struct options *opt)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < opt->given.n_hosts; i++)
        n += opt->given.slots[i] ? opt->given.slots[i] : 1;
    return n;
}

/* The processes of a group alone that has no -n: one a node of -N, or as many as the hosts have
 * slots; one where nothing says more. */
static uint64_t count_procs(const struct options *opt)
{
    const uint64_t each = opt->per_host ? opt->per_host : 1;

    return opt->n_nodes ? opt->n_nodes * each : opt->given.n_hosts ? sum_slots(opt) : each;
}

/* A group without -n has one process beside other groups. */
static void settle_procs(const struct parse *p)
{
    struct options *opt = p->opt;
    uint64_t n = 0, own;

    for (uint32_t i = 0; i < opt->n_apps; i++) {
        struct app *app = &opt->apps[i];

        own = app->n_procs ? app->n_procs : opt->n_apps == 1 ? count_procs(opt) : 1;
        n += own;
        if (n > MAX_PROCS)
            usage_error(p, "more than %u processes", MAX_PROCS);
        app->n_procs = (uint32_t)own;
    }
    opt->n_procs = (uint32_t)n;
    if (opt->stdin_rank < STDIN_ALL && opt->stdin_rank >= opt->n_procs)
        usage_error(p, "%s %u: no such rank: the job has %u, numbered from 0", p->stdin_word,
                    opt->stdin_rank, opt->n_procs);
}

/* The number of nodes that the ranks fill if each node takes as many as it has slots; else all. */
static uint32_t count_host_nodes(struct options *opt)
{
    uint64_t room = 0;
    uint32_t n = 0;

    if (!opt->given.n_hosts)
        return opt->per_host && opt->launch != LAUNCH_HERE
                   ? (opt->n_procs + opt->per_host - 1) / opt->per_host
                   : 1;
    if (!opt->given.slots[0])
        return opt->given.n_hosts;
    while (n < opt->given.n_hosts && room < opt->n_procs)
        room += opt->given.slots[n++];
    return n;
}

/* If one host has slots, each gets some. If none has, `slots` is NULL, or all are 0. */
static void settle_slots(const struct parse *p)
{
    struct options *opt = p->opt;
    bool some = opt->per_host > 0;

    for (uint32_t i = 0; i < opt->given.n_hosts; i++)
        some = some || opt->given.slots[i];
    for (uint32_t i = 0; i < opt->given.n_hosts && some; i++)
        opt->given.slots[i] = opt->per_host         ? opt->per_host
                              : opt->given.slots[i] ? opt->given.slots[i]
                                                    : 1;
}

/* Settles the number of nodes and the way there. */
static void settle_nodes(struct parse *p)
{
    struct options *opt = p->opt;

    check_reason(p, reach_allocation(opt));
    if (reach_wants_hosts(opt))
        hosts_of_hydra(p);
    settle_slots(p);
    settle_procs(p);
    if (opt->n_nodes == 0)
        opt->n_nodes = count_host_nodes(opt);
    else if (!opt->cyclic && (opt->given.n_hosts ? opt->given.slots[0] : opt->per_host))
        opt->n_nodes = opt->n_nodes < count_host_nodes(opt) ? opt->n_nodes : count_host_nodes(opt);
    if (opt->launch == LAUNCH_HERE && !opt->given.n_hosts && opt->n_nodes > 1)
        usage_error(p, "-N %u: no host is given: use --hosts, or --launch srun or fork",
                    opt->n_nodes);
    if (opt->given.n_hosts && opt->given.n_hosts < opt->n_nodes)
        usage_error(p, "%u hosts are too few for %u nodes%s%s", opt->given.n_hosts, opt->n_nodes,
                    opt->given.variable ? "; the hosts are those in " : "",
                    opt->given.variable ? opt->given.variable : "");
    if (opt->n_nodes > opt->n_procs)
        opt->n_nodes = opt->n_procs; /* a node without ranks has no part in the job */
    check_reason(p, reach_settle(opt));
    if (opt->max_spawned == UINT32_MAX)
        opt->max_spawned = opt->n_nodes * MAX_SPAWNED;
    if (opt->max_spawned > MAX_PROCS)
        opt->max_spawned = MAX_PROCS;
}

void options_parse(struct options *opt, int argc, char **argv)
{
    static struct parse p; /* --configfile's words live as long as the process */

    p = (struct parse){.opt = opt, .argc = argc, .at = 1, .argv = argv};
    opt->universe_size = -1;
    opt->max_spawned = UINT32_MAX; /* not said */
    opt->stall_s = 60;
    opt->get_s = 60;
    opt->start_s = 60;
    opt->fanout = 16;
    opt->node_s = 25;
    opt->shm_max_bytes = UINT64_C(1024) << 20;
    opt->env.what = ENV_ALL;
    parse_environment(&p);
    do
        parse_group(&p);
    while (p.at < p.argc && ++p.at <= p.argc);
    settle_placing(&p);
    settle_nodes(&p);
    if (opt->universe_size == UNIVERSE_SLOTS) { /* hydra's SYSTEM */
        const uint64_t n = sum_slots(opt);

        opt->universe_size = n == 0 ? 1 : n > INT32_MAX ? INT32_MAX : (int32_t)n;
    }
}
