/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How agents get to their nodes.
 *
 * An agent is started by ssh (one for each node), by one srun for all, or here (--launch fork), and
 * reads from its stdin a few lines: the job's name and secret, its number, and where we listen. The
 * secret is nowhere else: not among arguments, not in an environment, not in what anybody prints.
 * The agent connects to us and proves that it has it, as we do (channel.c). Its stdin stays open:
 * its end says that we are gone.
 */
#define _GNU_SOURCE
#include "nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const char *starter_program(const struct pmirun *pr)
{
    return pr->opt.launch_agent           ? pr->opt.launch_agent
           : pr->opt.launch == LAUNCH_SSH ? "ssh"
                                          : "srun";
}

/* What brings agents to nodes: NULL-terminated, to be freed with its strings. */
static char **starter_argv(const struct pmirun *pr, const char *self, const struct starter *s)
{
    char **v = xrealloc(NULL, 16 * sizeof(*v)), *hosts;
    size_t n = 0;

    switch (pr->opt.launch) {
    case LAUNCH_SSH:
        v[n++] = xprintf("%s", starter_program(pr));
        v[n++] = xprintf("-x");
        v[n++] = xprintf("%s", pr->opt.hosts[s->first]);
        v[n++] = xprintf("'%s' --agent", self); /* a shell reads this */
        break;
    case LAUNCH_SRUN:
        v[n++] = xprintf("%s", starter_program(pr));
        v[n++] = xprintf("--nodes=%u", s->n);
        v[n++] = xprintf("--ntasks=%u", s->n);
        v[n++] = xprintf("--ntasks-per-node=1");
        v[n++] = xprintf("--mpi=none");
        v[n++] = xprintf("--overlap");
        v[n++] = xprintf("--unbuffered");
        v[n++] = xprintf("--kill-on-bad-exit=0");
        if (pr->opt.n_hosts) {
            hosts = NULL;
            for (uint32_t i = 0; i < s->n; i++)
                hosts = xappend(hosts, "%s%s", i ? "," : "", pr->opt.hosts[i]);
            v[n++] = xprintf("--nodelist=%s", hosts);
            free(hosts);
        }
        v[n++] = xprintf("%s", self);
        v[n++] = xprintf("--agent");
        break;
    default: v[n++] = xprintf("%s", self); v[n++] = xprintf("--agent");
    }
    v[n] = NULL;
    return v;
}

/* UCX's variables, which an agent that may use it wants before it is told all others: lines for it.
 * Says which are left out. */
static char *ucx_settings(struct pmirun *pr)
{
    char *all = xprintf("%s", "");

    for (char **e = environ; *e && pr->opt.links != LINKS_TCP; e++) {
        bool is_lines = strchr(*e, '\n') != NULL;

        if (strncmp(*e, "UCX_", 4) != 0)
            continue;
        if (is_lines || strlen(all) + strlen(*e) > UCX_SETTINGS_BYTES) {
            say(pr, "%.*s does not reach the agents' UCX: %s", (int)strcspn(*e, "="), *e,
                is_lines ? "it has more than one line"
                         : "all such variables together take too many bytes");
            continue;
        }
        all = xappend(all, "set %s\n", *e);
    }
    return all;
}

/* To a pipe that is empty, and has room for all of it: it need not wait. False with errno. */
static bool write_all(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, text, n);

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return false;
        text += w;
        n -= (size_t)w;
    }
    return true;
}

/* Nobody reads what we write to it: because it has ended, as a process has soon after its
 * descriptors are closed? How is told when it is reaped. */
