/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * minirt: a PGAS mini-runtime, made of Fencepost's five libraries and little else.
 *
 * A launcher (pmirun) starts the processes. They find one another by PMI, form **teams**, allocate
 * **windows** in memory, on storage or both, and put to, get from and update each other's memory by
 * (team, rank, address). An address is one of the process that owns the memory; other processes get
 * it from minirt_window_at() or by a message of their own.
 *
 *   libpmiwire, libshmht   through examples/libpmi2: PMI; pairs and Allgathers are read from shared
 *                          memory
 *   librankmap             teams: a map from a team's ranks to processes; the address vector of
 *                          processes
 *   libstorwin             windows: memory, file, hints
 *   libasymreg             operations: registered regions, put, get, atomics, over shared memory,
 *                          CMA or UCX
 *
 * Only the address vector grows with the job (8 bytes a process; untouched pages take no memory). A
 * process looks a peer up when it first needs it; a barrier needs 2 ⌈log2 n⌉ of them.
 *
 * Environment, the same for all processes:
 *   MINIRT_TRANSPORT  shm, cma or ucx; default: shm if the job is on one node, else ucx, also
 *                     between processes of one node
 *   MINIRT_WIREUP     allgather, ring or fence; default: by size, see wireup.c
 *
 * Errors: functions return 0 or one of MINIRT_E*; minirt_why() returns a sentence that names the
 * rank, the peer and the cause. When a peer has died, operations on it and barriers that wait for
 * it return MINIRT_EPEER within a second; afterwards only minirt_why(), minirt_fini() and
 * minirt_abort() are useful. All functions are for one thread.
 */
#ifndef MINIRT_H
#define MINIRT_H

#include <stddef.h>
#include <stdint.h>

#include <asymreg.h>
#include <rankmap.h>
#include <storwin.h>

#define MINIRT_MAX_RANKS   (1u << 24) /* processes of a job: libasymreg's peers */
#define MINIRT_MAX_TEAMS   64u        /* of one process at a time, including the world */
#define MINIRT_MAX_WINDOWS 64u        /* of one process at a time */

/* an argument is not allowed: no such rank, an unknown hint */
#define MINIRT_EINVAL  (-26001)
#define MINIRT_ENOMEM  (-26002) /* out of memory, teams or windows */
#define MINIRT_EPMI    (-26003) /* the launcher failed, or what it forwarded is malformed */
#define MINIRT_EMAP    (-26004) /* librankmap refused */
#define MINIRT_EWINDOW (-26005) /* libstorwin refused */
/* libasymreg refused: nothing registered there, past its end, … */
#define MINIRT_EREMOTE (-26006)
#define MINIRT_EPEER   (-26007) /* the peer is gone */
#define MINIRT_ENOTSUP (-26008) /* this transport cannot do it */
#define MINIRT_ESYSTEM (-26009) /* the system refused: no descriptor, … */

struct minirt;        /* this process's part of the runtime; one a process */
struct minirt_team;   /* an ordered set of processes that this one is in */
struct minirt_window; /* memory that the processes of a team share with each other */

/* ---- life cycle ---- */

/* Collective over the job. After a failure call minirt_why() on *rt if wanted, then minirt_fini();
 * *rt is NULL if there was no memory even for that. */
int minirt_init(struct minirt **rt);
/* Collective over the job, unless a peer is gone. Frees remaining teams and windows too. NULL is
 * allowed. */
int minirt_fini(struct minirt *rt);
/* The last failure: one sentence without a newline. Never NULL. */
const char *minirt_why(const struct minirt *rt);
/* Ends all processes of the job with status 1, with the reason on stderr. Does not return. */
_Noreturn void minirt_abort(struct minirt *rt);

/* ---- teams: collective over the parent, in the same order by all of its processes ---- */

struct minirt_team *minirt_world(struct minirt *rt);
/* The same processes in the same order, with a barrier of their own. */
int minirt_team_dup(struct minirt_team *parent, struct minirt_team **team);
/* The parent's ranks as a grid of n_columns, row by row: the caller's row, or its column. The last
 * row may be shorter. */
