/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file codec.h
 * @brief PMI messages to fields and back, on both wires, without copying or allocating.
 *
 * PMI-1 is a line of words, `cmd=put kvsname=k key=a value=b`, or for spawn a field a line (mcmd);
 * PMI-2 is a decimal length and fields, `    22cmd=kvs-get;key=alpha;`. The first bytes of a
 * message show the wire. libpmiwire/WIRE.md has the grammar.
 *
 * **Decoding** splits a message into fields that point into your buffer. It accepts any split and
 * any pipelining: call it with the bytes received, from the start of the message. The decoder keeps
 * its place, so that a long message fed byte by byte costs time linear in its length.
 *
 * **Encoding** writes into your buffer and refuses values that the framing cannot carry. Given a
 * profile it also refuses values that would make that peer truncate, misread or crash.
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
 * Set in pmiwire_field::flags when the value holds `;;` for `;` (PMI-2): see pmiwire_unescape().
 */
#define PMIWIRE_FIELD_ESCAPED 1u
/** Set in pmiwire_field::flags when the key ends in a decimal index, as `argv3` does. */
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
 * A decoded message. You own the struct and the array of fields; the views in
 * it live as long as the buffer that was decoded.
 */
struct pmiwire_msg {
    struct pmiwire_field *fields; /**< yours: set it and cap_fields before decoding */
    uint32_t cap_fields;          /**< length of the array */
    uint32_t n_fields;            /**< fields found, `cmd` not among them */
    struct pmiwire_str cmd;       /**< the command's name */
    uint16_t id;        /**< PMIWIRE_V1_* or PMIWIRE_V2_* command (command.h), 0 unknown */
    uint16_t wire;      /**< framing it came in */
    uint32_t pad_right; /**< 1 when a PMI-2 length was padded on the right, Slurm's way */
};

/** Decoder's flags. */
/** PMI-1: a field named `value` runs to the end of its line, spaces and all (Flux's RFC 13). */
#define PMIWIRE_DECODE_VALUE_TO_EOL 1u

/**
 * A decoder: plain data, no resources. Set it up with pmiwire_decoder_init();
 * after an error read the members below `flags`.
 */
struct pmiwire_decoder {
    size_t max_msg_bytes; /**< limit on a whole message, framing included */
    uint32_t flags;       /**< PMIWIRE_DECODE_* */
    uint32_t need_fields; /**< after PMIWIRE_EFIELDS: an array of this length is long enough */
    size_t err_offset;    /**< after an error: where in the buffer */
    /** after an error: length of the bad message if its end is known, so that you may skip it and
     * continue; 0 if the stream cannot be trusted */
    size_t err_bytes;
    size_t need_bytes; /**< after "need more": the buffer must hold at least this many */
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
 * @param d    decoder; keeps its place between calls while a message is incomplete
 * @param buf  received bytes, from the start of a message. While the answer is
 *             "need more", call again with the same bytes and more behind them
 *             (the buffer may have moved)
 * @param len  bytes there
 * @param msg  filled in; `fields` and `cap_fields` are yours. After an error
 *             it holds the parts before the error: in particular `cmd`, `id`
 *             and `wire` when the name was readable, so that a server can
 *             answer by name
 * @return bytes consumed (> 0), 0 when more are needed, or an error:
 *         PMIWIRE_EBADLEN, PMIWIRE_ETOOBIG, PMIWIRE_ENUL, PMIWIRE_ENOCMD,
 *         PMIWIRE_ENOEQ, PMIWIRE_EEMPTY (an empty key), PMIWIRE_EUNTERM,
 *         PMIWIRE_EFIELDS (decode again with d->need_fields). The decoder accepts empty values, and
 *         duplicate and unknown fields: pmiwire_msg_check() finds them
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
 * An encoder: plain data, no resources. Errors stick: encode a whole message
 * and look at pmiwire_enc_end() only. Encoders are MT-Safe as distinct objects; no call on one
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
 * @param buf      where the message goes
 * @param cap      bytes there
 * @param cmd      PMIWIRE_V1_* or PMIWIRE_V2_* command (command.h); its wire is the message's
 * @param profile  the peer that will read it, or NULL for the framing's own rules alone
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

/** @brief Add a number; to a PMIWIRE_TYPE_BOOL field, `TRUE` or `FALSE`. */
PMIWIRE_API void pmiwire_enc_int(struct pmiwire_encoder *e, uint16_t field, int64_t value);

/** @brief Add an indexed field, such as `argv3`. */
PMIWIRE_API void pmiwire_enc_indexed(struct pmiwire_encoder *e, uint16_t field, uint32_t index,
                                     struct pmiwire_str value);

/**
 * @brief Add an extra field, which peers that do not know it skip.
 *
 * The field must keep to the grammar that every measured peer reads without harm: key of 1 to 31
 * letters, digits, `-`, `_` or `.`; value of bytes from 33 to 126 without `;` and `\`; no name to
 * which a peer gives a meaning (PMIWIRE_ERESERVED); at most 16 extra fields in a message
 * (PMIWIRE_EPEERFIELDS); before `value` in a PMI-1 message. Unless the profile has
 * PMIWIRE_PEER_LONG_EXTRA, the value has at most 900 bytes and the whole message 1,000
 * (PMIWIRE_EVALLEN, PMIWIRE_ELINE).
 */
PMIWIRE_API void pmiwire_enc_extra(struct pmiwire_encoder *e, const char *key,
                                   struct pmiwire_str value);

/**
 * @brief End a message.
 * @param e    the encoder
 * @param err  the refusal: code, command, field and a text that names the byte of a key or value
 *             and the peer whose limit it is; may be NULL
 * @return its length in bytes, or the first error met: PMIWIRE_ENOBUF, PMIWIRE_ECHARS,
 *         PMIWIRE_EEMPTY, PMIWIRE_EKEYLEN, PMIWIRE_EVALLEN, PMIWIRE_ELINE, PMIWIRE_EPEERFIELDS,
 *         PMIWIRE_ERESERVED, PMIWIRE_ETOOBIG (over PMI-2's six digits), PMIWIRE_ESTATE (an extra
 *         field behind PMI-1's `value`, or any extra field for a peer that reads it as part of the
 *         value), -EINVAL (no such command or field). On error nothing in `buf` is a message
 */
PMIWIRE_API ssize_t pmiwire_enc_end(struct pmiwire_encoder *e, struct pmiwire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_CODEC_H */
