/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The head's nodes: how agents get there, what they are told, and how they are lost.
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
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define END_NS   (8 * NS_PER_S) /* for agents to end what is left of their ranks */
#define REAP_NS  (2 * NS_PER_S) /* for ssh and srun to leave after their agents */
#define HUNG_NS  (6 * NS_PER_S) /* after SIGKILL, for agents to tell of their ranks' end */
#define NEVER_S  1e9            /* the longest --start-timeout, which 0 stands for */
#define OWED_MIN 65536u
/* that a node leaves without an answer; --node-timeout is one more of their intervals */
#define ASKS 4u

extern char **environ;

const char *nodes_name(const struct pmirun *pr, uint32_t node)
{
    return pr->head->nodes[node].name;
}

/* ---- starters ---- */

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
            hosts = xprintf("%s", pr->opt.hosts[0]);
            for (uint32_t i = 1; i < s->n; i++) {
                char *more = xprintf("%s,%s", hosts, pr->opt.hosts[i]);

                free(hosts);
                hosts = more;
            }
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
        char *longer;

        if (strncmp(*e, "UCX_", 4) != 0)
            continue;
        if (is_lines || strlen(all) + strlen(*e) > UCX_SETTINGS_BYTES) {
            say(pr, "%.*s does not reach the agents' UCX: %s", (int)strcspn(*e, "="), *e,
                is_lines ? "it has more than one line"
                         : "all such variables together take too many bytes");
            continue;
        }
        longer = xprintf("%sset %s\n", all, *e);
        free(all);
        all = longer;
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
    const struct channel_self *self = &pr->net->self;
    char *addresses = pr->opt.launch == LAUNCH_FORK ? xprintf("127.0.0.1") : net_own_addresses(),
         *text;
    char secret[2 * CHANNEL_SECRET_BYTES + 1], job[2 * CHANNEL_JOB_BYTES + 1], node[16], why[160];
    static const char *const links[] = {"any", "tcp", "ucx"};
    size_t n;

    for (size_t i = 0; i < CHANNEL_SECRET_BYTES; i++)
        snprintf(secret + 2 * i, 3, "%02x", self->secret[i]);
    for (size_t i = 0; i < CHANNEL_JOB_BYTES; i++)
        snprintf(job + 2 * i, 3, "%02x", self->job[i]);
    if (pr->opt.launch == LAUNCH_SRUN)
        snprintf(node, sizeof(node), "srun");
    else
        snprintf(node, sizeof(node), "%u", s->first);
    text = xprintf("pmirun-agent 1\njob %s\nsecret %s\nnode %s\nnodes %u\nlinks %s\nsilence "
                   "%.0f\nport %u\nhead %s\n%send\n",
                   job, secret, node, pr->opt.n_nodes, links[pr->opt.links], pr->opt.node_s * 1e3,
                   pr->head->port, addresses, sets);
    n = strlen(text);
    if (!write_all(s->in, text, n) && !(errno == EPIPE && has_ended(s))) {
        snprintf(why, sizeof(why), "it cannot be told about the job: %s", strerror(errno));
        for (uint32_t i = s->first; i < s->first + s->n; i++)
            nodes_lost(pr, &pr->head->nodes[i], why);
    }
    explicit_bzero(text, n);
    explicit_bzero(secret, sizeof(secret));
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
    posix_spawnattr_setsigmask(&attr, &pr->orig_mask);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    rc = posix_spawnp(&s->pid, argv[0], &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

static void start_one(struct pmirun *pr, struct starter *s, const char *self, const char *sets)
{
    char **argv = starter_argv(pr, self, s);
    int in[2], out[2], rc;

    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        die(STATUS_RESOURCES, "cannot start %s: %s", argv[0], strerror(errno));
    rc = spawn_starter(pr, s, argv, in, out);
    if (rc == EAGAIN)
        die(STATUS_RESOURCES,
            "cannot start %s for node %u: the limit on processes is reached (ulimit -u)", argv[0],
            s->first);
    if (rc)
        die(rc == ENOENT ? STATUS_NOTFOUND : STATUS_NOEXEC, "cannot start %s: %s", argv[0],
            strerror(rc));
    close(in[0]);
    close(out[1]);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    s->in = in[1];
    s->src = (struct source){SOURCE_STARTER, out[0]};
    if (loop_add(pr, &s->src, EPOLLIN) != 0)
        die(STATUS_RESOURCES, "cannot start %s: out of memory", argv[0]);
    write_bootstrap(pr, s, sets);
    trace(pr, "pid %d: %s brings node %u%s", (int)s->pid, argv[0], s->first,
          s->n > 1 ? " and following" : "");
    for (char **p = argv; *p; p++)
        free(*p);
    free(argv);
}

static void must_fill_random(void *p, size_t n)
{
    while (getrandom(p, n, 0) != (ssize_t)n) /* never less, up to 256 bytes */
        if (errno != EINTR)
            die(STATUS_RESOURCES, "getrandom: %s", strerror(errno));
}

/* Three descriptors a node, and those of strangers. The limit is raised only where that is needed,
 * since ssh and srun inherit it. */
static void check_limit(uint32_t n_nodes)
{
    rlim_t need = 4 * (rlim_t)n_nodes + NET_MAX_STRANGERS + 64;
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur >= need)
        return;
    lim.rlim_cur = need;
    if (need > lim.rlim_max || setrlimit(RLIMIT_NOFILE, &lim) != 0)
        die(STATUS_RESOURCES,
            "%u nodes need %llu descriptors, the limit is %llu: raise it (ulimit -n)", n_nodes,
            (unsigned long long)need, (unsigned long long)lim.rlim_max);
}

