/* SPDX-License-Identifier: BSD-3-Clause */
/* Each request of libpmix gets an answer: also without memory, and when libpmix does not take the
 * answer at once. libpmix is ours here; its thread is the test's own. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/pmix-host/groups.h"
#include "../../examples/pmix-host/requests.h"

struct lib lib;

static struct pmix_host host;
static struct client clients[] = {{.rank = 0, .state = PMIWIRE_CONN_NEW}};
static uint32_t node_of[] = {0, 1};
static struct host_job job = {
    .nspace = "space", .n_ranks = 2, .node_of = node_of, .n_clients = 1, .clients = clients};
static bool no_memory, refuses;
static int n_answers, n_given;
static pmix_status_t last_status;

/* ---- memory ---- */

/* The build renames malloc() and calloc(). */
void *scarce_malloc(size_t bytes)
{
    return no_memory ? NULL : realloc(NULL, bytes);
}

void *scarce_calloc(size_t n, size_t bytes)
{
    void *p = scarce_malloc(n * bytes);

    return p ? memset(p, 0, n * bytes) : NULL;
}

/* ---- libpmix ---- */

static pmix_status_t register_resources(pmix_info_t *info, size_t n, pmix_op_cbfunc_t done,
                                        void *arg)
{
    if (refuses)
        return PMIX_ERR_NOMEM;
    done(PMIX_SUCCESS, arg);
    return PMIX_SUCCESS;
}

static void op_answered(pmix_status_t status, void *cbdata)
{
    n_answers++;
    last_status = status;
}

static void modex_answered(pmix_status_t status, const char *data, size_t len, void *cbdata,
                           pmix_release_cbfunc_t release, void *arg)
{
    op_answered(status, cbdata);
    if (release)
        release(arg);
}

/* ---- what requests.c calls ---- */

struct client *host_client(const struct host_job *of, uint32_t rank)
{
    return rank == 0 ? clients : NULL;
}

uint32_t host_client_gone(const struct client *c)
{
    return c->ended;
}

void host_recount(const struct host_job *of)
{
}

void groups_given(struct pmix_host *h, uint64_t token, int status, const char *data, size_t len)
{
    n_given++;
    last_status = status;
}

void groups_enter(struct pmix_host *h, enum group_kind kind, struct group_proc *procs, size_t n,
                  const void *data, size_t len, host_done_fn done, void *ctx)
{
    done(ctx, HOST_OK, data, len);
}

void groups_fetch(struct pmix_host *h, const struct host_job *of, uint32_t rank, host_done_fn done,
                  void *ctx)
{
    done(ctx, HOST_OK, "data", 4);
}

void names_request(struct pmix_host *h, const struct host_job *of, uint32_t rank,
                   const struct names_req *req, host_done_fn done, void *ctx)
{
    done(ctx, HOST_OK, NULL, 0);
}

void names_rank_gone(struct pmix_host *h, uint32_t number, uint32_t rank)
{
}

bool names_next(const char **data, size_t *left, struct names_item *item)
{
    return false;
}

static uint32_t last_state;

static void on_state(void *ctx, uint32_t number, uint32_t rank, uint32_t state)
{
    last_state = state;
}

/* ---- tests ---- */

static pmix_server_module_t *module;
static const pmix_proc_t self = {.nspace = "space", .rank = 0},
                         other = {.nspace = "space", .rank = 1};

static int begin(void **state)
{
    host = (struct pmix_host){.ops.state = on_state, .jobs = &job};
    no_memory = refuses = false;
    n_answers = n_given = 0;
    clients[0].n_open = 0;
    lib.PMIx_server_register_resources = register_resources;
    assert_int_equal(queue_open(&host.queue), 0);
    module = upcalls_module(&host.queue, "env");
    return 0;
}

static int end(void **state)
{
    requests_free(&host);
    queue_close(&host.queue);
    return 0;
}

static void take_all(void)
{
    for (struct queued *q = queue_take(&host.queue), *next; q; q = next) {
        next = q->next;
        requests_take(&host, (struct upcall *)(void *)q);
    }
}

/* libpmix does not take answers for a while: they come later, once each. */
static void test_refused(void **state)
{
    refuses = true;
    assert_int_equal(module->client_connected2(&self, NULL, NULL, 0, op_answered, NULL), 0);
    assert_int_equal(module->direct_modex(&other, NULL, 0, modex_answered, NULL), 0);
    assert_int_equal(module->fence_nb(&other, 1, NULL, 0, NULL, 0, modex_answered, NULL), 0);
    take_all();
    requests_send_again(&host);
    assert_int_equal(n_answers, 0);
    refuses = false;
    requests_send_again(&host);
    assert_int_equal(n_answers, 3);
    requests_send_again(&host);
    assert_int_equal(n_answers, 3);
}

/* Without memory a request is refused, or answered at once. */
static void test_no_memory(void **state)
{
    no_memory = true;
    assert_int_equal(module->client_connected2(&self, NULL, NULL, 0, op_answered, NULL),
                     PMIX_ERR_NOMEM);
    assert_int_equal(module->direct_modex(&other, NULL, 0, modex_answered, NULL), PMIX_ERR_NOMEM);
    assert_int_equal(module->publish(&self, NULL, 0, op_answered, NULL), PMIX_ERR_NOMEM);
    assert_int_equal(n_answers, 0);
    module->log(&self, NULL, 0, NULL, 0, op_answered, NULL);
    assert_int_equal(n_answers, 1);
    assert_int_equal(last_status, PMIX_ERR_NOT_SUPPORTED);
    take_all();
    assert_int_equal(n_answers, 1);
}

/* The answer to our own request needs no memory but for its data: what comes then is an error. */
static void test_given(void **state)
{
    struct upcall *u = upcall_new_given(0);
    char data[] = "data";

    assert_non_null(u);
    no_memory = true;
    upcalls_on_given(PMIX_SUCCESS, data, sizeof(data), u);
    no_memory = false;
    take_all();
    assert_int_equal(n_given, 1);
    assert_int_equal(last_status, PMIX_ERR_NOMEM);
}

static void event_done(pmix_status_t status, pmix_info_t *results, size_t n, pmix_op_cbfunc_t done,
                       void *arg, void *cbdata)
{
    n_answers++;
}

/* A client's connection ends without PMIx_Finalize(): this needs no answer but libpmix's own. */
static void test_lost(void **state)
{
    assert_int_equal(module->client_connected2(&self, NULL, NULL, 0, op_answered, NULL), 0);
    take_all();
    assert_int_equal(n_answers, 1);
    upcalls_on_event(0, PMIX_ERR_LOST_CONNECTION, &self, NULL, 0, NULL, 0, event_done, NULL);
    assert_int_equal(n_answers, 2);
    take_all();
    assert_int_equal(clients[0].n_open, 0);
    assert_int_equal(last_state, PMIWIRE_CONN_FAILED);
}

/* An answer's data has no memory: the answer comes, as an error. */
static void test_answer_without_memory(void **state)
{
    assert_int_equal(module->direct_modex(&other, NULL, 0, modex_answered, NULL), 0);
    no_memory = true;
    take_all();
    assert_int_equal(n_answers, 1);
    assert_int_equal(last_status, PMIX_ERR_NOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_no_memory, begin, end),
        cmocka_unit_test_setup_teardown(test_given, begin, end),
        cmocka_unit_test_setup_teardown(test_lost, begin, end),
        cmocka_unit_test_setup_teardown(test_answer_without_memory, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
