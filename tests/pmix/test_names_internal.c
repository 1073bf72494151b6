/* SPDX-License-Identifier: BSD-3-Clause */
/* Published values over a name service of the test's own, which answers at once or later. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/pmix-host/names.h"

#define NAMES (NAMES_PROC_VALUES + 64u)

static struct {
    char *name, *value;
    size_t n, len;
    uint32_t owner;
} names[NAMES];

struct question {
    struct question *next;
    uint32_t what, owner;
    uint64_t token;
    size_t n, len;
    char p[]; /* name, value */
};

/* A request lives until it is answered, as a client's does. */
struct request {
    struct names_req req;
    struct names_value values[2];
};

static struct pmix_host host;
static struct client clients[2];
static uint32_t node_of[3];
static struct host_job job;
static struct question *queue, **queue_end = &queue;
static bool later; /* the service's answers come when service_run() is called */
static int n_answers, last_status;
static char last_value[256];

struct host_job *host_job_find(const struct pmix_host *h, uint32_t number)
{
    return number == 0 ? &job : NULL;
}

struct client *host_client(const struct host_job *of, uint32_t rank)
{
    return rank < 2 ? &clients[rank] : NULL;
}

/* ---- the name service ---- */

static uint32_t name_index(const char *p, size_t n)
{
    uint32_t i = 0;

    while (i < NAMES && (!names[i].name || names[i].n != n || memcmp(names[i].name, p, n) != 0))
        i++;
    return i;
}

static void name_free(uint32_t i)
{
    free(names[i].name);
    free(names[i].value);
    names[i].name = names[i].value = NULL;
}

static void question_answer(const struct question *q)
{
    uint32_t i = name_index(q->p, q->n);
    struct pmiwire_str value = {0};
    int rc = i == NAMES ? PMIWIRE_ENOENT : 0;

    if (q->what == PMIWIRE_NAME_PUBLISH && rc == 0) {
        rc = PMIWIRE_EEXIST;
    } else if (q->what == PMIWIRE_NAME_PUBLISH) {
        for (i = 0; names[i].name; i++)
            assert_true(i + 1 < NAMES);
        names[i].name = malloc(q->n);
        names[i].value = malloc(q->len + 1);
        memcpy(names[i].name, q->p, q->n);
        memcpy(names[i].value, q->p + q->n, q->len);
        names[i].n = q->n;
        names[i].len = q->len;
        names[i].owner = q->owner;
        rc = 0;
    } else if (q->what == PMIWIRE_NAME_UNPUBLISH && rc == 0) {
        rc = names[i].owner == q->owner ? 0 : PMIWIRE_ENOENT;
        if (rc == 0)
            name_free(i);
    } else if (rc == 0) {
        value = (struct pmiwire_str){names[i].value, names[i].len};
    }
    assert_true(names_answer(&host, q->token, rc, value));
}

static void service_run(void)
{
    while (queue) {
        struct question *q = queue;

        queue = q->next;
        if (!queue)
            queue_end = &queue;
        question_answer(q);
        free(q);
    }
}

static void on_name(void *ctx, uint32_t what, uint32_t owner, struct pmiwire_str name,
                    struct pmiwire_str value, uint64_t token)
{
    struct question *q = malloc(sizeof(*q) + name.len + value.len);

    *q = (struct question){NULL, what, owner, token, name.len, value.len};
    memcpy(q->p, name.ptr, name.len);
    if (value.len)
        memcpy(q->p + name.len, value.ptr, value.len);
    if (later) {
        *queue_end = q;
        queue_end = &q->next;
    } else {
        question_answer(q);
        free(q);
    }
}

/* ---- requests ---- */

static int begin(void **state)
{
    node_of[2] = 1;
    job = (struct host_job){
        .nspace = "space", .n_ranks = 3, .node_of = node_of, .n_clients = 2, .clients = clients};
    memset(clients, 0, sizeof(clients));
    host = (struct pmix_host){.ops.name = on_name, .now_ns = 1};
    n_answers = 0;
    return 0;
}

static int end(void **state)
{
    names_free(&host);
    later = false;
    service_run();
    for (uint32_t i = 0; i < NAMES; i++)
        name_free(i);
    return 0;
}

static void on_done(void *ctx, int status, const char *data, size_t len)
{
    struct names_item item;

    n_answers++;
    last_status = status;
    last_value[0] = '\0';
    while (names_next(&data, &len, &item)) {
        strncat(last_value, item.p, item.len);
        strcat(last_value, ";");
    }
    free(ctx);
}

