/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of rankmap-explain share: a subject is one map that is explained. */
#ifndef RANKMAP_EXPLAIN_EXPLAIN_H
#define RANKMAP_EXPLAIN_EXPLAIN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rankmap.h>

#include "peers.h"

#define EXPLAIN_MAX_RANKS (UINT32_C(1) << 24)

struct subject {
    const char *name;
    unsigned count;      /* communicators like this one in a process */
    const uint64_t *ids; /* what it was made of */
    struct rankmap *map;
    struct peer_group group;
    int is_group; /* 0: ranks to nodes, for which other libraries have no map */
};

/* ---- input.c ---- */

/* Text and where it is from: a file's name, or what the user knows it by. */
struct input {
    const char *name, *text;
    size_t len;
};

/*
 * The map of a list of ranges for rankmap_from_text(), with '#' to the end of a line as comment: 0,
 * or a negative code with what is wrong, and where, on stderr.
 */
int input_list(const struct input *in, struct rankmap **map);
/* How many ranks a PMI_process_mapping or task map places when each of its blocks is used once; 0
 * when that cannot be read from it. */
uint32_t input_mapping_ranks(const struct input *in);
/* The whole file, "-" being stdin; malloc()ed with a NUL behind, or NULL with a message on stderr.
 */
char *input_read(const char *path, size_t *len);
/* "name:line:column: message", the place being `at` bytes from the beginning. */
__attribute__((format(printf, 3, 4))) void input_error(const struct input *in, size_t at,
                                                       const char *format, ...);

/* ---- picture.c ---- */

/* The mapping as a grid of characters: ranks to the right, ids upwards. */
void print_picture(FILE *out, const uint64_t *ids, uint32_t n, unsigned columns, unsigned rows);

/* ---- report.c ---- */

void report_text(FILE *out, const struct subject *s, unsigned columns, unsigned rows);
void report_json(FILE *out, const struct subject *s);
void report_json_string(FILE *out, const char *text);
/* The sum of many: librankmap beside the others, each subject as often as a process has it. */
void report_total(FILE *out, const struct subject *subjects, unsigned n);

#endif
