/* SPDX-License-Identifier: BSD-3-Clause */
/* A timeline as Chrome's trace events: a process a node, a thread a rank; times in µs. */
#include "timeline_draw.h"

struct json {
    FILE *f;
    const struct timeline_text *text;
    uint32_t node, n_rows; /* n_rows: the thread's number, from 1 */
};

static void put_string(FILE *f, const char *s)
{
    putc('"', f);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            putc('\\', f);
        if ((unsigned char)*s >= 32 && (unsigned char)*s < 127)
            putc(*s, f);
        else
            putc('?', f);
    }
    putc('"', f);
}

static void put_name(const struct json *j, const char *what, const char *name)
{
    fprintf(j->f,
            ",\n{\"ph\":\"M\",\"name\":\"%s_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":", what,
            j->node, j->n_rows);
    put_string(j->f, name);
    fputs("}}", j->f);
}

static void row(void *ctx, uint32_t node, uint32_t job, uint32_t rank)
{
    struct json *j = ctx;
    const bool new_node = j->n_rows++ == 0 || node != j->node;
    char name[128];

    j->node = node;
    if (new_node) {
        snprintf(name, sizeof(name), "node %u (%.100s)", node,
                 j->text->node_name(j->text->pr, node));
        put_name(j, "process", name);
    }
    timeline_row_name(job, rank, name, sizeof(name));
    put_name(j, "thread", name);
}

static void span(void *ctx, enum timeline_span what, uint64_t from, uint64_t to)
{
    const struct json *j = ctx;

    fprintf(
        j->f, ",\n{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f}",
        timeline_names[what], j->node, j->n_rows, (double)from / 1e3, (double)(to - from) / 1e3);
}

static void mark(void *ctx, uint64_t at, bool bad, const char *text)
{
    const struct json *j = ctx;

    fprintf(j->f, ",\n{\"ph\":\"i\",\"s\":\"t\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f}",
            text, j->node, j->n_rows, (double)at / 1e3);
}

void timeline_json(FILE *f, const struct timeline *tl, uint64_t end,
                   const struct timeline_text *text)
{
    static const struct timeline_form form = {row, span, mark};
    struct json j = {.f = f, .text = text};

    fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"about\":", j.f);
    put_string(j.f, text->about);
    fprintf(j.f,
            "},\"traceEvents\":[\n{\"ph\":\"i\",\"s\":\"g\",\"name\":\"end\",\"pid\":0,\"tid\":0,"
            "\"ts\":%.3f}",
            (double)end / 1e3);
    timeline_walk(tl, end, &form, &j);
    fputs("\n]}\n", j.f);
}