void nodes_start(struct pmirun *pr)
{
    struct head *h = pr->head;
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *cwd = getcwd(NULL, 0), *sets;
    int rc;

    if (n < 0)
        die(STATUS_RESOURCES, "cannot tell nodes where pmirun is: /proc/self/exe: %s",
            strerror(errno));
    self[n] = '\0';
    if (strchr(self, '\''))
        die(STATUS_USAGE, "cannot tell nodes where pmirun is: %s has a quote in its name", self);
    if (!cwd)
        die(STATUS_NOEXEC, "cannot tell nodes the working directory: %s", strerror(errno));
    free(cwd);
    check_limit(pr->opt.n_nodes);
    must_fill_random(pr->net->self.secret, CHANNEL_SECRET_BYTES);
    must_fill_random(pr->net->self.job, CHANNEL_JOB_BYTES);
    pr->net->self.id = CHANNEL_HEAD;
    net_init(pr, &head_net_ops);
    rc = net_listen(pr, pr->opt.launch == LAUNCH_FORK ? "127.0.0.1" : NULL, &h->port);
    if (rc)
        die(STATUS_RESOURCES, "cannot listen: %s", strerror(-rc));
    h->nodes = xrealloc(NULL, pr->opt.n_nodes * sizeof(*h->nodes));
    memset(h->nodes, 0, pr->opt.n_nodes * sizeof(*h->nodes));
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++) {
        h->nodes[i].id = i;
        h->nodes[i].name = pr->opt.n_hosts && pr->opt.launch != LAUNCH_SRUN
                               ? xprintf("%s", pr->opt.hosts[i])
                               : xprintf("node%u", i);
    }
    h->n_starters = pr->opt.launch == LAUNCH_SRUN ? 1 : pr->opt.n_nodes;
    h->starters = xrealloc(NULL, h->n_starters * sizeof(*h->starters));
    memset(h->starters, 0, h->n_starters * sizeof(*h->starters));
    sets = ucx_settings(pr);
    for (uint32_t i = 0; i < h->n_starters; i++) {
        h->starters[i].first = i;
        h->starters[i].n = pr->opt.launch == LAUNCH_SRUN ? pr->opt.n_nodes : 1;
        start_one(pr, &h->starters[i], self, sets);
    }
    free(sets);
    h->start_ns = pr->now_ns + (uint64_t)((pr->opt.start_s > 0 ? pr->opt.start_s : NEVER_S) * 1e9);
}

/* What ssh or an agent has to say, with the node in front. */
static void starter_line(struct pmirun *pr, struct starter *s)
{
    if (s->len > 0)
        say(pr, "%s: %.*s", s->n > 1 ? starter_program(pr) : nodes_name(pr, s->first), (int)s->len,
            s->line);
    s->len = 0;
}

