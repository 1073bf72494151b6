/* SPDX-License-Identifier: BSD-3-Clause */
/* Generators by name: their arguments, and functions that add communicators. */
#include "workload_make.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SPEC 256

void maker_fail(struct maker *m, const char *format, ...)
{
    va_list args;
    int n;

    if (m->failed)
        return;
    m->failed = 1;
    n = snprintf(m->error, m->error_size, "%s: ", m->generator->name);
    if (n < 0 || (size_t)n >= m->error_size)
        return;
    va_start(args, format);
    vsnprintf(m->error + n, m->error_size - (size_t)n, format, args);
    va_end(args);
}

/* A number that ends at *end; 0 when there is none or it is too large. */
static int parse_number(const char *text, const char **end, uint32_t *value)
{
    char *stop;
    unsigned long long v;

    if (!isdigit((unsigned char)*text))
        return 0;
    errno = 0;
    v = strtoull(text, &stop, 10);
    if (errno || v > UINT32_MAX)
        return 0;
    *end = stop;
    *value = (uint32_t)v;
    return 1;
}

uint32_t maker_number(struct maker *m, const char *what, uint32_t usual, uint32_t min, uint32_t max)
{
    const char *text, *end;
    uint32_t v;

    if (m->failed || m->used == m->n_args)
        return usual;
    text = m->args[m->used++];
    if (!parse_number(text, &end, &v) || *end) {
        maker_fail(m, "\"%s\" is not a number (%s)", text, what);
        return usual;
    }
    if (v < min || v > max) {
        maker_fail(m, "%s is %lu and must be from %lu to %lu", what, (unsigned long)v,
                   (unsigned long)min, (unsigned long)max);
        return usual;
    }
    return v;
}

void maker_grid(struct maker *m, const char *what, unsigned n_dims, uint32_t *dims)
{
    const char *text, *at;
    uint64_t product = 1;

    if (m->failed || m->used == m->n_args)
        return;
    at = text = m->args[m->used++];
    for (unsigned i = 0; i < n_dims; i++) {
        if ((i > 0 && *at++ != 'x') || !parse_number(at, &at, &dims[i]) || dims[i] == 0 ||
            (product *= dims[i]) > WORKLOAD_MAX_RANKS) {
            product = 0;
            break;
        }
    }
    if (product == 0 || *at)
        maker_fail(m, "\"%s\" is not a %s with at most %lu ranks", text, what,
                   (unsigned long)WORKLOAD_MAX_RANKS);
}

void maker_group(struct maker *m, uint32_t base, uint32_t n)
{
    struct workload *w = m->w;

    if (m->failed)
        return;
    if (w->n_groups == WORKLOAD_MAX_GROUPS || n > WORKLOAD_MAX_RANKS - w->n_processes) {
        maker_fail(m, "more than %lu ranks", (unsigned long)WORKLOAD_MAX_RANKS);
        return;
    }
    w->groups[w->n_groups].base = base;
    w->groups[w->n_groups++].n = n;
    w->n_processes += n;
}

uint32_t maker_processes(struct maker *m, uint32_t usual)
{
    uint32_t n = maker_number(m, "the number of processes", usual, 1, WORKLOAD_MAX_RANKS);

    maker_group(m, 0, n);
    return n;
}

static struct workload_comm *add_comm(struct maker *m, int parent, const char *model,
                                      unsigned count, uint32_t n)
{
    struct workload_comm *c;

    if (m->failed)
        return NULL;
    if (n == 0 || m->w->n_comms == WORKLOAD_MAX_COMMS) {
        maker_fail(m, "%s",
                   n == 0 ? "these sizes leave a communicator without ranks"
                          : "too many communicators");
        return NULL;
    }
    c = &m->w->comms[m->w->n_comms];
    memset(c, 0, sizeof(*c));
    c->of_parent = malloc((size_t)n * sizeof(*c->of_parent));
    c->ids = parent < 0 ? c->of_parent : malloc((size_t)n * sizeof(*c->ids));
    if (!c->of_parent || !c->ids) {
        maker_fail(m, "no memory for %lu ranks", (unsigned long)n);
        free(c->of_parent);
        return NULL;
    }
    c->parent = parent;
    c->model = model;
    c->count = count;
    c->n = n;
    m->w->n_comms++;
    return c;
}

uint32_t *maker_comm(struct maker *m, const char *model, unsigned count, uint32_t n,
                     const char *name, ...)
{
    struct workload_comm *c = add_comm(m, -1, model, count, n);
    va_list args;

    if (!c)
        return NULL;
    va_start(args, name);
    vsnprintf(c->name, sizeof(c->name), name, args);
    va_end(args);
    return c->of_parent;
}

