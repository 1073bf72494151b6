/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic commits: what a window commits, under which number, and how changes are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "commit_test_internal.h"

#include <sys/resource.h>
#include <sys/wait.h>

/* Commits of every density beside a model; the window is opened anew now and then. */
static void random_commits(uint32_t atomic, unsigned without)
{
    struct storwin_opts opts = commit_opts(atomic);
    struct storwin_window *win;
    uint8_t *model = calloc(1, BYTES), *base;
    uint64_t rng = 7 + atomic + without, generation = 0;

    atomic_store(&storwin__without, without);
    atomic_store(&storwin__sum_min, without ? 256 : 1);
    win = alloc_window(&opts, BYTES);
    assert_int_equal(window_info(win).recovery, STORWIN_RECOVERY_NONE);
    for (unsigned round = 0; round < 20; round++) {
        const unsigned n = round % 10 == 7 ? 4000 : round % 4 * 2;

        base = storwin_base(win);
        for (unsigned i = 0; i < n; i++) {
            const uint64_t at = test_random(&rng) % BYTES;

            base[at] = model[at] = (uint8_t)(test_random(&rng) | 1);
        }
        if (round % 3 == 1)
            assert_int_equal(storwin_sync(win, 5, 1, NULL), 0);
        else
            commit_window(win);
        assert_ptr_equal(base, storwin_base(win));
        generation += n > 0 || round == 0;
        if (without < STORWIN__NO_SCAN) /* a store of what was there is a change by page tables */
            assert_int_equal(window_info(win).generation, generation);
        generation = window_info(win).generation;
        if (round % 5 == 4) {
            memset(base, 'x', BYTES / 2); /* never committed */
            discard(win);
            win = alloc_window(&opts, BYTES);
            assert_int_equal(window_info(win).generation, generation);
            assert_int_equal(window_info(win).recovery, STORWIN_RECOVERY_CLEAN);
            assert_memory_equal(storwin_base(win), model, BYTES);
        }
    }
    fill(storwin_base(win), BYTES, 1);
    assert_int_equal(storwin_free(win, NULL), 0); /* commits */
    win = alloc_window(&opts, BYTES);
    assert_true(holds(storwin_base(win), BYTES, 1));
    discard(win);
    unlink(opts.filename);
    free(model);
}

static void commits(void **state)
{
    for (unsigned a = 0; a < 3; a++)
        for (unsigned w = 0; w < N_WITHOUTS; w++)
            random_commits(atomics[a], withouts[w]);
    atomic_store(&storwin__without, STORWIN__NO_DIRECT);
}

/* A journal that fills up many times; single pages. */
static void journal_wraps(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_JOURNAL);
    struct storwin_window *win = alloc_window(&opts, BYTES);
    uint8_t *base = storwin_base(win);

    fill(base, BYTES, 0);
    for (unsigned round = 1; round <= 300; round++) {
        base[round * 5000 % BYTES] = (uint8_t)round;
        commit_window(win);
        if (round % 23 == 0) {
            uint8_t *was = malloc(BYTES);

            memcpy(was, base, BYTES);
            discard(win);
            win = alloc_window(&opts, BYTES);
            base = storwin_base(win);
            assert_memory_equal(base, was, BYTES);
            free(was);
        }
    }
    assert_int_equal(window_info(win).generation, 300);
    discard(win);
    unlink(opts.filename);
}

static uint8_t *racing;

static void store_into_it(void)
{
    racing[BYTES / 2]++;
}

/* A store between the first page that is written and the record: the commit has it or not, and the
 * next one has it. */
static void races(void **state)
{
    for (unsigned a = 0; a < 3; a++)
        for (unsigned w = 0; w < 3; w++) {
            struct storwin_opts opts = commit_opts(atomics[a]);
            struct storwin_window *win;

            atomic_store(&storwin__without, withouts[w]);
            win = alloc_window(&opts, BYTES);
            racing = storwin_base(win);
            fill(racing, BYTES, 1);
            commit_window(win);
            racing[17] = 'x';
            before_flush = store_into_it;
            assert_int_equal(storwin_commit(win, NULL), 0);
            assert_int_equal(window_info(win).generation, 2);
            commit_window(win); /* with both stores */
            discard(win);
            win = alloc_window(&opts, BYTES);
            racing = storwin_base(win);
            assert_int_equal(racing[17], 'x');
            racing[17] = (uint8_t)(17 * 31 / 7 + 13);
            racing[BYTES / 2]--;
            assert_true(holds(racing, BYTES, 1));
            discard(win);
            unlink(opts.filename);
        }
    atomic_store(&storwin__without, STORWIN__NO_DIRECT);
}

