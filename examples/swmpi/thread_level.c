/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread level of a program under Open MPI. Its one-sided component osc/pt2pt makes no window
 * at MPI_THREAD_MULTIPLE, and the windows of MPI_Win_create() that hold storage need one. A program
 * that asks for that level, as mpi4py does by default, gets MPI_THREAD_SERIALIZED where the job's
 * options choose osc/pt2pt: `provided` says so, as MPI allows.
 */
#include "swmpi.h"

#ifdef OPEN_MPI
#include <stdlib.h>
#include <string.h>

SWMPI_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const char *osc = getenv("OMPI_MCA_osc");

    if (required == MPI_THREAD_MULTIPLE && osc && osc[0] != '^' && strstr(osc, "pt2pt"))
        required = MPI_THREAD_SERIALIZED;
    return PMPI_Init_thread(argc, argv, required, provided);
}
#endif
