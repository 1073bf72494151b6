/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file codec.h
 * @brief PMI messages to fields and back, on both wires, without copying or allocating.
 *
 * A PMI-1 message is a line of words, `cmd=put kvsname=k key=a value=b`. PMI-1's spawn has one
 * field on each line (`mcmd`). A PMI-2 message is a decimal length of six characters, then fields:
 * four spaces and `22cmd=kvs-get;key=alpha;`. The first bytes of a message show the wire.
 * libpmiwire/WIRE.md has the grammar.
 *
 * **Decoding** splits a message into fields that point into your buffer. Call pmiwire_decode() with
 * the bytes received so far, from the start of the message. They may end anywhere, and may contain
 * further messages. The decoder keeps its place, so the time for a message is linear in its length,
 * even if it arrives byte by byte.
 *
 * **Encoding** writes into your buffer and refuses values that the framing cannot carry. With the
 * profile of a peer it also refuses values that this peer would truncate or misread, or that would
 * make it crash.
 *
 *     pmiwire_decoder_init(&d, 0, 0);
 *     msg.fields = fields, msg.cap_fields = PMIWIRE_USUAL_FIELDS;
 *     n = pmiwire_decode(&d, buf, len, &msg);          // bytes consumed; 0: read more
 *     if (n > 0 && pmiwire_msg_check(&msg, 0, &err) == 0 && msg.id == PMIWIRE_V1_PUT)
 *         pmiwire_msg_str(&msg, PMIWIRE_F_KEY, &key);  // command.h
 *
 *     pmiwire_enc_begin(&e, buf, sizeof buf, PMIWIRE_V1_PUT_RESULT, profile);
 *     pmiwire_enc_int(&e, PMIWIRE_F_RC, 0);
 *     n = pmiwire_enc_end(&e, &err);                   // length, or the first error
 */
#ifndef PMIWIRE_CODEC_H
#define PMIWIRE_CODEC_H

#include <sys/types.h>

#include <pmiwire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes of the length that opens a PMI-2 message. */
#define PMIWIRE_V2_HEADER_BYTES 6u
/** Longest PMI-2 message: six digits of length and that many bytes. */
#define PMIWIRE_V2_MAX_BYTES (6u + 999999u)
/** Default limit on one message, bytes: Slurm's and Hydra's own 64 KiB. */
#define PMIWIRE_DEFAULT_MAX_MSG_BYTES 65536u
/** Fields that suffice for every command except spawn. */
#define PMIWIRE_USUAL_FIELDS 32u

/**
 * Set in pmiwire_field::flags if the value has `;;` where a `;` is meant (PMI-2): see
 * pmiwire_unescape().
 */
#define PMIWIRE_FIELD_ESCAPED 1u
/** Set in pmiwire_field::flags if the key ends in a decimal index, as `argv3` does. */
#define PMIWIRE_FIELD_INDEXED 2u

/** One field of a message; key and value point into the decoded buffer. */
struct pmiwire_field {
    struct pmiwire_str key;
    struct pmiwire_str value; /**< raw bytes as on the wire */
    uint16_t id;    /**< PMIWIRE_F_* (command.h), 0 when this library does not know the key */
    uint16_t flags; /**< PMIWIRE_FIELD_* */
    uint32_t index; /**< the number that ends an indexed key, else 0 */
};

/**
 * A decoded message. You own the struct and the array of fields. The views in it live as long as
 * the buffer that was decoded.
 */
struct pmiwire_msg {
    struct pmiwire_field *fields; /**< yours: set it and cap_fields before decoding */
    uint32_t cap_fields;          /**< length of the array */
    uint32_t n_fields;            /**< fields found, `cmd` not among them */
    struct pmiwire_str cmd;       /**< the command's name */
    uint16_t id;        /**< PMIWIRE_V1_* or PMIWIRE_V2_* command (command.h), 0 unknown */
    uint16_t wire;      /**< its framing: PMIWIRE_V1, PMIWIRE_V1_MCMD or PMIWIRE_V2 */
    uint32_t pad_right; /**< 1 when a PMI-2 length was padded on the right, Slurm's way */
};

