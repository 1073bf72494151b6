/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between agents as UCX active messages. Over the connection to the head each agent learns
 * the others' worker addresses, and which agent is gone; UCX carries the exchange's frames.
 *
 * UCX neither authenticates nor encrypts, so each message is a datagram (channel.h) sealed
 * with the key of its pair and direction, behind a header with its sender, receiver and number. A
 * message that is not authentic, or replayed, is refused and reported; one that overtook another
 * waits for it. No message is sent twice: if one cannot be kept, its sender counts as lost.
 *
 * libucp is loaded when an agent needs it. If it were linked, every pmirun would start 10 ms later
 * and every node would need it.
 */
#define _GNU_SOURCE
#include "links.h"

#include "../local/exchange.h"
#include "nodes.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <ucp/api/ucp.h>

#define MAX_WAITING    4096u        /* messages of one peer that overtook others */
#define TURN_BYTES     (256u << 10) /* that ucx_progress() delivers before others have their turn */
#define MAX_COMPLAINTS 20u

struct header {
    uint32_t from, to;
    uint64_t seq;
};

/* A received message; kept if it arrived before its turn. */
struct waiting {
    struct waiting *next;
    uint64_t seq;
    size_t n;
    uint8_t bytes[];
};

/* On its way. */
struct sending {
    struct header header;
    size_t n;
    uint8_t bytes[];
};

struct ucx_peer {
    ucp_ep_h ep;
    uint8_t in_key[DATAGRAM_KEY_BYTES], out_key[DATAGRAM_KEY_BYTES];
    uint64_t in_seq, out_seq;
    struct waiting *waiting;
    uint32_t n_waiting;
    size_t sending; /* bytes that UCX has and has not sent */
    bool full;      /* ucx_full() said so, and exchange_room() follows */
    bool failed;
};

/* What we use of libucp and libucs. */
/* clang-format off */
#define FUNCTIONS(X) \
    X(ucp_config_read) X(ucp_config_modify) X(ucp_config_release) X(ucp_init_version) \
    X(ucp_cleanup) X(ucp_worker_create) X(ucp_worker_destroy) X(ucp_worker_set_am_recv_handler) \
    X(ucp_worker_get_efd) X(ucp_worker_get_address) X(ucp_worker_release_address) \
    X(ucp_worker_progress) X(ucp_worker_arm) X(ucp_ep_create) X(ucp_am_send_nbx) \
    X(ucp_request_free) X(ucs_status_string)
/* clang-format on */
#define POINTER(name) static __typeof__(&name) dl_##name;
FUNCTIONS(POINTER)

/* 0, or -ENOENT: missing on this node, or another version. */
static int load(void)
{
    void *lib = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);

    if (!lib)
        return -ENOENT;
#define FIND(name)                                                                                 \
    *(void **)&dl_##name = dlsym(lib, #name);                                                      \
    if (!dl_##name)                                                                                \
        return -ENOENT;
    FUNCTIONS(FIND)
    return 0;
}

struct ucx {
    struct source src;
    struct pmirun *pr;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_len;
    struct ucx_peer *peers;
    uint32_t n_complaints, n_full;
    size_t turn_bytes; /* delivered in this turn */
    bool more;         /* this turn left work for the next */
};

static struct ucx ucx; /* one a process, as the library that it loads */

/* ---- receiving ---- */

static void refuse(struct ucx *u, const char *why)
{
    if (u->n_complaints++ < MAX_COMPLAINTS)
        say(u->pr, "a UCX message is refused: %s", why);
}

static void deliver(struct ucx *u, uint32_t from, const void *p, size_t n)
{
    u->peers[from].in_seq++;
    u->turn_bytes += n;
    if (!agent_heard(u->pr, from, p, n))
        agent_lost(u->pr, from, "its message is invalid");
}

/* Opens a sealed message. NULL: it is refused. */
static struct waiting *unseal(struct ucx *u, const struct header *h, const void *p, size_t n)
{
    const struct ucx_peer *peer = &u->peers[h->from];
    struct waiting *w;

    if (h->seq < peer->in_seq || n < DATAGRAM_TAG_BYTES) {
        refuse(u, n < DATAGRAM_TAG_BYTES ? "not authentic" : "replayed");
        return NULL;
    }
    w = malloc(sizeof(*w) + n);
    if (!w) {
        agent_lost(u->pr, h->from, "out of memory for its message");
        return NULL;
    }
    if (!datagram_unseal(peer->in_key, h->seq, p, n, w->bytes)) {
        refuse(u, "not authentic");
        free(w);
        return NULL;
    }
    w->seq = h->seq;
    w->n = n - DATAGRAM_TAG_BYTES;
    return w;
}

