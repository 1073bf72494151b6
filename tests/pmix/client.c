/* SPDX-License-Identifier: BSD-3-Clause */
/* A PMIx client without an MPI, for pmix.sh: client WHAT [argument...]. It prints faults to
 * standard error, and exits with 1. */
#define _GNU_SOURCE
#include <errno.h>
#include <pmix.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pmix_proc_t me, all;
static uint32_t size;

#define CHECK_END() (fprintf(stderr, "rank %u\n", me.rank), _exit(1))
#include "../check.h"

#define GIVES(call, want)                                                                          \
    do {                                                                                           \
        pmix_status_t rc_ = (call);                                                                \
        CHECK_MSG(rc_ == (want), "%s", PMIx_Error_string(rc_));                                    \
    } while (0)
#define OK(call) GIVES(call, PMIX_SUCCESS)

static void wait_ms(unsigned ms)
{
    const struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

static void put(const char *key, const char *text)
{
    pmix_value_t value = {.type = PMIX_STRING, .data.string = (char *)(uintptr_t)text};

    OK(PMIx_Put(PMIX_GLOBAL, key, &value));
    OK(PMIx_Commit());
}

/* Without a fence before. */
static pmix_value_t *get(const pmix_proc_t *of, const char *key)
{
    pmix_value_t *value;
    pmix_status_t rc = PMIx_Get(of, key, NULL, 0, &value);

    /* Without a fence, libpmix 4.2.2 may miss a concurrent put, under any host. */
    for (int i = 0; i < 100 && rc == PMIX_ERR_NOT_FOUND; i++) {
        wait_ms(20);
        rc = PMIx_Get(of, key, NULL, 0, &value);
    }
    CHECK_MSG(rc == PMIX_SUCCESS, "%s of rank %u: %s", key, of->rank, PMIx_Error_string(rc));
    return value;
}

static void expect(const pmix_proc_t *of, const char *key, const char *text)
{
    pmix_value_t *value = get(of, key);

    CHECK_MSG(value->type == PMIX_STRING && strcmp(value->data.string, text) == 0, "%s of rank %u",
              key, of->rank);
    PMIX_VALUE_RELEASE(value);
}

static uint32_t number(const pmix_proc_t *of, const char *key)
{
    pmix_value_t *value;
    pmix_status_t rc = PMIx_Get(of, key, NULL, 0, &value);
    uint32_t n;

    CHECK_MSG(rc == PMIX_SUCCESS, "%s: %s", key, PMIx_Error_string(rc));
    n = value->type == PMIX_UINT16      ? value->data.uint16
        : value->type == PMIX_PROC_RANK ? value->data.rank
                                        : value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return n;
}

static void fence(bool data)
{
    pmix_info_t info[1];

    PMIX_INFO_LOAD(&info[0], PMIX_COLLECT_DATA, &data, PMIX_BOOL);
    OK(PMIx_Fence(&all, 1, info, 1));
}

static void init(void)
{
    OK(PMIx_Init(&me, NULL, 0));
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    size = number(&all, PMIX_JOB_SIZE);
}

static void forever(void) __attribute__((noreturn));

static void forever(void)
{
    for (;;)
        pause();
}

/* ---- what must work ---- */

/* The job's data for clients; data without a fence; a fence, with data and without. */
static void keys(void)
{
    pmix_proc_t peer = all;
    char key[32], text[32];

    CHECK_MSG(size == number(&all, PMIX_MAX_PROCS), "sizes differ");
    CHECK_MSG(number(&all, PMIX_UNIV_SIZE) == size, "no universe was asked for");
    CHECK_MSG(number(&all, PMIX_JOB_NUM_APPS) == 1, "one program");
    CHECK_MSG(number(&all, PMIX_LOCAL_SIZE) <= size, "more ranks here than there are");
    for (peer.rank = 0; peer.rank < size; peer.rank++) {
        CHECK_MSG(number(&peer, PMIX_LOCAL_RANK) <= peer.rank, "local rank of rank %u", peer.rank);
        CHECK_MSG(number(&peer, PMIX_NODE_RANK) <= peer.rank, "node rank of rank %u", peer.rank);
        CHECK_MSG(number(&peer, PMIX_APPNUM) == 0, "program of rank %u", peer.rank);
    }
    CHECK_MSG(number(&me, PMIX_NODEID) < size, "own node");
    if (me.rank == size - 1)
        wait_ms(200); /* the others ask before the put */
    snprintf(key, sizeof(key), "direct-%u", me.rank);
    put(key, "later");
    for (peer.rank = 0; peer.rank < size; peer.rank++) {
        snprintf(key, sizeof(key), "direct-%u", peer.rank);
        expect(&peer, key, "later");
    }
    snprintf(text, sizeof(text), "of %u", me.rank);
    put("fenced", text);
    fence(true);
    for (peer.rank = 0; peer.rank < size; peer.rank++) {
        snprintf(text, sizeof(text), "of %u", peer.rank);
        expect(&peer, "fenced", text);
    }
    fence(false);
}

/* Fences over some ranks, several at a time. */
static void subsets(void)
{
    pmix_proc_t half[64];
    size_t n = 0;

    for (uint32_t i = me.rank % 2; i < size && n < 64; i += 2) {
        half[n] = all;
        half[n++].rank = i;
    }
    for (int i = 0; i < 5; i++) {
        OK(PMIx_Fence(half, n, NULL, 0));
        if (i == 2)
            fence(false);
    }
    fence(false);
}

static void names(void)
{
    pmix_info_t info[2];
    pmix_pdata_t found[2];
    char *gone[] = {NULL, NULL};
    uint32_t n = 4711;

    gone[0] = strdup("port");
    if (me.rank == 0) {
        PMIX_INFO_LOAD(&info[0], "port", "here", PMIX_STRING);
        PMIX_INFO_LOAD(&info[1], "number", &n, PMIX_UINT32);
        OK(PMIx_Publish(info, 2));
        GIVES(PMIx_Publish(info, 1), PMIX_ERR_DUPLICATE_KEY);
    }
    fence(false);
    PMIX_PDATA_CONSTRUCT(&found[0]);
    PMIX_PDATA_CONSTRUCT(&found[1]);
    PMIX_LOAD_KEY(found[0].key, "port");
    PMIX_LOAD_KEY(found[1].key, "number");
    OK(PMIx_Lookup(found, 2, NULL, 0));
    CHECK_MSG(found[0].value.type == PMIX_STRING &&
                  strcmp(found[0].value.data.string, "here") == 0 && found[0].proc.rank == 0,
              "what was published as a text");
    CHECK_MSG(found[1].value.type == PMIX_UINT32 && found[1].value.data.uint32 == 4711,
              "what was published as a number");
    PMIX_PDATA_DESTRUCT(&found[0]);
    PMIX_PDATA_DESTRUCT(&found[1]);
    fence(false);
    if (me.rank == 0)
        OK(PMIx_Unpublish(gone, NULL, 0));
    fence(false);
    PMIX_PDATA_CONSTRUCT(&found[0]);
    PMIX_LOAD_KEY(found[0].key, "port");
    GIVES(PMIx_Lookup(found, 1, NULL, 0), PMIX_ERR_NOT_FOUND);
    PMIX_PDATA_DESTRUCT(&found[0]);
    fence(false);
    free(gone[0]);
}

/* This job and the one that it has spawned, or that has spawned it: connect, exchange, disconnect.
 * First parents begin later than children, then children later than parents. */
static void meet(const char *other, uint32_t n_other, const char *mine, const char *theirs)
{
    pmix_proc_t both[2], peer;

    put("meet", mine);
    both[0] = all;
    PMIX_LOAD_PROCID(&both[1], other, PMIX_RANK_WILDCARD);
    OK(PMIx_Connect(both, 2, NULL, 0));
    PMIX_LOAD_PROCID(&peer, other, PMIX_RANK_WILDCARD);
    CHECK_MSG(number(&peer, PMIX_JOB_SIZE) == n_other, "size of the other job");
    for (peer.rank = 0; peer.rank < n_other; peer.rank++)
        expect(&peer, "meet", theirs);
    OK(PMIx_Fence(both, 2, NULL, 0));
    OK(PMIx_Disconnect(both, 2, NULL, 0));
}

static void child(void)
{
    pmix_value_t *v;

    OK(PMIx_Get(&all, PMIX_PARENT_ID, NULL, 0, &v));
    CHECK_MSG(v->type == PMIX_PROC && v->data.proc->rank == 0, "who has spawned us");
    CHECK_MSG(getenv("FROM_PARENT") && strcmp(getenv("FROM_PARENT"), "yes=1") == 0, "its variable");
    meet(v->data.proc->nspace, (uint32_t)atoi(getenv("PARENTS")), "child", "parent");
    PMIX_VALUE_RELEASE(v);
}

static void fill_app(pmix_app_t *app, const char *program, const char *what, int n)
{
    char parents[32];

    PMIX_APP_CONSTRUCT(app);
    app->cmd = strdup(program);
    PMIX_ARGV_APPEND(errno, app->argv, program);
    PMIX_ARGV_APPEND(errno, app->argv, what);
    PMIX_ARGV_APPEND(errno, app->env, "FROM_PARENT=yes=1");
    PMIX_ARGV_APPEND(errno, app->env, "PMIX_NAMESPACE=not yours to set");
    snprintf(parents, sizeof(parents), "PARENTS=%u", size);
    PMIX_ARGV_APPEND(errno, app->env, parents);
    app->maxprocs = n;
}

static void spawn(const char *program)
{
    pmix_nspace_t nspace = "";
    pmix_proc_t root = all;
    pmix_app_t app;

    root.rank = 0;
    if (me.rank == 0) {
        fill_app(&app, "./no/such/program", "child", 1);
        CHECK_MSG(PMIx_Spawn(NULL, 0, &app, 1, nspace) != PMIX_SUCCESS,
                  "a program that is not there");
        PMIX_APP_DESTRUCT(&app);
        fill_app(&app, program, "child", 1000000);
        GIVES(PMIx_Spawn(NULL, 0, &app, 1, nspace), PMIX_ERR_OUT_OF_RESOURCE);
        PMIX_APP_DESTRUCT(&app);
        fill_app(&app, program, "child", 2);
        OK(PMIx_Spawn(NULL, 0, &app, 1, nspace));
        PMIX_APP_DESTRUCT(&app);
        put("spawned", nspace);
    } else {
        pmix_value_t *v = get(&root, "spawned");

        PMIX_LOAD_NSPACE(nspace, v->data.string);
        PMIX_VALUE_RELEASE(v);
    }
    meet(nspace, 2, "parent", "child");
    fence(false);
}

/* ---- unsupported calls, which must fail ---- */

static void unsupported(void)
{
    pmix_info_t info[1], *results = NULL;
    size_t n = 0;
    pmix_query_t *query;
    pmix_status_t rc;
    bool yes = true;

    PMIX_QUERY_CREATE(query, 1);
    PMIX_ARGV_APPEND(errno, query->keys, PMIX_QUERY_JOB_STATUS);
    GIVES(PMIx_Query_info(query, 1, &results, &n), PMIX_ERR_NOT_SUPPORTED);
    PMIX_QUERY_FREE(query, 1);
    PMIX_INFO_LOAD(&info[0], PMIX_JOB_CTRL_KILL, &yes, PMIX_BOOL);
    GIVES(PMIx_Job_control(NULL, 0, info, 1, &results, &n), PMIX_ERR_NOT_SUPPORTED);
    /* With this attribute a server would remove files of a client's choice at its end. */
    PMIX_INFO_LOAD(&info[0], PMIX_REGISTER_CLEANUP, "/tmp/pmirun-test-never", PMIX_STRING);
    GIVES(PMIx_Job_control(&me, 1, info, 1, &results, &n), PMIX_ERR_NOT_SUPPORTED);
    rc = PMIx_Group_construct("group", &all, 1, NULL, 0, &results, &n);
    if (rc != PMIX_ERR_BAD_PARAM) /* libpmix 5 says so of any refusal */
        GIVES(rc, PMIX_ERR_NOT_SUPPORTED);
    PMIX_INFO_LOAD(&info[0], PMIX_LOG_STDERR, "not ours", PMIX_STRING);
    GIVES(PMIx_Log(info, 1, NULL, 0), PMIX_ERR_NOT_SUPPORTED);
    PMIX_INFO_LOAD(&info[0], PMIX_ALLOC_ID, "more", PMIX_STRING);
    GIVES(PMIx_Allocation_request(PMIX_ALLOC_NEW, info, 1, &results, &n), PMIX_ERR_NOT_SUPPORTED);
    fence(false);
}

/* ---- events ---- */

static atomic_int n_events, event_status;
static atomic_uint event_rank;

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                     size_t n_info, pmix_info_t results[], size_t n_results,
                     pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void)id, (void)status, (void)results, (void)n_results;
    for (size_t i = 0; i < n_info; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_EXIT_CODE))
            event_status = info[i].value.data.integer;
    event_rank = source->rank;
    n_events++;
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* Rank 0 ends with status 3 after finalize: the others get the event if they have registered. */
static void event(void)
{
    pmix_status_t code = PMIX_ERR_EXIT_NONZERO_TERM;
    pmix_status_t other = PMIX_ERR_PROC_ABORTED_BY_SIG;

    if (me.rank > 0) {
        CHECK_MSG(PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL) >= 0, "%s",
                  "cannot ask for events");
        CHECK_MSG(PMIx_Register_event_handler(&other, 1, NULL, 0, on_event, NULL, NULL) >= 0, "%s",
                  "cannot ask for events");
    }
    fence(false);
    if (me.rank == 0) {
        OK(PMIx_Finalize(NULL, 0));
        exit(3);
    }
    for (int i = 0; i < 300 && n_events == 0; i++)
        wait_ms(100);
    wait_ms(300);
    CHECK_MSG(n_events == 1 && event_rank == 0 && event_status == 3,
              "%d events, the last of rank %u with status %d", n_events, event_rank, event_status);
}