static bool has_ended(const struct starter *s)
{
    const struct timespec a_while = {.tv_nsec = 5 * NS_PER_MS};
    siginfo_t si;

    for (int i = 0; i < 200; i++) {
        si.si_pid = 0;
        if (waitid(P_PID, (id_t)s->pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid)
            return true;
        nanosleep(&a_while, NULL);
    }
    return false;
}

/* The lines that an agent reads. A node's number, or that srun tells it. */
static void write_bootstrap(struct pmirun *pr, struct starter *s, const char *sets)
{
    const struct channel_self *self = &pr->nodes->net.self;
    char *addresses = pr->opt.launch == LAUNCH_FORK ? xprintf("127.0.0.1") : net_own_addresses(),
         *text;
    char secret[2 * CHANNEL_SECRET_BYTES + 1], job[2 * CHANNEL_JOB_BYTES + 1], node[16], why[160];
    static const char *const links[] = {"any", "tcp", "ucx"};
    size_t n;

    sodium_bin2hex(secret, sizeof(secret), self->secret, CHANNEL_SECRET_BYTES);
    sodium_bin2hex(job, sizeof(job), self->job, CHANNEL_JOB_BYTES);
    if (pr->opt.launch == LAUNCH_SRUN)
        snprintf(node, sizeof(node), "srun");
    else
        snprintf(node, sizeof(node), "%u", s->first);
    text = xprintf("pmirun-agent 1\njob %s\nsecret %s\nnode %s\nnodes %u\nlinks %s\nsilence "
                   "%.0f\nport %u\nhead %s\n%send\n",
                   job, secret, node, pr->opt.n_nodes, links[pr->opt.links], pr->opt.node_s * 1e3,
                   pr->nodes->head.port, addresses, sets);
    n = strlen(text);
    if (!write_all(s->in, text, n) && !(errno == EPIPE && has_ended(s))) {
        snprintf(why, sizeof(why), "it cannot be told about the job: %s", strerror(errno));
        for (uint32_t i = s->first; i < s->first + s->n; i++)
            nodes_lost(pr, &pr->nodes->head.nodes[i], why);
    }
    sodium_memzero(text, n);
    sodium_memzero(secret, sizeof(secret));
    free(text);
    free(addresses);
}

static int spawn_starter(struct pmirun *pr, struct starter *s, char **argv, const int in[2],
                         const int out[2])
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t defaults;
    int rc;

    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, out[1], STDERR_FILENO);
    posix_spawnattr_init(&attr);
    /* A session of its own: what is typed at our terminal is for us, and we tell the agents. */
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attr, &pr->signals.orig_mask);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    rc = posix_spawnp(&s->pid, argv[0], &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

/* What ssh or an agent has to say, with the node in front. */
static void starter_line(struct pmirun *pr, struct starter *s)
{
    if (s->len > 0)
        say(pr, "%s: %.*s", s->n > 1 ? starter_program(pr) : nodes_name(pr, s->first), (int)s->len,
            s->line);
    s->len = 0;
}

static void on_starter(struct pmirun *pr, struct source *src, uint32_t events)
{
    struct starter *s = (struct starter *)src;

    (void)events;
    for (;;) {
        ssize_t n = read(src->fd, pr->scratch, SCRATCH_BYTES);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            break;
        for (ssize_t i = 0; i < n; i++) {
            bool end =
                pr->scratch[i] == '\n' || pr->scratch[i] == '\r'; /* ssh ends its lines with both */

            if (end || s->len == sizeof(s->line))
                starter_line(pr, s);
            if (!end)
                s->line[s->len++] = pr->scratch[i] == '\t' || (unsigned char)pr->scratch[i] >= 32
                                        ? pr->scratch[i]
                                        : '?';
        }
    }
    starter_line(pr, s);
    loop_close(pr, src);
}

static void start_one(struct pmirun *pr, struct starter *s, const char *self, const char *sets)
{
    const char *what = pr->opt.launch == LAUNCH_FORK ? self : starter_program(pr);
    int in[2], out[2], rc;
    char **argv;

    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        die(STATUS_RESOURCES, "cannot start %s: %s", what, strerror(errno));
    argv = starter_argv(pr, self, s);
    rc = spawn_starter(pr, s, argv, in, out);
    for (char **p = argv; *p; p++)
        free(*p);
    free(argv);
    if (rc == EAGAIN)
        die(STATUS_RESOURCES,
            "cannot start %s for node %u: the limit on processes is reached (ulimit -u)", what,
            s->first);
    if (rc)
        die(rc == ENOENT ? STATUS_NOTFOUND : STATUS_NOEXEC, "cannot start %s: %s", what,
            strerror(rc));
    close(in[0]);
    close(out[1]);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    s->in = in[1];
    s->src = (struct source){on_starter, out[0]};
    if (loop_add(pr, &s->src, EPOLLIN) != 0)
        die(STATUS_RESOURCES, "cannot start %s: out of memory", what);
    write_bootstrap(pr, s, sets);
    trace(pr, "pid %d: %s brings node %u%s", (int)s->pid, what, s->first,
          s->n > 1 ? " and following" : "");
}

void starter_close_stdin(struct starter *s)
{
    if (s->in >= 0)
        close(s->in);
    s->in = -1;
}

void starters_reaped(struct pmirun *pr, const siginfo_t *si)
{
    struct starter *s = NULL;
    char why[160];

    for (uint32_t i = 0; i < pr->nodes->head.n_starters && !s; i++)
        if (pr->nodes->head.starters[i].pid == si->si_pid)
            s = &pr->nodes->head.starters[i];
    if (!s)
        return;
    s->exited = true;
    starter_close_stdin(s);
    if (s->src.fd >= 0)
        on_starter(pr, &s->src, 0); /* its last words first */
    trace(pr, "pid %d, which brought node %u, %s %d", (int)s->pid, s->first,
          si->si_code == CLD_EXITED ? "exited with" : "died of", si->si_status);
    snprintf(why, sizeof(why), "%s %s %d before the agent was there",
             pr->opt.launch == LAUNCH_FORK ? "its process" : starter_program(pr),
             si->si_code == CLD_EXITED ? "exited with status" : "died of signal", si->si_status);
    for (uint32_t i = s->first; i < s->first + s->n; i++)
        if (!pr->nodes->head.nodes[i].link && !pr->nodes->head.nodes[i].done)
            nodes_lost(pr, &pr->nodes->head.nodes[i], why);
}

void starters_start(struct pmirun *pr, const char *self)
{
    struct head *h = &pr->nodes->head;
    char *sets = ucx_settings(pr);

    h->n_starters = pr->opt.launch == LAUNCH_SRUN ? 1 : pr->opt.n_nodes;
    h->starters = xrealloc(NULL, h->n_starters * sizeof(*h->starters));
    memset(h->starters, 0, h->n_starters * sizeof(*h->starters));
    for (uint32_t i = 0; i < h->n_starters; i++) {
        h->starters[i].first = i;
        h->starters[i].n = pr->opt.launch == LAUNCH_SRUN ? pr->opt.n_nodes : 1;
        start_one(pr, &h->starters[i], self, sets);
    }
    free(sets);
}
