/* SPDX-License-Identifier: BSD-3-Clause */
/* Time, memory, messages. */
#define _GNU_SOURCE
#include "util.h"

#include "pmirun.h"
#include "loop.h"
#include "progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
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

const char *any_strerror(int rc)
{
    return rc > -4096 ? strerror(-rc) : pmiwire_strerror(rc);
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

struct messages messages;

void print_text(const char *text, size_t n)
{
    messages.write(messages.to, text, n);
}

static void say_v(const char *prefix, const char *format, va_list ap)
{
    char line[2048];
    size_t len = (size_t)snprintf(line, sizeof(line), "%s", prefix);
    int n = vsnprintf(line + len, sizeof(line) - len - 1, format, ap);

    if (n < 0)
        return;
    len += (size_t)n < sizeof(line) - len - 1 ? (size_t)n : sizeof(line) - len - 2;
    line[len++] = '\n';
    print_text(line, len);
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
