/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How processes find one another. Each has a card (struct card), some hundred bytes. Three ways to spread them:
 *
 *   allgather  one call; all cards lie in the server's shared memory, once a node. For jobs of up to GATHER_RANKS
 *   ring       PMI brings the cards of two neighbours, whatever the size of the job. The rest is one-sided: rank r keeps the cards of r + 1, r + 2,
 *              r + 4, … (fingers), each got from the finger before; any other is found by walking fingers, ⌈log2 n⌉ steps. A barrier needs no others.
 *              For larger jobs, where the server knows Ring
 *   fence      Put, Fence, and a Get when a card is needed. For cards that do not fit one PMI value, which go in pieces, and for
 *              larger jobs under servers that refuse Ring
 *
 * In none of them does a process touch a card that it does not need.
 */
#include "internal.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pmi2.h"

#define GATHER_RANKS 64u

/* Bytes as characters that every PMI carries. */
static void to_text(const void *bytes, size_t n, char *text)
{
    for (size_t i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
}

/* Returns how many bytes, or -1. */
static int from_text(const char *text, void *bytes, size_t cap)
{
    size_t n = strlen(text) / 2;
    unsigned byte;

    for (size_t i = 0; i < n; i++) {
        if (n > cap || strspn(text + 2 * i, "0123456789abcdef") < 2 || sscanf(text + 2 * i, "%2x", &byte) != 1)
            return -1;
        ((unsigned char *)bytes)[i] = (unsigned char)byte;
    }
    return (int)n;
}

static int pmi_failed(struct minirt *rt, const char *what, int rc)
{
    return minirt__fail(rt, MINIRT_EPMI, "%s: PMI answers %d", what, rc);
}

/* ---- allgather ---- */

static int gather_meet(struct minirt *rt)
{
    char text[CARD_TEXT];
    const void *first;
    void *values;
    int rc;

    to_text(&rt->card, rt->card_bytes, text);
    if ((rc = PMI2_SHMEM_Iallgather(text)) != PMI2_SUCCESS || (rc = PMI2_SHMEM_Iallgather_wait(&values)) != PMI2_SUCCESS ||
        (rc = PMI2_SHMEM_Allgathered(&first, &rt->gathered_stride)) != PMI2_SUCCESS)
        return pmi_failed(rt, "Allgather", rc);
    rt->gathered = first;
    return 0;
}

static int gather_find(struct minirt *rt, uint32_t id, struct card *c)
{
    return from_text(rt->gathered + (size_t)id * (size_t)rt->gathered_stride, c, sizeof(*c));
}

/* ---- put, fence, get ---- */

static int fence_meet(struct minirt *rt)
{
    char key[PMI2_MAX_KEYLEN], text[CARD_TEXT];
    int rc = PMI2_SUCCESS;

    for (size_t at = 0, piece = 0; rc == PMI2_SUCCESS && at < rt->card_bytes; at += CARD_BYTES, piece++) {
        to_text((const char *)&rt->card + at, rt->card_bytes - at < CARD_BYTES ? rt->card_bytes - at : CARD_BYTES, text);
        snprintf(key, sizeof(key), "minirt-%u-%zu", rt->rank, piece);
        rc = PMI2_KVS_Put(key, text);
    }
    if (rc == PMI2_SUCCESS)
        rc = PMI2_KVS_Fence();
    return rc == PMI2_SUCCESS ? 0 : pmi_failed(rt, "Put and Fence", rc);
}

/* The first piece says how long the whole is. */
static int fence_find(struct minirt *rt, uint32_t id, struct card *c)
{
    char key[PMI2_MAX_KEYLEN], text[CARD_TEXT];
    size_t whole = CARD_HEAD, n = 0;
    int rc, len;

    for (unsigned piece = 0; n < whole; piece++) {
        snprintf(key, sizeof(key), "minirt-%u-%u", id, piece);
        rc = PMI2_KVS_Get(NULL, (int)id, key, text, sizeof(text), &len);
        if (rc != PMI2_SUCCESS)
            return pmi_failed(rt, key, rc);
        if ((len = from_text(text, (char *)c + n, sizeof(*c) - n)) <= 0)
            return -1;
        n += (size_t)len;
        if (n >= CARD_HEAD && c->blob_bytes <= sizeof(c->blob))
            whole = CARD_HEAD + c->blob_bytes;
    }
    return (int)n;
}

/* ---- ring ---- */

static int admit(struct minirt *rt, uint32_t id, const struct card *c, size_t bytes);

#define FINGER(k) (offsetof(struct service, finger) + (k) * sizeof(struct finger))

/* Finger k of a process that is known, waited for as long as that lives. */
static int get_finger(struct minirt *rt, uint32_t id, unsigned k, struct finger *f)
{
    int rc;

    while ((rc = minirt__service_get(rt, id, FINGER(k), f, sizeof(f->bytes))) == 0 && f->bytes == 0)
        sched_yield();
    if (rc < 0)
        return rc;
    if (f->bytes > CARD_BYTES)
        return minirt__fail(rt, MINIRT_EPMI, "finger %u of process %u makes no sense", k, id);
    return minirt__service_get(rt, id, FINGER(k) + offsetof(struct finger, card), f->card, f->bytes);
}

static int ring_meet(struct minirt *rt)
{
    char text[CARD_TEXT], left[CARD_TEXT], right[CARD_TEXT];
    struct finger *f = rt->service->finger;
    struct card c;
    int rank, ranks, n, rc;

    to_text(&rt->card, rt->card_bytes, text);
    rc = PMIX_Ring(text, &rank, &ranks, left, right, sizeof(left));
    if (rc != PMI2_SUCCESS)
        return pmi_failed(rt, "Ring", rc);
    if ((uint32_t)rank != rt->rank || (uint32_t)ranks != rt->n)
        return minirt__fail(rt, MINIRT_EPMI, "place %d of %d in the ring, rank %u of %u", rank, ranks, rt->rank, rt->n);
    n = from_text(right, &c, sizeof(c));
    if (rt->n > 1 && (rc = admit(rt, (rt->rank + 1) % rt->n, &c, n < 0 ? 0 : (size_t)n)) < 0)
        return rc;
    for (unsigned k = 0; 1u << k < rt->n; k++) {
        if (k > 0) {
            struct finger next;
            uint32_t from = (rt->rank + (1u << (k - 1))) % rt->n;

            if ((rc = get_finger(rt, from, k - 1, &next)) < 0)
                return rc;
            memcpy(&c, next.card, next.bytes);
            n = (int)next.bytes;
            if ((rc = admit(rt, (rt->rank + (1u << k)) % rt->n, &c, next.bytes)) < 0)
                return rc;
        }
        memcpy(f[k].card, &c, (size_t)n);
        __atomic_store_n(&f[k].bytes, (uint64_t)n, __ATOMIC_RELEASE);
    }
    return 0;
}

/* From process to process, each time over the largest power of two that does not pass the one wanted. */
static int ring_find(struct minirt *rt, uint32_t id, struct card *c)
{
    uint32_t at = rt->rank;
    struct finger f;
    int rc;

    for (;;) {
        unsigned k = 31u - (unsigned)__builtin_clz((id + rt->n - at) % rt->n);
        uint32_t next = (at + (1u << k)) % rt->n;

        if (rt->entries[next] != 0) { /* known, and so not the one wanted */
            at = next;
            continue;
        }
        if ((rc = get_finger(rt, at, k, &f)) < 0)
            return rc;
        memcpy(c, f.card, f.bytes);
        if (next == id)
            return (int)f.bytes;
        if ((rc = admit(rt, next, c, f.bytes)) < 0)
            return rc;
        at = next;
    }
}

/* ---- all of them ---- */

static const struct wireup ways[] = {
    {"allgather", gather_meet, gather_find},
    {"ring", ring_meet, ring_find},
    {"fence", fence_meet, fence_find},
};
enum { ALLGATHER, RING, FENCE, N_WAYS };

/* Does the server answer a Ring? Servers that do not know it end the job, so that only ours are asked: those that offer shared memory. */
static int server_has_ring(const struct minirt *rt)
{
    const char *none = NULL;
    int found;

    return rt->n_nodes == 1 && PMI2_SHMEM_KVS_Get_many(0, &none, &none, &found, &found) == PMI2_SUCCESS;
}

int minirt__wire_up(struct minirt *rt)
{
    const char *name = getenv("MINIRT_WIREUP");
    struct lap lap = minirt__begin(rt, MINIRT_PMI);
    size_t i = rt->n <= GATHER_RANKS ? ALLGATHER : server_has_ring(rt) ? RING : FENCE;
    int rc;

    if (name && *name)
        for (i = 0; i < N_WAYS && strcmp(name, ways[i].name) != 0; i++)
            ;
    if (i == N_WAYS)
        return minirt__fail(rt, MINIRT_EINVAL, "MINIRT_WIREUP=%.40s is not allgather, ring or fence", name);
    if (rt->card_bytes > CARD_BYTES)
        i = FENCE;
    rt->wireup = &ways[i];
    rc = rt->wireup->meet(rt);
    minirt__end(&lap);
    return rc;
}

static int two_descriptors(void)
{
    int a = dup(STDERR_FILENO), b = dup(STDERR_FILENO), none = b < 0 && errno == EMFILE;

    if (a >= 0)
        close(a);
    if (b >= 0)
        close(b);
    return !none;
}

/* Takes a card that has come from elsewhere: libasymreg learns of the peer, the address vector of its struct service. */
static int admit(struct minirt *rt, uint32_t id, const struct card *c, size_t bytes)
{
    struct lap lap;
    int rc;

    if (rt->entries[id] != 0)
        return 0;
    if (bytes < CARD_HEAD || c->magic != rt->card.magic || c->blob_bytes != bytes - CARD_HEAD || c->service == 0)
        return minirt__fail(rt, MINIRT_EPMI, "what came as the card of process %u is none", id);
    lap = minirt__begin(rt, MINIRT_PEERS);
    rc = asymreg_import(rt->ctx, id, c->blob, c->blob_bytes);
    if (rc == ASYMREG_EPEER && !two_descriptors())
        rc = -EMFILE; /* without them libasymreg cannot see that it lives */
    if (rc < 0)
        return minirt__fail_asymreg(rt, rc, "connecting to process %u", id);
    minirt__end(&lap);
    lap = minirt__begin(rt, MINIRT_AV);
    rc = rankmap_av_set(rt->av, id, c->service, TAG_KNOWN);
    if (rc < 0)
        return minirt__fail(rt, MINIRT_EMAP, "address of process %u: %s", id, rankmap_strerror(rc));
    rt->n_peers++;
    minirt__end(&lap);
    return 0;
}

int minirt__connect(struct minirt *rt, uint32_t id)
{
    struct card c;
    int n;

    if (id == rt->rank)
        return admit(rt, id, &rt->card, rt->card_bytes);
    n = rt->wireup->find(rt, id, &c);
    return n < -1 ? n : admit(rt, id, &c, n < 0 ? 0 : (size_t)n);
}

int minirt__service_at(struct minirt *rt, uint32_t id, uint64_t *addr)
{
    struct rankmap_av_entry entry;
    int rc = rt->entries[id] != 0 ? 0 : minirt__connect(rt, id);

    if (rc < 0)
        return rc;
    *addr = rankmap_av_word_addr(rt->entries[id], TAG_MASK);
    if (rankmap_av_word_escaped(rt->entries[id], TAG_MASK) && rankmap_av_get(rt->av, id, &entry) == 0)
        *addr = entry.addr;
    return 0;
}

int minirt__service_put(struct minirt *rt, uint32_t id, size_t offset, const void *src, size_t bytes)
{
    uint64_t at;
    int rc = minirt__service_at(rt, id, &at);

    if (rc < 0)
        return rc;
    if ((rc = asymreg_put(rt->worker, id, at + offset, ASYMREG_ANY, src, bytes)) < 0 || (rc = asymreg_flush(rt->worker, id)) < 0)
        return minirt__fail_asymreg(rt, rc, "telling process %u", id);
    return 0;
}

int minirt__service_get(struct minirt *rt, uint32_t id, size_t offset, void *dst, size_t bytes)
{
    uint64_t at;
    int rc = minirt__service_at(rt, id, &at);

    if (rc < 0)
        return rc;
    if ((rc = asymreg_get(rt->worker, id, at + offset, ASYMREG_ANY, dst, bytes)) < 0)
        return minirt__fail_asymreg(rt, rc, "asking process %u", id);
    return 0;
}
