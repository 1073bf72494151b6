/* SPDX-License-Identifier: BSD-3-Clause */
/* `pmiprobe server`: runs a job for each case under a launcher, and prints the table of results. */
#define _GNU_SOURCE /* pipe2() */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <getopt.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

struct options {
    double timeout;      /* of one case, seconds */
    int reply_ms;        /* of one reply */
    const char *pattern; /* cases to run, NULL: all */
    const char *name;    /* the peer's, for JSON */
    const char *np_flag;
    bool json, verbose;
    char **launcher;
    int n_launcher;
    char self[4096];
    char dir[4096]; /* reports of the ranks */
};

struct result {
    enum verdict v;
    char what[512];
    int ms;
};

/* The launcher's end, and its last output. */
struct launch {
    /* the launcher could not be started, or a report could not be read: not the server's fault */
    int err;
    bool ended;
    int status; /* of waitpid() */
    size_t n_out;
    char out[8192];
};

static void read_output(int fd, struct launch *l)
{
    char part[4096];
    ssize_t n;

    while ((n = read(fd, part, sizeof(part))) > 0) { /* the last bytes count */
        size_t keep = sizeof(l->out) - 1 - (size_t)n;

        if (l->n_out > keep) {
            memmove(l->out, l->out + l->n_out - keep, keep);
            l->n_out = keep;
        }
        memcpy(l->out + l->n_out, part, (size_t)n);
        l->n_out += (size_t)n;
    }
    l->out[l->n_out] = '\0';
}

static void run_launcher(const struct options *o, char *const argv[], const char *const *env,
                         struct launch *l)
{
    int64_t end = now_ms() + (int64_t)(o->timeout * 1000);
    int fds[2];
    pid_t pid;

    memset(l, 0, sizeof(*l));
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        l->err = errno;
        return;
    }
    fcntl(fds[1], F_SETFL, 0); /* the other end is the launcher's stdout */
    pid = proc_start(argv, env, fds[1], -1);
    l->err = pid < 0 ? errno : 0;
    close(fds[1]);
    while (pid > 0 && !probe_stopped && now_ms() < end) {
        struct pollfd p = {fds[0], POLLIN, 0};

        if (poll(&p, 1, 10) > 0 && (p.revents & POLLHUP) && !(p.revents & POLLIN))
            sleep_ms(5);
        read_output(fds[0], l);
        if (waitpid(pid, &l->status, WNOHANG) == pid) {
            l->ended = true;
            break;
        }
    }
    if (pid > 0)
        proc_end(pid, !l->ended, 2000);
    read_output(fds[0], l);
    close(fds[0]);
}

/* Words that only a dying server or launcher prints: the line that has one, in `line`. */
static bool crash_line(const char *out, char *line, size_t cap)
{
    static const char *const words[] = {"Segmentation fault", "SIGSEGV",      "double free",
                                        "Assertion",          "assert (",     "stack smashing",
                                        "corrupted",          "munmap_chunk", "AddressSanitizer"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const char *at = strstr(out, words[i]), *slash = NULL, *start = at;

        if (!at)
            continue;
        while (start > out && start[-1] != '\n')
            start--;
        for (const char *s = start; s < at; s++)
            if (*s == '/')
                slash = s; /* drops the directory of a source file */
        start = slash ? slash + 1 : start;
        printable(start, strcspn(start, "\n"), line, cap);
        return true;
    }
    return false;
}

/* Reads one rank's report. */
static void read_report(const struct options *o, int rank, struct launch *l, struct result *r,
                        bool *started, bool *closed, bool *ending)
{
    char path[4200], line[800];
    FILE *f;

    r->v = V_NONE;
    r->what[0] = '\0';
    snprintf(path, sizeof(path), "%s/case.%d", o->dir, rank);
    f = fopen(path, "re");
    if (!f && errno != ENOENT)
        l->err = errno;
    while (f && fgets(line, sizeof(line), f)) {
        char *end;

        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "started") == 0)
            *started = true;
        else if (strcmp(line, "closed") == 0)
            *closed = true;
        else if (strcmp(line, "ending") == 0)
            *ending = true;
        if (strncmp(line, "verdict ", 8) != 0)
            continue;
        r->v = (enum verdict)strtol(line + 8, &end, 10);
        snprintf(r->what, sizeof(r->what), "%.500s", *end ? end + 1 : "");
    }
    if (f && ferror(f))
        l->err = errno;
    if (f)
        fclose(f);
    unlink(path);
}

