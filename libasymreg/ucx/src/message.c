/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put, get and atomics as active messages. Where no adapter reaches the target's memory, UCX would
 * use messages of its own, whose handlers trust every address. These messages make the target check
 * its registrations first, and answer: it refuses an access to memory that is no longer registered.
 *
 * A request names its operation by a cookie; the answer repeats the cookie and the endpoint's
 * random token. A put copies its bytes before it sends them: UCX may still use them after the
 * operation is abandoned.
 *
 * Over shared memory UCX does not report the end of a worker, and the kernel only that of the
 * process. So a new endpoint sends a hello with its token, and the target sends the token back when
 * it closes.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ucx.h"

#include <asymreg/bound.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* from Linux 5.14 */
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* An answer; the bytes of a get follow it. */
struct answer_head {
    uint64_t cookie, token, value;
    int32_t status;
    uint32_t bytes;
};
_Static_assert(sizeof(struct answer_head) == 32, "no padding");

/* An answer until UCX has sent it. */
struct answer {
    struct answer *next, **back;
    struct ucx_transport *t;
    uint32_t room; /* for data; 0: one of the preallocated answers */
    struct answer_head head;
    unsigned char data[];
};
/* A peer that has sent a hello: UCX's reply endpoint, which ends with the worker, and its token. */
struct caller {
    ucp_ep_h ep;
    uint64_t token;
};
#define MAX_CALLERS   65536u
#define SPARE_ANSWERS 64 /* of puts and atomics: without an allocation */

static struct answer *new_answer(struct ucx_transport *t, uint32_t room)
{
    struct answer *a = room ? NULL : t->free_answers;

    if (a)
        t->free_answers = a->next;
    else
        a = malloc(sizeof(*a) + room);
    if (!a)
        return NULL;
    a->t = t;
    a->room = room;
    a->next = t->answers;
    a->back = &t->answers;
    if (a->next)
        a->next->back = &a->next;
    t->answers = a;
    return a;
}

static void free_answer(struct answer *a)
{
    *a->back = a->next;
    if (a->next)
        a->next->back = a->back;
    if (a->room) {
        free(a);
        return;
    }
    a->next = a->t->free_answers;
    a->t->free_answers = a;
}

static void on_answered(void *request, ucs_status_t status, void *arg)
{
    (void)status;
    ucp_request_free(request);
    free_answer(arg);
}

/* If UCX has no memory for an answer, the answer is lost, and its operation waits until one of the
 * processes ends. */
static void send_answer(ucp_ep_h to, unsigned id, uint32_t flags, struct answer *a)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_AM_SEND_FLAG_EAGER | flags,
                                 .user_data = a};
    ucs_status_ptr_t sent;
    int tries = 0;

    param.cb.send = on_answered;
    do /* otherwise the peer would wait until a process ends */
        sent = ucp_am_send_nbx(to, id, &a->head, sizeof(a->head), a->data, a->head.bytes, &param);
    while (UCS_PTR_STATUS(sent) == UCS_ERR_NO_MEMORY && ++tries < 10);
    if (!UCS_PTR_IS_PTR(sent))
        free_answer(a);
}

/* Checks that this memory is registered now, with this permission. */
static int check_request(struct ucx_transport *t, const struct request *q, size_t bytes,
                         uint32_t *need)
{
    static const uint32_t needs[] = {ASYMREG_WRITE, ASYMREG_READ, ASYMREG_ATOMIC};
    const struct place *p;

    if (q->kind > MESSAGE_AMO || q->bytes > MAX_MESSAGE_BYTES || q->bytes == 0 ||
        bytes != (q->kind == MESSAGE_PUT ? q->bytes : 0) ||
        (q->kind == MESSAGE_AMO && ((q->bytes != 4 && q->bytes != 8) || q->addr % q->bytes ||
                                    q->amo > 31 || !(ASYMREG_AMO_ALL >> q->amo & 1))))
        return ASYMREG_ETRANSPORT;
    *need = needs[q->kind];
    p = q->place < t->n_places ? &t->places[q->place] : NULL;
    if (!p || !p->seq || p->seq != q->seq)
        return ASYMREG_ESTALE;
    if (q->addr < p->addr || q->bytes > p->bytes || q->addr - p->addr > p->bytes - q->bytes)
        return ASYMREG_ERANGE;
    if (p->kind) /* device memory: only UCX can move those bytes, not these messages */
        return ASYMREG_ENOTSUP;
    return *need & ~p->prot ? ASYMREG_EACCES : 0;
}

