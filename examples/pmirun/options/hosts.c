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
#include "row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../local/util.h"

#define MAX_FILE_BYTES (16u << 20)

/* Where a name stands, for messages. */
struct place {
    struct parse *p;
    const char *file; /* NULL: in a list */
    uint32_t line;
};

static void bad_host(const struct place *at, const char *item, const char *why)
    __attribute__((noreturn));

static void bad_host(const struct place *at, const char *item, const char *why)
{
    if (at->file)
        usage_error(at->p, "%s %s, line %u: \"%s\" %s", at->p->word, at->file, at->line, item, why);
    usage_error(at->p, "%s: \"%s\" %s", at->p->word, item, why);
}

/* Adds one name, or all names of its ranges: n[01-04,7]. slots 0: not said. */
static void add_names(const struct place *at, char *item, uint32_t slots)
{
    struct allocation *a = &at->p->opt->given;
    const bool ranges = strchr(item, '[') && !strchr(item, ':');
    size_t n = strlen(item);
    char *why;

    if (!ranges && n > 2 && item[0] == '[' && item[n - 1] == ']') { /* an IPv6 address */
        item[n - 1] = '\0';
        item++;
        n -= 2;
    }
    if (!ranges && !host_is_name(item, n))
        bad_host(at, item, "is not a valid host name");
    why = ranges ? host_ranges(a, item, n, slots) : host_add(a, item, n, slots);
    if (why && ranges)
        bad_host(at, item, xprintf("is not a valid list: %s", why));
    if (why)
        usage_error(at->p, "%s: %s", at->p->word, why);
}

/* Digits alone: a count from 1 to MAX_PROCS. */
static bool take_slots(const char *text, uint32_t *v)
{
    return read_number(&text, MAX_PROCS, v) && !*text && *v > 0;
}

/* `a`, `a:2`: a name, or a range of names, perhaps with slots. more: the slots of `slots=`. */
static void add_item(const struct place *at, char *item, uint32_t more)
{
    char *colon = strrchr(item, ':');
    uint32_t slots = more;

    if (colon && !strchr(colon, ']') &&
        (colon == strchr(item, ':') || colon[-1] == ']')) { /* else an IPv6 address */
        if (more || !take_slots(colon + 1, &slots))
            bad_host(at, item,
                     more ? "has slots twice" : "wants 1 to 1000000 slots after the colon");
        *colon = '\0';
    }
    add_names(at, item, slots);
}

void set_hosts(struct parse *p, const struct option_row *row, char **value)
{
    const struct place at = {.p = p};
    char *list = xprintf("%s", value[0]), *t = list;

    if (!*t)
        usage_error(p, "%s wants host names, separated by commas", p->word);
    for (uint32_t i = 1; t; i++) {
        char *item = t, *end = t;
        bool inside = false; /* of brackets */

        for (; *end && (*end != ',' || inside); end++)
            inside = *end == '[' || (inside && *end != ']');
        if (end == t)
            usage_error(p, "%s %s: name %u of the list is empty", p->word, value[0], i);
        t = *end ? end + 1 : NULL;
        *end = '\0';
        add_item(&at, item, 0);
    }
    free(list);
}

/* ---- files ---- */

/* A word behind the host's name. */
static void take_attribute(const struct place *at, const char *word, uint32_t *slots)
{
    static const char *const names[] = {"slots=", "max_slots=", "max-slots="};
    uint32_t v;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const size_t len = strlen(names[i]);

        if (strncmp(word, names[i], len) != 0 || !word[len])
            continue;
        if (!take_slots(word + len, &v))
            bad_host(at, word, "wants a number from 1 to 1000000");
        if (i == 0)
            *slots = v;
        return;
    }
    bad_host(at, word, "is unknown: use slots=N");
}

/* False: it names none. */
static bool hosts_add_line(const struct place *at, char *line)
{
    static const char blanks[] = " \t\r";
    char *save = NULL, *host, *word;
    uint32_t slots = 0;

    line[strcspn(line, "#")] = '\0';
    host = strtok_r(line, blanks, &save);
    while (host && (word = strtok_r(NULL, blanks, &save)))
        take_attribute(at, word, &slots);
    if (host)
        add_item(at, host, slots);
    return host;
}

void set_hostfile(struct parse *p, const struct option_row *row, char **value)
{
    struct place at = {.p = p, .file = value[0], .line = 1};
    char *text = read_file(p, value[0], MAX_FILE_BYTES), *rest = text, *line;
    bool some = false;

    for (; (line = strsep(&rest, "\n")); at.line++)
        some |= hosts_add_line(&at, line);
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
