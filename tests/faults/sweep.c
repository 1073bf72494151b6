/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault_sweep [option...] -- COMMAND [ARG...]
 *
 * Runs the command once and records its system calls and allocations. Then runs it once for each of
 * them, makes that one fail, and checks
 *   - that no process of it died of SIGSEGV, SIGABRT and the like,
 *   - that it ended, in time, and left no process behind,
 *   - that its status is 0 and its output has the first run's lines in any order, or its status is
 *     not 0 and it printed a message,
 *   - that it left no file, in /dev/shm or elsewhere, that the first run did not leave.
 *
 *   --sample N     N of the faults, chosen so that every kind comes first before a kind comes twice
 *                  (default: all)
 *   --per N        at most N places for a kind: process, call and errno (default 60)
 *   --seed N       of that choice (default 1)
 *   --only P,P     processes whose calls fail (default: all)
 *   --limit S      seconds that a run may take (default 20)
 *   --hung N       the status with which the command's own time limit ends it
 *   --any-output   its output differs in each run (figures): with status 0 it must not be empty
 *   --verdict      output on stdout with a status that is not 0 counts as a message
 *   --ignore TEXT  does not compare lines of stdout that contain this
 *   --file NAME    a file in its folder that counts as output
 *   --only-files   only calls on files in its folder, so none on the files of libraries
 *   --may-keep     with a status that is not 0, files that it made may stay: they are its result
 *   --alloc LIB    lets allocations fail too, through this preloaded library
 *   --one FAULT    this one fault only, as it is printed: PROC:CALL:N:ERRNO, PROC:alloc:N, with +
 *                  for HOW_AFTER, * for all later ones
 *   --list         prints each fault with its result
 *
 * A run that did not end in time, or left processes behind, is repeated if the sweep itself has
 * waited for a processor for a quarter of that time: the machine was busy.
 *
 * Status 0: every run passed; 1: a run failed; 77: this machine cannot trace.
 */
#define _GNU_SOURCE
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOC       (-1) /* a fault's call: an allocation */
#define TEXT_BYTES  262144u
#define MAX_STARVED 5 /* runs of a fault */

struct options {
    size_t sample, per;
    uint64_t seed;
    uint32_t only; /* bit mask */
    double limit_s;
    int hung;
    const char *alloc, *one, *ignore, *file;
    bool list, any_output, verdict, may_keep, only_files;
    char **argv;
};

struct plan {
    struct fault *faults;
    size_t n, cap;
};

struct output {
    char *text; /* sorted lines of stdout */
    char *err;
    uint64_t file; /* its hash; 0: the file is missing */
    bool starved;
};

static struct options opt = {.per = 60, .seed = 1, .only = ~0u, .limit_s = 20, .hung = -1};
static struct alloc_plan *shared;
static char scratch[] = "/tmp/faults-XXXXXX", alloc_file[64], run_dir[64];
static char preload[64]; /* opt.alloc under a name without blanks, which end one in LD_PRELOAD */
static volatile sig_atomic_t interrupted;

static void *need(void *p)
{
    if (!p) {
        fprintf(stderr, "fault_sweep: out of memory\n");
        exit(1);
    }
    return p;
}

