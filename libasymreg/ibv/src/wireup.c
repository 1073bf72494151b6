/* SPDX-License-Identifier: BSD-3-Clause */
/* Connects without calls on the target's side. Each transport has an unreliable-datagram queue pair
 * and a thread that sleeps until a datagram arrives or a request must be repeated. An endpoint
 * sends REQUEST with the number of its own queue pair; the peer's thread makes the other end, which
 * only answers, and sends that end's number in REPLY. A lost REQUEST or REPLY is repeated: the pair
 * of sender and endpoint number names the connection, the attempt distinguishes repeated
 * connections. BYE ends a connection. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ibv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#define GRH_BYTES 40u
#define REPEAT_NS UINT64_C(100000000)

_Static_assert(MESSAGE_BYTES <= UD_BYTES, "a message fits");

/* The target's end of a connection. */
struct passive {
    struct passive *next;
    uint64_t from;
    uint32_t number, attempt;
    struct ibv_qp *qp;
    uint32_t psn;
};

/* A datagram to send. */
struct letter {
    struct letter *next;
    struct message message;
    struct port_address to;
    uint32_t ud_qpn, qkey;
};

static uint32_t random_psn(void)
{
    uint32_t psn = 0;

    if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn))
        psn = (uint32_t)asymreg_ibv__now_ns();
    return psn & 0xffffff;
}

static void wake_thread(struct ibv_transport *t)
{
    uint64_t one = 1;

    if (write(t->wake_fd, &one, sizeof(one)) < 0)
        return; /* full: the thread is awake already */
}

static struct ibv_ah_attr path_to(const struct ibv_transport *t, const struct port_address *a)
{
    struct ibv_ah_attr attr = {.dlid = a->lid, .port_num = t->port, .is_global = t->is_global};

    if (t->is_global) {
        attr.grh.dgid = a->gid;
        attr.grh.sgid_index = t->gid_index;
        attr.grh.hop_limit = 64;
    }
    return attr;
}

/* Queues one datagram, or drops it: the other side repeats its request. With the lock held. */
static void send_message(struct ibv_transport *t, const struct message *m,
                         const struct port_address *to, uint32_t qpn, uint32_t qkey)
{
    struct letter *letter = malloc(sizeof(*letter));

    if (!letter)
        return;
    *letter =
        (struct letter){.next = t->letters, .message = *m, .to = *to, .ud_qpn = qpn, .qkey = qkey};
    t->letters = letter;
}

/* Without the lock: the kernel may need a second to resolve an address on Ethernet. */
static void post_letter(struct ibv_transport *t, const struct letter *letter)
{
    unsigned char *buf;
    uint32_t i = 0;
    struct ibv_ah_attr path = path_to(t, &letter->to);
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;

    while (i < UD_DEPTH && t->ud_ah[i])
        i++;
    if (i == UD_DEPTH)
        return;
    t->ud_ah[i] = ibv_create_ah(t->pd, &path);
    if (!t->ud_ah[i])
        return;
    buf = t->ud_bounce + (size_t)UD_DEPTH * (GRH_BYTES + UD_BYTES) + (size_t)i * UD_BYTES;
    asymreg_ibv__message_pack(&letter->message, buf);
    sge = (struct ibv_sge){.addr = (uintptr_t)buf, .length = MESSAGE_BYTES, .lkey = t->ud_mr->lkey};
    wr.wr_id = UD_DEPTH + i;
    wr.wr.ud.ah = t->ud_ah[i];
    wr.wr.ud.remote_qpn = letter->ud_qpn;
    wr.wr.ud.remote_qkey = letter->qkey;
    if (ibv_post_send(t->ud_qp, &wr, &bad) != 0) {
        ibv_destroy_ah(t->ud_ah[i]);
        t->ud_ah[i] = NULL;
    }
}

static int post_receive(struct ibv_transport *t, uint32_t i)
{
    struct ibv_sge sge = {.addr = (uintptr_t)(t->ud_bounce + (size_t)i * (GRH_BYTES + UD_BYTES)),
                          .length = GRH_BYTES + UD_BYTES,
                          .lkey = t->ud_mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

    return -ibv_post_recv(t->ud_qp, &wr, &bad);
}

/* Queue pairs of connections. */

static struct ibv_qp *create_rc(struct ibv_transport *t, bool active)
{
    struct ibv_qp_init_attr init = {
        .send_cq = t->cq,
        .recv_cq = t->cq,
        .cap = {.max_send_wr = active ? SQ_DEPTH : 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = active ? 64 : 0},
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = t->port,
        .qp_access_flags =
            active ? 0
                   : IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
    };
    struct ibv_qp *qp = ibv_create_qp(t->pd, &init);

    if (!qp)
        return NULL;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
        ibv_destroy_qp(qp);
        return NULL;
    }
    if (active)
        t->max_inline = init.cap.max_inline_data;
    return qp;
}

