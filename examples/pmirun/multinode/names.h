/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks publish, on several nodes. */
#ifndef PMIRUN_NAMES_H
#define PMIRUN_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include <pmiwire/server.h>

struct job;
struct msg_in;
struct pmirun;

struct names {
    struct name *list;
    uint32_t n;
    struct lookup *lookups; /* the head: that wait for signs */
    uint32_t n_lookups;     /* ever */
};

void names_free(struct names *names);
void names_job_ended(struct pmirun *pr, const struct job *job);
/* An agent: for its server. */
int names_on_publish(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str service,
                     struct pmiwire_str port);
int names_on_unpublish(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str service);
int names_on_lookup(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str service,
                    uint64_t token, struct pmiwire_str *port);
/* What agents tell their head; false when it makes no sense. */
bool names_published(struct pmirun *pr, struct msg_in *in, bool taken_back);
bool names_asked(struct pmirun *pr, uint32_t node, struct msg_in *in);
bool names_sign(struct pmirun *pr, struct msg_in *in);

#endif
