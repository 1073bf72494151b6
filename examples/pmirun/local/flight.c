/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting a process, fast.
 *
 * A child is made by clone(CLONE_VM | CLONE_FILES): no page table is copied, and no descriptor
 * table either, which matters because ours holds three descriptors for each rank. The child's ends
 * are in fixed low slots of the shared table; the child takes a private copy of just those with
 * close_range(CLOSE_RANGE_UNSHARE), whose cost does not depend on how many we have, and moves them
 * to where the program expects them. So PMI_FD is the same number in every rank.
 *
 * Several children are on their way to execve() at a time, each with its own stack, slots and
 * environment, while we prepare the next: execve() takes most of the time and can use the other
 * processors. The kernel clears flight->tid when the child has left our memory
 * (CLONE_CHILD_CLEARTID), and wakes us if we wait for it. A child in flight must not touch errno,
 * which it shares with us: it makes raw system calls. And no signal may be sent to one (a core dump
 * would kill us too): code that signals ranks calls launch_land_all() first.
 *
 * qemu-user cannot share memory with a child, and in a container on an old kernel a child that does
 * cannot have descriptors of its own: there the child is a copy of us, one at a time, and reports
 * its errors through a pipe.
 *
 * Whole job of /bin/true, 2 processors beside other work, minima of 25 and 12 in turns: 64 ranks 29
 * ms, posix_spawn() 67, vfork() 55, fork() 88; 1,024 ranks 0.63 s, posix_spawn() 2.4, vfork() 2.3,
 * fork() 2.7. With an idle machine and static programs, 1,024 ranks 280 ms, vfork() 538, fork()
 * 429: one child at a time waits for its turn on a processor, and fork() copies page tables.
 */
#define _GNU_SOURCE
#include "flight.h"

#include "../place/place.h"
#include "job.h"
#include "mpir.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define STACK_BYTES 131072u
#define GUARD_BYTES 65536u /* at its low end; a page of any size */

/*
 * System calls that do not set errno, for a child that runs in its parent's memory while the parent
 * continues: both share errno, as all thread-local storage. RAWCALL is 0 on machines without such
 * calls here; there the parent must sleep meanwhile. Returns the result, or -errno.
 */
static inline long raw_syscall(long number, long a, long b, long c, long d)
{
#if defined(__x86_64__)
#define RAWCALL 1
    register long r10 __asm__("r10") = d;
    long rc;

    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return rc;
#elif defined(__aarch64__)
#define RAWCALL 1
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
#else
#define RAWCALL 0
    long rc = syscall(number, a, b, c, d);

    return rc < 0 ? -errno : rc;
#endif
}

/* ---- the fleet ---- */

/* One past the last slot. */
static int fleet_fd_end(const struct fleet *fleet)
{
    return FD_SLOTS + SLOTS * (int)fleet->n;
}

static rlim_t raise_limit(struct fleet *fleet)
{
    const struct rlimit all = {fleet->orig_nofile.rlim_max, fleet->orig_nofile.rlim_max};

    if (fleet->orig_nofile.rlim_cur < all.rlim_max)
        fleet->nofile_raised = setrlimit(RLIMIT_NOFILE, &all) == 0;
    return fleet->nofile_raised ? all.rlim_max : fleet->orig_nofile.rlim_cur;
}

int fleet_init(struct fleet *fleet, const struct signals *signals)
{
    const char *preload = getenv("LD_PRELOAD");
    rlim_t limit;
    int fd;

    if (getrlimit(RLIMIT_NOFILE, &fleet->orig_nofile) != 0)
        return -errno;
    limit = raise_limit(fleet) / 4 / SLOTS; /* not over a quarter of all */
    fleet->n = limit < 1 || !RAWCALL ? 1 : limit < FLIGHTS ? (unsigned)limit : FLIGHTS;

    if (!open_standard())
        return -errno;
    fd = open("/dev/null", O_RDWR);
    if (fd < 0)
        return -errno;
    fleet->null_fd = fcntl(fd, F_DUPFD_CLOEXEC, fleet_fd_end(fleet));
    if (fleet->null_fd < 0) /* EINVAL: the limit on descriptors is below that */
        return errno == EINVAL ? -EMFILE : -errno;
    if (fd >= fleet_fd_end(fleet))
        close(fd);
    for (fd = FD_PMI; fd < fleet_fd_end(fleet); fd++)
        if (dup3(fleet->null_fd, fd, O_CLOEXEC) < 0)
            return -errno;
    for (int i = 0; i < (int)fleet->n; i++) {
        fleet->flights[i].fleet = fleet;
        fleet->flights[i].fd = FD_SLOTS + SLOTS * i;
        fleet->flights[i].report = -1;
    }
    /* Before Linux 5.9 there is no close_range(), and a container's filter may refuse unshare(). */
    fleet->copies = syscall(SYS_close_range, ~0u, ~0u, 0) != 0 && unshare(CLONE_FILES) != 0;
    /* gdb takes its breakpoints out of what it takes for a child's memory. */
    fleet->copies = fleet->copies || mpir_is_debugged();
    /* valgrind, which this variable tells, knows fork() alone. */
    fleet->copies = fleet->copies || (preload && strstr(preload, "/vgpreload_"));
    fleet->parent = getpid();
    fleet->signals = signals;
    return 0;
}

