/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks of a communicator agree, before and after each has done its part of an allocation. */
#include "swmpi.h"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t number_lock = PTHREAD_MUTEX_INITIALIZER;
static int last_number; /* of the windows of this process */

int swmpi_number_own(void)
{
    int number;

    pthread_mutex_lock(&number_lock);
    number = ++last_number;
    pthread_mutex_unlock(&number_lock);
    return number;
}

static int offer_number(void)
{
    int number;

    pthread_mutex_lock(&number_lock);
    number = last_number + 1;
    pthread_mutex_unlock(&number_lock);
    return number;
}

/* The number is claimed unless another thread of some rank took it meanwhile, for a window of
 * another communicator. Then the next try is the largest number that any rank offers. */
int swmpi_claim(MPI_Comm comm, int *number, int *all)
{
    int mine[2], least[2], rc;

    pthread_mutex_lock(&number_lock);
    mine[0] = *number > last_number;
    if (mine[0])
        last_number = *number;
    pthread_mutex_unlock(&number_lock);
    mine[1] = -offer_number();
    rc = PMPI_Allreduce(mine, least, 2, MPI_INT, MPI_MIN, comm);
    if (rc != MPI_SUCCESS)
        return rc;
    *all = least[0];
    if (!*all)
        *number = -least[1];
    return MPI_SUCCESS;
}

int swmpi_names(MPI_Comm comm, struct swmpi_names *names)
{
    MPI_Group world, group, foreign;
    int zero = 0, rc;

    PMPI_Comm_rank(MPI_COMM_WORLD, &names->rank);
    rc = PMPI_Comm_group(comm, &group);
    if (rc != MPI_SUCCESS)
        return rc;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    rc = PMPI_Group_translate_ranks(group, 1, &zero, world, &names->leader);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Group_difference(group, world, &foreign);
    names->foreign = rc == MPI_SUCCESS && foreign != MPI_GROUP_EMPTY;
    if (names->foreign)
        PMPI_Group_free(&foreign);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    return rc;
}

static int spawned;

static void ask_parent(void)
{
    MPI_Comm parent;

    spawned = PMPI_Comm_get_parent(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL;
}

int swmpi_is_spawned(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, ask_parent);
    return spawned;
}

/* One reduction for all, since each makes all ranks wait: the gravest error and a rank that has it,
 * the wishes of any rank, and a number above all that the ranks know. A rank without an error
 * learns which rank failed; e->code is set on all or on none. */
int swmpi_agree(MPI_Comm comm, struct swmpi_agreed *agreed, struct swmpi_error *e)
{
    struct {
        int value, rank;
    } mine[7] = {{e->code, 0}}, all[7];
    char text[MPI_MAX_ERROR_STRING] = "";
    int rank, rc, length;

    rc = PMPI_Comm_rank(comm, &rank);
    if (rc != MPI_SUCCESS)
        return rc;
    for (int i = 0; i < 7; i++)
        mine[i].rank = rank;
    if (agreed) {
        mine[1].value = agreed->storage;
        mine[2].value = agreed->one_file;
        mine[3].value = offer_number();
        mine[4].value = agreed->sync_all;
        mine[5].value = agreed->commit;
        mine[6].value = agreed->mapped;
    }
    rc = PMPI_Allreduce(mine, all, 7, MPI_2INT, MPI_MAXLOC, comm);
    if (rc != MPI_SUCCESS)
        return rc;
    if (all[0].value && !e->code) {
        PMPI_Error_string(all[0].value, text, &length);
        swmpi_say(e, all[0].value, "rank %d of the communicator failed: %.200s", all[0].rank, text);
    }
    if (agreed)
        *agreed = (struct swmpi_agreed){.storage = all[1].value,
                                        .one_file = all[2].value,
                                        .number = all[3].value,
                                        .sync_all = all[4].value,
                                        .commit = all[5].value,
                                        .mapped = all[6].value};
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
    else if (b->bytes >= 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
             st.st_size > b->bytes && truncate(path, b->bytes) < 0)
        swmpi_trace(1, "%s: cannot be truncated to its %lld bytes", path, (long long)b->bytes);
}

int swmpi_one_node(MPI_Comm comm, int *yes)
{
    MPI_Comm node;
    int here = 0, all = 0, rc;

    rc = PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    if (rc != MPI_SUCCESS)
        return rc;
    PMPI_Comm_size(node, &here);
    PMPI_Comm_free(&node);
    PMPI_Comm_size(comm, &all);
    *yes = here == all;
    return MPI_SUCCESS;
}
