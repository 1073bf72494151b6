/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How agents get to their nodes.
 *
 * The head starts agents by a command made from a template (one for each node; ssh is such a
 * command), by one srun for all, or as its children (--launch fork, and for this host itself under
 * ssh's template). At most --fanout commands run at a time; an agent that connects frees a place.
 * During --wait-hosts, the head runs a command that ends without an agent again, and ends one that
 * hangs, to run it again. The agent reads from its stdin a few lines: the job's name and secret,
 * its number, and the head's addresses. The secret is nowhere else: not among arguments, not in an
 * environment, not in any output. Agent and head prove to each other that they have it (channel.c).
 * The agent's stdin stays open; its end means that the head is gone.
 */
#define _GNU_SOURCE
#include "head.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../allocation.h"
#include "../local/job.h"
#include "../local/role.h"
#include "../template.h"
#include "step.h"

#define AGAIN_NS   NS_PER_S /* between two tries to reach a host */
#define TRY_S      10       /* for the first try, at most; each later one has twice the time */
#define MIN_TRY_S  1        /* a slow login does not hang */
#define TERM_NS    (2 * NS_PER_S)  /* between SIGTERM and SIGKILL for a command that hangs */
#define FULL_NS    (10 * NS_PER_S) /* for an agent to read: meanwhile the head serves no others */
#define PIECE      4096            /* bytes to read at once; each line of them is a write */
#define LAST_READS 17              /* the pieces that a pipe holds, and its end */

/* Its name in messages. */
static const char *starter_program(const struct options *opt, const struct starter *s)
{
    if (s->here)
        return "its process";
    if (opt->launch != LAUNCH_SRUN)
        return template_name(opt->template);
    return opt->launch_agent ? opt->launch_agent : "srun";
}

static char **srun_argv(const struct head *h, const struct starter *s)
{
    char **v = xrealloc(NULL, 16 * sizeof(*v)), *hosts;
    size_t n = 0;

    v[n++] = xprintf("%s", starter_program(h->opt, s));
    v[n++] = xprintf("--nodes=%u", s->n);
    v[n++] = xprintf("--ntasks=%u", s->n);
    v[n++] = xprintf("--ntasks-per-node=1");
    v[n++] = xprintf("--mpi=none");
    v[n++] = xprintf("--overlap");
    v[n++] = xprintf("--unbuffered");
    v[n++] = xprintf("--kill-on-bad-exit=0");
    /* A whole allocation needs no names; they may take more bytes than an argument can hold. */
    if (h->opt->given.n_hosts && !(h->opt->given.variable && s->n == h->opt->given.n_hosts)) {
        hosts = NULL;
        for (uint32_t i = 0; i < s->n; i++)
            hosts = xappend(hosts, "%s%s", i ? "," : "", h->opt->given.hosts[i]);
        v[n++] = xprintf("--nodelist=%s", hosts);
        free(hosts);
    }
    v[n++] = xprintf("%s", h->self);
    v[n++] = xprintf("--agent");
    v[n] = NULL;
    return v;
}

/* The command that starts agents: NULL-terminated, to be freed with its strings. */
static char **starter_argv(const struct head *h, const struct starter *s)
{
    static char *command[] = {NULL};
    static const struct template itself = {.words = command, .n_words = 1};

    if (h->opt->launch == LAUNCH_SRUN)
        return srun_argv(h, s);
    return template_argv(s->here ? &itself : h->opt->template, head_node_name(h, s->first),
                         h->self);
}

/* Writes to an empty pipe, which mostly has room for all. A user with many pipes gets small ones
 * (fs.pipe-user-pages-soft): then this waits for the reader. False with errno. */
static bool write_boot(const struct head *h, int fd, const char *text, size_t n)
{
    const uint64_t start_ns = h->start.at, now = clock_ns();
    const uint64_t end = start_ns < now + FULL_NS ? start_ns : now + FULL_NS;

    while (n > 0) {
        ssize_t w = write(fd, text, n);
        struct pollfd room = {.fd = fd, .events = POLLOUT};

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0 && errno == EAGAIN && clock_ns() < end) {
            poll(&room, 1, 100);
            continue;
        }
        if (w < 0)
            return false;
        text += w;
        n -= (size_t)w;
    }
    return true;
}

