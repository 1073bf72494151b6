/* SPDX-License-Identifier: BSD-3-Clause */
/* A program's queries of its window: the attributes of the function that it called, and the hints
 * that took effect.
 */
#include "swmpi.h"
#include <string.h>

/* The others keep the values of MPI_Win_create(): base, size, displacement unit and model are the
 * same. */
SWMPI_EXPORT int MPI_Win_get_attr(MPI_Win win, int win_keyval, void *attribute_val, int *flag)
{
    struct swmpi_window *w = win_keyval == MPI_WIN_CREATE_FLAVOR ? swmpi_window_of(win) : NULL;
    int *flavor = w ? &w->flavor : NULL;
    int rc = PMPI_Win_get_attr(win, win_keyval, attribute_val, flag);

    if (rc == MPI_SUCCESS && w && *flag)
        memcpy(attribute_val, &flavor, sizeof(flavor));
    return rc;
}

SWMPI_EXPORT int MPI_Win_get_info(MPI_Win win, MPI_Info *info_used)
{
    struct swmpi_window *w = swmpi_window_of(win);
    int rc = PMPI_Win_get_info(win, info_used);

    return rc == MPI_SUCCESS && w && w->storage ? swmpi_hints_echo(w, *info_used) : rc;
}

SWMPI_EXPORT int MPI_Win_set_info(MPI_Win win, MPI_Info info)
{
    struct swmpi_window *w = swmpi_window_of(win);
    struct swmpi_error e;
    int rc = PMPI_Win_set_info(win, info);

    if (rc != MPI_SUCCESS || !w || swmpi_hints_change(w, info, &e) == MPI_SUCCESS)
        return rc;
    return swmpi_raise_win(win, "MPI_Win_set_info", &e);
}
