/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of ranks, with errors that name the place. */
#include "explain.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void input_error(const struct input *in, size_t at, const char *format, ...)
{
    unsigned long line = 1, column = 1;
    va_list args;

    for (size_t i = 0; i < at && i < in->len; i++) {
        column = in->text[i] == '\n' ? 1 : column + 1;
        line += in->text[i] == '\n';
    }
    fprintf(stderr, "rankmap-explain: %s:%lu:%lu: ", in->name, line, column);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

char *input_read(const char *path, size_t *len)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t cap = 65536, n = 0;
    char *text = NULL, *larger;

    if (!f) {
        fprintf(stderr, "rankmap-explain: %s: %s\n", path, strerror(errno));
        return NULL;
    }
    do {
        cap *= 2;
        larger = cap <= (size_t)1 << 30 ? realloc(text, cap) : NULL;
        if (!larger) {
            fprintf(stderr, "rankmap-explain: %s: too long\n", path);
            goto fail;
        }
        text = larger;
        n += fread(text + n, 1, cap - 1 - n, f);
    } while (n == cap - 1);
    if (ferror(f)) {
        fprintf(stderr, "rankmap-explain: %s: %s\n", path, strerror(errno));
        goto fail;
    }
    if (f != stdin)
        fclose(f);
    text[n] = '\0';
    *len = n;
    return text;

fail:
    if (f != stdin)
        fclose(f);
    free(text);
    return NULL;
}

/* ---- Lists ---- */

/* A range as it stands in the text; `start` is the index of its first rank. */
struct piece {
    uint64_t first, n;
    int64_t stride;
    size_t at, start;
};

struct list {
    const struct input *in;
    struct piece *pieces;
    size_t n_pieces, cap;
    uint64_t n_ranks;
};

static int separates(char c)
{
    return c == ',' || isspace((unsigned char)c);
}

/* The end of the word that begins at `at`. */
static size_t word_end(const struct input *in, size_t at)
{
    while (at < in->len && !separates(in->text[at]) && in->text[at] != '#')
        at++;
    return at;
}

static int wrong_word(const struct input *in, size_t at, const char *what)
{
    size_t end = word_end(in, at), n = end - at < 40 ? end - at : 40;
    char word[48];

    for (size_t i = 0; i < n; i++)
        word[i] = isprint((unsigned char)in->text[at + i]) ? in->text[at + i] : '?';
    word[n] = '\0';
    input_error(in, at, "\"%s%s\" %s", word, end - at > n ? "..." : "", what);
    return -1;
}

/* Digits at *at; -1 when there are none or too many. */
static int read_number(const struct input *in, size_t *at, uint64_t *value)
{
    size_t i = *at;
    uint64_t v = 0;

    while (i < in->len && isdigit((unsigned char)in->text[i])) {
        if (v > (UINT64_MAX - 9) / 10)
            return -1;
        v = v * 10 + (uint64_t)(in->text[i++] - '0');
    }
    if (i == *at)
        return -1;
    *at = i;
    *value = v;
    return 0;
}

static int add_piece(struct list *l, const struct piece *p)
{
    if (p->n > EXPLAIN_MAX_RANKS - l->n_ranks) {
        input_error(l->in, p->at, "more than %lu ranks", (unsigned long)EXPLAIN_MAX_RANKS);
        return -1;
    }
    if (l->n_pieces == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 256;
        struct piece *larger = realloc(l->pieces, cap * sizeof(*larger));

        if (!larger) {
            fprintf(stderr, "rankmap-explain: out of memory\n");
            return -1;
        }
        l->pieces = larger;
        l->cap = cap;
    }
    l->pieces[l->n_pieces] = *p;
    l->pieces[l->n_pieces++].start = l->n_ranks;
    l->n_ranks += p->n;
    return 0;
}

/* first, first-last or first-last:stride. */
static int read_piece(struct list *l, size_t *at)
{
    const struct input *in = l->in;
    const size_t begin = *at, end = word_end(in, begin);
    struct piece p = {.n = 1, .stride = 1, .at = begin};
    uint64_t last, step = 1;
    size_t i = begin;
    int negative;

    if (read_number(in, &i, &p.first) != 0)
        return wrong_word(in, begin,
                          "is no rank: first, first-last or first-last:stride is expected");
    last = p.first;
    if (i < end && in->text[i] == '-') {
        i++;
        if (read_number(in, &i, &last) != 0)
            return wrong_word(in, begin, "has no number after its \"-\"");
        negative = last < p.first;
        if (i < end && in->text[i] == ':') {
            i++;
            if (i < end && in->text[i] == '-') {
                i++;
                if (!negative)
                    return wrong_word(in, begin,
                                      "does not go down, so its stride must be positive");
            }
            if (read_number(in, &i, &step) != 0 || step == 0 || step > INT64_MAX)
                return wrong_word(in, begin, "has no stride after its \":\", or one of 0");
        }
        p.stride = negative ? -(int64_t)step : (int64_t)step;
        p.n = (negative ? p.first - last : last - p.first) / step + 1;
    }
    if (i != end)
        return wrong_word(in, begin,
                          "is no rank: first, first-last or first-last:stride is expected");
    if (p.first >= RANKMAP_ID_LIMIT || last >= RANKMAP_ID_LIMIT) {
        input_error(in, begin, "%llu is too large: ids must be below %llu",
                    (unsigned long long)(p.first > last ? p.first : last),
                    (unsigned long long)RANKMAP_ID_LIMIT);
        return -1;
    }
    *at = end;
    return add_piece(l, &p);
}