/* Two windows under one number: the first decides. Everything stops after `steps` commits; both
 * come back as of the last number that the first has. */
static void stop_after(unsigned steps, unsigned unchanged)
{
    struct storwin_opts opts[2] = {commit_opts(STORWIN_ATOMIC_AUTO),
                                   commit_opts(STORWIN_ATOMIC_AUTO)};
    struct storwin_window *win[2];
    uint64_t decided = 0;

    opts[1].filename = test_path("other");
    for (unsigned i = 0; i < 2; i++)
        win[i] = alloc_window(&opts[i], BYTES);
    for (unsigned step = 0; step < steps; step++) {
        const uint64_t generation = 10 + step / 2 * 10;
        const unsigned which = 1 - step % 2;
        uint8_t *base = storwin_base(win[which]);

        if (step < 2)
            fill(base, BYTES, 1);
        else if (step / 2 % 2 != unchanged || which == 0)
            base[7] = base[200000] = (uint8_t)(step / 2);
        assert_int_equal(storwin_commit_generation(win[which], generation, NULL), 0);
        assert_int_equal(storwin_commit_generation(win[which], generation, NULL), STORWIN_EVALUE);
        decided = which == 0 ? generation : decided;
    }
    discard(win[0]);
    discard(win[1]);
    win[0] = alloc_window(&opts[0], BYTES);
    assert_int_equal(window_info(win[0]).generation, decided);
    opts[1].generation = decided;
    win[1] = alloc_window(&opts[1], BYTES);
    if (decided > 0) {
        const unsigned round = (unsigned)decided / 10 - 1;
        const unsigned last = round > 0 && round % 2 == unchanged ? round - 1 : round;
        const uint8_t *base = storwin_base(win[1]);

        assert_int_equal(base[8], (uint8_t)(8 * 31 / 7 + 13));
        assert_int_equal(base[7], last ? last : (uint8_t)(7 * 31 / 7 + 13));
        assert_int_equal(base[200000], last ? last : (uint8_t)(UINT64_C(200000) * 31 / 7 + 13));
        assert_int_equal(
            storwin_commit_generation(win[1], window_info(win[1]).newest_generation + 1, NULL), 0);
    }
    discard(win[0]);
    discard(win[1]);
    unlink(opts[0].filename);
    unlink(opts[1].filename);
}

static void together(void **state)
{
    for (unsigned steps = 2; steps < 14; steps++)
        for (unsigned unchanged = 0; unchanged < 3; unchanged++)
            stop_after(steps, unchanged);
}

/* A flush fails, of the data or of the record: the same number again, but not for other data. */
static void again(void **state)
{
    for (unsigned flush = 1; flush < 3; flush++)
        for (unsigned a = 0; a < 3; a++) {
            struct storwin_opts opts = commit_opts(atomics[a]);
            struct storwin_window *win = alloc_window(&opts, BYTES);
            struct storwin_error err;

            fill(storwin_base(win), BYTES, 1);
            commit_window(win);
            fill(storwin_base(win), BYTES, 2);
            failing_flush = flush;
            assert_int_equal(storwin_commit_generation(win, 9, &err), -EIO);
            assert_int_equal(window_info(win).generation, 1);
            if (flush == 2) {
                failing_flush = 1;
                assert_int_equal(storwin_commit_generation(win, 9, &err), -EIO);
            }
            assert_int_equal(storwin_commit_generation(win, 9, &err), 0);
            assert_int_equal(window_info(win).generation, 9);
            fill(storwin_base(win), BYTES, 3);
            failing_flush = 2;
            assert_int_equal(storwin_commit_generation(win, 10, &err), -EIO);
            fill(storwin_base(win), BYTES, 4);
            assert_int_equal(storwin_commit_generation(win, 10, &err), STORWIN_ERACE);
            commit_window(win);
            assert_int_equal(window_info(win).generation, 11);
            discard(win);
            for (opts.generation = 10; opts.generation < 12; opts.generation++) {
                win = alloc_window(&opts, BYTES);
                assert_true(holds(storwin_base(win), BYTES, (unsigned)opts.generation - 7));
                discard(win);
            }
            unlink(opts.filename);
        }
}

