/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads lists of ranks and files, counts the ranks of mappings; errors name the place. */
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

int input_list(const struct input *in, struct rankmap **map)
{
    char *text = malloc(in->len + 1); /* without comments */
    struct rankmap_error err;
    int comment = 0, rc;

    if (!text) {
        fprintf(stderr, "rankmap-explain: out of memory\n");
        return -ENOMEM;
    }
    for (size_t i = 0; i < in->len; i++) {
        comment = in->text[i] != '\n' && (comment || in->text[i] == '#');
        text[i] = comment ? ' ' : in->text[i];
    }
    rc = rankmap_from_text(text, in->len, NULL, map, &err);
    free(text);
    if (rc < 0) {
        input_error(in, err.where < in->len ? (size_t)err.where : in->len, "%s", err.text);
        return rc;
    }
    if (rankmap_size(*map) > 0 && rankmap_size(*map) <= EXPLAIN_MAX_RANKS)
        return 0;
    if (rankmap_size(*map) == 0)
        input_error(in, in->len, "there are no ranks");
    else
        input_error(in, 0, "more than %lu ranks", (unsigned long)EXPLAIN_MAX_RANKS);
    rankmap_unref(*map);
    return -EINVAL;
}

/* ---- Mappings ---- */

/* A mapping that is read from left to right. */
struct scan {
    const struct input *in;
    size_t at;
};

static void skip_blanks(struct scan *s)
{
    while (s->at < s->in->len && isspace((unsigned char)s->in->text[s->at]))
        s->at++;
}

static int accept_char(struct scan *s, char c)
{
    skip_blanks(s);
    if (s->at == s->in->len || s->in->text[s->at] != c)
        return 0;
    s->at++;
    return 1;
}

/* A number up to EXPLAIN_MAX_RANKS + 1, which stands for all that are larger; -1 when there is
 * none. */
static int64_t read_number(struct scan *s)
{
    int64_t value = -1;

    skip_blanks(s);
    for (; s->at < s->in->len && isdigit((unsigned char)s->in->text[s->at]); s->at++) {
        value = (value < 0 ? 0 : value) * 10 + (s->in->text[s->at] - '0');
        value = value > EXPLAIN_MAX_RANKS ? (int64_t)EXPLAIN_MAX_RANKS + 1 : value;
    }
    return value;
}

/* a·b, -1 where either is or it is too large. */
static int64_t multiply_ranks(int64_t a, int64_t b)
{
    return a < 0 || b < 0 || a * b > EXPLAIN_MAX_RANKS ? -1 : a * b;
}

static int64_t add_ranks(int64_t a, int64_t b)
{
    return a < 0 || b < 0 || a + b > EXPLAIN_MAX_RANKS ? -1 : a + b;
}

/* The ranks of (first,nodes,ppn), of [first,nodes,ppn,repeat], or of a node alone. */
static int64_t block_ranks(struct scan *s, int task_map)
{
    int64_t ranks = 1, first;

    if (!accept_char(s, task_map ? '[' : '('))
        return task_map || read_number(s) < 0 ? -1 : 1;
    first = read_number(s);
    for (int i = 0; i < (task_map ? 3 : 2); i++)
        ranks = accept_char(s, ',') ? multiply_ranks(ranks, read_number(s)) : -1;
    return first >= 0 && accept_char(s, task_map ? ']' : ')') ? ranks : -1;
}

/* Blocks with commas between them, or [blocks]xN in a vector. */
static int64_t list_ranks(struct scan *s, int task_map, int in_group)
{
    int64_t ranks = 0;

    do {
        if (!task_map && !in_group && accept_char(s, '[')) {
            int64_t group = list_ranks(s, 0, 1);

            ranks = accept_char(s, ']') && accept_char(s, 'x')
                        ? add_ranks(ranks, multiply_ranks(group, read_number(s)))
                        : -1;
        } else {
            ranks = add_ranks(ranks, block_ranks(s, task_map));
        }
    } while (ranks >= 0 && accept_char(s, ','));
    return ranks;
}

uint32_t input_mapping_ranks(const struct input *in)
{
    struct scan s = {in, 0};
    int64_t ranks = -1;

    if (accept_char(&s, '(')) {
        for (const char *c = "vector,"; *c; c++)
            if (!accept_char(&s, *c))
                return 0;
        ranks = list_ranks(&s, 0, 0);
    } else if (memchr(in->text, '[', in->len)) { /* of a task map, or of an object with one in it */
        s.at = (size_t)((const char *)memchr(in->text, '[', in->len) - in->text) + 1;
        ranks = list_ranks(&s, 1, 0);
    }
    return ranks < 0 ? 0 : (uint32_t)ranks;
}
