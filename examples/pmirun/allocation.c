/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "allocation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local/util.h"
#include "options.h"

#define LINE_BYTES  1024u           /* of a host file */
#define INDEX_SIZE  (2 * MAX_HOSTS) /* of hosts by name */
#define MAX_ORDINAL 1000000000u     /* in a range of names */

/* ---- names ---- */

bool host_is_name(const char *name, size_t n)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@%:";
    bool begins = true;

    for (size_t i = 0; i < n; i++) {
        if (!name[i] || !strchr(allowed, name[i]) || (begins && name[i] == '-'))
            return false;
        begins = name[i] == '@'; /* of the user; now that of the host */
    }
    return n > 0 && n <= HOST_NAME_BYTES && !begins;
}

bool host_is_own(const char *name)
{
    const char *own = own_host();
    const size_t n = strcspn(own, ".");

    return strcasecmp(name, "localhost") == 0 || strcasecmp(name, own) == 0 ||
           (strlen(name) == n && strncasecmp(name, own, n) == 0);
}

/* ---- the list ---- */

/* Each of the following returns NULL, or an error text to be freed. */

static uint32_t slots_or_one(uint32_t slots)
{
    return slots ? slots : 1;
}

char *host_add(struct allocation *a, const char *name, size_t n, uint32_t slots)
{
    char *own;
    uint32_t at, *has;

    if (!host_is_name(name, n))
        return xprintf("\"%.*s\" is not a valid host name",
                       (int)(n < HOST_NAME_BYTES ? n : HOST_NAME_BYTES), name);
    if (!a->index)
        a->index = xzalloc(INDEX_SIZE * sizeof(*a->index));
    own = xprintf("%.*s", (int)n, name);
    at = hash_text(own) % INDEX_SIZE;
    while (a->index[at] && strcmp(a->hosts[a->index[at] - 1], own) != 0)
        at = (at + 1) % INDEX_SIZE;
    if (a->index[at]) {
        free(own);
        has = &a->slots[a->index[at] - 1];
        if (slots_or_one(slots) > MAX_PROCS - slots_or_one(*has))
            return xprintf("host %.*s is named more than once, and has more than %u slots", (int)n,
                           name, MAX_PROCS);
        *has = slots_or_one(*has) + slots_or_one(slots);
        return NULL;
    }
    if (a->n_hosts == MAX_HOSTS) {
        free(own);
        return xprintf("more than %u hosts", MAX_HOSTS);
    }
    if ((a->n_hosts & (a->n_hosts - 1)) == 0) { /* room for twice as many */
        const size_t room = a->n_hosts ? 2 * (size_t)a->n_hosts : 1;

        a->hosts = xrealloc(a->hosts, room * sizeof(*a->hosts));
        a->slots = xrealloc(a->slots, room * sizeof(*a->slots));
    }
    a->hosts[a->n_hosts] = own;
    a->slots[a->n_hosts++] = slots;
    a->index[at] = a->n_hosts;
    return NULL;
}

/* Reads a number from 1 to MAX_PROCS and moves *p behind it. 0: not such a number. */
static uint32_t take_count(const char **p)
{
    uint32_t v;

    return read_number(p, MAX_PROCS, &v) ? v : 0;
}

/* A host and its number of slots; `count` may be NULL: there is none. */
static char *add_counted(struct allocation *a, const char *host, const char *count)
{
    const uint32_t slots = count ? take_count(&count) : 0;

    return !slots || *count ? xprintf("\"%.255s\" has no number of slots", host)
                            : host_add(a, host, strlen(host), slots);
}

/* ---- Slurm: n[0-2,7],m07, where a name may have several brackets ---- */

static char *expand_name(struct allocation *a, char *name, size_t len, const char *p,
                         const char *end, uint32_t slots);