static int modify_to_rtr(struct ibv_transport *t, struct ibv_qp *qp,
                         const struct port_address *peer, uint32_t qpn, uint32_t psn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .ah_attr = path_to(t, peer),
        .path_mtu = peer->mtu < t->self.mtu ? peer->mtu : t->self.mtu,
        .dest_qp_num = qpn,
        .rq_psn = psn,
        .max_dest_rd_atomic = t->self.rd_atomic,
        .min_rnr_timer = 12,
    };

    return -ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int modify_to_rts(struct ibv_transport *t, struct ibv_qp *qp,
                         const struct port_address *peer, uint32_t psn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = t->rc_timeout,
        .retry_cnt = 6, /* 7 means without limit on soft-RoCE */
        .rnr_retry = 6,
        .sq_psn = psn,
        .max_rd_atomic = peer->rd_atomic < t->self.rd_atomic ? peer->rd_atomic : t->self.rd_atomic,
    };

    return -ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int asymreg_ibv__ep_begin(struct ibv_transport *t, struct asymreg_ep *ep)
{
    uint64_t now = asymreg_ibv__now_ns();

    ep->qp = create_rc(t, true);
    if (!ep->qp)
        return errno ? -errno : -ENOMEM;
    ep->psn = random_psn();
    ep->attempt++;
    ep->next_send_ns = now;
    ep->give_up_ns = now + (uint64_t)t->timeout_ms * 1000000;
    atomic_store(&ep->state, EP_CONNECTING);
    wake_thread(t);
    return 0;
}

void asymreg_ibv__ep_end(struct ibv_transport *t, struct asymreg_ep *ep)
{
    struct message m = {.type = BYE,
                        .to = ep->peer_cookie,
                        .from = t->cookie,
                        .number = ep->number,
                        .attempt = ep->attempt,
                        .port = t->self};

    for (struct asymreg_ep **p = &t->eps; *p; p = &(*p)->next) {
        if (*p == ep) {
            *p = ep->next;
            break;
        }
    }
    send_message(t, &m, &ep->peer, ep->peer_ud_qpn, ep->peer_qkey);
    wake_thread(t);
}

/* Passive connections. */

static struct passive **bucket_of(struct ibv_transport *t, uint64_t from, uint32_t number)
{
    return &t->passive[((from ^ number) * UINT64_C(0x9e3779b97f4a7c15) >> 32) % N_BUCKETS];
}

static struct passive **find_passive(struct ibv_transport *t, uint64_t from, uint32_t number)
{
    struct passive **p = bucket_of(t, from, number);

    while (*p && ((*p)->from != from || (*p)->number != number))
        p = &(*p)->next;
    return p;
}

static void free_passive(struct ibv_transport *t, struct passive **p)
{
    struct passive *dead = *p;

    *p = dead->next;
    ibv_destroy_qp(dead->qp);
    free(dead);
    t->n_passive--;
}

/* Finds or makes the end that answers m's sender. NULL: it cannot be made. */
static struct passive *accept_request(struct ibv_transport *t, const struct message *m)
{
    struct passive **p = find_passive(t, m->from, m->number), *new;

    if (*p && (*p)->attempt == m->attempt)
        return *p; /* the reply was lost */
    if (*p && (int32_t)(m->attempt - (*p)->attempt) < 0)
        return NULL;
    if (*p)
        free_passive(t, p);
    if (t->n_passive == t->max_passive)
        return NULL;
    new = calloc(1, sizeof(*new));
    if (!new)
        return NULL;
    *new = (struct passive){
        .from = m->from, .number = m->number, .attempt = m->attempt, .psn = random_psn()};
    new->qp = create_rc(t, false);
    if (!new->qp || modify_to_rtr(t, new->qp, &m->port, m->qpn, m->psn) < 0) {
        if (new->qp)
            ibv_destroy_qp(new->qp);
        free(new);
        return NULL;
    }
    p = bucket_of(t, m->from, m->number);
    new->next = *p;
    *p = new;
    t->n_passive++;
    return new;
}

static void ep_fail(struct ibv_transport *t, struct asymreg_ep *ep, int why)
{
    ep->why = why;
    atomic_store(&ep->state, EP_DEAD);
    atomic_fetch_add(&t->changed, 1);
}

