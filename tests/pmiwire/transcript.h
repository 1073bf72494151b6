/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorded conversations of tests/interop/transcripts in memory. The grammar is in that
 * folder's README.
 *
 * Also the replays' shared helpers: storage for messages, and the report of a deviation.
 */
#ifndef FENCEPOST_TESTS_TRANSCRIPT_H
#define FENCEPOST_TESTS_TRANSCRIPT_H

#include <stddef.h>
#include <stdint.h>

#include <pmiwire/codec.h>

/** One recv(): the bytes that a side sent at once. */
struct record {
    char side; /* 'C' or 'S' */
    char *data;
    size_t len;
};

/** The conversation of one process and its server. */
struct transcript {
    char *label;  /* rN or kN */
    char *client; /* from the comments; NULL if missing */
    char *server;
    char *program; /* and its arguments */
    char *jobid;   /* PMI_JOBID */
    int32_t rank;
    int32_t size; /* -1 unknown */
    int spawned;  /* PMI_SPAWNED is set */
    int port;     /* PMI_PORT: the client sends its rank */
    struct record *records;
    size_t n_records;
};

/** A line of the order file. */
struct order_line {
    size_t transcript;
    char side;
};

/** A job: its transcripts, and the order of their records. */
struct recording {
    char *name;
    struct transcript *transcripts;
    size_t n_transcripts;
    struct order_line *order;
    size_t n_order;
};

/** All recordings of a folder, by name; the program ends with a message when one cannot be read. */
struct recording *recordings_load(const char *dir, size_t *n);
void recordings_free(struct recording *all, size_t n);

/** Is this a rank of the spawned job? */
static inline int is_child(const struct transcript *t)
{
    return t->label[0] == 'k';
}

/** The bytes of one side, joined; yours to free. */
char *transcript_join(const struct transcript *t, char side, size_t *len);

/** Memory or the end of the program. */
void *need(void *ptr);

/** A message kept: its fields point into `text`. */
struct kept_msg {
    struct pmiwire_msg msg;
    char *text; /* the whole message as on the wire, len bytes */
    size_t len;
};

/** The messages of one side. */
struct kept_msgs {
    struct kept_msg *at;
    size_t n;
    size_t rest; /* bytes behind the last whole message */
};

/** Splits bytes into messages. Returns 0, or the decoder's error with its *offset. */
int msgs_split(const char *text, size_t len, struct kept_msgs *out, size_t *offset);
void msgs_free(struct kept_msgs *m);

/* The first field of this id, NULL when absent. */
const struct pmiwire_field *find_field(const struct pmiwire_msg *msg, uint16_t field);

/** A field's value without `;;`, as a string to free; NULL when absent. */
char *field_text(const struct pmiwire_msg *msg, uint16_t field);
/** Is this answer a refusal: by rc, or in PMI-1's name service by info alone? */
int is_refusal(const struct pmiwire_msg *msg);

/** A deviation that is known, wanted and explained. */
struct exception {
    const char *where; /* "CASE", "CASE.rN" or "*-hydra-*" as for fnmatch() */
    const char *what;  /* the deviation, as for fnmatch(): the replay documents its keys */
    const char *why;
    int used;
};

/** Is it in the table? Marks it used. */
int excepted(struct exception *table, size_t n, const char *where, const char *what);
/** Reports unused lines of the table: a line must not outlive its reason. */
int exceptions_unused(const struct exception *table, size_t n, const char *part);

/** One deviation: printed, counted. */
void deviation(const char *where, const char *format, ...) __attribute__((format(printf, 2, 3)));
extern unsigned n_deviations;

/** A summary line of a transcript or case. */
void replayed(const char *part, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** The three replays. */
void replay_codec(const struct recording *r);
void replay_codec_end(void);
void replay_server(const struct recording *r);
void replay_server_end(void);
void replay_client(const struct recording *r);
void replay_client_end(void);

#endif
