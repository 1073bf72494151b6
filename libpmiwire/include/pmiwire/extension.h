/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file extension.h
 * @brief The registry of compatible extra fields: what a server of this project tells clients that
 *        know it.
 *
 * PMI's clients and servers skip fields that they do not know, within a narrow grammar
 * (pmiwire_enc_extra() holds to it). So a server advertises what it offers in answers that it sends
 * anyway; a client that knows a field may use what it offers, and one that does not never notices.
 * Requests that PMI does not know may be sent only to a server that has advertised them: others end
 * the job, or never answer.
 *
 * | field          | in the answers to      | value                                                                    |
 * |----------------|------------------------|--------------------------------------------------------------------------|
 * | `fp-server`    | `init` or `fullinit`   | 1: this is such a server. It carries every value whole (profile "fencepost") |
 * | `fp-table`     | `init` or `fullinit`   | where the job's pairs can be read without asking, in the words of who put them there (libshmht's descriptor). On a Unix socket a read-only descriptor comes with the bytes of the answer (SCM_RIGHTS), for a client that has said `fp-client` |
 * | `fp-table-end` | `barrier_in`, `kvs-fence` | 1: that place is not kept up to date any more, from this fence on: ask |
 * | `fp-array`     | `barrier_in`, `kvs-fence` | this fence was an Allgather: where its values are, as in `fp-table` |
 * | `fp-client`    | requests `init` or `fullinit` | 1: this is such a client: it knows these fields, and reads every value as our codec does |
 * | `fp-exchange`  | `init` or `fullinit`   | 1: what follows is understood in requests                               |
 * | `fp-hint`      | requests `put`, `kvs-put` | who reads this key: `sparse` (few ranks) or `dense` (most)            |
 * | `fp-get`       | requests `get`, `kvs-get` | a key that is not on this node: `remote`, ask the node that knows; `wait`, and wait there until it is put, or nobody is left to put it |
 * | `fp-src`       | request `get`          | the rank that puts the key (PMI-2 has `srcid`)                           |
 * | `fp-ring`      | request `barrier_in`   | no barrier but a Ring: this rank's value for both neighbours (PMI-2 has `ring`) |
 * | `fp-place`, `fp-left`, `fp-right` | `barrier_in` with `fp-ring` | the rank's place in the ring, from 0, and its neighbours' values; together they must fit into such an answer, so that values of up to 440 bytes always do |
 *
 * An Allgather needs no request of its own: it is a put of the key `-allgather-K-R`, K counting
 * them from 0 and R being the rank, then a fence, then a get of every rank's. A server that knows
 * this keeps the values of each in one array instead of a pair each.
 *
 * PMI-2 carries those of `init or fullinit` in `fullinit` and `fullinit-response` alone, PMI-1 in
 * `init` and `response_to_init`.
 *
 * @source SHMEMPMI, section VI-A ("wire protocol compatibility"): additional fields in responses.
 * Hint, waiting Get and Ring: "PMI Extensions for Scalable MPI Startup", section 4. The names are
 * ours.
 */
#ifndef PMIWIRE_EXTENSION_H
#define PMIWIRE_EXTENSION_H

#include <pmiwire/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @name Extensions
 * @{
 */
#define PMIWIRE_EXT_SERVER    1u
#define PMIWIRE_EXT_TABLE     2u
#define PMIWIRE_EXT_TABLE_END 3u
#define PMIWIRE_EXT_CLIENT    4u
#define PMIWIRE_EXT_ARRAY     5u
#define PMIWIRE_EXT_EXCHANGE  6u
#define PMIWIRE_EXT_HINT      7u
#define PMIWIRE_EXT_GET       8u
#define PMIWIRE_EXT_SRC       9u
#define PMIWIRE_EXT_RING      10u
#define PMIWIRE_EXT_PLACE     11u
#define PMIWIRE_EXT_LEFT      12u
#define PMIWIRE_EXT_RIGHT     13u
#define PMIWIRE_EXT_COUNT_    14u
/** @} */

/**
 * Most bytes that all fields advertised in one answer may take together, names included: the answer
 * then stays within the grammar.
 */
#define PMIWIRE_EXT_MAX_BYTES 500u

/** @name Which messages carry an extension
 * @{ */
#define PMIWIRE_EXT_AT_INIT  1u  /**< `response_to_init` (PMI-1), `fullinit-response` */
#define PMIWIRE_EXT_AT_FENCE 2u  /**< `barrier_out`, `kvs-fence-response` */
#define PMIWIRE_EXT_AT_HELLO 4u  /**< the requests `init` (PMI-1), `fullinit` */
#define PMIWIRE_EXT_AT_PUT   8u  /**< the requests `put`, `kvs-put` */
#define PMIWIRE_EXT_AT_GET   16u /**< the requests `get`, `kvs-get` */
#define PMIWIRE_EXT_AT_ENTER 32u /**< the request `barrier_in` */
/** @} */

/** One extension. */
struct pmiwire_ext_desc {
    const char *name; /**< of its field */
    uint16_t id;      /**< PMIWIRE_EXT_* */
    uint16_t at;      /**< PMIWIRE_EXT_AT_* */
};

/** @brief An extension by its id, NULL for others. MT-Safe. */
PMIWIRE_API const struct pmiwire_ext_desc *pmiwire_ext_get(uint16_t ext);

/**
 * @brief Add an extension's field to a message, as pmiwire_enc_extra() does.
 * @param e      a message that carries it; another one is -EINVAL
 * @param ext    PMIWIRE_EXT_*
 * @param value  within the grammar of pmiwire_enc_extra()
 *
 * MT-Safe on distinct objects. Errors stick, as with every field.
 */
PMIWIRE_API void pmiwire_enc_ext(struct pmiwire_encoder *e, uint16_t ext, struct pmiwire_str value);

/**
 * @brief Find an extension's field in a message.
 * @param msg  decoded
 * @param ext  PMIWIRE_EXT_*
 * @param out  its value, in the buffer that was decoded
 * @return 0; PMIWIRE_EMISSING also in a message that may not carry it
 *
 * MT-Safe.
 */
PMIWIRE_API int pmiwire_msg_ext(const struct pmiwire_msg *msg, uint16_t ext,
                                struct pmiwire_str *out);

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_EXTENSION_H */
