/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs that use pmirun's channel.c alone: its memory, as local/util.c has it. */
#include "../../examples/pmirun/local/util.h"

#include <stdlib.h>

void *xrealloc(void *p, size_t bytes)
{
    void *q = realloc(p, bytes ? bytes : 1);

    if (!q)
        abort();
    return q;
}