/* Up to two keys; each value is its key. */
static void ask(uint32_t rank, uint32_t what, uint8_t range, uint8_t persist, const char *key,
                const char *second, uint32_t wait, uint32_t timeout_s)
{
    struct request *r = calloc(1, sizeof(*r));

    r->values[0] = (struct names_value){key, key, strlen(key)};
    r->values[1] = (struct names_value){second, second, second ? strlen(second) : 0};
    r->req = (struct names_req){.what = what,
                                .range = range,
                                .persist = persist,
                                .values = r->values,
                                .n_values = second ? 2 : 1,
                                .wait = wait,
                                .timeout_s = timeout_s};
    names_request(&host, &job, rank, &r->req, on_done, r);
}

static void publish(uint32_t rank, uint8_t range, uint8_t persist, const char *key,
                    const char *second, int status)
{
    const int before = n_answers;

    ask(rank, PMIWIRE_NAME_PUBLISH, range, persist, key, second, 0, 0);
    service_run();
    assert_true(n_answers > before);
    if (n_answers == before + 1) /* else a lookup that waited was the last */
        assert_int_equal(last_status, status);
}

static void look_up(uint32_t rank, const char *key, int status)
{
    ask(rank, PMIWIRE_NAME_LOOKUP, NAMES_SESSION, 0, key, NULL, 0, 0);
    service_run();
    assert_int_equal(last_status, status);
}

/* ---- tests ---- */

static void try_all(void)
{
    publish(0, NAMES_SESSION, NAMES_UNTIL_JOB, "a", "b", HOST_OK);
    publish(1, NAMES_GLOBAL, NAMES_UNTIL_JOB, "c", "b", HOST_EEXIST);
    look_up(1, "c", HOST_ENOENT); /* all or nothing */
    ask(1, PMIWIRE_NAME_LOOKUP, NAMES_SESSION, 0, "b", "a", 2, 0);
    service_run();
    assert_int_equal(last_status, HOST_OK);
    assert_string_equal(last_value, "b;a;");
    ask(1, PMIWIRE_NAME_LOOKUP, 124, 0, "a", NULL, 0, 0); /* no range that we know */
    service_run();
    assert_int_equal(last_status, HOST_OK);
    publish(0, 124, NAMES_UNTIL_JOB, "nowhere", NULL, HOST_EINVAL);
    publish(0, NAMES_PROC, NAMES_UNTIL_JOB, "own", NULL, HOST_OK);
    look_up(0, "own", HOST_OK);
    look_up(1, "own", HOST_ENOENT);
    publish(0, NAMES_SESSION, NAMES_FIRST_READ, "once", NULL, HOST_OK);
    look_up(1, "once", HOST_OK);
    look_up(1, "once", HOST_ENOENT);
    publish(0, NAMES_SESSION, NAMES_UNTIL_PROC, "mortal", NULL, HOST_OK);
    names_rank_gone(&host, 0, 0);
    service_run();
    look_up(1, "mortal", HOST_ENOENT);
    look_up(1, "a", HOST_OK);
    ask(1, PMIWIRE_NAME_UNPUBLISH, NAMES_SESSION, 0, "a", NULL, 0, 0); /* not its own */
    service_run();
    assert_int_equal(last_status, HOST_ENOENT);
    ask(0, PMIWIRE_NAME_UNPUBLISH, NAMES_SESSION, 0, "a", NULL, 0, 0);
    service_run();
    assert_int_equal(last_status, HOST_OK);
    look_up(1, "a", HOST_ENOENT);
    names_job_end(&host, 0);
    service_run();
    look_up(1, "b", HOST_ENOENT);
    publish(0, 1, NAMES_UNTIL_JOB, "x", NULL, HOST_ENOTSUP);
    publish(0, NAMES_SESSION, 9, "x", NULL, HOST_EINVAL);
    publish(0, NAMES_SESSION, 0, "", NULL, HOST_EINVAL);
}

static void test_at_once(void **state)
{
    try_all();
}

static void test_later(void **state)
{
    later = true;
    try_all();
}

/* Lookups that wait: for a publish, for their time, for their rank's end. */
static void test_waits(void **state)
{
    ask(1, PMIWIRE_NAME_LOOKUP, NAMES_SESSION, 0, "late", NULL, 1, 0);
    assert_int_equal(n_answers, 0);
    publish(0, NAMES_SESSION, NAMES_UNTIL_JOB, "late", NULL, HOST_OK);
    assert_int_equal(n_answers, 2);
    assert_int_equal(last_status, HOST_OK);
    assert_string_equal(last_value, "late;");
    ask(1, PMIWIRE_NAME_LOOKUP, NAMES_SESSION, 0, "never", NULL, 1, 2);
    names_tick(&host);
    assert_int_equal(n_answers, 2);
    host.now_ns += UINT64_C(3000000000);
    names_tick(&host);
    assert_int_equal(n_answers, 3);
    assert_int_equal(last_status, HOST_ETIME);
    ask(1, PMIWIRE_NAME_LOOKUP, NAMES_SESSION, 0, "never", NULL, 1, 0);
    assert_int_equal(n_answers, 3);
    names_rank_gone(&host, 0, 1);
    assert_int_equal(n_answers, 4);
    assert_int_equal(last_status, HOST_EGONE);
}

