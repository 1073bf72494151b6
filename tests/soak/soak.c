/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * soak PMIRUN SOAK_RANK LIBRARY_FOLDER [MPI_PROGRAM...]
 *
 * For SOAK_SECONDS (20) it starts jobs under pmirun, several at a time. Many end badly: ranks kill
 * themselves, are killed, hang, close their descriptors; pmirun is killed, terminated, interrupted
 * twice, its output is not read. Two jobs run all the time and spawn others.
 *
 * All of it runs in its own process, mount and (unless root) user namespace, with its own /dev/shm,
 * so that a job has left everything that is there after a round: there must be no process, no
 * shared-memory object and no file. In the two long-lived jobs, descriptors and mappings may not
 * grow with the number of spawned jobs, and memory by at most 4 KiB for each. SOAK_SEED repeats a
 * choice of jobs (not of times).
 *
 * Status 0, 1, or 77: no namespaces here.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLOTS       4
#define FOLDER      "/dev/shm/soak" /* where jobs run */
#define ROUND_S     2.0             /* new jobs start during this time, then all must end */
#define JOB_LIMIT_S 40.0

enum { DO_NOTHING, DO_KILL, DO_TERM, DO_INT_TWICE, DO_KILL_RANK, DO_STOP_READING, N_DEEDS };

static const char *const deeds[] = {"nothing",      "SIGKILL",           "SIGTERM",
                                    "SIGINT twice", "SIGKILL to a rank", "output not read"};

struct job {
    pid_t pid;
    double begin, deed_at;
    int deed, out; /* the end of its stdout that we read, -1 */
    bool done, must_succeed;
    char words[512];
};

struct watched {
    pid_t pid;
    int number;
    long fds, maps, rss_kib, spawned; /* when it had warmed up; fds -1: not yet */
};

static const char *pmirun, *soak_rank, *libraries;
static char **mpi_programs;
static int n_mpi_programs;
static uint64_t state;
static unsigned long n_jobs, n_failures, n_left_by_killed, n_deeds[N_DEEDS];
static bool named_killed;       /* in this round */
static char round_words[16384]; /* its jobs, one a line */
static volatile sig_atomic_t interrupted;

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint64_t below(uint64_t n)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

static void failure(const char *what, const char *detail)
{
    printf("FAILED: %s: %s\n", what, detail);
    fflush(stdout);
    n_failures++;
}

static void nap(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* ---- /proc ---- */

static long count_entries(const char *folder)
{
    DIR *d = opendir(folder);
    long n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static long count_lines(const char *path)
{
    FILE *f = fopen(path, "re");
    long n = 0;
    int c;

    while (f && (c = getc(f)) != EOF)
        n += c == '\n';
    if (f)
        fclose(f);
    return n;
}

static long status_kib(pid_t pid, const char *field)
{
    char path[64], line[256];
    long v = -1;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, field, strlen(field)) == 0)
            v = atol(line + strlen(field));
    if (f)
        fclose(f);
    return v;
}

static void describe(pid_t pid, char *text, size_t size)
{
    char path[64];
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    f = fopen(path, "re");
    if (f) {
        n = fread(text, 1, size - 1, f);
        fclose(f);
    }
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    text[n] = '\0';
    snprintf(text + n, size - n, " (pid %d)", (int)pid);
}

static bool is_guard(int pid)
{
    char path[64], name[32] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    f = fopen(path, "re");
    if (f && !fgets(name, sizeof(name), f))
        name[0] = '\0';
    if (f)
        fclose(f);
    return strcmp(name, "job-guard\n") == 0;
}

/* Any child of a process but pmirun's guard, 0: none. */
static pid_t some_child(pid_t pid)
{
    uint64_t n = 0;
    char path[64];
    pid_t child = 0;
    int p;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    f = fopen(path, "re");
    while (f && fscanf(f, "%d", &p) == 1)
        if (!is_guard(p) && below(++n) == 0)
            child = p;
    if (f)
        fclose(f);
    return child;
}

