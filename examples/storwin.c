/* SPDX-License-Identifier: BSD-3-Clause */
/* A window half in memory, half in a file, under one base address. */
#include <inttypes.h>
#include <stdio.h>
#include <storwin.h>
#include <string.h>

int main(void)
{
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_opts opts;
    struct storwin_window *win;
    struct storwin_error err;
    int rc;

    storwin_opts_init(&opts);
    opts.alloc_type = STORWIN_STORAGE;
    opts.filename = "half.win";
    opts.flags = STORWIN_UNLINK;
    rc = storwin_opts_set(&opts, "storage_alloc_factor", "0.5", &err);
    if (rc == 0)
        rc = storwin_alloc(&opts, 8 << 20, &win, &err);
    if (rc < 0) {
        fprintf(stderr, "half: %s: %s\n", err.hint, err.text);
        return 1;
    }
    memset(storwin_base(win), 'x', 8 << 20);
    rc = storwin_sync(win, 0, STORWIN_TO_END, &err);
    storwin_query(win, &info);
    printf("%" PRIu64 " bytes in memory, %" PRIu64 " on storage\n", info.memory_bytes,
           info.storage_bytes);
    return storwin_free(win, &err) < 0 || rc < 0;
}
