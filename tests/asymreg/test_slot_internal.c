/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a slot while it is written, in every interleaving of the reader's loads and the writer's
 * stores: the reader finds a whole region that was there, or none. Real threads almost never meet
 * between two stores to one cache line.
 *
 * The library's own code runs here, with a hook at each of its loads and stores: those of the
 * writer are recorded, and done again from inside the reader.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <asymreg/base.h>

enum { MAX_STORES = 20, LOADS = 6 };

static struct store {
    void *at;
    size_t bytes;
    uint64_t value;
} stores[MAX_STORES];
static unsigned n_stores, n_loads, done;
static int recording, reading;
static unsigned due[LOADS]; /* stores that come before each load */

static void before_load(void)
{
    if (!reading)
        return;
    assert_true(n_loads < LOADS);
    for (; done < due[n_loads]; done++)
        memcpy(stores[done].at, &stores[done].value, stores[done].bytes);
    n_loads++;
}

static void after_store(void *at, size_t bytes)
{
    if (!recording)
        return;
    assert_true(n_stores < MAX_STORES && bytes <= sizeof(stores[0].value));
    stores[n_stores] = (struct store){.at = at, .bytes = bytes};
    memcpy(&stores[n_stores++].value, at, bytes);
}

#undef atomic_load_explicit
#undef atomic_store_explicit
#define atomic_load_explicit(at, order) (before_load(), *(at))
#define atomic_store_explicit(at, value, order)                                                    \
    do {                                                                                           \
        *(at) = (value);                                                                           \
        after_store(at, sizeof(*(at)));                                                            \
    } while (0)
#include "../../libasymreg/src/index/index.c"

/* Two regions that hold the same address. */
enum { ADDR = 1075 };
static const struct asymreg__slot one = {
    .start = 1000, .last = 1099, .prot = ASYMREG_READ, .value = 1, .generation = 5};
static const struct asymreg__slot other = {
    .start = 1050, .last = 1249, .prot = ASYMREG_RW, .value = 2, .generation = 7};

static int is(const struct asymreg_region *r, const struct asymreg__slot *s)
{
    return r->start == s->start && r->last == s->last && r->prot == s->prot &&
           r->value == s->value && r->id == asymreg__id(0, s->generation);
}

static struct asymreg__slot slot, before;
static unsigned n_orders, found_one, found_other;

static void read_once(const struct asymreg__index *ix)
{
    struct asymreg_region r = {0};

    slot = before;
    n_loads = done = 0;
    reading = 1;
    int found = asymreg__slot_read(ix, 0, ADDR, &r);
    reading = 0;
    n_orders++;
    if (!found)
        return;
    found_one += (unsigned)is(&r, &one);
    found_other += (unsigned)is(&r, &other);
    if (!is(&r, &one) && !is(&r, &other))
        fail_msg("stores before each load: %u %u %u %u %u %u of %u", due[0], due[1], due[2], due[3],
                 due[4], due[5], n_stores);
}

static void every_order(const struct asymreg__index *ix, unsigned load, unsigned least)
{
    if (load == LOADS) {
        read_once(ix);
        return;
    }
    for (due[load] = least; due[load] <= n_stores; due[load]++)
        every_order(ix, load + 1, due[load]);
}

/* The slot has `first`; then `n` things are written to it. */
static void written_meanwhile(const struct asymreg__slot *first,
                              const struct asymreg__slot *const *then, unsigned n)
{
    const struct asymreg__index ix = {.slots = &slot, .max_regions = 1};

    slot = before = *first;
    n_stores = n_orders = found_one = found_other = 0;
    recording = 1;
    for (unsigned i = 0; i < n; i++)
        asymreg__slot_write(&slot, then[i]);
    recording = 0;
    assert_memory_equal(&slot, then[n - 1], sizeof(slot));
    every_order(&ix, 0, 0);
    print_message("%u stores, %u orders: found the one in %u, the other in %u\n", n_stores,
                  n_orders, found_one, found_other);
}

static void comes_and_goes(void **state)
{
    static const struct asymreg__slot none = {.generation = 4};
    static struct asymreg__slot gone;
    const struct asymreg__slot *const turn[] = {&gone, &other};

    gone = one; /* what a region leaves behind */
    gone.generation++;
    written_meanwhile(&none, &(const struct asymreg__slot *){&one}, 1);
    assert_true(n_stores == 5 && found_one > 0 && found_other == 0);
    written_meanwhile(&one, &(const struct asymreg__slot *){&gone}, 1);
    assert_true(n_stores == 1 && found_one > 0);
    written_meanwhile(&one, turn, 2);
    assert_true(n_stores == 6 && found_one > 0 && found_other > 0);
}

/* As in a copy of a peer's table, which may show only a slot's next region. */
static void replaced(void **state)
{
    written_meanwhile(&one, &(const struct asymreg__slot *){&other}, 1);
    assert_true(n_stores == 6 && found_one > 0 && found_other > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(comes_and_goes),
                                       cmocka_unit_test(replaced)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
