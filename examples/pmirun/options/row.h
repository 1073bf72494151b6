/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of the command line are rows of one table (rows.c). From it come the parser
 * (parse.c), and --help, the manual's lists and the completion of bash (help.c). Options of other
 * launchers that pmirun refuses are in advice.c.
 *
 * To add an option: a row in rows.c, in its section; where no handler of set.c fits, a handler in a
 * file of its own, declared below with the others; a field in ../options.h that the handler
 * sets; a case in tests/pmirun/options/, good and bad values. If agents need it, also
 * setup_fields() in ../multinode/job_message.c, and BOOT_VERSION. Then
 * `tests/pmirun/options-man.sh PMIRUN --write` brings the manual up to date.
 */
#ifndef PMIRUN_ROW_H
#define PMIRUN_ROW_H

#include <stddef.h>
#include <stdint.h>

#include "../options.h"

enum option_scope {
    SCOPE_SECTION, /* not an option: `text` is the heading of the next rows */
    SCOPE_GROUP,   /* for a group of processes, before its program */
    SCOPE_JOB,     /* for the whole job, before the first program */
    SCOPE_NOTHING  /* of another launcher: accepted, pmirun does this anyway */
};

struct parse;
struct option_row;

/*
 * Sets an option. value[0] is its argument, value[1] the second of an option that takes two;
 * value[0] is NULL where an optional one was not given. They live as long as the process. A bad one
 * ends in usage_error().
 */
typedef void option_fn(struct parse *p, const struct option_row *row, char **value);

struct option_row {
    /* All of its names, separated by blanks, the preferred first: "-n -np". A name of two or more
     * letters is accepted with one dash and with two. */
    const char *names;
    /* NULL: none. "N": one, as `-n 2`, `-n=2`, and `-n2` where the name is a letter. "VAR VALUE":
     * two words. "[=FORM]": one, and only after `=`. FILE, DIR and PROG complete as such. */
    const char *arg;
    enum option_scope scope;
    option_fn *set; /* NULL: SCOPE_NOTHING */
    /* Sentences for the manual; the first is the line of --help, too. Options' names and words
     * between two ` are printed bold. */
    const char *text;
    const char *others[3]; /* its name in hydra, srun and mpirun; NULL: none */
    const char *env;       /* a variable that sets it; NULL: none */
    const char *words;     /* its values, separated by blanks; NULL: any */
    /* set_*() of set.c: where in struct options, or, of a group, in struct app */
    size_t at;
    int64_t min, max; /* set_count(), set_seconds() */
};

extern const struct option_row option_rows[];
extern const size_t n_option_rows;

#define OPTION_BYTES 64u /* of a name, with its NUL */

/* Where the parser is. */
struct parse {
    struct options *opt;
    struct app *app;         /* the group that is being read */
    char word[OPTION_BYTES]; /* the option as it was typed, without its argument */
    int argc, at;            /* at: the next word */
    char **argv;
    char stdin_word[OPTION_BYTES]; /* -s as it was typed */
    const char *in_file; /* of --configfile, which the words come from; NULL: the command line */
};

/* Exits: a sentence that names option and value. */
void usage_error(const struct parse *p, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
/* The row of a name as typed, "-n" or "--np", of `n` bytes; NULL: none. */
const struct option_row *option_find(const char *name, size_t n);
/* Steps through the names of a row: each call returns the next, of *n bytes; NULL: no more. */
const char *option_next_name(const char **names, size_t *n);

/* ---- handlers: set.c has those that many rows share ---- */

option_fn set_flag;    /* bool */
option_fn set_count;   /* uint32_t, from row->min to row->max */
option_fn set_seconds; /* double, up to row->max; 0: 1e9 */
option_fn set_text;    /* char *, not empty */
option_fn set_word;    /* uint32_t or an enum: the place of the value among row->words */
option_fn set_second;  /* bool: is it the second of row->words? */
/* For handlers elsewhere. */
uint32_t parse_word(const struct parse *p, const char *text, const char *words);

/* set.c, one row each */
option_fn set_launch, set_links, set_map_by, set_bind_to;
option_fn set_shm_max, set_universe_size, set_stdin, set_pattern, set_mpi;
option_fn set_stats, set_timeline;
/* hosts.c: a list, a file. They add to opt->given. */
option_fn set_hosts, set_hostfile;
/* The file that HYDRA_HOST_FILE names, if it is set, and this is not one of several tasks. */
void hosts_of_hydra(struct parse *p);
/* env.c */
option_fn set_x, set_env, set_envlist;
option_fn set_envmode; /* row->min: ENV_* */
option_fn set_mca;     /* a parameter of Open MPI's */
/* Completes a group that has been read with the options for all groups. */
void env_settle(const struct options *opt, struct app *app);
/* config.c */
option_fn set_configfile;
/* The text of a file of at most `max` bytes, without NUL bytes, NUL-terminated; to be freed. */
char *read_file(const struct parse *p, const char *path, size_t max);
/* help.c; they exit */
option_fn show_help, show_version, show_info;

/* ---- options of hydra, srun and mpirun that pmirun refuses ---- */

struct advice {
    const char *names; /* as those of a row */
    const char *use;   /* follows the name in the message: what to do instead */
};

extern const struct advice advices[];
extern const size_t n_advices;

#endif