/* ---- jobs ---- */

static pid_t start(char *const argv[], int out)
{
    pid_t pid = fork();
    int null;

    if (pid != 0)
        return pid;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(out >= 0 ? out : null, 1);
    if (!getenv("SOAK_VERBOSE"))
        dup2(null, 2);
    if (chdir(FOLDER) == 0)
        execv(argv[0], argv);
    _exit(126);
}

static void start_soak_job(struct job *j)
{
    static const char *const fates[] = {"well",  "well", "spawn", "kill", "exit",
                                        "abort", "segv", "close", "hang"};
    static const char *const ways[] = {"-v", "--no-shm",
                                       "--pmi-port"}; /* the first stands for none */
    char n[16], seed[24], rounds[16], path[4200];
    const char *argv[20];
    const char *fate = fates[below(9)], *way = ways[below(3)];
    int a = 0, p[2] = {-1, -1};

    snprintf(n, sizeof(n), "%d", 1 + (int)below(8));
    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)below(1000000000));
    snprintf(rounds, sizeof(rounds), "%d", 1 + (int)below(30));
    snprintf(path, sizeof(path), "LD_LIBRARY_PATH=%s", libraries);
    j->deed = below(2) ? DO_NOTHING : (int)below(N_DEEDS);
    argv[a++] = pmirun;
    argv[a++] = "--timeout";
    argv[a++] = strcmp(fate, "hang") == 0 ? "1.5" : "30";
    if (way[1] == '-')
        argv[a++] = way;
    argv[a++] = "-n";
    argv[a++] = n;
    argv[a++] = "-x";
    argv[a++] = path;
    argv[a++] = soak_rank;
    argv[a++] = seed;
    argv[a++] = rounds;
    argv[a++] = fate;
    argv[a] = NULL;
    if (j->deed == DO_STOP_READING && pipe2(p, O_CLOEXEC) != 0)
        j->deed = DO_NOTHING;
    j->pid = start((char *const *)(uintptr_t)argv, p[1]);
    if (p[1] >= 0)
        close(p[1]);
    j->out = p[0];
    j->must_succeed =
        j->deed == DO_NOTHING && (strcmp(fate, "well") == 0 || strcmp(fate, "spawn") == 0);
    j->deed_at = j->begin + (double)below(120) / 1000;
    snprintf(j->words, sizeof(j->words), "pmirun %s -n %s soak_rank %s %s %s; %s",
             way[1] == '-' ? way : "", n, seed, rounds, fate, deeds[j->deed]);
    if (j->deed == DO_KILL && strcmp(way, "--pmi-port") == 0)
        named_killed = true;
}

static void start_mpi_job(struct job *j)
{
    const char *program = mpi_programs[below((uint64_t)n_mpi_programs)];
    char n[16];
    const char *argv[] = {pmirun, "--timeout", "30", "-n", n, program, NULL};

    snprintf(n, sizeof(n), "%d", 1 + (int)below(4));
    j->deed = below(2) ? DO_NOTHING : DO_KILL + (int)below(4);
    j->out = -1;
    j->must_succeed = false;
    j->pid = start((char *const *)(uintptr_t)argv, -1);
    j->deed_at = j->begin + (double)below(200) / 1000;
    snprintf(j->words, sizeof(j->words), "pmirun -n %s %s; %s", n, program, deeds[j->deed]);
}

static void start_job(struct job *j)
{
    memset(j, 0, sizeof(*j));
    j->begin = now_s();
    if (n_mpi_programs && below(5) == 0)
        start_mpi_job(j);
    else
        start_soak_job(j);
    if (j->pid < 0) {
        failure("fork", strerror(errno));
        j->pid = 0;
        return;
    }
    if (strlen(round_words) + sizeof(j->words) < sizeof(round_words))
        sprintf(round_words + strlen(round_words), "    %s\n", j->words);
    n_jobs++;
    n_deeds[j->deed]++;
}