uint32_t *maker_child(struct maker *m, uint32_t parent, const char *model, uint32_t n,
                      const char *name)
{
    struct workload_comm *c = add_comm(m, (int)parent, model, 1, n);

    if (!c)
        return NULL;
    snprintf(c->name, sizeof(c->name), "%s", name);
    return c->of_parent;
}

void maker_affine(struct maker *m, const char *model, unsigned count, uint32_t first, uint32_t step,
                  uint32_t n, const char *name)
{
    uint32_t *ranks = maker_comm(m, model, count, n, "%s", name);

    for (uint32_t r = 0; ranks && r < n; r++)
        ranks[r] = first + r * step;
}

uint32_t workload_random(uint64_t *state, uint32_t n)
{
    /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (uint32_t)(((z >> 32) * n) >> 32);
}

void maker_subset(struct maker *m, uint32_t n, uint32_t percent, uint64_t *random)
{
    uint32_t left = (uint32_t)((uint64_t)n * percent / 100), k = 0;
    uint32_t *ranks = maker_comm(m, "set", 1, left, "%lu %% of the ranks, at random, ascending",
                                 (unsigned long)percent);

    for (uint32_t r = 0; ranks && left > 0; r++) {
        if (workload_random(random, n - r) < left) {
            ranks[k++] = r;
            left--;
        }
    }
}

static size_t name_length(const char *name)
{
    size_t n = 0;

    while (isalnum((unsigned char)name[n]) || name[n] == '-' || name[n] == '_')
        n++;
    return n;
}

static const struct generator *find_generator(const char *name)
{
    const struct generator *const tables[] = {workload_apps, workload_shapes};
    size_t len = name_length(name);

    for (unsigned t = 0; t < 2; t++)
        for (const struct generator *g = tables[t]; g->name; g++)
            if (strlen(g->name) == len && memcmp(g->name, name, len) == 0)
                return g;
    return NULL;
}

int workload_known(const char *name)
{
    return find_generator(name) != NULL;
}

int workload_at(unsigned i, const char **name, const char **arguments, const char **meaning)
{
    const struct generator *const tables[] = {workload_apps, workload_shapes};

    for (unsigned t = 0; t < 2; t++) {
        for (const struct generator *g = tables[t]; g->name; g++) {
            if (i-- == 0) {
                *name = g->name;
                *arguments = g->arguments;
                *meaning = g->meaning;
                return 1;
            }
        }
    }
    return 0;
}

/* The ids of a child are those of its parent, one lookup a rank. */
static void resolve_ids(struct workload *w)
{
    for (uint32_t i = 0; i < w->n_comms; i++) {
        struct workload_comm *c = &w->comms[i];

        for (uint32_t r = 0; c->parent >= 0 && r < c->n; r++)
            c->ids[r] = w->comms[c->parent].ids[c->of_parent[r]];
    }
}

int workload_make(struct workload *w, const char *spec, char *error, size_t error_size)
{
    char text[MAX_SPEC], *rest, *word;
    struct maker m = {.w = w, .error = error, .error_size = error_size};
    const struct generator *g;

    memset(w, 0, sizeof(*w));
    spec += strspn(spec, " \t\r\n");
    if (strlen(spec) >= sizeof(text)) {
        snprintf(error, error_size, "a generator and its arguments have at most %d bytes",
                 MAX_SPEC - 1);
        return -1;
    }
    strcpy(text, spec);
    g = find_generator(text);
    word = strtok_r(text, " \t\r\n", &rest);
    if (!g || !word || strlen(word) != strlen(g->name)) {
        snprintf(error, error_size, "no generator \"%.64s\"", word ? word : "");
        return -1;
    }
    m.generator = g;
    while ((word = strtok_r(NULL, " \t\r\n", &rest))) {
        if (m.n_args == sizeof(m.args) / sizeof(m.args[0])) {
            maker_fail(&m, "too many arguments");
            return -1;
        }
        m.args[m.n_args++] = word;
    }
    snprintf(w->title, sizeof(w->title), "%.90s", spec);
    w->title[strcspn(w->title, "\r\n")] = '\0';
    g->make(&m);
    if (!m.failed && m.used < m.n_args)
        maker_fail(&m, "\"%s\" is one argument too many: %s %s", m.args[m.used], g->name,
                   g->arguments);
    if (m.failed) {
        workload_free(w);
        return -1;
    }
    resolve_ids(w);
    return 0;
}

void workload_free(struct workload *w)
{
    for (uint32_t i = 0; i < w->n_comms; i++) {
        struct workload_comm *c = &w->comms[i];

        if (c->ids != c->of_parent)
            free(c->ids);
        free(c->of_parent);
    }
    memset(w, 0, sizeof(*w));
}
