/* SPDX-License-Identifier: BSD-3-Clause */
/* storage_alloc_generations: the last N commits of a file open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "commit_test_internal.h"

static struct storwin_opts generation_opts(uint64_t n)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_SLOTS);

    opts.generations = n;
    return opts;
}

/* Commits up to this generation, each a change of another quarter of the pages. */
static void commit_up_to(struct storwin_window *win, uint64_t generation)
{
    while (window_info(win).generation < generation) {
        fill(storwin_base(win), BYTES, (unsigned)window_info(win).generation + 1);
        commit_window(win);
    }
}

/* Opens a generation for reading, and for writing without a commit. */
static void check_generation(struct storwin_opts opts, uint64_t generation)
{
    struct storwin_window *win;
    struct storwin_error err;

    opts.generation = generation;
    if (storwin_open_read(&opts, &win, &err) < 0)
        fail_msg("generation %u: %s", (unsigned)generation, err.text);
    assert_int_equal(window_info(win).generation, generation);
    assert_true(holds(storwin_base(win), BYTES, (unsigned)generation));
    discard(win);
    win = alloc_window(&opts, BYTES);
    assert_int_equal(window_info(win).generation, generation);
    assert_true(holds(storwin_base(win), BYTES, (unsigned)generation));
    discard(win);
}

static void last_ones(void **state)
{
    static const uint64_t numbers[] = {2, 3, 5, STORWIN_MAX_GENERATIONS};

    for (unsigned i = 0; i < 4; i++) {
        const uint64_t n = numbers[i];
        struct storwin_opts opts = generation_opts(n);
        struct storwin_info_file file = {.size = sizeof(file)};
        struct storwin_error err;

        for (uint64_t newest = 1; newest < 2 * n + 3; newest++) {
            struct storwin_window *win = alloc_window(&opts, BYTES);
            uint64_t g = newest;

            commit_up_to(win, newest);
            discard(win);
            for (; g > 0 && g + n > newest; g--)
                check_generation(opts, g);
            assert_int_equal(storwin_file_query(&opts, &file, NULL), 0);
            assert_int_equal(file.generations, n);
            for (unsigned known = 1; file.older_generation > 0; known++) {
                assert_true(known < n);
                assert_int_equal(file.older_generation, file.generation - 1);
                opts.generation = file.older_generation;
                assert_int_equal(storwin_file_query(&opts, &file, NULL), 0);
            }
            opts.generation = g;
            if (g > 0)
                assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_ENONE);
            opts.generation = 0;
        }
        assert_int_equal(file_size(opts.filename),
                         n * STORWIN__PLACE_BYTES +
                             n * storwin__round_up(BYTES, STORWIN__AREA_UNIT));
        unlink(opts.filename);
    }
}

/* The requested generation is damaged, and the one before it, of a shorter state, opens: nothing of
 * the damaged one comes with it, neither behind its end nor into the next commit. */
static void damaged_and_longer(void **state)
{
    const uint64_t longer = BYTES + 20000; /* in the same areas */
    struct storwin_opts opts = generation_opts(3);
    struct storwin_window *win = alloc_window(&opts, BYTES);
    uint8_t *base;

    commit_up_to(win, 1);
    discard(win);
    win = alloc_window(&opts, longer);
    for (unsigned g = 2; g <= 3; g++) {
        fill(storwin_base(win), longer, g);
        commit_window(win);
    }
    discard(win);
    write_file(opts.filename, 3 * STORWIN__PLACE_BYTES + 5 * STORWIN__AREA_UNIT, "oops", 4);
    opts.generation = 2;
    win = alloc_window(&opts, longer);
    base = storwin_base(win);
    assert_int_equal(window_info(win).generation, 1);
    assert_true(holds(base, BYTES, 1));
    for (uint64_t i = BYTES; i < longer; i++)
        assert_int_equal(base[i], 0);
    base[0] ^= 1;
    commit_window(win);
    discard(win);
    opts.generation = 0;
    win = alloc_window(&opts, longer);
    base = storwin_base(win);
    base[0] ^= 1;
    assert_true(holds(base, BYTES, 1));
    assert_int_equal(base[longer - 1], 0);
    discard(win);
    unlink(opts.filename);
}

/* A file keeps its number: other hints are refused by name, and change nothing. */
static void fixed(void **state)
{
    struct storwin_opts opts = generation_opts(4), bad = opts;
    struct storwin_window *win = alloc_window(&opts, BYTES);
    struct storwin_error err;
    char text[8];

    commit_up_to(win, 5);
    assert_int_equal(storwin_hint_query(win, "storage_alloc_generations", text, sizeof(text)), 1);
    assert_string_equal(text, "4");
    discard(win);
    for (bad.generations = 2; bad.generations < 6;
         bad.generations += bad.generations == 3 ? 2 : 1) {
        assert_int_equal(open_fails(&bad, 4 * BYTES, &err), STORWIN_EVALUE);
        assert_string_equal(err.hint, "storage_alloc_generations");
        assert_non_null(strstr(err.text, "keeps 4"));
    }
    bad.generations = 0;
    bad.atomic = STORWIN_ATOMIC_AUTO;
    assert_int_equal(open_fails(&bad, BYTES, &err), STORWIN_ECONFLICT);
    assert_non_null(strstr(err.text, "slots"));
    bad.generations = 4;
    assert_int_equal(open_fails(&bad, BYTES, &err), STORWIN_ECONFLICT);
    bad.generations = 1;
    assert_int_equal(open_fails(&bad, BYTES, &err), STORWIN_EVALUE);
    bad.generations = 17;
    assert_int_equal(open_fails(&bad, BYTES, &err), STORWIN_EVALUE);
    check_generation(opts, 2);
    opts.generations = 0; /* the file's */
    win = alloc_window(&opts, BYTES);
    commit_up_to(win, 6);
    discard(win);
    check_generation(opts, 3);
    unlink(opts.filename);
    opts.generations = 2; /* the layout without the hint */
    win = alloc_window(&opts, BYTES);
    commit_up_to(win, 3);
    discard(win);
    opts.generations = 4;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EVALUE);
    opts.generations = 0;
    opts.atomic = STORWIN_ATOMIC_JOURNAL;
    win = alloc_window(&opts, BYTES);
    commit_up_to(win, 5);
    discard(win);
    unlink(opts.filename);
    opts = generation_opts(3);
    for (unsigned g = 1; g <= 3; g += 2) { /* the first commit tells it already */
        win = alloc_window(&opts, BYTES);
        commit_up_to(win, g);
        discard(win);
        opts.generations = 0;
    }
    for (unsigned g = 1; g <= 3; g++)
        check_generation(opts, g);
    unlink(opts.filename);
}

