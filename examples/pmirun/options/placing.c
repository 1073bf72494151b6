/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers of --map-by and --bind-to. */
#define _GNU_SOURCE
#include "row.h"

#include "../place/place.h"

static void read_policy(const struct parse *p, const char *text,
                        const char *(*parse)(struct place_policy *policy, const char *text))
{
    const char *why = parse(&p->opt->place, text);

    if (why)
        usage_error(p, "%s %s, not \"%s\"", p->word, why, text);
}

void set_map_by(struct parse *p, const struct option_row *row, char **value)
{
    (void)row;
    read_policy(p, value[0], place_parse_map);
    p->opt->map_by = value[0];
    p->opt->cyclic = p->opt->place.nodes_cyclic;
}

void set_bind_to(struct parse *p, const struct option_row *row, char **value)
{
    (void)row;
    read_policy(p, value[0], place_parse_bind);
    p->opt->bind_to = value[0];
}

void settle_place(const struct parse *p)
{
    const char *why = place_settle(&p->opt->place);

    if (why)
        usage_error(p, "%s", why);
}
