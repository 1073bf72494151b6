/* SPDX-License-Identifier: BSD-3-Clause */
/* The probe server: a PMI server with one way to misbehave at a time. */
#ifndef PROBE_CLIENT_H
#define PROBE_CLIENT_H

#include "probe.h"

/* The messages that get extra fields: bits of variation::place. */
enum {
    AT_INIT = 1,      /* response_to_init */
    AT_MAXES = 2,     /* maxes */
    AT_FULLINIT = 4,  /* fullinit-response */
    AT_FENCE = 8,     /* barrier_out, kvs-fence-response */
    AT_GET = 16,      /* get_result, kvs-get-response, before value */
    AT_GET_TAIL = 32, /* the same, after value */
    AT_ALL = 31
};

enum kind { X_PAIR, X_NO_EQUALS, X_EMPTY, X_LONG, X_THRID };

#define WIRE_1 1u
#define WIRE_2 2u

struct variation {
    char name[48];
    const char *what;
    unsigned
        wires; /* a client of the other wire does not notice: not run for it when that is known */
    unsigned place; /* AT_* */
    unsigned n;     /* extra fields there */
    enum kind kind;
    unsigned long_bytes; /* of an X_LONG value */
    bool must;           /* every client must survive it: plain, or within the safe grammar */
    bool split;          /* replies byte by byte */
    bool no_rc, rc_last;
    bool pad_right, no_final;
    bool verbose_number; /* pmiverbose=0 and not FALSE */
    int delay_ms;
    int subversion;      /* answered to 1.1; 0: as asked */
    const char *mapping; /* "" empty, "-" none, "compact", "long:N", NULL: the right one */
    int kvsname_max, keylen_max, vallen_max; /* 0: 256/64/1024 */
};

/* The i-th variation in *v; false past the end. */
bool variation_at(int i, struct variation *v);

struct rank {
    struct conn c;
    bool in_fence, finalized, gone, named;
};

#define MAX_RANKS 16
#define MAX_PAIRS 4096

struct job {
    const struct variation *v;
    int n;
    struct rank rank[MAX_RANKS];
    struct {
        char *key, *value;
    } pair[MAX_PAIRS]; /* names and attributes too, with a prefix */
    int n_pairs;
    unsigned wires; /* seen */
    char last[64];  /* command that came last */
    int n_commands;
    const char *trouble;          /* a client that does not read, a message not in the protocol */
    struct pmiwire_error refused; /* what a request lacks or has twice; code 0: none */
    bool aborted;
};

/* Answer the message in rank r's connection. */
void serve_message(struct job *j, int r);
void job_reset(struct job *j);

#endif /* PROBE_CLIENT_H */
