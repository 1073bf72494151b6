/* SPDX-License-Identifier: BSD-3-Clause */
/* asymreg_put_many() over shared memory and CMA: the data, by address and by registration,
 * the first failing entry, and a peer that has gone. */
#define _GNU_SOURCE
#include "targets.h"

enum { N = 3000, APART = 48, BYTES = 16, MOST = 100, PE = 3 };

static struct asymreg_context *c;
static struct asymreg_worker *w;
static unsigned char *memory, *expected;
static asymreg_id ids[N];
static uint32_t seed = 1;

static uint32_t rnd(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static void setup(uint32_t mode)
{
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    void *p = NULL;
    ssize_t n;

    c = open_context(mode, 0, N);
    if (mode == ASYMREG_LOCAL_SHM)
        CHECK_EQ(asymreg_segment_alloc(c, N * APART, &p, NULL), 0);
    else
        CHECK((p = calloc(N, APART)) != NULL);
    memory = p;
    CHECK((expected = calloc(N, APART)) != NULL);
    for (uint32_t i = 0; i < N; i++)
        CHECK_EQ(asymreg_register(c, memory + i * APART, BYTES, ASYMREG_RW, NULL, &ids[i], NULL),
                 0);
    CHECK((n = asymreg_export(c, blob, sizeof(blob), NULL)) > 0);
    CHECK_EQ(asymreg_import(c, PE, blob, (size_t)n, NULL), 0);
    CHECK_EQ(asymreg_worker_create(c, &w), 0);
}

static struct asymreg_transfer transfer(uint32_t region, void *here)
{
    uint32_t offset = rnd(BYTES), n = rnd(BYTES - offset + 1);

    return (struct asymreg_transfer){.raddr = (uintptr_t)memory + region * APART + offset,
                                     .id = rnd(2) ? ids[region] : ASYMREG_ANY,
                                     .here = here,
                                     .bytes = n};
}

/* Random lists of any length against plain copies; regions come and go meanwhile. */
static void moves(void)
{
    unsigned char here[MOST][BYTES];
    struct asymreg_transfer x[MOST];
    size_t done;

    for (int round = 0; round < 400; round++) {
        uint32_t n = rnd(MOST + 1), gone = rnd(N);
        for (uint32_t i = 0; i < n; i++) {
            x[i] = transfer(rnd(N), here[i]);
            for (uint32_t k = 0; k < BYTES; k++)
                here[i][k] = (unsigned char)rnd(256);
            memcpy(expected + (x[i].raddr - (uintptr_t)memory), here[i], x[i].bytes);
        }
        CHECK_EQ(asymreg_put_many(w, PE, x, n, &done), 0);
        CHECK_EQ(done, n);
        CHECK_EQ(asymreg_flush(w, PE), 0);
        CHECK(memcmp(memory, expected, N * APART) == 0);
        memset(here, 0, sizeof(here));
        for (uint32_t i = 0; i < n; i++)
            CHECK_EQ(asymreg_get_nb(w, PE, x[i].raddr, x[i].id, x[i].here, x[i].bytes, NULL), 0);
        CHECK_EQ(asymreg_flush(w, PE), 0);
        for (uint32_t i = 0; i < n; i++)
            CHECK(memcmp(here[i], expected + (x[i].raddr - (uintptr_t)memory), x[i].bytes) == 0);
        CHECK_EQ(asymreg_unregister(c, ids[gone]), 0);
        CHECK_EQ(
            asymreg_register(c, memory + gone * APART, BYTES, ASYMREG_RW, NULL, &ids[gone], NULL),
            0);
    }
}

/* One entry of a list fails: those before it have been begun, those behind it not. */
static void stops(void)
{
    static const int codes[] = {ASYMREG_ENOREGION, ASYMREG_ERANGE, ASYMREG_ESTALE, -EINVAL,
                                ASYMREG_EOVERFLOW};
    struct asymreg_transfer x[70];
    unsigned char byte = 0x5a;
    size_t done;

    for (uint32_t bad = 0; bad < 70; bad += 23)
        for (int code = 0; code < 5; code++) {
            memset(memory, 0, N * APART);
            for (uint32_t i = 0; i < 70; i++)
                x[i] =
                    (struct asymreg_transfer){(uintptr_t)memory + i * APART, ASYMREG_ANY, &byte, 1};
            if (code == 0)
                x[bad].raddr += BYTES;
            else if (code == 1)
                x[bad].bytes = BYTES + 1;
            else if (code == 2)
                x[bad].id = ids[bad] + (UINT64_C(2) << 32);
            else if (code == 3)
                x[bad].here = NULL;
            else
                x[bad].raddr = UINT64_MAX, x[bad].bytes = 2;
            done = 99;
            CHECK_EQ(asymreg_put_many(w, PE, x, 70, &done), codes[code]);
            CHECK_EQ(done, bad);
            CHECK_EQ(asymreg_flush(w, PE), 0);
            for (uint32_t i = 0; i < 70; i++)
                CHECK_EQ(memory[i * APART], i < bad ? 0x5a : 0);
        }
    CHECK_EQ(asymreg_put_many(w, PE, NULL, 0, &done), 0);
    CHECK_EQ(done, 0);
    done = 99;
    CHECK_EQ(asymreg_put_many(w, PE, NULL, 1, &done), -EINVAL);
    CHECK_EQ(done, 0);
    CHECK_EQ(asymreg_put_many(NULL, PE, x, 1, NULL), -EINVAL);
    CHECK_EQ(asymreg_put_many(w, PE + 1, x, 1, &done), ASYMREG_ENOPEER);
    CHECK_EQ(done, 0);
}

int main(void)
{
    static const uint32_t modes[] = {ASYMREG_LOCAL_SHM, ASYMREG_LOCAL_CMA};

    for (int i = 0; i < 2; i++) {
        setup(modes[i]);
        moves();
        stops();
        asymreg_worker_destroy(w);
        asymreg_close(c);
        free(expected);
        if (modes[i] == ASYMREG_LOCAL_CMA)
            free(memory);
    }
    puts("many puts and gets");
    return 0;
}
