/* SPDX-License-Identifier: BSD-3-Clause */
/* The user-level pager: its bound holds under several threads, nothing is lost or mixed up, and bad sectors are like a mapping's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "internal.h"
#include "storwin_test.h"

static uint64_t page;

static struct storwin_window *open_user(const char *path, uint64_t bytes, uint64_t budget, uint32_t style)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win = NULL;
    struct storwin_error err;
    int rc;

    opts.pager = STORWIN_PAGER_USER;
    opts.budget_bytes = budget;
    opts.access_style = style;
    opts.flags = STORWIN_UNLINK;
    rc = storwin_alloc(&opts, bytes, &win, &err);
    if (rc == STORWIN_EPAGER) {
        print_message("skip: %s\n", err.text);
        skip();
    }
    assert_int_equal(rc, 0);
    return win;
}

struct worker {
    pthread_t thread;
    struct storwin_window *win;
    unsigned id, n;
    uint64_t budget;
    uint32_t *model; /* of this worker's words */
};

/* Words id, id + n, ... of the window belong to worker id: neighbours on a page belong to different threads. */
static void *work(void *arg)
{
    struct worker *w = arg;
    uint32_t *words = storwin_base(w->win);
    const uint64_t mine = storwin_bytes(w->win) / sizeof(*words) / w->n;
    struct storwin_info info = {.size = sizeof(info)};
    uint64_t rng = w->id * 7919 + 1;

    for (unsigned i = 0; i < 3000; i++) {
        uint64_t k = test_random(&rng) % mine;
        uint32_t *word = &words[k * w->n + w->id];

        if (i % 1000 < 150) /* a stretch in order, for read-ahead */
            k = (w->id * 1000 + i) % mine, word = &words[k * w->n + w->id];
        CHECK(*word == w->model[k]);
        if (test_random(&rng) % 2)
            *word = w->model[k] = (uint32_t)test_random(&rng);
        if (i % 64 == 0) {
            storwin_query(w->win, &info);
            CHECK(info.resident_bytes <= info.budget_bytes && info.budget_bytes <= w->budget);
        }
    }
    return NULL;
}

static void many_threads(uint32_t style)
{
    const uint64_t bytes = UINT64_C(8) << 20, budget = UINT64_C(2) << 20;
    const char *path = test_path("threads");
    struct storwin_window *win = open_user(path, bytes, budget, style);
    struct storwin_info info = {.size = sizeof(info)};
    struct worker workers[4];
    uint32_t *copy = malloc(bytes);
    int rc;

    for (unsigned i = 0; i < 4; i++) {
        workers[i] = (struct worker){.win = win, .id = i, .n = 4, .budget = budget};
        workers[i].model = calloc(bytes / 16, sizeof(uint32_t));
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 10; i++) { /* syncs beside them */
        assert_int_equal(storwin_sync_start(win, 0, bytes, NULL), 0);
        while ((rc = storwin_sync_test(win, NULL)) == STORWIN_PENDING)
            usleep(1000);
        assert_int_equal(rc, 0);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(workers[i].thread, NULL);
    assert_int_equal(storwin_sync(win, NULL), 0);
    read_file(path, 0, copy, bytes);
    for (uint64_t k = 0; k < bytes / 16; k++)
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(copy[k * 4 + i], workers[i].model[k]);
    storwin_query(win, &info);
    assert_true(info.n_faults > 0 && info.read_bytes > 0 && info.written_bytes > 0);
    assert_in_range(info.resident_bytes, 1, budget);
    for (unsigned i = 0; i < 4; i++)
        free(workers[i].model);
    free(copy);
    assert_int_equal(storwin_free(win, NULL), 0);
}

static void threads_random(void **state)
{
    (void)state;
    many_threads(STORWIN_ACCESS_RANDOM);
}

static void threads_unknown(void **state)
{
    (void)state;
    many_threads(0);
}

static void threads_sequential(void **state)
{
    (void)state;
    many_threads(STORWIN_ACCESS_SEQUENTIAL);
}

/* Forward and backward through a window of many budgets; what is read ahead is used. */
static void streams(void **state)
{
    static const uint32_t styles[] = {0, STORWIN_ACCESS_SEQUENTIAL, STORWIN_ACCESS_REVERSE};
    const uint64_t bytes = (UINT64_C(8) << 20) + 77, words = bytes / 8;
    struct storwin_info info = {.size = sizeof(info)};

    (void)state;
    for (unsigned s = 0; s < 3; s++) {
        struct storwin_window *win = open_user(test_path("streams"), bytes, STORWIN_MIN_BUDGET, styles[s]);
        uint64_t *base = storwin_base(win), wrong = 0;

        for (uint64_t i = 0; i < words; i++)
            base[styles[s] == STORWIN_ACCESS_REVERSE ? words - 1 - i : i] = i * 3 + 1;
        for (uint64_t i = 0; i < words; i++)
            wrong += base[styles[s] == STORWIN_ACCESS_REVERSE ? words - 1 - i : i] != i * 3 + 1;
        assert_int_equal(wrong, 0);
        ((uint8_t *)base)[bytes - 1] = 9;
        storwin_query(win, &info);
        assert_in_range(info.read_bytes, bytes, bytes * 3);
        assert_int_equal(storwin_free(win, NULL), 0);
    }
}

/* The kernel reads and writes the window too, for system calls, unless it may not. */
static void system_calls(void **state)
{
    const uint64_t bytes = UINT64_C(4) << 20;
    struct storwin_window *win = open_user(test_path("calls"), bytes, STORWIN_MIN_BUDGET, 0);
    struct storwin_info info = {.size = sizeof(info)};
    uint8_t *base = storwin_base(win);
    int ends[2];

    (void)state;
    storwin_query(win, &info);
    assert_int_equal(pipe(ends), 0);
    for (uint64_t at = 0; !info.user_faults_only && at + page <= bytes; at += 17 * page) {
        assert_int_equal(write(ends[1], &at, sizeof(at)), sizeof(at));
        assert_int_equal(read(ends[0], base + at + 8, sizeof(at)), sizeof(at));
    }
    for (uint64_t at = 0; !info.user_faults_only && at + page <= bytes; at += 17 * page)
        assert_int_equal(*(uint64_t *)(void *)(base + at + 8), at);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(storwin_free(win, NULL), 0);
}

static void refused(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("refused"));
    struct storwin_window *win;
    struct storwin_error err;

    (void)state;
    opts.pager = STORWIN_PAGER_USER;
    atomic_store(&storwin__without, STORWIN__NO_UFFD);
    assert_int_equal(storwin_alloc(&opts, page, &win, &err), STORWIN_EPAGER);
    atomic_store(&storwin__without, 0);
    assert_string_equal(err.hint, "storage_alloc_pager");
    assert_int_equal(file_size(opts.filename), UINT64_MAX);
}

/* A child has no mapping there: a fault, not zeros. */
static void after_fork(void **state)
{
    struct storwin_window *win = open_user(test_path("fork"), 16 * page, STORWIN_MIN_BUDGET, 0);
    volatile uint8_t *base = storwin_base(win);
    int status;
    pid_t pid;

    (void)state;
    base[0] = 1;
    pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL); /* also where a sanitizer has its own handler */
        _exit(base[0]);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_int_equal(storwin_free(win, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_random), cmocka_unit_test(threads_unknown), cmocka_unit_test(threads_sequential),
        cmocka_unit_test(streams),        cmocka_unit_test(system_calls),    cmocka_unit_test(refused),
        cmocka_unit_test(after_fork),
    };

    page = (uint64_t)sysconf(_SC_PAGESIZE);
    test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