/* Expands the ranges between brackets, each value with the rest of the name. */
static char *expand_ranges(struct allocation *a, char *name, size_t len, const char *p,
                           const char *close, const char *end, uint32_t slots)
{
    do {
        const char *first = p;
        uint64_t low, high;
        int width;
        char *stop, *why;

        if (*p < '0' || *p > '9')
            return xprintf("a range does not begin with a number");
        low = high = strtoull(p, &stop, 10);
        width = *first == '0' ? (int)(stop - first) : 0;
        p = stop;
        if (*p == '-') {
            if (p[1] < '0' || p[1] > '9')
                return xprintf("a range has no end");
            high = strtoull(p + 1, &stop, 10);
            p = stop;
        }
        if (p != close && *p != ',')
            return xprintf("unexpected '%c' in a range", *p);
        if (high < low || high > MAX_ORDINAL || high - low >= MAX_HOSTS ||
            width > (int)HOST_NAME_BYTES)
            return xprintf("the range %.*s is invalid or too long", (int)(p - first), first);
        for (uint64_t v = low; v <= high; v++) {
            const int n = snprintf(name + len, HOST_NAME_BYTES + 1 - len, "%0*llu", width,
                                   (unsigned long long)v);

            if ((size_t)n > HOST_NAME_BYTES - len)
                return xprintf("a name is longer than %u bytes", HOST_NAME_BYTES);
            why = expand_name(a, name, len + (size_t)n, close + 1, end, slots);
            if (why)
                return why;
        }
    } while (p++ != close);
    return NULL;
}

/* One name with its ranges, up to `end`; name[0..len) is the part read so far. */
static char *expand_name(struct allocation *a, char *name, size_t len, const char *p,
                         const char *end, uint32_t slots)
{
    const char *close;

    for (; p < end && *p != '['; p++) {
        if (len == HOST_NAME_BYTES)
            return xprintf("a name is longer than %u bytes", HOST_NAME_BYTES);
        name[len++] = *p;
    }
    if (p == end)
        return host_add(a, name, len, slots);
    close = memchr(p, ']', (size_t)(end - p));
    if (!close)
        return xprintf("a '[' has no ']'");
    return expand_ranges(a, name, len, p + 1, close, end, slots);
}

char *host_ranges(struct allocation *a, const char *text, size_t n, uint32_t slots)
{
    char name[HOST_NAME_BYTES + 1]; /* for snprintf() */

    return expand_name(a, name, 0, text, text + n, slots);
}

static char *slurm_names(struct allocation *a, const char *text)
{
    for (const char *p = text;; p++) {
        const char *end = p;
        char *why;

        for (bool inside = false; *end && (inside || *end != ','); end++)
            inside = *end == '[' || (inside && *end != ']');
        why = host_ranges(a, p, (size_t)(end - p), 0);
        if (why || !*end)
            return why;
        p = end;
    }
}

/* 2(x3),1: of each host in turn. */
static char *slurm_tasks(struct allocation *a, const char *p)
{
    uint64_t n = 0;

    for (;; p++) {
        const uint32_t count = take_count(&p);
        uint32_t times = 1;

        if (count && p[0] == '(' && p[1] == 'x') {
            p += 2;
            times = take_count(&p);
            if (*p++ != ')')
                times = 0;
        }
        if (!count || !times || (*p && *p != ','))
            return xprintf("wants counts such as 2(x3),1");
        for (uint32_t i = 0; i < times && n + i < a->n_hosts; i++)
            a->slots[n + i] = count;
        n += times;
        if (!*p)
            break;
    }
    if (n == a->n_hosts)
        return NULL;
    /* In a step, the counts are the step's, which may have fewer nodes. */
    memset(a->slots, 0, a->n_hosts * sizeof(*a->slots));
    return getenv("SLURM_STEP_ID") ? NULL
                                   : xprintf("it is for %llu nodes, SLURM_JOB_NODELIST names %u",
                                             (unsigned long long)n, a->n_hosts);
}

static char *refusal_text(char *why, const char *variable, const char *text)
{
    char *all;

    if (!why)
        return NULL;
    all = xprintf("%s=%.200s: %s", variable, text, why);
    free(why);
    return all;
}

/* The value of a variable; NULL if it is unset or empty. */
static const char *variable_if_set(const char *variable)
{
    const char *text = getenv(variable);

    return text && *text ? text : NULL;
}

static char *find_slurm(struct allocation *a, const char *text)
{
    const char *tasks = variable_if_set("SLURM_TASKS_PER_NODE");
    char *why = refusal_text(slurm_names(a, text), a->variable, text);

    if (!why && tasks)
        why = refusal_text(slurm_tasks(a, tasks), "SLURM_TASKS_PER_NODE", tasks);
    return why;
}