/* An older generation is opened and committed: later ones are gone, earlier ones still there. */
static void goes_back(void **state)
{
    struct storwin_opts opts = generation_opts(5);
    struct storwin_window *win = alloc_window(&opts, BYTES);
    struct storwin_info_file file = {.size = sizeof(file)};
    struct storwin_error err;

    commit_up_to(win, 7);
    discard(win);
    opts.generation = 4;
    win = alloc_window(&opts, BYTES);
    fill(storwin_base(win), BYTES, 8);
    commit_window(win);
    assert_int_equal(window_info(win).generation, 8);
    discard(win);
    for (opts.generation = 5; opts.generation < 8; opts.generation++) {
        win = alloc_window(&opts, BYTES); /* the newest up to it */
        assert_int_equal(window_info(win).generation, 4);
        discard(win);
    }
    opts.generation = 0;
    assert_int_equal(storwin_file_query(&opts, &file, NULL), 0);
    assert_int_equal(file.older_generation, 4);
    check_generation(opts, 8);
    check_generation(opts, 4);
    check_generation(opts, 3);
    win = alloc_window(&opts, BYTES);
    commit_up_to(win, 12);
    discard(win);
    for (uint64_t g = 8; g < 13; g++)
        check_generation(opts, g);
    opts.generation = 4;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_ENONE);
    unlink(opts.filename);
}

/* Areas share no byte: damage of one leaves the others; nor does a commit that fails, but for the
 * oldest. */
static void damage(void **state)
{
    struct storwin_opts opts = generation_opts(3);
    struct storwin_window *win = alloc_window(&opts, BYTES);
    struct storwin_error err;

    commit_up_to(win, 7);
    fill(storwin_base(win), BYTES, 99);
    failing_flush = 1;
    assert_int_equal(storwin_commit(win, &err), -EIO);
    discard(win);
    check_generation(opts, 7);
    check_generation(opts, 6);
    opts.generation = 5;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EDAMAGED);
    opts.generation = 0;
    win = alloc_window(&opts, BYTES);
    commit_up_to(win, 9);
    write_file(opts.filename,
               3 * STORWIN__PLACE_BYTES +
                   win->commit->last.home * storwin__round_up(BYTES, STORWIN__AREA_UNIT) + 70000,
               "oops", 4);
    discard(win);
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EDAMAGED);
    assert_non_null(strstr(err.text, "generation 8 is whole"));
    check_generation(opts, 8);
    check_generation(opts, 7);
    unlink(opts.filename);
}

/* A longer window: the areas move, and earlier generations stay until they are replaced. */
static void longer(void **state)
{
    const uint64_t bytes[] = {BYTES, 3 * BYTES, 9 * BYTES};
    struct storwin_opts opts = generation_opts(3);
    uint64_t newest = 0;

    for (unsigned i = 0; i < 3; i++)
        for (unsigned round = 0; round < 4; round++) {
            struct storwin_window *win = alloc_window(&opts, bytes[i]);
            const uint64_t g = ++newest;

            fill(storwin_base(win), bytes[i], (unsigned)g);
            commit_window(win);
            if (round % 2) {
                memset(storwin_base(win), 'x', bytes[i]);
                assert_int_equal(storwin_revert(win, NULL), 0);
                assert_true(holds(storwin_base(win), bytes[i], (unsigned)g));
            }
            discard(win);
            for (opts.generation = g; opts.generation > 0 && opts.generation + 3 > g;
                 opts.generation--) {
                const unsigned length = (unsigned)(opts.generation - 1) / 4;

                assert_int_equal(storwin_open_read(&opts, &win, NULL), 0);
                assert_int_equal(window_info(win).bytes, bytes[length]);
                assert_true(holds(storwin_base(win), bytes[length], (unsigned)opts.generation));
                discard(win);
            }
            opts.generation = 0;
        }
    unlink(opts.filename);
}

static void adopted(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("commit"));
    uint8_t *at = calloc(1, BYTES);
    struct storwin_window *win;

    opts.generations = 3;
    assert_int_equal(storwin_adopt(at, BYTES, &opts, &win, NULL), 0);
    assert_int_equal(window_info(win).atomic, STORWIN_ATOMIC_SLOTS);
    commit_up_to(win, 4);
    discard(win);
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = STORWIN_ATOMIC_SLOTS;
    check_generation(opts, 2);
    unlink(opts.filename);
    free(at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_ones),
        cmocka_unit_test(fixed),
        cmocka_unit_test(goes_back),
        cmocka_unit_test(damage),
        cmocka_unit_test(longer),
        cmocka_unit_test(adopted),
        cmocka_unit_test(damaged_and_longer),
    };

    commit_test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
