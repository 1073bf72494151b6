/* SPDX-License-Identifier: BSD-3-Clause */
/* libasymreg beside UCX itself: bench_asym_ucx [--quick] [--seed N]
 *
 * One process puts 8 bytes at random places of another one's memory and flushes each put. In one
 * run, in turns: `raw UCX` (ucp_put_nbx(), ucp_ep_flush_nbx()), libasymreg over UCX, where the
 * target checks each put, and libasymreg on the node, where no check by the target is needed (loads
 * and stores, or CMA). Cases: sm_private and tcp_private (memory of malloc(); UCX moves the bytes
 * by messages, too), sm_shared and tcp_shared (memory that UCX has allocated, or a segment). Both
 * processes progress all they have. Metrics: wall_ns_per_op, median of the turns, and ratio_to_raw;
 * on a busy machine they mean little. */
#define _GNU_SOURCE
#include "../bench.h"
#include "two_processes.h"

#include <asymreg-ucx.h>
#include <asymreg.h>

#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <ucp/api/ucp.h>

#define BYTES     65536u
#define MAX_TURNS 41
#define MIN_TURNS 3
/* for the turns of one case; all fit on an idle machine */
#define ENOUGH_NS UINT64_C(5000000000)

enum way { RAW, OVER_UCX, ON_NODE, N_WAYS };
enum memory { PRIVATE, SHARED };
static const char *const ways[] = {"raw UCX", "asymreg over UCX", "asymreg on the node"};

/* What the server sends: an address for each way, and how to reach it. */
struct card {
    uint64_t at[N_WAYS];
    size_t address_bytes, rkey_bytes;
    ssize_t blob_bytes[N_WAYS];
    char address[4096], rkey[1024], blob[N_WAYS][ASYMREG_MAX_BLOB_BYTES];
};

struct measured {
    struct bench *b;
    const char *network;
    enum memory memory;
};

struct side {
    ucp_context_h context;
    ucp_worker_h ucp;
    ucp_ep_h ep;
    ucp_rkey_h rkey;
    struct asymreg_context *ctx[N_WAYS];
    struct asymreg_worker *worker[N_WAYS];
    struct card card;
};

static void open_side(struct side *s)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA};
    const ucp_worker_params_t none = {.field_mask = 0};
    struct asymreg_opts opts = {.size = sizeof(opts), .max_regions = 128};
    ucp_config_t *config;

    DIE_IF(ucp_config_read(NULL, NULL, &config) != UCS_OK ||
           ucp_init(&params, config, &s->context) != UCS_OK ||
           ucp_worker_create(s->context, &none, &s->ucp) != UCS_OK);
    ucp_config_release(config);
    for (int way = OVER_UCX; way < N_WAYS; way++) {
        opts.transport = NULL;
        if (way == OVER_UCX)
            DIE_IF(asymreg_ucx_create(NULL, &opts.transport, NULL) < 0);
        DIE_IF(asymreg_open(&opts, &s->ctx[way], NULL) < 0 ||
               asymreg_worker_create(s->ctx[way], &s->worker[way]) < 0);
    }
}

static void expose_raw(struct side *s, enum memory memory)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                   .length = BYTES};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucp_address_t *address;
    ucp_mem_h memh;
    void *rkey;

    if (memory == SHARED)
        params.flags = UCP_MEM_MAP_ALLOCATE;
    else
        params.address = calloc(1, BYTES);
    DIE_IF(ucp_mem_map(s->context, &params, &memh) != UCS_OK ||
           ucp_mem_query(memh, &attr) != UCS_OK ||
           ucp_rkey_pack(s->context, memh, &rkey, &s->card.rkey_bytes) != UCS_OK ||
           s->card.rkey_bytes > sizeof(s->card.rkey));
    s->card.at[RAW] = (uintptr_t)attr.address;
    memcpy(s->card.rkey, rkey, s->card.rkey_bytes);
    DIE_IF(ucp_worker_get_address(s->ucp, &address, &s->card.address_bytes) != UCS_OK ||
           s->card.address_bytes > sizeof(s->card.address));
    memcpy(s->card.address, address, s->card.address_bytes);
}

