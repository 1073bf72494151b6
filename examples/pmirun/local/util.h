/* SPDX-License-Identifier: BSD-3-Clause */
/* Time, memory, messages to the user. */
#ifndef PMIRUN_UTIL_H
#define PMIRUN_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
void random_bytes(void *p, size_t n); /* fit for secrets; n of at most 256 */
uint32_t random_u32(void);
uint32_t hash_text(const char *text);  /* FNV-1a: the same on every node */
void *xrealloc(void *p, size_t bytes); /* exits on failure: for the command line and the like */
char *xprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Adds to an array that ends with NULL, of *n strings. */
void strings_add(char ***list, uint32_t *n, char *string);
/* Frees `all`, which may be NULL, and returns it with more behind it. */
char *xappend(char *all, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reads digits, a number up to max, and moves *text behind them. False: not such a number. */
bool read_number(const char **text, uint32_t max, uint32_t *v);
bool env_set(char *assignment); /* NAME=VALUE, copied; cut in two meanwhile. False without a name */
const char *any_strerror(int rc); /* of a libpmiwire function: an -errno or the library's own */
void die(int status, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
/* Opens those of 0, 1 and 2 that are closed, or our own descriptors would get these numbers: for
 * reading alone, so that a write there is an error and not lost. False: errno. */
bool open_standard(void);

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
