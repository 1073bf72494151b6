/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks' output, line by line, to our stdout and stderr; an agent's to its head.
 *
 * Needs the jobs: their options, whether this is a head or an agent, and to end them when nobody
 * reads any more.
 */
#ifndef PMIRUN_OUTPUT_H
#define PMIRUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"
#include "timer.h"

/* Where output goes: our stdout or stderr; an agent's: the head's. */
struct sink {
    struct source src;
    uint32_t room; /* agent: bytes that the head still wants */
    int how;       /* see output.c */
    char *buf;     /* bytes that wait: from head to len */
    size_t head, len, cap;
    const char *name; /* for messages */
    unsigned kinds;   /* its sources: bit 0 ranks' stdout, bit 1 their stderr */
    bool dead;        /* its reader is gone: bytes are dropped */
    bool full;        /* too much waits: streams that feed it are paused */
    struct stream *paused;
};

struct jobs;
struct rank;

/* A rank's stdout or stderr. */
struct stream {
    struct source src;
    bool remote; /* open, and its bytes come from an agent */
    struct rank *rank;
    struct sink *sink;
    char *part; /* a line without its end, yet */
    size_t part_len, part_cap;
    uint64_t part_ns; /* when it last grew */
    bool mid_line;    /* the last byte passed on ended no line */
    struct stream *next_paused;
};

struct output {
    struct jobs *jobs;
    struct sink out, err;
    struct sink **files; /* --outfile-pattern, --errfile-pattern */
    size_t n_files;
    uint32_t n_full[2]; /* sinks that are full, of each kind */
    struct timer part;  /* when to look at unfinished lines */
    uint64_t n_streams; /* open ones */
};

void output_init(struct output *o);
void output_drop_stderr(struct output *o); /* agent: closes what was opened for it */
/* A rank starts: connects its stdout and stderr to the sinks that the options name. False: a file
 * cannot be opened, which is reported. Head and alone. */
bool output_begin(struct output *o, struct rank *r);
int output_attach(struct output *o, struct stream *st, int fd); /* takes fd */
void output_flush(struct output *o);
bool output_pending(const struct output *o);
/* Writes to stderr at once, ahead of the queue. False: stderr takes no bytes now. */
bool output_raw(struct output *o, const char *text, size_t len);
void output_text(void *output, const char *text, size_t len); /* to stderr; messages.write */
void output_flush_stderr(void *output); /* waits for its reader, as die() does; messages.flush */
void output_close(struct output *o, struct stream *st);
/* Reads what is in its pipe now, no more, since its writer may have no end, and closes it. It stays
 * open while its sink is full. */
void output_end(struct output *o, struct stream *st);
bool output_is_open(const struct stream *st);
/* Several nodes. */
void output_remote(struct output *o, struct stream *st, const char *p,
                   size_t n); /* head: n bytes have arrived; 0: end of file */
void output_room_given(struct output *o, struct sink *sk, uint32_t n); /* agent */

#endif
