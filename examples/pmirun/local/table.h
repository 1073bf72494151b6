/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's pairs in shared memory. */
#ifndef PMIRUN_TABLE_H
#define PMIRUN_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include <pmiwire/server.h>
#include <shmht.h>

struct job;

/* --pmi-port, where no descriptor can be handed over: a new name in our folder, which its removal
 * takes along (folder.h). 0 or -errno. */
int table_new_name(const struct job *job, char name[SHMHT_MAX_NAME_BYTES]);
/* Tells clients by a field where shared memory is; `name` gets its name, if it has one. 0 or an
 * error. */
int shared_advertise(const struct job *job, uint16_t field, const struct shmht_desc *desc,
                     char name[SHMHT_MAX_NAME_BYTES]);
const char *table_why(int rc);      /* an error of libshmht's or the system's */
void table_create(struct job *job); /* without shared memory job->table stays NULL */
void table_destroy(struct job *job);
int table_fd(const struct job *job); /* what readers get, -1: none */
int table_put(struct job *job, struct pmiwire_str key, struct pmiwire_str value);
void table_publish(struct job *job); /* makes the pairs put so far visible to readers */
/* The server's callbacks, see pmiwire/server.h. Values of a block end with a NUL. */
int table_on_put(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
                 struct pmiwire_str value);
int table_on_find(void *ctx, const struct pmiwire_peer *peer, struct pmiwire_str key,
                  struct pmiwire_str *value);
int table_on_merge(void *ctx, const struct pmiwire_peer *peer, const void *block, size_t bytes);
void table_on_fenced(void *ctx, const struct pmiwire_peer *peer);

#endif