/* ---- deaths, and the others' state ---- */

static void die_of(int sig) __attribute__((noreturn));

static void die_of(int sig)
{
    raise(sig);
    forever();
}

/* Some time within PMIx_Init(), later in each run. */
static void die_in_init(unsigned us)
{
    const struct itimerval t = {.it_value = {0, us ? us : 1}};
    const char *rank = getenv("PMIX_RANK");

    signal(SIGALRM, SIG_DFL);
    if (rank && atoi(rank) == 1)
        setitimer(ITIMER_REAL, &t, NULL);
    init();
    PMIx_Fence(&all, 1, NULL, 0);
    forever();
}

static void ignore(pmix_status_t status, void *cbdata)
{
    (void)status, (void)cbdata;
}

static void ignore_spawned(pmix_status_t status, char nspace[], void *cbdata)
{
    (void)status, (void)nspace, (void)cbdata;
}

/* Rank 1 dies before, or after, it enters the others' collective. */
static void die(const char *where, const char *program)
{
    pmix_proc_t peer = all;
    pmix_value_t *v;
    pmix_app_t app;

    fence(false);
    peer.rank = 1;
    if (strcmp(where, "fence") == 0) {
        if (me.rank == 1) {
            wait_ms(100);
            die_of(SIGKILL);
        }
        PMIx_Fence(&all, 1, NULL, 0);
    } else if (strcmp(where, "infence") == 0) {
        if (me.rank == 1) {
            PMIx_Fence_nb(&all, 1, NULL, 0, ignore, NULL);
            wait_ms(100);
            die_of(SIGKILL);
        }
        if (me.rank == 0)
            forever();
        PMIx_Fence(&all, 1, NULL, 0);
    } else if (strcmp(where, "modex") == 0) {
        if (me.rank == 1) {
            wait_ms(100);
            die_of(SIGKILL);
        }
        PMIx_Get(&peer, "never", NULL, 0, &v);
    } else if (strcmp(where, "spawn") == 0) {
        if (me.rank == 1) {
            fill_app(&app, program, "sleep", 2);
            PMIx_Spawn_nb(NULL, 0, &app, 1, ignore_spawned, NULL);
            die_of(SIGKILL);
        }
        forever();
    } else if (strcmp(where, "connect") == 0) {
        if (me.rank == 1) {
            wait_ms(100);
            die_of(SIGKILL);
        }
        PMIx_Connect(&all, 1, NULL, 0);
    } else if (strcmp(where, "lookup") == 0) {
        pmix_pdata_t found[1];
        pmix_info_t info[1];
        int n = 0;

        if (me.rank == 1) {
            wait_ms(100);
            die_of(SIGKILL);
        }
        PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &n, PMIX_INT);
        PMIX_PDATA_CONSTRUCT(&found[0]);
        PMIX_LOAD_KEY(found[0].key, "never");
        PMIx_Lookup(found, 1, info, 1);
    } else { /* exit: without finalize */
        if (me.rank == 1)
            _exit(7);
        PMIx_Fence(&all, 1, NULL, 0);
    }
    forever(); /* an error, or none: in both cases pmirun ends the job */
}

