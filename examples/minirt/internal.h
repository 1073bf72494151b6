/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of minirt share.
 *
 *   init.c    life cycle: the launcher, the transport, errors            all libraries
 *   wireup.c  how processes find one another: the first contact libpmi2, libasymreg, librankmap
 *   team.c    teams, barrier, agreement                                  librankmap, libasymreg
 *   window.c  windows                                                    libstorwin, libasymreg
 *   rma.c     put, get, atomics                                          librankmap, libasymreg
 *   cost.c    what it costs
 */
#ifndef MINIRT_INTERNAL_H
#define MINIRT_INTERNAL_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "minirt.h"

#define MINIRT_SLOTS 64u /* of teams, and of windows: bits of a word */
#define ROUNDS       24u /* ⌈log2 MINIRT_MAX_RANKS⌉ */
#ifndef CARD_TEXT        /* by a test */
/* the part of a card that one PMI value holds, two characters a byte, and NUL */
#define CARD_TEXT 1024u
#endif

_Static_assert(MINIRT_MAX_TEAMS == MINIRT_SLOTS && MINIRT_MAX_WINDOWS == MINIRT_SLOTS,
               "a slot each");

/* A value that others wait for: valid once the number is at least the one that they want. */
struct word {
    uint64_t number, value;
};
struct finger { /* the card of rank + 2^k, as PMI brought it to some process */
    uint64_t number;
    char card[CARD_TEXT];
};
struct part {
    uint64_t base, bytes;
};

/* Memory of every process that all others access: the entry of the address vector is its address.
 * Pages are touched only when used. */
struct service {
    struct team_slot {
        /* What the rank 2^k before this one sent in round k of a barrier. By parity, as that rank
         * can be one barrier ahead. */
        _Alignas(64) struct word heard[2][ROUNDS];
    } team[MINIRT_SLOTS];
    /* The process that a barrier here found gone, + 1; 0: none. Ranks that wait for this one get
     * it. */
    uint64_t gone;
    struct part window[MINIRT_SLOTS];
    struct finger finger[ROUNDS];
};

/* What a process publishes about itself. */
struct card {
    uint32_t magic, blob_bytes;
    uint64_t service;
    char blob[ASYMREG_MAX_BLOB_BYTES];
};
#define CARD_HEAD offsetof(struct card, blob)

struct minirt_team {
    _Alignas(64) struct rankmap_lookup lookup; /* of entries of the address vector */
    struct minirt *rt;
    struct rankmap *map;
    uint32_t n, me, slot, n_windows;
    uint64_t barriers; /* so far */
};

struct minirt_window {
    struct minirt *rt;
    struct minirt_team *team;
    struct storwin_window *storage;
    uint32_t slot;        /* unless it is the service window, which has no team */
    asymreg_id region[2]; /* of its parts; 0: none */
    char *created;        /* a new file's name, for a window that another rank could not open */
    struct part *where; /* at each process, base 0: not asked yet; only touched pages are memory */
};

struct wireup {
    const char *name;
    int (*meet)(struct minirt *rt); /* collective: spreads what the own card begins with */
    int (*find)(struct minirt *rt, uint32_t id,
                char *text); /* afterwards: what another's begins with, CARD_TEXT bytes */
};

struct minirt {
    uint32_t rank, n, n_nodes;
    int ready, broken; /* processes know each other; a peer is gone */
    enum { SHM, CMA, UCX } transport;
    const struct wireup *wireup;
    struct asymreg_context *ctx;
    struct asymreg_worker *worker;
    struct rankmap_av *av;
    const uint64_t *entries; /* of the address vector: of process 0; 0: not known yet */
    struct rankmap *nodes;   /* rank to node */
    struct minirt_window *service_window;
    struct service *service;
    struct card card;
    uint32_t n_peers;
    struct minirt_team *world;
    void *teams[MINIRT_SLOTS], *windows[MINIRT_SLOTS]; /* NULL: a slot is free */
    const void *gathered;                              /* Allgather: the first value */
    int gathered_stride;
    struct minirt_cost cost[MINIRT_N_PARTS + 1], since; /* the last belongs to no part */
    int part;                                           /* that is charged now */
    char why[640];
};

extern const char *const minirt__transports[];

/* Records what failed, and the reason if there is one (NULL). Returns the code, one of minirt.h. */
int minirt__fail(struct minirt *rt, int code, const char *reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A code is negative: what compilers of other files rely on. */
static inline int minirt__negative(int code)
{
    if (code >= 0)
        __builtin_unreachable();
    return code;
}
#define minirt__fail(...) minirt__negative(minirt__fail(__VA_ARGS__))
/* The code of minirt.h for an error of librankmap or libasymreg, which may be the system's. */
int minirt__map_code(int rc);
int minirt__remote_code(int rc);

int minirt__wire_up(struct minirt *rt);
/* Fills the entry of a process in the address vector, if it is not there. */
int minirt__connect(struct minirt *rt, uint32_t id);
/* The process that a rank of a team is, connected. */
int minirt__reach(struct minirt_team *team, uint32_t rank, uint32_t *id);
/* The address, at a known process, of this place of the own struct service. */
uint64_t minirt__there(const struct minirt *rt, uint32_t id, const void *place);
/* Gets it: waits, while that process lives, until the number before it is at least this; then gets
 * the bytes after it. */
int minirt__read(struct minirt *rt, uint32_t id, const void *place, void *dst, size_t bytes);
int minirt__await(struct minirt *rt, uint32_t id, const void *place, uint64_t number, void *dst,
                  size_t bytes);

int minirt__world(struct minirt *rt);
void minirt__team_drop(struct minirt_team *team);
/* A barrier that combines values: by and, or their minimum. */
int minirt__agree(struct minirt_team *team, uint64_t *value, int least);
/* The same for the lowest slot that is free in every process's table. A negative rc makes it fail
 * everywhere. */
int minirt__agree_on_slot(struct minirt_team *team, void *const table[], int rc, uint32_t *slot);
int minirt__service_window(struct minirt *rt);
int minirt__window_drop(struct minirt_window *w);

/* Charges time and memory to this part from now on; returns the previous part. */
int minirt__charge(struct minirt *rt, int part);
/* rc = call, charged to this part. */
#define CHARGE(rt, part, rc, call)                                                                 \
    do {                                                                                           \
        int outer_part = minirt__charge(rt, part);                                                 \
        (rc) = (call);                                                                             \
        minirt__charge(rt, outer_part);                                                            \
    } while (0)

#endif
