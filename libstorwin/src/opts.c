/* SPDX-License-Identifier: BSD-3-Clause */
/* Options and their string form. One table holds every key: how to parse, check and print it. */
#include "internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_OPTS_BYTES 4096u /* no struct comes near: a larger size was never set */

struct words {
    const char *word;
    uint32_t value;
};

static const struct words alloc_types[] = {
    {"memory", STORWIN_MEMORY}, {"storage", STORWIN_STORAGE}, {NULL, 0}};
static const struct words orders[] = {
    {"memory_first", STORWIN_MEMORY_FIRST}, {"storage_first", STORWIN_STORAGE_FIRST}, {NULL, 0}};
static const struct words pagers[] = {{"kernel", STORWIN_PAGER_KERNEL},
                                      {"resident", STORWIN_PAGER_RESIDENT},
                                      {"user", STORWIN_PAGER_USER},
                                      {NULL, 0}};
static const struct words atomics[] = {{"none", STORWIN_ATOMIC_NONE},
                                       {"journal", STORWIN_ATOMIC_JOURNAL},
                                       {"slots", STORWIN_ATOMIC_SLOTS},
                                       {"auto", STORWIN_ATOMIC_AUTO},
                                       {NULL, 0}};
static const struct words changes[] = {
    {"tracked", STORWIN_CHANGES_TRACKED}, {"compared", STORWIN_CHANGES_COMPARED}, {NULL, 0}};
static const struct words styles[] = {
    {"read_once", STORWIN_ACCESS_READ_ONCE},     {"write_once", STORWIN_ACCESS_WRITE_ONCE},
    {"read_mostly", STORWIN_ACCESS_READ_MOSTLY}, {"write_mostly", STORWIN_ACCESS_WRITE_MOSTLY},
    {"sequential", STORWIN_ACCESS_SEQUENTIAL},   {"reverse_sequential", STORWIN_ACCESS_REVERSE},
    {"random", STORWIN_ACCESS_RANDOM},           {NULL, 0}};

enum kind { WORD, LIST, FLAG, PATH, FACTOR, PERM, NUMBER32, NUMBER64 };

struct hint {
    const char *key;
    enum kind kind;
    size_t field;              /* offset in struct storwin_opts */
    const struct words *words; /* of WORD and LIST */
    /* of numbers: multiples of unit, 0: powers of 2; of FLAG the bit, in min */
    uint64_t min, max, unit;
    const char *wants; /* allowed values, for the message */
};

