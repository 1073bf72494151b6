/* SPDX-License-Identifier: BSD-3-Clause */
/* One run of a command under ptrace, in which one of its system calls fails. */
#define _GNU_SOURCE
#include "faults.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>

#define MAX_TASKS 512
#define GRACE_S   20.0 /* grace for processes that outlive the command on a busy machine */

struct task {
    pid_t tid, pid;
    int proc;
    bool repair; /* at the end of this call */
    bool after;  /* the fault is its result */
    int after_err;
    unsigned long msg; /* HOW_SHORT of a struct msghdr: its address and old value */
    struct msghdr was;
    struct iovec was_iov;
    char crash_at[160];
    int crash_signal;
};

struct proc {
    pid_t pid;
    unsigned long linker, linker_end; /* ld.so's code */
    uint32_t count[MAX_CALLS];
};

struct tracer {
    struct task tasks[MAX_TASKS];
    int n_tasks;
    struct proc procs[MAX_PROCS];
    int n_procs;
    bool begun;      /* the command has been executed */
    const char *dir; /* only calls about files there; NULL: all */
    const struct fault *fault;
    struct run *r;
};

double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- the command's side ---- */

static int install_filter(void)
{
    struct sock_filter code[MAX_CALLS + 4];
    struct sock_fprog prog = {0, code};
    unsigned short n = 0;

    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < n_calls; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(
            BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i].number, (uint8_t)(n_calls - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    prog.len = n;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -errno;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) != 0 ? -errno : 0;
}

static void become(char *const argv[], const char *dir, int out, int err, int go)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char c;

    if (null < 0 || chdir(dir) != 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 ||
        read(go, &c, 1) != 1)
        _exit(125);
    setpgid(0, 0);
    if (install_filter() == 0)
        execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "fault_sweep: %s: %s\n", argv[0], strerror(errno));
    _exit(125);
}

/* ---- a task in /proc ---- */

static long proc_number(pid_t tid, const char *field)
{
    char path[64], line[256];
    long value = -1;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, field, strlen(field)) == 0)
            value = atol(line + strlen(field));
    if (f)
        fclose(f);
    return value;
}

static void proc_name(pid_t tid, char *name, size_t size)
{
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/comm", (int)tid);
    f = fopen(path, "re");
    name[0] = '\0';
    if (f && fgets(name, (int)size, f))
        name[strcspn(name, "\n")] = '\0';
    if (f)
        fclose(f);
}

/* Where the dynamic linker lies in a program that has just been executed; its system calls do not
 * fail. */
static void find_linker(struct proc *p)
{
    char path[64], line[512];
    Elf64_auxv_t v;
    FILE *f;

    p->linker = p->linker_end = 0;
    snprintf(path, sizeof(path), "/proc/%d/auxv", (int)p->pid);
    f = fopen(path, "re");
    while (f && fread(&v, sizeof(v), 1, f) == 1)
        if (v.a_type == AT_BASE)
            p->linker = v.a_un.a_val;
    if (f)
        fclose(f);
    if (!p->linker)
        return;
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)p->pid);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        unsigned long from, to;

        if (sscanf(line, "%lx-%lx", &from, &to) == 2 &&
            (from == p->linker || from == p->linker_end))
            p->linker_end = to;
    }
    if (f)
        fclose(f);
}

/* Module and offset of an address. */
static void where(pid_t tid, unsigned long at, char *text, size_t size)
{
    char path[64], line[512], file[400];
    FILE *f;

    snprintf(text, size, "%#lx", at);
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)tid);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        unsigned long from, to, offset;

        if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %399s", &from, &to, &offset, file) == 4 &&
            at >= from && at < to)
            snprintf(text, size, "%.100s+%#lx", file, at - from + offset);
    }
    if (f)
        fclose(f);
}

/* ---- tasks ---- */

static struct task *task_find(struct tracer *t, pid_t tid)
{
    for (int i = 0; i < t->n_tasks; i++)
        if (t->tasks[i].tid == tid)
            return &t->tasks[i];
    return NULL;
}