static void do_deed(struct job *j)
{
    pid_t child;

    j->done = true;
    switch (j->deed) {
    case DO_KILL: kill(j->pid, SIGKILL); break;
    case DO_TERM: kill(j->pid, SIGTERM); break;
    case DO_INT_TWICE:
        kill(j->pid, SIGINT);
        nap(1);
        kill(j->pid, SIGINT);
        break;
    case DO_KILL_RANK:
        child = some_child(j->pid);
        if (child > 0)
            kill(child, SIGKILL);
        break;
    case DO_STOP_READING:
        close(j->out);
        j->out = -1;
        break;
    default: break;
    }
}

static void job_ended(struct job *j, int status)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM &&
        WTERMSIG(status) != SIGINT)
        failure("pmirun died of a signal", j->words);
    else if (WIFEXITED(status) && WEXITSTATUS(status) == 98)
        failure("a wrong value", j->words);
    else if (j->must_succeed && status != 0) {
        printf("status %#x\n", (unsigned)status);
        failure("a job that should end well", j->words);
    }
    if (j->out >= 0)
        close(j->out);
    j->pid = 0;
}

/* Reaps ended processes: jobs, and as process 1 also orphans. */
static void reap(struct job *jobs, struct watched *w, int n_watched)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int i = 0; i < SLOTS; i++)
            if (jobs[i].pid == pid)
                job_ended(&jobs[i], status);
        for (int i = 0; i < n_watched; i++) {
            if (w[i].pid != pid)
                continue;
            w[i].pid = 0;
            if (status != 0) {
                printf("status %#x\n", (unsigned)status);
                failure("a job that spawns others", i ? "--pmi-port" : "shared memory");
            }
        }
    }
}

/* ---- leftovers ---- */

static bool is_watched(pid_t pid, const struct watched *w, int n)
{
    for (int i = 0; i < n; i++)
        if (w[i].pid && (pid == w[i].pid || status_kib(pid, "PPid:") == w[i].pid))
            return true;
    return false;
}

/* A process that belongs to no watched job; 0: none. */
static pid_t some_left(const struct watched *w, int n_watched)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    pid_t left = 0;

    while (d && (e = readdir(d))) {
        const pid_t pid = isdigit((unsigned char)e->d_name[0]) ? (pid_t)atoi(e->d_name) : 0;

        if (pid > 1 && !is_watched(pid, w, n_watched))
            left = pid;
    }
    if (d)
        closedir(d);
    return left;
}

/*
 * Names in /dev/shm. A long-lived job may just be making an object: a name that stays is a leak.
 * The one case in which one may stay: pmirun was killed before all ranks of a --pmi-port job had
 * opened it.
 */
static void check_names(void)
{
    char seen[64][256], path[300];
    DIR *d = opendir("/dev/shm");
    struct dirent *e;
    int n = 0;

    while (d && (e = readdir(d)) && n < 64)
        if (e->d_name[0] != '.' && strcmp(e->d_name, "soak") != 0)
            snprintf(seen[n++], sizeof(seen[0]), "%.255s", e->d_name);
    if (d)
        closedir(d);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "/dev/shm/%.255s", seen[i]);
        for (int try = 0; try < (named_killed ? 50 : 500) && access(path, F_OK) == 0; try++)
            nap(20);
        if (unlink(path) != 0 || strncmp(seen[i], "shmht-", 6) !=
                                     0) /* gone, or from an MPI library whose rank was killed */
            continue;
        if (named_killed)
            n_left_by_killed++;
        else
            failure("a shared-memory object is left", path);
    }
}

static void check_files(void)
{
    DIR *d = opendir(FOLDER);
    struct dirent *e;
    char path[600];

    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' || strncmp(e->d_name, "spawned-", 8) == 0)
            continue;
        snprintf(path, sizeof(path), FOLDER "/%s", e->d_name);
        failure("a file is left", path);
        unlink(path);
    }
    if (d)
        closedir(d);
}