static const struct piece *piece_of(const struct list *l, uint32_t rank)
{
    size_t i = l->n_pieces;

    while (l->pieces[--i].start > rank)
        ;
    return &l->pieces[i];
}

/* The map of the list; an error names the place of the range that causes it. */
static int map_of(const struct list *l, const uint64_t *ids, struct rankmap **map)
{
    struct rankmap_error err;
    int rc = rankmap_from_ids(ids, sizeof(*ids), (size_t)l->n_ranks, NULL, map, &err);

    if (rc < 0 && err.where < l->n_ranks)
        input_error(l->in, piece_of(l, (uint32_t)err.where)->at, "%s", err.text);
    else if (rc < 0)
        fprintf(stderr, "rankmap-explain: %s\n", err.text);
    return rc;
}

int input_list(const struct input *in, struct rankmap **map, uint64_t **ids, uint32_t *n)
{
    struct list l = {.in = in};
    uint64_t *all = NULL;
    int result = -1;

    for (size_t at = 0; at < in->len;) {
        if (separates(in->text[at])) {
            at++;
        } else if (in->text[at] == '#') {
            while (at < in->len && in->text[at] != '\n')
                at++;
        } else if (read_piece(&l, &at) != 0) {
            goto out;
        }
    }
    if (l.n_ranks == 0) {
        input_error(in, in->len, "there are no ranks");
        goto out;
    }
    all = malloc((size_t)l.n_ranks * sizeof(*all));
    if (!all) {
        fprintf(stderr, "rankmap-explain: out of memory\n");
        goto out;
    }
    for (size_t i = 0; i < l.n_pieces; i++) {
        const struct piece *p = &l.pieces[i];

        for (uint64_t k = 0; k < p->n; k++)
            all[p->start + k] = p->first + k * (uint64_t)p->stride;
    }
    if (map_of(&l, all, map) != 0)
        goto out;
    *ids = all;
    *n = (uint32_t)l.n_ranks;
    all = NULL;
    result = 0;

out:
    free(all);
    free(l.pieces);
    return result;
}

/* ---- Mappings ---- */

/* A mapping that is read from left to right. */
struct scan {
    const struct input *in;
    size_t at;
};

static int accept(struct scan *s, char c)
{
    while (s->at < s->in->len && isspace((unsigned char)s->in->text[s->at]))
        s->at++;
    if (s->at == s->in->len || s->in->text[s->at] != c)
        return 0;
    s->at++;
    return 1;
}

/* A number up to EXPLAIN_MAX_RANKS + 1, which stands for all that are larger; -1 when there is
 * none. */
static int64_t factor(struct scan *s)
{
    uint64_t value;

    while (s->at < s->in->len && isspace((unsigned char)s->in->text[s->at]))
        s->at++;
    if (read_number(s->in, &s->at, &value) != 0)
        return -1;
    return value > EXPLAIN_MAX_RANKS ? (int64_t)EXPLAIN_MAX_RANKS + 1 : (int64_t)value;
}

/* a·b, -1 where either is or it is too large. */
static int64_t times(int64_t a, int64_t b)
{
    return a < 0 || b < 0 || a * b > EXPLAIN_MAX_RANKS ? -1 : a * b;
}

static int64_t plus(int64_t a, int64_t b)
{
    return a < 0 || b < 0 || a + b > EXPLAIN_MAX_RANKS ? -1 : a + b;
}

/* The ranks of (first,nodes,ppn), of [first,nodes,ppn,repeat], or of a node alone. */
static int64_t block_ranks(struct scan *s, int task_map)
{
    int64_t ranks = 1, first;

    if (!accept(s, task_map ? '[' : '('))
        return task_map || factor(s) < 0 ? -1 : 1;
    first = factor(s);
    for (int i = 0; i < (task_map ? 3 : 2); i++)
        ranks = accept(s, ',') ? times(ranks, factor(s)) : -1;
    return first >= 0 && accept(s, task_map ? ']' : ')') ? ranks : -1;
}

/* Blocks with commas between them, or [blocks]xN in a vector. */
static int64_t list_ranks(struct scan *s, int task_map, int in_group)
{
    int64_t ranks = 0;

    do {
        if (!task_map && !in_group && accept(s, '[')) {
            int64_t group = list_ranks(s, 0, 1);

            ranks = accept(s, ']') && accept(s, 'x') ? plus(ranks, times(group, factor(s))) : -1;
        } else {
            ranks = plus(ranks, block_ranks(s, task_map));
        }
    } while (ranks >= 0 && accept(s, ','));
    return ranks;
}

uint32_t input_mapping_ranks(const struct input *in)
{
    struct scan s = {in, 0};
    int64_t ranks = -1;

    if (accept(&s, '(')) {
        for (const char *c = "vector,"; *c; c++)
            if (!accept(&s, *c))
                return 0;
        ranks = list_ranks(&s, 0, 0);
    } else if (memchr(in->text, '[', in->len)) { /* of a task map, or of an object with one in it */
        s.at = (size_t)((const char *)memchr(in->text, '[', in->len) - in->text) + 1;
        ranks = list_ranks(&s, 1, 0);
    }
    return ranks < 0 ? 0 : (uint32_t)ranks;
}