int minirt_team_row(struct minirt_team *parent, uint32_t n_columns, struct minirt_team **team);
int minirt_team_column(struct minirt_team *parent, uint32_t n_columns, struct minirt_team **team);
int minirt_team_reverse(struct minirt_team *parent, struct minirt_team **team);
/* Every k-th rank: k teams of ranks r, r + k, r + 2k, …; the caller gets its own. */
int minirt_team_every(struct minirt_team *parent, uint32_t k, struct minirt_team **team);
/* The ranks on the caller's node. */
int minirt_team_node(struct minirt_team *parent, struct minirt_team **team);
/* Any other set: `ranks` are ranks of the parent. Processes may pass different sets, provided that
 * all members of a set pass the same one. A process that is not in its own set gets *team NULL. */
int minirt_team_from(struct minirt_team *parent, const struct rankmap *ranks,
                     struct minirt_team **team);
/* Collective over the team. */
int minirt_team_free(struct minirt_team *team);

uint32_t minirt_rank(const struct minirt_team *team);
uint32_t minirt_size(const struct minirt_team *team);
/* The team's map, for rankmap_describe() and the like; the world's ids are ranks of the job. */
const struct rankmap *minirt_map(const struct minirt_team *team);

/* Wait until every member has called it; what the caller put before is complete afterwards. */
int minirt_barrier(struct minirt_team *team);
/* A barrier that stores the smallest of all members' values in *value. */
int minirt_min(struct minirt_team *team, uint64_t *value);

/* ---- windows: collective over the team ---- */

/*
 * `hints` is NULL (memory) or "key=value; key=value" as in libstorwin's HINTS.md; "%r" stands for
 * the job rank. Lengths may differ. With shm, peers map memory windows and files under the kernel
 * pager: loads, stores and atomics. With the resident pager they use CMA. The user pager is
 * refused. storage_alloc_unlink=true removes a file's name at once.
 */
int minirt_window_create(struct minirt_team *team, uint64_t bytes, const char *hints,
                         struct minirt_window **window);
int minirt_window_free(struct minirt_window *window);
void *minirt_window_base(const struct minirt_window *window);
/* The libstorwin window, for storwin_sync() and queries. */
struct storwin_window *minirt_window_storage(struct minirt_window *window);
/* The address of a byte of a rank's part; the team may differ from the one that made the window.
 * Asks that rank once. */
int minirt_window_at(struct minirt_window *window, struct minirt_team *team, uint32_t rank,
                     uint64_t offset, uint64_t *addr);

/* ---- operations: on memory of (team, rank) at an address there ---- */

/* `src` may be reused at once; it has arrived after minirt_flush() or minirt_barrier(). */
int minirt_put(struct minirt_team *team, uint32_t rank, uint64_t addr, const void *src,
               size_t bytes);
int minirt_get(struct minirt_team *team, uint32_t rank, uint64_t addr, void *dst, size_t bytes);
int minirt_flush(struct minirt_team *team, uint32_t rank);
/* 8 bytes, aligned; *before may be NULL. Not with cma. */
int minirt_add(struct minirt_team *team, uint32_t rank, uint64_t addr, uint64_t operand,
               uint64_t *before);
int minirt_swap(struct minirt_team *team, uint32_t rank, uint64_t addr, uint64_t operand,
                uint64_t *before);
int minirt_compare_swap(struct minirt_team *team, uint32_t rank, uint64_t addr, uint64_t compare,
                        uint64_t operand, uint64_t *before);

/* ---- what it costs ---- */

/* Parts: the share of each library in a start. */
enum {
    MINIRT_PMI,
    MINIRT_MAPS,
    MINIRT_AV,
    MINIRT_WINDOWS,
    MINIRT_REGISTRY,
    MINIRT_PEERS,
    MINIRT_N_PARTS
};

struct minirt_cost {
    uint64_t ns;  /* time so far */
    int64_t heap; /* growth of malloc()'s memory for it */
    /* bytes of pages that it touched first, including memory outside of malloc() */
    uint64_t touched;
    uint64_t told; /* bytes that the library itself reports; 0: it reports none */
};

struct minirt_info {
    const char *transport, *wireup;
    uint32_t n_ranks, n_nodes;
    uint32_t n_peers;       /* looked up by this process so far, itself included */
    uint32_t card_chars;    /* length of a process's card at the start, in characters */
    uint32_t service_bytes; /* registered memory of the runtime itself */
    uint32_t finger_bytes;  /* of it, with Ring, for each of the ⌈log2 n⌉ cards */
    struct minirt_cost cost[MINIRT_N_PARTS];
};
/* The state at the call. Requires a running job: minirt_init() has returned 0. */
void minirt_get_info(const struct minirt *rt, struct minirt_info *info);

#endif
