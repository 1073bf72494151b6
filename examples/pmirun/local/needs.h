/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program needs, found without running it: the dynamic libraries that its ELF file names,
 * and the program that loads them. Any file may be given: all that is read from it is checked.
 */
#ifndef PMIRUN_NEEDS_H
#define PMIRUN_NEEDS_H

#include <stdbool.h>

#define NEEDS_NAME_BYTES 256   /* of a library's name with its NUL; longer ones are left out */
#define NEEDS_MAX        1024u /* libraries, and other entries beside them; more are not read */

struct needs {
    char interp[256];                             /* what loads it (PT_INTERP), "": nothing does */
    void (*library)(void *ctx, const char *name); /* is called for each that the file names */
    void *ctx;
};

/* False: it is no ELF file of this machine's word size and byte order, or a broken one. */
bool needs_read(int fd, struct needs *needs);

#endif
