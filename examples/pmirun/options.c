/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line. */
#define _GNU_SOURCE
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire.h>

#include "local/job.h"
#include "local/util.h"

static const char usage[] =
    "usage: pmirun [option ...] [-n N] program [argument ...] [: -n M program [argument ...] ...]\n"
    "\n"
    "Starts processes, here or on several nodes, and serves PMI-1 and PMI-2 to them.\n"
    "\n"
    "For each group between colons:\n"
    "  -n N, -np N          number of processes (1)\n"
    "  -x VAR=VALUE         set an environment variable (-x VAR: pass ours on, as happens anyway)\n"
    "  --wdir DIR           working directory\n"
    "For the whole job, before the first program:\n"
    "  -l                   label each line of output with its rank\n"
    "  -N N                 on N nodes\n"
    "  --hosts A,B,...      their names\n"
    "  --launch HOW         how to get there: ssh (when there are hosts), srun, or fork (all on "
    "this host)\n"
    "  --launch-agent PROG  what to call in the place of ssh or srun\n"
    "  --map HOW            block (the default): nodes get consecutive ranks; cyclic: ranks go "
    "round\n"
    "  --links HOW          between nodes: tcp (the default), ucx, or any: ucx when every node has "
    "it\n"
    "  --design HOW         where keys live that few ranks read: dkvs (the default), direct, tree\n"
    "  --start-timeout S    for the nodes to answer (60; 0: for ever)\n"
    "  --node-timeout S     a node that is silent for S seconds is lost (25; 0: never)\n"
    "  --timeout S          stop the job after S seconds, with status 124\n"
    "  --get-timeout S      for a Get that waits for its key (60; 0: for ever)\n"
    "  --pmi-port           let processes connect over TCP (PMI_PORT), not an inherited socket\n"
    "  --mpi HOW            what ranks use: pmi; openmpi (Open MPI 4 by PMI-1); pmix; or auto (the "
    "default):\n"
    "                       what the program's libraries ask for\n"
    "  --no-shm             no shared memory: every Get is asked by socket\n"
    "  --shm-max MIB        shared memory that a job's pairs may take (1024); then ranks ask by "
    "socket\n"
    "  --universe-size N    what to answer to a question for the universe's size (-1: unknown)\n"
    "  --stall-timeout S    cut off clients silent in mid-message for S seconds (60; 0: never)\n"
    "  --pmi-1.2            speak PMI 1.2 to clients that ask for 1.1\n"
    "  --max-procs N        processes that PMI spawn may have running at a time (1024 a node)\n"
    "  --stats              print counters and times as a line of JSON on stderr at the end\n"
    "  -v, --verbose        tell on stderr what happens\n"
    "  -h, --help   --version\n"
    "\n"
    "Exit status: that of the first rank that failed; 128+N when it died of signal N; of "
    "MPI_Abort\n"
    "its code; 124 timeout; 126, 127 program cannot be started, not found; see pmirun(1).\n";

static long parse_number(const char *option, const char *text, long min, long max)
{
    char *end;
    long v;

    errno = 0;
    v = strtol(text, &end, 10);
    if (errno || end == text || *end || v < min || v > max)
        die(STATUS_USAGE, "%s wants a number from %ld to %ld, not \"%s\"", option, min, max, text);
    return v;
}

static double parse_seconds(const char *option, const char *text)
{
    char *end;
    double v;

    errno = 0;
    v = strtod(text, &end);
    if (errno || end == text || *end || !isfinite(v) || v < 0 || v > 1e9)
        die(STATUS_USAGE, "%s wants seconds, not \"%s\"", option, text);
    return v;
}

/* TCP's keep-alive is set by it, and takes no longer. */
static double parse_node_timeout(const char *option, const char *text)
{
    double v = parse_seconds(option, text);

    if (v > 80000)
        die(STATUS_USAGE, "%s wants up to 80000 seconds, or 0 for never", option);
    return v;
}

static void add_set(struct app *app, const char *text)
{
    const char *eq = strchr(text, '=');
    size_t name_len = eq ? (size_t)(eq - text) : strlen(text);

    if (name_len == 0)
        die(STATUS_USAGE, "-x wants VAR=VALUE, not \"%s\"", text);
    if (strncmp(text, "PMI_", 4) == 0 ||
        (name_len == 15 && memcmp(text, "MPI_LOCALRANKID", 15) == 0) ||
        (name_len == 15 && memcmp(text, "MPI_LOCALNRANKS", 15) == 0))
        die(STATUS_USAGE, "-x %.*s: this variable is set by pmirun", (int)name_len, text);
    if (!eq)
        return; /* the whole environment is passed on anyway */
    app->sets = xrealloc(app->sets, (app->n_sets + 2) * sizeof(*app->sets));
    app->sets[app->n_sets++] = xprintf("%s", text);
    app->sets[app->n_sets] = NULL;
}

