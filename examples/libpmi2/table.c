/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "table.h"

void table_open(struct table *t, const struct pmiwire_client *client, int fd)
{
    struct pmiwire_str text;
    struct shmht_desc desc;

    memset(t, 0, sizeof(*t));
    if (pmiwire_client_ext(client, PMIWIRE_EXT_TABLE, &text) != 0 || shmht_desc_parse(text.ptr, text.len, &desc) != 0)
        return;
    if (fd < 0 && !desc.name[0])
        return; /* its descriptor has not come */
    if (shmht_reader_attach(&desc, desc.name[0] ? -1 : fd, NULL, &t->reader) != 0)
        t->reader = NULL;
}

void table_close(struct table *t)
{
    shmht_reader_detach(t->reader);
    t->reader = NULL;
}

void table_fenced(struct table *t, const struct pmiwire_msg *answer)
{
    struct pmiwire_str v;

    if (answer && pmiwire_msg_ext(answer, PMIWIRE_EXT_TABLE_END, &v) == 0)
        t->ended = 1;
}

/* A value as the server stores them: a string, NUL included. */
static int is_string(struct shmht_bytes v)
{
    return v.len > 0 && ((const char *)v.ptr)[v.len - 1] == '\0';
}

int table_get(struct table *t, struct pmiwire_str key, struct pmiwire_str *value)
{
    struct shmht_bytes v;

    if (!t->reader || t->ended || shmht_get(t->reader, key.ptr, key.len, &v) != 0 || !is_string(v))
        return -1;
    *value = (struct pmiwire_str){v.ptr, v.len - 1};
    return 0;
}

int table_get_many(struct table *t, const struct shmht_bytes *keys, size_t n, struct shmht_bytes *values)
{
    int found = 0;

    memset(values, 0, n * sizeof(*values));
    if (!t->reader || t->ended || shmht_get_many(t->reader, keys, n, values) < 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (values[i].ptr && is_string(values[i]))
            found++;
        else
            values[i] = (struct shmht_bytes){NULL, 0};
    }
    return found;
}