void nodes_starter_event(struct pmirun *pr, struct source *src)
{
    struct starter *s = (struct starter *)src;

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
    loop_del(pr, src);
    close(src->fd);
    src->fd = -1;
}

static void close_stdin(struct starter *s)
{
    if (s->in >= 0)
        close(s->in);
    s->in = -1;
}

void nodes_reaped(struct pmirun *pr, const siginfo_t *si)
{
    struct starter *s = NULL;
    char why[160];

    for (uint32_t i = 0; i < pr->head->n_starters && !s; i++)
        if (pr->head->starters[i].pid == si->si_pid)
            s = &pr->head->starters[i];
    if (!s)
        return;
    s->exited = true;
    close_stdin(s);
    if (s->src.fd >= 0)
        nodes_starter_event(pr, &s->src); /* its last words first */
    trace(pr, "pid %d, which brought node %u, %s %d", (int)s->pid, s->first,
          si->si_code == CLD_EXITED ? "exited with" : "died of", si->si_status);
    snprintf(why, sizeof(why), "%s %s %d before the agent was there",
             pr->opt.launch == LAUNCH_FORK ? "its process" : starter_program(pr),
             si->si_code == CLD_EXITED ? "exited with status" : "died of signal", si->si_status);
    for (uint32_t i = s->first; i < s->first + s->n; i++)
        if (!pr->head->nodes[i].link && !pr->head->nodes[i].done)
            nodes_lost(pr, &pr->head->nodes[i], why);
}

/* ---- telling agents ---- */

void nodes_tell(struct pmirun *pr, struct node *node, const struct msg *m)
{
    int rc =
        node->link ? net_send(pr, node->link, m->p, m->len) : 0; /* a lost one is known as such */

    if (rc && rc != -EPIPE)
        nodes_lost(pr, node, strerror(-rc));
}

void nodes_tell_all(struct pmirun *pr, const struct msg *m)
{
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++)
        nodes_tell(pr, &pr->head->nodes[i], m);
}

static void tell_number(struct pmirun *pr, enum message what, uint32_t number)
{
    struct msg m = {0};

    msg_begin(&m, what);
    msg_u32(&m, number);
    nodes_tell_all(pr, &m);
    msg_free(&m);
}

void nodes_signal(struct pmirun *pr, int sig)
{
    tell_number(pr, MSG_SIGNAL, (uint32_t)sig);
}

void nodes_stop(struct pmirun *pr)
{
    tell_number(pr, MSG_STOP, 0);
}

void nodes_abandon(struct pmirun *pr, struct job *job)
{
    tell_number(pr, MSG_ABANDON, job->number);
}

void nodes_over(struct pmirun *pr, const struct job *job)
{
    tell_number(pr, MSG_OVER, job->number);
}

void nodes_spawned(struct pmirun *pr, uint32_t node, uint64_t token, int err, const char *kvsname)
{
    struct msg m = {0};

    msg_begin(&m, MSG_SPAWNED);
    msg_u64(&m, token);
    msg_u32(&m, (uint32_t)err);
    msg_string(&m, kvsname);
    nodes_tell(pr, &pr->head->nodes[node], &m);
    msg_free(&m);
}

void nodes_room(struct pmirun *pr, const struct sink *sk)
{
    uint32_t which = sk == &pr->err;
    struct msg m = {0};

    for (uint32_t i = 0; i < pr->opt.n_nodes; i++) {
        struct node *node = &pr->head->nodes[i];

        if (node->owed[which] < OWED_MIN)
            continue;
        msg_begin(&m, MSG_ROOM);
        msg_u32(&m, which + 1);
        msg_u32(&m, node->owed[which]);
        node->owed[which] = 0;
        nodes_tell(pr, node, &m);
    }
    msg_free(&m);
}

bool nodes_send_input(struct pmirun *pr, const char *p, size_t n)
{
    struct node *node = &pr->head->nodes[pr->jobs->ranks[0].node];
    struct msg m = {0};

    if (!node->link)
        return false;
    msg_begin(&m, MSG_INPUT);
    msg_text(&m, p, n);
    nodes_tell(pr, node, &m);
    msg_free(&m);
    return true;
}

/* ---- jobs ---- */

