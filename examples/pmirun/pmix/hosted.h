/* SPDX-License-Identifier: BSD-3-Clause */
/* What the host keeps: jobs that libpmix knows, requests that wait. */
#ifndef PMIRUN_HOSTED_H
#define PMIRUN_HOSTED_H

#include <stdbool.h>
#include <stdint.h>

#include "upcalls.h"

/* A namespace that libpmix knows. */
struct hosted {
    struct hosted *next;
    pmix_nspace_t nspace;
    uint32_t n_ranks;
    struct job *job;  /* NULL: no rank of it is here */
    uint32_t *n_open; /* for each of job->ranks: connections of it that have not ended. A program
                         that it starts may use its name too */
};

/* host.c */
struct hosted *hosted_find(const char *nspace);
uint64_t hosted_n_ranks(void); /* of all namespaces */
/* The rank of this name, if it is here; else NULL. */
struct rank *hosted_rank(const char *nspace, uint32_t number, struct hosted **h);
/* It has finalized, or ended. */
bool hosted_is_gone(const struct rank *r);
/* One is gone, or is back. */
void hosted_recount(struct hosted *h);
/* libpmix has answered host_modex(). */
void hosted_given(struct upcall *u);

/* requests.c */
void requests_take(struct pmirun *pr, struct queued *q);
void requests_free(void);

#endif
