/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUZZ_SCRATCH_H
#define FUZZ_SCRATCH_H

#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

/* A private place for the file, which disappears at any end of this process; else the working
 * directory. */
static inline const char *fuzz_directory(void)
{
    static char dir[40];
    int mnt = -1;

    if (dir[0])
        return dir;
#ifdef FSOPEN_CLOEXEC
    int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);

    if (fs >= 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        mnt = fsmount(fs, FSMOUNT_CLOEXEC, 0);
    if (fs >= 0)
        close(fs);
#endif
    if (mnt >= 0)
        snprintf(dir, sizeof(dir), "/proc/self/fd/%d", mnt);
    else
        strcpy(dir, ".");
    return dir;
}

#endif
