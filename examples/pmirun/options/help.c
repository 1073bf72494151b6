/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the options: --help, the lists of the manual, completion. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire.h>

#include "../local/util.h"
#include "row.h"

#define HELP_COLUMN 23

static const char synopsis[] =
    "usage: pmirun [option ...] [-n N] program [argument ...]\n"
    "              [: [option ...] [-n M] program [argument ...] ...]\n"
    "\n"
    "Starts a parallel job on one or several nodes and serves PMI to its processes.\n";

static const char statuses[] =
    "\n"
    "Exit status: that of the first rank that failed, or 128+N if signal N killed it;\n"
    "the code of MPI_Abort; 124 after --timeout; 126 if a program cannot be started,\n"
    "127 if it is not found. See pmirun(1).\n";

static void end_of_output(void)
{
    if (fflush(stdout) != 0)
        die(STATUS_OUTPUT, "cannot write to stdout: %s", strerror(errno));
    exit(0);
}

/* ---- --help ---- */

/* "  -n N, -np N": all names with their argument. Returns the number of characters. */
static int print_names(const struct option_row *row)
{
    const char *names = row->names, *name;
    int width = printf(" ");
    size_t n;

    while ((name = option_next_name(&names, &n)))
        width += printf(" %.*s%s", (int)n, name, *names ? "," : "");
    if (row->arg)
        width += printf("%s%s", row->arg[0] == '[' ? "" : " ", row->arg);
    return width;
}

/* The first sentence in lines of at most 80 characters, behind HELP_COLUMN blanks. */
static void print_sentence(const char *text, int width)
{
    bool more = true;
    const char *word;
    size_t n;

    if (width >= HELP_COLUMN) {
        putchar('\n');
        width = 0;
    }
    width += printf("%*s", HELP_COLUMN - width - 1, "");
    while (more && (word = option_next_name(&text, &n))) {
        more = *text && (word[n - 1] != '.' || word[n - 2] == '.'); /* "..." ends none */
        if (width + 1 + (int)n > 80)
            width = printf("\n%*s", HELP_COLUMN - 1, "") - 1;
        width += printf(" ");
        for (size_t i = 0; i < n - !more; i++)
            width += word[i] == '`' ? 0 : printf("%c", word[i]);
    }
    putchar('\n');
}

static void print_help(void)
{
    fputs(synopsis, stdout);
    for (size_t i = 0; i < n_option_rows; i++) {
        const struct option_row *row = &option_rows[i];

        if (row->scope == SCOPE_SECTION && row[1].scope != SCOPE_NOTHING)
            printf("\n%s\n", row->text);
        else if (row->scope == SCOPE_GROUP || row->scope == SCOPE_JOB)
            print_sentence(row->text, print_names(row));
    }
    fputs(statuses, stdout);
}

/* ---- the manual ---- */

/* n bytes as roff wants them: a minus is no hyphen. */
static void put_roff(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '-' || text[i] == '\\')
            putchar('\\');
        putchar(text[i]);
    }
}

static void put_bold(const char *text, size_t n)
{
    printf("\\fB");
    put_roff(text, n);
    printf("\\fR");
}

/* How many bytes at the beginning of a word are an option's name. */
static size_t option_in(const char *word, size_t n)
{
    while (n > 1 && word[0] == '-' && strchr(",.;:)", word[n - 1]))
        n--;
    if (n < 2 || word[0] != '-')
        return 0;
    return option_find(word, n) ? n : 0;
}

/* A word of a sentence: an option's name, and text between two `, is bold. */
static void put_word(const char *word, size_t n)
{
    const char *tick;
    size_t name;

    if (n > 0 && word[0] == '(') {
        putchar('(');
        word++;
        n--;
    }
    name = option_in(word, n);
    if (name)
        put_bold(word, name);
    word += name;
    n -= name;
    while (n > 0 && (tick = memchr(word, '`', n))) {
        const size_t before = (size_t)(tick - word);
        const char *end = memchr(tick + 1, '`', n - before - 1);
        const size_t bold = end ? (size_t)(end - tick) - 1 : n - before - 1;

        put_roff(word, before);
        put_bold(tick + 1, bold);
        word = tick + 1 + bold + (end != NULL);
        n -= before + 1 + bold + (end != NULL);
    }
    put_roff(word, n);
}

