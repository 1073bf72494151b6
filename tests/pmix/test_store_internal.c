/* SPDX-License-Identifier: BSD-3-Clause */
/* Published values: ranges, persistence, waiting lookups, limits, false answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/pmirun/pmix/store.h"

#define SECOND 1000000000ull

/* ---- requests and their answers ---- */

#define PENDING 1

static int status_of[64]; /* by id */
static char found[64][256];
static uint64_t last_id;

static void on_answer(void *ctx, uint64_t id, int status, const char *data, size_t len)
{
    struct names_item item;
    char *out = found[id];

    assert_int_equal(status_of[id], PENDING); /* once */
    status_of[id] = status;
    out[0] = '\0';
    while (far_names_next(&data, &len, &item))
        out += snprintf(out, 64, "%s.%u %s=%.*s;", item.owner.nspace, item.owner.rank, item.key,
                        (int)item.len, (const char *)item.p);
    assert_int_equal(len, 0);
}

/* Job 1's rank 0 on node 0, and so on. */
static struct store_who who(uint32_t job, uint32_t rank, uint32_t node)
{
    static const char *const names[] = {"a", "b", "c", "d"};

    return (struct store_who){job, rank, node, names[job]};
}

static uint64_t request(struct store *st, struct store_who by, const struct names_req *req,
                        uint64_t now)
{
    last_id = (last_id + 1) % 64;
    status_of[last_id] = PENDING;
    store_request(st, &by, req, now, last_id);
    return last_id;
}

static int publish(struct store *st, struct store_who by, const char *key, const char *text,
                   uint8_t range, uint8_t persist)
{
    const struct names_value v = {key, text, strlen(text)};
    const struct names_req req = {
        .what = NAMES_PUBLISH, .range = range, .persist = persist, .values = &v, .n_values = 1};

    return status_of[request(st, by, &req, 0)];
}

static uint64_t look_up(struct store *st, struct store_who by, const char *key, uint8_t range,
                        uint32_t wait, uint32_t timeout_s, uint64_t now)
{
    const struct names_value v = {key, NULL, 0};
    const struct names_req req = {.what = NAMES_LOOKUP,
                                  .range = range,
                                  .values = &v,
                                  .n_values = 1,
                                  .wait = wait,
                                  .timeout_s = timeout_s};

    return request(st, by, &req, now);
}

/* The values found; "": none. */
static const char *see(struct store *st, struct store_who by, const char *key)
{
    const uint64_t id = look_up(st, by, key, NAMES_UNDEF, 0, 0, 0);

    assert_true(status_of[id] == FAR_OK || status_of[id] == FAR_ENOENT);
    assert_int_equal(status_of[id] == FAR_ENOENT, found[id][0] == '\0');
    return found[id];
}

static int unpublish(struct store *st, struct store_who by, const char *key, uint8_t range)
{
    const struct names_value v = {key, NULL, 0};
    const struct names_req req = {
        .what = NAMES_UNPUBLISH, .range = range, .values = &v, .n_values = key ? 1 : 0};

    return status_of[request(st, by, &req, 0)];
}

static struct store *make(const struct store_limits *limits)
{
    struct store *st = store_create(limits, on_answer, NULL);

    assert_non_null(st);
    return st;
}

/* ---- visibility ---- */

