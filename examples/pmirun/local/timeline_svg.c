/* SPDX-License-Identifier: BSD-3-Clause */
/* A timeline as a picture: time from left to right, a row for each rank, by node. */
#include "timeline_draw.h"

#define LEFT     88.0 /* of it are names */
#define WIDTH    1000.0
#define RIGHT    12.0
#define TOP      64.0
#define NODE_H   18.0 /* a node's name, above its ranks */
#define MAX_ROWS 2048u
#define NARROW   0.2 /* px: a narrower span that follows one of its kind at once is left out */
#define THIN     0.7 /* px: nothing is drawn narrower */

static const char *const colours[SPANS] = {
    [SPAN_AGENT] = "#cfe3d4",  [SPAN_STARTING] = "#c9c9c9", [SPAN_RUNNING] = "#8fbbe8",
    [SPAN_ENDING] = "#e4e4e4", [SPAN_FENCE] = "#e88b2d",    [SPAN_ALLGATHER] = "#9a5fb5",
    [SPAN_RING] = "#3f9c6b",   [SPAN_GROUP] = "#d9c02e",
};

struct svg {
    FILE *f;
    const struct timeline_text *text;
    double row_h, y; /* the current row */
    double px_per_ns, right_of[SPANS];
    uint32_t node, n_rows, n_nodes, n_labels;
};

static void put_text(FILE *f, const char *s)
{
    for (; *s; s++) {
        if (*s == '<' || *s == '>' || *s == '&' || (unsigned char)*s < 32 ||
            (unsigned char)*s > 126)
            putc('?', f);
        else
            putc(*s, f);
    }
}

static double x_of(const struct svg *s, uint64_t ns)
{
    return LEFT + (double)ns * s->px_per_ns;
}

/* ---- how much there is to draw ---- */

static void count_row(void *ctx, uint32_t node, uint32_t job, uint32_t rank)
{
    struct svg *s = ctx;

    if (s->n_rows++ == 0 || node != s->node)
        s->n_nodes += s->n_rows <= MAX_ROWS;
    s->node = node;
}

static void count_span(void *ctx, enum timeline_span what, uint64_t from, uint64_t to)
{
}

static void count_mark(void *ctx, uint64_t at, bool bad, const char *text)
{
}

/* ---- rows ---- */

static void row(void *ctx, uint32_t node, uint32_t job, uint32_t rank)
{
    struct svg *s = ctx;
    const bool new_node = s->n_rows == 0 || node != s->node;
    const uint32_t every = (uint32_t)(10.0 / s->row_h) + 1;
    char name[32];

    if (s->n_rows++ >= MAX_ROWS)
        return;
    for (int i = 0; i < SPANS; i++)
        s->right_of[i] = 0;
    s->y += s->row_h;
    if (new_node) {
        s->y += NODE_H;
        fprintf(s->f, "<text x=\"4\" y=\"%.1f\" class=\"n\">node %u (", s->y - 5, node);
        put_text(s->f, s->text->node_name(s->text->pr, node));
        fputs(")</text>\n", s->f);
        s->n_labels = 0;
    }
    s->node = node;
    if (s->n_labels++ % every)
        return;
    timeline_row_name(job, rank, name, sizeof(name));
    fprintf(s->f, "<text x=\"%.1f\" y=\"%.1f\" class=\"r\">%s</text>\n", LEFT - 6,
            s->y + s->row_h / 2 + 3, name);
}

static void span(void *ctx, enum timeline_span what, uint64_t from, uint64_t to)
{
    struct svg *s = ctx;
    const double x = x_of(s, from), w = x_of(s, to) - x, inset = what < SPAN_FENCE ? 0 : 0.15;

    if (s->n_rows > MAX_ROWS || (w < NARROW && x < s->right_of[what]))
        return;
    s->right_of[what] = x + (w < NARROW ? NARROW : w);
    fprintf(s->f,
            "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" class=\"s%d\"><title>%s "
            "%.3f ms at %.3f</title></rect>\n",
            x, s->y + inset * s->row_h, w < THIN ? THIN : w, s->row_h * (0.9 - 2 * inset), what,
            timeline_names[what], (double)(to - from) / 1e6, (double)from / 1e6);
}

