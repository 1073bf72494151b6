/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the dynamic libraries that a program's ELF file names, its loader, and whether it can start
 * another program or load a library, without running it. The file is untrusted: every field is
 * checked.
 */
#ifndef PMIRUN_ELF_NEEDED_H
#define PMIRUN_ELF_NEEDED_H

#include <stdbool.h>

#define NEEDS_NAME_BYTES  256    /* of a library's name with its NUL; longer ones are left out */
#define NEEDS_MAX         1024u  /* libraries, and other entries beside them; more are not read */
#define NEEDS_NAMES_BYTES 65536u /* of a string table; a longer one counts as leading on */

struct needs {
    char interp[256]; /* its loader (PT_INTERP), "": none */
    bool leads_on;    /* it imports exec(), dlopen() or the like, or too many names to tell */
    void (*library)(void *ctx, const char *name); /* called for each */
    void *ctx;
};

/* False: not an ELF file of this machine's word size and byte order, or a broken one. */
bool needs_read(int fd, struct needs *needs);

#endif
