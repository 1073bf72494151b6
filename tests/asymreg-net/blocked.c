/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that is killed between taking and filling a place in the queue of another one, over
 * UCX's shared memory: blocked ucx|ucx-thread [sound]. Operations between that one and the others
 * end with ASYMREG_EPEER; the others work on. With `sound` it is killed elsewhere: then a process
 * that seldom progresses, while others put to it without pause, keeps its connections.
 */
#define _GNU_SOURCE
#include "../asymreg/targets.h"

#include <asymreg-ucx.h>
#include <inttypes.h>
#include <sched.h>
#include <ucp/api/ucp.h>

/* PUTS fill a queue of UCX. */
enum { BLOCKED, PEER, OTHER, KILLED, N, PUTS = 200, DEADLINE_MS = 20000 };
/* of this library before UCX's address */
#define ADDRESS_HEAD_BYTES 80

static struct board {
    struct {
        size_t bytes;
        char blob[ASYMREG_MAX_BLOB_BYTES];
        char address[ASYMREG_MAX_ADDRESS_BYTES];
        uint64_t addr;
    } at[N];
    int published, connected, begun, done;
    uint64_t killed_ms;
} * board;

static int thread, sound;

static uint64_t now_ms(void)
{
    return (uint64_t)(now() * 1000);
}

/* Waits until n processes are here, and serves them meanwhile. */
static void meet(struct asymreg_worker *w, int *counter, int n)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < n) {
        if (!thread)
            CHECK(asymreg_progress(w) >= 0);
        usleep(200);
    }
}

/* ---- the process that is killed ---- */

static void *start_pack(void *context, const void *buffer, size_t count)
{
    (void)buffer, (void)count;
    return context;
}

static size_t packed_size(void *state)
{
    return 100;
}

static void finish(void *state)
{
}

/* UCX has taken a place in the target's queue, and asks for its content. */
static size_t pack(void *state, size_t offset, void *to, size_t room)
{
    (void)state, (void)offset, (void)to;
    __atomic_store_n(&board->killed_ms, now_ms(), __ATOMIC_RELEASE);
    raise(SIGKILL);
    return room;
}

static void die_in_queue(const char *address)
{
    const ucp_generic_dt_ops_t ops = {
        .start_pack = start_pack, .packed_size = packed_size, .pack = pack, .finish = finish};
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_AM};
    const ucp_worker_params_t none = {.field_mask = 0};
    const ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                .address = (const void *)address};
    ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE};
    ucp_context_h context;
    ucp_config_t *config;
    ucp_worker_h worker;
    ucp_ep_h ep;

    CHECK(ucp_config_read(NULL, NULL, &config) == UCS_OK);
    CHECK(ucp_init(&params, config, &context) == UCS_OK);
    CHECK(ucp_worker_create(context, &none, &worker) == UCS_OK);
    CHECK(ucp_ep_create(worker, &to, &ep) == UCS_OK);
    CHECK(ucp_dt_create_generic(&ops, board, &how.datatype) == UCS_OK);
    CHECK(!UCS_PTR_IS_ERR(ucp_am_send_nbx(ep, 1, "head", 4, "", 1, &how)));
    while (1)
        ucp_worker_progress(worker);
}

/* ---- the others ---- */

/* Returns the error that ends the puts; 0: none before the deadline. */
static int put_until_end(struct asymreg_worker *w, uint32_t pe)
{
    uint64_t end = now_ms() + DEADLINE_MS, word = pe;
    int rc;

    do
        rc = asymreg_put(w, pe, board->at[pe].addr, ASYMREG_ANY, &word, sizeof(word));
    while (rc == 0 && now_ms() < end);
    return rc;
}

/* Operations with this peer end with ASYMREG_EPEER. */
static void expect_end(struct asymreg_worker *w, uint32_t me, uint32_t pe)
{
    int rc = put_until_end(w, pe);

    printf("process %u: %u is gone %" PRIu64 " ms after the kill\n", me, pe,
           now_ms() - board->killed_ms);
    CHECK(rc == ASYMREG_EPEER);
    CHECK(asymreg_put(w, pe, board->at[pe].addr, ASYMREG_ANY, &rc, sizeof(rc)) == ASYMREG_EPEER);
}

