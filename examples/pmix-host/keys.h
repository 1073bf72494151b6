/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes a namespace for libpmix: job, programs, ranks. libpmix hands the keys to the clients.
 *
 * A client that asks for a missing key waits for it, or continues as a singleton, both without a
 * message. So keys_missing() knows which keys Open MPI 4, Open MPI 5 and MPICH
 * ask for, and a namespace without one of them is not registered.
 */
#ifndef KEYS_H
#define KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib.h"

/* What is known of a job. */
struct keys_job {
    const char *nspace;
    uint32_t n_ranks, n_nodes, node; /* nodes of the launch, and this one */
    const uint32_t *node_of;         /* by rank; NULL: all are here */
    const char *host;                /* this node's name; others are called nodeN */
    const char *anl_map;             /* PMI_process_mapping; NULL: could not be written */
    uint32_t n_apps;
    const uint32_t *app_procs; /* ranks of each program */
    uint32_t universe;         /* processes that there may be */
    uint32_t n_before;         /* ranks that other jobs have here */
    const char *parent;        /* namespace and rank that have spawned it; NULL: none */
    uint32_t parent_rank;
    const char *tmpdir, *nsdir;    /* folders here; NULL: no rank is here */
    const char *const *cpusets;    /* of the ranks here; NULL: they are not bound */
    const char *const *localities; /* entries may be NULL */
};

/* What it says, in libpmix's form. */
struct keys {
    pmix_info_t *info;
    size_t n;
};

/* 0, or -ENOMEM, or -EINVAL: libpmix cannot write the maps. keys_free() in any case. */
int keys_make(struct keys *k, const struct keys_job *job);
/* Removes all pairs of a key: for tests. */
void keys_remove(struct keys *k, const char *key);
/* A key that a client would miss; NULL: none. *who: which clients; *rank: of this rank; UINT32_MAX:
 * of the job. */
const char *keys_missing(const struct keys *k, const struct keys_job *job, const char **who,
                         uint32_t *rank);
void keys_free(struct keys *k);

/* The names of the nodes that have ranks of it, by commas; and the ranks on each, by commas and
 * semicolons. To be freed; NULL: out of memory. */
char *keys_nodes(const struct keys_job *job);
char *keys_ranks(const struct keys_job *job);

#endif