/** Decoder's flags. */
/** PMI-1: a field named `value` runs to the end of its line, spaces included (Flux's RFC 13). */
#define PMIWIRE_DECODE_VALUE_TO_EOL 1u

/**
 * A decoder: plain data, no resources. Set it up with pmiwire_decoder_init(). The members below
 * `flags` say more about an error or an incomplete message.
 */
struct pmiwire_decoder {
    size_t max_msg_bytes; /**< limit on a whole message, framing included */
    uint32_t flags;       /**< PMIWIRE_DECODE_* */
    uint32_t need_fields; /**< after PMIWIRE_EFIELDS: an array of this length is long enough */
    size_t err_offset;    /**< after an error: its offset in the buffer */
    /** after an error: the length of the bad message if the buffer has all of it: you may skip this
     * many bytes and continue. 0: the end of the message is unknown, so nothing behind the message
     * can be decoded */
    size_t err_bytes;
    size_t need_bytes; /**< after pmiwire_decode() returned 0: pass it at least this many bytes */
    /** @private */
    size_t scanned;
    /** @private */
    size_t line;
};

/**
 * @brief Prepare a decoder.
 * @param d              caller's memory
 * @param max_msg_bytes  longest message accepted, bytes; 0 means PMIWIRE_DEFAULT_MAX_MSG_BYTES
 * @param flags          PMIWIRE_DECODE_* or 0
 *
 * MT-Safe on distinct objects. Allocates nothing.
 */
PMIWIRE_API void pmiwire_decoder_init(struct pmiwire_decoder *d, size_t max_msg_bytes,
                                      uint32_t flags);

/**
 * @brief Decode the message that starts at `buf`.
 *
 *  - If the message is incomplete, the call returns 0. Call again with the same bytes and more
 *    behind them; the buffer may have moved.
 *  - After an error `msg` has the parts of the message before the error. If the command's name was
 *    readable, these include `cmd`, `id` and `wire`, so that a server can send the right answer.
 *  - The decoder accepts empty values, duplicate fields and unknown fields. pmiwire_msg_check()
 *    finds these.
 *
 * @param d    the decoder. It keeps its place in an incomplete message between calls
 * @param buf  received bytes, from the start of a message
 * @param len  bytes of buf
 * @param msg  filled in; set `fields` and `cap_fields` before the call
 * @return bytes consumed (> 0); 0: more bytes are needed; or PMIWIRE_EBADLEN, PMIWIRE_ETOOBIG,
 *         PMIWIRE_ENUL, PMIWIRE_ENOCMD, PMIWIRE_ENOEQ, PMIWIRE_EEMPTY (an empty key),
 *         PMIWIRE_EUNTERM, PMIWIRE_EFIELDS (decode again with d->need_fields fields)
 *
 * MT-Safe on distinct objects. Allocates nothing, makes no system call. Cost: two passes over the
 * message, 10 to 100 ns for usual ones.
 */
PMIWIRE_API ssize_t pmiwire_decode(struct pmiwire_decoder *d, const char *buf, size_t len,
                                   struct pmiwire_msg *msg);

/**
 * @brief Copy a value with `;;` turned into `;`.
 * @param value  a field's value
 * @param out    at least value.len bytes; may be value.ptr itself
 * @return bytes written, without a NUL
 *
 * MT-Safe. Only needed for fields with PMIWIRE_FIELD_ESCAPED.
 */
PMIWIRE_API size_t pmiwire_unescape(struct pmiwire_str value, char *out);

struct pmiwire_profile;

/**
 * An encoder: plain data, no resources. It keeps the first error. So encode a whole message, and
 * check only the result of pmiwire_enc_end(). MT-Safe on distinct encoders. No call on an encoder
 * allocates.
 */