static void test_ranges(void **state)
{
    /* values visible to ranks of the same job and node, the same node, the same job, and neither;
     * the same rank sees all */
    static const struct {
        uint8_t range;
        bool both, node, job, none;
    } rows[] = {
        {NAMES_UNDEF, true, true, true, true},    {NAMES_SESSION, true, true, true, true},
        {NAMES_GLOBAL, true, true, true, true},   {NAMES_LOCAL, true, true, false, false},
        {NAMES_NSPACE, true, false, true, false}, {NAMES_PROC, false, false, false, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct store *st = make(NULL);

        assert_int_equal(publish(st, who(1, 0, 0), "k", "v", rows[i].range, NAMES_INDEF), FAR_OK);
        assert_string_equal(see(st, who(1, 0, 0), "k"), "b.0 k=v;");
        assert_string_equal(see(st, who(1, 1, 0), "k"), rows[i].both ? "b.0 k=v;" : "");
        assert_string_equal(see(st, who(2, 0, 0), "k"), rows[i].node ? "b.0 k=v;" : "");
        assert_string_equal(see(st, who(1, 2, 1), "k"), rows[i].job ? "b.0 k=v;" : "");
        assert_string_equal(see(st, who(2, 1, 1), "k"), rows[i].none ? "b.0 k=v;" : "");
        assert_string_equal(see(st, who(1, 0, 0), "other"), "");
        store_destroy(st);
    }
}

/* A lookup with a range sees publishers within it alone; other user ids see nothing. */
static void test_range_of_a_lookup(void **state)
{
    struct store *st = make(NULL);
    const struct names_value v = {"k", NULL, 0};
    const struct names_req other = {.what = NAMES_LOOKUP, .uid = 7, .values = &v, .n_values = 1};

    publish(st, who(1, 0, 0), "k", "v", NAMES_SESSION, NAMES_INDEF);
    assert_int_equal(status_of[look_up(st, who(2, 0, 0), "k", NAMES_NSPACE, 0, 0, 0)], FAR_ENOENT);
    assert_int_equal(status_of[look_up(st, who(2, 0, 0), "k", NAMES_LOCAL, 0, 0, 0)], FAR_OK);
    assert_int_equal(status_of[look_up(st, who(1, 1, 1), "k", NAMES_LOCAL, 0, 0, 0)], FAR_ENOENT);
    assert_int_equal(status_of[look_up(st, who(1, 1, 1), "k", NAMES_PROC, 0, 0, 0)], FAR_ENOENT);
    assert_int_equal(status_of[request(st, who(1, 0, 0), &other, 0)], FAR_ENOENT);
    store_destroy(st);
}

/* A key is published once where it would be seen; elsewhere it may be published again. */
static void test_duplicates(void **state)
{
    struct store *st = make(NULL);
    const struct names_value two[] = {{"x", "1", 1}, {"x", "2", 1}},
                             mixed[] = {{"y", "1", 1}, {"k", "2", 1}};
    struct names_req req = {.what = NAMES_PUBLISH, .values = two, .n_values = 2};

    assert_int_equal(publish(st, who(1, 0, 0), "k", "1", NAMES_SESSION, 0), FAR_OK);
    assert_int_equal(publish(st, who(2, 0, 1), "k", "2", NAMES_SESSION, 0), FAR_EEXIST);
    assert_int_equal(publish(st, who(2, 0, 1), "k", "2", NAMES_GLOBAL, 0), FAR_EEXIST);
    assert_int_equal(publish(st, who(1, 0, 0), "k", "3", NAMES_NSPACE, 0), FAR_OK);
    assert_int_equal(publish(st, who(1, 1, 1), "k", "3", NAMES_NSPACE, 0), FAR_EEXIST);
    assert_int_equal(publish(st, who(2, 0, 1), "k", "4", NAMES_NSPACE, 0), FAR_OK);
    assert_int_equal(publish(st, who(2, 0, 1), "k", "5", NAMES_LOCAL, 0), FAR_OK);
    assert_int_equal(publish(st, who(1, 1, 1), "k", "5", NAMES_LOCAL, 0), FAR_EEXIST);
    assert_int_equal(publish(st, who(1, 1, 1), "k", "6", NAMES_PROC, 0), FAR_OK);
    assert_int_equal(publish(st, who(1, 1, 1), "k", "6", NAMES_PROC, 0), FAR_EEXIST);
    /* all or nothing */
    assert_int_equal(status_of[request(st, who(1, 0, 0), &req, 0)], FAR_EEXIST);
    req.values = mixed;
    assert_int_equal(status_of[request(st, who(1, 0, 0), &req, 0)], FAR_EEXIST);
    assert_string_equal(see(st, who(1, 0, 0), "x"), "");
    assert_string_equal(see(st, who(1, 0, 0), "y"), "");
    store_destroy(st);
}

static void test_unpublish(void **state)
{
    struct store *st = make(NULL);

    publish(st, who(1, 0, 0), "k", "v", NAMES_SESSION, NAMES_INDEF);
    publish(st, who(1, 0, 0), "n", "v", NAMES_NSPACE, NAMES_INDEF);
    publish(st, who(1, 1, 0), "z", "v", NAMES_SESSION, NAMES_INDEF);
    assert_int_equal(unpublish(st, who(1, 1, 0), "k", NAMES_UNDEF), FAR_ENOENT); /* another's */
    assert_int_equal(unpublish(st, who(1, 0, 0), "k", NAMES_NSPACE), FAR_ENOENT);
    assert_int_equal(unpublish(st, who(1, 0, 0), "k", NAMES_SESSION), FAR_OK);
    assert_int_equal(unpublish(st, who(1, 0, 0), "k", NAMES_SESSION), FAR_ENOENT);
    assert_string_equal(see(st, who(1, 0, 0), "k"), "");
    assert_string_equal(see(st, who(1, 0, 0), "n"), "b.0 n=v;");
    assert_int_equal(unpublish(st, who(1, 0, 0), NULL, NAMES_UNDEF), FAR_OK); /* all of its own */
    assert_string_equal(see(st, who(1, 0, 0), "n"), "");
    assert_string_equal(see(st, who(1, 0, 0), "z"), "b.1 z=v;");
    store_destroy(st);
}

/* ---- persistence ---- */

static void test_persistence(void **state)
{
    /* values left after the process, and after the job */
    static const struct {
        uint8_t persist;
        bool proc, job;
    } rows[] = {{NAMES_INDEF, true, true},
                {NAMES_UNTIL_PROC, false, false},
                {NAMES_UNTIL_JOB, true, false},
                {NAMES_UNTIL_END, true, true}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct store *st = make(NULL);

        publish(st, who(1, 0, 0), "k", "v", NAMES_SESSION, rows[i].persist);
        store_proc_gone(st, 1, 1); /* another */
        store_proc_gone(st, 2, 0);
        store_job_gone(st, 2);
        assert_string_equal(see(st, who(2, 0, 0), "k"), "b.0 k=v;");
        store_proc_gone(st, 1, 0);
        assert_string_equal(see(st, who(2, 0, 0), "k"), rows[i].proc ? "b.0 k=v;" : "");
        store_job_gone(st, 1);
        assert_string_equal(see(st, who(2, 0, 0), "k"), rows[i].job ? "b.0 k=v;" : "");
        store_destroy(st);
    }
}

static void test_first_read(void **state)
{
    struct store *st = make(NULL);
    uint64_t first, second;

    publish(st, who(1, 0, 0), "k", "v", NAMES_SESSION, NAMES_FIRST_READ);
    assert_string_equal(see(st, who(2, 0, 0), "k"), "b.0 k=v;");
    assert_string_equal(see(st, who(2, 0, 0), "k"), "");
    /* of two waiting lookups, the first gets it */
    first = look_up(st, who(2, 0, 0), "k", NAMES_UNDEF, 1, 0, 0);
    second = look_up(st, who(2, 1, 0), "k", NAMES_UNDEF, 1, 0, 0);
    publish(st, who(1, 0, 0), "k", "v", NAMES_SESSION, NAMES_FIRST_READ);
    assert_int_equal(status_of[first], FAR_OK);
    assert_int_equal(status_of[second], PENDING);
    publish(st, who(1, 0, 0), "k", "w", NAMES_SESSION, NAMES_FIRST_READ);
    assert_string_equal(found[second], "b.0 k=w;");
    store_destroy(st);
}

/* ---- lookups that wait ---- */

static void test_waiting(void **state)
{
    struct store *st = make(NULL);
    const struct names_value keys[] = {{"p", NULL, 0}, {"q", NULL, 0}, {"r", NULL, 0}};
    struct names_req req = {
        .what = NAMES_LOOKUP, .values = keys, .n_values = 3, .wait = 2, .timeout_s = 3};
    uint64_t two, all, gone, other_job, some;

    two = request(st, who(1, 0, 0), &req, SECOND);
    req.wait = 9; /* more than there are: all */
    all = request(st, who(1, 0, 0), &req, SECOND);
    req.timeout_s = 0;
    gone = request(st, who(1, 1, 0), &req, SECOND);
    other_job = request(st, who(2, 0, 0), &req, SECOND);
    publish(st, who(3, 0, 0), "p", "1", NAMES_SESSION, 0);
    assert_int_equal(status_of[two], PENDING);
    publish(st, who(3, 0, 0), "r", "3", NAMES_SESSION, 0);
    assert_string_equal(found[two], "d.0 p=1;d.0 r=3;");
    assert_int_equal(status_of[all], PENDING);
    store_tick(st, 4 * SECOND - 1);
    assert_int_equal(status_of[all], PENDING);
    store_tick(st, 4 * SECOND); /* the part that is there */
    assert_int_equal(status_of[all], FAR_OK);
    assert_string_equal(found[all], "d.0 p=1;d.0 r=3;");
    store_tick(st, 1000 * SECOND);
    assert_int_equal(status_of[gone], PENDING);
    store_proc_gone(st, 1, 1);
    assert_int_equal(status_of[gone], FAR_EGONE);
    store_job_gone(st, 2);
    assert_int_equal(status_of[other_job], FAR_EGONE);
    some = look_up(st, who(1, 0, 0), "nowhere", NAMES_UNDEF, 1, 1, 0);
    store_tick(st, SECOND);
    assert_int_equal(status_of[some], FAR_ETIME);
    /* a value that a waiting lookup may not see does not wake it */
    some = look_up(st, who(1, 0, 0), "s", NAMES_UNDEF, 1, 0, 0);
    publish(st, who(2, 0, 0), "s", "v", NAMES_NSPACE, 0);
    assert_int_equal(status_of[some], PENDING);
    publish(st, who(2, 0, 0), "s", "w", NAMES_SESSION, 0);
    assert_string_equal(found[some], "c.0 s=w;");
    look_up(st, who(1, 0, 0), "t", NAMES_UNDEF, 1, 0, 0); /* and one that still waits at the end */
    store_destroy(st);
}

/* ---- refusals ---- */

static void test_wrong_requests(void **state)
{
    struct store *st = make(NULL);
    char key[STORE_KEY_BYTES + 2];
    struct names_value many[STORE_KEYS + 1];
    struct names_req req = {.what = NAMES_LOOKUP, .values = many};

    memset(key, 'k', sizeof(key));
    for (size_t n = STORE_KEY_BYTES - 1; n <= STORE_KEY_BYTES + 1; n++) {
        key[n] = '\0';
        assert_int_equal(publish(st, who(1, 0, 0), key, "v", NAMES_SESSION, 0),
                         n <= STORE_KEY_BYTES ? FAR_OK : FAR_EINVAL);
        key[n] = 'k';
    }
    assert_int_equal(publish(st, who(1, 0, 0), "", "v", NAMES_SESSION, 0), FAR_EINVAL);
    assert_int_equal(publish(st, who(1, 0, 0), "k", "v", 1, 0), FAR_ENOTSUP);
    assert_int_equal(publish(st, who(1, 0, 0), "k", "v", 6, 0), FAR_ENOTSUP);
    assert_int_equal(publish(st, who(1, 0, 0), "k", "v", 8, 0), FAR_EINVAL);
    assert_int_equal(publish(st, who(1, 0, 0), "k", "v", NAMES_SESSION, 5), FAR_EINVAL);
    assert_int_equal(status_of[request(st, who(1, 0, 0), &req, 0)], FAR_EINVAL);
    for (uint32_t i = 0; i <= STORE_KEYS; i++)
        many[i] = (struct names_value){"nowhere", NULL, 0};
    for (req.n_values = STORE_KEYS - 1; req.n_values <= STORE_KEYS + 1; req.n_values++)
        assert_int_equal(status_of[request(st, who(1, 0, 0), &req, 0)],
                         req.n_values <= STORE_KEYS ? FAR_ENOENT : FAR_ELIMIT);
    req.what = (enum names_what)4;
    req.n_values = 1;
    assert_int_equal(status_of[request(st, who(1, 0, 0), &req, 0)], FAR_EINVAL);
    store_destroy(st);
}

/* Publishes n values of 10 bytes each, key and value, by ranks in turn. Returns the number
 * accepted. */
static uint32_t fill(struct store *st, uint32_t n, uint32_t n_ranks, uint32_t n_jobs)
{
    uint32_t taken = 0;
    char key[16];

    for (uint32_t i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "key%05u", i);
        taken += publish(st, who(i % n_jobs, i / n_jobs % n_ranks, 0), key, "vv", NAMES_SESSION,
                         0) == FAR_OK;
    }
    return taken;
}

