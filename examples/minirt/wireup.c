/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How processes find one another. Each has a card (struct card), some hundred bytes. Three ways to spread them:
 *
 *   allgather  one call; all cards lie in the server's shared memory, once a node. For jobs of up to GATHER_RANKS
 *   ring       PMI brings the cards of two neighbours, whatever the size of the job. The rest is one-sided: rank r keeps the cards of r + 1, r + 2,
 *              r + 4, … (fingers), each got from the finger before; any other is found by walking fingers, ⌈log2 n⌉ steps. A barrier needs no others.
 *              For larger jobs, where the server says that it has Ring and ranks fill node after node
 *   fence      Put, Fence, and a Get when a card is needed. For larger jobs under other servers
 *
 * In none of them does a process touch a card that it does not need. Where a card is longer than a PMI value, as those of UCX on a machine
 * with several networks are, what is spread is its beginning; the rest is put as pairs, for whoever needs that card to get.
 */
#include "internal.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmi2.h"

#define GATHER_RANKS 64u
#define PIECE_BYTES ((CARD_TEXT - 1) / 2)

/* Bytes as characters that every PMI carries, as many as one value holds. */
static void to_text(const unsigned char *bytes, size_t n, char *text)
{
    n = n < PIECE_BYTES ? n : PIECE_BYTES;
    for (size_t i = 0; i < 2 * n; i++)
        text[i] = "0123456789abcdef"[bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
    text[2 * n] = '\0';
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns how many bytes: up to what is no digit of to_text(), `cap` at most. */
static size_t from_text(const char *text, unsigned char *bytes, size_t cap)
{
    size_t n = 0;

    for (; n < cap && digit(text[2 * n]) >= 0 && digit(text[2 * n + 1]) >= 0; n++)
        bytes[n] = (unsigned char)(digit(text[2 * n]) << 4 | digit(text[2 * n + 1]));
    return n;
}

static int pmi_failed(struct minirt *rt, const char *what, int rc)
{
    return minirt__fail(rt, MINIRT_EPMI, "%s: PMI answers %d", what, rc);
}

/* The card's beginning to `text`, the rest into pairs. */
static int write_out(struct minirt *rt, char *text)
{
    const unsigned char *card = (const unsigned char *)&rt->card;
    const size_t bytes = CARD_HEAD + rt->card.blob_bytes;
    char key[PMI2_MAX_KEYLEN], rest[CARD_TEXT];
    int rc = PMI2_SUCCESS;

    to_text(card, bytes, text);
    for (size_t at = PIECE_BYTES; rc == PMI2_SUCCESS && at < bytes; at += PIECE_BYTES) {
        snprintf(key, sizeof(key), "minirt-%u-%zu", rt->rank, at);
        to_text(card + at, bytes - at, rest);
        rc = PMI2_KVS_Put(key, rest);
    }
    return rc;
}

/* The card of a process that begins with `text`. */
static int read_in(struct minirt *rt, uint32_t id, const char *text, struct card *c)
{
    unsigned char *card = (unsigned char *)c;
    size_t n = from_text(text, card, sizeof(*c)), bytes = 0, got = n;
    char key[PMI2_MAX_KEYLEN], rest[CARD_TEXT];
    int len;

    if (n >= CARD_HEAD && c->magic == rt->card.magic && c->blob_bytes <= sizeof(c->blob) && c->service != 0)
        bytes = CARD_HEAD + c->blob_bytes;
    for (; n < bytes && got == PIECE_BYTES; n += got) {
        snprintf(key, sizeof(key), "minirt-%u-%zu", id, n);
        if (PMI2_KVS_Get(NULL, (int)id, key, rest, sizeof(rest), &len) != PMI2_SUCCESS)
            break;
        got = from_text(rest, card + n, sizeof(*c) - n);
    }
    return bytes > 0 && n == bytes ? 0 : minirt__fail(rt, MINIRT_EPMI, "what came as the card of process %u is none", id);
}

/* ---- allgather ---- */

static int gather_meet(struct minirt *rt)
{
    char text[CARD_TEXT];
    const void *first;
    void *values;
    int rc;

    if ((rc = write_out(rt, text)) != PMI2_SUCCESS || (rc = PMI2_SHMEM_Iallgather(text)) != PMI2_SUCCESS ||
        (rc = PMI2_SHMEM_Iallgather_wait(&values)) != PMI2_SUCCESS ||
        (rc = PMI2_SHMEM_Allgathered(&first, &rt->gathered_stride)) != PMI2_SUCCESS)
        return pmi_failed(rt, "Allgather", rc);
    rt->gathered = first;
    return 0;
}

static int gather_find(struct minirt *rt, uint32_t id, struct card *c)
{
    return read_in(rt, id, rt->gathered + (size_t)id * (size_t)rt->gathered_stride, c);
}

/* ---- put, fence, get ---- */

static int fence_meet(struct minirt *rt)
{
    char key[PMI2_MAX_KEYLEN], text[CARD_TEXT];
    int rc = write_out(rt, text);

    snprintf(key, sizeof(key), "minirt-%u", rt->rank);
    if (rc != PMI2_SUCCESS || (rc = PMI2_KVS_Put(key, text)) != PMI2_SUCCESS || (rc = PMI2_KVS_Fence()) != PMI2_SUCCESS)
        return pmi_failed(rt, "Put and Fence", rc);
    return 0;
}

static int fence_find(struct minirt *rt, uint32_t id, struct card *c)
{
    char key[PMI2_MAX_KEYLEN], text[CARD_TEXT];
    int len, rc;

    snprintf(key, sizeof(key), "minirt-%u", id);
    rc = PMI2_KVS_Get(NULL, (int)id, key, text, sizeof(text), &len);
    return rc == PMI2_SUCCESS ? read_in(rt, id, text, c) : pmi_failed(rt, key, rc);
}

/* ---- ring ---- */

#define FINGER(k) (offsetof(struct service, finger) + (k) * sizeof(struct finger))

/* Finger k of a process that is known, waited for as long as that lives. */
static int get_finger(struct minirt *rt, uint32_t id, unsigned k, struct finger *f)
{
    int rc;

    while ((rc = minirt__service_get(rt, id, FINGER(k), &f->ready, sizeof(f->ready))) == 0 && !f->ready)
        sched_yield();
    if (rc == 0)
        rc = minirt__service_get(rt, id, FINGER(k) + offsetof(struct finger, card), f->card, sizeof(f->card));
    f->card[CARD_TEXT] = '\0';
    return rc;
}

static int admit(struct minirt *rt, uint32_t id, const struct card *c);

/* The beginning of the card of process id: from process `at` on, each time over the largest power of two that does not pass the one wanted. */
static int walk(struct minirt *rt, uint32_t at, uint32_t id, struct finger *f)
{
    struct card c;
    int rc;

    for (;;) {
        unsigned k = 31u - (unsigned)__builtin_clz((id + rt->n - at) % rt->n);
        uint32_t next = (at + (1u << k)) % rt->n;

        if (rt->entries[next] == 0) { /* else it is known, and not the one wanted */
            if ((rc = get_finger(rt, at, k, f)) < 0 || next == id)
                return rc;
            if ((rc = read_in(rt, next, f->card, &c)) < 0 || (rc = admit(rt, next, &c)) < 0)
                return rc;
        }
        at = next;
    }
}

static int ring_meet(struct minirt *rt)
{
    struct finger *mine = rt->service->finger, f = {0};
    char text[CARD_TEXT], left[CARD_TEXT];
    int rank, ranks, rc;
    struct card c;

    /* A Ring is no Fence: what write_out() has put must be there before anybody is told of it. Only UCX's cards may be that long. */
    if ((rc = write_out(rt, text)) != PMI2_SUCCESS || (rt->transport == UCX && (rc = PMI2_KVS_Fence()) != PMI2_SUCCESS) ||
        (rc = PMIX_Ring(text, &rank, &ranks, left, f.card, CARD_TEXT)) != PMI2_SUCCESS)
        return pmi_failed(rt, "Ring", rc);
    if ((uint32_t)rank != rt->rank || (uint32_t)ranks != rt->n)
        return minirt__fail(rt, MINIRT_EPMI, "place %d of %d in the ring, rank %u of %u", rank, ranks, rt->rank, rt->n);
    for (unsigned k = 0; 1u << k < rt->n; k++) {
        uint32_t id = (rt->rank + (1u << k)) % rt->n;

        if (k > 0 && (rc = walk(rt, (rt->rank + (1u << (k - 1))) % rt->n, id, &f)) < 0)
            return rc;
        if ((rc = read_in(rt, id, f.card, &c)) < 0 || (rc = admit(rt, id, &c)) < 0)
            return rc;
        memcpy(mine[k].card, f.card, sizeof(f.card));
        __atomic_store_n(&mine[k].ready, 1, __ATOMIC_RELEASE);
    }
    return 0;
}

static int ring_find(struct minirt *rt, uint32_t id, struct card *c)
{
    struct finger f;
    int rc = walk(rt, rt->rank, id, &f);

    return rc < 0 ? rc : read_in(rt, id, f.card, c);
}

/* ---- all of them ---- */

/* The ring's order is that of nodes: it is that of ranks unless they were dealt out in turn. */
static int ring_of_ranks(const struct minirt *rt)
{
    uint32_t r = 1;

    while (r < rt->n && rankmap_id(rt->nodes, r - 1) <= rankmap_id(rt->nodes, r))
        r++;
    return r == rt->n && PMIX_Ring_offered();
}

int minirt__wire_up(struct minirt *rt)
{
    static const struct wireup ways[] = {
        {"allgather", gather_meet, gather_find}, {"ring", ring_meet, ring_find}, {"fence", fence_meet, fence_find}};
    const char *name = getenv("MINIRT_WIREUP");

    if (!name || !*name)
        name = rt->n <= GATHER_RANKS ? "allgather" : ring_of_ranks(rt) ? "ring" : "fence";
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        if (strcmp(name, ways[i].name) == 0)
            rt->wireup = &ways[i];
    return rt->wireup ? rt->wireup->meet(rt) : minirt__fail(rt, MINIRT_EINVAL, "MINIRT_WIREUP=%.40s is not allgather, ring or fence", name);
}

/* Takes a card: libasymreg learns of the peer, the address vector of its struct service. */
static int admit(struct minirt *rt, uint32_t id, const struct card *c)
{
    int outer = minirt__charge(rt, MINIRT_PEERS), rc = asymreg_import(rt->ctx, id, c->blob, c->blob_bytes);

    minirt__charge(rt, MINIRT_AV);
    if (rc == 0)
        rc = rankmap_av_set(rt->av, id, c->service, 0);
    minirt__charge(rt, outer);
    if (rc < 0)
        return minirt__fail(rt, rc, "connecting to process %u", id);
    rt->n_peers++;
    return 0;
}

int minirt__connect(struct minirt *rt, uint32_t id)
{
    struct card c;
    int rc;

    if (rt->entries[id] != 0)
        return 0;
    if (id == rt->rank)
        return admit(rt, id, &rt->card);
    rc = rt->wireup->find(rt, id, &c);
    return rc < 0 ? rc : admit(rt, id, &c);
}

int minirt__service_put(struct minirt *rt, uint32_t id, size_t offset, const void *src, size_t bytes)
{
    int rc = minirt__connect(rt, id);

    if (rc == 0)
        rc = minirt_put(rt->world, id, rt->entries[id] + offset, src, bytes);
    return rc == 0 ? minirt_flush(rt->world, id) : rc;
}

int minirt__service_get(struct minirt *rt, uint32_t id, size_t offset, void *dst, size_t bytes)
{
    int rc = minirt__connect(rt, id);

    return rc == 0 ? minirt_get(rt->world, id, rt->entries[id] + offset, dst, bytes) : rc;
}
