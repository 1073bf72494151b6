/* SPDX-License-Identifier: BSD-3-Clause */
/* A map as characters: each stands for a stretch of ranks and a stretch of ids, and shows how many
 * of the ranks have such ids. */
#include "explain.h"

#include <string.h>

#define MAX_COLUMNS 200u
#define MAX_ROWS    100u

void print_picture(FILE *out, const uint64_t *ids, uint32_t n, unsigned columns, unsigned rows)
{
    static const char shades[] = " .:+#";
    uint64_t min, max, range;
    static uint32_t hits[MAX_COLUMNS * MAX_ROWS]; /* no memory to run out of half way */
    char left[32];
    int width;

    columns = columns > MAX_COLUMNS ? MAX_COLUMNS : columns;
    rows = rows > MAX_ROWS ? MAX_ROWS : rows;
    if (n == 0 || columns == 0 || rows == 0)
        return;
    min = max = ids[0];
    for (uint32_t r = 1; r < n; r++) {
        min = ids[r] < min ? ids[r] : min;
        max = ids[r] > max ? ids[r] : max;
    }
    range = max - min + 1;
    columns = n < columns ? n : columns;
    rows = range < rows ? (unsigned)range : rows;
    memset(hits, 0, (size_t)columns * rows * sizeof(*hits));
    for (uint32_t r = 0; r < n; r++) {
        unsigned x = (unsigned)((uint64_t)r * columns / n),
                 y = (unsigned)((double)(ids[r] - min) / (double)range * rows);

        y = y < rows ? y : rows - 1;
        hits[y * columns + x]++;
    }
    width = snprintf(left, sizeof(left), "%llu", (unsigned long long)max);
    width = width < 4 ? 4 : width; /* "rank" */
    for (unsigned y = rows; y-- > 0;) {
        if (y == rows - 1)
            fprintf(out, "  %*llu |", width, (unsigned long long)max);
        else if (y == 0)
            fprintf(out, "  %*llu |", width, (unsigned long long)min);
        else
            fprintf(out, "  %*s |", width, "");
        for (unsigned x = 0; x < columns; x++) {
            /* The share of the ranks of this column: a quarter and less, half, three quarters,
             * more. */
            uint64_t begin = ((uint64_t)x * n + columns - 1) / columns,
                     end = ((uint64_t)(x + 1) * n + columns - 1) / columns;
            uint64_t hit = hits[y * columns + x];

            fputc(shades[hit == 0 ? 0 : 1 + (4 * hit - 1) / (end - begin ? end - begin : 1)], out);
        }
        fputc('\n', out);
    }
    fprintf(out, "  %*s +", width, "id");
    for (unsigned x = 0; x < columns; x++)
        fputc('-', out);
    fprintf(out, "\n  %*s  0", width, "rank");
    if (n > 1) {
        int digits = snprintf(left, sizeof(left), "%lu", (unsigned long)n - 1);

        fprintf(out, "%*s", (int)columns - 1 > digits ? (int)columns - 1 : digits + 1, left);
    }
    fputc('\n', out);
}