static uint64_t next_random(void)
{
    opt.seed += 0x9e3779b97f4a7c15u;
    uint64_t z = opt.seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- faults as text ---- */

static const char *fault_text(const struct fault *f, char *text, size_t size)
{
    if (f->call == ALLOC)
        snprintf(text, size, "%d:alloc:%u%s", f->proc, f->n, f->how == HOW_ON ? "*" : "");
    else
        snprintf(text, size, "%d:%s:%u:%s%s", f->proc, calls[f->call].name, f->n,
                 f->how == HOW_SHORT ? "short" : errno_name(f->err),
                 f->how == HOW_ON      ? "*"
                 : f->how == HOW_AFTER ? "+"
                                       : "");
    return text;
}

static bool fault_parse(const char *text, struct fault *f)
{
    char name[64], err[64] = "";
    size_t len;

    memset(f, 0, sizeof(*f));
    if (sscanf(text, "%d:%63[^:]:%u", &f->proc, name, &f->n) != 3 || f->proc < 0 ||
        f->proc >= MAX_PROCS)
        return false;
    len = strlen(text);
    f->how = text[len - 1] == '*' ? HOW_ON : text[len - 1] == '+' ? HOW_AFTER : HOW_ERRNO;
    f->call = ALLOC;
    if (strcmp(name, "alloc") == 0)
        return true;
    for (size_t i = 0; i < n_calls; i++)
        if (strcmp(calls[i].name, name) == 0)
            f->call = (int)i;
    if (f->call == ALLOC || sscanf(text, "%*d:%*[^:]:%*u:%63[A-Z0-9a-z]", err) != 1)
        return false;
    if (strcmp(err, "short") == 0)
        f->how = HOW_SHORT;
    f->err = errno_number(err, strlen(err));
    return f->how == HOW_SHORT || f->err;
}

/* ---- one run ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What is in a file; sorted by line if so wished. */
static char *slurp(int fd, bool sorted)
{
    char *text = need(malloc(TEXT_BYTES)), *copy, *save = NULL, **lines;
    ssize_t n = pread(fd, text, TEXT_BYTES - 1, 0);
    size_t n_lines = 0;

    text[n > 0 ? n : 0] = '\0';
    if (!sorted)
        return text;
    lines = need(calloc(strlen(text) + 1, sizeof(*lines)));
    copy = need(strdup(text));
    for (char *l = strtok_r(copy, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
        if (!opt.ignore || !strstr(l, opt.ignore))
            lines[n_lines++] = l;
    qsort(lines, n_lines, sizeof(*lines), compare_lines);
    text[0] = '\0';
    for (size_t i = 0, at = 0; i < n_lines; i++)
        at += (size_t)sprintf(text + at, "%s\n", lines[i]); /* its first length */
    free(lines);
    free(copy);
    return text;
}

static uint64_t hash_of_file(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    char path[512];
    FILE *f;
    int c;

    snprintf(path, sizeof(path), "%s/%s", run_dir, name);
    f = fopen(path, "re");
    if (!f)
        return 0;
    while ((c = getc(f)) != EOF)
        hash = (hash ^ (uint64_t)c) * 0x100000001b3u;
    fclose(f);
    return hash;
}

/* Since we began: how long we have been ready to run and waited for a processor. */
static uint64_t waited_ns(void)
{
    FILE *f = fopen("/proc/self/schedstat", "re");
    unsigned long long waited = 0;

    if (f && fscanf(f, "%*u %llu", &waited) != 1)
        waited = 0;
    if (f)
        fclose(f);
    return waited;
}

/* 0, or -errno: not traced. */
static int run_once(const struct fault *fault, struct run *r, struct output *out)
{
    int o = memfd_create("stdout", MFD_CLOEXEC), e = memfd_create("stderr", MFD_CLOEXEC), rc;
    const uint64_t waited = waited_ns();
    const double began = now_s();
    static const struct fault none;

    if (o < 0 || e < 0)
        return -errno;
    if (mkdir(run_dir, 0700) != 0 && errno != EEXIST)
        return -errno;
    if (shared) {
        memset(shared, 0, sizeof(*shared));
        if (fault->n && fault->call == ALLOC) {
            shared->who = fault->proc;
            shared->on = fault->how == HOW_ON;
            shared->fail_at = fault->n;
        }
        if (!fault->n || fault->call == ALLOC) {
            setenv("LD_PRELOAD", preload, 1);
            setenv("FAULTS_ALLOC", alloc_file, 1);
        } else {
            unsetenv("LD_PRELOAD");
            unsetenv("FAULTS_ALLOC");
        }
    }
    rc = trace_run(opt.argv, run_dir, opt.only_files, o, e, fault->call == ALLOC ? &none : fault,
                   opt.limit_s, r);
    if (fault->n && fault->call == ALLOC)
        r->hit = shared->hit != 0;
    out->text = slurp(o, true);
    out->err = slurp(e, false);
    out->file = opt.file ? hash_of_file(opt.file) : 0;
    out->starved = (double)(waited_ns() - waited) / 1e9 > (now_s() - began) / 4;
    close(o);
    close(e);
    return rc;
}

static void output_free(struct output *out)
{
    free(out->text);
    free(out->err);
}

static bool out_of_time(const struct run *r)
{
    return r->hung || (opt.hung >= 0 && WIFEXITED(r->status) && WEXITSTATUS(r->status) == opt.hung);
}

/* Repeats the run if the machine was too busy. */
static int run_patiently(const struct fault *f, struct run *r, struct output *out, size_t *starved)
{
    for (int i = 1;; i++) {
        int rc = run_once(f, r, out);

        if (rc != 0 || (!out_of_time(r) && r->n_left == 0) || !out->starved || i == MAX_STARVED)
            return rc;
        ++*starved;
        output_free(out);
        run_release(r);
        remove_tree(run_dir);
    }
}

/* ---- the plan ---- */

static void plan_add(struct plan *p, struct fault f)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 1024;
        p->faults = need(realloc(p->faults, p->cap * sizeof(*p->faults)));
    }
    p->faults[p->n++] = f;
}

/* All faults of one kind: a process, a call, an errno; its candidate calls are numbered 1 to n,
 * less those that cannot fail in this way. */
static void plan_kind(struct plan *p, const struct run *good, struct fault f,
                      bool only_if_not_waiting)
{
    size_t first = p->n, n = 0;

    if (f.call == ALLOC) {
        for (uint32_t i = 1; i <= shared->count[f.proc]; i++, n++) {
            f.n = i;
            plan_add(p, f);
        }
    } else {
        for (size_t i = 0; i < good->n_events; i++) {
            const struct event *ev = &good->events[i];

            if (ev->proc != f.proc || ev->call != f.call || (only_if_not_waiting && ev->waits))
                continue;
            f.n = ev->n;
            plan_add(p, f);
            n++;
        }
    }
    for (size_t i = n; i > 1; i--) { /* in random order */
        size_t j = next_random() % i;
        struct fault swap = p->faults[first + i - 1];

        p->faults[first + i - 1] = p->faults[first + j];
        p->faults[first + j] = swap;
    }
    if (n > opt.per)
        p->n = first + opt.per;
}

static void plan_call(struct plan *p, const struct run *good, int proc, int call)
{
    const char *s = calls[call].failures;

    while (*s) {
        const size_t len = strcspn(s, " ");
        const bool after = *s == '+', no_wait = *s == '?', on = s[len - 1] == '*';
        struct fault f = {.proc = proc, .call = call, .how = after ? HOW_AFTER : HOW_ERRNO};

        f.err = errno_number(s + (after || no_wait), len - (after || no_wait) - on);
        if (!f.err) {
            fprintf(stderr, "fault_sweep: no such errno: %s\n", s);
            exit(1);
        }
        plan_kind(p, good, f, no_wait);
        if (on) {
            f.how = HOW_ON;
            plan_kind(p, good, f, no_wait);
        }
        s += len + (s[len] == ' ');
    }
    if (calls[call].len_arg)
        plan_kind(p, good, (struct fault){.proc = proc, .call = call, .how = HOW_SHORT}, false);
}

/* One of each kind, then a second of each, and so on. */
static void plan_deal(struct plan *p)
{
    struct fault *dealt = need(calloc(p->n + 1, sizeof(*dealt)));
    size_t n = 0;

    for (size_t round = 0; n < p->n; round++) {
        size_t begin = n;

        for (size_t i = 0, in_kind = 0; i < p->n; i++) {
            const struct fault *f = &p->faults[i], *before = i ? f - 1 : NULL;

            in_kind = before && before->proc == f->proc && before->call == f->call &&
                              before->err == f->err && before->how == f->how
                          ? in_kind + 1
                          : 0;
            if (in_kind == round)
                dealt[n++] = *f;
        }
        for (size_t i = n - begin; i > 1; i--) {
            size_t j = next_random() % i;
            struct fault swap = dealt[begin + i - 1];

            dealt[begin + i - 1] = dealt[begin + j];
            dealt[begin + j] = swap;
        }
    }
    free(p->faults);
    p->faults = dealt;
}

static void plan_make(struct plan *p, const struct run *good)
{
    for (int proc = 0; proc < MAX_PROCS; proc++) {
        if (!(opt.only >> proc & 1))
            continue;
        for (size_t call = 0; call < n_calls; call++)
            plan_call(p, good, proc, (int)call);
        if (shared && !opt.only_files) {
            plan_kind(p, good, (struct fault){.proc = proc, .call = ALLOC}, false);
            plan_kind(p, good, (struct fault){.proc = proc, .call = ALLOC, .how = HOW_ON}, false);
        }
    }
    plan_deal(p);
    if (opt.sample && p->n > opt.sample)
        p->n = opt.sample;
}

/* ---- checks ---- */

static bool was_kept(const struct run *good, const char *path)
{
    for (size_t i = 0; i < good->n_paths; i++)
        if (strcmp(good->paths[i], path) == 0)
            return true;
    return false;
}

/* What is wrong with the run; "": nothing. */
static void judge(const struct fault *f, const struct run *good, const struct output *expected,
                  const struct run *r, const struct output *out, char *why, size_t size)
{
    struct stat st;

    why[0] = '\0';
    for (size_t i = 0; i < r->n_paths; i++) {
        if (was_kept(good, r->paths[i]) || lstat(r->paths[i], &st) != 0 || S_ISDIR(st.st_mode))
            continue;
        if (!opt.may_keep || WEXITSTATUS(r->status) == 0 ||
            strncmp(r->paths[i], run_dir, strlen(run_dir)) != 0)
            snprintf(why, size, "it left %s", r->paths[i]);
        unlink(r->paths[i]);
    }
    if (r->crash_signal)
        snprintf(why, size, "process %d (%s) died of signal %d at %s", r->crash_proc,
                 r->names[r->crash_proc], r->crash_signal, r->crash_at);
    else if (out_of_time(r))
        snprintf(why, size, r->hung ? "it did not end" : "it ended by its own time limit");
    else if (r->n_left)
        snprintf(why, size, "it left %d processes: %s", r->n_left, r->left_name);
    else if (WIFSIGNALED(r->status))
        snprintf(why, size, "it died of signal %d", WTERMSIG(r->status));
    else if (WEXITSTATUS(r->status) == 0 && !opt.any_output &&
             strcmp(out->text, expected->text) != 0)
        snprintf(why, size, "status 0, but the output is not the one of a good run");
    else if (WEXITSTATUS(r->status) == 0 && expected->text[0] && !out->text[0])
        snprintf(why, size, "status 0, and it prints nothing");
    else if (WEXITSTATUS(r->status) == 0 && out->file != expected->file)
        snprintf(why, size, "status 0, but %s is not the one of a good run", opt.file);
    else if (f->err == EPIPE && WEXITSTATUS(r->status) == 128 + SIGPIPE)
        return; /* as with SIGPIPE: no process reads the message */
    else if (WEXITSTATUS(r->status) != 0 && !(opt.verdict && out->text[0]) &&
             out->err[strspn(out->err, "\n")] == '\0')
        snprintf(why, size, "status %d without a word", WEXITSTATUS(r->status));
}

static void indent(const char *text, size_t lines)
{
    while (*text && lines-- > 0) {
        int n = (int)strcspn(text, "\n");

        printf("        %.*s\n", n < 300 ? n : 300, text);
        text += n + (text[n] == '\n');
    }
}

static void report(const struct run *good, const struct fault *f, const struct run *r,
                   const struct output *out, const char *why)
{
    char text[96];

    printf("%s %s (%s%s%s): ", why[0] ? "FAILED" : "ok", fault_text(f, text, sizeof(text)),
           f->call == ALLOC ? shared->names[f->proc] : good->names[f->proc],
           r->hit_at[0] ? ", " : "", r->hit_at);
    if (why[0])
        printf("%s\n", why);
    else
        printf("%sstatus %d%s\n", r->hit ? "" : "not reached, ", WEXITSTATUS(r->status),
               WEXITSTATUS(r->status) ? "" : ", right");
    if (why[0] || WEXITSTATUS(r->status)) {
        indent(out->err, why[0] ? 12 : 3);
        if (why[0])
            indent(out->text, 6);
    }
    fflush(stdout);
}

static int sweep(const struct plan *p, const struct run *good, const struct output *expected,
                 struct event *events, size_t starved)
{
    size_t failed = 0, not_hit = 0, survived = 0, i;

    for (i = 0; i < p->n && !interrupted; i++) {
        struct run r = {.events = events};
        struct output out;
        char why[512];
        int rc;

        rc = run_patiently(&p->faults[i], &r, &out, &starved);
        if (rc != 0) {
            printf("fault_sweep: %s\n", strerror(-rc));
            return 1;
        }
        judge(&p->faults[i], good, expected, &r, &out, why, sizeof(why));
        failed += why[0] != '\0';
        not_hit += !r.hit;
        survived += r.hit && !why[0] && WEXITSTATUS(r.status) == 0;
        if (why[0] || opt.list)
            report(good, &p->faults[i], &r, &out, why);
        output_free(&out);
        run_release(&r);
        remove_tree(run_dir);
    }
    if (starved)
        printf("%zu times the machine was too busy for a run, which was made again\n", starved);
    printf(
        "%zu faults, %zu as if nothing had happened, %zu reported, %zu not reached, %zu FAILED\n",
        i, survived, i - survived - not_hit - failed, not_hit, failed);
    return failed || interrupted ? 1 : 0;
}

/* ---- beginning and end ---- */

static void clean_up(void)
{
    remove_tree(scratch);
}

static void on_interrupt(int sig)
{
    interrupted = 1;
}

static void usage(void)
{
    fprintf(stderr, "usage: fault_sweep [--sample N] [--per N] [--seed N] [--only P,P] [--limit S] "
                    "[--hung N] [--alloc LIB] [--one FAULT] "
                    "[--list] [--any-output] [--verdict] [--ignore TEXT] [--file NAME] "
                    "[--may-keep] [--only-files] -- COMMAND [ARG...]\n");
    exit(2);
}

static bool flag(const char *name)
{
    const struct {
        const char *name;
        bool *is;
    } flags[] = {{"--list", &opt.list},
                 {"--any-output", &opt.any_output},
                 {"--verdict", &opt.verdict},
                 {"--may-keep", &opt.may_keep},
                 {"--only-files", &opt.only_files}};

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (strcmp(name, flags[i].name) == 0)
            return *flags[i].is = true;
    return false;
}

static void parse(int argc, char **argv)
{
    int i = 1;

    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *name = argv[i], *value;

        if (flag(name))
            continue;
        value = i + 1 < argc ? argv[++i] : NULL;
        if (!value)
            usage();
        if (strcmp(name, "--sample") == 0)
            opt.sample = strtoul(value, NULL, 10);
        else if (strcmp(name, "--per") == 0)
            opt.per = strtoul(value, NULL, 10);
        else if (strcmp(name, "--seed") == 0)
            opt.seed = strtoul(value, NULL, 10);
        else if (strcmp(name, "--limit") == 0)
            opt.limit_s = atof(value);
        else if (strcmp(name, "--hung") == 0)
            opt.hung = atoi(value);
        else if (strcmp(name, "--alloc") == 0)
            opt.alloc = value;
        else if (strcmp(name, "--one") == 0)
            opt.one = value;
        else if (strcmp(name, "--ignore") == 0)
            opt.ignore = value;
        else if (strcmp(name, "--file") == 0)
            opt.file = value;
        else if (strcmp(name, "--only") == 0)
            for (opt.only = 0; *value; value += strcspn(value, ","), value += *value == ',')
                opt.only |= 1u << (atoi(value) & (MAX_PROCS - 1));
        else
            usage();
    }
    if (i + 1 >= argc)
        usage();
    opt.argv = argv + i + 1;
}