/* Rank 1 has finalized, or has ended without init, and the others enter a fence of all. */
static void gone(bool finalizes)
{
    if (finalizes) {
        fence(false);
        if (me.rank == 1) {
            OK(PMIx_Finalize(NULL, 0));
            forever();
        }
    }
    wait_ms(500);
    GIVES(PMIx_Fence(&all, 1, NULL, 0), PMIX_ERR_LOST_CONNECTION);
    printf("told\n");
    fflush(stdout);
    forever();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *arg = argc > 2 ? argv[2] : "";

    if (strcmp(what, "init") == 0) {
        die_in_init((unsigned)atoi(arg));
        return 0;
    }
    if (strcmp(what, "absent") == 0 && atoi(getenv("PMIX_RANK")) == 1)
        return 0;
    init();
    if (strcmp(what, "gone") == 0 || strcmp(what, "absent") == 0)
        gone(what[0] == 'g');
    else if (strcmp(what, "keys") == 0)
        keys();
    else if (strcmp(what, "subsets") == 0)
        subsets();
    else if (strcmp(what, "names") == 0)
        names();
    else if (strcmp(what, "spawn") == 0)
        spawn(argv[0]);
    else if (strcmp(what, "child") == 0)
        child();
    else if (strcmp(what, "sleep") == 0)
        forever();
    else if (strcmp(what, "unsupported") == 0)
        unsupported();
    else if (strcmp(what, "event") == 0)
        event();
    else if (strcmp(what, "die") == 0)
        die(arg, argv[0]);
    else if (strcmp(what, "abort") == 0 && me.rank == size - 1)
        PMIx_Abort(atoi(arg), "the sky falls", NULL, 0), forever();
    else if (strcmp(what, "abort") == 0)
        PMIx_Fence(&all, 1, NULL, 0), forever();
    else if (strcmp(what, "twice") == 0) { /* a program of a rank's own uses its name */
        char command[4200];
        int status;

        snprintf(command, sizeof(command), "%s once", argv[0]);
        status = system(command);
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
        _exit(7); /* without finalize, whatever that program did */
    }
    OK(PMIx_Finalize(NULL, 0));
    printf("%s ok\n", what);
    return 0;
}