struct pmiwire_encoder {
    /** may be set to 1 after pmiwire_enc_begin(): pad PMI-2's length on the right, as Slurm does */
    uint8_t pad_right;
    /** @private */
    uint8_t value_written;
    /** @private */
    uint16_t wire;
    /** @private */
    uint16_t cmd;
    /** @private */
    uint16_t err_field;
    /** @private */
    int err;
    /** @private */
    uint32_t n_fields;
    /** @private */
    uint32_t err_at;
    /** @private */
    uint8_t err_byte;
    /** @private */
    uint8_t n_extra;
    /** @private */
    uint8_t can_bytes;
    /** @private */
    uint8_t bytes;
    /** @private */
    char *buf;
    /** @private */
    size_t cap;
    /** @private */
    size_t len;
    /** @private */
    const struct pmiwire_profile *profile;
};

/**
 * @brief Begin a message.
 * @param e        caller's memory; need not be initialised
 * @param buf      memory for the message
 * @param cap      bytes of buf
 * @param cmd      PMIWIRE_V1_* or PMIWIRE_V2_* command (command.h). It determines the wire
 * @param profile  the peer that will read the message; NULL: check the framing's own rules only
 *
 * MT-Safe on distinct objects. Allocates nothing.
 */
PMIWIRE_API void pmiwire_enc_begin(struct pmiwire_encoder *e, char *buf, size_t cap, uint16_t cmd,
                                   const struct pmiwire_profile *profile);

/**
 * @brief Add a field by its id.
 * @param field  PMIWIRE_F_* (command.h)
 * @param value  its bytes, checked against the framing and the profile
 */
PMIWIRE_API void pmiwire_enc_str(struct pmiwire_encoder *e, uint16_t field,
                                 struct pmiwire_str value);

/** @brief Add a number. A PMIWIRE_TYPE_BOOL field gets `FALSE` for 0, otherwise `TRUE`. */
PMIWIRE_API void pmiwire_enc_int(struct pmiwire_encoder *e, uint16_t field, int64_t value);

/** @brief Add an indexed field, such as `argv3`. */
PMIWIRE_API void pmiwire_enc_indexed(struct pmiwire_encoder *e, uint16_t field, uint32_t index,
                                     struct pmiwire_str value);

/**
 * @brief Add an extra field, one that peers skip if they do not know it.
 *
 * The message must stay readable for every peer that was measured. A field that breaks one of these
 * rules makes pmiwire_enc_end() fail:
 *  - key: 1 to 31 letters, digits, `-`, `_` or `.`; not a name to which some peer gives a meaning
 *    (PMIWIRE_ERESERVED)
 *  - value: not empty (PMIWIRE_EEMPTY); bytes from 33 to 126 without `;` and `\` (PMIWIRE_ECHARS);
 *    at most 900 bytes (PMIWIRE_EVALLEN)
 *  - at most 16 extra fields in a message (PMIWIRE_EPEERFIELDS)
 *  - in PMI-1 before the field `value` (PMIWIRE_ESTATE)
 *  - a message with extra fields has at most 1,000 bytes (PMIWIRE_ELINE)
 *
 * With a profile that has PMIWIRE_PEER_LONG_EXTRA the limits of 900 and 1,000 bytes do not apply.
 */
PMIWIRE_API void pmiwire_enc_extra(struct pmiwire_encoder *e, const char *key,
                                   struct pmiwire_str value);

/**
 * @brief End a message.
 * @param e    the encoder
 * @param err  filled in on failure: code, command, field and a text. If a key or value is refused,
 *             the text says why (such as the byte, or the length and the limit), and which peer
 *             cannot read it. May be NULL
 * @return length of the message in bytes, or the first error: PMIWIRE_ENOBUF, PMIWIRE_ECHARS,
 *         PMIWIRE_EEMPTY, PMIWIRE_EKEYLEN, PMIWIRE_EVALLEN, PMIWIRE_ELINE, PMIWIRE_EPEERFIELDS,
 *         PMIWIRE_ERESERVED, PMIWIRE_ETOOBIG (the length has more than PMI-2's six digits),
 *         PMIWIRE_ESTATE (in PMI-1 an extra field behind `value`, or any field behind `value` for a
 *         peer with PMIWIRE_PEER_VALUE_LAST), -EINVAL (no such command or field). After an error do
 *         not send what is in `buf`
 */
PMIWIRE_API ssize_t pmiwire_enc_end(struct pmiwire_encoder *e, struct pmiwire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_CODEC_H */