static bool is_waiting(const struct ucx_peer *peer, uint64_t seq)
{
    const struct waiting *w = peer->waiting;

    while (w && w->seq != seq)
        w = w->next;
    return w != NULL;
}

static void keep(struct ucx *u, uint32_t from, struct waiting *w)
{
    struct ucx_peer *peer = &u->peers[from];

    if (is_waiting(peer, w->seq)) {
        refuse(u, "replayed");
        free(w);
        return;
    }
    if (peer->n_waiting == MAX_WAITING) {
        agent_lost(u->pr, from, "too many of its messages overtook others");
        free(w);
        return;
    }
    w->next = peer->waiting;
    peer->waiting = w;
    peer->n_waiting++;
}

/* Those whose turn has come. */
static void deliver_waiting(struct ucx *u, uint32_t from)
{
    struct ucx_peer *peer = &u->peers[from];
    struct waiting **p = &peer->waiting;

    while (*p) {
        struct waiting *w = *p;

        if (w->seq > peer->in_seq) {
            p = &w->next;
            continue;
        }
        *p = w->next;
        peer->n_waiting--;
        if (w->seq == peer->in_seq)
            deliver(u, from, w->bytes, w->n);
        free(w);
        p = &peer->waiting;
    }
}

static ucs_status_t on_message(void *arg, const void *head, size_t head_len, void *data, size_t n,
                               const ucp_am_recv_param_t *param)
{
    struct ucx *u = arg;
    struct waiting *w;
    struct header h;

    if (head_len != sizeof(h) || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        refuse(u, "it is malformed");
        return UCS_OK;
    }
    memcpy(&h, head, sizeof(h));
    if (!u->peers || h.to != u->pr->nodes->agent.node || h.from >= u->pr->nodes->agent.n_nodes ||
        h.from == h.to) {
        refuse(u, "it is for another node");
        return UCS_OK;
    }
    w = unseal(u, &h, data, n);
    if (w && w->seq > u->peers[h.from].in_seq) {
        keep(u, h.from, w);
    } else if (w) {
        deliver(u, h.from, w->bytes, w->n);
        free(w);
        deliver_waiting(u, h.from);
    }
    return UCS_OK;
}

/* ---- setting up ---- */

static int make_context(struct ucx *u)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    ucp_config_t *config;
    ucs_status_t rc;

    if (dl_ucp_config_read(NULL, NULL, &config) != UCS_OK)
        return -ENODEV;
    if (!getenv("UCX_TLS")) /* between nodes there is no shared memory, and files of it would
                               outlive an agent that is killed */
        dl_ucp_config_modify(config, "TLS", "^sm");
    rc = dl_ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &u->context);
    dl_ucp_config_release(config);
    return rc == UCS_OK ? 0 : -ENODEV;
}

static void on_event(struct pmirun *pr, struct source *src, uint32_t events)
{
    (void)pr, (void)src, (void)events;
    ucx_progress();
}

static int make_worker(struct ucx *u)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_am_handler_param_t am = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                               UCP_AM_HANDLER_PARAM_FIELD_CB |
                                               UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                 .id = 0,
                                 .cb = on_message,
                                 .arg = u};
    int fd;

    if (dl_ucp_worker_create(u->context, &params, &u->worker) != UCS_OK)
        return -ENODEV;
    if (dl_ucp_worker_set_am_recv_handler(u->worker, &am) != UCS_OK ||
        dl_ucp_worker_get_efd(u->worker, &fd) != UCS_OK ||
        dl_ucp_worker_get_address(u->worker, &u->address, &u->address_len) != UCS_OK)
        return -ENODEV;
    u->src = (struct source){on_event, fd};
    return 0;
}

int ucx_start(struct pmirun *pr)
{
    int rc;

    ucx = (struct ucx){.pr = pr, .src = {NULL, -1}};
    rc = load();
    if (rc == 0)
        rc = make_context(&ucx);
    if (rc == 0)
        rc = make_worker(&ucx);
    if (rc)
        ucx_stop(pr);
    return rc;
}

const void *ucx_address(size_t *n)
{
    *n = ucx.address_len;
    return ucx.address;
}

int ucx_join(struct pmirun *pr)
{
    const struct agent *a = &pr->nodes->agent;
    int rc;

    ucx.peers = calloc(a->n_nodes, sizeof(*ucx.peers));
    if (!ucx.peers)
        return -ENOMEM;
    rc = loop_add(pr, &ucx.src, EPOLLIN);
    if (rc) {
        free(ucx.peers);
        ucx.peers = NULL;
        return rc;
    }
    for (uint32_t i = 0; i < a->n_nodes; i++) {
        datagram_key(&pr->nodes->net.self, i, a->node, ucx.peers[i].in_key);
        datagram_key(&pr->nodes->net.self, a->node, i, ucx.peers[i].out_key);
    }
    return 0;
}

