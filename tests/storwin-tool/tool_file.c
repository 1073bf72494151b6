/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_file FILE HINTS COMMITS [MS]: commits a state of 100,000 bytes, each full of the last digit
 * of its generation; then holds the file for some milliseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <storwin.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct storwin_hint hints[8];
    struct storwin_window *win;
    struct storwin_error err;
    struct storwin_opts opts;
    int n, rc = 0;

    if (argc < 4)
        return 2;
    storwin_opts_init(&opts);
    n = storwin_hints_split(argv[2], hints, 8, &err);
    for (int i = 0; rc == 0 && i < n; i++)
        rc = storwin_opts_set(&opts, hints[i].key, hints[i].value, &err);
    opts.alloc_type = STORWIN_STORAGE;
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.filename = argv[1];
    opts.flags = STORWIN_DISCARD;
    if (n < 0 || rc != 0 || storwin_alloc(&opts, 100000, &win, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (int i = atoi(argv[3]); rc == 0 && i > 0; i--) {
        struct storwin_info info = {.size = sizeof(info)};

        (void)storwin_query(win, &info);
        memset(storwin_base(win), '0' + (int)((info.generation + 1) % 10), 100000);
        rc = storwin_commit(win, &err);
    }
    puts("committed");
    fflush(stdout);
    if (argc > 4)
        usleep((useconds_t)atoi(argv[4]) * 1000);
    return storwin_free(win, NULL) < 0 || rc < 0;
}
