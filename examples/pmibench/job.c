/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs one job and reports the cost of its launcher and servers.
 *
 *     pmibench-job [--look] [--seconds N] LAUNCHER ARGUMENT...
 *
 * Prints one line, "name value" pairs:
 *
 *     wall_ms      from the start of LAUNCHER to its end
 *     cpu_ms       processor time of the servers: LAUNCHER, the process that started rank 0, and
 *                  all descendants of these two except the ranks
 *     servers_kb   with --look, while all ranks are up: memory of the servers, and of all ranks.
 *     ranks_kb     Shared memory is divided among its processes (Pss), so that the two add up
 *     shared_kb    and what the servers have in shared mappings: tables that ranks read (Rss)
 *
 * Rank 0 calls all_up() of figures.h when all ranks are up. Its pid leads to the servers, also
 * where LAUNCHER is not their ancestor, as under srun. Without that call LAUNCHER alone counts.
 *
 * We cannot wait for processes that are not our children, so we read their clocks every few
 * milliseconds: time after the last reading is missing. We read LAUNCHER's clock after its end.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "figures.h"

#define MAX_PROCESSES 65536
#define MAX_SERVERS   64
#define SAMPLE_MS     5
#define LINGER_S      0.1
#define PATIENCE_S    5.0 /* between SIGTERM and SIGKILL */

struct process {
    pid_t pid, parent;
};

struct server {
    pid_t pid;
    clockid_t clock;
    double s; /* as last read */
    bool gone;
};

static char folder[4096], up_path[4200], go_path[4200];
static struct process all[MAX_PROCESSES];
static size_t n_all;
static struct server servers[MAX_SERVERS];
static size_t n_servers;
static volatile sig_atomic_t told;

static void on_signal(int sig)
{
    told = sig;
}

static void remove_folder(void)
{
    unlink(up_path);
    unlink(go_path);
    rmdir(folder);
}