/* Each limit alone: values below and at it are accepted, values above are not. */
static void test_limits(void **state)
{
    static const struct store_limits none = {1000,   1000,   1000,   1000,
                                             100000, 100000, 100000, 100000};
    static const struct {
        struct store_limits limits;
        uint32_t n_ranks, n_jobs;
    } rows[] = {
        {{12, 1000, 1000, 9, 100000, 100000, 100000, 9}, 1, 1},
        {{1000, 12, 1000, 9, 100000, 100000, 100000, 9}, 4, 1},
        {{1000, 1000, 12, 9, 100000, 100000, 100000, 9}, 4, 3},
        {{1000, 1000, 1000, 9, 120, 100000, 100000, 9}, 1, 1},
        {{1000, 1000, 1000, 9, 100000, 120, 100000, 9}, 4, 1},
        {{1000, 1000, 1000, 9, 100000, 100000, 120, 9}, 4, 3},
        {{1000, 1000, 1000, 9, 129, 100000, 100000, 9}, 1, 1}, /* 9 bytes are left */
    };
    struct store *st = make(&none);

    assert_int_equal(fill(st, 100, 4, 3), 100);
    store_destroy(st);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (uint32_t n = 11; n <= 13; n++) {
            st = make(&rows[i].limits);
            assert_int_equal(fill(st, n, rows[i].n_ranks, rows[i].n_jobs), n < 12 ? n : 12);
            store_destroy(st);
        }
        st = make(&rows[i].limits); /* unpublished values do not count */
        for (uint32_t k = 0; k < 5; k++) {
            assert_int_equal(fill(st, 12, rows[i].n_ranks, rows[i].n_jobs), 12);
            for (uint32_t job = 0; job < rows[i].n_jobs; job++)
                for (uint32_t rank = 0; rank < rows[i].n_ranks; rank++)
                    assert_int_equal(unpublish(st, who(job, rank, 0), NULL, 0), FAR_OK);
        }
        store_destroy(st);
    }
}

