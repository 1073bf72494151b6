/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nulputter 1|2: a client of libpmiwire on that wire, rank 0 of a job whose other ranks are
 * anybytes. It puts a value with a NUL in it under "nul", and "a b" under "bare", and reads both
 * back from the server. nulputter 1|2 gather: all ranks are nulputters; the last one gives a value
 * with a NUL to an Allgather, and each reads all values.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmiwire.h>

static struct pmiwire_client *pmi;
static int sock;

/* Moves bytes until the last request is answered; `rc` is the request's return code. */
static struct pmiwire_event complete(int rc)
{
    struct pmiwire_event event = {.rc = rc};
    char bytes[4096];
    const void *out;
    size_t n;

    while (rc == 0 && (rc = pmiwire_client_next(pmi, &event, NULL)) == 0) {
        while ((n = pmiwire_client_output(pmi, &out)) > 0 && write(sock, out, n) == (ssize_t)n)
            pmiwire_client_sent(pmi, n);
        ssize_t got = read(sock, bytes, sizeof(bytes));

        if (got > 0)
            pmiwire_client_input(pmi, bytes, (size_t)got);
        else
            pmiwire_client_eof(pmi);
    }
    if (rc < 0 || event.rc != 0) {
        fprintf(stderr, "nulputter: %s\n", pmiwire_strerror(rc < 0 ? rc : event.rc));
        exit(1);
    }
    return event;
}

static void gather(int rank, int n_ranks)
{
    static const struct pmiwire_str plain = {"a", 1}, nul = {"a\0b", 3};
    char key[64];

    complete(pmiwire_client_gather(pmi, rank == n_ranks - 1 ? nul : plain, 0));
    for (int r = 0; r < n_ranks; r++) {
        const struct pmiwire_str want = r == n_ranks - 1 ? nul : plain;
        struct pmiwire_event ev;

        snprintf(key, sizeof(key), "-allgather-0-%d", r);
        ev = complete(pmiwire_client_get(pmi, (struct pmiwire_str){NULL, 0}, -1, pmiwire_strz(key),
                                         PMIWIRE_GET_LOCAL, 0));
        if (ev.value.len != want.len || memcmp(ev.value.ptr, want.ptr, want.len) != 0) {
            fprintf(stderr, "nulputter: rank %d's value is another\n", r);
            exit(1);
        }
    }
    complete(pmiwire_client_finalize(pmi, 0));
    if (rank == 0)
        printf("ok gather\n");
}

int main(int argc, char **argv)
{
    struct pmiwire_client_opts opts = {.size = sizeof(opts), .flags = PMIWIRE_CLIENT_EXTENSIONS};
    const struct pmiwire_str none = {NULL, 0};
    const struct pmiwire_keyval pairs[] = {{{"nul", 3}, {"a\0b\n", 4}}, {{"bare", 4}, {"a b", 3}}};

    opts.wire = argc > 1 && atoi(argv[1]) == 2 ? PMIWIRE_V2 : PMIWIRE_V1;
    sock = atoi(getenv("PMI_FD"));
    opts.rank = atoi(getenv("PMI_RANK"));
    opts.n_ranks = atoi(getenv("PMI_SIZE"));
    if (pmiwire_client_create(&opts, &pmi) != 0)
        return 1;
    complete(0);
    if (argc > 2) {
        gather(opts.rank, opts.n_ranks);
        pmiwire_client_destroy(pmi);
        return 0;
    }
    for (int i = 0; i < 2; i++)
        complete(pmiwire_client_put(pmi, pairs[i].key, pairs[i].value, PMIWIRE_HINT_NONE, 0));
    complete(pmiwire_client_fence(pmi, none, 0));
    for (int i = 0; i < 2; i++) {
        struct pmiwire_event ev =
            complete(pmiwire_client_get(pmi, none, -1, pairs[i].key, PMIWIRE_GET_LOCAL, 0));

        if (ev.value.len != pairs[i].value.len ||
            memcmp(ev.value.ptr, pairs[i].value.ptr, ev.value.len) != 0)
            return fprintf(stderr, "nulputter: another value\n"), 1;
    }
    complete(pmiwire_client_fence(pmi, none, 0)); /* they have read it */
    complete(pmiwire_client_fence(pmi, none, 0));
    complete(pmiwire_client_finalize(pmi, 0));
    pmiwire_client_destroy(pmi);
    return 0;
}
