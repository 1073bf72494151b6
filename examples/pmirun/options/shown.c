/* SPDX-License-Identifier: BSD-3-Clause */
/* Options for reports about a job, besides its output. */
#include "row.h"

#include <string.h>

void set_stats(struct parse *p, const struct option_row *row, char **value)
{
    if (!value[0])
        p->opt->stats = STATS_JSON;
    else
        p->opt->stats = parse_word(p, value[0], row->words) == 0 ? STATS_JSON : STATS_TABLE;
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