static int proc_find(const struct tracer *t, pid_t pid)
{
    for (int i = t->n_procs; i-- > 0;) /* the latest: numbers may come again */
        if (t->procs[i].pid == pid)
            return i;
    return -1;
}

static struct task *task_get(struct tracer *t, pid_t tid)
{
    struct task *task = task_find(t, tid);
    long pid, parent;

    if (task || t->n_tasks == MAX_TASKS)
        return task;
    pid = proc_number(tid, "Tgid:");
    parent = proc_number(tid, "PPid:");
    task = &t->tasks[t->n_tasks++];
    memset(task, 0, sizeof(*task));
    task->tid = tid;
    task->pid = pid > 0 ? (pid_t)pid : tid;
    task->proc = pid != tid ? proc_find(t, task->pid) : -1;
    if (task->proc < 0) {
        int from = parent > 0 ? proc_find(t, (pid_t)parent) : -1;

        task->proc = t->n_procs < MAX_PROCS ? t->n_procs++ : MAX_PROCS - 1;
        if (from >= 0) {
            t->procs[task->proc].linker = t->procs[from].linker;
            t->procs[task->proc].linker_end = t->procs[from].linker_end;
            memcpy(t->r->names[task->proc], t->r->names[from], sizeof(t->r->names[0]));
        }
        t->procs[task->proc].pid = task->pid;
    }
    return task;
}

static void task_gone(struct tracer *t, pid_t tid)
{
    struct task *task = task_find(t, tid);

    if (task)
        *task = t->tasks[--t->n_tasks];
}

/* ---- the tracee's memory ---- */

static bool peek(pid_t tid, unsigned long at, void *to, size_t n)
{
    struct iovec mine = {to, n}, theirs = {(void *)at, n};

    return process_vm_readv(tid, &mine, 1, &theirs, 1, 0) == (ssize_t)n;
}

static bool poke(pid_t tid, unsigned long at, const void *from, size_t n)
{
    struct iovec mine = {(void *)(uintptr_t)from, n}, theirs = {(void *)at, n};

    return process_vm_writev(tid, &mine, 1, &theirs, 1, 0) == (ssize_t)n;
}

static void peek_string(pid_t tid, unsigned long at, char *to, size_t size)
{
    size_t n = 0;

    while (n + 1 < size && peek(tid, at + n, to + n, 1) && to[n])
        n++;
    to[n] = '\0';
}

/* ---- a call's file ---- */

static unsigned long argument(const struct user_regs_struct *regs, int i)
{
    switch (i) {
    case 1: return regs->rdi;
    case 2: return regs->rsi;
    case 3: return regs->rdx;
    default: return regs->r10;
    }
}

/* Which argument is a path; 0: none. */
static int path_argument(int number)
{
    switch (number) {
    case SYS_open:
    case SYS_creat:
    case SYS_stat:
    case SYS_access:
    case SYS_unlink:
    case SYS_mkdir:
    case SYS_execve:
    case SYS_chdir:
    case SYS_truncate:
    case SYS_statfs:
    case SYS_readlink: return 1;
    case SYS_openat:
    case SYS_newfstatat:
    case SYS_unlinkat:
    case SYS_statx:
    case SYS_faccessat2:
    case SYS_mkdirat:
    case SYS_readlinkat:
    case SYS_link:
    case SYS_rename:
    case SYS_fchmodat: return 2;
    case SYS_linkat:
    case SYS_renameat2: return 4;
    default: return 0;
    }
}

static bool creates(int number, const struct user_regs_struct *regs)
{
    switch (number) {
    case SYS_open: return regs->rsi & O_CREAT;
    case SYS_openat: return regs->rdx & O_CREAT;
    case SYS_creat:
    case SYS_mkdir:
    case SYS_mkdirat:
    case SYS_link:
    case SYS_linkat:
    case SYS_rename:
    case SYS_renameat2: return true;
    default: return false;
    }
}

