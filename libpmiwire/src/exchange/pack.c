/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs in a collective's frames. A node's part is split into segments, and a segment's pairs into
 * runs: consecutive pairs with keys of one length and values of one length. A run carries the
 * common prefix of its keys once. It has four bytes of header and a pair has none, so a Fence costs
 * its payload or less. The receiver expands runs into records when it makes a block.
 */
#include "exchange_internal.h"

#define MAX_SHARED 255u
#define RUN_HEADER 4u /* of most runs */

/* ---- numbers: 7 bits a byte, the lowest first, no 128 in the last byte; shortest form only ----
 */

static size_t number_bytes(uint32_t v)
{
    size_t n = 1;

    for (; v >= 128; v >>= 7)
        n++;
    return n;
}

static char *number_write(char *to, uint32_t v)
{
    for (; v >= 128; v >>= 7)
        *to++ = (char)(v | 128);
    *to++ = (char)v;
    return to;
}

/* 0 with *p behind it, or PMIWIRE_EPROTO. */
static int number_read(const char **p, const char *end, uint32_t *v)
{
    uint64_t got = 0;
    unsigned shift = 0;
    unsigned char c;

    do {
        if (*p == end || shift > 28)
            return PMIWIRE_EPROTO;
        c = (unsigned char)*(*p)++;
        got |= (uint64_t)(c & 127) << shift;
        shift += 7;
    } while (c & 128);
    if (got > UINT32_MAX || (c == 0 && shift > 7))
        return PMIWIRE_EPROTO;
    *v = (uint32_t)got;
    return 0;
}

/* ---- reading ---- */

int pmiwire__segment_read(const char *p, size_t n, struct pmiwire__segment *s)
{
    const char *at = p;

    if (number_read(&at, p + n, &s->node) != 0 || number_read(&at, p + n, &s->bytes) != 0 ||
        s->bytes > n - (size_t)(at - p))
        return PMIWIRE_EPROTO;
    s->runs = at;
    s->whole = (size_t)(at - p) + s->bytes;
    return 0;
}

int pmiwire__run_read(const char **p, const char *end, struct pmiwire__run *run)
{
    const char *at = *p;
    uint64_t bytes;

    if (number_read(&at, end, &run->n) != 0 || at == end)
        return PMIWIRE_EPROTO;
    run->shared = (unsigned char)*at++;
    if (number_read(&at, end, &run->rest) != 0 || number_read(&at, end, &run->value) != 0)
        return PMIWIRE_EPROTO;
    if (run->n == 0 || run->rest > PMIWIRE_EXCHANGE_MAX_KEY_BYTES || run->shared + run->rest == 0 ||
        run->shared + run->rest > PMIWIRE_EXCHANGE_MAX_KEY_BYTES ||
        run->value > PMIWIRE_EXCHANGE_MAX_VALUE_BYTES)
        return PMIWIRE_EPROTO;
    bytes = run->shared + (uint64_t)run->n * (run->rest + run->value);
    if (bytes > (uint64_t)(end - at))
        return PMIWIRE_EPROTO;
    run->begin = at;
    run->pairs = at + run->shared;
    *p = at + bytes;
    return 0;
}

int pmiwire__segment_records(const struct pmiwire__segment *s, uint64_t *bytes)
{
    const char *p = s->runs, *end = s->runs + s->bytes;
    struct pmiwire__run run;

    *bytes = 0;
    while (p < end) {
        if (pmiwire__run_read(&p, end, &run) != 0)
            return PMIWIRE_EPROTO;
        *bytes += run.n * (uint64_t)pmiwire__record_bytes(run.shared + run.rest, run.value);
        if (*bytes > UINT32_MAX)
            return PMIWIRE_EPROTO;
    }
    return 0;
}

void pmiwire__run_key(const struct pmiwire__run *run, uint32_t i, char *key)
{
    memcpy(key, run->begin, run->shared);
    memcpy(key + run->shared, run->pairs + (size_t)i * (run->rest + run->value), run->rest);
}