static void status_text(const struct launch *l, char *out, size_t cap)
{
    if (!l->ended)
        snprintf(out, cap, "the launcher did not end");
    else if (WIFSIGNALED(l->status))
        snprintf(out, cap, "the launcher died of signal %d", WTERMSIG(l->status));
    else
        snprintf(out, cap, "the launcher's status is %d", WEXITSTATUS(l->status));
}

/* The job must end by itself: the launcher's end decides. */
static void judge_end(const struct probe_case *pc, const struct launch *l, struct result *r)
{
    int code = l->ended && WIFEXITED(l->status) ? WEXITSTATUS(l->status) : -1;
    char text[100];

    status_text(l, text, sizeof(text));
    snprintf(r->what, sizeof(r->what), "%s", text);
    r->v = !l->ended                                             ? V_HANG
           : (pc->status == -1 ? code != 0 : code == pc->status) ? V_OK
                                                                 : V_WRONG;
}

/* Returns false when the launcher did not even start the played process. */
static bool judge_job(const struct options *o, const struct probe_case *pc, struct launch *l,
                      struct result *r)
{
    bool started = false, closed = false, ending = false;
    struct result other;
    char end[100], line[160];

    read_report(o, 0, l, r, &started, &closed, &ending);
    other.v = V_OK;
    other.what[0] = '\0';
    if (pc->ranks > 1) {
        bool started1 = false;

        read_report(o, 1, l, &other, &started1, &closed, &ending);
        started |= started1;
    }
    status_text(l, end, sizeof(end));
    if (!started) {
        char tail[300];
        size_t skip = l->n_out > 250 ? l->n_out - 250 : 0;

        printable(l->out + skip, l->n_out - skip, tail, sizeof(tail));
        r->v = V_NONE;
        snprintf(r->what, sizeof(r->what), "the played process did not reach PMI; %s: %s", end,
                 tail);
        return false;
    }
    if ((pc->flags & CASE_ENDS) && ending && r->v == V_NONE &&
        (other.v == V_NONE || other.v == V_CLOSED || l->ended)) {
        if (other.v == V_HANG || other.v == V_TAKEN)
            *r = other;
        else
            judge_end(pc, l, r);
    } else if (r->v == V_NONE) { /* the job ended before its verdict */
        r->v = l->ended ? V_KILLED : V_HANG;
        snprintf(r->what, sizeof(r->what), "%s%s", closed ? "connection closed, then " : "", end);
    } else if (pc->ranks > 1 && other.v != V_OK) {
        if (other.v == V_NONE) {
            other.v = l->ended ? V_KILLED : V_HANG;
            snprintf(other.what, sizeof(other.what), "the other rank was ended; %s", end);
        }
        if (other.v == V_CLOSED && r->v == V_CLOSED && !l->ended) {
            other.v = V_CRASH;
            snprintf(other.what, sizeof(other.what),
                     "all connections closed, the server is gone; %s", end);
        } else if (other.v == V_CLOSED && (pc->flags & CASE_WITNESS)) {
            other.v = V_KILLED;
        }
        if (other.v > r->v)
            *r = other;
    } else if ((pc->flags & CASE_WITNESS) && r->v != V_HANG) {
        size_t n = strlen(r->what);

        if (r->v == V_OK || r->v == V_TAKEN)
            snprintf(r->what + n, sizeof(r->what) - n, "; %s", other.what);
    } else if (!l->ended && r->v <= V_DELAYED) {
        r->v = V_HANG;
        snprintf(r->what, sizeof(r->what), "the launcher did not end after the job");
    }
    if (l->ended &&
        ((WIFSIGNALED(l->status) && WTERMSIG(l->status) != 15 && WTERMSIG(l->status) != 9) ||
         (WIFEXITED(l->status) && WEXITSTATUS(l->status) == 139))) {
        r->v = V_CRASH;
        snprintf(r->what, sizeof(r->what), "%s", end);
    } else if (r->v >= V_CLOSED && crash_line(l->out, line, sizeof(line))) {
        r->v = V_CRASH;
        snprintf(r->what, sizeof(r->what), "%s; %s", line, end);
    }
    return true;
}