static void handle_reply(struct ibv_transport *t, const struct message *m)
{
    for (struct asymreg_ep *ep = t->eps; ep; ep = ep->next) {
        if (ep->number != m->number)
            continue;
        if (atomic_load(&ep->state) != EP_CONNECTING || ep->attempt != m->attempt ||
            ep->peer_cookie != m->from)
            return;
        if (modify_to_rtr(t, ep->qp, &ep->peer, m->qpn, m->psn) < 0 ||
            modify_to_rts(t, ep->qp, &ep->peer, ep->psn) < 0) {
            ep_fail(t, ep, ASYMREG_EUNREACH);
            return;
        }
        atomic_store(&ep->state, EP_READY);
        atomic_fetch_add(&t->changed, 1);
        return;
    }
}

static void handle_message(struct ibv_transport *t, const unsigned char *p, size_t bytes)
{
    struct message m;
    struct passive **gone, *passive;

    if (!asymreg_ibv__message_unpack(p, bytes, &m) || m.to != t->cookie)
        return;
    switch (m.type) {
    case REQUEST:
        passive = accept_request(t, &m);
        if (passive) {
            struct message answer = {.type = REPLY,
                                     .to = m.from,
                                     .from = t->cookie,
                                     .number = m.number,
                                     .attempt = m.attempt,
                                     .qpn = passive->qp->qp_num,
                                     .psn = passive->psn,
                                     .port = t->self};

            send_message(t, &answer, &m.port, m.ud_qpn, m.qkey);
        }
        break;
    case REPLY: handle_reply(t, &m); break;
    case BYE:
        gone = find_passive(t, m.from, m.number);
        if (*gone)
            free_passive(t, gone);
        break;
    default: break;
    }
}

/* The thread. */

/* Repeats the request of every connection that is not established. Returns how long the thread may
 * sleep, milliseconds. */
static int repeat_requests(struct ibv_transport *t)
{
    uint64_t now = asymreg_ibv__now_ns(), next = UINT64_MAX;

    for (struct asymreg_ep *ep = t->eps; ep; ep = ep->next) {
        if (atomic_load(&ep->state) != EP_CONNECTING)
            continue;
        if (now >= ep->give_up_ns) {
            ep_fail(t, ep, ASYMREG_EPEER);
            continue;
        }
        if (now >= ep->next_send_ns) {
            struct message m = {.type = REQUEST,
                                .to = ep->peer_cookie,
                                .from = t->cookie,
                                .number = ep->number,
                                .attempt = ep->attempt,
                                .qpn = ep->qp->qp_num,
                                .psn = ep->psn,
                                .ud_qpn = t->ud_qp->qp_num,
                                .qkey = t->qkey,
                                .port = t->self};

            send_message(t, &m, &ep->peer, ep->peer_ud_qpn, ep->peer_qkey);
            ep->next_send_ns = now + REPEAT_NS;
        }
        if (ep->next_send_ns < next)
            next = ep->next_send_ns;
        if (ep->give_up_ns < next)
            next = ep->give_up_ns;
    }
    return next == UINT64_MAX ? -1 : next <= now ? 0 : (int)((next - now) / 1000000 + 1);
}

static void handle_completions(struct ibv_transport *t)
{
    struct ibv_cq *cq;
    void *context;
    struct ibv_wc wc;
    unsigned int events = 0;

    while (ibv_get_cq_event(t->channel, &cq, &context) == 0)
        events++;
    if (events) {
        ibv_ack_cq_events(t->ud_cq, events);
        if (ibv_req_notify_cq(t->ud_cq, 0) != 0)
            return;
    }
    while (ibv_poll_cq(t->ud_cq, 1, &wc) == 1) {
        if (wc.wr_id >= UD_DEPTH && wc.wr_id < (uint64_t)2 * UD_DEPTH) {
            struct ibv_ah **ah = &t->ud_ah[wc.wr_id - UD_DEPTH];

            if (*ah)
                ibv_destroy_ah(*ah);
            *ah = NULL;
        } else if (wc.wr_id < UD_DEPTH) {
            if (wc.status == IBV_WC_SUCCESS && wc.byte_len > GRH_BYTES)
                handle_message(t, t->ud_bounce + wc.wr_id * (GRH_BYTES + UD_BYTES) + GRH_BYTES,
                               wc.byte_len - GRH_BYTES);
            if (wc.status != IBV_WC_WR_FLUSH_ERR && post_receive(t, (uint32_t)wc.wr_id) < 0)
                return;
        }
    }
}