static void exit_failed(const char *what)
{
    fprintf(stderr, "pmibench-job: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Two named pipes: rank 0 writes its pid to `up`, and waits for a byte of `go`. */
static void make_pipes(int *up, int *go)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(folder, sizeof(folder), "%s/pmibench-job.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder))
        exit_failed(folder);
    atexit(remove_folder);
    snprintf(up_path, sizeof(up_path), "%s/up", folder);
    snprintf(go_path, sizeof(go_path), "%s/go", folder);
    if (mkfifo(up_path, 0600) != 0 || mkfifo(go_path, 0600) != 0)
        exit_failed(folder);
    *up = open(up_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    *go = open(go_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (*up < 0 || *go < 0)
        exit_failed(folder);
    setenv("PMIBENCH_JOB", folder, 1);
}

static pid_t start_launcher(char **argv)
{
    const pid_t pid = fork();

    if (pid < 0)
        exit_failed("fork");
    if (pid == 0) {
        const int in = open("/dev/null", O_RDONLY);

        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (in >= 0)
            dup2(in, 0);
        execvp(argv[0], argv);
        fprintf(stderr, "pmibench-job: %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    return pid;
}

static pid_t parent_of(pid_t pid)
{
    char path[64], text[512], *end;
    int fd, parent = 0;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    end = strrchr(text, ')'); /* the name may hold anything */
    return end && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

static void read_processes(void)
{
    DIR *dir = opendir("/proc");
    struct dirent *e;

    if (!dir)
        exit_failed("/proc");
    n_all = 0;
    while ((e = readdir(dir)) != NULL && n_all < MAX_PROCESSES)
        if (isdigit((unsigned char)e->d_name[0])) {
            const pid_t pid = (pid_t)atoi(e->d_name);

            all[n_all++] = (struct process){pid, parent_of(pid)};
        }
    closedir(dir);
}

/* Is it one of these two, or a descendant of one? */
static bool is_descendant(pid_t pid, pid_t a, pid_t b)
{
    for (int depth = 0; depth < 64 && pid > 1; depth++) {
        size_t i = 0;

        if (pid == a || pid == b)
            return true;
        while (i < n_all && all[i].pid != pid)
            i++;
        pid = i < n_all ? all[i].parent : 0;
    }
    return false;
}

/* The file that a process runs; false if it has ended. */
static bool program_of(pid_t pid, struct stat *st)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    return stat(path, st) == 0;
}

static FILE *open_proc(pid_t pid, const char *file)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    return fopen(path, "re");
}

/* In kilobytes; 0 if it has ended. */
static double read_pss(pid_t pid)
{
    FILE *f = open_proc(pid, "smaps_rollup");
    char line[256];
    double kb = 0;

    while (f && fgets(line, sizeof(line), f) && sscanf(line, "Pss: %lf", &kb) != 1)
        ;
    if (f)
        fclose(f);
    return kb;
}

/* Its memory in shared mappings. */
static double shared_rss(pid_t pid)
{
    FILE *f = open_proc(pid, "smaps");
    char line[4400], access[5] = "";
    double kb, sum = 0;

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "Rss: %lf", &kb) == 1)
            sum += access[3] == 's' ? kb : 0;
        else
            (void)(sscanf(line, "%*x-%*x %4s", access) == 1);
    if (f)
        fclose(f);
    return sum;
}

static void sample_memory(void)
{
    for (size_t i = 0; i < n_servers; i++) {
        struct timespec t;

        if (!servers[i].gone && clock_gettime(servers[i].clock, &t) == 0)
            servers[i].s = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
        else
            servers[i].gone = true;
    }
}

static void add_server(pid_t pid)
{
    struct server *s = &servers[n_servers];

    if (n_servers < MAX_SERVERS && clock_getcpuclockid(pid, &s->clock) == 0) {
        s->pid = pid;
        n_servers++;
    }
}

/* Finds the servers from rank 0, which waits for a byte of `go`. With `look`, measures the memory
 * of servers and ranks before it sends that byte. */
static void find_servers(pid_t launcher, pid_t rank0, int go, bool look)
{
    const pid_t server = parent_of(rank0);
    double kb[2] = {0}, shared = 0;
    struct stat theirs, st;
    const bool found = server > 1 && program_of(rank0, &theirs);

    if ((!look || !found) && write(go, "", 1) != 1)
        exit_failed("go");
    if (!found)
        return;
    read_processes();
    for (size_t i = 0; i < n_all; i++) {
        const pid_t pid = all[i].pid;
        bool rank;

        if (!is_descendant(pid, launcher, server) || !program_of(pid, &st))
            continue;
        rank = st.st_dev == theirs.st_dev && st.st_ino == theirs.st_ino;
        if (!rank && pid != launcher)
            add_server(pid);
        if (look) {
            kb[rank] += read_pss(pid);
            shared += rank ? 0 : shared_rss(pid);
        }
    }
    sample_memory(); /* a server may end before the next sample */
    if (look && write(go, "", 1) != 1)
        exit_failed("go");
    if (look)
        printf("servers_kb %.0f ranks_kb %.0f shared_kb %.0f ", kb[0], kb[1], shared);
}

/* Returns when LAUNCHER has ended, and does not reap it: its clock can still be read. False: this
 * program ended it. */
static bool watch_job(pid_t launcher, int up, int go, bool look, double limit)
{
    const int pidfd = (int)syscall(SYS_pidfd_open, launcher, 0);
    const double begin = read_clock(CLOCK_MONOTONIC);
    struct pollfd p[2] = {{pidfd, POLLIN, 0}, {up, POLLIN, 0}};
    double term = 0; /* when SIGTERM was sent */
    char text[32] = "";

    if (pidfd < 0)
        exit_failed("pidfd_open");
    for (;;) {
        const double now = read_clock(CLOCK_MONOTONIC);

        if (poll(p, 2, n_servers > 1 ? SAMPLE_MS : 100) < 0)
            p[0].revents = p[1].revents = 0;
        if (p[0].revents)
            break;
        sample_memory();
        if (p[1].revents && read(up, text, sizeof(text) - 1) > 0)
            find_servers(launcher, (pid_t)atoi(text), go, look);
        if (term == 0 && (told || now - begin > limit)) {
            fprintf(stderr, "pmibench-job: %s: ending it\n",
                    told ? "a signal" : "the job took too long");
            kill(launcher, SIGTERM);
            term = now;
        } else if (term > 0 && now - term > PATIENCE_S)
            kill(launcher, SIGKILL);
    }
    close(pidfd);
    return term == 0;
}

/* Samples servers that outlive LAUNCHER, such as slurmstepd. */
static void sample_until_gone(void)
{
    const double until = read_clock(CLOCK_MONOTONIC) + LINGER_S;
    bool left = true;

    while (left && !told && read_clock(CLOCK_MONOTONIC) < until) {
        left = false;
        sample_memory();
        for (size_t i = 1; i < n_servers; i++)
            left = left || !servers[i].gone;
        if (left)
            usleep(SAMPLE_MS * 1000);
    }
}

int main(int argc, char **argv)
{
    const struct sigaction act = {.sa_handler = on_signal};
    double limit = 120, begin, wall, cpu = 0;
    bool look = false, ended;
    pid_t launcher;
    siginfo_t si;
    int up, go;

    while (argc > 1 && argv[1][0] == '-') {
        if (strcmp(argv[1], "--look") == 0)
            look = true;
        else if (strcmp(argv[1], "--seconds") == 0 && argc > 2 && atof(argv[2]) > 0) {
            limit = atof(argv[2]);
            argv++;
            argc--;
        } else
            argc = 1;
        argv++;
        argc--;
    }
    if (argc < 2) {
        fprintf(stderr, "usage: pmibench-job [--look] [--seconds N] LAUNCHER ARGUMENT...\n");
        return 2;
    }
    sigaction(SIGHUP, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    make_pipes(&up, &go);
    begin = read_clock(CLOCK_MONOTONIC);
    launcher = start_launcher(argv + 1);
    add_server(launcher);
    ended = watch_job(launcher, up, go, look, limit);
    wall = read_clock(CLOCK_MONOTONIC) - begin;
    sample_until_gone();
    if (waitid(P_PID, (id_t)launcher, &si, WEXITED) != 0)
        exit_failed("waitid");
    if (!ended || si.si_code != CLD_EXITED || si.si_status != 0) {
        fprintf(stderr, "pmibench-job: %s ended with %s %d\n", argv[1],
                si.si_code == CLD_EXITED ? "status" : "signal", si.si_status);
        return 1;
    }
    for (size_t i = 0; i < n_servers; i++)
        cpu += servers[i].s;
    printf("wall_ms %.3f cpu_ms %.3f\n", wall * 1e3, cpu * 1e3);
    return fflush(stdout) != 0 || ferror(stdout);
}
