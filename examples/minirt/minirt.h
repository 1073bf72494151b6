/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * minirt: a PGAS mini-runtime, made of Fencepost's five libraries and little else.
 *
 * The processes that a launcher (pmirun) started find one another by PMI, form **teams**, allocate
 * **windows** in memory, on storage or both, and put to, get from and update each other's memory by
 * (team, rank, address). Addresses are those of the process that has the memory; a process learns
 * them from minirt_window_at() or by any message of its own.
 *
 *   libpmiwire, libshmht   by way of examples/libpmi2: PMI, its pairs and Allgathers read from
 *                          shared memory
 *   librankmap             what a team is: a map from its ranks to processes; the address vector of
 *                          processes
 *   libstorwin             what a window is: its memory, its file, its hints
 *   libasymreg             what an operation does: registered regions, put, get, atomics, over
 *                          shared memory, CMA or UCX
 *
 * Nothing grows with the job but the address vector (8 bytes a process, of which only touched pages
 * are memory): a process looks for a peer when it first needs it, and a barrier needs 2 ⌈log2 n⌉ of
 * them.
 *
 * Environment:
 *   MINIRT_TRANSPORT  shm, cma or ucx; without it shm if the job is on one node, else ucx, also
 *                     between processes of one node
 *   MINIRT_WIREUP     allgather, ring or fence; without it chosen by size, see wireup.c
 * They are the same for all processes.
 *
 * Errors: functions return 0 or one of MINIRT_E*, and minirt_why() has a sentence that names the
 * rank, the peer and the cause. A peer that has died makes operations on it, and barriers that wait
 * for it, MINIRT_EPEER within a second; after that only minirt_why(), minirt_fini() and
 * minirt_abort() are of use. All functions are for one thread.
 */
#ifndef MINIRT_H
#define MINIRT_H

#include <stddef.h>
#include <stdint.h>

#include <asymreg.h>
#include <rankmap.h>
#include <storwin.h>

#define MINIRT_MAX_RANKS   (1u << 24) /* processes of a job: libasymreg's peers */
#define MINIRT_MAX_TEAMS   64u        /* of one process at a time, the world among them */
#define MINIRT_MAX_WINDOWS 64u        /* of one process at a time */

/* an argument makes no sense: no such rank, a hint that is none */
#define MINIRT_EINVAL  (-26001)
#define MINIRT_ENOMEM  (-26002) /* out of memory, teams or windows */
#define MINIRT_EPMI    (-26003) /* the launcher, or what it passed on from others */
#define MINIRT_EMAP    (-26004) /* librankmap refused */
#define MINIRT_EWINDOW (-26005) /* libstorwin refused */
/* libasymreg refused: nothing registered there, past its end, … */
#define MINIRT_EREMOTE (-26006)
#define MINIRT_EPEER   (-26007) /* the peer has gone */
#define MINIRT_ENOTSUP (-26008) /* this transport cannot */
#define MINIRT_ESYSTEM (-26009) /* the system refused: no descriptor, … */

struct minirt;        /* this process's part of the runtime; one a process */
struct minirt_team;   /* an ordered set of processes that this one is in */
struct minirt_window; /* memory that the processes of a team opened to each other */

/* ---- life cycle ---- */

/* Collective over the job. On failure *rt may be asked for minirt_why(), and then goes to
 * minirt_fini(); NULL: no memory even for that. */
int minirt_init(struct minirt **rt);
/* Collective over the job, unless a peer has gone. Teams and windows that are left go with it. NULL
 * is allowed. */
int minirt_fini(struct minirt *rt);
/* What the last failure was: one sentence without a newline. Never NULL. */
const char *minirt_why(const struct minirt *rt);
/* Ends the job: all processes, with this status, and says why on stderr. Does not return. */
_Noreturn void minirt_abort(struct minirt *rt, int status);

/* ---- teams: collective over the parent, in the same order by all of its processes ---- */

struct minirt_team *minirt_world(struct minirt *rt);
/* The same processes in the same order, with a barrier of their own. */
int minirt_team_dup(struct minirt_team *parent, struct minirt_team **team);
/* The parent's ranks as a grid of n_columns, row by row: the caller's row, or its column. The last
 * row may be shorter. */
int minirt_team_row(struct minirt_team *parent, uint32_t n_columns, struct minirt_team **team);
int minirt_team_column(struct minirt_team *parent, uint32_t n_columns, struct minirt_team **team);
int minirt_team_reverse(struct minirt_team *parent, struct minirt_team **team);
/* Every k-th rank: the k teams of ranks r, r + k, r + 2k, …, of which the caller is in one. */
int minirt_team_every(struct minirt_team *parent, uint32_t k, struct minirt_team **team);
/* Those on the caller's node. */
int minirt_team_node(struct minirt_team *parent, struct minirt_team **team);
/* Any others: `ranks` are ranks of the parent. Processes may give different maps, as long as each
 * names the same ranks as all that it names. A process that is not in its own gets *team NULL. */
int minirt_team_from(struct minirt_team *parent, const struct rankmap *ranks,
                     struct minirt_team **team);
/* Collective over the team. */
int minirt_team_free(struct minirt_team *team);

uint32_t minirt_rank(const struct minirt_team *team);
uint32_t minirt_size(const struct minirt_team *team);
/* What the team's map is, for rankmap_describe() and the like; the world's ids are ranks of the
 * job. */
const struct rankmap *minirt_map(const struct minirt_team *team);

/* Wait until all have called it; what the caller put before is then complete. */
int minirt_barrier(struct minirt_team *team);
/* A barrier that leaves the least of all values in *value. */
int minirt_min(struct minirt_team *team, uint64_t *value);

/* ---- windows: collective over the team ---- */

/*
 * `hints` is NULL (memory) or "key=value; key=value" as libstorwin's HINTS.md has them; "%r" in it
 * stands for the job rank. Lengths may differ. With shm, memory windows and files under the
 * kernel's pager are mapped by peers: loads, stores and atomics. With the pager resident they are
 * reached by CMA. The pager user is refused. storage_alloc_unlink=true takes a file's name away at
 * once.
 */
int minirt_window_create(struct minirt_team *team, uint64_t bytes, const char *hints,
                         struct minirt_window **window);
int minirt_window_free(struct minirt_window *window);
void *minirt_window_base(const struct minirt_window *window);
/* The libstorwin window, for storwin_sync() and queries. */
struct storwin_window *minirt_window_storage(struct minirt_window *window);
/* The address of a byte of a rank's part; the team may be another one than the window was made by.
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

/* Parts: what each library took of a start. */
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
    uint64_t ns;      /* time so far */
    int64_t heap;     /* bytes that malloc() holds more for it */
    uint64_t touched; /* bytes of pages that it touched first, also of memory that malloc() knows
                         nothing of */
    uint64_t told;    /* bytes that the library itself says that it holds; 0: it does not say */
};

struct minirt_info {
    const char *transport, *wireup;
    uint32_t n_ranks, n_nodes;
    uint32_t n_peers;       /* that this process has looked up so far, itself among them */
    uint32_t card_chars;    /* what a process tells the others at the start, in characters */
    uint32_t service_bytes; /* registered memory that the runtime itself needs */
    uint32_t finger_bytes;  /* of it, with Ring, for each of the ⌈log2 n⌉ cards */
    struct minirt_cost cost[MINIRT_N_PARTS];
};
/* As of the call. The job runs: minirt_init() has returned 0. */
void minirt_get_info(const struct minirt *rt, struct minirt_info *info);

#endif