void fleet_shrink(struct fleet *fleet, unsigned n)
{
    for (; fleet->n > n; fleet->n--)
        for (int i = 0; i < SLOTS; i++) /* their next users may lack close-on-exec */
            close(fleet->flights[fleet->n - 1].fd + i);
}

/* ---- the child ---- */

/* Negative rc: -errno of a raw system call. */
static _Noreturn void fail_flight(struct flight *f, enum stage stage, long rc)
{
    f->err = (int)-rc;
    f->stage = stage;
    if (f->report >= 0) {
        const int report[2] = {f->err, (int)stage};

        raw_syscall(SYS_write, f->report, (long)report, sizeof(report), 0);
    }
    for (;;)
        raw_syscall(SYS_exit, 127, 0, 0, 0);
}

static void move_fd(struct flight *f, int slot, int to)
{
    long rc = raw_syscall(SYS_dup3, f->fd + slot, to, 0, 0);

    if (rc < 0)
        fail_flight(f, STAGE_DESCRIPTORS, rc);
}

/* Restores for the program what pmirun has changed for itself. */
static void restore_process(const struct fleet *fleet)
{
    static const unsigned char
        default_action[64]; /* the kernel's struct sigaction: all zero is SIG_DFL */

    if (fleet->nofile_raised)
        raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, (long)&fleet->orig_nofile, 0);
    if (!fleet->signals->pipe_was_ignored)
        raw_syscall(SYS_rt_sigaction, SIGPIPE, (long)default_action, 0, 8);
    if (!fleet->signals->xfsz_was_ignored)
        raw_syscall(SYS_rt_sigaction, SIGXFSZ, (long)default_action, 0, 8);
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&fleet->signals->orig_mask, 0, 8);
}

/* Gives the child a descriptor table of its own, without those behind the slots. */
static void own_descriptors(struct flight *f)
{
    int fd_end = fleet_fd_end(f->fleet);
    long rc;

    if (f->report >= 0) { /* open until execve() */
        if (f->report != fd_end)
            raw_syscall(SYS_dup3, f->report, fd_end, O_CLOEXEC, 0);
        f->report = fd_end++;
    }
    rc = raw_syscall(SYS_close_range, fd_end, ~0u, CLOSE_RANGE_UNSHARE, 0);
    if (rc < 0)
        rc = raw_syscall(SYS_unshare, CLONE_FILES, 0, 0, 0);
    if (rc < 0 && f->report < 0)
        fail_flight(f, STAGE_DESCRIPTORS, rc);
}

/*
 * Runs in our memory, on its own stack, while we continue: it makes raw system calls only, and
 * changes only f->err and f->stage. The signals that pmirun handles are blocked.
 */
