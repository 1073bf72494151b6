/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of hosts: lists, as --hosts takes them and allocations have them, and files. They are
 * parsed without a shell, and each is checked before it becomes an argument of ssh or srun.
 *
 *     list:  a,b:2,n[01-04,12],user@c,[::1]:2      behind the colon: slots, processes that it takes
 *     file:  a line a host: `a`, `a:2`, `a slots=2`; what follows # is a comment
 *
 * A host that is named twice has the slots of both.
 */
#define _GNU_SOURCE
#include "hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../allocation.h"
#include "../local/util.h"
#include "config.h"

#define MAX_FILE_BYTES (16u << 20)

/* Where a name stands, for messages. */
struct place {
    struct parse *p;
    const char *file; /* NULL: in a list */
    uint32_t line;
};

static void bad_host(const struct place *at, const char *item, size_t n, const char *why)
    __attribute__((noreturn));

static void bad_host(const struct place *at, const char *item, size_t n, const char *why)
{
    if (at->file)
        usage_error(at->p, "%s %s, line %u: \"%.*s\" %s", at->p->word, at->file, at->line, (int)n,
                    item, why);
    usage_error(at->p, "%s: \"%.*s\" %s", at->p->word, (int)n, item, why);
}

/* Up to 9 digits at the beginning of a text of n bytes; how many. */
static size_t take_number(const char *text, size_t n, uint32_t *v)
{
    size_t i = 0;

    *v = 0;
    for (; i < n && i < 9 && text[i] >= '0' && text[i] <= '9'; i++)
        *v = 10 * *v + (uint32_t)(text[i] - '0');
    return i;
}

/* Adds one name, or all names of its ranges: n[01-04,7]. slots 0: not said. */
static void add_names(const struct place *at, const char *item, size_t n, uint32_t slots)
{
    struct options *opt = at->p->opt;
    struct allocation *a = &at->p->hosts;
    const bool ranges = memchr(item, '[', n) && !memchr(item, ':', n);
    char *why;

    if (!ranges && n > 2 && item[0] == '[' && item[n - 1] == ']') { /* an IPv6 address */
        item++;
        n -= 2;
    }
    if (!ranges && !host_is_name(item, n))
        bad_host(at, item, n, "is not a valid host name");
    why = ranges ? host_ranges(a, item, n, slots) : host_add(a, item, n, slots);
    if (why && ranges)
        bad_host(at, item, n, xprintf("is not a valid list: %s", why));
    if (why)
        usage_error(at->p, "%s: %s", at->p->word, why);
    opt->hosts = a->hosts;
    opt->slots = a->slots;
    opt->n_hosts = a->n_hosts;
}

/* `a`, `a:2`: a name, or a range of names, perhaps with slots. more: the slots of `slots=`. */
static void add_item(const struct place *at, const char *item, size_t n, uint32_t more)
{
    const char *colon = memrchr(item, ':', n), *first = memchr(item, ':', n);
    size_t name = n;
    uint32_t slots = more;

    if (colon && !memchr(colon, ']', n - (size_t)(colon - item)) &&
        (colon == first || colon[-1] == ']')) { /* else an IPv6 address */
        const size_t digits = n - (size_t)(colon - item) - 1;

        name = (size_t)(colon - item);
        if (more || digits == 0 || take_number(colon + 1, digits, &slots) != digits || !slots ||
            slots > MAX_PROCS)
            bad_host(at, item, n,
                     more ? "has slots twice" : "wants 1 to 1000000 slots after the colon");
    }
    add_names(at, item, name, slots);
}

void set_hosts(struct parse *p, const struct option_row *row, char **value)
{
    const struct place at = {.p = p};
    const char *t = value[0];

    if (!*t)
        usage_error(p, "%s wants host names, separated by commas", p->word);
    for (uint32_t i = 1; t; i++) {
        const char *end = t;
        bool inside = false; /* of brackets */

        for (; *end && (*end != ',' || inside); end++)
            inside = *end == '[' || (inside && *end != ']');
        if (end == t)
            usage_error(p, "%s %s: name %u of the list is empty", p->word, value[0], i);
        add_item(&at, t, (size_t)(end - t), 0);
        t = *end ? end + 1 : NULL;
    }
}

/* ---- files ---- */

/* A word behind the host's name. */
static void take_attribute(const struct place *at, const char *word, size_t n, uint32_t *slots)
{
    static const char *const names[] = {"slots=", "max_slots=", "max-slots="};
    uint32_t v;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const size_t len = strlen(names[i]);

        if (n <= len || memcmp(word, names[i], len) != 0)
            continue;
        if (take_number(word + len, n - len, &v) != n - len || !v || v > MAX_PROCS)
            bad_host(at, word, n, "wants a number from 1 to 1000000");
        if (i == 0)
            *slots = v;
        return;
    }
    bad_host(at, word, n, "is unknown: use slots=N");
}

/* False: it names none. */
static bool hosts_add_line(const struct place *at, const char *line, size_t n)
{
    static const char blanks[] = " \t\r";
    const char *host = NULL, *end = memchr(line, '#', n);
    size_t host_len = 0;
    uint32_t slots = 0;

    if (!end)
        end = line + n;
    while (line < end) {
        const char *word = line;

        while (line < end && !strchr(blanks, *line))
            line++;
        if (line == word) {
            line++;
        } else if (!host) {
            host = word;
            host_len = (size_t)(line - word);
        } else {
            take_attribute(at, word, (size_t)(line - word), &slots);
        }
    }
    if (host)
        add_item(at, host, host_len, slots);
    return host;
}

void set_hostfile(struct parse *p, const struct option_row *row, char **value)
{
    struct place at = {.p = p, .file = value[0]};
    bool some = false;
    size_t n;
    char *text = read_file(p, value[0], MAX_FILE_BYTES, &n), *line = text;

    while (line < text + n) {
        char *end = memchr(line, '\n', n - (size_t)(line - text));

        at.line++;
        if (!end)
            end = text + n;
        some |= hosts_add_line(&at, line, (size_t)(end - line));
        line = end + 1;
    }
    free(text);
    if (!some)
        usage_error(p, "%s %s: names no host", p->word, value[0]);
}

void hosts_of_hydra(struct parse *p)
{
    char *file = getenv("HYDRA_HOST_FILE");

    if (!file || !*file || is_one_task_of_many())
        return;
    snprintf(p->word, sizeof(p->word), "HYDRA_HOST_FILE");
    set_hostfile(p, NULL, &file);
}