/* Sentences, each on lines of its own. */
static void put_text(const char *text)
{
    size_t n, width = 0;
    const char *word;

    while ((word = option_next_name(&text, &n))) {
        const bool ends = word[n - 1] == '.' || !*text || width + n > 100;

        put_word(word, n);
        putchar(ends ? '\n' : ' ');
        width = ends ? 0 : width + n + 1;
    }
}

/* The heading of an option: its names, and its argument. */
static void put_heading(const char *names, const char *arg)
{
    const char *name;
    size_t n;

    printf(".TP\n");
    while ((name = option_next_name(&names, &n))) {
        put_bold(name, n);
        fputs(*names ? ", " : "", stdout);
    }
    if (arg) {
        fputs(arg[0] == '[' ? "\\fI" : " \\fI", stdout);
        put_roff(arg, strlen(arg));
        printf("\\fR");
    }
    putchar('\n');
}

static void print_manual(void)
{
    for (size_t i = 0; i < n_option_rows; i++) {
        const struct option_row *row = &option_rows[i];

        if (row->scope == SCOPE_SECTION) {
            printf(".P\n%s\n", row->text);
            continue;
        }
        put_heading(row->names, row->arg);
        put_text(row->text);
    }
    printf(".P\nOptions of other launchers, refused with advice:\n");
    for (size_t i = 0; i < n_advices; i++) {
        put_heading(advices[i].names, NULL);
        printf("Refused: ");
        put_text(advices[i].use);
    }
}

/* The name in another launcher, bold if pmirun accepts it too. */
static void put_cell(const struct option_row *row, const char *text)
{
    putchar('\t');
    if (text && option_find(text, strlen(text)) == row)
        put_bold(text, strlen(text));
    else if (text)
        put_roff(text, strlen(text));
}

/* Our options beside the names of three other launchers. */
static void print_option_table(void)
{
    printf(".TS\nl1 l1 l1 l.\n\\fBpmirun\\fR\t\\fBhydra\\fR\t\\fBsrun\\fR\t\\fBmpirun\\fR\n_\n");
    for (size_t i = 0; i < n_option_rows; i++) {
        const struct option_row *row = &option_rows[i];
        const char *names = row->names;
        size_t n;

        if (!row->others[0] && !row->others[1] && !row->others[2])
            continue;
        put_bold(row->names, option_next_name(&names, &n) ? n : 0);
        for (int k = 0; k < 3; k++)
            put_cell(row, row->others[k]);
        putchar('\n');
    }
    printf(".TE\n");
}

/* ---- completion ---- */

/* A line for each option, with tabs between: names, scope, argument, values. */
static void print_rows(void)
{
    static const char *const scopes[] = {"", "group", "job", "nothing"};

    for (size_t i = 0; i < n_option_rows; i++) {
        const struct option_row *row = &option_rows[i];

        if (row->scope != SCOPE_SECTION)
            printf("%s\t%s\t%s\t%s\n", row->names, scopes[row->scope], row->arg ? row->arg : "-",
                   row->words ? row->words : "-");
    }
    for (size_t i = 0; i < n_advices; i++)
        printf("%s\telsewhere\t-\t-\n", advices[i].names);
}

/* ---- handlers ---- */

void show_help(struct parse *p, const struct option_row *row, char **value)
{
    static void (*const print[])(void) = {print_manual, print_option_table, print_rows};

    if (value[0])
        print[parse_word(p, value[0], row->words)]();
    else
        print_help();
    end_of_output();
}

static void print_version(void)
{
    printf("pmirun %s (libpmiwire %s)\n", PMIWIRE_VERSION, pmiwire_version());
}

void show_version(struct parse *p, const struct option_row *row, char **value)
{
    print_version();
    end_of_output();
}

void show_info(struct parse *p, const struct option_row *row, char **value)
{
    print_version();
    printf("nodes:     %s\n", HAS_NODES ? "several (libsodium)" : "one");
    printf("launchers: fork%s\n", HAS_NODES ? " ssh srun" : "");
    printf("links:     %s\n", HAS_NODES ? "tcp" : "none");
    printf("mpi:       pmi openmpi%s\n", HAS_PMIX ? " pmix" : "");
    printf("topology:  %s\n", HAS_HWLOC ? "hwloc" : "none");
    end_of_output();
}
