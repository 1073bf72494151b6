/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers that many rows share, and small ones of one row. */
#define _GNU_SOURCE
#include "row.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../local/job.h"
#include "../local/util.h"
#include "../reach.h"

/* ---- values ---- */

static int64_t parse_number(const struct parse *p, const char *text, int64_t min, int64_t max)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < min || v > max)
        usage_error(p, "%s wants a number from %lld to %lld, not \"%s\"", p->word, (long long)min,
                    (long long)max, text);
    return v;
}

/* The words as a sentence has them: "a, b or c". */
static char *in_words(const char *words)
{
    char *all = NULL;
    size_t n;

    for (const char *w; (w = option_next_name(&words, &n));)
        all = xappend(all, "%s%.*s", !all ? "" : *words ? ", " : " or ", (int)n, w);
    return all;
}

uint32_t parse_word(const struct parse *p, const char *text, const char *words)
{
    const char *rest = words, *w;
    uint32_t i = 0;
    size_t n;

    for (; (w = option_next_name(&rest, &n)); i++)
        if (strlen(text) == n && memcmp(text, w, n) == 0)
            return i;
    usage_error(p, "%s wants %s, not \"%s\"", p->word, in_words(words), text);
}

/* ---- handlers that many share ---- */

static void *option_field(const struct parse *p, const struct option_row *row)
{
    return (row->scope == SCOPE_GROUP ? (char *)p->app : (char *)p->opt) + row->at;
}

void set_flag(struct parse *p, const struct option_row *row, char **value)
{
    *(bool *)option_field(p, row) = true;
}

void set_count(struct parse *p, const struct option_row *row, char **value)
{
    *(uint32_t *)option_field(p, row) = (uint32_t)parse_number(p, value[0], row->min, row->max);
}

void set_seconds(struct parse *p, const struct option_row *row, char **value)
{
    char *end;
    double v;

    errno = 0;
    v = strtod(value[0], &end);
    if (errno || end == value[0] || *end || !isfinite(v) || v < 0 || v > 1e9)
        usage_error(p, "%s wants seconds, not \"%s\"", p->word, value[0]);
    if (row->max && v > (double)row->max)
        usage_error(p, "%s wants up to %lld seconds, or 0 for never, not \"%s\"", p->word,
                    (long long)row->max, value[0]);
    *(double *)option_field(p, row) = v;
}

void set_text(struct parse *p, const struct option_row *row, char **value)
{
    if (!value[0][0])
        usage_error(p, "%s wants %s, not \"\"", p->word, row->arg);
    *(char **)option_field(p, row) = value[0];
}

void set_word(struct parse *p, const struct option_row *row, char **value)
{
    const uint32_t v = parse_word(p, value[0], row->words);

    memcpy(option_field(p, row), &v, sizeof(v));
}

void set_second(struct parse *p, const struct option_row *row, char **value)
{
    *(bool *)option_field(p, row) = parse_word(p, value[0], row->words) == 1;
}

/* ---- one row each ---- */

void set_launch(struct parse *p, const struct option_row *row, char **value)
{
    const char *why = reach_launch(p->opt, value[0]);

    if (why)
        usage_error(p, "%s %s", p->word, why);
}

/* Links between nodes use TCP, whatever the word. */
void set_links(struct parse *p, const struct option_row *row, char **value)
{
    if (strcmp(value[0], "ucx") == 0)
        usage_error(p, "%s ucx: links between nodes no longer use UCX; use %s tcp", p->word,
                    p->word);
    (void)parse_word(p, value[0], row->words);
}

static void read_policy(const struct parse *p, const char *text,
                        const char *(*parse)(struct place_policy *policy, const char *text))
{
    const char *why = parse(&p->opt->place, text);

    if (why)
        usage_error(p, "%s %s, not \"%s\"", p->word, why, text);
}

