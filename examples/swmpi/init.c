/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Init, MPI_Init_thread.
 *
 * The thread level under Open MPI: its one-sided component osc/pt2pt makes no window at
 * MPI_THREAD_MULTIPLE, and the windows of MPI_Win_create() that hold storage need one. A program
 * that asks for that level, as mpi4py does by default, gets MPI_THREAD_SERIALIZED where the job's
 * options choose osc/pt2pt: `provided` says so, as MPI allows.
 */
#include "swmpi.h"
#include <stdlib.h>
#include <string.h>

static int init_done(int rc)
{
    if (rc != MPI_SUCCESS)
        return rc;
    swmpi_is_spawned(); /* while the parent is connected */
    return swmpi_at_finalize();
}

SWMPI_EXPORT int MPI_Init(int *argc, char ***argv)
{
    return init_done(PMPI_Init(argc, argv));
}

SWMPI_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
#ifdef OPEN_MPI
    const char *osc = getenv("OMPI_MCA_osc");

    if (required == MPI_THREAD_MULTIPLE && osc && osc[0] != '^' && strstr(osc, "pt2pt"))
        required = MPI_THREAD_SERIALIZED;
#endif
    return init_done(PMPI_Init_thread(argc, argv, required, provided));
}
