/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Published values: PMIx's ranges, lifetimes and waiting lookups over the launcher's name service,
 * which has names and values alone. A name is made of user id, range and key; a value says who has
 * published it. The host of the publisher knows what it has published, and ends its lifetime.
 *
 * A lookup asks for a key in the four ranges that the asking rank is in, the narrowest wins. One
 * that waits asks again when a name has been published. A value that ends with the first read
 * belongs to the reader that has unpublished it. Such values count for their publisher's limits
 * until its host asks for them, which it does at the limit.
 */
#ifndef NAMES_H
#define NAMES_H

#include "host_internal.h"

#define NAMES_KEY_BYTES    511u /* as PMIX_MAX_KEYLEN */
#define NAMES_KEYS         256u /* of one request */
#define NAMES_PROC_VALUES  1024u
#define NAMES_PROC_BYTES   (4u << 20) /* of keys and values */
#define NAMES_PROC_LOOKUPS 16u        /* of a process that are not answered */

/* Who may look up, with libpmix's numbers. The others (RM, CUSTOM) are HOST_ENOTSUP. */
enum names_range {
    NAMES_UNDEF = 0, /* as SESSION */
    NAMES_LOCAL = 2, /* ranks on the publisher's node */
    NAMES_NSPACE = 3,
    NAMES_SESSION = 4, /* all jobs of the launcher */
    NAMES_GLOBAL = 5,  /* the same */
    NAMES_PROC = 7     /* the publisher alone */
};

/* How long a value stays, with libpmix's numbers. */
enum names_persist {
    NAMES_INDEF = 0,      /* until it is unpublished */
    NAMES_FIRST_READ = 1, /* until a lookup has found it */
    NAMES_UNTIL_PROC = 2, /* until the publisher is gone */
    NAMES_UNTIL_JOB = 3,  /* until its job is over */
    NAMES_UNTIL_END = 4   /* as INDEF */
};

struct names_value {
    const char *key;
    const void *p; /* opaque */
    size_t len;
};

/* A request. It stays valid until it is answered. */
struct names_req {
    uint32_t what; /* PMIWIRE_NAME_* */
    uint32_t uid;
    uint8_t range; /* lookup: publishers within this range of the asker, besides what they allow */
    uint8_t persist;
    /* lookup and unpublish: keys alone; unpublish without any: all that the rank has published */
    const struct names_value *values;
    uint32_t n_values;
    uint32_t wait;      /* lookup: until this number of keys is there; 0: does not wait */
    uint32_t timeout_s; /* 0: none */
};

/*
 * done of a publish: HOST_EEXIST when a key is published in that range already; then none of the
 * values is. HOST_ELIMIT beyond a limit. done of a lookup: HOST_OK when anything was found, and
 * data for names_next(); else HOST_ENOENT, HOST_ETIME, or HOST_EGONE: the rank that asked is gone.
 */
void names_request(struct pmix_host *h, const struct host_job *job, uint32_t rank,
                   const struct names_req *req, host_done_fn done, void *ctx);

struct names_item {
    uint32_t key;       /* its number in the request */
    const char *nspace; /* the publisher */
    uint32_t rank;
    const void *p;
    size_t len;
};

/* The next value that a lookup found; false: no more. */
bool names_next(const char **data, size_t *left, struct names_item *item);

/* The name service's answer. False: the token is not of a name. */
bool names_answer(struct pmix_host *h, uint64_t token, int rc, struct pmiwire_str value);
void names_retry(struct pmix_host *h); /* something has been published */
void names_rank_gone(struct pmix_host *h, uint32_t job, uint32_t rank);
void names_job_end(struct pmix_host *h, uint32_t job);
void names_tick(struct pmix_host *h); /* ends lookups whose time is over */
void names_free(struct pmix_host *h); /* nothing is answered */

#endif
