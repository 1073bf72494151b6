/* SPDX-License-Identifier: BSD-3-Clause */
/* What the host's files share. Nothing here needs libpmix: groups.c and names.c are tested without
 * it. Status codes are libpmix's numbers. */
#ifndef HOST_INTERNAL_H
#define HOST_INTERNAL_H

#include "pmix_host.h"
#include "queue.h"

#define HOST_OK      0
#define HOST_ETIME   (-24) /* PMIX_ERR_TIMEOUT */
#define HOST_EINVAL  (-27) /* PMIX_ERR_BAD_PARAM */
#define HOST_ELIMIT  (-29) /* PMIX_ERR_OUT_OF_RESOURCE */
#define HOST_ENOMEM  (-32) /* PMIX_ERR_NOMEM */
#define HOST_ENOENT  (-46) /* PMIX_ERR_NOT_FOUND */
#define HOST_ENOTSUP (-47) /* PMIX_ERR_NOT_SUPPORTED */
#define HOST_EEXIST  (-53) /* PMIX_ERR_DUPLICATE_KEY */
#define HOST_EGONE   (-61) /* PMIX_ERR_LOST_CONNECTION: a rank that it needs is gone */

#define HOST_NSPACE_BYTES 256u /* with its NUL, as pmix_nspace_t */

/* The end of a request; called once. data is valid during the call. It calls no function of
 * groups.h or names.h. */
typedef void (*host_done_fn)(void *ctx, int status, const char *data, size_t len);

/* A rank here. */
struct client {
    uint32_t rank;
    uint32_t state; /* PMIWIRE_CONN_NEW, _INITED, _FINALIZED */
    uint32_t
        n_open; /* connections that have not ended: a program that it starts may use its name */
    bool ended; /* its process */
    uint32_t n_published; /* names.c's: values, and their bytes */
    size_t published_bytes;
};

struct host_job {
    struct host_job *next;
    uint32_t number, n_ranks, n_apps;
    char nspace[HOST_NSPACE_BYTES];
    uint32_t *node_of, *app_procs;
    char *parent; /* NULL: none */
    uint32_t n_clients;
    struct client *clients; /* in the order of their ranks */
    bool registered;        /* libpmix knows it */
};

struct group;
struct name_task;
struct published;
struct upcall;

struct pmix_host {
    struct pmix_host_ops ops;
    void *ctx;
    char *server, *name, *env_key;
    uint32_t node, n_nodes;
    uint64_t now_ns;
    struct host_job *jobs;

    bool runs;    /* libpmix's server */
    char *folder; /* of its files */
    struct queue queue;
    uint64_t last_token;
    struct upcall *waiting; /* requests that are not answered */
    struct upcall *unsent;  /* answers that libpmix has not taken */

    struct group *groups;
    uint32_t n_groups;
    size_t group_bytes;

    struct name_task *name_tasks;
    uint64_t last_name_task;
    struct published *published;
};

/* Little-endian, as numbers stand between nodes. */
static inline void le32_write(char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (char)(v >> 8 * i);
}

static inline uint32_t le32_read(const void *p)
{
    const unsigned char *b = p;

    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* host.c */
struct host_job *host_job_find(const struct pmix_host *h, uint32_t number);
/* NULL: the rank is not here. */
struct client *host_client(const struct host_job *job, uint32_t rank);
/* PMIWIRE_GONE_*, or 0: it is there. */
uint32_t host_client_gone(const struct client *c);
/* Asks for what a client here has put, packed by libpmix. HOST_OK: groups_given() follows, but
 * perhaps not for a client that is gone and has put nothing; else an error. */
int host_modex(struct pmix_host *h, const struct host_job *job, uint32_t rank, uint64_t token);
void host_say(struct pmix_host *h, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
