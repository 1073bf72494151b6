/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0 copies its standard input to its output, each line after "in: ". The others write N_LINES
 * lines, each in two pieces, to standard output and to standard error; with the argument "long" one
 * line of LONG_BYTES without a newline. Nothing may be lost or reordered: the caller counts lines,
 * and searches for lines of more than one letter. */
#include "world.h"

enum { N_LINES = 100, LINE_BYTES = 900, LONG_BYTES = 100000 };

static void write_lines(FILE *to, char letter)
{
    char line[LINE_BYTES + 1];

    memset(line, letter, LINE_BYTES);
    line[LINE_BYTES] = '\n';
    for (int i = 0; i < N_LINES; i++) {
        fwrite(line, 1, LINE_BYTES / 3, to);
        fflush(to);
        fwrite(line + LINE_BYTES / 3, 1, LINE_BYTES + 1 - LINE_BYTES / 3, to);
        fflush(to);
    }
}

static void write_long(FILE *to, char letter)
{
    char *text = malloc(LONG_BYTES);

    CHECK_MSG(text, "out of memory");
    memset(text, letter, LONG_BYTES);
    fwrite(text, 1, LONG_BYTES, to);
    fflush(to);
    free(text);
}

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);

    if (w.rank == 0) {
        char line[4096];
        long n_lines = 0;

        while (fgets(line, sizeof(line), stdin)) {
            printf("in: %s", line);
            n_lines++;
        }
        printf("end of input after %ld lines\n", n_lines);
        fflush(stdout);
    } else {
        void (*write_text)(FILE *, char) =
            argc > 1 && !strcmp(argv[1], "long") ? write_long : write_lines;

        write_text(stdout, (char)('A' + (w.rank - 1) % 13)); /* A to M on stdout, */
        write_text(stderr, (char)('N' + (w.rank - 1) % 13)); /* N to Z on stderr */
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (w.rank == 0)
        printf("\n"); /* the line "ok" begins on a new line, also after an unterminated long one */
    return world_end(&w, "stdio");
}
