/* SPDX-License-Identifier: BSD-3-Clause */
/* Time, memory, texts, messages to the user, child processes. */
#ifndef PMIRUN_UTIL_H
#define PMIRUN_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NS_PER_S  1000000000ull
#define NS_PER_MS 1000000ull

/* Exit statuses of our own; see the table in pmirun.1. */
#define STATUS_USAGE      2
#define STATUS_TIMEOUT    124
#define STATUS_NOEXEC     126
#define STATUS_NOTFOUND   127
#define STATUS_SIGNAL     128
#define STATUS_RESOURCES  250 /* descriptors, processes or memory ran out */
#define STATUS_NOFINALIZE 251 /* a rank left after PMI init without finalize, with status 0 */
#define STATUS_OUTPUT     252 /* output could not be written */
#define STATUS_NODE       253 /* a node could not be reached, or was lost */
#define STATUS_STUCK      254 /* a collective cannot complete: a rank that it needs is gone */

uint64_t clock_ns(void);
const char *own_host(void);           /* gethostname()'s */
void random_bytes(void *p, size_t n); /* fit for secrets; n of at most 256 */
uint32_t random_u32(void);
uint32_t hash_text(const char *text); /* FNV-1a: the same on every node */
/* Memory; each exits when there is none. */
void *xrealloc(void *p, size_t bytes);
void *xzalloc(size_t bytes); /* zeros */
/* Makes room for n bytes: doubles *cap as often as that takes. */
void *xgrow(void *p, size_t *cap, size_t n);
char *xprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Adds to an array that ends with NULL, of *n strings. */
void strings_add(char ***list, uint32_t *n, char *string);
/* Frees `all`, which may be NULL, and returns it with more behind it. */
char *xappend(char *all, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Strings, NULL-terminated, or NULL. */
size_t strings_count(char *const *v);
void strings_free(char **v);
/* Does the text begin with one of these, a NULL behind them? */
bool begins_with(const char *text, const char *const *any);
/* Reads digits, a number up to max, and moves *text behind them. False: not such a number. */
bool read_number(const char **text, uint32_t max, uint32_t *v);
bool env_set(char *assignment); /* NAME=VALUE, copied; cut in two meanwhile. False without a name */
void die(int status, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
/* Opens those of 0, 1 and 2 that are closed, or our own descriptors would get these numbers: for
 * reading alone, so that a write there is an error and not lost. False: errno. */
bool open_standard(void);

/* A process's children, a 0 behind them; to be freed. None if the kernel does not list them. */
pid_t *children_of(pid_t pid);
void kill_child(pid_t pid); /* ends and reaps it */
/* Reads n bytes, or to the end, until the time end_ns. How many; -1: an error, or too late. */
ssize_t read_until(int fd, void *p, size_t n, uint64_t end_ns);

/* Where messages go, in turn with the ranks' lines. */
struct messages {
    void (*write)(void *to, const char *text, size_t n);
    void (*flush)(void *to); /* before die(); NULL: nothing waits */
    void *to;
    const char *host; /* an agent's, which its messages name; NULL: no agent */
    bool verbose;
};

extern struct messages messages;

/* A line with our name in front. */
void log_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_verbose(const char *format, ...) __attribute__((format(printf, 1, 2))); /* with -v */
void print_text(const char *text, size_t n);                                     /* as it is */

#endif