struct cursor {
    int argc, at;
    char **argv;
};

/* The option's argument, the next word. */
static const char *argument(struct cursor *c)
{
    if (c->at + 1 >= c->argc)
        die(STATUS_USAGE, "%s wants an argument (see --help)", c->argv[c->at]);
    return c->argv[++c->at];
}

static bool is(const char *word, const char *a, const char *b)
{
    return strcmp(word, a) == 0 || (b && strcmp(word, b) == 0);
}

/* Which of up to three words it is. */
static int one_of(const char *option, const char *word, const char *a, const char *b, const char *c)
{
    const char *words[] = {a, b, c};

    for (int i = 0; i < 3; i++)
        if (words[i] && strcmp(word, words[i]) == 0)
            return i;
    die(STATUS_USAGE, "%s wants %s, %s%s%s, not \"%s\"", option, a, b, c ? " or " : "", c ? c : "",
        word);
}

static enum mpi_way parse_mpi(const char *option, const char *text)
{
    static const char *const names[] = {"auto", "pmi", "openmpi", "pmix"};

    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0)
            return (enum mpi_way)i;
    die(STATUS_USAGE, "%s wants auto, pmi, openmpi or pmix, not \"%s\"", option, text);
}

/* A name becomes an argument of ssh: it must not look like an option. */
static void parse_hosts(struct options *opt, const char *text)
{
    char *h = xprintf("%s", text), *comma;

    if (!*h)
        die(STATUS_USAGE, "--hosts wants names with commas between them");
    for (uint32_t i = 1; h; i++, h = comma) {
        if ((comma = strchr(h, ',')))
            *comma++ = '\0';
        if (!*h)
            die(STATUS_USAGE, "--hosts %s: name %u of the list is empty", text, i);
        if (h[0] == '-' ||
            h[strspn(h, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@%[]:")])
            die(STATUS_USAGE, "--hosts: \"%s\" is no host's name", h);
        opt->hosts = xrealloc(opt->hosts, (opt->n_hosts + 1) * sizeof(*opt->hosts));
        opt->hosts[opt->n_hosts++] = h;
    }
}

/* How many nodes, and how to get there. */
static void settle_nodes(struct options *opt)
{
    if (opt->n_nodes == 0)
        opt->n_nodes = opt->n_hosts ? opt->n_hosts : 1;
    if (opt->launch == LAUNCH_HERE) {
        if (opt->n_hosts)
            opt->launch = LAUNCH_SSH;
        else if (opt->n_nodes > 1)
            die(STATUS_USAGE, "-N %u: how to get there? Give --hosts, or --launch srun or fork",
                opt->n_nodes);
    }
    if (opt->launch == LAUNCH_SSH && !opt->n_hosts)
        die(STATUS_USAGE, "--launch ssh: to which hosts? Give --hosts");
    if (opt->n_hosts && opt->n_hosts < opt->n_nodes)
        die(STATUS_USAGE, "%u hosts for %u nodes", opt->n_hosts, opt->n_nodes);
    if (opt->n_nodes > opt->n_procs)
        opt->n_nodes = opt->n_procs; /* a node without ranks has no part in the job */
    if (opt->max_spawned == UINT32_MAX)
        opt->max_spawned = opt->n_nodes * MAX_SPAWNED;
}

static bool global_option(struct options *opt, struct cursor *c, const char *w)
{
    if (is(w, "-l", "--label"))
        opt->labels = true;
    else if (is(w, "--timeout", "-timeout"))
        opt->timeout_s = parse_seconds(w, argument(c));
    else if (is(w, "--get-timeout", NULL))
        opt->get_s = parse_seconds(w, argument(c));
    else if (is(w, "--pmi-port", "-pmi-port"))
        opt->use_port = true;
    else if (is(w, "--universe-size", NULL))
        opt->universe_size = (int32_t)parse_number(w, argument(c), -1, INT32_MAX);
    else if (is(w, "--stall-timeout", NULL))
        opt->stall_s = parse_seconds(w, argument(c));
    else if (is(w, "-N", "--nodes"))
        opt->n_nodes = (uint32_t)parse_number(w, argument(c), 1, 65536);
    else if (is(w, "--hosts", "-hosts"))
        parse_hosts(opt, argument(c));
    else if (is(w, "--launch", NULL))
        opt->launch =
            (enum launch_kind)(LAUNCH_FORK + one_of(w, argument(c), "fork", "ssh", "srun"));
    else if (is(w, "--launch-agent", NULL))
        opt->launch_agent = xprintf("%s", argument(c));
    else if (is(w, "--map", NULL))
        opt->cyclic = one_of(w, argument(c), "block", "cyclic", NULL) == 1;
    else if (is(w, "--links", NULL))
        opt->links = (enum link_kind)one_of(w, argument(c), "any", "tcp", "ucx");
    else if (is(w, "--design", NULL))
        opt->design = (uint32_t)one_of(w, argument(c), "dkvs", "direct", "tree");
    else if (is(w, "--start-timeout", NULL))
        opt->start_s = parse_seconds(w, argument(c));
    else if (is(w, "--node-timeout", NULL))
        opt->node_s = parse_node_timeout(w, argument(c));
    else if (is(w, "--mpi", NULL))
        opt->mpi = parse_mpi(w, argument(c));
    else if (is(w, "--no-shm", NULL))
        opt->no_shm = true;
    else if (is(w, "--shm-max", NULL))
        opt->shm_max_bytes = (uint64_t)parse_number(w, argument(c), 1, 65536) << 20;
    else if (is(w, "--pmi-1.2", NULL))
        opt->pmi_1_2 = true;
    else if (is(w, "--max-procs", NULL))
        opt->max_spawned = (uint32_t)parse_number(w, argument(c), 0, MAX_PROCS);
    else if (is(w, "--stats", "--stats=json"))
        opt->stats = STATS_JSON;
    else if (is(w, "--stats=table", NULL))
        opt->stats = STATS_TABLE;
    else if (is(w, "--progress", NULL))
        opt->progress = true;
    else if (is(w, "--timeline", NULL))
        opt->timeline = xprintf("%s", argument(c));
    else if (is(w, "-v", "--verbose"))
        opt->verbose = true;
    else
        return false;
    return true;
}

static void end_of_output(void)
{
    if (fflush(stdout) != 0)
        die(STATUS_OUTPUT, "cannot write to stdout: %s", strerror(errno));
    exit(0);
}

/* Options up to the program's name. */
static void parse_group_options(struct options *opt, struct app *app, struct cursor *c)
{
    for (; c->at < c->argc; c->at++) {
        const char *w = c->argv[c->at];

        if (w[0] != '-' || w[1] == '\0')
            return;
        if (is(w, "--", NULL)) {
            c->at++;
            return;
        }
        if (is(w, "-h", "--help")) {
            fputs(usage, stdout);
            end_of_output();
        } else if (is(w, "--version", "-V")) {
            printf("pmirun %s (libpmiwire %s)\n", PMIWIRE_VERSION, pmiwire_version());
            end_of_output();
        } else if (is(w, "-n", "-np")) {
            app->n_procs = (uint32_t)parse_number(w, argument(c), 1, MAX_PROCS);
        } else if (is(w, "-x", NULL)) {
            add_set(app, argument(c));
        } else if (is(w, "--wdir", "-wdir")) {
            app->wdir = xprintf("%s", argument(c));
            if (!app->wdir[0])
                die(STATUS_USAGE, "%s: the directory's name is empty", w);
        } else if (!global_option(opt, c, w)) {
            die(STATUS_USAGE, "unknown option %s (see --help)", w);
        } else if (opt->n_apps > 0) {
            die(STATUS_USAGE, "%s is for the whole job: it belongs before the first program", w);
        }
    }
}

void options_parse(struct options *opt, int argc, char **argv)
{
    struct cursor c = {argc, 1, argv};

    opt->universe_size = -1;
    opt->max_spawned = UINT32_MAX; /* not said */
    opt->stall_s = 60;
    opt->get_s = 60;
    opt->start_s = 60;
    opt->node_s = 25;
    opt->links = LINKS_TCP;
    opt->shm_max_bytes = UINT64_C(1024) << 20;
    do {
        struct app app = {.n_procs = 1};
        int first;

        parse_group_options(opt, &app, &c);
        first = c.at;
        while (c.at < argc && !is(argv[c.at], ":", NULL))
            c.at++;
        if (c.at == first)
            die(STATUS_USAGE, "no program given (see --help)");
        if (!argv[first][0])
            die(STATUS_USAGE, "the program's name is empty");
        app.argv = xrealloc(NULL, (size_t)(c.at - first + 1) * sizeof(char *));
        memcpy(app.argv, argv + first, (size_t)(c.at - first) * sizeof(char *));
        app.argv[c.at - first] = NULL;
        opt->apps = xrealloc(opt->apps, (opt->n_apps + 1) * sizeof(app));
        opt->apps[opt->n_apps++] = app;
        opt->n_procs += app.n_procs;
        if (opt->n_procs > MAX_PROCS)
            die(STATUS_USAGE, "more than %u processes", MAX_PROCS);
    } while (c.at < argc && ++c.at <= argc);
    settle_nodes(opt);
}
