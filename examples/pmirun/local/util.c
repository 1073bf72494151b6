/* SPDX-License-Identifier: BSD-3-Clause */
/* Time, memory, texts, messages, child processes. */
#define _GNU_SOURCE
#include "util.h"

#include "loop.h"
#include "progress.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t clock_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

void die(int status, const char *format, ...)
{
    va_list ap;

    progress_clear();
    if (messages.flush)
        messages.flush(messages.to);
    va_start(ap, format);
    fputs("pmirun: ", stderr);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(status);
}

bool open_standard(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

void *xrealloc(void *p, size_t bytes)
{
    void *q = realloc(p, bytes ? bytes : 1);

    if (!q)
        die(STATUS_RESOURCES, "out of memory");
    return q;
}

void *xzalloc(size_t bytes)
{
    return memset(xrealloc(NULL, bytes), 0, bytes);
}

void *xgrow(void *p, size_t *cap, size_t n)
{
    size_t more = *cap ? *cap : 256;

    if (n <= *cap)
        return p;
    while (more < n)
        more *= 2;
    p = xrealloc(p, more);
    *cap = more;
    return p;
}

void strings_add(char ***list, uint32_t *n, char *string)
{
    *list = xrealloc(*list, (*n + 2) * sizeof(**list));
    (*list)[(*n)++] = string;
    (*list)[*n] = NULL;
}

static char *format_v(const char *format, va_list ap)
{
    char *s;

    if (vasprintf(&s, format, ap) < 0)
        die(STATUS_RESOURCES, "out of memory");
    return s;
}

char *xprintf(const char *format, ...)
{
    va_list ap;
    char *s;

    va_start(ap, format);
    s = format_v(format, ap);
    va_end(ap);
    return s;
}

char *xappend(char *all, const char *format, ...)
{
    va_list ap;
    char *more, *both;

    va_start(ap, format);
    more = format_v(format, ap);
    va_end(ap);
    both = xprintf("%s%s", all ? all : "", more);
    free(all);
    free(more);
    return both;
}

size_t strings_count(char *const *v)
{
    size_t n = 0;

    while (v && v[n])
        n++;
    return n;
}

void strings_free(char **v)
{
    for (char **p = v; p && *p; p++)
        free(*p);
    free(v);
}

bool begins_with(const char *text, const char *const *any)
{
    while (*any && strncmp(text, *any, strlen(*any)) != 0)
        any++;
    return *any != NULL;
}

bool read_number(const char **text, uint32_t max, uint32_t *v)
{
    uint64_t n = 0;
    const char *p = *text;

    while (*p >= '0' && *p <= '9' && n <= max)
        n = 10 * n + (uint64_t)(*p++ - '0');
    if (p == *text || n > max)
        return false;
    *text = p;
    *v = (uint32_t)n;
    return true;
}

bool env_set(char *assignment)
{
    char *value = strchr(assignment, '=');
    int rc;

    if (!value || value == assignment)
        return false;
    *value = '\0';
    rc = setenv(assignment, value + 1, 1);
    *value = '=';
    if (rc != 0)
        die(STATUS_RESOURCES, "out of memory");
    return true;
}

const char *own_host(void)
{
    static char name[HOST_NAME_MAX + 1];

    gethostname(name, sizeof(name) - 1);
    return name;
}

void random_bytes(void *p, size_t n)
{
    while (getrandom(p, n, 0) != (ssize_t)n)
        if (errno != EINTR)
            die(STATUS_RESOURCES, "getrandom: %s", strerror(errno));
}

uint32_t random_u32(void)
{
    uint32_t v;

    random_bytes(&v, sizeof(v));
    return v;
}

uint32_t hash_text(const char *text)
{
    uint32_t hash = 2166136261u;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

/* ---- other processes ---- */

pid_t *children_of(pid_t pid)
{
    pid_t *pids = xzalloc(sizeof(*pids));
    char path[64];
    size_t n = 0;
    FILE *f;

    /* Where /proc is another pid namespace's, it has no task of this name below "self". */
    if (pid == getpid())
        snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)pid);
    else
        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    f = fopen(path, "re");
    while (f && fscanf(f, "%d", &pids[n]) == 1) {
        pids = xrealloc(pids, (++n + 1) * sizeof(*pids));
        pids[n] = 0;
    }
    if (f)
        fclose(f);
    return pids;
}

void kill_child(pid_t pid)
{
    if (kill(pid, SIGKILL) == 0)
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
}

ssize_t read_until(int fd, void *p, size_t n, uint64_t end_ns)
{
    size_t len = 0;

    while (len < n) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        const uint64_t now = clock_ns();
        ssize_t got;

        if (now >= end_ns)
            return -1;
        if (poll(&ready, 1, (int)((end_ns - now) / NS_PER_MS) + 1) <= 0)
            continue;
        got = read(fd, (char *)p + len, n - len);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return -1;
        len += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)len;
}

/* ---- messages ---- */

struct messages messages;

void print_text(const char *text, size_t n)
{
    messages.write(messages.to, text, n);
}

static void say_v(const char *prefix, const char *format, va_list ap)
{
    char *text = format_v(format, ap), *line = xprintf("%s%s\n", prefix, text);

    print_text(line, strlen(line));
    free(line);
    free(text);
}

void log_message(const char *format, ...)
{
    char prefix[96] = "pmirun: ";
    va_list ap;

    if (messages.host)
        snprintf(prefix, sizeof(prefix), "pmirun on %s: ", messages.host);
    va_start(ap, format);
    say_v(prefix, format, ap);
    va_end(ap);
}

void log_verbose(const char *format, ...)
{
    char prefix[40];
    va_list ap;

    if (!messages.verbose)
        return;
    snprintf(prefix, sizeof(prefix), "pmirun: %.6f ", (double)run_ns() / 1e9);
    va_start(ap, format);
    say_v(prefix, format, ap);
    va_end(ap);
}