static void check_round(const struct watched *w, int n_watched)
{
    const unsigned long before = n_failures;
    char text[600];
    pid_t left = 0;

    for (int i = 0; i < 1000 && (left = some_left(w, n_watched)) > 0; i++) {
        nap(20);
        while (waitpid(left, NULL, WNOHANG) > 0)
            ;
    }
    if (left > 0) {
        describe(left, text, sizeof(text));
        failure("a process is left", text);
        kill(left, SIGKILL);
    }
    check_names();
    check_files();
    if (n_failures > before)
        printf("jobs of this round:\n%s", round_words);
    round_words[0] = '\0';
    named_killed = false;
}

/* ---- long-lived jobs ---- */

static void watch_begin(struct watched *w, int number)
{
    char path[4200], text[16];
    const char *argv[16];
    int a = 0;

    snprintf(path, sizeof(path), "LD_LIBRARY_PATH=%s", libraries);
    snprintf(text, sizeof(text), "%d", number);
    argv[a++] = pmirun;
    if (number)
        argv[a++] = "--pmi-port";
    argv[a++] = "-n";
    argv[a++] = "1";
    argv[a++] = "-x";
    argv[a++] = path;
    argv[a++] = soak_rank;
    argv[a++] = text;
    argv[a++] = "1";
    argv[a++] = "children";
    argv[a] = NULL;
    *w = (struct watched){.number = number, .fds = -1};
    w->pid = start((char *const *)(uintptr_t)argv, -1);
}

static long spawned(const struct watched *w)
{
    char path[64];
    long n = 0;
    FILE *f;

    snprintf(path, sizeof(path), FOLDER "/spawned-%d", w->number);
    f = fopen(path, "re");
    if (f && fscanf(f, "%ld", &n) != 1)
        n = 0;
    if (f)
        fclose(f);
    return n;
}

/* Samples it; the first sample after the warm-up is the reference for later ones. */
static void watch_look(struct watched *w, bool last)
{
    char fds[64], maps[64], text[256];
    long n = spawned(w), n_fds, n_maps, rss;

    if (!w->pid || n < 20)
        return;
    snprintf(fds, sizeof(fds), "/proc/%d/fd", (int)w->pid);
    snprintf(maps, sizeof(maps), "/proc/%d/maps", (int)w->pid);
    n_fds = count_entries(fds);
    n_maps = count_lines(maps);
    rss = status_kib(w->pid, "VmRSS:");
    if (w->fds < 0) {
        w->fds = n_fds;
        w->maps = n_maps;
        w->rss_kib = rss;
        w->spawned = n;
        return;
    }
    snprintf(text, sizeof(text),
             "%s: after %ld spawned jobs %ld descriptors, %ld mappings, %ld KiB; after %ld %ld, "
             "%ld, %ld",
             w->number ? "--pmi-port" : "shared memory", w->spawned, w->fds, w->maps, w->rss_kib, n,
             n_fds, n_maps, rss);
    /* The current spawned jobs add to it: only growth beyond their number is a leak. */
    if (n_fds > w->fds + 100 + (n - w->spawned) / 4 ||
        n_maps > w->maps + 30 + (n - w->spawned) / 8 ||
        rss > w->rss_kib + 512 + 4 * (n - w->spawned)) {
        failure("a long-lived pmirun grows", text);
        w->fds = -1;
    } else if (last) {
        printf("%s\n", text);
    }
}

/* ---- the soak ---- */

static void one_round(struct watched *w, int n_watched)
{
    struct job jobs[SLOTS] = {0};
    double end = now_s() + ROUND_S;
    int n = 1;

    while (n > 0) {
        n = 0;
        for (int i = 0; i < SLOTS; i++) {
            struct job *j = &jobs[i];

            if (!j->pid && now_s() < end && !interrupted)
                start_job(j);
            if (!j->pid)
                continue;
            n++;
            if (!j->done && now_s() >= j->deed_at)
                do_deed(j);
            if (now_s() > j->begin + JOB_LIMIT_S) {
                failure("a job does not end", j->words);
                kill(j->pid, SIGKILL);
                j->begin = now_s();
            }
        }
        nap(2);
        reap(jobs, w, n_watched);
    }
}