static int child_main(void *arg)
{
    struct flight *f = arg;
    const struct app *app = f->rank->app;
    long rc;

    own_descriptors(f);
    /*
     * A process group of its own, so that a signal reaches all of it. A session of its own too,
     * which is a scheduling group where the kernel groups by session (sched_autogroup): polling
     * ranks in one session get, beside other work, the share of one. 64 polling ranks beside 4
     * busy processes: 39 s in one session, 15.5 s each in its own, as under mpiexec.hydra (15.8 s).
     * But sched_yield() yields only within the group, so ranks that yield stay in one session.
     */
    if (f->rank->job->yields) {
        raw_syscall(SYS_setpgid, 0, 0, 0, 0);
        /* The terminal's SIGTSTP for our group, pending since before that, would stop this process
         * on its way, and pmirun would wait for it without end. SIGCONT drops it. In a session of
         * its own the kernel would. */
        raw_syscall(SYS_kill, 0, SIGCONT, 0, 0);
    } else {
        raw_syscall(SYS_setsid, 0, 0, 0, 0);
    }
    raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
    if (raw_syscall(SYS_getppid, 0, 0, 0, 0) != f->fleet->parent)
        fail_flight(f, STAGE_DESCRIPTORS, -ESRCH); /* the parent died before prctl() */
    if (f->take_stdin)
        move_fd(f, SLOT_IN, STDIN_FILENO);
    move_fd(f, SLOT_OUT, STDOUT_FILENO);
    move_fd(f, SLOT_ERR, STDERR_FILENO);
    if (!f->rank->job->jobs->opt->use_port)
        move_fd(f, SLOT_PMI, FD_PMI);
    if (app->wdir && (rc = raw_syscall(SYS_chdir, (long)app->wdir, 0, 0, 0)) < 0)
        fail_flight(f, STAGE_WDIR, rc);
    if (f->cpus && (rc = raw_syscall(SYS_sched_setaffinity, 0, sizeof(f->cpus->bits),
                                     (long)f->cpus->bits, 0)) < 0)
        fail_flight(f, STAGE_BIND, rc);
    restore_process(f->fleet);
    rc = raw_syscall(SYS_execve, (long)app->path, (long)app->argv, (long)f->env.vars, 0);
    if (rc == -ENOEXEC && f->shell_argv) /* as execvp() and shells treat it */
        rc = raw_syscall(SYS_execve, (long)"/bin/sh", (long)f->shell_argv, (long)f->env.vars, 0);
    fail_flight(f, STAGE_EXEC, rc);
}

/* ---- its start and its end ---- */

/* Forks a child; returns once its execve() has succeeded or failed. */
static pid_t start_copy(struct flight *f)
{
    int p[2], report[2], err;
    ssize_t n = 0;
    pid_t pid;

    if (pipe2(p, O_CLOEXEC) != 0)
        return -errno;
    f->report = p[1];
    pid = fork();
    err = errno;
    if (pid == 0)
        _exit(child_main(f));
    close(p[1]);
    f->report = -1;
    while (pid > 0 && (n = read(p[0], report, sizeof(report))) < 0 && errno == EINTR)
        ;
    if (n == (ssize_t)sizeof(report)) {
        f->err = report[0];
        f->stage = (enum stage)report[1];
    }
    close(p[0]);
    f->tid = 0;
    return pid < 0 ? -err : pid;
}

/* Allocated when a flight is first used: a job of few ranks needs few. */
static bool make_stack(struct flight *f)
{
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

    if (stack == MAP_FAILED)
        return false;
    if (mprotect(stack, GUARD_BYTES, PROT_NONE) != 0) {
        munmap(stack, STACK_BYTES);
        return false;
    }
    f->stack = stack;
    return true;
}

pid_t flight_start(struct flight *f)
{
    pid_t pid;

    f->err = 0;
    f->stage = STAGE_NONE;
    if (f->fleet->copies) {
        pid = start_copy(f);
    } else {
        if (!f->stack && !make_stack(f))
            return -errno;
        f->tid = 1;
        pid = clone(child_main, f->stack + STACK_BYTES,
                    CLONE_VM | CLONE_FILES | CLONE_CHILD_CLEARTID | (RAWCALL ? 0 : CLONE_VFORK) |
                        SIGCHLD,
                    f, NULL, NULL, &f->tid);
        if (pid < 0)
            pid = errno == EINVAL ? start_copy(f) : -errno;
        if (pid < 0)
            f->tid = 0;
    }
    f->busy = pid > 0;
    return pid;
}

bool flight_has_landed(const struct flight *f)
{
    return __atomic_load_n(&f->tid, __ATOMIC_ACQUIRE) == 0;
}

void flight_land(struct flight *f)
{
    int tid;

    while ((tid = __atomic_load_n(&f->tid, __ATOMIC_ACQUIRE)) != 0)
        syscall(SYS_futex, &f->tid, FUTEX_WAIT, tid, NULL, NULL, 0);
    f->busy = false;
    for (int i = 0; i < SLOTS; i++)
        dup3(f->fleet->null_fd, f->fd + i, O_CLOEXEC);
}