/* No more than 16 lookups of a rank are in hand, whether they wait or not, and each asks for a key
 * once. */
static void test_lookups(void **state)
{
    later = true;
    for (uint32_t i = 0; i < NAMES_PROC_LOOKUPS; i++)
        ask(1, PMIWIRE_NAME_LOOKUP, NAMES_SESSION, 0, "never", NULL, i % 2, 0);
    assert_int_equal(n_answers, 0);
    ask(1, PMIWIRE_NAME_LOOKUP, NAMES_SESSION, 0, "never", NULL, 0, 0);
    assert_int_equal(n_answers, 1);
    assert_int_equal(last_status, HOST_ELIMIT);
    ask(0, PMIWIRE_NAME_LOOKUP, NAMES_SESSION, 0, "never", NULL, 0, 0);
    service_run();
    assert_int_equal(n_answers, 2 + (int)NAMES_PROC_LOOKUPS / 2);
    assert_int_equal(last_status, HOST_ENOENT);
    ask(0, PMIWIRE_NAME_LOOKUP, NAMES_SESSION, 0, "twice", "twice", 0, 0);
    assert_int_equal(last_status, HOST_EINVAL);
    names_rank_gone(&host, 0, 1);
    assert_int_equal(last_status, HOST_EGONE);
}

/* Values that have been read leave room for others; those that have not do not. */
static void first_reads_try(void)
{
    char key[16];

    for (uint32_t i = 0; i < NAMES_PROC_VALUES + 8; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        publish(0, NAMES_SESSION, NAMES_FIRST_READ, key, NULL, HOST_OK);
        look_up(1, key, HOST_OK);
    }
    for (uint32_t i = 0; i < NAMES_PROC_VALUES + 8; i++) {
        publish(0, NAMES_SESSION, NAMES_FIRST_READ, "same", NULL, HOST_OK);
        look_up(1, "same", HOST_OK);
    }
    publish(0, NAMES_SESSION, NAMES_FIRST_READ, "same", NULL, HOST_OK);
    for (uint32_t i = 1; i < NAMES_PROC_VALUES; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        publish(0, NAMES_SESSION, NAMES_FIRST_READ, key, NULL, HOST_OK);
    }
    publish(0, NAMES_SESSION, NAMES_FIRST_READ, "more", NULL, HOST_ELIMIT);
    publish(1, NAMES_SESSION, NAMES_FIRST_READ, "other", NULL, HOST_OK);
    look_up(1, "k3", HOST_OK);
    publish(0, NAMES_SESSION, NAMES_FIRST_READ, "more", NULL, HOST_OK);
    publish(0, NAMES_SESSION, NAMES_FIRST_READ, "k3", NULL, HOST_ELIMIT);
}

static void test_first_reads(void **state)
{
    first_reads_try();
}

static void test_first_reads_later(void **state)
{
    later = true;
    first_reads_try();
}

/* Two lookups wait for a value that ends with its first read: one gets it, the other waits on. */
static void test_first_read_lost(void **state)
{
    later = true;
    for (uint32_t rank = 0; rank < 2; rank++)
        ask(rank, PMIWIRE_NAME_LOOKUP, NAMES_SESSION, 0, "once", NULL, 1, 2);
    publish(0, NAMES_SESSION, NAMES_FIRST_READ, "once", NULL, HOST_OK);
    assert_int_equal(n_answers, 2);
    assert_int_equal(last_status, HOST_OK);
    publish(0, NAMES_SESSION, NAMES_FIRST_READ, "once", NULL, HOST_OK);
    assert_int_equal(n_answers, 4);
    assert_int_equal(last_status, HOST_OK);
    assert_string_equal(last_value, "once;");
    /* Without time left it ends. */
    for (uint32_t rank = 0; rank < 2; rank++)
        ask(rank, PMIWIRE_NAME_LOOKUP, NAMES_SESSION, 0, "once", NULL, 1, 2);
    publish(0, NAMES_SESSION, NAMES_FIRST_READ, "once", NULL, HOST_OK);
    assert_int_equal(n_answers, 6);
    host.now_ns += UINT64_C(3000000000);
    names_tick(&host);
    service_run();
    assert_int_equal(n_answers, 7);
    assert_int_equal(last_status, HOST_ETIME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_at_once, begin, end),
        cmocka_unit_test_setup_teardown(test_later, begin, end),
        cmocka_unit_test_setup_teardown(test_waits, begin, end),
        cmocka_unit_test_setup_teardown(test_lookups, begin, end),
        cmocka_unit_test_setup_teardown(test_first_reads, begin, end),
        cmocka_unit_test_setup_teardown(test_first_reads_later, begin, end),
        cmocka_unit_test_setup_teardown(test_first_read_lost, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