static void describe(pid_t tid, int number, const struct user_regs_struct *regs, char *text,
                     size_t size)
{
    char link[64];
    ssize_t n;

    text[0] = '\0';
    if (path_argument(number)) {
        peek_string(tid, argument(regs, path_argument(number)), text, size);
        return;
    }
    if (number == SYS_mmap) {
        snprintf(text, size, "%lld bytes, descriptor %d", (long long)regs->rsi, (int)regs->r8);
        return;
    }
    if (number == SYS_fcntl || number == SYS_prctl) {
        snprintf(text, size, "%lld, %lld", (long long)regs->rdi, (long long)regs->rsi);
        return;
    }
    snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)tid, (int)regs->rdi);
    n = readlink(link, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
}

/* Is the call's file in that folder? A relative path is. */
static bool is_in(const char *dir, pid_t tid, int number, const struct user_regs_struct *regs)
{
    struct user_regs_struct r = *regs;
    char text[PATH_MAX];

    if (number == SYS_mmap) {
        number = SYS_fstat; /* of its descriptor */
        r.rdi = r.r8;
    }
    if (number == SYS_execve || number == SYS_fcntl || number == SYS_prctl)
        return false;
    describe(tid, number, &r, text, sizeof(text));
    return (path_argument(number) && text[0] && text[0] != '/') ||
           strncmp(text, dir, strlen(dir)) == 0;
}

static void note_path(struct run *r, pid_t tid, int number, const struct user_regs_struct *regs)
{
    char name[PATH_MAX], link[64], base[PATH_MAX], *full;
    int which = path_argument(number);
    ssize_t n;

    peek_string(tid, argument(regs, which), name, sizeof(name));
    if (name[0] == '/') {
        full = strdup(name);
    } else {
        int at = which > 1 && number != SYS_link && number != SYS_rename
                     ? (int)argument(regs, which - 1)
                     : AT_FDCWD;

        if (at == AT_FDCWD)
            snprintf(link, sizeof(link), "/proc/%d/cwd", (int)tid);
        else
            snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)tid, at);
        n = readlink(link, base, sizeof(base) - 1);
        base[n > 0 ? n : 0] = '\0';
        if (asprintf(&full, "%s/%s", base, name) < 0)
            full = NULL;
    }
    for (size_t i = 0; full && i < r->n_paths; i++)
        if (strcmp(r->paths[i], full) == 0) {
            free(full);
            full = NULL;
        }
    if (full && r->n_paths < MAX_PATHS)
        r->paths[r->n_paths++] = full;
    else
        free(full);
}

/* Would the call wait? */
static bool waits(pid_t tid, int number, const struct user_regs_struct *regs)
{
    char path[64], line[128];
    unsigned flags = 0;
    FILE *f;

    if ((number == SYS_sendto || number == SYS_recvfrom) && regs->r10 & MSG_DONTWAIT)
        return false;
    if ((number == SYS_sendmsg || number == SYS_recvmsg) && regs->rdx & MSG_DONTWAIT)
        return false;
    snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)tid, (int)regs->rdi);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        sscanf(line, "flags: %o", &flags);
    if (f)
        fclose(f);
    return !(flags & O_NONBLOCK);
}

/* ---- faults ---- */

static void set_errno(pid_t tid, struct user_regs_struct *regs, int err, bool skip)
{
    if (skip)
        regs->orig_rax = (unsigned long long)-1;
    regs->rax = (unsigned long long)-(long long)err;
    ptrace(PTRACE_SETREGS, tid, NULL, regs);
}

/* Makes the call move a byte. */
static void shorten(struct task *task, const struct call *call, struct user_regs_struct *regs)
{
    struct msghdr msg;

    if (call->len_arg == 3) {
        if (regs->rdx > 1)
            regs->rdx = 1;
        ptrace(PTRACE_SETREGS, task->tid, NULL, regs);
        return;
    }
    if (!peek(task->tid, regs->rsi, &task->was, sizeof(task->was)) || task->was.msg_iovlen == 0 ||
        !peek(task->tid, (unsigned long)task->was.msg_iov, &task->was_iov, sizeof(task->was_iov)) ||
        task->was_iov.iov_len < 1)
        return;
    msg = task->was;
    msg.msg_iovlen = 1;
    task->msg = regs->rsi;
    task->repair = poke(task->tid, regs->rsi, &msg, sizeof(msg)) &&
                   poke(task->tid, (unsigned long)msg.msg_iov,
                        &(struct iovec){task->was_iov.iov_base, 1}, sizeof(struct iovec));
}

