/* SPDX-License-Identifier: BSD-3-Clause */
/* libpmix, by dlopen. */
#define _GNU_SOURCE
#include "lib.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct lib lib;

#define MISSING "libpmix.so.2 is not on this node: apt install libpmix2"
#define TOO_OLD "libpmix.so.2 on this node is older than 4.2, or says no version: install a later one"

/* "OpenPMIx 4.2.2 (PMIx Standard: ...". */
static bool is_recent(const char *version)
{
    const char *digits = strpbrk(version, "0123456789");
    unsigned major, minor;

    return digits && sscanf(digits, "%u.%u", &major, &minor) == 2 &&
           (major > 4 || (major == 4 && minor >= 2));
}

static const char *load(void)
{
    /* Its own components link it again: the same, by its name. */
    void *so = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);

    if (!so)
        return MISSING;
#define FIND(name)                                                                                 \
    *(void **)&lib.name = dlsym(so, #name);                                                        \
    if (!lib.name)                                                                                 \
        return TOO_OLD;
    LIB_FUNCTIONS(FIND)
    return is_recent(lib.PMIx_Get_version()) ? NULL : TOO_OLD;
}

int lib_load(const char **why)
{
    static bool loaded;
    static const char *failure;

    if (!loaded)
        failure = load();
    loaded = true;
    *why = failure;
    return failure ? -1 : 0;
}