static int soak(double seconds)
{
    double end = now_s() + seconds;
    struct watched w[2];
    struct job none[SLOTS] = {0};
    unsigned long rounds = 0;
    long fds = count_entries("/proc/self/fd");
    int stop;

    for (int i = 0; i < 2; i++)
        watch_begin(&w[i], i);
    while (now_s() < end && !interrupted) {
        one_round(w, 2);
        check_round(w, 2);
        for (int i = 0; i < 2; i++)
            watch_look(&w[i], false);
        if (count_entries("/proc/self/fd") != fds)
            failure("the soak itself", "descriptors");
        rounds++;
    }
    for (int i = 0; i < 2; i++)
        watch_look(&w[i], true);
    stop = open(FOLDER "/stop", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    for (int i = 0; i < 4000 && (w[0].pid || w[1].pid); i++) {
        nap(10);
        reap(none, w, 2);
    }
    close(stop);
    unlink(FOLDER "/stop");
    for (int i = 0; i < 2; i++)
        if (w[i].pid)
            failure("a long-lived job does not end", i ? "--pmi-port" : "shared memory");
    check_round(w, 0);
    printf("%lu jobs in %lu rounds", n_jobs, rounds);
    for (int i = 0; i < N_DEEDS; i++)
        printf("%s %s %lu", i ? "," : ":", deeds[i], n_deeds[i]);
    printf("; %lu names left by a pmirun that was killed; %lu FAILED\n", n_left_by_killed,
           n_failures);
    return n_failures != 0 || interrupted;
}

static void on_interrupt(int sig)
{
    interrupted = 1;
}

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return ok;
}

static bool own_namespaces(void)
{
    const unsigned uid = (unsigned)getuid(), gid = (unsigned)getgid();
    char map[64];

    if (unshare(CLONE_NEWNS | CLONE_NEWPID) == 0)
        return true;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) != 0)
        return false;
    snprintf(map, sizeof(map), "0 %u 1", uid);
    if (!write_file("/proc/self/setgroups", "deny") || !write_file("/proc/self/uid_map", map))
        return false;
    snprintf(map, sizeof(map), "0 %u 1", gid);
    return write_file("/proc/self/gid_map", map);
}

/* Process 1 of its namespace: when it ends, so does everything in it. */
static int inside(double seconds)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("proc", "/proc", "proc", 0, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1g") != 0 || mkdir(FOLDER, 0700) != 0) {
        printf("skip: no file systems of its own: %s\n", strerror(errno));
        return 77;
    }
    setenv("TMPDIR", FOLDER, 1);
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    return soak(seconds);
}

int main(int argc, char **argv)
{
    const char *seconds = getenv("SOAK_SECONDS"), *seed = getenv("SOAK_SEED");
    int status;
    pid_t pid;

    if (argc < 4) {
        fprintf(stderr, "usage: soak PMIRUN SOAK_RANK LIBRARY_FOLDER [MPI_PROGRAM...]\n");
        return 2;
    }
    pmirun = argv[1];
    soak_rank = argv[2];
    libraries = argv[3];
    mpi_programs = argv + 4;
    n_mpi_programs = argc - 4;
    state = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
    printf("SOAK_SEED=%llu\n", (unsigned long long)state);
    fflush(stdout);
    if (!own_namespaces()) {
        printf("skip: no namespaces: %s\n", strerror(errno));
        return 77;
    }
    pid = fork();
    if (pid == 0) {
        status = inside(seconds ? atof(seconds) : 20);
        fflush(stdout);
        _exit(status);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