/* The end of a call whose arguments were changed. */
static void repair(struct task *task)
{
    struct user_regs_struct regs;
    struct msghdr msg;

    if (task->after && ptrace(PTRACE_GETREGS, task->tid, NULL, &regs) == 0)
        set_errno(task->tid, &regs, task->after_err, false);
    else if (task->msg && peek(task->tid, task->msg, &msg, sizeof(msg))) {
        msg.msg_iovlen = task->was.msg_iovlen;
        poke(task->tid, task->msg, &msg, sizeof(msg));
        poke(task->tid, (unsigned long)task->was.msg_iov, &task->was_iov, sizeof(task->was_iov));
    }
    task->repair = task->after = false;
    task->msg = 0;
}

static bool strikes(const struct fault *f, int proc, int call, uint32_t n)
{
    return f->n && f->proc == proc && f->call == call &&
           (n == f->n || (f->how == HOW_ON && n > f->n));
}

/* Calls that cannot fail: a wake-up of threads that wait for a page, the first number written to an
 * eventfd. */
static bool cannot_fail(pid_t tid, int number, const struct user_regs_struct *regs)
{
    char file[64];

    if (number == SYS_ioctl)
        return regs->rsi == UFFDIO_WAKE;
    if (number != SYS_write)
        return false;
    describe(tid, number, regs, file, sizeof(file));
    return strcmp(file, "anon_inode:[eventfd]") == 0;
}

static void on_call(struct tracer *t, struct task *task)
{
    struct proc *p = &t->procs[task->proc];
    const struct fault *f = t->fault;
    struct user_regs_struct regs;
    struct run *r = t->r;
    uint32_t n;
    size_t i = 0;

    if (ptrace(PTRACE_GETREGS, task->tid, NULL, &regs) != 0 || !t->begun ||
        (regs.rip >= p->linker && regs.rip < p->linker_end))
        return;
    while (i < n_calls && calls[i].number != (int)regs.orig_rax)
        i++;
    if (i == n_calls || cannot_fail(task->tid, calls[i].number, &regs))
        return;
    if (t->dir && !is_in(t->dir, task->tid, calls[i].number, &regs))
        return;
    n = ++p->count[i];
    if (creates(calls[i].number, &regs))
        note_path(r, task->tid, calls[i].number, &regs);
    if (!f->n && r->n_events < MAX_EVENTS)
        r->events[r->n_events++] = (struct event){
            (uint8_t)task->proc, (uint8_t)i,
            strchr(calls[i].failures, '?') && waits(task->tid, calls[i].number, &regs), n};
    if (!strikes(f, task->proc, (int)i, n))
        return;
    if (!r->hit)
        describe(task->tid, calls[i].number, &regs, r->hit_at, sizeof(r->hit_at));
    r->hit = true;
    if (f->how == HOW_SHORT) {
        shorten(task, &calls[i], &regs);
    } else if (f->how == HOW_AFTER) {
        task->repair = task->after = true;
        task->after_err = f->err;
    } else {
        set_errno(task->tid, &regs, f->err, true);
    }
}

/* ---- the loop ---- */

static bool is_crash(int sig)
{
    return sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGFPE || sig == SIGABRT ||
           sig == SIGSYS;
}

