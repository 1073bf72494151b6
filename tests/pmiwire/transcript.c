/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads recorded conversations; helpers of the replays. */
#define _GNU_SOURCE 1 /* asprintf */
#include <ctype.h>
#include <dirent.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire/command.h>

#include "transcript.h"

unsigned n_deviations;

void *need(void *ptr)
{
    if (!ptr) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return ptr;
}

static _Noreturn void bad_file(const char *path, unsigned line, const char *what)
{
    fprintf(stderr, "%s:%u: %s\n", path, line, what);
    exit(1);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* `C "bytes"` to a record. */
static void read_record(struct transcript *t, const char *text, const char *path, unsigned line)
{
    struct record *r;
    const char *p = text + 3;

    if ((text[0] != 'C' && text[0] != 'S') || text[1] != ' ' || text[2] != '"')
        bad_file(path, line, "neither comment nor record");
    t->records = need(realloc(t->records, (t->n_records + 1) * sizeof(*t->records)));
    r = &t->records[t->n_records++];
    r->side = text[0];
    r->len = 0;
    r->data = need(malloc(strlen(p) + 1));
    while (*p != '"') {
        char c = *p++;

        if (c < 32 || c > 126)
            bad_file(path, line, "a byte that should be escaped, or no end quote");
        if (c == '\\') {
            c = *p++;
            if (c == 'n') {
                c = '\n';
            } else if (c == 'x' && hex_digit(p[0]) >= 0 && hex_digit(p[1]) >= 0) {
                c = (char)(hex_digit(p[0]) * 16 + hex_digit(p[1]));
                p += 2;
            } else if (c != '\\' && c != '"') {
                bad_file(path, line, "unknown escape");
            }
        }
        r->data[r->len++] = c;
    }
    if (strcmp(p, "\"\n") != 0 || r->len == 0)
        bad_file(path, line, "no end quote at the end of the line, or an empty record");
}

/* Text behind a prefix, without the newline; NULL when the line begins otherwise. */
static char *behind(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(text, prefix, n) == 0 ? need(strndup(text + n, strcspn(text + n, "\n"))) : NULL;
}

static void read_comment(struct transcript *t, const char *text)
{
    char *s;

    if ((s = behind(text, "# client: "))) {
        t->client = s;
    } else if ((s = behind(text, "# server: "))) {
        t->server = s;
    } else if ((s = behind(text, "# program: "))) {
        t->program = s;
    } else if ((s = behind(text, "# env: PMI_JOBID="))) {
        t->jobid = s;
    } else if ((s = behind(text, "# rank: "))) {
        t->rank = (int32_t)strtol(s, NULL, 10);
        free(s);
    } else if ((s = behind(text, "# size: "))) {
        t->size = isdigit((unsigned char)s[0]) ? (int32_t)strtol(s, NULL, 10) : -1;
        free(s);
    } else if ((s = behind(text, "# transport: "))) {
        t->port = strcmp(s, "port") == 0;
        free(s);
    } else if ((s = behind(text, "# env: PMI_SPAWNED="))) {
        t->spawned = 1;
        free(s);
    }
}

static void read_transcript(struct recording *r, const char *path, const char *label)
{
    struct transcript *t;
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t cap = 0;
    unsigned line = 0;

    if (!f)
        bad_file(path, 0, "cannot be opened");
    r->transcripts =
        need(realloc(r->transcripts, (r->n_transcripts + 1) * sizeof(*r->transcripts)));
    t = &r->transcripts[r->n_transcripts++];
    memset(t, 0, sizeof(*t));
    t->label = need(strdup(label));
    t->size = -1;
    while (getline(&text, &cap, f) > 0) {
        line++;
        if (text[0] == '#')
            read_comment(t, text);
        else
            read_record(t, text, path, line);
    }
    free(text);
    fclose(f);
}

static void read_order(struct recording *r, const char *path)
{
    FILE *f = fopen(path, "r");
    char label[16], side;
    unsigned line = 0;
    size_t *seen = need(calloc(r->n_transcripts + 1, sizeof(*seen)));
    size_t i;

    if (!f)
        bad_file(path, 0, "cannot be opened");
    while (fscanf(f, "%15s %c\n", label, &side) == 2) {
        line++;
        for (i = 0; i < r->n_transcripts && strcmp(r->transcripts[i].label, label) != 0; i++)
            ;
        if (i == r->n_transcripts || seen[i] == r->transcripts[i].n_records ||
            r->transcripts[i].records[seen[i]].side != side)
            bad_file(path, line, "does not fit the transcripts");
        seen[i]++;
        r->order = need(realloc(r->order, (r->n_order + 1) * sizeof(*r->order)));
        r->order[r->n_order++] = (struct order_line){i, side};
    }
    if (!feof(f))
        bad_file(path, line + 1, "not a line of an order file");
    for (i = 0; i < r->n_transcripts; i++)
        if (seen[i] != r->transcripts[i].n_records)
            bad_file(path, line, "ends before the transcripts do");
    free(seen);
    fclose(f);
}

static int is_transcript(const struct dirent *e)
{
    return fnmatch("*.[rk]*.txt", e->d_name, 0) == 0;
}

struct recording *recordings_load(const char *dir, size_t *n)
{
    struct dirent **names;
    struct recording *all = NULL;
    int n_names = scandir(dir, &names, is_transcript, alphasort);
    char *path;

    *n = 0;
    if (n_names <= 0)
        bad_file(dir, 0, "holds no transcript");
    for (int i = 0; i < n_names; i++) {
        const char *file = names[i]->d_name;
        size_t len = strcspn(file, ".");
        char label[16] = "";

        if (*n == 0 || strlen(all[*n - 1].name) != len ||
            strncmp(all[*n - 1].name, file, len) != 0) {
            all = need(realloc(all, (*n + 1) * sizeof(*all)));
            all[*n] = (struct recording){.name = need(strndup(file, len))};
            ++*n;
        }
        if (asprintf(&path, "%s/%s", dir, file) < 0)
            need(NULL);
        if (sscanf(file + len, ".%15[^.].txt", label) != 1)
            bad_file(path, 0, "not the name of a transcript");
        read_transcript(&all[*n - 1], path, label);
        free(path);
        free(names[i]);
    }
    free(names);
    for (size_t i = 0; i < *n; i++) {
        if (asprintf(&path, "%s/%s.order", dir, all[i].name) < 0)
            need(NULL);
        read_order(&all[i], path);
        free(path);
    }
    return all;
}

void recordings_free(struct recording *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < all[i].n_transcripts; j++) {
            struct transcript *t = &all[i].transcripts[j];

            for (size_t k = 0; k < t->n_records; k++)
                free(t->records[k].data);
            free(t->records);
            free(t->label);
            free(t->client);
            free(t->server);
            free(t->program);
            free(t->jobid);
        }
        free(all[i].transcripts);
        free(all[i].order);
        free(all[i].name);
    }
    free(all);
}

