/* SPDX-License-Identifier: BSD-3-Clause */
/* `pmiprobe compare`: results of server --json and client --json, side by side. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

#define MAX_ROWS  512
#define MAX_FILES 8

struct table {
    char row[MAX_ROWS][64];
    char cell[MAX_ROWS][MAX_FILES][40];
    char peer[MAX_FILES][64];
    int n_rows, n_files;
};

/* The string (or word) behind "key": in one of our own lines; "" if absent. */
static void read_member(const char *line, const char *key, char *out, size_t cap)
{
    char mark[40];
    const char *s;
    size_t n = 0;

    snprintf(mark, sizeof(mark), "\"%s\":", key);
    s = strstr(line, mark);
    if (s) {
        bool quoted = s[strlen(mark)] == '"';

        s += strlen(mark) + (quoted ? 1 : 0);
        while (*s && *s != (quoted ? '"' : ',') && *s != '}' && n + 1 < cap)
            out[n++] = *s++;
    }
    out[n] = '\0';
}

static int row_of(struct table *t, const char *name)
{
    for (int i = 0; i < t->n_rows; i++)
        if (strcmp(t->row[i], name) == 0)
            return i;
    if (t->n_rows == MAX_ROWS)
        return -1;
    snprintf(t->row[t->n_rows], sizeof(t->row[0]), "%s", name);
    return t->n_rows++;
}

static bool read_file(struct table *t, const char *path)
{
    char line[4096], name[64], ok[16], result[32];
    FILE *f = fopen(path, "re");
    int col = t->n_files, n = 0;

    if (!f) {
        fprintf(stderr, "pmiprobe: %s: %s\n", path, strerror(errno));
        return false;
    }
    while (fgets(line, sizeof(line), f)) {
        int row;

        read_member(line, "case", name, sizeof(name));
        if (!name[0])
            read_member(line, "variation", name, sizeof(name));
        if (!name[0])
            continue;
        row = row_of(t, name);
        n = row < 0 ? -1 : n + 1;
        if (row < 0)
            break;
        read_member(line, "peer", t->peer[col], sizeof(t->peer[0]));
        read_member(line, "conforms", ok, sizeof(ok));
        read_member(line, "result", result, sizeof(result));
        if (!ok[0]) {
            read_member(line, "survived", ok, sizeof(ok));
            snprintf(result, sizeof(result), "%s", strcmp(ok, "true") == 0 ? "ok" : "dies");
            snprintf(t->cell[row][col], sizeof(t->cell[0][0]), "%.20s", result);
        } else {
            snprintf(t->cell[row][col], sizeof(t->cell[0][0]), "%s%.18s",
                     strcmp(ok, "true") == 0 ? "" : "✗ ", result);
        }
    }
    fclose(f);
    if (n < 0)
        fprintf(stderr, "pmiprobe: %s: more than %d cases\n", path, MAX_ROWS);
    if (n == 0)
        fprintf(stderr, "pmiprobe: %s: it has no result of --json\n", path);
    t->n_files++;
    return n > 0;
}

int compare_main(int argc, char **argv)
{
    static struct table t;

    if (argc < 2 || argc - 1 > MAX_FILES) {
        fprintf(stderr, "usage: pmiprobe compare FILE... (1 to %d files of --json)\n", MAX_FILES);
        return 2;
    }
    for (int i = 1; i < argc; i++)
        if (!read_file(&t, argv[i]))
            return 2;
    printf("| |");
    for (int i = 0; i < t.n_files; i++)
        printf(" %s |", t.peer[i]);
    printf("\n|---|");
    for (int i = 0; i < t.n_files; i++)
        printf("---|");
    for (int r = 0; r < t.n_rows; r++) {
        printf("\n| %s |", t.row[r]);
        for (int i = 0; i < t.n_files; i++)
            printf(" %s |", t.cell[r][i]);
    }
    printf("\n");
    return 0;
}