/* ---- LSF: a 2 b 4 ---- */

static char *find_pairs(struct allocation *a, const char *text)
{
    char *copy = xprintf("%s", text), *save = NULL, *why = NULL;

    for (char *h = strtok_r(copy, " ", &save); h && !why; h = strtok_r(NULL, " ", &save))
        why = add_counted(a, h, strtok_r(NULL, " ", &save));
    free(copy);
    return refusal_text(why, a->variable, text);
}

/* ---- files ---- */

static FILE *open_file(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would not open */
    struct stat st;
    FILE *f;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (f = fdopen(fd, "r")))
        return f;
    if (fd >= 0) {
        close(fd);
        errno = EINVAL;
    }
    return NULL;
}

/* "host", or with_slots "host slots ..."; an empty line is nothing. */
static char *allocation_add_line(struct allocation *a, char *line, bool with_slots)
{
    char *save = NULL, *host = strtok_r(line, " \t\r\n", &save);
    const char *count = host ? strtok_r(NULL, " \t\r\n", &save) : NULL;

    if (!host)
        return NULL;
    if (with_slots)
        return add_counted(a, host, count);
    return count ? xprintf("more than one word") : host_add(a, host, strlen(host), 1);
}

static char *find_file(struct allocation *a, const char *path, bool with_slots)
{
    char line[LINE_BYTES], *why = NULL, *all = NULL;
    FILE *f = open_file(path);
    unsigned number = 0;

    if (!f)
        return xprintf("%s=%s: cannot read this file: %s", a->variable, path, strerror(errno));
    while (!why && fgets(line, sizeof(line), f)) {
        number++;
        why = strlen(line) == sizeof(line) - 1 && line[sizeof(line) - 2] != '\n'
                  ? xprintf("it is longer than %u bytes", LINE_BYTES - 2)
                  : allocation_add_line(a, line, with_slots);
    }
    if (why)
        all = xprintf("%s=%s, line %u: %s", a->variable, path, number, why);
    else if (ferror(f) || a->n_hosts == 0)
        all = xprintf("%s=%s: %s", a->variable, path,
                      ferror(f) ? strerror(errno) : "it names no host");
    free(why);
    fclose(f);
    return all;
}

/* ---- all of them ---- */

bool is_one_task_of_many(void)
{
    const char *tasks = variable_if_set("SLURM_STEP_NUM_TASKS");

    return tasks && strcmp(tasks, "1") != 0;
}

static char *find_line_a_slot(struct allocation *a, const char *path)
{
    return find_file(a, path, false);
}

static char *find_line_a_host(struct allocation *a, const char *path)
{
    return find_file(a, path, true);
}

/* The variable that names the nodes, how to get there, and who reads it. The first that is set. */
static const struct {
    const char *variable;
    const char *launch; /* a template; NULL: srun */
    char *(*find)(struct allocation *a, const char *text);
} systems[] = {
    {"SLURM_JOB_NODELIST", NULL, find_slurm},
    {"PBS_NODEFILE", "ssh -x %h 'exec %c'", find_line_a_slot},
    {"LSB_MCPU_HOSTS", "blaunch %h %c", find_pairs},
    {"LSB_DJOB_HOSTFILE", "blaunch %h %c", find_line_a_slot},
    {"PE_HOSTFILE", "qrsh -inherit %h %c", find_line_a_host},
};

char *allocation_find(struct allocation *a)
{
    *a = (struct allocation){0};
    for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++) {
        const char *text = variable_if_set(systems[i].variable);
        char *why;

        if (!text || (systems[i].find == find_slurm && is_one_task_of_many()))
            continue;
        a->variable = systems[i].variable;
        a->launch = systems[i].launch;
        why = systems[i].find(a, text);
        if (!why && a->n_hosts == 0)
            why = xprintf("%s=%.200s: it names no host", a->variable, text);
        if (why)
            allocation_free(a);
        return why;
    }
    return NULL;
}

void allocation_free(struct allocation *a)
{
    for (uint32_t i = 0; i < a->n_hosts; i++)
        free(a->hosts[i]);
    free(a->hosts);
    free(a->slots);
    free(a->index);
    *a = (struct allocation){0};
}
