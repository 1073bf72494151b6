/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks' environment. */
#define _GNU_SOURCE
#include "row.h"

#include <string.h>

#include "../local/job.h"
#include "../local/util.h"

void set_x(struct parse *p, const struct option_row *row, char **value)
{
    struct app *app = p->app;
    const char *text = value[0], *eq = strchr(text, '=');
    size_t name_len = eq ? (size_t)(eq - text) : strlen(text);

    (void)row;
    if (name_len == 0)
        usage_error(p, "%s wants VAR=VALUE, not \"%s\"", p->word, text);
    if (strncmp(text, "PMI_", 4) == 0 ||
        (name_len == 15 && memcmp(text, "MPI_LOCALRANKID", 15) == 0) ||
        (name_len == 15 && memcmp(text, "MPI_LOCALNRANKS", 15) == 0))
        usage_error(p, "%s %.*s: this variable is set by pmirun", p->word, (int)name_len, text);
    if (!eq)
        return; /* the whole environment is passed on anyway */
    app->sets = xrealloc(app->sets, (app->n_sets + 2) * sizeof(*app->sets));
    app->sets[app->n_sets++] = value[0];
    app->sets[app->n_sets] = NULL;
}
