/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of hosts. */
#define _GNU_SOURCE
#include "row.h"

#include <string.h>

#include "../local/util.h"

/* A name becomes an argument of ssh: it must not look like an option. */
void set_hosts(struct parse *p, const struct option_row *row, char **value)
{
    struct options *opt = p->opt;
    char *h = xprintf("%s", value[0]), *comma;

    (void)row;
    if (!*h)
        usage_error(p, "%s wants names with commas between them", p->word);
    for (uint32_t i = 1; h; i++, h = comma) {
        if ((comma = strchr(h, ',')))
            *comma++ = '\0';
        if (!*h)
            usage_error(p, "%s %s: name %u of the list is empty", p->word, value[0], i);
        if (h[0] == '-' ||
            h[strspn(h, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@%[]:")])
            usage_error(p, "%s: \"%s\" is no host's name", p->word, h);
        opt->hosts = xrealloc(opt->hosts, (opt->n_hosts + 1) * sizeof(*opt->hosts));
        opt->hosts[opt->n_hosts++] = h;
    }
}