static void test_waiting_limits(void **state)
{
    struct store_limits limits = {9, 9, 9, 3, 999, 999, 999, 100000};
    struct store *st = make(&limits);
    uint64_t first = 0, id, n_bytes = 0;

    for (uint32_t i = 0; i < 5; i++) {
        id = look_up(st, who(1, 0, 0), "k", NAMES_UNDEF, 1, 0, 0);
        assert_int_equal(status_of[id], i < 3 ? PENDING : FAR_ELIMIT);
        first = i ? first : id;
    }
    assert_int_equal(status_of[look_up(st, who(1, 1, 0), "k", NAMES_UNDEF, 1, 0, 0)], PENDING);
    publish(st, who(2, 0, 0), "k", "v", NAMES_SESSION, 0);
    assert_int_equal(status_of[first], FAR_OK);
    assert_int_equal(status_of[look_up(st, who(1, 0, 0), "l", NAMES_UNDEF, 1, 0, 0)], PENDING);
    store_destroy(st);
    /* bytes: the least limit that takes one takes one, and not two */
    for (limits.waiting_bytes = 0;; limits.waiting_bytes++) {
        st = make(&limits);
        id = look_up(st, who(1, 0, 0), "k", NAMES_UNDEF, 1, 0, 0);
        if (status_of[id] == PENDING)
            break;
        assert_int_equal(status_of[id], FAR_ELIMIT);
        store_destroy(st);
        assert_true(++n_bytes < 1000);
    }
    id = look_up(st, who(1, 1, 0), "k", NAMES_UNDEF, 1, 0, 0);
    assert_int_equal(status_of[id], FAR_ELIMIT);
    store_destroy(st);
}

/* ---- false answers ---- */

static void test_next_on_any_bytes(void **state)
{
    static const char good[] = "ns\0key\0\1\0\0\0\3\0\0\0abc";
    const size_t n = sizeof(good) - 1;
    struct names_item item;

    for (size_t cut = 0; cut <= n; cut++) {
        char *copy = malloc(cut ? cut : 1); /* so that a sanitizer sees reads past it */
        const char *p = copy;
        size_t left = cut;

        memcpy(copy, good, cut);
        assert_int_equal(far_names_next(&p, &left, &item), cut == n);
        if (cut == n) {
            assert_string_equal(item.owner.nspace, "ns");
            assert_string_equal(item.key, "key");
            assert_int_equal(item.owner.rank, 1);
            assert_int_equal(item.len, 3);
            assert_int_equal(left, 0);
        }
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_range_of_a_lookup),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_unpublish),
        cmocka_unit_test(test_persistence),
        cmocka_unit_test(test_first_read),
        cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_wrong_requests),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_waiting_limits),
        cmocka_unit_test(test_next_on_any_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
