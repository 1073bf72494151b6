/* SPDX-License-Identifier: BSD-3-Clause */
/* Put with signal, and waiting; over shared memory and CMA. */
#define _GNU_SOURCE
#include "targets.h"

#include <pthread.h>

#define PE    3u
#define TIMES 2000u

static struct asymreg_context *c;
static struct asymreg_worker *w;
static char *memory;

static void setup(uint32_t mode)
{
    static char private_memory[8192] __attribute__((aligned(64)));
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    void *p = private_memory;
    ssize_t n;

    c = open_context(mode, 0, 64);
    if (mode == ASYMREG_LOCAL_SHM)
        CHECK_EQ(asymreg_segment_alloc(c, 8192, &p, NULL), 0);
    memory = p;
    memset(memory, 0, 8192);
    CHECK_EQ(asymreg_register(c, memory, 4096, ASYMREG_ALL, NULL, NULL, NULL), 0);
    CHECK((n = asymreg_export(c, blob, sizeof(blob), NULL)) > 0);
    CHECK_EQ(asymreg_import(c, PE, blob, (size_t)n, NULL), 0);
    CHECK_EQ(asymreg_worker_create(c, &w), 0);
}

static void teardown(void)
{
    asymreg_worker_destroy(w);
    asymreg_close(c);
}

static uint64_t there(size_t offset)
{
    return (uintptr_t)memory + offset;
}