/* Registered memory may be unmapped, read-only or behind the end of its file: a load or store would
 * end this process. So the kernel is asked, which gets the pages that the access needs. */
int asymreg_ucx__reach_pages(uint64_t addr, size_t bytes, bool write)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)addr & ~(page - 1);
    int rc;

    do
        rc = madvise((void *)from, (uintptr_t)addr + bytes - from, // NOLINT
                     write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    while (rc < 0 && (errno == EINTR || errno == EAGAIN));
    return rc < 0 ? errno : 0;
}

/* Executes a peer's request; the bytes of a get go into the answer. */
static int execute_request(const struct ucx_transport *t, const struct request *q, const void *data,
                           struct answer *a)
{
    void *here = (void *)(uintptr_t)q->addr; // NOLINT: an address of this process
    const bool reads =
        q->kind == MESSAGE_GET || (q->kind == MESSAGE_AMO && q->amo == ASYMREG_AMO_FETCH);
    const int error = t->reaches ? asymreg_ucx__reach_pages(q->addr, q->bytes, !reads) : 0;

    if (error && !(error == EINVAL && t->places[q->place].strange))
        return ASYMREG_EFAULT;
    if (q->kind == MESSAGE_PUT)
        asymreg__store(here, data, q->bytes);
    else if (q->kind == MESSAGE_GET)
        asymreg__load(a->data, here, q->bytes);
    else
        a->head.value =
            q->bytes == 4 ? asymreg__amo4(here, q->amo, (uint32_t)q->operand, (uint32_t)q->compare)
                          : asymreg__amo8(here, q->amo, q->operand, q->compare);
    return 0;
}

static ucs_status_t on_request(void *arg, const void *header, size_t header_bytes, void *data,
                               size_t bytes, const ucp_am_recv_param_t *param)
{
    struct ucx_transport *t = arg;
    struct request q;
    struct answer *a = NULL;
    uint32_t need = 0, room;
    int rc;

    if (header_bytes != sizeof(q) || !(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) ||
        (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV))
        return UCS_OK; /* not a message of this library */
    memcpy(&q, header, sizeof(q));
    rc = check_request(t, &q, bytes, &need);
    room = rc == 0 && q.kind == MESSAGE_GET ? q.bytes : 0;
    a = new_answer(t, room);
    if (!a) {
        rc = -ENOMEM;
        room = 0;
        a = new_answer(t, 0);
    }
    if (!a)
        return UCS_OK;
    a->head = (struct answer_head){.cookie = q.cookie, .token = q.token, .bytes = room};
    if (rc == 0 && t->guard.enter)
        rc = t->guard.enter(t->guard.ctx, q.addr, q.bytes, need);
    if (rc == 0) {
        rc = execute_request(t, &q, data, a);
        if (t->guard.leave)
            t->guard.leave(t->guard.ctx);
    }
    if (rc < 0)
        a->head.bytes = 0;
    a->head.status = rc;
    t->done++;
    send_answer(param->reply_ep, AM_ANSWER, 0, a);
    return UCS_OK;
}

/* Sends a message without an operation. */
static void send_control(struct ucx_transport *t, ucp_ep_h to, unsigned id, uint32_t flags,
                         uint64_t token)
{
    struct answer *a = new_answer(t, 0);

    if (!a)
        return;
    a->head = (struct answer_head){.token = token};
    send_answer(to, id, flags, a);
}

