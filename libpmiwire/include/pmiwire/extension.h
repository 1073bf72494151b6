/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file extension.h
 * @brief Extra fields of this project. With them a server offers extensions, and a client requests
 *        one. Peers that do not know the fields skip them.
 *
 * PMI's clients and servers skip fields that they do not know, if these have a certain narrow
 * grammar. pmiwire_enc_extra() keeps to this grammar. libpmiwire/WIRE.md describes the grammar, and
 * has a table of the fields and their values.
 *
 *  - A server advertises its extensions in answers that it sends anyway. A client that knows a
 *    field may use the extension. Other clients ignore the field.
 *  - PMI does not define some of the requests. A client may send such a request only to a server
 *    that has advertised the extension. Other servers would end the job, or never answer.
 *  - PMIWIRE_EXT_BYTES needs no code of yours, only two settings: the server advertises it with
 *    pmiwire_server_advertise(), and the client's session has PMIWIRE_CLIENT_EXTENSIONS. Then keys
 *    and values may hold any bytes on both wires.
 *
 * Both sides of a shared table:
 *
 *     pmiwire_client_query(c, &info);                       // client, after init
 *     if (info.ext[PMIWIRE_EXT_TABLE].ptr) …attach to it…
 *     if (pmiwire_msg_ext(ev.msg, PMIWIRE_EXT_TABLE_END, &text) == 0)
 *         …ask from now on…
 *     pmiwire_server_advertise(s, job, PMIWIRE_EXT_TABLE, text);                     // server.h
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
#define PMIWIRE_EXT_SERVER    1u /**< `fp-server`, in the answer to init */
#define PMIWIRE_EXT_TABLE     2u /**< `fp-table`, in the answer to init */
#define PMIWIRE_EXT_TABLE_END 3u /**< `fp-table-end`, in the answer to a fence */
#define PMIWIRE_EXT_CLIENT    4u /**< `fp-client`, in init */
#define PMIWIRE_EXT_ARRAY     5u /**< `fp-array`, in the answer to an Allgather */
#define PMIWIRE_EXT_EXCHANGE  6u /**< `fp-exchange`, in the answer to init: 7 to 14 are supported */
#define PMIWIRE_EXT_HINT      7u /**< `fp-hint`, in a put */
#define PMIWIRE_EXT_GET       8u /**< `fp-get`, in a get */
#define PMIWIRE_EXT_SRC       9u /**< `fp-src`, in a get */
#define PMIWIRE_EXT_RING      10u /**< `fp-ring`, in `barrier_in` */
#define PMIWIRE_EXT_PLACE     11u /**< `fp-place`, in the answer to `fp-ring` */
#define PMIWIRE_EXT_LEFT      12u /**< `fp-left`, likewise */
#define PMIWIRE_EXT_RIGHT     13u /**< `fp-right`, likewise */
#define PMIWIRE_EXT_GATHER    14u /**< `fp-gather`, in `barrier_in`, `kvs-fence`: an Allgather */
#define PMIWIRE_EXT_BYTES     15u /**< `fp-bytes`, in the answer to init, and where it is needed */
#define PMIWIRE_EXT_COUNT_    16u /**< one past the last; grows */
/** @} */

/**
 * Limit on the fields that one answer advertises, in bytes, names included. It keeps the answer
 * within the grammar that other clients can read.
 */
#define PMIWIRE_EXT_MAX_BYTES 500u

/**
 * @brief Find an extension's field in a message.
 * @param msg  decoded
 * @param ext  PMIWIRE_EXT_*
 * @param out  its value, in the buffer that was decoded
 * @return 0; PMIWIRE_EMISSING: the message does not have the field, or its command may not carry it
 *
 * MT-Safe.
 */
PMIWIRE_API int pmiwire_msg_ext(const struct pmiwire_msg *msg, uint16_t ext,
                                struct pmiwire_str *out);

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_EXTENSION_H */
