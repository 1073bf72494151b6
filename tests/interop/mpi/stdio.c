/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0 copies its standard input to its output, each line after "in: ". The others write LINE_BYTES without a newline to
 * standard output and to standard error, with nothing lost or reordered: the caller counts the bytes. */
#include "check.h"

enum { LINE_BYTES = 100000 };

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
        char *text = malloc(LINE_BYTES);

        CHECK(text, "out of memory");
        memset(text, 'A' + (w.rank - 1) % 13, LINE_BYTES); /* A..M from stdout, */
        fwrite(text, 1, LINE_BYTES, stdout);
        memset(text, 'N' + (w.rank - 1) % 13, LINE_BYTES); /* N..Z from stderr */
        fwrite(text, 1, LINE_BYTES, stderr);
        fflush(NULL);
        free(text);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (w.rank == 0)
        printf("\n"); /* the line of "ok" begins afresh even where nothing ended the long ones */
    return world_end(&w, "stdio");
}
