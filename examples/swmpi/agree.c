/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks of a communicator must agree on before and after each has done its part of an allocation. */
#include "swmpi.h"
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int n_windows; /* of this process, with storage */

int swmpi_next_sequence(void)
{
    return atomic_fetch_add(&n_windows, 1) + 1;
}

/* One reduction: the gravest error with a rank that has it, whether anybody wants storage, and a number for the window that
 * no rank has used. A rank that is well learns whose error it is; e->code is set on all or on none. */
int swmpi_agree(MPI_Comm comm, int want, struct swmpi_agreed *agreed, struct swmpi_error *e)
{
    struct {
        int value, rank;
    } mine[3], all[3];
    char text[MPI_MAX_ERROR_STRING] = "";
    int rank, rc, length, seen;

    if ((rc = PMPI_Comm_rank(comm, &rank)) != MPI_SUCCESS)
        return rc;
    mine[0].value = e->code;
    mine[1].value = want;
    mine[2].value = atomic_load(&n_windows);
    mine[0].rank = mine[1].rank = mine[2].rank = rank;
    if ((rc = PMPI_Allreduce(mine, all, 3, MPI_2INT, MPI_MAXLOC, comm)) != MPI_SUCCESS)
        return rc;
    if (all[0].value && !e->code) {
        PMPI_Error_string(all[0].value, text, &length);
        swmpi_say(e, all[0].value, "rank %d of the communicator failed: %.200s", all[0].rank, text);
    }
    if (agreed) {
        agreed->want = all[1].value;
        agreed->sequence = all[2].value + 1;
        seen = atomic_load(&n_windows);
        while (all[1].value && seen < agreed->sequence &&
               !atomic_compare_exchange_weak(&n_windows, &seen, agreed->sequence))
            ;
    }
    return MPI_SUCCESS;
}

void swmpi_before(struct swmpi_before *b, const struct storwin_opts *opts)
{
    struct stat st;

    b->existed = opts->filename && stat(opts->filename, &st) == 0;
    b->bytes = b->existed && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
}

void swmpi_put_back(const struct swmpi_before *b, const char *path, int created)
{
    struct stat st;

    if (created)
        unlink(path);
    else if (b->bytes >= 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > b->bytes &&
             truncate(path, b->bytes) < 0)
        swmpi_trace(1, "%s: cannot be cut back to its %lld bytes", path, (long long)b->bytes);
}