void asymreg_ucx__send_hello(struct ucx_transport *t, struct asymreg_ep *ep)
{
    if (!ep->force)
        send_control(t, ep->ep, AM_HELLO, UCP_AM_SEND_FLAG_REPLY, ep->token);
}

void asymreg_ucx__send_byes(struct ucx_transport *t)
{
    if (!t->within_node) /* no hellos; and UCX over TCP may abort as it progresses (see Death) */
        return;
    for (int i = 0; i < 100; i++) /* handles hellos that have arrived */
        ucp_worker_progress(t->worker);
    for (uint32_t i = 0; i < t->n_callers; i++)
        send_control(t, t->callers[i].ep, AM_BYE, 0, t->callers[i].token);
    for (int i = 0; i < 1000 && t->answers; i++)
        ucp_worker_progress(t->worker);
}

void asymreg_ucx__forget_caller(struct ucx_transport *t, ucp_ep_h ep)
{
    for (uint32_t i = 0; i < t->n_callers;)
        if (t->callers[i].ep == ep)
            t->callers[i] = t->callers[--t->n_callers];
        else
            i++;
}

static ucs_status_t on_hello(void *arg, const void *header, size_t header_bytes, void *data,
                             size_t bytes, const ucp_am_recv_param_t *param)
{
    struct ucx_transport *t = arg;
    struct answer_head head;
    uint32_t max = t->max_callers ? 2 * t->max_callers : 16;
    struct caller *more;

    (void)data, (void)bytes;
    /* UCX may end an endpoint of another kind before the worker. */
    if (header_bytes != sizeof(head) || !(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) ||
        (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) || t->n_callers == MAX_CALLERS ||
        !asymreg_ucx__is_shared_memory(param->reply_ep))
        return UCS_OK;
    if (t->n_callers == t->max_callers) {
        more = realloc(t->callers, max * sizeof(*more));
        if (!more)
            return UCS_OK;
        t->callers = more;
        t->max_callers = max;
    }
    memcpy(&head, header, sizeof(head));
    t->callers[t->n_callers++] = (struct caller){param->reply_ep, head.token};
    return UCS_OK;
}

static ucs_status_t on_bye(void *arg, const void *header, size_t header_bytes, void *data,
                           size_t bytes, const ucp_am_recv_param_t *param)
{
    struct ucx_transport *t = arg;
    struct answer_head head;

    (void)data, (void)bytes, (void)param;
    if (header_bytes != sizeof(head))
        return UCS_OK;
    memcpy(&head, header, sizeof(head));
    for (struct asymreg_ep *ep = t->eps; ep; ep = ep->next)
        if (ep->token == head.token)
            asymreg_ucx__fail_ep(t, ep, ASYMREG_EPEER);
    return UCS_OK;
}

/* The answer to an operation. */
static ucs_status_t on_answer(void *arg, const void *header, size_t header_bytes, void *data,
                              size_t bytes, const ucp_am_recv_param_t *param)
{
    struct ucx_transport *t = arg;
    struct answer_head head;
    struct req *r;

    if (header_bytes != sizeof(head) || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV))
        return UCS_OK;
    memcpy(&head, header, sizeof(head));
    /* The operation was abandoned; or another peer forged the answer. */
    r = asymreg_ucx__req_at(t, head.cookie);
    if (!r || r->message.token == 0 || r->message.token != head.token)
        return UCS_OK;
    if (head.status > 0)
        head.status = ASYMREG_ETRANSPORT;
    if (head.status == 0 && r->message.kind == MESSAGE_GET) {
        if (bytes == r->message.bytes)
            memcpy(r->to, data, bytes);
        else
            head.status = ASYMREG_ETRANSPORT;
    } else if (head.status == 0 && r->message.kind == MESSAGE_AMO && r->to) {
        *(uint64_t *)r->to = head.value;
    }
    asymreg_ucx__detach_req(r, head.status);
    asymreg_ucx__release_req(r);
    t->done++;
    return UCS_OK;
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
    struct req *r = arg;

    ucp_request_free(request);
    r->sending = false;
    if (status != UCS_OK && r->ep) { /* no answer will come */
        asymreg_ucx__detach_req(r, asymreg_ucx__map_status(status));
        r->t->done++;
    }
    asymreg_ucx__release_req(r);
}