static void share_alloc_plan(void)
{
    int fd = open(alloc_file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *p = MAP_FAILED;

    if (fd >= 0 && symlink(opt.alloc, preload) == 0 && ftruncate(fd, sizeof(*shared)) == 0)
        p = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        perror("fault_sweep: a file in /tmp");
        exit(1);
    }
    close(fd);
    shared = p;
}

/* Of the paths that a run made, those that are still there. */
static void keep_existing(struct run *r)
{
    struct stat st;
    size_t n = 0;

    for (size_t i = 0; i < r->n_paths; i++) {
        if (lstat(r->paths[i], &st) == 0)
            r->paths[n++] = r->paths[i];
        else
            free(r->paths[i]);
    }
    r->n_paths = n;
}

int main(int argc, char **argv)
{
    struct event *events = need(malloc(2 * MAX_EVENTS * sizeof(*events)));
    struct run good = {.events = events};
    struct output expected;
    struct plan plan = {0};
    struct fault one = {0};
    size_t starved = 0;
    int rc;

    parse(argc, argv);
    if (opt.one && !fault_parse(opt.one, &one))
        usage();
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    unsetenv("PMI_RANK"); /* our own launcher's PMI_RANK: alloc.c numbers processes by it */
    unsetenv("PMI_SPAWNED");
    if (!mkdtemp(scratch)) {
        perror("fault_sweep: /tmp");
        return 1;
    }
    atexit(clean_up);
    snprintf(run_dir, sizeof(run_dir), "%s/run", scratch);
    snprintf(alloc_file, sizeof(alloc_file), "%s/alloc", scratch);
    snprintf(preload, sizeof(preload), "%s/preload.so", scratch);
    if (opt.alloc)
        share_alloc_plan();
    rc = run_patiently(&(struct fault){0}, &good, &expected, &starved);
    if (rc == -EPERM || rc == -ENOSYS) {
        printf("skip: ptrace is not allowed here\n");
        return 77;
    }
    if (rc != 0 || good.hung || good.n_left || !WIFEXITED(good.status) ||
        WEXITSTATUS(good.status) != 0) {
        printf("FAILED: without any fault: %s, status %#x\n%s%s",
               rc ? strerror(-rc) : "the command", (unsigned)good.status, expected.text,
               expected.err);
        return 1;
    }
    if (shared && shared->count[0] == 0) {
        printf("FAILED: no allocation was seen: is %s there, and an absolute path?\n", opt.alloc);
        return 1;
    }
    keep_existing(&good);
    remove_tree(run_dir);
    if (opt.one) {
        plan_add(&plan, one);
        opt.list = true;
    } else {
        plan_make(&plan, &good);
    }
    printf("%zu system calls, %zu faults to try\n", good.n_events, plan.n);
    fflush(stdout);
    rc = sweep(&plan, &good, &expected, events + MAX_EVENTS, starved);
    output_free(&expected);
    run_release(&good);
    free(plan.faults);
    free(events);
    return rc;
}
