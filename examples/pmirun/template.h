/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command that brings an agent to a host, as the user writes it: `kubectl exec -i %h -- %c`.
 *
 * pmirun splits it into words itself, without a shell: blanks separate words; '...' is literal; in
 * "..." a backslash keeps a quote or a backslash; elsewhere a backslash keeps any character.
 * In a word %h is the host, %c the agent's command and %% a percent sign. A word that is %c alone
 * becomes the command's words, program and argument; in quotes, or within a longer word, %c is the
 * same as a text for a shell.
 */
#ifndef PMIRUN_TEMPLATE_H
#define PMIRUN_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#define TEMPLATE_BYTES 4096u

struct template
{
    char **words; /* without their quotes, with their percent signs; NULL: the command's words */
    uint32_t n_words;
    bool has_host; /* %h is in it; %c always is */
};

/* NULL, or an error text to be freed. */
char *template_parse(struct template *t, const char *text);
void template_free(struct template *t);
const char *template_name(const struct template *t); /* for messages: its program */
/* The words for a host and a program (pmirun), NULL-terminated; to be freed with its strings. */
char **template_argv(const struct template *t, const char *host, const char *program);
/* The same as one line, with `true` instead of the agent: for a user to try by hand. */
char *template_trial(const struct template *t, const char *host);

#endif
