/* SPDX-License-Identifier: BSD-3-Clause */
/* The peers in this build. */
#include "peer.h"

/* clang-format off */
#define PEERS(X) \
    X(peer_ours) X(peer_ours_2m) X(peer_shmem2_xxh3) X(peer_shmem2_inline) X(peer_shmem2_fnv1a) \
    X(peer_shmem1) X(peer_glib) X(peer_uthash) X(peer_absl) X(peer_unordered) X(peer_ck) \
    X(peer_lmdb) X(peer_cdb) X(peer_raw) X(peer_raw_2m)
/* clang-format on */

#define DECLARE(peer) extern const struct peer_ops peer;
PEERS(DECLARE)

const struct peer_ops *const peers[] = {
#ifdef HAVE_SHMHT
    &peer_ours,         &peer_ours_2m,
#endif
#ifdef HAVE_XXHASH
    &peer_shmem2_xxh3,  &peer_shmem2_inline,
#endif
    &peer_shmem2_fnv1a, &peer_shmem1,
#ifdef HAVE_GLIB
    &peer_glib,
#endif
#ifdef HAVE_UTHASH
    &peer_uthash,
#endif
#ifdef HAVE_ABSL
    &peer_absl,
#endif
#ifdef HAVE_CXX
    &peer_unordered,
#endif
#ifdef HAVE_CK
    &peer_ck,
#endif
#ifdef HAVE_LMDB
    &peer_lmdb,
#endif
#ifdef HAVE_TINYCDB
    &peer_cdb,
#endif
    &peer_raw,          &peer_raw_2m,        NULL,
};

const char peers_missing[] = ""
#ifndef HAVE_XXHASH
                             "    SHMEM-2/XXH3: needs libxxhash-dev\n"
#endif
#ifndef HAVE_GLIB
                             "    GHashTable: needs libglib2.0-dev\n"
#endif
#ifndef HAVE_UTHASH
                             "    uthash: needs uthash-dev\n"
#endif
#ifndef HAVE_ABSL
                             "    absl::flat_hash_map: needs libabsl-dev and g++\n"
#endif
#ifndef HAVE_CXX
                             "    std::unordered_map: needs g++\n"
#endif
#ifndef HAVE_CK
                             "    ck_ht: needs libck-dev\n"
#endif
#ifndef HAVE_LMDB
                             "    LMDB: needs liblmdb-dev\n"
#endif
#ifndef HAVE_TINYCDB
                             "    tinycdb: needs libcdb-dev\n"
#endif
    ;
