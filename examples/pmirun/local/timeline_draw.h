/* SPDX-License-Identifier: BSD-3-Clause */
/* From events to rows with spans, which timeline_svg.c and timeline_json.c write down. */
#ifndef PMIRUN_TIMELINE_DRAW_H
#define PMIRUN_TIMELINE_DRAW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "timeline.h"

/* What a rank is in, or a node. */
enum timeline_span {
    SPAN_AGENT,    /* a node, until its agent answers */
    SPAN_STARTING, /* from launch to init */
    SPAN_RUNNING,  /* from init to finalize */
    SPAN_ENDING,   /* from finalize to exit */
    SPAN_FENCE,    /* in it, from here on inside the above */
    SPAN_ALLGATHER,
    SPAN_RING,
    SPAN_GROUP, /* a barrier of some ranks */
    SPANS
};

extern const char *const timeline_names[SPANS];

/* A form, called for each row in turn, by node, job and rank; times in ns since pmirun's start. */
struct timeline_form {
    void (*row)(void *ctx, uint32_t node, uint32_t job, uint32_t rank);
    void (*span)(void *ctx, enum timeline_span what, uint64_t from, uint64_t to);
    void (*mark)(void *ctx, uint64_t at, bool bad, const char *text);
};

/* What is written beside the rows. */
struct timeline_text {
    char about[256]; /* the job, in a sentence */
    const char *(*node_name)(const struct pmirun *pr, uint32_t node);
    const struct pmirun *pr;
};

void timeline_sort(struct timeline *tl); /* by row and time */
/* The sorted ones. What has not ended ends at `end`. */
void timeline_walk(const struct timeline *tl, uint64_t end, const struct timeline_form *form,
                   void *ctx);
/* "rank 3", or "rank 1:3" of a spawned job, or "agent" */
void timeline_row_name(uint32_t job, uint32_t rank, char *text, size_t n);

void timeline_svg(FILE *f, const struct timeline *tl, uint64_t end,
                  const struct timeline_text *text);
void timeline_json(FILE *f, const struct timeline *tl, uint64_t end,
                   const struct timeline_text *text);

#endif
