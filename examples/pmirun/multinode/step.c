/* SPDX-License-Identifier: BSD-3-Clause */
/* A step of Slurm, whose ranks others start; step.h. */
#define _GNU_SOURCE
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../local/guard.h"
#include "../local/job.h"
#include "../local/job_end.h"
#include "../local/loop.h"
#include "../local/output.h"
#include "../local/pmi.h"
#include "../local/rank_end.h"
#include "agent.h"
#include "head.h"

#define NOWHERE UINT32_MAX /* the node of a rank that no agent has named */

/* A rank that slurmstepd starts. */
struct task {
    struct source src; /* a pidfd, after slurmstepd's end */
    struct rank *rank; /* NULL: before MSG_JOB */
    uint32_t number;
    int fd; /* its PMI connection, until it is adopted */
    pid_t pid;
    bool exited;
    int status; /* as waitpid() has it */
};

struct step {
    struct task *tasks;
    uint32_t n_tasks;
    char line[64]; /* that has not come whole */
    size_t len;
};

static void set_null(int fd)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd >= 0)
        dup2(null_fd, fd);
    close(null_fd);
}

/* ---- an agent's ranks ---- */

/* Restores the signals that a shell gives its programs: slurmstepd has changed them. */
static void reset_signals(void)
{
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Lets the kernel end us when memory runs out, which slurmstepd forbids for itself. */
static void be_mortal(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0 && write(fd, "0", 1) != 1)
        errno = 0; /* not slurmstepd's child: nothing to undo */
    close(fd);
    /* The user's processes must not read our memory, which is a copy of slurmstepd's. Last, since
     * this gives our files in /proc to root. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static void add_task(struct step *s, uint32_t number, uint32_t fd)
{
    s->tasks = xrealloc(s->tasks, (s->n_tasks + 1) * sizeof(*s->tasks));
    s->tasks[s->n_tasks++] = (struct task){.src.fd = -1, .number = number, .fd = (int)fd};
}

void step_join(struct agent *a, const char *node, const char *ranks)
{
    static struct step step;
    uint32_t number, fd;
    bool ok;

    reset_signals();
    be_mortal();
    a->step = &step;
    ok = read_number(&node, INT32_MAX - 1, &a->node) && !*node;
    do {
        ok = ok && read_number(&ranks, INT32_MAX - 1, &number) && *ranks++ == ':' &&
             read_number(&ranks, INT32_MAX - 1, &fd) && fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0;
        if (ok)
            add_task(&step, number, fd);
    } while (ok && *ranks == ',' && ranks++);
    if (!ok || *ranks)
        die(STATUS_USAGE, "agent: its arguments are not NODE RANK:DESCRIPTOR,...: only the plugin "
                          "for Slurm starts it");
    if (write(STDOUT_FILENO, "", 1) != 1) /* slurmstepd waits for this */
        die(STATUS_NODE, "agent: slurmstepd has gone");
    set_null(STDOUT_FILENO);
}

void step_tell_ranks(struct agent *a)
{
    const struct step *s = a->step;
    struct msg *m = agent_msg(a, MSG_RANKS);

    msg_u32(m, s->n_tasks);
    for (uint32_t i = 0; i < s->n_tasks; i++)
        msg_u32(m, s->tasks[i].number);
    agent_tell(a);
    output_drop_stderr(
        a->output); /* slurmstepd waits for its end; pmirun's messages go to the head */
    set_null(STDERR_FILENO);
}

/* ---- their events ---- */

static void begin_rank(struct agent *a, struct task *t)
{
    struct rank *r = t->rank;

    if (!r || !t->pid || r->state != RANK_WAITING)
        return;
    guard_note(a->jobs->guard, t->pid, true);
    rank_started(r, t->pid);
    if (++r->job->n_launched == r->job->n_local)
        job_started(r->job);
}

static void end_rank(struct agent *a, struct task *t)
{
    siginfo_t si = {0};

    loop_close(&t->src);
    if (!t->rank || !t->exited || t->rank->state != RANK_RUNNING)
        return;
    si.si_code = WIFEXITED(t->status) ? CLD_EXITED : WCOREDUMP(t->status) ? CLD_DUMPED : CLD_KILLED;
    si.si_status = WIFEXITED(t->status) ? WEXITSTATUS(t->status) : WTERMSIG(t->status);
    rank_process_ended(t->rank, &si);
}

static void heard_line(struct agent *a, struct step *s, const char *line)
{
    bool begins = strncmp(line, "task ", 5) == 0;
    uint32_t number, value;
    struct task *t = NULL;
    const char *p = line + 5;

    if ((begins || strncmp(line, "exit ", 5) == 0) && read_number(&p, INT32_MAX - 1, &number) &&
        *p++ == ' ' && read_number(&p, INT32_MAX - 1, &value) && !*p)
        for (uint32_t i = 0; i < s->n_tasks && !t; i++)
            if (s->tasks[i].number == number)
                t = &s->tasks[i];
    if (!t || (begins ? t->pid || !value : !t->pid || t->exited)) {
        log_verbose("slurmstepd says \"%s\"", line);
        return;
    }
    if (begins) {
        t->pid = (pid_t)value;
        begin_rank(a, t);
    } else {
        t->exited = true;
        t->status = (int)value;
        end_rank(a, t);
    }
}