/* mpirun's ppr:N:node is --ppn N. False: something else. */
static bool set_ppr(struct parse *p, const char *text)
{
    static const char begin[] = "ppr:", end[] = ":node";
    const size_t n = strlen(text), least = sizeof(begin) - 1 + sizeof(end) - 1;
    char *number;

    if (strncasecmp(text, begin, sizeof(begin) - 1) != 0)
        return false;
    if (n <= least || strcasecmp(text + n - (sizeof(end) - 1), end) != 0)
        usage_error(p, "%s wants ppr:N:node, not \"%s\"; with PE: --ppn N %s slot:PE=P", p->word,
                    text, p->word);
    number = xprintf("%.*s", (int)(n - least), text + sizeof(begin) - 1);
    p->opt->per_host = (uint32_t)parse_number(p, number, 1, MAX_PROCS);
    free(number);
    return true;
}

void set_map_by(struct parse *p, const struct option_row *row, char **value)
{
    if (set_ppr(p, value[0]))
        return;
    read_policy(p, value[0], place_parse_map);
    p->opt->map_by = value[0];
    if (p->opt->place.map == PLACE_NODE)
        p->opt->cyclic = p->opt->place.nodes_cyclic;
}

void set_bind_to(struct parse *p, const struct option_row *row, char **value)
{
    read_policy(p, value[0], place_parse_bind);
    p->opt->bind_to = value[0];
}

void set_shm_max(struct parse *p, const struct option_row *row, char **value)
{
    p->opt->shm_max_bytes = (uint64_t)parse_number(p, value[0], row->min, row->max) << 20;
}

/* Names are hydra's. */
void set_universe_size(struct parse *p, const struct option_row *row, char **value)
{
    if (strcmp(value[0], "INFINITE") == 0)
        p->opt->universe_size = -1;
    else if (strcmp(value[0], "SYSTEM") == 0)
        p->opt->universe_size = UNIVERSE_SLOTS;
    else
        p->opt->universe_size = (int32_t)parse_number(p, value[0], row->min, row->max);
}

/* The number of ranks is known only after all groups: the rank is checked then. */
void set_stdin(struct parse *p, const struct option_row *row, char **value)
{
    memcpy(p->stdin_word, p->word, sizeof(p->stdin_word));
    if (strcmp(value[0], "all") == 0)
        p->opt->stdin_rank = STDIN_ALL;
    else if (strcmp(value[0], "none") == 0)
        p->opt->stdin_rank = STDIN_NONE;
    else if (value[0][0] >= '0' && value[0][0] <= '9')
        p->opt->stdin_rank = (uint32_t)parse_number(p, value[0], row->min, row->max);
    else
        usage_error(p, "%s wants all, none or a rank, not \"%s\"", p->word, value[0]);
}

/* What stands behind a % is known. */
void set_pattern(struct parse *p, const struct option_row *row, char **value)
{
    for (const char *t = strchr(value[0], '%'); t; t = strchr(t + 2, '%'))
        if (!t[1] || !strchr("rgph%", t[1]))
            usage_error(p,
                        "%s wants %%r (the rank), %%g, %%p, %%h or %%%%, not the \"%.2s\" in "
                        "\"%s\"",
                        p->word, t, value[0]);
    set_text(p, row, value);
}

/* srun's pmi2 is PMI, too. */
void set_mpi(struct parse *p, const struct option_row *row, char **value)
{
    const uint32_t i = parse_word(p, value[0], row->words);

    p->opt->mpi = i > MPI_PMIX ? MPI_PMI : (enum mpi_mode)i;
}

void set_stats(struct parse *p, const struct option_row *row, char **value)
{
    const uint32_t i = value[0] ? parse_word(p, value[0], row->words) : 0;

    p->opt->stats = i == 0 ? STATS_JSON : STATS_TABLE;
}

static bool ends_in(const char *name, const char *ending)
{
    const size_t n = strlen(name), k = strlen(ending);

    return n > k && strcmp(name + n - k, ending) == 0;
}

void set_timeline(struct parse *p, const struct option_row *row, char **value)
{
    if (ends_in(value[0], ".svg"))
        usage_error(p,
                    "%s no longer draws %s: use a file NAME.json, which Perfetto and "
                    "chrome://tracing draw",
                    p->word, value[0]);
    if (!ends_in(value[0], ".json"))
        usage_error(p, "%s wants a file NAME.json, not \"%s\"", p->word, value[0]);
    p->opt->timeline = value[0];
}