#define FIELD(name) offsetof(struct storwin_opts, name)
static const struct hint hint_table[STORWIN__HINTS] = {
    {"alloc_type", WORD, FIELD(alloc_type), alloc_types, 0, 0, 0, "memory or storage"},
    {STORWIN__FILENAME, PATH, FIELD(filename), NULL, 1, STORWIN_MAX_PATH, 0,
     "a path of 1 to 4095 bytes"},
    {"storage_alloc_offset", NUMBER64, FIELD(offset_bytes), NULL, 0, INT64_MAX, 1,
     "a number of bytes below 2^63"},
    {"storage_alloc_factor", FACTOR, FIELD(factor_ppb), NULL, 0, STORWIN_FACTOR_ONE, 1,
     "a number from 0 to 1 with at most 9 decimals, or auto"},
    {"storage_alloc_order", WORD, FIELD(order), orders, 0, 0, 0, "memory_first or storage_first"},
    {"storage_alloc_unlink", FLAG, FIELD(flags), NULL, STORWIN_UNLINK, 0, 0, "true or false"},
    {"storage_alloc_discard", FLAG, FIELD(flags), NULL, STORWIN_DISCARD, 0, 0, "true or false"},
    {"access_style", LIST, FIELD(access_style), styles, 0, 0, 0,
     "words of read_once, write_once, read_mostly, write_mostly, sequential, reverse_sequential, "
     "random"},
    {"file_perm", PERM, FIELD(file_perm), NULL, 0, 0777, 1,
     "octal digits after a 0, at most 0777, or decimal ones, at most 511"},
    {"striping_factor", NUMBER32, FIELD(striping_factor), NULL, 1, STORWIN_MAX_STRIPES, 1,
     "a number from 1 to 65535"},
    {"striping_unit", NUMBER32, FIELD(striping_unit), NULL, 65536, UINT32_MAX - 65535, 65536,
     "a multiple of 65536 below 2^32"},
    {"storage_alloc_pager", WORD, FIELD(pager), pagers, 0, 0, 0, "kernel, resident or user"},
    {"storage_alloc_budget", NUMBER64, FIELD(budget_bytes), NULL, STORWIN_MIN_BUDGET,
     STORWIN_MAX_BYTES, 1, "a number of bytes from 1048576 to 2^46"},
    {"storage_alloc_block", NUMBER64, FIELD(block_bytes), NULL, STORWIN_MIN_BLOCK,
     STORWIN_MAX_BLOCK, 0, "a power of 2 from 4096 to 1048576"},
    {"storage_alloc_memory", NUMBER64, FIELD(memory_bytes), NULL, 1, STORWIN_MAX_BYTES, 1,
     "a number of bytes from 1 to 2^46"},
    {"storage_alloc_sparse", FLAG, FIELD(flags), NULL, STORWIN_SPARSE, 0, 0, "true or false"},
    {"storage_alloc_memfd", FLAG, FIELD(flags), NULL, STORWIN_MEMFD, 0, 0, "true or false"},
    {"storage_alloc_raw", FLAG, FIELD(flags), NULL, STORWIN_RAW, 0, 0, "true or false"},
    {"storage_alloc_atomic", WORD, FIELD(atomic), atomics, 0, 0, 0, "none, journal, slots or auto"},
    {"storage_alloc_changes", WORD, FIELD(changes), changes, 0, 0, 0, "tracked or compared"},
    {"storage_alloc_generation", NUMBER64, FIELD(generation), NULL, 1, INT64_MAX, 1,
     "a number from 1 to 2^63 - 1"},
    {"storage_alloc_generations", NUMBER64, FIELD(generations), NULL, 2, STORWIN_MAX_GENERATIONS, 1,
     "a number from 2 to 16"},
    {"storage_alloc_version", NUMBER64, FIELD(app_version), NULL, 1, UINT64_MAX, 1,
     "a number from 1 to 2^64 - 1"},
    {"storage_alloc_threads", NUMBER32, FIELD(n_threads), NULL, 1, 64, 1, "a number from 1 to 64"},
};

const char *storwin_hint_key(size_t i)
{
    return i < STORWIN__HINTS ? hint_table[i].key : NULL;
}

void storwin_opts_init(struct storwin_opts *opts)
{
    memset(opts, 0, sizeof(*opts));
    opts->size = sizeof(*opts);
    opts->factor_ppb = STORWIN_FACTOR_ONE;
    opts->file_perm = 0600;
}

/*
 * The rule for option structs, which begin with their size: -EINVAL if shorter than this release's,
 * longer than 4,096 bytes, or with a byte other than 0 that this release does not know. *to
 * receives this release's members, `bytes` in all.
 */
int storwin__opts_take(void *to, const void *from, size_t bytes, struct storwin_error *err)
{
    const unsigned char *more = (const unsigned char *)from + bytes;
    size_t size;

    memcpy(&size, from, sizeof(size));
    for (size_t i = bytes; i < size && size <= MAX_OPTS_BYTES; i++)
        if (*more++)
            size = 0;
    if (size < bytes || size > MAX_OPTS_BYTES)
        return storwin__fail(err, -EINVAL, NULL,
                             "the options' size is not set, or they use a later release's fields");
    memcpy(to, from, bytes);
    memcpy(to, &bytes, sizeof(bytes));
    return 0;
}

int storwin__opts_or_defaults(struct storwin_opts *to, const struct storwin_opts *from,
                              struct storwin_error *err)
{
    int rc = 0;

    storwin_opts_init(to);
    if (from)
        rc = storwin__opts_take(to, from, sizeof(*to), err);
    return rc < 0 ? rc : storwin__allocator_check(to->allocator, err);
}

static const struct hint *find_hint(const char *key)
{
    for (size_t i = 0; i < STORWIN__HINTS; i++)
        if (strcmp(key, hint_table[i].key) == 0)
            return &hint_table[i];
    return NULL;
}