/* The nodes named in `hosts`, in this order, or all; 0: one is none of ours. */
static uint32_t named_nodes(const struct pmirun *pr, const char *hosts, uint32_t *nodes)
{
    uint32_t n = 0, i;
    char *list, *save = NULL;

    if (!hosts) {
        for (; n < pr->opt.n_nodes; n++)
            nodes[n] = n;
        return n;
    }
    list = xprintf("%s", hosts);
    for (char *h = strtok_r(list, ", ", &save); h; h = strtok_r(NULL, ", ", &save)) {
        for (i = 0; i < pr->opt.n_nodes && strcmp(h, nodes_name(pr, i)) != 0; i++)
            ;
        if (i == pr->opt.n_nodes || n == pr->opt.n_nodes) {
            n = 0;
            break;
        }
        nodes[n++] = i;
    }
    free(list);
    return n;
}

bool nodes_place(const struct pmirun *pr, uint32_t n, const char *hosts, uint32_t *node_of)
{
    uint32_t *nodes = xrealloc(NULL, pr->opt.n_nodes * sizeof(*nodes)),
             n_nodes = named_nodes(pr, hosts, nodes);

    for (uint32_t i = 0, k = 0; n_nodes && i < n_nodes;
         i++) { /* the first ones get what does not divide */
        uint32_t here = n / n_nodes + (i < n % n_nodes);

        for (uint32_t j = 0; j < here; j++)
            node_of[pr->opt.cyclic ? j * n_nodes + i : k++] = nodes[i];
    }
    free(nodes);
    return n_nodes > 0;
}

static void put_strings(struct msg *m, char *const *v, uint32_t n)
{
    msg_u32(m, n);
    for (uint32_t i = 0; i < n; i++)
        msg_string(m, v[i]);
}

static void put_app(struct msg *m, const struct app *app)
{
    uint32_t argc = 0;

    while (app->argv[argc])
        argc++;
    msg_u32(m, app->n_procs);
    put_strings(m, app->argv, argc);
    msg_string(m, app->wdir);
    msg_string(m, app->search);
    put_strings(m, app->sets, app->n_sets);
}

static void put_placement(struct msg *m, const struct job *job)
{
    uint32_t runs = 0, i, k;

    for (i = 0; i < job->n_ranks; i++)
        runs += i == 0 || job->node_of[i] != job->node_of[i - 1];
    msg_u32(m, runs);
    for (i = 0; i < job->n_ranks; i = k) {
        for (k = i + 1; k < job->n_ranks && job->node_of[k] == job->node_of[i]; k++)
            ;
        msg_u32(m, job->node_of[i]);
        msg_u32(m, k - i);
    }
}

void nodes_launch(struct pmirun *pr, struct job *job, const struct msg_in *preputs)
{
    bool *has = xrealloc(NULL, pr->opt.n_nodes * sizeof(*has));
    struct msg m = {0};

    memset(has, 0, pr->opt.n_nodes * sizeof(*has));

    msg_begin(&m, MSG_JOB);
    msg_u32(&m, job->number);
    msg_u32(&m, job->spawned);
    msg_string(&m, job->kvsname);
    msg_string(&m, job->spawner);
    msg_u32(&m, job->n_apps);
    for (uint32_t i = 0; i < job->n_apps; i++)
        put_app(&m, &job->apps[i]);
    put_placement(&m, job);
    if (preputs)
        msg_bytes(&m, preputs->p, preputs->left);
    else
        msg_u32(&m, 0);
    for (uint32_t i = 0; i < job->n_ranks; i++)
        has[job->node_of[i]] = true;
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++)
        job->n_members += has[i];
    job->n_launching = job->n_members;
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++)
        if (has[i])
            nodes_tell(pr, &pr->head->nodes[i], &m);
    free(has);
    msg_free(&m);
}

/* ---- the beginning ---- */

