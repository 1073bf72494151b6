/* SPDX-License-Identifier: BSD-3-Clause */
/* Carries out clients' requests, in the loop's thread. Each gets exactly one answer. */
#ifndef REQUESTS_H
#define REQUESTS_H

#include "host_internal.h"
#include "upcalls.h"

/* Takes a request from the queue. */
void requests_take(struct pmix_host *h, struct upcall *u);
/* The launcher has carried out a spawn. */
void requests_spawned(struct pmix_host *h, uint64_t token, int rc, struct pmiwire_str nspace);
/* Sends the answers that libpmix has not taken. */
void requests_send_again(struct pmix_host *h);
void requests_free(struct pmix_host *h); /* nothing is answered */

/* host.c: a rank is gone, or back. */
void host_recount(const struct host_job *job);

#endif
