/* SPDX-License-Identifier: BSD-3-Clause */
/* This pmirun's own temporary folders, and their removal. */
#ifndef PMIRUN_FOLDER_H
#define PMIRUN_FOLDER_H

#include <stdbool.h>

enum folder_place { FOLDER_TMP, FOLDER_SHM, FOLDER_PLACES }; /* $TMPDIR or /tmp; /dev/shm */

struct folders {
    const char *key;           /* the guard's, which is in their names */
    char *path[FOLDER_PLACES]; /* NULL: has not been made */
    int lock[FOLDER_PLACES];   /* the folder, open, and locked for as long as we live */
};

const char *folder_where(enum folder_place place); /* in which folder */
/* The folder, which only this user can enter; the first call makes it. NULL and errno on failure.
 * Not for a head, which has no ranks. */
const char *folder_get(struct folders *f, enum folder_place place);
bool folder_remove_all(struct folders *f); /* with all that is in them; false: something is left */
/* The same for the folders of the pmirun whose guard has this key. */
bool folder_remove(const char *key);

#endif