static void survive(struct asymreg_context *c, struct asymreg_worker *w, uint32_t me)
{
    uint64_t words[PUTS] = {0};
    int rc;

    while (__atomic_load_n(&board->killed_ms, __ATOMIC_ACQUIRE) == 0)
        CHECK(asymreg_progress(w) >= 0); /* the other's UCX connects first */
    if (me == PEER)
        for (int i = 0; i < PUTS; i++) {
            rc = asymreg_put_nb(w, BLOCKED, board->at[BLOCKED].addr, ASYMREG_ANY, &words[i],
                                sizeof(*words), NULL);
            CHECK(rc == 0 || (thread && rc == ASYMREG_EPEER));
        }
    __atomic_fetch_add(&board->begun, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&board->begun, __ATOMIC_ACQUIRE) < N - 1)
        usleep(200);
    if (me == PEER)
        CHECK(asymreg_flush(w, BLOCKED) == ASYMREG_EPEER);
    expect_end(w, me, KILLED);
    for (uint32_t pe = 0; pe < KILLED; pe++)
        if (pe != me && (me == BLOCKED || pe == BLOCKED))
            expect_end(w, me, pe);
    if (me == BLOCKED)
        CHECK(asymreg_import(c, N, board->at[PEER].blob, board->at[PEER].bytes, NULL) ==
              ASYMREG_EUNREACH);
    else
        CHECK(asymreg_put(w, PEER + OTHER - me, board->at[PEER + OTHER - me].addr, ASYMREG_ANY,
                          words, sizeof(*words)) == 0);
}

/* The others put without pause, and BLOCKED progresses every 25 ms, for longer than it would wait
 * for its queue. */
static void stay_connected(struct asymreg_worker *w, uint32_t me)
{
    uint64_t word = me, end = now_ms() + 2500;

    while (now_ms() < end) {
        if (me == BLOCKED) {
            CHECK(asymreg_progress(w) >= 0);
            usleep(25000);
        } else {
            CHECK(asymreg_put_nb(w, BLOCKED, board->at[BLOCKED].addr, ASYMREG_ANY, &word,
                                 sizeof(word), NULL) == 0);
        }
    }
    __atomic_fetch_add(&board->begun, 1, __ATOMIC_ACQ_REL);
    while (me == BLOCKED && __atomic_load_n(&board->begun, __ATOMIC_ACQUIRE) < N - 1)
        CHECK(asymreg_progress(w) >= 0);
    for (uint32_t pe = 0; pe < KILLED; pe++)
        if (pe != me) {
            CHECK(asymreg_flush(w, pe) == 0);
            CHECK(asymreg_put(w, pe, board->at[pe].addr, ASYMREG_ANY, &word, sizeof(word)) == 0);
        }
}

static void process(uint32_t me)
{
    static uint64_t memory;
    struct asymreg_ucx_opts ucx = {.size = sizeof(ucx), .flags = thread ? ASYMREG_UCX_THREAD : 0};
    struct asymreg_opts opts = {.size = sizeof(opts)};
    struct asymreg_context *c;
    struct asymreg_worker *w;
    size_t bytes;
    ssize_t n;

    CHECK(asymreg_ucx_create(&ucx, &opts.transport, NULL) == 0);
    CHECK(opts.transport->ops->address(opts.transport, board->at[me].address, &bytes, NULL) == 0);
    CHECK(asymreg_open(&opts, &c, NULL) == 0);
    CHECK(asymreg_register(c, &memory, sizeof(memory), ASYMREG_ALL, NULL, NULL, NULL) == 0);
    CHECK(asymreg_worker_create(c, &w) == 0);
    n = asymreg_export(c, board->at[me].blob, ASYMREG_MAX_BLOB_BYTES, NULL);
    CHECK(n > 0);
    board->at[me].bytes = (size_t)n;
    board->at[me].addr = (uintptr_t)&memory;
    meet(w, &board->published, N);
    for (uint32_t pe = 0; pe < N; pe++)
        if (pe != me) {
            CHECK(asymreg_import(c, pe, board->at[pe].blob, board->at[pe].bytes, NULL) == 0);
            CHECK(asymreg_put(w, pe, board->at[pe].addr, ASYMREG_ANY, &n, sizeof(n)) == 0);
        }
    meet(w, &board->connected, N);
    if (me == KILLED && sound)
        raise(SIGKILL);
    if (me == KILLED)
        die_in_queue(board->at[BLOCKED].address + ADDRESS_HEAD_BYTES);
    if (sound)
        stay_connected(w, me);
    else
        survive(c, w, me);
    meet(w, &board->done, N - 1);
    asymreg_worker_destroy(w);
    asymreg_close(c);
}

int main(int argc, char **argv)
{
    pid_t pids[N];
    int status;

    sound = argc == 3 && strcmp(argv[2], "sound") == 0;
    if (argc != 2 + sound || strncmp(argv[1], "ucx", 3) != 0) {
        fprintf(stderr, "usage: blocked ucx|ucx-thread [sound]\n");
        return 2;
    }
    thread = strcmp(argv[1], "ucx-thread") == 0;
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED);
    for (uint32_t me = 0; me < N; me++) {
        pids[me] = fork();
        if (pids[me] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(60);
            process(me);
            exit(0);
        }
        CHECK(pids[me] > 0);
    }
    for (uint32_t me = 0; me < N; me++) {
        CHECK(waitpid(pids[me], &status, 0) == pids[me]);
        CHECK(status == (me == KILLED ? SIGKILL : 0));
    }
    return 0;
}