static void mark(void *ctx, uint64_t at, bool bad, const char *text)
{
    struct svg *s = ctx;

    if (s->n_rows > MAX_ROWS)
        return;
    fprintf(s->f,
            "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\" class=\"%s\"><title>%s at "
            "%.3f ms</title></rect>\n",
            x_of(s, at), s->y, bad ? 3.0 : 1.0, s->row_h * 0.9, bad ? "bad" : "good", text,
            (double)at / 1e6);
}

/* ---- what is around them ---- */

static void put_legend(const struct svg *s, const char *about)
{
    double x = LEFT;

    fputs("<text x=\"4\" y=\"16\" class=\"n\">", s->f);
    put_text(s->f, about);
    fputs("</text>\n", s->f);
    for (int i = 0; i < SPANS; i++) {
        fprintf(s->f,
                "<rect x=\"%.0f\" y=\"26\" width=\"12\" height=\"10\" class=\"s%d\"/>"
                "<text x=\"%.0f\" y=\"35\">%s</text>\n",
                x, i, x + 16, timeline_names[i]);
        x += 105;
    }
    fprintf(s->f,
            "<rect x=\"%.0f\" y=\"26\" width=\"3\" height=\"10\" class=\"bad\"/>"
            "<text x=\"%.0f\" y=\"35\">failed</text>\n",
            x, x + 8);
}

/* The axis: a line every 1, 2 or 5 times a power of ten, ten of them or fewer. */
static void put_axis(const struct svg *s, uint64_t end, double bottom)
{
    double step = 1;

    while (end / step > 10) {
        if (end / (step * 2) <= 10)
            step *= 2;
        else if (end / (step * 5) <= 10)
            step *= 5;
        else
            step *= 10;
    }
    for (double t = 0; t <= (double)end; t += step) {
        const double x = LEFT + t * s->px_per_ns;

        fprintf(s->f,
                "<line x1=\"%.1f\" y1=\"%.0f\" x2=\"%.1f\" y2=\"%.0f\"/>"
                "<text x=\"%.1f\" y=\"%.0f\" class=\"t\">%g ms</text>\n",
                x, TOP - 4, x, bottom, x, TOP - 8, t / 1e6);
    }
}

void timeline_svg(FILE *f, const struct timeline *tl, uint64_t end,
                  const struct timeline_text *text)
{
    static const struct timeline_form count = {count_row, count_span, count_mark};
    static const struct timeline_form form = {row, span, mark};
    struct svg s = {.f = f, .text = text};
    double bottom;
    uint32_t drawn;

    timeline_walk(tl, end, &count, &s);
    drawn = s.n_rows < MAX_ROWS ? s.n_rows : MAX_ROWS;
    s.row_h = drawn <= 64 ? 14 : drawn <= 256 ? 6 : 3;
    s.px_per_ns = (WIDTH - LEFT - RIGHT) / (double)(end ? end : 1);
    bottom = TOP + drawn * s.row_h + s.n_nodes * NODE_H + 4;
    fprintf(s.f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "font-family=\"sans-serif\" font-size=\"10\">\n<style>.n{font-weight:bold}"
            ".r{text-anchor:end}.t{text-anchor:middle;fill:#666}line{stroke:#ddd}"
            ".bad{fill:#d62020}.good{fill:#333}",
            WIDTH, bottom + 20);
    for (int i = 0; i < SPANS; i++)
        fprintf(s.f, ".s%d{fill:%s}", i, colours[i]);
    fputs("</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", s.f);
    put_legend(&s, text->about);
    put_axis(&s, end, bottom);
    if (s.n_rows > MAX_ROWS)
        fprintf(s.f, "<text x=\"%.0f\" y=\"%.0f\">%u rows more are not drawn</text>\n", LEFT,
                bottom + 12, s.n_rows - MAX_ROWS);
    s.n_rows = 0;
    s.y = TOP - s.row_h;
    timeline_walk(tl, end, &form, &s);
    fputs("</svg>\n", s.f);
}