static int word_value(const struct words *words, const char *text, size_t len, uint64_t *value)
{
    for (; words->word; words++) {
        if (strlen(words->word) == len && memcmp(words->word, text, len) == 0) {
            *value = words->value;
            return 0;
        }
    }
    return -1;
}

/* Parses digits of one base only, at most max. */
static int parse_number(const char *text, unsigned base, uint64_t max, uint64_t *value)
{
    uint64_t n = 0;

    if (!*text)
        return -1;
    for (; *text; text++) {
        unsigned digit = (unsigned)*text - '0';

        if (digit >= base || n > (max - digit) / base)
            return -1;
        n = n * base + digit;
    }
    *value = n;
    return 0;
}

/* Parses 0, 1, 0.5, .5, 1.000 exactly, without the locale's decimal point. */
static int parse_factor(const char *text, uint64_t *ppb)
{
    uint64_t n = 0;
    unsigned decimals = 0, digits = 0;
    int point = 0;

    if (strcmp(text, "auto") == 0) {
        *ppb = STORWIN_FACTOR_AUTO;
        return 0;
    }
    for (; *text; text++) {
        if (*text == '.' && !point) {
            point = 1;
            continue;
        }
        if (*text < '0' || *text > '9' || (point && decimals == 9))
            return -1;
        n = n * 10 + (unsigned)(*text - '0');
        if (n > STORWIN_FACTOR_ONE)
            return -1;
        decimals += (unsigned)point;
        digits++;
    }
    for (; decimals < 9; decimals++)
        n *= 10;
    if (digits == 0 || n > STORWIN_FACTOR_ONE)
        return -1;
    *ppb = n;
    return 0;
}

static int parse_words(const struct words *words, const char *text, uint64_t *value)
{
    uint64_t bits = 0, bit;

    for (;;) {
        size_t len;

        text += strspn(text, " ");
        len = strcspn(text, ", ");
        if (word_value(words, text, len, &bit) < 0)
            return -1;
        bits |= bit;
        text += len;
        text += strspn(text, " ");
        if (!*text)
            break;
        if (*text++ != ',')
            return -1;
    }
    *value = bits;
    return 0;
}

/* The option of a hint; of a number of 32 or 64 bits. */
static uint64_t get_option(const struct storwin_opts *opts, const struct hint *hint)
{
    const char *field = (const char *)opts + hint->field;
    uint32_t v32;
    uint64_t v64;

    if (hint->kind == NUMBER64) {
        memcpy(&v64, field, sizeof(v64));
        return v64;
    }
    memcpy(&v32, field, sizeof(v32));
    return v32;
}

static void set_option(struct storwin_opts *opts, const struct hint *hint, uint64_t value)
{
    char *field = (char *)opts + hint->field;
    uint32_t v32 = (uint32_t)value;

    if (hint->kind == NUMBER64)
        memcpy(field, &value, sizeof(value));
    else
        memcpy(field, &v32, sizeof(v32));
}

static int number_allowed(const struct hint *hint, uint64_t n)
{
    return n >= hint->min && n <= hint->max && (hint->unit ? n % hint->unit : n & (n - 1)) == 0;
}

/* Parses the value into *opts, a copy that the caller drops on failure. */
static int parse_hint(struct storwin_opts *opts, const struct hint *hint, const char *value)
{
    uint64_t n = 0;
    size_t len;
    int rc = 0;

    switch (hint->kind) {
    case WORD: rc = word_value(hint->words, value, strlen(value), &n); break;
    case LIST: rc = parse_words(hint->words, value, &n); break;
    case FACTOR: rc = parse_factor(value, &n); break;
    case FLAG:
        n = get_option(opts, hint);
        if (strcmp(value, "true") == 0)
            n |= hint->min;
        else if (strcmp(value, "false") == 0)
            n &= ~hint->min;
        else
            rc = -1;
        break;
    case PATH:
        len = strnlen(value, hint->max + 1);
        if (len < hint->min || len > hint->max)
            return -1;
        opts->filename = value;
        return 0;
    case PERM: rc = parse_number(value, *value == '0' ? 8 : 10, hint->max, &n); break;
    case NUMBER32:
    case NUMBER64:
        rc = parse_number(value, 10, hint->max, &n);
        if (rc == 0 && !number_allowed(hint, n))
            rc = -1;
        break;
    }
    if (rc == 0)
        set_option(opts, hint, n);
    return rc;
}

