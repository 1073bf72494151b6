/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of the test programs: hints from the command line, and their effect. */
#ifndef SWMPI_TEST_WINDOW_H
#define SWMPI_TEST_WINDOW_H

#include "world.h"
#include <stdint.h>

/* "key=value;key=value" as an info; the caller frees it. */
static inline MPI_Info info_of(const char *hints)
{
    char text[4096], *rest = text, *piece, *equals;
    MPI_Info info;

    MPI_Info_create(&info);
    CHECK_MSG(strlen(hints) < sizeof(text), "hints are too long");
    strcpy(text, hints);
    while ((piece = strsep(&rest, ";"))) {
        if (!*piece)
            continue;
        CHECK_MSG((equals = strchr(piece, '=')), "no '=' in %s", piece);
        *equals = 0;
        MPI_Info_set(info, piece, equals + 1);
    }
    return info;
}

/* A value of the window's info; "" if it has none. */
static inline const char *hint_of(MPI_Win win, const char *key)
{
    static char value[MPI_MAX_INFO_VAL + 1];
    MPI_Info used;
    int found = 0;

    MPI_Win_get_info(win, &used);
    MPI_Info_get(used, key, MPI_MAX_INFO_VAL, value, &found);
    MPI_Info_free(&used);
    if (!found)
        value[0] = 0;
    return value;
}

static inline int flavor_of(MPI_Win win)
{
    int *flavor = NULL, found = 0;

    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &found);
    CHECK_MSG(found, "no flavor");
    return *flavor;
}

#endif
