/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX's queue in shared memory. A process has one for all its senders. A sender takes a place, then
 * fills it; one that is killed in between blocks the queue for good (UCX 1.13), and nothing reports
 * that. So after a peer's end this process sends a message to itself, like another sender: from a
 * second worker. If the message does not arrive, this side closes its connections over shared
 * memory, so that operations end here and at the peers.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ucx.h"

/* Longest time and most checks in which UCX hands over no message at all, although this one waits
 * in its queue or for a place there. A living sender may also stop the queue for a while, if it is
 * preempted in between. */
#define MAX_WAIT_NS 300000000
#define MAX_WAITS   6u

ucs_status_t asymreg_ucx__on_probe(void *arg, const void *header, size_t header_bytes, void *data,
                                   size_t bytes, const ucp_am_recv_param_t *param)
{
    struct ucx_transport *t = arg;

    (void)header, (void)header_bytes, (void)data, (void)bytes, (void)param;
    t->probe.arrived = true;
    return UCS_OK;
}

void asymreg_ucx__end_probe(struct ucx_transport *t)
{
    if (UCS_PTR_IS_PTR(t->probe.sent))
        ucp_request_free(t->probe.sent);
    if (t->probe.worker)
        ucp_worker_destroy(t->probe.worker);
    t->probe = (struct probe){.due = t->probe.due};
}

/* Without memory for a worker there is no message: this side takes its queue for sound. */
static void send_probe(struct ucx_transport *t)
{
    static const char word[8] = "probe";
    const ucp_worker_params_t serialized = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                            .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    const ucp_ep_params_t self = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                  .address = t->address};
    const ucp_request_param_t eager = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_AM_SEND_FLAG_EAGER};
    struct probe *p = &t->probe;

    p->due = false;
    p->since_ns = t->checked_ns;
    if (ucp_worker_create(t->context, &serialized, &p->worker) != UCS_OK) {
        p->worker = NULL;
        return;
    }
    if (ucp_ep_create(p->worker, &self, &p->ep) == UCS_OK && asymreg_ucx__is_shared_memory(p->ep))
        p->sent = ucp_am_send_nbx(p->ep, AM_PROBE, word, sizeof(word), NULL, 0, &eager);
    else
        p->sent = UCS_STATUS_PTR(UCS_ERR_UNREACHABLE);
    if (UCS_PTR_IS_ERR(p->sent))
        asymreg_ucx__end_probe(t);
}

void asymreg_ucx__progress_probe(struct ucx_transport *t)
{
    ucp_worker_progress(t->probe.worker);
    if (t->probe.arrived)
        asymreg_ucx__end_probe(t);
}

/* Closes the connections over shared memory. */
static void close_shared_memory(struct ucx_transport *t)
{
    t->blocked = true;
    asymreg_ucx__send_byes(t);
    for (struct asymreg_ep *ep = t->eps; ep; ep = ep->next)
        if (!ep->force)
            asymreg_ucx__fail_ep(t, ep, ASYMREG_EPEER);
}

void asymreg_ucx__check_queue(struct ucx_transport *t)
{
    struct probe *p = &t->probe;

    if (p->heard) {
        p->n_waits = 0;
        p->since_ns = t->checked_ns;
    }
    if (p->worker && !p->arrived && ++p->n_waits > MAX_WAITS &&
        t->checked_ns - p->since_ns > MAX_WAIT_NS) {
        asymreg_ucx__end_probe(t);
        close_shared_memory(t);
    } else if (!p->worker && p->due && !t->blocked) {
        send_probe(t);
    }
    p->heard = false;
}