/* LAUNCHER ARGS with the number of ranks set: {n}, else the argument of -n and the like, else
 * --np-flag. */
static char **launcher_argv(const struct options *o, const struct probe_case *pc)
{
    static const char *const np[] = {"-n", "-np", "--np", "--ntasks"};
    static char number[16], words[64][256];
    static char *argv[512];
    bool placed = false;
    int n = 0, w = 0;

    memset(argv, 0, sizeof(argv));
    snprintf(number, sizeof(number), "%d", pc->ranks);
    for (int i = 0; i < o->n_launcher && n < 400; i++) {
        char *arg = o->launcher[i], *mark = strstr(arg, "{n}");

        if (mark && w < 64) {
            snprintf(words[w], sizeof(words[w]), "%.*s%s%s", (int)(mark - arg), arg, number,
                     mark + 3);
            arg = words[w++];
            placed = true;
        }
        argv[n++] = arg;
    }
    for (int i = 1; i + 1 < n && !placed; i++)
        for (int k = 0; k < 4; k++)
            if (strcmp(argv[i], np[k]) == 0) {
                argv[i + 1] = number;
                placed = true;
            }
    if (!placed) {
        static char flag[64];

        snprintf(flag, sizeof(flag), "%s", o->np_flag);
        argv[n++] = flag;
        argv[n++] = number;
    }
    return argv;
}

static bool run_case(const struct options *o, const struct probe_case *pc, struct result *r,
                     int *err)
{
    static char report[4200], reply[64], timeout[64], word_play[] = "play", name[64];
    static const char *env[] = {report,   reply,      timeout,    "PMI_FD",      "PMI_PORT",
                                "PMI_ID", "PMI_RANK", "PMI_SIZE", "PMI_SPAWNED", NULL};
    static struct launch l;
    char **argv = launcher_argv(o, pc);
    int64_t start = now_ms();
    int n = 0;
    bool began;

    while (argv[n])
        n++;
    snprintf(name, sizeof(name), "%s", pc->name);
    argv[n++] = (char *)(uintptr_t)o->self;
    argv[n++] = word_play;
    argv[n++] = name;
    argv[n] = NULL;
    snprintf(report, sizeof(report), "PMIPROBE_REPORT=%.4000s/case", o->dir);
    snprintf(reply, sizeof(reply), "PMIPROBE_REPLY_MS=%d", o->reply_ms);
    snprintf(timeout, sizeof(timeout), "PMIPROBE_TIMEOUT=%d", (int)o->timeout + 1);
    run_launcher(o, argv, env, &l);
    began = judge_job(o, pc, &l, r);
    *err = l.err;
    r->ms = (int)(now_ms() - start);
    if (o->verbose && l.n_out)
        fprintf(stderr, "--- %s\n%s%s", pc->name, l.out, l.out[l.n_out - 1] == '\n' ? "" : "\n");
    return began;
}

static void print_result(const struct options *o, const struct probe_case *pc,
                         const struct result *r)
{
    bool conforms = case_conforms(pc, r->v);

    if (o->json) {
        printf("{\"tool\":\"pmiprobe\",\"peer\":\"");
        print_json(stdout, o->name);
        printf("\",\"case\":\"%s\",\"ranks\":%d,\"conforms\":%s,\"result\":\"%s\",\"ms\":%d,"
               "\"expected\":\"",
               pc->name, pc->ranks, conforms ? "true" : "false", verdict_name(r->v), r->ms);
        print_json(stdout, pc->expect);
        printf("\",\"happened\":\"");
        print_json(stdout, r->what);
        printf("\"}\n");
    } else {
        printf("|");
        print_cell(stdout, pc->name, 20);
        print_cell(stdout, conforms ? "pass" : "FAIL", 4);
        print_cell(stdout, verdict_name(r->v), 11);
        print_cell(stdout, pc->expect, 50);
        print_cell(stdout, r->what, 30);
        printf("\n");
    }
    fflush(stdout);
}

