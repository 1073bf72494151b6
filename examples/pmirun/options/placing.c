/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers of --map-by and --bind-to. */
#define _GNU_SOURCE
#include "placing.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../local/util.h"
#include "../place/place.h"

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
        usage_error(p, "%s wants ppr:N:node, not \"%s\"", p->word, text);
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

void settle_placing(const struct parse *p)
{
    const char *why = place_settle(&p->opt->place);

    if (why)
        usage_error(p, "%s", why);
    if (p->opt->topology && !place_binds(&p->opt->place))
        usage_error(
            p, "--topology \"%s\": no option uses it: add --bind-to, or --map-by with an object",
            p->opt->topology);
}
