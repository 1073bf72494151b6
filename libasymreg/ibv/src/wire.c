/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles, addresses and datagrams as bytes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* htobe64 */
#endif
#include "ibv.h"

#include <endian.h>

#define ADDRESS_MAGIC 0x41695661u /* "AiVa" */
#define HANDLE_MAGIC  0x41695668u /* "AiVh" */
#define MESSAGE_MAGIC 0x4169566du /* "AiVm" */
#define WIRE_VERSION  1u

/* Fields of messages, most significant byte first. */
static inline void put_u16(unsigned char *p, uint16_t v)
{
    v = htobe16(v);
    memcpy(p, &v, sizeof(v));
}

static inline void put_u32(unsigned char *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, sizeof(v));
}

static inline void put_u64(unsigned char *p, uint64_t v)
{
    v = htobe64(v);
    memcpy(p, &v, sizeof(v));
}

static inline uint16_t get_u16(const unsigned char *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof(v));
    return be16toh(v);
}

static inline uint32_t get_u32(const unsigned char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return be32toh(v);
}

static inline uint64_t get_u64(const unsigned char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return be64toh(v);
}

/* 16 + 2 + 1 + 1 bytes. */
static void port_pack(const struct port_address *a, unsigned char *p)
{
    memcpy(p, a->gid.raw, 16);
    put_u16(p + 16, a->lid);
    p[18] = a->mtu;
    p[19] = a->rd_atomic;
}

static bool port_unpack(const unsigned char *p, struct port_address *a)
{
    memcpy(a->gid.raw, p, 16);
    a->lid = get_u16(p + 16);
    a->mtu = p[18];
    a->rd_atomic = p[19];
    return a->mtu >= IBV_MTU_256 && a->mtu <= IBV_MTU_4096 && a->rd_atomic > 0;
}

void asymreg_ibv__handle_pack(const struct wire_handle *h, unsigned char *p)
{
    put_u32(p, HANDLE_MAGIC);
    put_u16(p + 4, WIRE_VERSION);
    put_u16(p + 6, (uint16_t)h->prot);
    put_u64(p + 8, h->seq);
    put_u64(p + 16, h->addr);
    put_u64(p + 24, h->bytes);
    put_u32(p + 32, h->rkey);
    put_u32(p + 36, 0);
}

bool asymreg_ibv__handle_unpack(const unsigned char *p, size_t bytes, struct wire_handle *h)
{
    if (bytes != HANDLE_BYTES || get_u32(p) != HANDLE_MAGIC || get_u16(p + 4) != WIRE_VERSION ||
        get_u16(p + 6) & ~KNOWN_PROT || get_u32(p + 36) != 0)
        return false;
    h->prot = get_u16(p + 6);
    h->seq = get_u64(p + 8);
    h->addr = get_u64(p + 16);
    h->bytes = get_u64(p + 24);
    h->rkey = get_u32(p + 32);
    return true;
}

void asymreg_ibv__address_pack(const struct wire_address *a, unsigned char *p)
{
    put_u32(p, ADDRESS_MAGIC);
    put_u16(p + 4, WIRE_VERSION);
    put_u16(p + 6, a->is_global);
    put_u64(p + 8, a->cookie);
    put_u32(p + 16, a->ud_qpn);
    put_u32(p + 20, a->qkey);
    port_pack(&a->port, p + 24);
    put_u32(p + 44, 0);
}

int asymreg_ibv__address_unpack(const unsigned char *p, size_t bytes, struct wire_address *a)
{
    if (bytes != ADDRESS_BYTES || get_u32(p) != ADDRESS_MAGIC || get_u32(p + 44) != 0)
        return ASYMREG_EBLOB;
    if (get_u16(p + 4) != WIRE_VERSION)
        return ASYMREG_EVERSION;
    if (get_u16(p + 6) > 1 || get_u32(p + 16) > 0xffffff || !port_unpack(p + 24, &a->port))
        return ASYMREG_EBLOB;
    a->is_global = get_u16(p + 6);
    a->cookie = get_u64(p + 8);
    a->ud_qpn = get_u32(p + 16);
    a->qkey = get_u32(p + 20);
    return 0;
}

void asymreg_ibv__message_pack(const struct message *m, unsigned char *p)
{
    put_u32(p, MESSAGE_MAGIC);
    put_u16(p + 4, WIRE_VERSION);
    put_u16(p + 6, m->type);
    put_u64(p + 8, m->to);
    put_u64(p + 16, m->from);
    put_u32(p + 24, m->number);
    put_u32(p + 28, m->attempt);
    put_u32(p + 32, m->qpn);
    put_u32(p + 36, m->psn);
    put_u32(p + 40, m->ud_qpn);
    put_u32(p + 44, m->qkey);
    port_pack(&m->port, p + 48);
}

bool asymreg_ibv__message_unpack(const unsigned char *p, size_t bytes, struct message *m)
{
    if (bytes != MESSAGE_BYTES || get_u32(p) != MESSAGE_MAGIC || get_u16(p + 4) != WIRE_VERSION)
        return false;
    m->type = get_u16(p + 6);
    m->to = get_u64(p + 8);
    m->from = get_u64(p + 16);
    m->number = get_u32(p + 24);
    m->attempt = get_u32(p + 28);
    m->qpn = get_u32(p + 32);
    m->psn = get_u32(p + 36);
    m->ud_qpn = get_u32(p + 40);
    m->qkey = get_u32(p + 44);
    return port_unpack(p + 48, &m->port) && m->type >= REQUEST && m->type <= BYE &&
           m->qpn <= 0xffffff && m->ud_qpn <= 0xffffff;
}