static void serve(const void *measured, int sock)
{
    enum memory memory = ((const struct measured *)measured)->memory;
    static struct side s;
    struct pollfd p = {.fd = sock, .events = POLLIN};

    open_side(&s);
    expose_raw(&s, memory);
    for (int way = OVER_UCX; way < N_WAYS; way++) {
        void *at = calloc(1, BYTES);

        if (way == ON_NODE && memory == SHARED)
            DIE_IF(asymreg_segment_alloc(s.ctx[way], BYTES, &at, NULL) < 0);
        DIE_IF(asymreg_register(s.ctx[way], at, BYTES, ASYMREG_RW, NULL, NULL, NULL) < 0);
        s.card.at[way] = (uintptr_t)at;
        s.card.blob_bytes[way] =
            asymreg_export(s.ctx[way], s.card.blob[way], sizeof(s.card.blob[way]), NULL);
        DIE_IF(s.card.blob_bytes[way] < 0);
    }
    DIE_IF(send(sock, &s.card, sizeof(s.card), 0) != (ssize_t)sizeof(s.card));
    while (poll(&p, 1, 0) == 0) {
        for (int i = 0; i < 256; i++) {
            ucp_worker_progress(s.ucp);
            asymreg_progress(s.worker[OVER_UCX]);
        }
        sched_yield();
    }
}

static void wait_raw(struct side *s, ucs_status_ptr_t request)
{
    DIE_IF(UCS_PTR_IS_ERR(request));
    while (request && ucp_request_check_status(request) == UCS_INPROGRESS)
        ucp_worker_progress(s->ucp);
    if (request)
        ucp_request_free(request);
}

static void put_one(struct side *s, enum way way, uint64_t at, const uint64_t *value)
{
    static const ucp_request_param_t none;

    if (way == RAW) {
        wait_raw(s, ucp_put_nbx(s->ep, value, 8, at, s->rkey, &none));
        wait_raw(s, ucp_ep_flush_nbx(s->ep, &none));
    } else {
        DIE_IF(asymreg_put(s->worker[way], 0, at, ASYMREG_ANY, value, 8) < 0 ||
               asymreg_flush(s->worker[way], 0) < 0);
    }
}

static double turn(struct bench *b, struct side *s, enum way way, unsigned int ops)
{
    uint64_t begin = bench_ns(CLOCK_MONOTONIC);

    for (uint64_t i = 0; i < ops; i++)
        put_one(s, way, s->card.at[way] + 8 * bench_random(b, BYTES / 8), &i);
    return (double)(bench_ns(CLOCK_MONOTONIC) - begin) / ops;
}

static void client(const void *measured, int sock)
{
    const struct measured *what = measured;
    struct bench *b = what->b;
    static struct side s;
    static double ns[N_WAYS][MAX_TURNS], ratio[N_WAYS][MAX_TURNS];
    ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    int turns = b->quick ? MIN_TURNS : MAX_TURNS;
    uint64_t begin;
    char name[32];

    open_side(&s);
    DIE_IF(recv(sock, &s.card, sizeof(s.card), MSG_WAITALL) != (ssize_t)sizeof(s.card));
    to.address = (const ucp_address_t *)s.card.address;
    DIE_IF(ucp_ep_create(s.ucp, &to, &s.ep) != UCS_OK ||
           ucp_ep_rkey_unpack(s.ep, s.card.rkey, &s.rkey) != UCS_OK);
    for (int way = OVER_UCX; way < N_WAYS; way++)
        DIE_IF(asymreg_import(s.ctx[way], 0, s.card.blob[way], (size_t)s.card.blob_bytes[way],
                              NULL) < 0);
    for (enum way way = RAW; way < N_WAYS; way++) /* connects */
        (void)turn(b, &s, way, 20);
    begin = bench_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < turns; i++) {
        for (enum way way = RAW; way < N_WAYS; way++) {
            double x = turn(b, &s, way, b->quick ? 20 : 100);

            ns[way][i] = x;
            ratio[way][i] = x / ns[RAW][i];
        }
        if (i + 1 >= MIN_TURNS && bench_ns(CLOCK_MONOTONIC) - begin > ENOUGH_NS)
            turns = i + 1;
    }
    snprintf(name, sizeof(name), "%s_%s", what->network,
             what->memory == PRIVATE ? "private" : "shared");
    for (enum way way = RAW; way < N_WAYS; way++) {
        bench_figure(b, name, 1, ways[way], "wall_ns_per_op", bench_median(ns[way], (size_t)turns),
                     "ns");
        bench_figure(b, name, 1, ways[way], "ratio_to_raw", bench_median(ratio[way], (size_t)turns),
                     "1");
    }
    fflush(stdout);
}

static void measure(struct bench *b, const char *network, enum memory memory)
{
    const struct measured what = {b, network, memory};

    setenv("UCX_TLS", strcmp(network, "tcp") == 0 ? "tcp" : "posix,cma", 1);
    setenv("UCX_NET_DEVICES", strcmp(network, "tcp") == 0 ? "lo" : "all", 1);
    two_processes(serve, client, &what);
}

int main(int argc, char **argv)
{
    struct bench b;

    quiet_ucx(argv);
    bench_init(&b, "asym_ucx", argc, argv);
    for (enum memory memory = PRIVATE; memory <= SHARED; memory++) {
        measure(&b, "sm", memory);
        measure(&b, "tcp", memory);
    }
    return 0;
}