int storwin_opts_set(struct storwin_opts *opts, const char *key, const char *value,
                     struct storwin_error *err)
{
    struct storwin_opts copy;
    const struct hint *hint;

    if (!opts || !key || !value)
        return storwin__fail(err, -EINVAL, NULL, "an argument is NULL");
    if (storwin__opts_take(&copy, opts, sizeof(copy), err) < 0)
        return -EINVAL;
    hint = find_hint(key);
    if (!hint)
        return STORWIN_UNKNOWN;
    if (parse_hint(&copy, hint, value) < 0)
        return storwin__fail(err, STORWIN_EVALUE, key, "%s is \"%.64s\" and must be %s", key, value,
                             hint->wants);
    copy.size = opts->size;
    *opts = copy;
    return 0;
}

static char *trim_blanks(char *text, char *end)
{
    while (text < end && (*text == ' ' || *text == '\t' || *text == '\n'))
        text++;
    while (end > text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\n'))
        end--;
    *end = '\0';
    return text;
}

int storwin_hints_split(char *text, struct storwin_hint *hints, size_t cap_hints,
                        struct storwin_error *err)
{
    size_t n = 0;

    if (!text || (!hints && cap_hints > 0))
        return storwin__fail(err, -EINVAL, NULL, "an argument is NULL");
    for (int more = 1; more;) {
        char *end = text + strcspn(text, ";"), *next = end + 1, *equals;

        more = *end == ';';
        text = trim_blanks(text, end);
        if (*text) {
            equals = strchr(text, '=');
            if (!equals || equals == text)
                return storwin__fail(err, STORWIN_ESYNTAX, NULL, "\"%.64s\" is not key=value",
                                     text);
            if (n == cap_hints || n == INT32_MAX)
                return storwin__fail(err, -ENOBUFS, NULL, "more than %zu hints", cap_hints);
            hints[n].value = trim_blanks(equals + 1, equals + 1 + strlen(equals + 1));
            hints[n].key = trim_blanks(text, equals);
            if (!*hints[n].key)
                return storwin__fail(err, STORWIN_ESYNTAX, NULL, "a hint with an empty key");
            n++;
        }
        text = next;
    }
    return (int)n;
}

static int fail_option(struct storwin_error *err, const struct hint *hint)
{
    return storwin__fail(err, STORWIN_EVALUE, hint->key, "%s must be %s", hint->key, hint->wants);
}

/* Returns whether an option has a value of its hint, or is a number that is not set. */
static int option_allowed(const struct storwin_opts *opts, const struct hint *hint)
{
    const uint64_t value = get_option(opts, hint);
    uint64_t bits = 0;

    switch (hint->kind) {
    case WORD:
        for (const struct words *w = hint->words; w->word; w++)
            if (w->value == value)
                return 1;
        return 0;
    case LIST:
        for (const struct words *w = hint->words; w->word; w++)
            bits |= w->value;
        return (value & ~bits) == 0;
    case FACTOR: return value <= hint->max || value == STORWIN_FACTOR_AUTO;
    case PERM:
    case NUMBER32:
    case NUMBER64: return value == 0 || number_allowed(hint, value);
    case FLAG:
    case PATH: break;
    }
    return 1;
}

/* Checks the values, since options need not come from strings, and options that exclude each
 * other. */
int storwin__opts_check(const struct storwin_opts *opts, uint64_t page_bytes,
                        struct storwin_error *err)
{
    const uint32_t flags =
        STORWIN_UNLINK | STORWIN_DISCARD | STORWIN_SPARSE | STORWIN_MEMFD | STORWIN_RAW;

    if (opts->flags & ~flags)
        return storwin__fail(err, -EINVAL, NULL, "unknown flags 0x%x", opts->flags & ~flags);
    if (opts->offset_bytes > INT64_MAX || opts->offset_bytes % page_bytes != 0)
        return storwin__fail(err, STORWIN_EVALUE, "storage_alloc_offset",
                             "storage_alloc_offset is %" PRIu64
                             " and must be a multiple of the page size, %" PRIu64 ", below 2^63",
                             opts->offset_bytes, page_bytes);
    for (size_t i = 0; i < STORWIN__HINTS; i++)
        if (!option_allowed(opts, &hint_table[i]))
            return fail_option(err, &hint_table[i]);
    if (opts->alloc_type == STORWIN_MEMORY)
        return 0;
    if (!opts->filename)
        return storwin__fail(err, STORWIN_EMISSING, STORWIN__FILENAME,
                             "alloc_type is storage and storage_alloc_filename is missing");
    if (!*opts->filename || strnlen(opts->filename, STORWIN_MAX_PATH + 1) > STORWIN_MAX_PATH)
        return fail_option(err, find_hint(STORWIN__FILENAME));
    if (opts->atomic && opts->pager != STORWIN_PAGER_RESIDENT)
        return storwin__fail(err, STORWIN_ECONFLICT, "storage_alloc_atomic",
                             "storage_alloc_atomic needs storage_alloc_pager=resident: the pager "
                             "%s writes pages to their places between commits",
                             opts->pager == STORWIN_PAGER_USER ? "user" : "kernel");
    if (opts->atomic && page_bytes > STORWIN__COPIES)
        return storwin__fail(err, -EOPNOTSUPP, "storage_alloc_atomic",
                             "storage_alloc_atomic needs pages of at most %u bytes; this machine's "
                             "have %" PRIu64,
                             STORWIN__COPIES, page_bytes);
    if (opts->generations > 2 && opts->atomic != STORWIN_ATOMIC_SLOTS)
        return storwin__fail(err, STORWIN_ECONFLICT, "storage_alloc_generations",
                             "storage_alloc_generations above 2 needs storage_alloc_atomic=slots");
    if ((opts->access_style & STORWIN_ACCESS_RANDOM) &&
        (opts->access_style & (STORWIN_ACCESS_SEQUENTIAL | STORWIN_ACCESS_REVERSE)))
        return storwin__fail(err, STORWIN_ECONFLICT, "access_style",
                             "access_style is both sequential and random");
    return 0;
}

static int print_factor(char *text, size_t cap, uint32_t ppb)
{
    int len, keep;

    if (ppb == STORWIN_FACTOR_AUTO)
        return snprintf(text, cap, "auto");
    len = snprintf(text, cap, "%u.%09u", ppb / STORWIN_FACTOR_ONE, ppb % STORWIN_FACTOR_ONE);
    if (len < 0 || (size_t)len >= cap)
        return len;
    for (keep = len; text[keep - 1] == '0'; keep--)
        ;
    if (text[keep - 1] == '.')
        keep--;
    text[keep] = '\0';
    return keep;
}

/* Writes the option in the hint's own form; -ENOENT if the option has no value. */
ssize_t storwin__hint_text(const struct storwin_opts *opts, const char *key, char *value,
                           size_t cap)
{
    const struct hint *hint = find_hint(key);
    const char *from;
    char text[160];
    uint64_t n;
    int len = 0;

    if (!hint)
        return -ENOENT;
    from = hint->kind == PATH ? opts->filename : text;
    n = hint->kind == PATH ? 0 : get_option(opts, hint);
    switch (hint->kind) {
    case PATH:
        if (!from)
            return -ENOENT;
        len = (int)strlen(from);
        break;
    case WORD:
        for (const struct words *w = hint->words; w->word; w++)
            if (w->value == n)
                len = snprintf(text, sizeof(text), "%s", w->word);
        break;
    case LIST:
        if (n == 0)
            return -ENOENT;
        for (const struct words *w = hint->words; w->word; w++)
            if (w->value & n)
                len += snprintf(text + len, sizeof(text) - (size_t)len, "%s%s", len ? "," : "",
                                w->word);
        break;
    case FLAG: len = snprintf(text, sizeof(text), "%s", n & hint->min ? "true" : "false"); break;
    case FACTOR: len = print_factor(text, sizeof(text), (uint32_t)n); break;
    case PERM: len = snprintf(text, sizeof(text), "0%o", (unsigned)n); break;
    case NUMBER32:
    case NUMBER64:
        if (n < hint->min)
            return -ENOENT;
        len = snprintf(text, sizeof(text), "%" PRIu64, n);
        break;
    }
    if ((size_t)len >= cap)
        return -ENOBUFS;
    memcpy(value, from, (size_t)len + 1);
    return len;
}
