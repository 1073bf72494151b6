/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How processes find one another. Each has a card (struct card), some hundred bytes, most of them
 * libasymreg's bootstrap blob. libpmi2 spreads them, in one of three ways:
 *
 *   allgather  one call; all cards lie in the server's shared memory (libshmht), once a node. For
 *              jobs of up to GATHER_RANKS
 *   ring       PMI brings the cards of two neighbours, whatever the size of the job. The rest is
 *              one-sided: rank r keeps the cards of r + 1, r + 2, r + 4, … (fingers), each got from
 *              the finger before; any other is found by walking fingers, ⌈log2 n⌉ steps. For larger
 *              jobs, where the server says that it has Ring and ranks fill node after node
 *   fence      Put, Fence, and a Get when a card is needed. For larger jobs under other servers
 *
 * In none of them does a process read a card that it does not need. If a card is longer than a PMI
 * value (UCX's are, on a machine with several networks), one of the three ways distributes only its
 * first piece. The owner puts the other pieces as pairs, and a rank that needs the card gets them.
 */
#include "internal.h"

#include <sched.h>

#include "pmi2.h"

#define GATHER_RANKS 64u
#define PIECE_BYTES  ((CARD_TEXT - 1) / 2)
#define MAGIC        0x3154524du
#define DIGITS       "0123456789abcdef"

/* ---- cards, as text that every PMI carries ---- */

/* The own card from byte `at`, as much as one value holds. */
static void to_text(const struct minirt *rt, size_t at, char *text)
{
    const unsigned char *byte = (const unsigned char *)&rt->card;

    for (size_t i = at; i < CARD_HEAD + rt->card.blob_bytes && i < at + PIECE_BYTES; i++)
        text += snprintf(text, 3, "%02x", byte[i]);
}

/* Returns the number of bytes: up to the first non-digit of to_text(), at most `cap`. */
static size_t from_text(const char *text, unsigned char *bytes, size_t cap)
{
    const char *high, *low;
    size_t n = 0;

    for (; n < cap; n++) {
        high = memchr(DIGITS, text[2 * n], 16);
        low = high ? memchr(DIGITS, text[2 * n + 1], 16) : NULL;
        if (!low)
            break;
        bytes[n] = (unsigned char)((high - DIGITS) << 4 | (low - DIGITS));
    }
    return n;
}

static int check_pmi(struct minirt *rt, const char *what, int answer)
{
    return answer == PMI2_SUCCESS
               ? 0
               : minirt__fail(rt, MINIRT_EPMI, NULL, "%s: PMI answers %d", what, answer);
}

/* A piece of the own card becomes a pair, and one of another process's is got. */
static int put_piece(struct minirt *rt, size_t at)
{
    char key[PMI2_MAX_KEYLEN], text[CARD_TEXT];

    to_text(rt, at, text);
    snprintf(key, sizeof(key), "minirt-%u-%zu", rt->rank, at);
    return check_pmi(rt, key, PMI2_KVS_Put(key, text));
}

static int get_piece(struct minirt *rt, uint32_t id, size_t at, char *text)
{
    char key[PMI2_MAX_KEYLEN];
    int len;

    snprintf(key, sizeof(key), "minirt-%u-%zu", id, at);
    return check_pmi(rt, key, PMI2_KVS_Get(NULL, (int)id, key, text, CARD_TEXT, &len));
}

/* The own card. The part beyond its first piece becomes pairs at once. */
static int write_card(struct minirt *rt)
{
    struct asymreg_error err;
    ssize_t n = asymreg_export(rt->ctx, rt->card.blob, sizeof(rt->card.blob), &err);
    int rc = n < 0 ? minirt__fail(rt, minirt__remote_code((int)n), err.text, "export") : 0;

    rt->card.magic = MAGIC;
    rt->card.blob_bytes = (uint32_t)n;
    rt->card.service = (uintptr_t)rt->service;
    for (size_t at = PIECE_BYTES; rc == 0 && at < CARD_HEAD + (size_t)n; at += PIECE_BYTES)
        rc = put_piece(rt, at);
    return rc;
}

/* Imports the peer into libasymreg, and its struct service into the address vector. */
static int import_peer(struct minirt *rt, uint32_t id, const struct card *c)
{
    struct asymreg_error err;
    int rc = asymreg_import(rt->ctx, id, c->blob, c->blob_bytes, &err);

    if (rc < 0)
        return minirt__fail(rt, minirt__remote_code(rc), err.text, "connecting to process %u", id);
    rc = rankmap_av_set(rt->av, id, c->service, 0);
    if (rc < 0)
        return minirt__fail(rt, minirt__map_code(rc), rankmap_strerror(rc), "process %u", id);
    rt->n_peers++;
    return 0;
}

/* Takes the card that begins with `text`. */
static int import_card(struct minirt *rt, uint32_t id, const char *text)
{
    struct card c;
    unsigned char *card = (unsigned char *)&c;
    size_t n = from_text(text, card, sizeof(c)), got = n;
    char rest[CARD_TEXT];
    int rc;

    for (; got == PIECE_BYTES && n < CARD_HEAD + c.blob_bytes; n += got) {
        rc = get_piece(rt, id, n, rest);
        if (rc < 0)
            return rc;
        got = from_text(rest, card + n, sizeof(c) - n);
    }
    if (n < CARD_HEAD || c.magic != MAGIC || n != CARD_HEAD + c.blob_bytes || c.service == 0)
        return minirt__fail(rt, MINIRT_EPMI, NULL, "the card of process %u is malformed", id);
    CHARGE(rt, MINIRT_PEERS, rc, import_peer(rt, id, &c));
    return rc;
}

/* ---- allgather ---- */

static int gather_meet(struct minirt *rt)
{
    char text[CARD_TEXT];
    void *values;
    int rc;

    to_text(rt, 0, text);
    rc = PMI2_SHMEM_Iallgather(text);
    if (rc == PMI2_SUCCESS)
        rc = PMI2_SHMEM_Iallgather_wait_stride(&values, &rt->gathered_stride);
    if (rc == PMI2_SUCCESS)
        rt->gathered = values;
    return check_pmi(rt, "Allgather", rc);
}

static int gather_find(struct minirt *rt, uint32_t id, char *text)
{
    snprintf(text, CARD_TEXT, "%s",
             (const char *)rt->gathered + (size_t)id * (size_t)rt->gathered_stride);
    return 0;
}

/* ---- put, fence, get ---- */

static int fence_meet(struct minirt *rt)
{
    int rc = put_piece(rt, 0);

    return rc < 0 ? rc : check_pmi(rt, "Fence", PMI2_KVS_Fence());
}

static int fence_find(struct minirt *rt, uint32_t id, char *text)
{
    return get_piece(rt, id, 0, text);
}

/* ---- ring ---- */

/* Finger k of a process that is known: the card of the one 2^k after it. */
static int get_finger(struct minirt *rt, uint32_t id, unsigned k, char *text)
{
    int rc = minirt__await(rt, id, &rt->service->finger[k], 1, text, CARD_TEXT);

    text[CARD_TEXT - 1] = '\0';
    return rc;
}

static int ring_meet(struct minirt *rt)
{
    char text[CARD_TEXT], left[CARD_TEXT], right[CARD_TEXT] = "";
    int rank, ranks, rc = PMI2_SUCCESS;
    uint32_t id = rt->rank;

    to_text(rt, 0, text);
    /* A Ring is not a Fence: publish the pieces before any rank learns of them. Only UCX's cards
     * are long enough to have pieces. */
    if (rt->transport == UCX)
        rc = PMI2_KVS_Fence();
    if (rc == PMI2_SUCCESS)
        rc = PMIX_Ring(text, &rank, &ranks, left, right, CARD_TEXT);
    if (rc != PMI2_SUCCESS)
        return check_pmi(rt, "Ring", rc);
    if ((uint32_t)rank != rt->rank || (uint32_t)ranks != rt->n)
        return minirt__fail(rt, MINIRT_EPMI, NULL, "place %d of %d in the ring, rank %u of %u",
                            rank, ranks, rt->rank, rt->n);
    for (unsigned k = 0; 1u << k < rt->n; k++) {
        struct finger *mine = &rt->service->finger[k];

        /* Finger k here is finger k - 1 of the process that is finger k - 1 here. */
        rc = k > 0 ? get_finger(rt, id, k - 1, right) : 0;
        if (rc < 0)
            return rc;
        id = (rt->rank + (1u << k)) % rt->n;
        rc = import_card(rt, id, right);
        if (rc < 0)
            return rc;
        memcpy(mine->card, right, CARD_TEXT);
        __atomic_store_n(&mine->number, 1, __ATOMIC_RELEASE);
    }
    return 0;
}

/* Each hop covers the largest power of two that does not pass the rank wanted. Ranks whose card is
 * known already are skipped. */
static int ring_find(struct minirt *rt, uint32_t id, char *text)
{
    for (uint32_t at = rt->rank, next;; at = next) {
        unsigned k = 31u - (unsigned)__builtin_clz((id + rt->n - at) % rt->n);
        int rc;

        next = (at + (1u << k)) % rt->n;
        if (rt->entries[next] != 0)
            continue;
        rc = get_finger(rt, at, k, text);
        if (rc < 0 || next == id)
            return rc;
        rc = import_card(rt, next, text);
        if (rc < 0)
            return rc;
    }
}

/* The ring is in the order of nodes: that of ranks, unless they were dealt out to the nodes. */
static int is_ring_of_ranks(const struct minirt *rt)
{
    uint32_t r = 1;

    while (r < rt->n && rankmap_id(rt->nodes, r - 1) <= rankmap_id(rt->nodes, r))
        r++;
    return r == rt->n && PMIX_Ring_offered();
}

/* ---- the three ways ---- */

int minirt__wire_up(struct minirt *rt)
{
    static const struct wireup ways[] = {{"allgather", gather_meet, gather_find},
                                         {"ring", ring_meet, ring_find},
                                         {"fence", fence_meet, fence_find}};
    const char *name = getenv("MINIRT_WIREUP");
    int rc;

    if (!name || !*name)
        name = rt->n <= GATHER_RANKS ? "allgather" : is_ring_of_ranks(rt) ? "ring" : "fence";
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        if (strcmp(name, ways[i].name) == 0)
            rt->wireup = &ways[i];
    if (!rt->wireup)
        return minirt__fail(rt, MINIRT_EINVAL, NULL,
                            "MINIRT_WIREUP=%.40s is not allgather, ring or fence", name);
    rc = write_card(rt);
    return rc < 0 ? rc : rt->wireup->meet(rt);
}

int minirt__connect(struct minirt *rt, uint32_t id)
{
    char text[CARD_TEXT];
    int rc = 0;

    if (rt->entries[id] != 0)
        return 0;
    if (id == rt->rank)
        to_text(rt, 0, text);
    else
        rc = rt->wireup->find(rt, id, text);
    return rc < 0 ? rc : import_card(rt, id, text);
}

/* ---- the memory that a process shows to all others: its struct service ---- */

uint64_t minirt__there(const struct minirt *rt, uint32_t id, const void *place)
{
    return rt->entries[id] + (uint64_t)((const char *)place - (const char *)rt->service);
}

int minirt__read(struct minirt *rt, uint32_t id, const void *place, void *dst, size_t bytes)
{
    int rc = minirt__connect(rt, id);

    return rc == 0 ? minirt_get(rt->world, id, minirt__there(rt, id, place), dst, bytes) : rc;
}

int minirt__await(struct minirt *rt, uint32_t id, const void *place, uint64_t number, void *dst,
                  size_t bytes)
{
    uint64_t seen;
    int rc;

    for (;;) {
        rc = minirt__read(rt, id, place, &seen, sizeof(seen));
        if (rc < 0 || seen >= number)
            break;
        sched_yield();
    }
    return rc == 0 ? minirt__read(rt, id, (const char *)place + sizeof(seen), dst, bytes) : rc;
}