void ucx_stop(struct pmirun *pr)
{
    if (ucx.peers)
        loop_del(pr, &ucx.src);
    for (uint32_t i = 0; ucx.peers && i < pr->nodes->agent.n_nodes; i++) {
        while (ucx.peers[i].waiting) {
            struct waiting *w = ucx.peers[i].waiting;

            ucx.peers[i].waiting = w->next;
            free(w);
        }
    }
    if (ucx.address)
        dl_ucp_worker_release_address(ucx.worker, ucx.address);
    if (ucx.worker)
        dl_ucp_worker_destroy(ucx.worker); /* its endpoints too */
    if (ucx.context)
        dl_ucp_cleanup(ucx.context);
    if (ucx.peers)
        sodium_memzero(ucx.peers, pr->nodes->agent.n_nodes * sizeof(*ucx.peers));
    free(ucx.peers);
    memset(&ucx, 0, sizeof(ucx));
    ucx.src.fd = -1;
}

/* ---- sending ---- */

static void on_peer_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    uint32_t node = (uint32_t)(uintptr_t)arg;

    ucx.peers[node].failed = true;
    agent_lost(ucx.pr, node, dl_ucs_status_string(status));
}

static int make_ep(struct ucx *u, uint32_t node)
{
    ucp_ep_params_t params = {0};

    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = (const ucp_address_t *)u->pr->nodes->agent.peers[node].ucx;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = on_peer_error;
    params.err_handler.arg = (void *)(uintptr_t)node;
    return dl_ucp_ep_create(u->worker, &params, &u->peers[node].ep) == UCS_OK ? 0 : -EHOSTUNREACH;
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
    struct sending *s = arg;

    (void)status; /* on_peer_error() has reported an error */
    ucx.peers[s->header.to].sending -= s->n;
    free(s);
    dl_ucp_request_free(request);
}

int ucx_connect(struct pmirun *pr, uint32_t node)
{
    struct ucx_peer *peer = &ucx.peers[node];

    return peer->failed ? -EPIPE : peer->ep ? 0 : make_ep(&ucx, node);
}

bool ucx_full(uint32_t node)
{
    struct ucx_peer *peer = &ucx.peers[node];

    if (!peer->full && peer->sending > UCX_QUEUE_BYTES) {
        peer->full = true;
        ucx.n_full++;
    }
    return peer->full;
}

/* Says where there is room again. */
static void tell_room(struct ucx *u)
{
    for (uint32_t i = 0; u->n_full > 0 && i < u->pr->nodes->agent.n_nodes; i++) {
        struct ucx_peer *peer = &u->peers[i];

        if (!peer->full || peer->sending > UCX_QUEUE_BYTES / 2)
            continue;
        peer->full = false;
        u->n_full--;
        u->more = true; /* what is sent now */
        exchange_room(u->pr, i);
    }
}

int ucx_send(struct pmirun *pr, uint32_t node, const void *p, size_t n)
{
    struct ucx_peer *peer = &ucx.peers[node];
    ucp_request_param_t param = {0};
    struct sending *s;
    ucs_status_ptr_t request;
    int rc = ucx_connect(pr, node);

    if (rc)
        return rc;
    s = malloc(sizeof(*s) + n + DATAGRAM_TAG_BYTES);
    if (!s)
        return -ENOMEM;
    s->header = (struct header){.from = pr->nodes->agent.node, .to = node, .seq = peer->out_seq++};
    s->n = n;
    datagram_seal(peer->out_key, s->header.seq, p, n, s->bytes);
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param.cb.send = on_sent;
    param.user_data = s;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    request = dl_ucp_am_send_nbx(peer->ep, 0, &s->header, sizeof(s->header), s->bytes,
                                 n + DATAGRAM_TAG_BYTES, &param);
    if (UCS_PTR_IS_PTR(request)) {
        peer->sending += n;
        return 0;
    }
    free(s);
    return UCS_PTR_IS_ERR(request) ? -ECONNABORTED : 0;
}

/* Makes progress until UCX is idle and epoll will report more (true), or this turn's share is used
 * up (false). */
static bool progress(struct ucx *u)
{
    u->turn_bytes = 0;
    do {
        while (dl_ucp_worker_progress(u->worker))
            if (u->turn_bytes > TURN_BYTES)
                return false;
    } while (dl_ucp_worker_arm(u->worker) == UCS_ERR_BUSY);
    return true;
}

/* Not before ucx_join(): until then, messages of agents that learnt of this one earlier wait in
 * UCX. */
void ucx_progress(void)
{
    if (!ucx.peers)
        return;
    ucx.more = !progress(&ucx);
    tell_room(&ucx);
}

bool ucx_more(void)
{
    return ucx.more;
}
