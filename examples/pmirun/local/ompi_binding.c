/* SPDX-License-Identifier: BSD-3-Clause */
/* The binding of ranks, as Open MPI 4 reads it by PMI-1. */
#define _GNU_SOURCE
#include "ompi_binding.h"

#include "bind.h"
#include "job.h"
#include "job_end.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_BYTES 1023u /* limit of a value, which libpmi reports to Open MPI */

/* A rank's; by its index in job->ranks. */
struct early {
    char *key; /* NULL: it is not bound */
    char *own; /* what it has put, held back; NULL: nothing */
    size_t own_len;
};

/* As Open MPI packs a string that it puts: its name, type and length, each with a NUL, and the
 * string, in base 64, padded with blanks, and a '-' at the end. */
static char *pack_string(const char *name, const char *value)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t n = strlen(name) + 1 + sizeof("03") + sizeof("ffff") + strlen(value) + 1;
    unsigned char *raw = xrealloc(NULL, n + 2);
    char *text = xrealloc(NULL, (n + 2) / 3 * 4 + 2), *t = text;

    memset(raw, 0, n + 2);
    snprintf((char *)raw, n, "%s%c03%c%04x%c%s", name, 0, 0, (unsigned)strlen(value) + 1, 0, value);
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t v = (uint32_t)raw[i] << 16 | (uint32_t)raw[i + 1] << 8 | raw[i + 2];

        *t++ = digits[v >> 18];
        *t++ = digits[v >> 12 & 63];
        *t++ = i + 1 < n ? digits[v >> 6 & 63] : ' ';
        *t++ = i + 2 < n ? digits[v & 63] : ' ';
    }
    *t++ = '-';
    *t = '\0';
    free(raw);
    return text;
}

/* False: a binding is too long for a value, so no rank's is stored; -v reports it. */
static bool are_short(const struct job *job)
{
    for (uint32_t i = 0; i < job->n_local; i++) {
        const char *locality = job->bound->localities[i];

        if (!locality)
            return false;
        if (strlen(locality) > VALUE_BYTES * 3 / 4 - 32) {
            log_verbose(
                "Open MPI gets no bindings of ranks: that of rank %u takes %zu bytes, too many "
                "for a value",
                job->ranks[i].number, strlen(locality));
            return false;
        }
    }
    return true;
}

int early_put(struct job *job, uint32_t number)
{
    int err = 0;

    if (!job->bound || !are_short(job))
        return 0;
    job->early = xzalloc(job->n_local * sizeof(*job->early));
    for (uint32_t i = 0; i < job->n_local && err == 0; i++) {
        char *value = pack_string("pmix.locstr", job->bound->localities[i]);

        job->early[i].key = xprintf("%u-%u-key0", number, job->ranks[i].number);
        err = table_put(job, pmiwire_strz(job->early[i].key), pmiwire_strz(value));
        free(value);
    }
    table_publish(job);
    return err;
}

bool early_hold(struct job *job, uint32_t rank, struct pmiwire_str key, struct pmiwire_str value)
{
    struct early *e = job->early ? &job->early[rank] : NULL;

    if (!e || strlen(e->key) != key.len || memcmp(e->key, key.ptr, key.len) != 0)
        return false;
    e->own = xrealloc(e->own, value.len);
    memcpy(e->own, value.ptr, value.len);
    e->own_len = value.len;
    return true;
}

void early_release(struct job *job)
{
    int err = 0;

    for (uint32_t i = 0; job->early && i < job->n_local && err == 0; i++) {
        const struct early *e = &job->early[i];

        if (e->own)
            err = table_put(job, pmiwire_strz(e->key), (struct pmiwire_str){e->own, e->own_len});
    }
    early_free(job);
    if (err) {
        log_message("cannot store the pairs that Open MPI's ranks put: %s; stopping the job",
                    pmiwire_strerror(err));
        job_stop(job->jobs, STATUS_RESOURCES);
    }
}

void early_free(struct job *job)
{
    for (uint32_t i = 0; job->early && i < job->n_local; i++) {
        free(job->early[i].key);
        free(job->early[i].own);
    }
    free(job->early);
    job->early = NULL;
}