/* Waits for each signal, checks the data that came before it, and acknowledges. */
static void *consumer(void *arg)
{
    struct asymreg_worker *mine = arg;
    uint64_t seen;

    for (uint64_t i = 1; i <= TIMES; i++) {
        CHECK_EQ(asymreg_wait_until(mine, memory + 64, 8, ASYMREG_CMP_GE, i, 60000), 0);
        memcpy(&seen, memory + 128, 8);
        CHECK_EQ(seen, i * 3);
        __atomic_store_n((uint64_t *)(void *)(memory + 192), i, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void signals(uint32_t mode)
{
    struct asymreg_signal s = {.addr = there(64), .what = ASYMREG_AMO_SET}, bad;
    int adds = mode == ASYMREG_LOCAL_SHM;
    struct asymreg_worker *other;
    pthread_t thread;
    uint64_t data;

    CHECK_EQ(asymreg_worker_create(c, &other), 0);
    CHECK(pthread_create(&thread, NULL, consumer, other) == 0);
    for (uint64_t i = 1; i <= TIMES; i++) {
        data = i * 3;
        s.what = adds && i % 2 ? ASYMREG_AMO_ADD : ASYMREG_AMO_SET;
        s.value = s.what == ASYMREG_AMO_ADD ? 1 : i;
        CHECK_EQ(asymreg_put_signal(w, PE, there(128), ASYMREG_ANY, &data, 8, &s), 0);
        CHECK_EQ(asymreg_wait_until(w, memory + 192, 8, ASYMREG_CMP_EQ, i, 60000), 0);
    }
    pthread_join(thread, NULL);
    asymreg_worker_destroy(other);
    /* Without data: the signal alone. A refused put: no signal. */
    s = (struct asymreg_signal){.addr = there(64), .what = ASYMREG_AMO_SET, .value = 1};
    CHECK_EQ(asymreg_put_signal(w, PE, 0, ASYMREG_ANY, NULL, 0, &s), 0);
    s.value = 2;
    CHECK_EQ(asymreg_put_signal(w, PE, there(4090), ASYMREG_ANY, &data, 8, &s), ASYMREG_ERANGE);
    CHECK_EQ(asymreg_put_signal(w, PE, there(0), ASYMREG_ANY, NULL, 8, &s), -EINVAL);
    bad = s;
    bad.addr++;
    CHECK_EQ(asymreg_put_signal(w, PE, there(0), ASYMREG_ANY, &data, 8, &bad), ASYMREG_EALIGN);
    bad = s;
    bad.what = ASYMREG_AMO_SWAP;
    CHECK_EQ(asymreg_put_signal(w, PE, there(0), ASYMREG_ANY, &data, 8, &bad), -EINVAL);
    CHECK_EQ(asymreg_put_signal(w, PE, there(0), ASYMREG_ANY, &data, 8, NULL), -EINVAL);
    CHECK_EQ(asymreg_wait_until(w, memory + 64, 8, ASYMREG_CMP_EQ, 1, 0), 0);
    if (!adds) {
        s.what = ASYMREG_AMO_ADD;
        CHECK_EQ(asymreg_put_signal(w, PE, there(0), ASYMREG_ANY, &data, 8, &s), ASYMREG_ENOTSUP);
    }
}

static void comparisons(void)
{
    static const struct {
        uint32_t compare, bytes;
        uint64_t here, value;
        int holds;
    } t[] = {{ASYMREG_CMP_EQ, 8, 5, 5, 1},
             {ASYMREG_CMP_EQ, 8, 5, 6, 0},
             {ASYMREG_CMP_NE, 8, 5, 6, 1},
             {ASYMREG_CMP_NE, 4, 5, 5, 0},
             {ASYMREG_CMP_LT, 8, 5, 6, 1},
             {ASYMREG_CMP_LT, 8, 6, 6, 0},
             {ASYMREG_CMP_LE, 8, 6, 6, 1},
             {ASYMREG_CMP_LE, 8, 7, 6, 0},
             {ASYMREG_CMP_GT, 8, 7, 6, 1},
             {ASYMREG_CMP_GT, 8, 6, 6, 0},
             {ASYMREG_CMP_GE, 8, 6, 6, 1},
             {ASYMREG_CMP_GE, 8, 5, 6, 0},
             {ASYMREG_CMP_GT, 8, UINT64_MAX, 0, 1},
             {ASYMREG_CMP_GT | ASYMREG_CMP_SIGNED, 8, UINT64_MAX, 0, 0},
             {ASYMREG_CMP_LT | ASYMREG_CMP_SIGNED, 4, 0xffffffff, 0, 1},
             {ASYMREG_CMP_LT, 4, 0xffffffff, 0, 0},
             {ASYMREG_CMP_EQ, 4, 0xffffffff, UINT64_MAX, 1}};

    for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
        memcpy(memory + 256, &t[i].here, 8);
        CHECK_EQ(asymreg_wait_until(w, memory + 256, t[i].bytes, t[i].compare, t[i].value, 0),
                 t[i].holds ? 0 : ASYMREG_ETIMEDOUT);
    }
    CHECK_EQ(asymreg_wait_until(w, memory + 256, 8, ASYMREG_CMP_EQ, 1, 20), ASYMREG_ETIMEDOUT);
    CHECK_EQ(asymreg_progress(w), 0); /* nothing is pending */
    CHECK_EQ(asymreg_wait_until(NULL, memory, 8, ASYMREG_CMP_EQ, 1, 0), -EINVAL);
    CHECK_EQ(asymreg_wait_until(w, NULL, 8, ASYMREG_CMP_EQ, 1, 0), -EINVAL);
    CHECK_EQ(asymreg_wait_until(w, memory, 2, ASYMREG_CMP_EQ, 1, 0), -EINVAL);
    CHECK_EQ(asymreg_wait_until(w, memory, 8, 6, 1, 0), -EINVAL);
    CHECK_EQ(asymreg_wait_until(w, memory + 4, 8, ASYMREG_CMP_EQ, 1, 0), ASYMREG_EALIGN);
}

int main(void)
{
    static const uint32_t modes[] = {ASYMREG_LOCAL_SHM, ASYMREG_LOCAL_CMA};

    for (int i = 0; i < 2; i++) {
        setup(modes[i]);
        signals(modes[i]);
        comparisons();
        teardown();
    }
    puts("signals and waits");
    return 0;
}
