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

static void *field(const struct parse *p, const struct option_row *row)
{
    return (char *)p->opt + row->at;
}

void set_flag(struct parse *p, const struct option_row *row, char **value)
{
    (void)value;
    *(bool *)field(p, row) = true;
}

void set_count(struct parse *p, const struct option_row *row, char **value)
{
    *(uint32_t *)field(p, row) = (uint32_t)parse_number(p, value[0], row->min, row->max);
}

void set_seconds(struct parse *p, const struct option_row *row, char **value)
{
    *(double *)field(p, row) = parse_seconds(p, value[0]);
}

void set_text(struct parse *p, const struct option_row *row, char **value)
{
    if (!value[0][0])
        usage_error(p, "%s wants %s, not \"\"", p->word, row->arg);
    *(char **)field(p, row) = value[0];
}

void set_word(struct parse *p, const struct option_row *row, char **value)
{
    const uint32_t v = parse_word(p, value[0], row->words);

    memcpy(field(p, row), &v, sizeof(v));
}

/* ---- one row each ---- */

void set_procs(struct parse *p, const struct option_row *row, char **value)
{
    p->app->n_procs = (uint32_t)parse_number(p, value[0], row->min, row->max);
}

void set_wdir(struct parse *p, const struct option_row *row, char **value)
{
    (void)row;
    if (!value[0][0])
        usage_error(p, "%s: the directory's name is empty", p->word);
    p->app->wdir = value[0];
}

void set_launch(struct parse *p, const struct option_row *row, char **value)
{
    p->opt->launch = (enum launch_kind)(LAUNCH_FORK + parse_word(p, value[0], row->words));
}

void set_map(struct parse *p, const struct option_row *row, char **value)
{
    p->opt->cyclic = parse_word(p, value[0], row->words) == 1;
}

/* TCP's keep-alive is set by it, and takes no longer. */
void set_node_timeout(struct parse *p, const struct option_row *row, char **value)
{
    const double v = parse_seconds(p, value[0]);

    (void)row;
    if (v > 80000)
        usage_error(p, "%s wants up to 80000 seconds, or 0 for never, not \"%s\"", p->word,
                    value[0]);
    p->opt->node_s = v;
}

void set_shm_max(struct parse *p, const struct option_row *row, char **value)
{
    p->opt->shm_max_bytes = (uint64_t)parse_number(p, value[0], row->min, row->max) << 20;
}

void set_universe_size(struct parse *p, const struct option_row *row, char **value)
{
    p->opt->universe_size = (int32_t)parse_number(p, value[0], row->min, row->max);
}