/* Must a variable of ours not replace the node's own? */
static bool is_of_node(const char *var)
{
    static const char *const names[] = {
        "HOSTNAME=",       "HOST=",          "SSH_CLIENT=", "SSH_CONNECTION=",
        "SSH_TTY=",        "SSH_AUTH_SOCK=", "TMPDIR=",     "XDG_RUNTIME_DIR=",
        "XDG_SESSION_ID=", "SLURM",          "_="};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(var, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void tell_setup(struct pmirun *pr)
{
    char *cwd = getcwd(NULL, 0);
    struct msg m = {0};
    uint32_t n = 0;

    for (char **e = environ; *e; e++)
        n += !is_of_node(*e);
    msg_begin(&m, MSG_SETUP);
    msg_u32(&m, (uint32_t)pr->opt.use_port | (uint32_t)pr->opt.no_shm << 1 |
                    (uint32_t)pr->opt.pmi_1_2 << 2 | (uint32_t)pr->opt.verbose << 3 |
                    pr->opt.design << 4);
    msg_u32(&m, (uint32_t)pr->opt.universe_size);
    msg_u64(&m, (uint64_t)(pr->opt.stall_s * 1e9));
    msg_u64(&m, (uint64_t)(pr->opt.get_s * 1e9));
    msg_u64(&m, pr->opt.shm_max_bytes);
    msg_string(&m, cwd);
    msg_u32(&m, n);
    for (char **e = environ; *e; e++)
        if (!is_of_node(*e))
            msg_string(&m, *e);
    nodes_tell_all(pr, &m);
    msg_free(&m);
    free(cwd);
}

/* Where each is, and whether they talk UCX: they do when each can. False: they cannot, and were
 * told to. */
static bool tell_peers(struct pmirun *pr)
{
    const struct node *nodes = pr->head->nodes;
    struct msg m = {0};
    uint32_t i;

    for (i = 0; i < pr->opt.n_nodes && nodes[i].ucx_len; i++)
        ;
    if (i < pr->opt.n_nodes && pr->opt.links == LINKS_UCX) {
        say(pr, "--links ucx: %s has no UCX", nodes[i].name);
        return false;
    }
    msg_begin(&m, MSG_PEERS);
    msg_u32(&m, i == pr->opt.n_nodes);
    msg_u32(&m, pr->opt.n_nodes);
    for (i = 0; i < pr->opt.n_nodes; i++) {
        msg_string(&m, nodes[i].address);
        msg_u32(&m, nodes[i].port);
        msg_text(&m, nodes[i].ucx, nodes[i].ucx_len);
    }
    nodes_tell_all(pr, &m);
    msg_free(&m);
    return true;
}

/*
 * Silence. The kernel's keep-alive (net.c) notices a link that is cut, but it answers for an agent
 * that is stopped or hangs: the head asks. What is counted are questions, not time: a head that was
 * stopped itself has not asked meanwhile.
 */
static uint64_t ask_next(const struct pmirun *pr)
{
    return pr->opt.node_s > 0 ? pr->now_ns + (uint64_t)(pr->opt.node_s * 1e9) / (ASKS + 1) : 0;
}

static void ask_all(struct pmirun *pr)
{
    char why[64];

    for (uint32_t i = 0; i < pr->opt.n_nodes; i++) {
        struct node *node = &pr->head->nodes[i];

        node->n_unanswered = node->heard ? 0 : node->n_unanswered + 1;
        node->heard = false;
        snprintf(why, sizeof(why), "it has been silent for %g s", pr->opt.node_s);
        if (node->link && node->n_unanswered >= ASKS)
            nodes_lost(pr, node, why);
    }
    tell_number(pr, MSG_ASK, 0);
}

void nodes_ready(struct pmirun *pr, struct node *node)
{
    node->ready = true;
    trace(pr, "node %u is %s, at %s:%u", node->id, node->name, node->address, node->port);
    if (++pr->head->n_ready < pr->opt.n_nodes || pr->stopping)
        return;
    pr->head->start_ns = 0;
    pr->head->ask_ns = ask_next(pr);
    tell_setup(pr);
    if (!tell_peers(pr)) {
        job_stop(pr, STATUS_NODE);
        return;
    }
    pr->at.launch_begin = pr->now_ns - pr->start_ns;
    nodes_launch(pr, pr->jobs, NULL);
    input_head_start(pr);
}

/* ---- the end ---- */

static void forget_ranks(struct pmirun *pr, uint32_t node)
{
    for (struct job *job = pr->jobs; job; job = job->next) {
        for (uint32_t i = 0; i < job->n_ranks; i++) {
            struct rank *r = &job->ranks[i];

            if (r->node != node)
                continue;
            output_close(pr, &r->out);
            output_close(pr, &r->err);
            if (r->state != RANK_RUNNING)
                continue;
            r->state = RANK_EXITED;
            job->n_live--;
            pr->n_live--;
        }
    }
}

void nodes_lost(struct pmirun *pr, struct node *node, const char *why)
{
    if (node->lost || node->done)
        return;
    node->lost = true;
    if (node->link) {
        net_close(pr, node->link);
        node->link = NULL;
    }
    if (!pr->stopping && !pr->head->ending)
        say(pr, "node %u (%s) is lost: %s; stopping the job", node->id, node->name, why);
    else
        trace(pr, "node %u (%s) is lost: %s", node->id, node->name, why);
    forget_ranks(pr, node->id);
    if (!pr->head->ending || pr->stopping)
        job_stop(pr, STATUS_NODE);
}

void nodes_done(struct pmirun *pr, struct node *node)
{
    node->done = true;
    forget_ranks(pr, node->id);
    net_close(pr, node->link); /* it waits for that */
    node->link = NULL;
}

static void begin_end(struct pmirun *pr)
{
    struct head *h = pr->head;

    h->ending = true;
    h->start_ns = 0;
    h->end_ns = pr->now_ns + END_NS;
    input_head_close(pr);
    tell_number(pr, MSG_END, 0);
    for (uint32_t i = 0; i < h->n_starters; i++) {
        struct starter *s = &h->starters[i];
        bool comes = true;

        for (uint32_t k = s->first; k < s->first + s->n; k++)
            comes = comes && h->nodes[k].link;
        if (!comes && !s->exited) {
            close_stdin(s);
            kill(s->pid, SIGTERM);
        }
    }
}

bool nodes_finished(struct pmirun *pr)
{
    struct head *h = pr->head;
    bool waits = false;

    if (!h->ending) {
        for (const struct job *job = pr->jobs; job && !pr->stopping; job = job->next)
            if (!job->abandoned && (job->n_launching || h->start_ns))
                return false;
        begin_end(pr);
    }
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++) {
        if (h->nodes[i].link && pr->now_ns >= h->end_ns)
            nodes_lost(pr, &h->nodes[i], "it does not end");
        waits = waits || h->nodes[i].link;
    }
    if (waits)
        return false;
    if (!h->reap_ns)
        h->reap_ns = pr->now_ns + REAP_NS;
    for (uint32_t i = 0; i < h->n_starters; i++) {
        close_stdin(&h->starters[i]);
        waits = waits || !h->starters[i].exited;
    }
    return !waits || pr->now_ns >= h->reap_ns;
}

uint64_t nodes_deadline(const struct pmirun *pr)
{
    const struct head *h = pr->head;

    if (h->reap_ns > pr->now_ns)
        return h->reap_ns;
    if (h->ending)
        return h->end_ns > pr->now_ns ? h->end_ns : 0;
    return h->start_ns ? h->start_ns : h->ask_ns;
}

void nodes_deadlines(struct pmirun *pr)
{
    struct head *h = pr->head;
    char why[64];

    if (h->start_ns && pr->now_ns >= h->start_ns) {
        h->start_ns = 0;
        snprintf(why, sizeof(why), "no answer within %g s", pr->opt.start_s);
        for (uint32_t i = 0; i < pr->opt.n_nodes; i++)
            if (!h->nodes[i].ready)
                nodes_lost(pr, &h->nodes[i], why);
    }
    if (h->ask_ns && pr->now_ns >= h->ask_ns && !h->ending) {
        h->ask_ns = ask_next(pr);
        ask_all(pr);
    }
    if (pr->stopping && pr->n_live && !h->ending && pr->drain_ns &&
        pr->now_ns >= pr->drain_ns + HUNG_NS)
        for (uint32_t i = 0; i < pr->opt.n_nodes; i++)
            nodes_lost(pr, &h->nodes[i], "its ranks do not end");
}

void nodes_stats(const struct pmirun *pr, struct pmiwire_stats_server *s)
{
    const uint64_t *c = pr->head->counters;

    *s = (struct pmiwire_stats_server){c[0], c[1], c[2], c[3], c[4], c[5],
                                       c[6], c[7], c[8], c[9], c[10]};
}
