/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target: a string of hints. The parser stays within the string's bounds; an accepted
 * hint reads back as a value that is accepted again with the same meaning; a refused one changes
 * nothing.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "../../../libstorwin/src/internal.h"

static void check(int holds)
{
    if (!holds)
        abort();
}

static void one_hint(struct storwin_opts *opts, const struct storwin_hint *hint, const char *end)
{
    struct storwin_opts before = *opts, again;
    struct storwin_error err;
    char back[STORWIN_MAX_PATH + 1];
    int rc;

    check(hint->key + strlen(hint->key) < hint->value && hint->value + strlen(hint->value) <= end &&
          hint->key[0]);
    rc = storwin_opts_set(opts, hint->key, hint->value, &err);
    if (rc != 0) {
        check(rc == STORWIN_UNKNOWN || (rc == STORWIN_EVALUE && strcmp(err.hint, hint->key) == 0));
        check(memcmp(opts, &before, sizeof(before)) == 0);
        return;
    }
    if (storwin__hint_text(opts, hint->key, back, sizeof(back)) < 0)
        abort();
    again = before;
    check(storwin_opts_set(&again, hint->key, back, NULL) == 0);
    again.filename = opts->filename; /* another copy of the same */
    check(memcmp(opts, &again, sizeof(again)) == 0);
    if (opts->filename)
        check(strlen(opts->filename) > 0 && strlen(opts->filename) <= STORWIN_MAX_PATH);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct storwin_hint hints[16];
    struct storwin_opts opts;
    int n;

    check(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    storwin_opts_init(&opts);
    n = storwin_hints_split(text, hints, 16, NULL);
    check(n <= 16 && (n >= 0 || n == STORWIN_ESYNTAX || n == -ENOBUFS));
    for (int i = 0; i < n; i++)
        one_hint(&opts, &hints[i], text + size);
    if (n >= 0)
        (void)storwin__opts_check(&opts, 4096, NULL);
    free(text);
    return 0;
}
