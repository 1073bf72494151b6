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

#define ROUNDS 24u      /* ⌈log2 MINIRT_MAX_RANKS⌉ */
#ifndef CARD_TEXT       /* by a test */
#define CARD_TEXT 1023u /* the part of a card that one PMI value holds, two characters a byte, and NUL */
#endif

/* Memory of every process that all others reach: the entry of the address vector is its address. */
struct service {
    struct team_slot {
        uint64_t flag[ROUNDS];     /* the number of the barrier that reached this round; one writer each */
        uint64_t value[2][ROUNDS]; /* what came with it; by parity, as a writer can be one barrier ahead */
    } team[MINIRT_MAX_TEAMS];
    struct part {
        uint64_t base, bytes;
    } window[MINIRT_MAX_WINDOWS];
    struct finger { /* the card of rank + 2^k, as PMI brought it to somebody */
        uint64_t ready;
        char card[CARD_TEXT + 1];
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

struct cost {
    uint64_t ns;
    int64_t heap;    /* what malloc() held more after than before */
    uint64_t faults; /* pages that were touched for the first time, also of memory that malloc() knows nothing of */
};

struct minirt {
    uint32_t rank, n, n_nodes;
    int has_pmi, ready, broken; /* PMI2_Init() was called; processes know each other; a peer has gone */
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
    struct minirt_team *world, *teams[MINIRT_MAX_TEAMS];
    struct minirt_window *windows[MINIRT_MAX_WINDOWS];
    const char *gathered; /* Allgather: the first value */
    int gathered_stride;
    struct cost cost[MINIRT_N_PARTS + 1], since; /* the last is nobody's */
    int part; /* whose time runs */
    char why[640];
};

/* Notes what failed, with the library's or the system's own words if rc is theirs; returns a code of minirt.h. */
int minirt__fail(struct minirt *rt, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));

int minirt__wire_up(struct minirt *rt);
/* Fills the entry of a process in the address vector, if it is not there. */
int minirt__connect(struct minirt *rt, uint32_t id);
/* put or get of something in a process's struct service, complete on return */
int minirt__service_put(struct minirt *rt, uint32_t id, size_t offset, const void *src, size_t bytes);
int minirt__service_get(struct minirt *rt, uint32_t id, size_t offset, void *dst, size_t bytes);

int minirt__world(struct minirt *rt);
void minirt__team_drop(struct minirt_team *team);
/* A barrier that combines values: by and, or their minimum. */
int minirt__agree(struct minirt_team *team, uint64_t *value, int least);
int minirt__service_window(struct minirt *rt);
int minirt__window_drop(struct minirt_window *w);

/* From now on time and memory are this part's; returns whose they were. */
int minirt__charge(struct minirt *rt, int part);

#endif
