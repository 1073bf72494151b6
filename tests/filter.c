/* SPDX-License-Identifier: BSD-3-Clause */
/* Linked into each cmocka program: `test_x --filter='*grow*'` runs the cases whose names match. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Of the whole command line, as musl passes a constructor no arguments. */
__attribute__((constructor)) static void read_filter(void)
{
    static char line[4096];
    FILE *in = fopen("/proc/self/cmdline", "r");
    size_t n = in ? fread(line, 1, sizeof(line) - 1, in) : 0;

    if (in)
        fclose(in);
    for (size_t i = 0; i < n; i += strlen(line + i) + 1)
        if (strncmp(line + i, "--filter=", 9) == 0)
            cmocka_set_test_filter(line + i + 9);
}
