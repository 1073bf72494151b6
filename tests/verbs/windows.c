/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why libasymreg-ibv revokes by deregistering and not by memory windows: a window of type 2 serves
 * only the queue pair on which it was bound, while a published handle serves the queue pairs of all
 * peers. Two connections within one process: a window bound on the end of the first accepts its
 * writes and refuses those of the second; after its invalidation it refuses both. Status 77 where
 * the adapter has no such windows. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK_END() exit(1)
#include "../check.h"

static struct ibv_context *device;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static union ibv_gid gid;
static char memory[8192] __attribute__((aligned(4096)));

static struct ibv_qp *create(void)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);

    CHECK_MSG(qp, "%s", strerror(errno));
    return qp;
}

static void connect_to(struct ibv_qp *qp, struct ibv_qp *other)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int rc = ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

    CHECK_MSG(rc == 0, "INIT: %s", strerror(rc));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = other->qp_num,
                                .max_dest_rd_atomic = 1,
                                .min_rnr_timer = 12,
                                .ah_attr = {.port_num = 1, .is_global = 1}};
    attr.ah_attr.grh.dgid = gid;
    attr.ah_attr.grh.sgid_index = 1;
    attr.ah_attr.grh.hop_limit = 64;
    rc = ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    CHECK_MSG(rc == 0, "RTR: %s", strerror(rc));
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 6, .rnr_retry = 6, .max_rd_atomic = 1};
    rc = ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    CHECK_MSG(rc == 0, "RTS: %s", strerror(rc));
}

/* Posts, and returns the completion's status; -errno if it cannot be posted. */
static int carry_out(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
    time_t end = time(NULL) + 30;
    struct ibv_send_wr *bad;
    struct ibv_wc wc;
    int rc;

    wr->send_flags = IBV_SEND_SIGNALED;
    rc = ibv_post_send(qp, wr, &bad);
    if (rc != 0)
        return -rc;
    while ((rc = ibv_poll_cq(cq, 1, &wc)) == 0)
        CHECK_MSG(time(NULL) < end, "no completion");
    CHECK_MSG(rc == 1, "poll");
    return (int)wc.status;
}

static int put(struct ibv_qp *qp, uint32_t rkey, uint32_t lkey)
{
    struct ibv_sge sge = {.addr = (uintptr_t)memory + 4096, .length = 64, .lkey = lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};

    wr.wr.rdma.remote_addr = (uintptr_t)memory + 128;
    wr.wr.rdma.rkey = rkey;
    return carry_out(qp, &wr);
}

int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_device_attr attr;
    struct ibv_qp *from[3], *to[3];
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW};
    struct ibv_mr *mr;
    struct ibv_mw *mw;
    uint32_t key;
    int rc;

    device = list && list[0] ? ibv_open_device(list[0]) : NULL;
    if (!device) {
        puts("skip: needs a verbs adapter");
        return 77;
    }
    CHECK_MSG(ibv_query_device(device, &attr) == 0 && ibv_query_gid(device, 1, 1, &gid) == 0,
              "query");
    if (!(attr.device_cap_flags &
          (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B))) {
        puts("skip: needs an adapter with memory windows of type 2");
        return 77;
    }
    pd = ibv_alloc_pd(device);
    cq = ibv_create_cq(device, 64, NULL, NULL, 0);
    CHECK_MSG(pd && cq, "%s", strerror(errno));
    mr = ibv_reg_mr(pd, memory, sizeof(memory),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
    CHECK_MSG(mr, "ibv_reg_mr: %s", strerror(errno));
    for (int i = 0; i < 3; i++) {
        from[i] = create();
        to[i] = create();
        connect_to(from[i], to[i]);
        connect_to(to[i], from[i]);
    }
    mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    CHECK_MSG(mw, "ibv_alloc_mw: %s", strerror(errno));
    key = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = key;
    wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = mr,
                                                     .addr = (uintptr_t)memory,
                                                     .length = 4096,
                                                     .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    rc = carry_out(to[0], &wr);
    CHECK_MSG(rc == IBV_WC_SUCCESS, "bind: %d", rc);

    memset(memory + 4096, 'w', 64);
    rc = put(from[0], key, mr->lkey);
    CHECK_MSG(rc == IBV_WC_SUCCESS && memory[128] == 'w', "the queue pair that it is bound on: %d",
              rc);
    memset(memory, 0, 4096);
    rc = put(from[1], key, mr->lkey);
    CHECK_MSG(rc == IBV_WC_REM_ACCESS_ERR && memory[128] == 0, "another one: %d", rc);
    rc = put(from[2], mr->rkey, mr->lkey);
    CHECK_MSG(rc == IBV_WC_SUCCESS && memory[128] == 'w', "the registration itself serves all: %d",
              rc);

    memset(memory, 0, 4096);
    wr = (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key};
    rc = carry_out(to[0], &wr);
    CHECK_MSG(rc == IBV_WC_SUCCESS, "invalidate: %d", rc);
    rc = put(from[0], key, mr->lkey);
    CHECK_MSG(rc == IBV_WC_REM_ACCESS_ERR && memory[128] == 0, "after invalidation: %d", rc);
    puts("a window of type 2 serves one queue pair, until it is invalidated");
    return 0;
}
