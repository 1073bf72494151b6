/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "template.h"

#include <stdlib.h>
#include <string.h>

#include "local/util.h"

static bool is_word_end(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* One word without its quotes, into `out`; *p is behind it afterwards. False: a quote is open. */
static bool next_template_word(const char **p, char *out)
{
    const char *c = *p;
    char quote = 0;

    for (; *c && (quote || !is_word_end(*c)); c++) {
        if (quote && *c == quote)
            quote = 0;
        else if (!quote && (*c == '\'' || *c == '"'))
            quote = *c;
        else if (*c == '\\' &&
                 ((!quote && c[1]) || (quote == '"' && (c[1] == '"' || c[1] == '\\'))))
            *out++ = *++c;
        else
            *out++ = *c;
    }
    *out = '\0';
    *p = c;
    return !quote;
}

/* Checks the percent signs of a word: 0, or the character after one that is unknown. */
static int check_word(const char *word, struct template *t, bool *has_command)
{
    for (const char *c = strchr(word, '%'); c; c = strchr(c + 2, '%')) {
        if (c[1] == 'h')
            t->has_host = true;
        else if (c[1] == 'c')
            *has_command = true;
        else if (c[1] != '%')
            return c[1] ? c[1] : ' ';
    }
    return 0;
}

char *template_parse(struct template *t, const char *text)
{
    bool has_command = false;
    int wrong = 0;

    *t = (struct template){0};
    if (strlen(text) > TEMPLATE_BYTES)
        return xprintf("it is longer than %u bytes", TEMPLATE_BYTES);
    for (const char *p = text + strspn(text, " \t\n"); *p && !wrong; p += strspn(p, " \t\n")) {
        char *word = xrealloc(NULL, strlen(p) + 1);
        const char *begin = p;

        t->words = xrealloc(t->words, (t->n_words + 1) * sizeof(*t->words));
        t->words[t->n_words++] = word;
        if (!next_template_word(&p, word)) {
            template_free(t);
            return xprintf("a quote in it is not closed");
        }
        wrong = check_word(word, t, &has_command);
        if (p - begin == 2 && strncmp(begin, "%c", 2) == 0) {
            free(word);
            t->words[t->n_words - 1] = NULL;
        }
    }
    if (!wrong && has_command)
        return NULL;
    template_free(t);
    return wrong ? xprintf("%%%c is unknown: %%h is the host, %%c the agent's command, "
                           "%%%% a percent sign",
                           wrong)
                 : xprintf("it lacks %%c, which stands for the agent's command");
}

void template_free(struct template *t)
{
    for (uint32_t i = 0; i < t->n_words; i++)
        free(t->words[i]);
    free(t->words);
    *t = (struct template){0};
}

const char *template_name(const struct template *t)
{
    return t->words[0] ? t->words[0] : "%c";
}

/* A word with %h and %c replaced by host and command. */
static char *expand_word(const char *word, const char *host, const char *command)
{
    char *all = xprintf("%s", "");

    for (const char *c; *word; word = c) {
        c = strchrnul(word, '%');
        all = xappend(all, "%.*s", (int)(c - word), word);
        if (!*c)
            break;
        all = xappend(all, "%s", c[1] == 'h' ? host : c[1] == 'c' ? command : "%");
        c += 2;
    }
    return all;
}

/* Quotes a word for a shell: in single quotes, its own as '\''. */
static char *shell_quoted(const char *text)
{
    char *all = xprintf("'");

    for (const char *c; *text; text = c) {
        c = strchrnul(text, '\'');
        all = xappend(all, "%.*s%s", (int)(c - text), text, *c ? "'\\''" : "");
        c += *c != '\0';
    }
    return xappend(all, "'");
}

char **template_argv(const struct template *t, const char *host, const char *program)
{
    char *path = shell_quoted(program), *command = xprintf("%s --agent", path), **v = NULL;
    size_t n = 0;

    for (uint32_t i = 0; i < t->n_words; i++) {
        v = xrealloc(v, (n + 3) * sizeof(*v));
        if (!t->words[i]) {
            v[n++] = xprintf("%s", program);
            v[n++] = xprintf("--agent");
        } else {
            v[n++] = expand_word(t->words[i], host, command);
        }
    }
    v[n] = NULL;
    free(command);
    free(path);
    return v;
}

char *template_trial(const struct template *t, const char *host)
{
    char *all = NULL;

    for (uint32_t i = 0; i < t->n_words; i++) {
        char *word = expand_word(t->words[i] ? t->words[i] : "%c", host, "true");

        all = xappend(all, "%s%s", i ? " " : "", word);
        free(word);
    }
    return all;
}