char *transcript_join(const struct transcript *t, char side, size_t *len)
{
    char *out = need(malloc(1));

    *len = 0;
    for (size_t i = 0; i < t->n_records; i++) {
        const struct record *r = &t->records[i];

        if (r->side != side)
            continue;
        out = need(realloc(out, *len + r->len));
        memcpy(out + *len, r->data, r->len);
        *len += r->len;
    }
    return out;
}

#define MAX_FIELDS 256

int msgs_split(const char *text, size_t len, struct kept_msgs *out, size_t *offset)
{
    struct pmiwire_decoder d;
    struct pmiwire_field fields[MAX_FIELDS];
    size_t at = 0;

    memset(out, 0, sizeof(*out));
    pmiwire_decoder_init(&d, 0, 0);
    while (at < len) {
        struct pmiwire_msg msg = {.fields = fields, .cap_fields = MAX_FIELDS};
        ssize_t n = pmiwire_decode(&d, text + at, len - at, &msg);
        struct kept_msg *k;

        if (n == 0)
            break;
        if (n < 0) {
            *offset = at + d.err_offset;
            return (int)n;
        }
        out->at = need(realloc(out->at, (out->n + 1) * sizeof(*out->at)));
        k = &out->at[out->n++];
        k->len = (size_t)n;
        k->text = need(malloc(k->len));
        memcpy(k->text, text + at, k->len);
        k->msg = msg;
        k->msg.fields = need(malloc((msg.n_fields + 1) * sizeof(*fields)));
        k->msg.cap_fields = msg.n_fields + 1;
        /* the same views, in our own copy of the text */
        pmiwire_decoder_init(&d, 0, 0);
        if (pmiwire_decode(&d, k->text, k->len, &k->msg) != n)
            deviation("decoder", "decoding the same message again went otherwise");
        pmiwire_decoder_init(&d, 0, 0);
        at += (size_t)n;
    }
    out->rest = len - at;
    return 0;
}

void msgs_free(struct kept_msgs *m)
{
    for (size_t i = 0; i < m->n; i++) {
        free(m->at[i].text);
        free(m->at[i].msg.fields);
    }
    free(m->at);
    memset(m, 0, sizeof(*m));
}

const struct pmiwire_field *find_field(const struct pmiwire_msg *msg, uint16_t field)
{
    for (uint32_t i = 0; i < msg->n_fields; i++)
        if (msg->fields[i].id == field)
            return &msg->fields[i];
    return NULL;
}

char *field_text(const struct pmiwire_msg *msg, uint16_t field)
{
    const struct pmiwire_field *f = find_field(msg, field);
    char *text;

    if (!f)
        return NULL;
    text = need(malloc(f->value.len + 1));
    if (f->flags & PMIWIRE_FIELD_ESCAPED) {
        text[pmiwire_unescape(f->value, text)] = '\0';
    } else {
        memcpy(text, f->value.ptr, f->value.len);
        text[f->value.len] = '\0';
    }
    return text;
}

int is_refusal(const struct pmiwire_msg *msg)
{
    struct pmiwire_str info;
    int32_t rc = 0;

    (void)pmiwire_msg_int(msg, PMIWIRE_F_RC, &rc);
    return rc != 0 ||
           (msg->wire == PMIWIRE_V1 && pmiwire_msg_str(msg, PMIWIRE_F_INFO, &info) == 0 &&
            (info.len != 2 || memcmp(info.ptr, "ok", 2) != 0));
}

int excepted(struct exception *table, size_t n, const char *where, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (fnmatch(table[i].where, where, 0) == 0 && fnmatch(table[i].what, what, 0) == 0) {
            table[i].used++;
            return 1;
        }
    return 0;
}

int exceptions_unused(const struct exception *table, size_t n, const char *part)
{
    int unused = 0;

    for (size_t i = 0; i < n; i++)
        if (!table[i].used) {
            deviation(part, "the exception \"%s\" in %s (%s) is needed no more", table[i].what,
                      table[i].where, table[i].why);
            unused++;
        }
    return unused;
}

void deviation(const char *where, const char *format, ...)
{
    va_list args;

    n_deviations++;
    printf("FAIL %s: ", where);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void replayed(const char *part, const char *where, const char *format, ...)
{
    va_list args;

    printf("%-6s %-28s ", part, where);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}
