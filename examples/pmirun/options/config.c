/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that options name, and --configfile: a file that replaces the rest of the command line.
 * Each of its lines is a group: options, program, arguments. Words are split at blanks; '...' and
 * "..." keep blanks, \ keeps the next character, at the end of a line it continues the line; what
 * follows a # that begins a word is a comment.
 */
#define _GNU_SOURCE
#include "row.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../local/util.h"

#define MAX_FILE_BYTES (1u << 20)

char *read_file(const struct parse *p, const char *path, size_t max)
{
    char *text = xrealloc(NULL, max + 2);
    FILE *f = fopen(path, "re");
    const size_t n = f ? fread(text, 1, max + 1, f) : 0;

    if (!f || ferror(f))
        usage_error(p, "%s %s: %s", p->word, path, strerror(errno));
    fclose(f);
    if (n > max)
        usage_error(p, "%s %s: more than %zu bytes", p->word, path, max);
    if (memchr(text, '\0', n))
        usage_error(p, "%s %s: has a NUL byte: it is not text", p->word, path);
    text[n] = '\0';
    return text;
}

static char colon[] = ":"; /* between the lines' words */

/* Words that are being read from a file. */
struct words {
    const struct parse *p;
    const char *path;
    uint32_t line;
    char **v;
    uint32_t n;
};

static bool is_config_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Reads a word, unquoted in place, since it never grows. Returns the character that ends it, a
 * blank, a newline or a NUL; *at is behind it. */
static char take_config_word(struct words *w, char **at)
{
    char *t = *at, *to = t, quote = 0, end;

    strings_add(&w->v, &w->n, to);
    for (; *t && (quote || (!is_config_blank(*t) && *t != '\n')); t++) {
        if (*t == quote) {
            quote = 0;
            continue;
        }
        if (!quote && (*t == '\'' || *t == '"')) {
            quote = *t;
            continue;
        }
        if (*t == '\\' && quote != '\'' && t[1]) {
            t++;
            if (*t == '\n') {
                w->line++;
                continue;
            }
        }
        w->line += *t == '\n';
        *to++ = *t;
    }
    if (quote)
        usage_error(w->p, "%s %s, line %u: no closing %c", w->p->word, w->path, w->line, quote);
    end = *t;
    *at = t + (end != '\0');
    *to = '\0';
    return end;
}

/* The words of a line, after a colon unless they are the first. */
static char *take_line(struct words *w, char *t)
{
    const uint32_t n_before = w->n;
    char end = ' ';

    for (;;) {
        while (is_config_blank(*t) || (*t == '\\' && t[1] == '\n')) {
            w->line += *t == '\\';
            t += *t == '\\' ? 2 : 1;
        }
        if (*t == '#')
            t += strcspn(t, "\n");
        if (!*t || *t == '\n')
            break;
        if (n_before && w->n == n_before)
            strings_add(&w->v, &w->n, colon);
        end = take_config_word(w, &t);
        if (!is_config_blank(end))
            break;
    }
    if (is_config_blank(end) && *t == '\n')
        t++;
    return t;
}

void set_configfile(struct parse *p, const struct option_row *row, char **value)
{
    struct words w = {.p = p, .path = value[0], .line = 1};
    char *text;

    if (p->in_file)
        usage_error(p, "%s %s: not allowed in such a file, which cannot read another one", p->word,
                    value[0]);
    if (p->at < p->argc)
        usage_error(p, "%s %s: must be the last option, \"%s\" follows it", p->word, value[0],
                    p->argv[p->at]);
    text = read_file(p, value[0], MAX_FILE_BYTES);
    for (char *t = text; *t; w.line++)
        t = take_line(&w, t);
    if (w.n == 0)
        usage_error(p, "%s %s: the file starts no program", p->word, value[0]);
    p->in_file = value[0];
    p->argv = w.v;
    p->argc = (int)w.n;
    p->at = 0;
}
