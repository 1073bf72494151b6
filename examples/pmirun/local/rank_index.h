/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks by a number unique to each: a pid, a token. Open addressing, linear probing. */
#ifndef PMIRUN_RANK_INDEX_H
#define PMIRUN_RANK_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct rank;

struct rank_index {
    uint32_t (*key)(const struct rank *r);
    struct rank **slots;
    size_t cap, n;
};

int rank_index_reserve(struct rank_index *ix);              /* room for one more: 0, -ENOMEM */
void rank_index_add(struct rank_index *ix, struct rank *r); /* after that; its key is new */
struct rank *rank_index_find(const struct rank_index *ix, uint32_t key); /* NULL: none has it */
void rank_index_remove(struct rank_index *ix, const struct rank *r);     /* or it is not there */

#endif
