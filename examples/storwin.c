/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that survives kill -9 and power cuts: each start continues at the last commit. */
#include <inttypes.h>
#include <stdio.h>
#include <storwin.h>

#define N_CELLS 131072

static struct {
    uint64_t steps;
    double cells[N_CELLS];
} state; /* the program's own, 1 MiB */

int main(void)
{
    struct storwin_opts opts;
    struct storwin_window *win;
    struct storwin_error err;
    int rc;

    storwin_opts_init(&opts);
    opts.filename = "first.state";
    rc = storwin_adopt(&state, sizeof(state), &opts, &win, &err); /* restores the last commit */
    if (rc < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("continues after step %" PRIu64 "\n", state.steps);
    for (int i = 0; rc == 0 && i < 100; i++) {
        state.cells[state.steps % N_CELLS] += 1;
        state.steps++;
        rc = storwin_commit(win, &err); /* 0: this step survives */
        if (rc == 0)
            printf("step %" PRIu64 "\n", state.steps);
    }
    if (rc < 0)
        fprintf(stderr, "%s\n", err.text);
    storwin_discard(win, NULL); /* storwin_free() would commit once more */
    return rc < 0;
}
