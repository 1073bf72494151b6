/* SPDX-License-Identifier: BSD-3-Clause */
/* swmpi_sync=all: MPI_Win_sync makes the page cache of the other ranks' files durable too, through
 * descriptors of these files. So the ranks must be on one node, and have the pager kernel. */
#include "swmpi.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a rank sends to the others. */
struct place {
    char path[PATH_MAX]; /* "": in memory */
    int kernel;
};

static void open_all(struct swmpi_window *w, const struct place *places, int rank, int size,
                     struct swmpi_error *e)
{
    for (int r = 0; r < size && !e->code; r++) {
        const struct place *p = &places[r];
        int fd;

        if (r == rank || !p->path[0])
            continue;
        /* The rank before may have opened the same file. */
        if (r > 0 && r - 1 != rank && strcmp(p->path, places[r - 1].path) == 0)
            continue;
        if (!p->kernel)
            swmpi_say(e, MPI_ERR_INFO_VALUE,
                      "swmpi_sync: 'all' needs the pager kernel; rank %d has another", r);
        else if ((fd = open(p->path, O_WRONLY | O_CLOEXEC)) < 0)
            swmpi_say(e, swmpi_class(-errno), "swmpi_sync: rank %d's file \"%.200s\": %s", r,
                      p->path, storwin_strerror(-errno));
        else
            w->peers[w->n_peers++] = fd;
    }
}

int swmpi_peers_open(struct swmpi_window *w, MPI_Comm comm, const struct swmpi_hints *h,
                     struct swmpi_error *e)
{
    struct place *places = NULL, *mine = calloc(1, sizeof(*mine));
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_error cause;
    int rank, size, together, rc;

    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    places = calloc((size_t)size, sizeof(*places));
    if (w)
        w->peers = calloc((size_t)size, sizeof(*w->peers));
    if (!e->code && (!mine || !places || !w->peers))
        swmpi_say(e, MPI_ERR_NO_MEM, "no memory for a window");
    rc = swmpi_one_node(comm, &together);
    if (rc == MPI_SUCCESS && !together && !e->code)
        swmpi_say(e, MPI_ERR_INFO_VALUE, "swmpi_sync: 'all' needs all ranks on one node");
    if (!e->code)
        storwin_query(w->storage, &info);
    if (!e->code && info.storage_bytes > 0) {
        mine->kernel = h->opts.pager == STORWIN_PAGER_KERNEL;
        if (!realpath(h->path, mine->path))
            swmpi_say(e, swmpi_class(-errno), "swmpi_sync: \"%.200s\": %s", h->path,
                      storwin_strerror(-errno));
        else if ((rc = storwin_sync(w->storage, 0, STORWIN_TO_END, &cause)) < 0) /* its name */
            swmpi_say_storwin(e, "sync", rc, &cause);
        rc = MPI_SUCCESS;
    }
    if (rc == MPI_SUCCESS && (rc = swmpi_agree(comm, NULL, e)) == MPI_SUCCESS && !e->code)
        rc = PMPI_Allgather(mine, sizeof(*mine), MPI_BYTE, places, sizeof(*places), MPI_BYTE, comm);
    if (rc == MPI_SUCCESS && !e->code)
        open_all(w, places, rank, size, e);
    free(places);
    free(mine);
    return rc;
}

int swmpi_peers_sync(const struct swmpi_window *w, struct swmpi_error *e)
{
    for (int i = 0; i < w->n_peers && !e->code; i++)
        if (fdatasync(w->peers[i]) < 0)
            swmpi_say(e, swmpi_class(-errno), "sync of another rank's file: %s",
                      storwin_strerror(-errno));
    return e->code;
}

void swmpi_peers_close(struct swmpi_window *w)
{
    while (w->n_peers > 0)
        close(w->peers[--w->n_peers]);
    free(w->peers);
}
