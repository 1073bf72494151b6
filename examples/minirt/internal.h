/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of minirt share.
 *
 *   init.c    life cycle, transport, errors
 *   wireup.c  cards by PMI: Allgather, Ring or Put-Fence-Get; the first contact with a peer
 *   team.c    teams, barrier
 *   window.c  windows
 *   rma.c     put, get, atomics
 *   cost.c    what it costs
 */
#ifndef MINIRT_INTERNAL_H
#define MINIRT_INTERNAL_H

#include "minirt.h"

#define ROUNDS 24u       /* ⌈log2 MINIRT_MAX_RANKS⌉ */
#define CARD_BYTES 511u  /* longest card that fits one PMI value, two characters a byte */
#define CARD_TEXT 1024u  /* its text, with NUL */
#define TAG_MASK UINT64_C(0xffff000000000000)
#define TAG_SHIFT 48u
#define TAG_KNOWN 1u     /* an entry of the address vector that has been looked up */

/* Memory of every process that all others reach: the entry of the address vector is its address. */
struct service {
    struct team_slot {
        uint64_t flag[ROUNDS];     /* the number of the barrier that reached this round; one writer each */
        uint64_t value[2][ROUNDS]; /* what came with it; by parity, as a writer can be one barrier ahead */
    } team[MINIRT_MAX_TEAMS];
    struct {
        uint64_t base, bytes;
    } window[MINIRT_MAX_WINDOWS];
    struct finger { /* the card of rank + 2^k */
        uint64_t bytes; /* 0: not there yet */
        char card[CARD_BYTES + 1];
    } finger[ROUNDS];
};

/* What a process tells the others of itself. */
struct card {
    uint32_t magic, blob_bytes;
    uint64_t service;
    char blob[ASYMREG_MAX_BLOB_BYTES];
};
#define CARD_HEAD offsetof(struct card, blob)

struct minirt_team {
    struct rankmap_lookup lookup; /* of entries of the address vector */
    struct minirt *rt;
    struct rankmap *map;
    uint32_t n, me, slot;
    uint64_t epoch; /* barriers so far */
};

struct minirt_window {
    struct minirt *rt;
    struct minirt_team *team;
    struct storwin_window *storage;
    void *base;
    uint64_t bytes;
    uint32_t index;   /* in struct service; MINIRT_MAX_WINDOWS: the service window itself */
    uint32_t n_parts; /* registered: memory and storage are two */
    asymreg_id region[2];
    uint64_t segment[2]; /* 0: none */
    char *created;       /* a new file's name, until all ranks have the window */
    uint64_t *where;     /* base at each process, 0: not asked yet; only touched pages are memory */
};

struct wireup {
    const char *name;
    int (*meet)(struct minirt *rt);                              /* collective */
    int (*find)(struct minirt *rt, uint32_t id, struct card *c); /* the card of a process, afterwards */
};

struct minirt {
    uint32_t rank, n, n_nodes;
    int has_pmi, broken;
    enum { SHM, CMA, UCX } transport;
    const struct wireup *wireup;
    struct asymreg_context *ctx;
    struct asymreg_worker *worker;
    struct rankmap_av *av;
    const uint64_t *entries; /* of the address vector: of process 0 */
    struct rankmap *nodes;   /* rank to node */
    struct minirt_window *service_window;
    struct service *service;
    struct card card;
    size_t card_bytes;
    uint32_t n_peers;
    struct minirt_team *world, *teams[MINIRT_MAX_TEAMS];
    struct minirt_window *windows[MINIRT_MAX_WINDOWS];
    const char *gathered; /* Allgather: the first value */
    int gathered_stride;
    struct minirt_cost cost[MINIRT_N_PARTS];
    int part; /* whose time runs; MINIRT_N_PARTS: nobody's */
    char why[640];
};

/* Notes why; returns code. */
int minirt__fail(struct minirt *rt, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same of what libasymreg returned. */
int minirt__fail_asymreg(struct minirt *rt, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));

int minirt__wire_up(struct minirt *rt);
/* Fills the entry of a process in the address vector. */
int minirt__connect(struct minirt *rt, uint32_t id);
/* The address of a process's struct service. */
int minirt__service_at(struct minirt *rt, uint32_t id, uint64_t *addr);
/* put or get of something in it, complete on return */
int minirt__service_put(struct minirt *rt, uint32_t id, size_t offset, const void *src, size_t bytes);
int minirt__service_get(struct minirt *rt, uint32_t id, size_t offset, void *dst, size_t bytes);

int minirt__world(struct minirt *rt);
void minirt__team_drop(struct minirt_team *team);
/* A barrier that combines values: by and, or their minimum. */
int minirt__agree(struct minirt_team *team, uint64_t *value, int least);
int minirt__service_window(struct minirt *rt);
int minirt__window_drop(struct minirt_window *w);

/* What goes on between these two belongs to a part. They nest. */
struct lap {
    struct minirt *rt;
    int part, outer;
    uint64_t ns;
    int64_t heap;
};
struct lap minirt__begin(struct minirt *rt, int part);
void minirt__end(const struct lap *lap);

#endif