static char *write_records(const struct pmiwire__run *run, char *to)
{
    const size_t key = run->shared + run->rest, bytes = pmiwire__record_bytes(key, run->value);
    const uint32_t word = (uint32_t)key << 18 | run->value;
    const char *from = run->pairs;

    for (uint32_t i = 0; i < run->n; i++, from += run->rest + run->value, to += bytes) {
        memset(to + bytes - 4, 0, 4); /* zeroes the padding */
        memcpy(to, &word, 4);
        memcpy(to + 4, run->begin, run->shared);
        memcpy(to + 4 + run->shared, from, run->rest + run->value);
    }
    return to;
}

void pmiwire__segment_unpack(const struct pmiwire__segment *s, char *to)
{
    const char *p = s->runs, *end = s->runs + s->bytes;
    struct pmiwire__run run;

    while (p < end && pmiwire__run_read(&p, end, &run) == 0)
        to = write_records(&run, to);
}

/* ---- writing ---- */

/* A run that will be made of records. */
struct draft {
    uint32_t n, shared, rest, value;
    size_t records; /* bytes of them */
    size_t bytes;   /* of the run */
};

static uint32_t common_prefix(const char *a, const char *b, uint32_t most)
{
    uint32_t n = 0;

    while (n < most && a[n] == b[n])
        n++;
    return n;
}

/*
 * Finds the run that begins with the first record at p: at most `most` bytes of records, or one
 * record. The run continues while a shorter common prefix costs less than another run.
 */
static struct draft find_run(const char *p, size_t n, size_t most)
{
    struct pmiwire__record first, rec;
    struct draft d;

    first = pmiwire__record_at(p);
    d = (struct draft){.n = 1,
                       .shared = (uint32_t)first.key.len,
                       .value = (uint32_t)first.value.len,
                       .records = first.bytes};
    if (d.shared > MAX_SHARED)
        d.shared = MAX_SHARED;
    for (; d.records < n && d.records + first.bytes <= most; d.records += first.bytes, d.n++) {
        uint32_t shared;

        rec = pmiwire__record_at(p + d.records);
        if (rec.key.len != first.key.len || rec.value.len != first.value.len)
            break;
        shared = common_prefix(first.key.ptr, rec.key.ptr, d.shared);
        if ((uint64_t)(d.shared - shared) * (d.n - 1) > RUN_HEADER + shared)
            break;
        d.shared = shared;
    }
    d.rest = (uint32_t)first.key.len - d.shared;
    d.bytes = number_bytes(d.n) + 1 + number_bytes(d.rest) + number_bytes(d.value) + d.shared +
              (size_t)d.n * (d.rest + d.value);
    return d;
}

static char *write_run(char *to, const char *p, const struct draft *d)
{
    const size_t bytes = d->records / d->n;

    to = number_write(to, d->n);
    *to++ = (char)d->shared;
    to = number_write(to, d->rest);
    to = number_write(to, d->value);
    memcpy(to, p + 4, d->shared);
    to += d->shared;
    for (uint32_t i = 0; i < d->n; i++, p += bytes, to += d->rest + d->value)
        memcpy(to, p + 4 + d->shared, d->rest + d->value);
    return to;
}

/* Makes the segment that begins at p. Returns the bytes of records in it; *bytes: the bytes of its
 * runs; to: NULL, or memory for the runs. */
static size_t pack_runs(const struct pmiwire_exchange *x, const char *p, size_t n, char *to,
                        uint32_t *bytes)
{
    const size_t most = x->max_frame - sizeof(struct pmiwire__frame) - PMIWIRE__SEGMENT_HEADER,
                 most_records = pmiwire__segment_most(x);
    size_t at = 0, len = 0;

    while (at < n) {
        struct draft d = find_run(p + at, n - at, most_records - at);

        if (at > 0 && (at + d.records > most_records || len + d.bytes > most))
            break;
        if (to)
            to = write_run(to, p + at, &d);
        at += d.records;
        len += d.bytes;
    }
    *bytes = (uint32_t)len;
    return at;
}

size_t pmiwire__segment_pack(const struct pmiwire_exchange *x, const struct pmiwire__buf *records,
                             char *to, size_t *took)
{
    uint32_t bytes;

    *took = pack_runs(x, records->ptr, records->len, NULL, &bytes);
    if (to) {
        char *runs = number_write(number_write(to, x->me), bytes);

        (void)pack_runs(x, records->ptr, records->len, runs, &bytes);
    }
    return number_bytes(x->me) + number_bytes(bytes) + bytes;
}