static void on_stop(struct tracer *t, pid_t tid, int status)
{
    struct task *task = task_get(t, tid);
    int sig = WSTOPSIG(status), event = status >> 16;
    struct user_regs_struct regs;

    if (!task) {
        ptrace(PTRACE_CONT, tid, NULL, NULL);
        return;
    }
    if (event == PTRACE_EVENT_SECCOMP) {
        on_call(t, task);
        ptrace(task->repair ? PTRACE_SYSCALL : PTRACE_CONT, tid, NULL, NULL);
        return;
    }
    if (sig == (SIGTRAP | 0x80)) {
        repair(task);
        ptrace(PTRACE_CONT, tid, NULL, NULL);
        return;
    }
    if (event == PTRACE_EVENT_EXEC) {
        t->begun = true;
        find_linker(&t->procs[task->proc]);
        proc_name(tid, t->r->names[task->proc], sizeof(t->r->names[0]));
    }
    if (event == PTRACE_EVENT_STOP && sig != SIGTRAP) {
        ptrace(PTRACE_LISTEN, tid, NULL, NULL);
        return;
    }
    if (!event && is_crash(sig) && ptrace(PTRACE_GETREGS, tid, NULL, &regs) == 0) {
        task->crash_signal = sig;
        where(tid, regs.rip, task->crash_at, sizeof(task->crash_at));
    }
    ptrace(PTRACE_CONT, tid, NULL, event ? 0l : (long)sig);
}

static void on_end(struct tracer *t, pid_t tid, int status)
{
    const struct task *task = task_find(t, tid);

    if (task && WIFSIGNALED(status) && is_crash(WTERMSIG(status)) && !t->r->crash_signal) {
        t->r->crash_signal = WTERMSIG(status);
        t->r->crash_proc = task->proc;
        memcpy(t->r->crash_at, task->crash_at, sizeof(t->r->crash_at));
    }
    task_gone(t, tid);
}

static void kill_all(const struct tracer *t)
{
    for (int i = 0; i < t->n_tasks; i++)
        kill(t->tasks[i].pid, SIGKILL);
}

static void loop(struct tracer *t, pid_t root, double limit_s)
{
    double deadline = now_s() + limit_s;
    bool root_gone = false, killed = false;

    for (;;) {
        int status;
        pid_t tid = waitpid(-1, &status, __WALL);

        if (tid < 0 && errno != EINTR)
            return;
        if (tid > 0 && WIFSTOPPED(status)) {
            on_stop(t, tid, status);
        } else if (tid > 0) {
            on_end(t, tid, status);
            if (tid == root) {
                t->r->status = status;
                root_gone = true;
                if (!killed)
                    deadline = now_s() + GRACE_S;
            }
        }
        if (!killed && now_s() > deadline && (t->n_tasks > 0 || !root_gone)) {
            if (root_gone) {
                t->r->n_left = t->n_tasks;
                proc_name(t->tasks[0].tid, t->r->left_name, sizeof(t->r->left_name));
            } else {
                t->r->hung = true;
            }
            killed = true;
        }
        if (killed)
            kill_all(t);
    }
}

static void on_alarm(int sig)
{
}

int trace_run(char *const argv[], const char *dir, bool only_there, int out, int err,
              const struct fault *fault, double limit_s, struct run *r)
{
    static struct tracer t;
    const struct itimerval tick = {{0, 100000}, {0, 100000}}, none = {{0, 0}, {0, 0}};
    struct sigaction act = {.sa_handler = on_alarm};
    struct event *events = r->events;
    int go[2], rc = 0;
    pid_t pid;

    memset(&t, 0, sizeof(t));
    memset(r, 0, sizeof(*r));
    r->events = events;
    t.fault = fault;
    t.dir = only_there ? dir : NULL;
    t.r = r;
    if (pipe2(go, O_CLOEXEC) != 0)
        return -errno;
    pid = fork();
    if (pid == 0)
        become(argv, dir, out, err, go[0]);
    if (pid < 0 || ptrace(PTRACE_SEIZE, pid, NULL,
                          PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                              PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD |
                              PTRACE_O_EXITKILL) != 0)
        rc = -errno;
    if (rc == 0) {
        task_get(&t, pid);
        sigaction(SIGALRM, &act, NULL);
        setitimer(ITIMER_REAL, &tick, NULL);
        if (write(go[1], "g", 1) == 1)
            loop(&t, pid, limit_s);
        setitimer(ITIMER_REAL, &none, NULL);
    } else if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    close(go[0]);
    close(go[1]);
    return rc;
}

void run_release(struct run *r)
{
    for (size_t i = 0; i < r->n_paths; i++)
        free(r->paths[i]);
    r->n_paths = 0;
}
