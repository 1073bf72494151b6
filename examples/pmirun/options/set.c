/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers that many rows share, and small ones of one row. */
#define _GNU_SOURCE
#include "row.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../local/job.h"
#include "../local/util.h"
#include "../reach.h"

/* ---- values ---- */

int64_t parse_number(const struct parse *p, const char *text, int64_t min, int64_t max)
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

double parse_seconds(const struct parse *p, const char *text)
{
    char *end;
    double v;

    errno = 0;
    v = strtod(text, &end);
    if (errno || end == text || *end || !isfinite(v) || v < 0 || v > 1e9)
        usage_error(p, "%s wants seconds, not \"%s\"", p->word, text);
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
    *(double *)option_field(p, row) = parse_seconds(p, value[0]);
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

void set_map(struct parse *p, const struct option_row *row, char **value)
{
    p->opt->cyclic = parse_word(p, value[0], row->words) == 1;
}

/* It sets TCP's keep-alive, whose limit is 80,000. */
void set_node_timeout(struct parse *p, const struct option_row *row, char **value)
{
    const double v = parse_seconds(p, value[0]);

    if (v > 80000)
        usage_error(p, "%s wants up to 80000 seconds, or 0 for never, not \"%s\"", p->word,
                    value[0]);
    p->opt->node_s = v;
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

void set_ends(struct parse *p, const struct option_row *row, char **value)
{
    p->opt->as_hydra = parse_word(p, value[0], row->words) == 1;
}
