/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file profile.h
 * @brief What each real peer can carry, as measured, so that no value is truncated silently.
 *
 * Every PMI implementation truncates, mangles or crashes on some values that another one writes.
 * For example:
 *
 *  - Hydra 4.0 stores only 1,023 bytes of a longer value, but answers rc=0.
 *  - MPICH's parser drops backslashes.
 *  - Most PMI-2 parsers stop a value at its first `;`.
 *  - After a PMI-1 line over 1,023 bytes MPICH 4.0 loses the framing.
 *
 * A profile lists such limits of one peer. An encoder with a profile refuses a message that breaks
 * one of these limits, with an error that names the limit.
 */
#ifndef PMIWIRE_PROFILE_H
#define PMIWIRE_PROFILE_H

#include <pmiwire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @name What a peer can do: pmiwire_profile::flags
 * @{
 */
#define PMIWIRE_PEER_V1 1u /**< speaks PMI-1 */
#define PMIWIRE_PEER_V2 2u /**< speaks PMI-2 */
/** values may hold spaces; on PMI-1 only a line's last value, which runs to the end of the line */
#define PMIWIRE_PEER_SPACES           4u
#define PMIWIRE_PEER_EMPTY            8u    /**< values may be empty */
#define PMIWIRE_PEER_BACKSLASH        16u   /**< a backslash arrives as it was sent */
#define PMIWIRE_PEER_SEMICOLON_V2     32u   /**< PMI-2: reads `;;` as `;` */
#define PMIWIRE_PEER_SEMICOLON_V1     64u   /**< PMI-1: `;` is an ordinary byte */
#define PMIWIRE_PEER_EXTENDED_MAPPING 128u  /**< reads MPICH 4.1's mapping grammar */
#define PMIWIRE_PEER_VALUE_LAST       256u  /**< PMI-1: the value runs to the end of the line */
#define PMIWIRE_PEER_V1_2             512u  /**< understands PMI 1.2 (barriers of groups) */
#define PMIWIRE_PEER_SPACES_V2        2048u /**< PMI-2 values may hold spaces */
#define PMIWIRE_PEER_8BIT             1024u /**< bytes 128 to 255 arrive as they were sent */
/** a message with extra fields (pmiwire_enc_extra()) may be as long as any other */
#define PMIWIRE_PEER_LONG_EXTRA 4096u
/** PMI-2: control bytes except NUL, and 127 to 255, arrive as they were sent */
#define PMIWIRE_PEER_RAW_V2 8192u
/** @} */

/** A peer. Lengths are in bytes, without NUL. 0 means: the peer has no limit of its own. */
struct pmiwire_profile {
    const char *name;           /**< as pmiwire_profile_find() takes it */
    const char *peer;           /**< the measured program */
    uint32_t flags;             /**< PMIWIRE_PEER_* */
    uint32_t max_key_bytes;     /**< longest key of the key-value space */
    uint32_t max_value_bytes;   /**< longest value of the key-value space */
    uint32_t max_kvsname_bytes; /**< longest name of a key-value space */
    uint32_t max_line_bytes;    /**< longest PMI-1 line, newline included */
    uint32_t max_msg_bytes;     /**< longest PMI-2 message, length included */
    uint32_t max_fields;        /**< most fields of a message, `cmd` included */
    uint32_t max_mapping_bytes; /**< longest PMI_process_mapping */
};

/**
 * @brief Find a profile by name.
 *
 *  - "portable": what all peers can carry; "any-server": what all servers can carry
 *  - clients: "mpich-4.0", "mpich-main", "slurm-libpmi2", "flux"
 *  - servers: "hydra-4.0", "hydra-main", "slurmstepd", "fencepost" (this project's)
 * @return the profile; NULL: no such name. MT-Safe.
 */
PMIWIRE_API const struct pmiwire_profile *pmiwire_profile_find(const char *name);

/** @brief The i-th profile, NULL past the end. MT-Safe. */
PMIWIRE_API const struct pmiwire_profile *pmiwire_profile_at(uint32_t i);

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_PROFILE_H */