/* The reader of its stdin is gone: has the process ended? If so it ends soon after its descriptors
 * are closed, and we report how when we reap it. */
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

static void print_hex(char *to, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        snprintf(to + 2 * i, 3, "%02x", bytes[i]);
}

/* The lines that an agent reads. `node`: its number, or its source ("srun", "step"). `try`: of its
 * command, from 1 on; 0 where no command of ours starts it. */
static char *boot_lines(const struct head *h, const char *node, uint32_t try)
{
    const struct channel_self *self = &h->net.self;
    char *addresses = h->opt->launch == LAUNCH_FORK ? xprintf("127.0.0.1") : net_own_addresses(),
         *text;
    char secret[2 * CHANNEL_SECRET_BYTES + 1], job[2 * CHANNEL_JOB_BYTES + 1];

    print_hex(secret, self->secret, CHANNEL_SECRET_BYTES);
    print_hex(job, self->job, CHANNEL_JOB_BYTES);
    text =
        xprintf("pmirun-agent " BOOT_VERSION
                "\njob %s\nsecret %s\nnode %s\ntry %u\nnodes %u\nsilence %.0f\nport %u\nhead "
                "%s\nend\n",
                job, secret, node, try, h->opt->n_nodes, h->opt->node_s * 1e3, h->port, addresses);
    explicit_bzero(secret, sizeof(secret));
    free(addresses);
    return text;
}

static void write_bootstrap(struct head *h, struct starter *s)
{
    char node[16], why[160], *text;
    size_t n;

    if (h->opt->launch == LAUNCH_SRUN)
        snprintf(node, sizeof(node), "srun");
    else
        snprintf(node, sizeof(node), "%u", s->first);
    text = boot_lines(h, node, s->n_tries);
    n = strlen(text);
    if (!write_boot(h, s->in, text, n) && !(errno == EPIPE && has_ended(s))) {
        snprintf(why, sizeof(why), "the job cannot be sent to it: %s", strerror(errno));
        for (uint32_t i = s->first; i < s->first + s->n; i++)
            nodes_lost(h, &h->nodes[i], why);
    }
    explicit_bzero(text, n);
    free(text);
}