static int run_cases(const struct options *o)
{
    int n = 0, n_fail = 0, n_dead = 0;
    const struct probe_case *pc;

    if (!o->json)
        printf("| case                 |      | result      | a conforming server                  "
               "              |"
               " what happened                  |\n|---|---|---|---|---|\n");
    for (int i = 0; (pc = case_at(i)) && !probe_stopped; i++) {
        struct result r;
        int err;

        if (o->pattern && fnmatch(o->pattern, pc->name, 0) != 0)
            continue;
        n++;
        n_dead = run_case(o, pc, &r, &err) ? 0 : n_dead + 1;
        if (probe_stopped)
            break;
        if (err) {
            fprintf(stderr, "pmiprobe: cannot run %s, which says nothing of the server: %s\n",
                    pc->name, strerror(err));
            return 3;
        }
        n_fail += !case_conforms(pc, r.v);
        print_result(o, pc, &r);
        if (n_dead == 3) { /* the launcher does not work, or its server is gone */
            fprintf(stderr, "pmiprobe: three jobs in a row did not start; giving up\n");
            return 3;
        }
    }
    if (n == 0) {
        fprintf(stderr, "pmiprobe: no case is called %s (see pmiprobe cases)\n", o->pattern);
        return 2;
    }
    if (!o->json)
        printf("\n%d cases, %d pass, %d FAIL\n", n, n - n_fail, n_fail);
    return probe_stopped ? 128 + probe_stopped : n_fail ? 1 : 0;
}

/* Removes the probe's folder and the files that late ranks may have left in it. */
static void remove_folder(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(dir);
}

int server_main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"timeout", required_argument, NULL, 't'}, {"reply", required_argument, NULL, 'r'},
        {"case", required_argument, NULL, 'c'},    {"name", required_argument, NULL, 'n'},
        {"np-flag", required_argument, NULL, 'f'}, {"json", no_argument, NULL, 'j'},
        {"verbose", no_argument, NULL, 'v'},       {NULL, 0, NULL, 0},
    };
    static struct options o = {.timeout = 15, .reply_ms = 2000, .np_flag = "-n"};
    const char *tmp = getenv("TMPDIR");
    ssize_t n;
    int c, rc;

    while ((c = getopt_long(argc, argv, "+t:r:c:n:f:jv", longs, NULL)) != -1) {
        switch (c) {
        case 't': o.timeout = atof(optarg); break;
        case 'r': o.reply_ms = (int)(atof(optarg) * 1000); break;
        case 'c': o.pattern = optarg; break;
        case 'n': o.name = optarg; break;
        case 'f': o.np_flag = optarg; break;
        case 'j': o.json = true; break;
        case 'v': o.verbose = true; break;
        default: return 2;
        }
    }
    o.launcher = argv + optind;
    o.n_launcher = argc - optind;
    n = readlink("/proc/self/exe", o.self, sizeof(o.self) - 1);
    if (o.n_launcher < 1 || o.timeout < 1 || o.timeout > 3600 || o.reply_ms < 100 || n <= 0) {
        fprintf(stderr,
                "usage: pmiprobe server [--timeout S] [--reply S] [--case NAME] [--name PEER] "
                "[--np-flag -n] [--json] [--verbose] -- LAUNCHER ARGS...\n");
        return 2;
    }
    if (!o.name)
        o.name = o.launcher[0];
    snprintf(o.dir, sizeof(o.dir), "%s/pmiprobe-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(o.dir)) {
        fprintf(stderr, "pmiprobe: cannot make %s: %s\n", o.dir, strerror(errno));
        return 3;
    }
    proc_setup();
    rc = run_cases(&o);
    remove_folder(o.dir);
    return rc;
}
