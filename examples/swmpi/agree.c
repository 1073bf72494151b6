/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks of a communicator must agree on before and after each has done its part of an allocation. */
#include "swmpi.h"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int last_number; /* of the windows of this process */

int swmpi_number_own(void)
{
    int number;

    pthread_mutex_lock(&lock);
    number = ++last_number;
    pthread_mutex_unlock(&lock);
    return number;
}

/* Every rank offers a number above all that it knows, and the largest is taken, unless another thread of some rank has
 * taken it meanwhile for a window of another communicator: then they try again. */
int swmpi_number(MPI_Comm comm, int *number)
{
    int offer, taken, all = 0, rc = MPI_SUCCESS;

    while (!all) {
        pthread_mutex_lock(&lock);
        offer = last_number + 1;
        pthread_mutex_unlock(&lock);
        if ((rc = PMPI_Allreduce(&offer, number, 1, MPI_INT, MPI_MAX, comm)) != MPI_SUCCESS)
            return rc;
        pthread_mutex_lock(&lock);
        taken = *number > last_number;
        if (taken)
            last_number = *number;
        pthread_mutex_unlock(&lock);
        if ((rc = PMPI_Allreduce(&taken, &all, 1, MPI_INT, MPI_MIN, comm)) != MPI_SUCCESS)
            return rc;
    }
    return rc;
}

int swmpi_names(MPI_Comm comm, struct swmpi_names *names)
{
    int rc;

    PMPI_Comm_rank(MPI_COMM_WORLD, &names->rank);
    names->leader = names->rank;
    if ((rc = PMPI_Bcast(&names->leader, 1, MPI_INT, 0, comm)) != MPI_SUCCESS)
        return rc;
    return swmpi_number(comm, &names->number);
}

/* One reduction: the gravest error with a rank that has it, and whether anybody wants storage. A rank that is well
 * learns whose error it is; e->code is set on all or on none. */
int swmpi_agree(MPI_Comm comm, int want, int *any, struct swmpi_error *e)
{
    struct {
        int value, rank;
    } mine[2], all[2];
    char text[MPI_MAX_ERROR_STRING] = "";
    int rank, rc, length;

    if ((rc = PMPI_Comm_rank(comm, &rank)) != MPI_SUCCESS)
        return rc;
    mine[0].value = e->code;
    mine[1].value = want;
    mine[0].rank = mine[1].rank = rank;
    if ((rc = PMPI_Allreduce(mine, all, 2, MPI_2INT, MPI_MAXLOC, comm)) != MPI_SUCCESS)
        return rc;
    if (all[0].value && !e->code) {
        PMPI_Error_string(all[0].value, text, &length);
        swmpi_say(e, all[0].value, "rank %d of the communicator failed: %.200s", all[0].rank, text);
    }
    if (any)
        *any = all[1].value;
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