void step_told(struct agent *a, const char *text, size_t n)
{
    struct step *s = a->step;

    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n') {
            s->line[s->len] = '\0';
            s->len = 0;
            heard_line(a, s, s->line);
        } else if (s->len < sizeof(s->line) - 1) {
            s->line[s->len++] = text[i];
        }
    }
}

/* It has ended with an unknown status, since slurmstepd ended before its report. */
static void on_ended(void *of, struct source *src, uint32_t events)
{
    struct agent *a = of;
    struct task *t = (struct task *)src;

    t->exited = true;
    t->status = SIGKILL;
    end_rank(a, t);
}

/* Watches a rank whose parent, slurmstepd, is gone. */
static void watch_task(struct agent *a, struct task *t)
{
    int fd = (int)syscall(SYS_pidfd_open, t->pid, 0);

    if (fd < 0 && errno != ESRCH) /* Linux before 5.3: the rank ends with the step */
        kill(t->pid, SIGKILL);
    if (loop_open(&t->src, on_ended, a, fd, EPOLLIN) != 0)
        on_ended(a, &t->src, 0);
}

void step_left(struct agent *a)
{
    struct step *s = a->step;
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_tasks; i++) {
        struct task *t = &s->tasks[i];

        if (t->exited)
            continue;
        n++;
        if (t->pid)
            watch_task(a, t);
    }
    if (n == 0 || a->ending)
        return;
    if (!a->told)
        die(STATUS_NODE, "agent: slurmstepd has ended before its tasks");
    log_message("slurmstepd has ended before %u of its %u tasks; stopping the job", n, s->n_tasks);
    job_stop(a->jobs, STATUS_NODE);
}

void step_adopt(struct agent *a, struct job *job)
{
    struct step *s = a->step;
    int err = 0;

    for (uint32_t i = 0; i < s->n_tasks && !err; i++) {
        struct task *t = &s->tasks[i];

        t->rank = job_rank(job, t->number);
        if (!t->rank || t->rank->conn)
            err = -EPROTO;
        else
            err = pmi_attach(t->rank, t->fd);
    }
    if (err) {
        log_message("cannot serve the step's ranks: %s; stopping the job", pmiwire_strerror(err));
        job_stop(a->jobs, STATUS_RESOURCES);
        return;
    }
    for (uint32_t i = 0; i < s->n_tasks; i++) {
        begin_rank(a, &s->tasks[i]);
        end_rank(a, &s->tasks[i]);
    }
}

/* ---- the head ---- */

static void on_srun(void *of, struct source *src, uint32_t events)
{
    struct head *h = of;
    char text[64];
    ssize_t n = read(src->fd, text, sizeof(text));

    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    loop_close(src);
    if (h->ending)
        return;
    log_verbose("srun has ended");
    job_stop(h->jobs, STATUS_SIGNAL + SIGHUP);
}

void step_begin(struct head *h, char *lines)
{
    static struct source srun;
    struct job *job = h->jobs->first;
    size_t n = strlen(lines);

    job->mpi = MPI_PMI;
    job->mpi_reason = xprintf("srun starts the ranks");
    for (uint32_t i = 0; i < job->n_ranks; i++)
        job->node_of[i] = NOWHERE;
    if (write(STDOUT_FILENO, lines, n) != (ssize_t)n)
        die(STATUS_OUTPUT, "cannot send srun's plugin what agents need: %s", strerror(errno));
    set_null(STDOUT_FILENO);
    explicit_bzero(lines, n);
    free(lines);
    if (loop_open(&srun, on_srun, h, STDIN_FILENO, EPOLLIN) != 0)
        die(STATUS_RESOURCES, "its stdin must be a connection to srun");
}

bool step_ranks(struct head *h, const struct node *node, struct msg_in *in)
{
    struct job *job = h->jobs->first;
    uint32_t n = get_count(in, 4);

    if (!job->node_of || node->ready || n == 0)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = get_u32(in);

        if (in->bad || rank >= job->n_ranks || job->node_of[rank] != NOWHERE)
            return false;
        job->node_of[rank] = job->ranks[rank].node = node->id;
    }
    return !in->left;
}

bool step_is_whole(const struct head *h)
{
    const struct job *job = h->jobs->first;

    for (uint32_t i = 0; i < job->n_ranks; i++)
        if (job->node_of[i] == NOWHERE) {
            log_message("no node has rank %u of the step", i);
            return false;
        }
    return true;
}
