/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys and values of any bytes: anybytes MODE, built with our libpmi.so.0 (TEST_PMI1), with our
 * libpmi2.so.0, and with Slurm's libpmi2 (TEST_SLURM), for jobs of all three. A rank that finds a
 * fault prints it and exits with 1; rank 0 prints "ok MODE".
 *
 *     values   every rank puts every value, and gets every rank's
 *     keys     the same with keys that only our libraries can express
 *     cards    as Open MPI 4's flux component uses libpmi: long base64 text in pieces, the
 *              last one padded with blanks
 *     nul      rank 0 is a client of libpmiwire that has put "nul" with a NUL in it: no C string
 *              can hold that, so a Get of it is an error
 *     refused  under another server: Put refuses what its wire cannot carry
 */
#include <stdlib.h>

#include "either.h"

enum { ROOM = 1100 };

#ifdef TEST_PMI1
enum { BAD_VALUE = PMI_ERR_INVALID_VAL };
#else
enum { BAD_VALUE = PMI2_ERR_INVALID_VAL };
#endif

static int get(const char *key, char value[ROOM])
{
    return get_value(key, value, ROOM);
}

/* ---- modes ---- */

enum { N_VALUES = 22 };

static const char *value_number(int i)
{
    static const char *const values[] = {
        "plain", "",      "42\n",    "a b",  " lead", "trail ", "  ",   "a=b b=c",
        "a;b",   ";",     ";;;",     ";a",   "a;",    "\tx",    "\1\2", "\303\251",
        "a\\b",  "\"q\"", "100%41%", "\r\n", NULL,    NULL};
    static char all[256], longest[1024];

    if (i == N_VALUES - 2) { /* each byte but NUL */
        for (int c = 1; c < 256; c++)
            all[c - 1] = (char)c;
        return all;
    }
    if (i == N_VALUES - 1) { /* the longest value, three times as long on the wire */
        memset(longest, ' ', 1023);
        return longest;
    }
    return values[i];
}

static void do_values(void)
{
    char key[64], value[ROOM];

    for (int i = 0; i < N_VALUES; i++) {
        snprintf(key, sizeof(key), "v-%d-%d", i, rank);
        CHECK_MSG(put_plain(key, value_number(i)) == OK, "put %d", i);
    }
    CHECK(fence() == OK);
    for (int who = 0; who < size; who++)
        for (int i = 0; i < N_VALUES; i++) {
            snprintf(key, sizeof(key), "v-%d-%d", i, who);
            memset(value, 'x', sizeof(value));
            CHECK_MSG(get(key, value) == OK && strcmp(value, value_number(i)) == 0, "get %d: %s", i,
                      value);
        }
}

static void do_keys(void)
{
    static const char *const keys[] = {"a b",  " ",    "k=v",      "k;v", "\n",  "%",
                                       "%41%", "\1\2", "\303\251", "\\",  "key", "=;= ;"};
    char key[64], value[ROOM], want[64];
    const int n = (int)(sizeof(keys) / sizeof(keys[0]));

    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "%s%d", keys[i], rank);
        snprintf(want, sizeof(want), "%d %d", i, rank);
        CHECK(put_plain(key, want) == OK);
    }
    CHECK(fence() == OK);
    for (int who = 0; who < size; who++)
        for (int i = 0; i < n; i++) {
            snprintf(key, sizeof(key), "%s%d", keys[i], who);
            snprintf(want, sizeof(want), "%d %d", i, who);
            CHECK_MSG(get(key, value) == OK && strcmp(value, want) == 0, "get %d: %s", i, key);
        }
}

/* Text of base64's letters, cut into pieces of the longest value, the last padded to a multiple of
 * four with blanks and closed by '-'. */
static void do_cards(void)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char key[64], piece[1024], value[ROOM];

    for (int who = -1; who < size; who++) { /* -1: our own are put */
        const int owner = who < 0 ? rank : who;
        const int bytes = 2500 + 37 * owner;

        for (int k = 0, at = 0; at < bytes; k++) {
            int n = 0;

            while (n < 1023 - 3 && at < bytes)
                piece[n++] = letters[(owner + at++ * 7) % 64];
            if (at == bytes) {
                piece[n++] = ' ';
                piece[n++] = ' ';
                piece[n++] = '-';
            }
            piece[n] = '\0';
            snprintf(key, sizeof(key), "1-%d-key%d", owner, k);
            if (who < 0)
                CHECK(put_plain(key, piece) == OK);
            else
                CHECK(get(key, value) == OK && strcmp(value, piece) == 0);
        }
        if (who < 0)
            CHECK(fence() == OK);
    }
}

#if !defined(TEST_PMI1) && !defined(TEST_SLURM)
/* The same from shared memory, where there is any. */
static void by_pointer(void)
{
    static const char *const keys[] = {"nul", "bare"};
    const char *values[2];
    int lengths[2], found, n, rc = PMI2_SHMEM_KVS_Get("bare", values, &n);

    if (rc == PMI2_ERR_OTHER) {
        CHECK(PMI2_SHMEM_KVS_Get("nul", values, &n) == PMI2_ERR_OTHER);
        return;
    }
    CHECK(rc == OK && n == 3 && strcmp(values[0], "a b") == 0);
    CHECK(PMI2_SHMEM_KVS_Get("nul", values, &n) == BAD_VALUE);
    CHECK(PMI2_SHMEM_KVS_Get_many(2, keys, values, lengths, &found) == OK && found == 1);
    CHECK(values[0] == NULL && strcmp(values[1], "a b") == 0 && lengths[1] == 3);
}
#endif

static void do_nul(void)
{
    char value[ROOM] = "as it was";
    int rc;

    CHECK(fence() == OK); /* rank 0 has put it */
    CHECK(get("bare", value) == OK && strcmp(value, "a b") == 0);
    rc = get("nul", value);
#ifdef TEST_SLURM
    CHECK(rc != OK);
#else
    CHECK(rc == BAD_VALUE && strcmp(value, "a b") == 0);
#endif
#if !defined(TEST_PMI1) && !defined(TEST_SLURM)
    by_pointer();
#endif
    CHECK(fence() == OK);
}

static void do_refused(void)
{
#ifdef TEST_PMI1
    CHECK(put_plain("k", "a b") == BAD_VALUE);
#else
    CHECK(put_plain("k", "a;b") == BAD_VALUE);
#endif
    CHECK(put_plain("k", "") == BAD_VALUE && put_plain("k", "a\nb") == BAD_VALUE);
    CHECK(put_plain("k", "plain") == OK && fence() == OK);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    init();
    if (strcmp(mode, "values") == 0)
        do_values();
    else if (strcmp(mode, "keys") == 0)
        do_keys();
    else if (strcmp(mode, "cards") == 0)
        do_cards();
    else if (strcmp(mode, "nul") == 0)
        do_nul();
    else if (strcmp(mode, "refused") == 0)
        do_refused();
    else
        CHECK(!"a mode");
    CHECK(fence() == OK);
    CHECK(finalize() == OK);
    if (rank == 0 || (rank == 1 && strcmp(mode, "nul") == 0))
        printf("ok %s\n", mode);
    CHECK(fflush(stdout) == 0);
    return 0;
}