static int spawn_starter(struct head *h, struct starter *s, char **argv, const int in[2],
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
    /* A session of its own: the terminal's signals are for the head, which orders the agents. */
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attr, h->orig_mask);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    rc = posix_spawnp(&s->pid, argv[0], &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

/*
 * Advice on messages of ssh or a login shell; the first row that matches is used. %s is the host.
 */
static const struct {
    const char *said, *advice;
} advices[] = {
    {NULL, NULL}, /* 0: none */
    {"pmirun: agent: ", ""},
    {NULL, "pmirun must be there too, at the same path, with the libraries that it needs: install "
           "it on %s"},
    {"REMOTE HOST IDENTIFICATION HAS CHANGED",
     "its host key is not the one in known_hosts: if that is right, remove the old one "
     "(ssh-keygen -R %s) and log in by hand once"},
    {"Host key verification failed", "its host key is not known here: log in by hand once "
                                     "(ssh %s), or add the key to known_hosts"},
    {"Permission denied", "it asks for a password, which pmirun cannot enter: install a key there "
                          "(ssh-copy-id %s); a key with a passphrase needs ssh-agent"},
    {"Could not resolve hostname", "no host has the name %s"},
    {"Connection refused", "nothing answers there: is %s up? --wait-hosts SECONDS waits for it"},
    {"Connection timed out", "nothing answers there: is %s up? --wait-hosts SECONDS waits for it"},
    {"No route to host", "nothing answers there: is %s up? --wait-hosts SECONDS waits for it"},
};

#define ADVICE_PROGRAM 2u /* for a line that names our program */

static void find_advice(const char *self, struct starter *s)
{
    for (unsigned i = 1; i < sizeof(advices) / sizeof(advices[0]); i++) {
        const char *said = i == ADVICE_PROGRAM ? self : advices[i].said;

        if (memmem(s->line, s->len, said, strlen(said)) && (!s->advice || i < s->advice))
            s->advice = i;
    }
}

/* Prints a line of ssh or an agent, with the node in front. For a retried host, not in each try. */
static void starter_line(struct head *h, struct starter *s)
{
    const char *who = s->n > 1 ? starter_program(h->opt, s) : head_node_name(h, s->first);

    if (s->len == 0)
        return;
    find_advice(h->self, s);
    if (!memmem(s->line, s->len, "pmirun", 6))
        s->login_printed = true;
    if (s->under_way && s->n_tries > 1)
        log_verbose("%s: %.*s", who, (int)s->len, s->line);
    else
        log_message("%s: %.*s", who, (int)s->len, s->line);
    s->len = 0;
}

/* Prints one piece of its output. False: nothing more has arrived, or it was the end. */
static bool starter_read(struct head *h, struct starter *s)
{
    ssize_t n = read(s->src.fd, loop.scratch, PIECE);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    for (ssize_t i = 0; i < n; i++) {
        bool end =
            loop.scratch[i] == '\n' || loop.scratch[i] == '\r'; /* ssh ends its lines with both */

        if (end || s->len == sizeof(s->line))
            starter_line(h, s);
        if (!end)
            s->line[s->len++] = loop.scratch[i] == '\t' || (unsigned char)loop.scratch[i] >= 32
                                    ? loop.scratch[i]
                                    : '?';
    }
    if (n > 0)
        return true;
    starter_line(h, s);
    loop_close(&s->src);
    return false;
}

/* One piece only: it may print without end. */
static void on_starter(void *of, struct source *src, uint32_t events)
{
    starter_read(of, (struct starter *)src);
}

/* When to end this try; 0: never, since no time is left for another, or since srun may wait for its
 * nodes. */
static uint64_t try_limit(const struct head *h, const struct starter *s)
{
    const double quarter = h->opt->wait_s / 4, first_s = quarter < TRY_S ? quarter : TRY_S;
    uint64_t limit = (uint64_t)(first_s * 1e9);

    if (first_s < MIN_TRY_S)
        return 0;
    for (uint32_t i = 1; i < s->n_tries && limit < h->wait_ns; i++)
        limit *= 2;
    limit += loop.now_ns;
    return limit < h->wait_ns && h->opt->launch != LAUNCH_SRUN ? limit : 0;
}

static void start_one(struct head *h, struct starter *s)
{
    const char *what = s->here ? h->self : starter_program(h->opt, s);
    int in[2], out[2], rc;
    char **argv;

    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        die(STATUS_RESOURCES, "cannot start %s: %s", what, strerror(errno));
    argv = starter_argv(h, s);
    rc = spawn_starter(h, s, argv, in, out);
    for (char **p = argv; *p; p++)
        free(*p);
    free(argv);
    if (rc == EAGAIN)
        die(STATUS_RESOURCES,
            "cannot start %s for node %u: the limit on processes is reached (ulimit -u)", what,
            s->first);
    if (rc)
        die(rc == ENOENT ? STATUS_NOTFOUND : STATUS_NOEXEC, "cannot start %s: %s%s%s%s", what,
            strerror(rc), h->opt->given.variable ? "; the hosts are those in " : "",
            h->opt->given.variable ? h->opt->given.variable : "",
            h->opt->given.variable ? "; --launch chooses another way, --hosts localhost this host"
                                   : "");
    close(in[0]);
    close(out[1]);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    s->in = in[1];
    s->src = (struct source){on_starter, h, out[0], 0};
    s->state = STARTER_RUNS;
    s->under_way = true;
    s->n_tries++;
    s->advice = 0;
    s->hung = false;
    s->started_ns = loop.now_ns;
    s->limit_ns = try_limit(h, s);
    timer_sooner(&h->limit, s->limit_ns);
    h->n_under_way++;
    if (loop_add(&s->src, EPOLLIN) != 0)
        die(STATUS_RESOURCES, "cannot start %s: out of memory", what);
    write_bootstrap(h, s);
    log_verbose("pid %d: %s brings node %u%s", (int)s->pid, what, s->first,
                s->n > 1 ? " and following" : "");
}

static void close_stdin(struct starter *s)
{
    if (s->in >= 0)
        close(s->in);
    s->in = -1;
}

/* Kills commands whose time is up, each with its process group. They run again once reaped. */
static void end_hung(struct head *h)
{
    if (!timer_passed(&h->limit))
        return;
    timer_set(&h->limit, 0);
    for (uint32_t i = 0; i < h->n_starters; i++) {
        struct starter *s = &h->starters[i];

        if (s->state != STARTER_RUNS || !s->under_way || !s->limit_ns)
            continue;
        if (loop.now_ns >= s->limit_ns) {
            kill(-s->pid, s->hung ? SIGKILL : SIGTERM);
            s->hung = true;
            close_stdin(s);
            s->limit_ns = loop.now_ns + TERM_NS;
        }
        timer_sooner(&h->limit, s->limit_ns);
    }
}

void starters_more(struct head *h)
{
    timer_set(&h->again, 0);
    if (h->ending || h->jobs->stopping)
        return;
    end_hung(h);
    for (uint32_t i = h->first_waiting; i < h->n_starters && h->n_under_way < h->opt->fanout; i++) {
        struct starter *s = &h->starters[i];

        if (s->state == STARTER_WAITS && loop.now_ns >= s->again_ns)
            start_one(h, s);
        else if (s->state == STARTER_WAITS)
            timer_sooner(&h->again, s->again_ns);
        if (s->state != STARTER_WAITS && i == h->first_waiting)
            h->first_waiting++;
    }
}

static void free_place(struct head *h, struct starter *s)
{
    h->n_under_way -= s->under_way;
    s->under_way = false;
}

static struct starter *starter_of(const struct head *h, uint32_t node)
{
    return &h->starters[h->opt->launch == LAUNCH_SRUN ? 0 : node];
}

bool starters_came(struct head *h, uint32_t node, uint32_t try)
{
    struct starter *s = starter_of(h, node);

    if (try != s->n_tries || s->state == STARTER_WAITS || s->hung)
        return false;
    free_place(h, s);
    return true;
}

/* ---- how they end ---- */

/* The command ended without an agent. True: it runs again, since time is left, or the head killed
 * it to do so. */
static bool try_again(struct head *h, struct starter *s, const char *how)
{
    if (h->ending || h->jobs->stopping || (loop.now_ns >= h->wait_ns && !s->hung))
        return false;
    if (s->n_tries == 1)
        log_message("node %u (%s) cannot be reached yet: %s; trying for %g s", s->first,
                    head_node_name(h, s->first), how, h->opt->wait_s);
    loop_close(&s->src); /* another process may have it open still */
    s->len = 0;
    s->state = STARTER_WAITS;
    s->again_ns = loop.now_ns + AGAIN_NS;
    if (s < &h->starters[h->first_waiting])
        h->first_waiting = (uint32_t)(s - h->starters);
    return true;
}

/* Appends the advice for its output. */
static char *append_advice(const struct head *h, const struct starter *s, char *all)
{
    const char *host = head_node_name(h, s->first);
    char advice[512], *trial;

    if (s->advice) {
        snprintf(advice, sizeof(advice), advices[s->advice].advice, host);
        return advice[0] ? xappend(all, ": %s", advice) : all;
    }
    if (s->here || h->opt->launch == LAUNCH_SRUN)
        return all;
    trial = template_trial(h->opt->template, host);
    all = xappend(all, ": does \"%s\" work by hand?", trial);
    free(trial);
    return all;
}

/* The reason for its end, with advice; to be freed. */
static char *explain_end(const struct head *h, const struct starter *s, const char *how)
{
    char *all = xprintf("%s", how);

    if (s->n_tries > 1)
        all = xappend(all, ", %u times in %g s", s->n_tries, h->opt->wait_s);
    return append_advice(h, s, all);
}

char *starters_silent(const struct head *h, uint32_t node, const char *how)
{
    const struct starter *s = starter_of(h, node);
    char *all = xprintf("%s", how);

    if (s->state == STARTER_RUNS && s->under_way)
        all = xappend(all, ", and %.160s still runs", starter_program(h->opt, s));
    if (s->n_tries > 1)
        all = xappend(all, ", in try %u", s->n_tries);
    return append_advice(h, s, all);
}

/* A login that prints is no failure: the head prints once how to silence it. */
static void note_login(struct head *h, const struct starter *s)
{
    if (h->opt->launch != LAUNCH_SSH || !s->login_printed || h->jobs->stopping || h->login_told)
        return;
    h->login_told = true;
    log_message(
        "the login on %s prints: harmless; to silence it, put [ -t 1 ] || return at the top of "
        "~/.bashrc there",
        head_node_name(h, s->first));
}

static void brought_none(struct head *h, struct starter *s, const siginfo_t *si)
{
    char how[256], *why;
    bool none = true;

    for (uint32_t i = s->first; i < s->first + s->n; i++)
        none = none && !h->nodes[i].link && !h->nodes[i].done;
    if (s->hung)
        snprintf(how, sizeof(how), "%.160s started no agent in %.3g s, and was killed",
                 starter_program(h->opt, s), (double)(loop.now_ns - s->started_ns) / 1e9);
    else
        snprintf(
            how, sizeof(how), "%.160s %s %d before its agent connected", starter_program(h->opt, s),
            si->si_code == CLD_EXITED ? "exited with status" : "died of signal", si->si_status);
    if (none && try_again(h, s, how))
        return;
    why = explain_end(h, s, how);
    for (uint32_t i = s->first; i < s->first + s->n; i++)
        if (!h->nodes[i].link && !h->nodes[i].done)
            nodes_lost(h, &h->nodes[i], why);
    free(why);
}

void head_reap_starter(struct head *h, const siginfo_t *si)
{
    struct starter *s = NULL;
    bool came;

    for (uint32_t i = 0; i < h->n_starters && !s; i++)
        if (h->starters[i].state == STARTER_RUNS && h->starters[i].pid == si->si_pid)
            s = &h->starters[i];
    if (!s)
        return;
    s->state = STARTER_EXITED;
    close_stdin(s);
    /* Its last output first: no more than a pipe holds, as a process that it left may print on. */
    for (int i = 0; i < LAST_READS && s->src.fd >= 0 && starter_read(h, s); i++)
        ;
    log_verbose("pid %d, which brought node %u, %s %d", (int)s->pid, s->first,
                si->si_code == CLD_EXITED ? "exited with" : "died of", si->si_status);
    came = !s->under_way;
    free_place(h, s);
    if (came && si->si_code == CLD_EXITED)
        note_login(h, s);
    brought_none(h, s, si);
}

void starters_stop(struct head *h)
{
    for (uint32_t i = 0; i < h->n_starters; i++) {
        struct starter *s = &h->starters[i];
        bool comes = true;

        for (uint32_t k = s->first; k < s->first + s->n; k++)
            comes = comes && h->nodes[k].link;
        if (comes || s->state != STARTER_RUNS)
            continue;
        close_stdin(s);
        kill(s->pid, SIGTERM);
    }
}

bool starters_end(struct head *h)
{
    bool all = true;

    for (uint32_t i = 0; i < h->n_starters; i++) {
        struct starter *s = &h->starters[i];

        close_stdin(s);
        all = all && s->state != STARTER_RUNS;
    }
    return all;
}

/* ---- how they begin ---- */

void starters_init(struct head *h, const char *self)
{
    const enum launch_kind launch = h->opt->launch;
    const bool one = launch == LAUNCH_SRUN;

    h->self = self;
    h->wait_ns = loop.now_ns + (uint64_t)(h->opt->wait_s * 1e9);
    h->n_starters = one ? 1 : h->opt->n_nodes;
    h->starters = xrealloc(NULL, h->n_starters * sizeof(*h->starters));
    memset(h->starters, 0, h->n_starters * sizeof(*h->starters));
    for (uint32_t i = 0; i < h->n_starters; i++) {
        struct starter *s = &h->starters[i];

        s->first = i;
        s->n = one ? h->opt->n_nodes : 1;
        s->in = s->src.fd = -1;
        s->here = launch == LAUNCH_FORK || launch == LAUNCH_STEP ||
                  (launch == LAUNCH_SSH && host_is_own(h->opt->given.hosts[i]));
        if (launch == LAUNCH_STEP) /* slurmstepd starts the agent */
            s->state = STARTER_EXITED;
    }
    if (launch == LAUNCH_STEP)
        step_begin(h, boot_lines(h, "step", 0));
    starters_more(h);
}
