/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The golden transcripts of tests/interop/transcripts, replayed through codec, server engine and
 * client session. Prints one line for each transcript; fails at any deviation that no table of
 * exceptions explains.
 *
 * usage: pmiwire_test_transcripts [DIR [CASE]]
 */
#include <stdio.h>
#include <string.h>

#include "transcript.h"

#ifndef TRANSCRIPTS_DIR
#define TRANSCRIPTS_DIR "."
#endif

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : TRANSCRIPTS_DIR;
    size_t n, n_transcripts = 0;
    struct recording *all = recordings_load(dir, &n);

    for (size_t i = 0; i < n; i++) {
        if (argc > 2 && strcmp(all[i].name, argv[2]) != 0)
            continue;
        replay_codec(&all[i]);
        replay_server(&all[i]);
        replay_client(&all[i]);
        n_transcripts += all[i].n_transcripts;
    }
    if (argc <= 2) {
        replay_codec_end();
        replay_server_end();
        replay_client_end();
    }
    printf("%zu cases, %zu transcripts, %u deviations\n", n, n_transcripts, n_deviations);
    recordings_free(all, n);
    return n_deviations != 0;
}
