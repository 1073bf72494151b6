/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mapping_arrays [count]: mappings of random arrays against a naive search for the smallest period,
 * over many lengths, alphabets and shapes; and an encoder without memory.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire/mapping.h>

#include "../check.h"

#define MOST_RANKS 600u

static bool no_memory;

/* The linker gives the library's calloc() to this function. */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return no_memory ? NULL : __real_calloc(n, size);
}

static uint64_t rng_state = 0x2545f4914f6cdd1du;

static uint32_t rnd(uint32_t below)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (uint32_t)((rng_state >> 20) % below);
}

static uint32_t naive_period(const uint32_t *x, uint32_t n)
{
    for (uint32_t p = 1; p < n; p++) {
        uint32_t i = p;

        while (i < n && x[i] == x[i - p])
            i++;
        if (i == n)
            return p;
    }
    return n;
}

/* Noise, a list that repeats, the same with one rank elsewhere, Fibonacci words, or a border. */
static uint32_t make_array(uint32_t *x)
{
    const uint32_t n = rnd(rnd(4) ? 60 : MOST_RANKS) + 1, nodes = rnd(4) + 1, kind = rnd(5);
    const uint32_t period = rnd(n) + 1, border = rnd(n / 2 + 1);
    uint32_t a = 1, b = 2;

    for (uint32_t i = 0; i < n; i++)
        x[i] = kind == 0 || i < period ? rnd(nodes) : x[i - period];
    if (kind == 2)
        x[rnd(n)] = rnd(nodes);
    if (kind == 3) { /* each word is the one before it and the one before that: many borders */
        x[0] = 0;
        x[1] = 1;
        for (uint32_t next; b < n; a = b, b = next) {
            next = a + b < n ? a + b : n;
            memcpy(x + b, x, (next - b) * sizeof(*x));
        }
    }
    if (kind == 4) /* the end is a copy of the beginning */
        memcpy(x + n - border, x, border * sizeof(*x));
    return n;
}

/* Ranks that one pass over the list places; a list that is not folded may name more than n. */
static uint64_t count_covered(const struct pmiwire_mapping_block *b, uint32_t n_blocks)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n_blocks;) {
        const uint32_t len = b[i].group_len ? b[i].group_len : 1;
        const uint32_t rep = b[i].group_rep ? b[i].group_rep : 1;

        for (uint32_t k = 0; k < len; k++)
            sum += (uint64_t)b[i + k].n_nodes * b[i + k].ppn * rep;
        i += len;
    }
    return sum;
}

static void check_array(const uint32_t *x, uint32_t n)
{
    static char text[MOST_RANKS * 16 + 16];
    static struct pmiwire_mapping_block blocks[MOST_RANKS];
    static uint32_t y[MOST_RANKS];
    const uint32_t period = naive_period(x, n);

    for (uint32_t grammar = 0; grammar <= PMIWIRE_MAPPING_EXTENDED; grammar++) {
        ssize_t len = pmiwire_mapping_encode(x, n, grammar, SIZE_MAX, text, sizeof(text));
        uint32_t n_blocks;
        uint64_t covered;

        CHECK(len > 0);
        CHECK(pmiwire_mapping_parse((struct pmiwire_str){text, (size_t)len}, blocks, MOST_RANKS,
                                    &n_blocks, NULL) == 0);
        covered = count_covered(blocks, n_blocks);
        CHECK_MSG(period < n ? covered == period : covered >= n, "%u ranks, period %u: %s", n,
                  period, text);
        CHECK(pmiwire_mapping_expand(blocks, n_blocks, n, y) == 0);
        CHECK_MSG(memcmp(x, y, n * sizeof(*x)) == 0, "%u ranks: %s", n, text);
    }
}

static void check_no_memory(void)
{
    const uint32_t x[] = {0, 1, 0, 1};
    char text[64] = "as before";
    ssize_t len;

    no_memory = true;
    len = pmiwire_mapping_encode(x, 4, PMIWIRE_MAPPING_CLASSIC, 64, text, sizeof(text));
    no_memory = false;
    CHECK(len == -ENOMEM);
    CHECK(strcmp(text, "as before") == 0);
}

int main(int argc, char **argv)
{
    const long count = argc > 1 ? atol(argv[1]) : 3000;
    static uint32_t x[MOST_RANKS];

    check_no_memory();
    for (long i = 0; i < count; i++)
        check_array(x, make_array(x));
    return 0;
}