/* No free descriptor: a commit needs none. */
static void no_descriptors(void **state)
{
    for (unsigned w = 0; w < 3; w++) {
        struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO);
        struct storwin_window *win;
        struct rlimit was, none;

        atomic_store(&storwin__without, withouts[w] | STORWIN__NO_DIRECT);
        win = alloc_window(&opts, BYTES);
        fill(storwin_base(win), BYTES, 1);
        commit_window(win);
        ((uint8_t *)storwin_base(win))[9] ^= 1;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
        none = was;
        none.rlim_cur = 3;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        commit_window(win);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
        assert_int_equal(window_info(win).generation, 2);
        discard(win);
        unlink(opts.filename);
    }
    atomic_store(&storwin__without, STORWIN__NO_DIRECT);
}

/* Blocks for direct I/O are aligned, whatever the allocator returns. */
static void aligned_blocks(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO);
    struct storwin_window *win = alloc_window(&opts, BYTES);

    for (uint64_t i = 0; i < 20; i++) {
        void *whole;
        uint8_t *at = storwin__blocks_alloc(win, i * 1000 + 1, &whole);

        assert_non_null(at);
        assert_int_equal((uintptr_t)at % STORWIN__BLOCK, 0);
        memset(at, 1, i * 1000 + 1);
        storwin__free(NULL, whole);
    }
    discard(win);
    unlink(opts.filename);
}

static void arguments(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO);
    struct storwin_window *win;
    struct storwin_error err;
    char text[32];
    int status;
    pid_t pid;

    opts.pager = STORWIN_PAGER_KERNEL;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_ECONFLICT);
    assert_string_equal(err.hint, "storage_alloc_atomic");
    assert_non_null(strstr(err.text, "the pager kernel writes"));
    opts.pager = STORWIN_PAGER_USER;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_ECONFLICT);
    assert_non_null(strstr(err.text, "the pager user writes"));
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = 4;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EVALUE);
    opts.atomic = STORWIN_ATOMIC_AUTO;
    opts.changes = 1; /* an earlier release's value */
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EVALUE);
    opts.changes = 3;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EVALUE);
    opts.changes = 0;
    assert_int_equal(open_fails(&opts, STORWIN_MAX_BYTES / 4 + 1, &err), -EINVAL);
    opts.generation = 1;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_ENONE);
    assert_int_equal(file_size(opts.filename), UINT64_MAX);
    opts.generation = 0;
    opts.factor_ppb = STORWIN_FACTOR_ONE / 2; /* memory first: that is not committed */
    win = alloc_window(&opts, BYTES);
    fill(storwin_base(win), BYTES, 5);
    commit_window(win);
    assert_int_equal(storwin_hint_query(win, "storage_alloc_atomic", text, sizeof(text)), 4);
    assert_string_equal(text, "auto");
    assert_int_equal(storwin_commit(NULL, &err), -EINVAL);
    pid = fork();
    if (pid == 0) {
        alarm(100);
        _exit(storwin_commit(win, NULL) != STORWIN_ESTATE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    discard(win);
    win = alloc_window(&opts, BYTES);
    memset(storwin_base(win), 0, 1); /* of the memory part: zeros */
    assert_memory_equal(
        (char *)storwin_base(win) + BYTES - 5,
        ((uint8_t[]){(uint8_t)((BYTES - 5) * 31 / 7 + 65), (uint8_t)((BYTES - 4) * 31 / 7 + 65),
                     (uint8_t)((BYTES - 3) * 31 / 7 + 65), (uint8_t)((BYTES - 2) * 31 / 7 + 65),
                     (uint8_t)((BYTES - 1) * 31 / 7 + 65)}),
        5);
    discard(win);
    unlink(opts.filename);
    win = NULL;
    assert_int_equal(storwin_alloc(NULL, BYTES, &win, &err), 0);
    assert_int_equal(storwin_commit(win, &err), STORWIN_ESTATE);
    assert_int_equal(storwin_free(win, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commits),        cmocka_unit_test(journal_wraps),
        cmocka_unit_test(races),          cmocka_unit_test(together),
        cmocka_unit_test(again),          cmocka_unit_test(no_descriptors),
        cmocka_unit_test(aligned_blocks), cmocka_unit_test(arguments),
    };

    commit_test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