static void *wireup_main(void *arg)
{
    struct ibv_transport *t = arg;
    struct pollfd fds[3] = {{.fd = t->channel->fd, .events = POLLIN},
                            {.fd = t->wake_fd, .events = POLLIN},
                            {.fd = t->context->async_fd, .events = POLLIN}};
    struct ibv_async_event event;
    uint64_t drain;
    bool stop = false;

    while (!stop) {
        struct letter *letters;
        int sleep_ms;

        pthread_mutex_lock(&t->lock);
        handle_completions(t);
        stop = t->stop;
        sleep_ms = repeat_requests(t);
        letters = t->letters;
        t->letters = NULL;
        pthread_mutex_unlock(&t->lock);
        while (letters) {
            struct letter *letter = letters;

            letters = letter->next;
            post_letter(t, letter);
            free(letter);
        }
        if (stop || poll(fds, 3, sleep_ms) < 0)
            continue;
        if (fds[1].revents && read(t->wake_fd, &drain, sizeof(drain)) < 0)
            continue;
        /* Broken connections are reported here too. Their own completions say more, but unread
         * events would pile up. */
        while (fds[2].revents && ibv_get_async_event(t->context, &event) == 0)
            ibv_ack_async_event(&event);
    }
    return NULL;
}

static int open_ud(struct ibv_transport *t)
{
    size_t bytes = (size_t)UD_DEPTH * (GRH_BYTES + 2 * UD_BYTES);
    struct ibv_qp_init_attr init = {.cap = {.max_send_wr = UD_DEPTH,
                                            .max_recv_wr = UD_DEPTH,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1},
                                    .qp_type = IBV_QPT_UD};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = t->port, .qkey = t->qkey};

    t->channel = ibv_create_comp_channel(t->context);
    if (!t->channel)
        return -errno;
    t->ud_cq = ibv_create_cq(t->context, 2 * (int)UD_DEPTH, NULL, t->channel, 0);
    if (!t->ud_cq)
        return -errno;
    init.send_cq = init.recv_cq = t->ud_cq;
    t->ud_qp = ibv_create_qp(t->pd, &init);
    if (!t->ud_qp)
        return -errno;
    t->ud_bounce = calloc(1, bytes);
    if (!t->ud_bounce)
        return -ENOMEM;
    t->ud_mr = ibv_reg_mr(t->pd, t->ud_bounce, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!t->ud_mr)
        return -errno;
    int rc = ibv_modify_qp(t->ud_qp, &attr,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    if (rc != 0)
        return -rc;
    for (uint32_t i = 0; i < UD_DEPTH; i++) {
        rc = post_receive(t, i);
        if (rc < 0)
            return rc;
    }
    attr.qp_state = IBV_QPS_RTR;
    rc = ibv_modify_qp(t->ud_qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    if (rc == 0)
        rc = ibv_modify_qp(t->ud_qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    if (rc == 0)
        rc = ibv_req_notify_cq(t->ud_cq, 0);
    if (rc != 0)
        return -rc;
    if (fcntl(t->channel->fd, F_SETFL, O_NONBLOCK) < 0 ||
        fcntl(t->context->async_fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    return 0;
}

int asymreg_ibv__wireup_start(struct ibv_transport *t)
{
    sigset_t all, before;
    int rc = open_ud(t);

    if (rc < 0)
        return rc;
    t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->wake_fd < 0)
        return -errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = -pthread_create(&t->thread, NULL, wireup_main, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    t->thread_runs = rc == 0;
    return rc;
}

void asymreg_ibv__wireup_stop(struct ibv_transport *t)
{
    if (t->thread_runs) {
        pthread_mutex_lock(&t->lock);
        t->stop = true;
        wake_thread(t);
        pthread_mutex_unlock(&t->lock);
        pthread_join(t->thread, NULL);
    }
    for (uint32_t i = 0; i < N_BUCKETS; i++) {
        while (t->passive[i])
            free_passive(t, &t->passive[i]);
    }
    if (t->ud_qp)
        ibv_destroy_qp(t->ud_qp);
    for (uint32_t i = 0; i < UD_DEPTH; i++) {
        if (t->ud_ah[i])
            ibv_destroy_ah(t->ud_ah[i]);
    }
    if (t->ud_cq)
        ibv_destroy_cq(t->ud_cq);
    if (t->channel)
        ibv_destroy_comp_channel(t->channel);
    if (t->ud_mr)
        ibv_dereg_mr(t->ud_mr);
    free(t->ud_bounce);
    if (t->wake_fd >= 0)
        close(t->wake_fd);
}
