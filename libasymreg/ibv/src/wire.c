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
static inline void put16(unsigned char *p, uint16_t v)
{
    v = htobe16(v);
    memcpy(p, &v, sizeof(v));
}

static inline void put32(unsigned char *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, sizeof(v));
}

static inline void put64(unsigned char *p, uint64_t v)
{
    v = htobe64(v);
    memcpy(p, &v, sizeof(v));
}

static inline uint16_t get16(const unsigned char *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof(v));
    return be16toh(v);
}

static inline uint32_t get32(const unsigned char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return be32toh(v);
}

static inline uint64_t get64(const unsigned char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return be64toh(v);
}

/* 16 + 2 + 1 + 1 bytes. */
static void port_pack(const struct port_address *a, unsigned char *p)
{
    memcpy(p, a->gid.raw, 16);
    put16(p + 16, a->lid);
    p[18] = a->mtu;
    p[19] = a->rd_atomic;
}

static bool port_unpack(const unsigned char *p, struct port_address *a)
{
    memcpy(a->gid.raw, p, 16);
    a->lid = get16(p + 16);
    a->mtu = p[18];
    a->rd_atomic = p[19];
    return a->mtu >= IBV_MTU_256 && a->mtu <= IBV_MTU_4096;
}

void asymreg_ibv__handle_pack(const struct wire_handle *h, unsigned char *p)
{
    put32(p, HANDLE_MAGIC);
    put16(p + 4, WIRE_VERSION);
    put16(p + 6, (uint16_t)h->prot);
    put64(p + 8, h->seq);
    put64(p + 16, h->addr);
    put64(p + 24, h->bytes);
    put32(p + 32, h->rkey);
    put32(p + 36, 0);
}

bool asymreg_ibv__handle_unpack(const unsigned char *p, size_t bytes, struct wire_handle *h)
{
    if (bytes != HANDLE_BYTES || get32(p) != HANDLE_MAGIC || get16(p + 4) != WIRE_VERSION ||
        get16(p + 6) & ~KNOWN_PROT || get32(p + 36) != 0)
        return false;
    h->prot = get16(p + 6);
    h->seq = get64(p + 8);
    h->addr = get64(p + 16);
    h->bytes = get64(p + 24);
    h->rkey = get32(p + 32);
    return true;
}

void asymreg_ibv__address_pack(const struct wire_address *a, unsigned char *p)
{
    put32(p, ADDRESS_MAGIC);
    put16(p + 4, WIRE_VERSION);
    put16(p + 6, a->is_global);
    put64(p + 8, a->cookie);
    put32(p + 16, a->ud_qpn);
    put32(p + 20, a->qkey);
    port_pack(&a->port, p + 24);
    put32(p + 44, 0);
}

int asymreg_ibv__address_unpack(const unsigned char *p, size_t bytes, struct wire_address *a)
{
    if (bytes != ADDRESS_BYTES || get32(p) != ADDRESS_MAGIC || get32(p + 44) != 0)
        return ASYMREG_EBLOB;
    if (get16(p + 4) != WIRE_VERSION)
        return ASYMREG_EVERSION;
    if (get16(p + 6) > 1 || get32(p + 16) > 0xffffff || !port_unpack(p + 24, &a->port))
        return ASYMREG_EBLOB;
    a->is_global = get16(p + 6);
    a->cookie = get64(p + 8);
    a->ud_qpn = get32(p + 16);
    a->qkey = get32(p + 20);
    return 0;
}

void asymreg_ibv__message_pack(const struct message *m, unsigned char *p)
{
    put32(p, MESSAGE_MAGIC);
    put16(p + 4, WIRE_VERSION);
    put16(p + 6, m->type);
    put64(p + 8, m->to);
    put64(p + 16, m->from);
    put32(p + 24, m->number);
    put32(p + 28, m->attempt);
    put32(p + 32, m->qpn);
    put32(p + 36, m->psn);
    put32(p + 40, m->ud_qpn);
    put32(p + 44, m->qkey);
    port_pack(&m->port, p + 48);
}

bool asymreg_ibv__message_unpack(const unsigned char *p, size_t bytes, struct message *m)
{
    if (bytes != MESSAGE_BYTES || get32(p) != MESSAGE_MAGIC || get16(p + 4) != WIRE_VERSION)
        return false;
    m->type = get16(p + 6);
    m->to = get64(p + 8);
    m->from = get64(p + 16);
    m->number = get32(p + 24);
    m->attempt = get32(p + 28);
    m->qpn = get32(p + 32);
    m->psn = get32(p + 36);
    m->ud_qpn = get32(p + 40);
    m->qkey = get32(p + 44);
    return port_unpack(p + 48, &m->port) && m->type >= REQUEST && m->type <= BYE &&
           m->qpn <= 0xffffff && m->ud_qpn <= 0xffffff;
}