int asymreg_ucx__send_request(struct ucx_transport *t, struct asymreg_ep *ep,
                              const struct request *message, const void *data, void *to,
                              struct asymreg_op *op)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY};
    size_t bytes = data ? message->bytes : 0;
    ucs_status_ptr_t sent;
    void *copy = NULL;
    struct req *r;
    int rc;

    if (bytes > sizeof(r->small)) {
        copy = malloc(bytes);
        if (!copy)
            return -ENOMEM;
    }
    rc = asymreg_ucx__begin_req(t, ep, op, &r);
    if (rc < 0) {
        free(copy);
        return rc;
    }
    r->message = *message;
    r->message.cookie = (uint64_t)r->lives << 32 | r->number;
    r->message.token = ep->token;
    r->bytes = message->bytes;
    ep->pending_bytes += r->bytes;
    r->to = to;
    r->copy = copy;
    if (bytes)
        memcpy(copy ? copy : r->small, data, bytes);
    param.user_data = r;
    param.cb.send = on_sent;
    r->sending = true; /* the answer may come before the call returns */
    sent = ucp_am_send_nbx(ep->ep, AM_REQUEST, &r->message, sizeof(r->message),
                           copy ? copy : r->small, bytes, &param);
    if (UCS_PTR_IS_PTR(sent))
        return ASYMREG_PENDING;
    r->sending = false;
    if (UCS_PTR_IS_ERR(sent)) {
        r->op = NULL;
        asymreg_ucx__detach_req(r, 0);
    }
    asymreg_ucx__release_req(r);
    return UCS_PTR_IS_ERR(sent) ? asymreg_ucx__map_status(UCS_PTR_STATUS(sent)) : ASYMREG_PENDING;
}

static int set_handler(struct ucx_transport *t, unsigned id, ucp_am_recv_callback_t cb)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                  UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                  UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                    .id = id,
                                    .cb = cb,
                                    .arg = t};

    switch (ucp_worker_set_am_recv_handler(t->worker, &param)) {
    case UCS_OK: return 0;
    case UCS_ERR_NO_MEMORY: return -ENOMEM;
    default: return -EIO;
    }
}

int asymreg_ucx__set_handlers(struct ucx_transport *t)
{
    static const struct {
        unsigned id;
        ucp_am_recv_callback_t cb;
    } handlers[] = {{AM_REQUEST, on_request},
                    {AM_ANSWER, on_answer},
                    {AM_HELLO, on_hello},
                    {AM_PROBE, asymreg_ucx__on_probe},
                    {AM_BYE, on_bye}};
    int rc = 0;

    t->reaches = asymreg_ucx__reach_pages((uintptr_t)t, sizeof(*t), true) == 0;
    for (int i = 0; i < SPARE_ANSWERS; i++) {
        struct answer *a = malloc(sizeof(*a));

        if (!a)
            return -ENOMEM;
        a->next = t->free_answers;
        t->free_answers = a;
    }
    for (size_t i = 0; rc == 0 && i < sizeof(handlers) / sizeof(*handlers); i++)
        rc = set_handler(t, handlers[i].id, handlers[i].cb);
    return rc;
}

void asymreg_ucx__free_answers(struct ucx_transport *t)
{
    while (t->answers)
        free_answer(t->answers);
    while (t->free_answers) {
        struct answer *a = t->free_answers;

        t->free_answers = a->next;
        free(a);
    }
}
