/* SPDX-License-Identifier: BSD-3-Clause */
/* What each peer can carry. Every figure was measured with the named peer, or read in its source
 * where noted. */
#include <stdio.h>

#include "base_internal.h"

#define V1 PMIWIRE_PEER_V1
#define V2 PMIWIRE_PEER_V2

static const struct pmiwire_profile profiles[] = {
    {
        .name = "portable",
        .peer = "what every peer below carries",
        .flags = V1 | V2,
        .max_key_bytes = 63,
        .max_value_bytes = 674,
        .max_kvsname_bytes = 63,
        .max_line_bytes = 1000,
        .max_msg_bytes = 1000,
        .max_fields = 17,
        .max_mapping_bytes = 538,
    },
    {
        /* The least of the servers below: slurmstepd's lines, Hydra main's backslashes and words.
         * */
        .name = "any-server",
        .peer = "what every server below carries",
        .flags = V1 | V2 | PMIWIRE_PEER_SEMICOLON_V1,
        .max_key_bytes = 63,
        .max_value_bytes = 1023,
        .max_kvsname_bytes = 255,
        .max_line_bytes = 1024,
        .max_msg_bytes = 65535,
        .max_fields = 1000,
        .max_mapping_bytes = 1023,
    },
    {
        /* Line: MPICH reads 1,024 bytes, and takes the rest for the next line. Fields: a static
         * table of 64, unchecked. */
        .name = "mpich-4.0",
        .peer = "MPICH 4.0.2's client (Debian 12)",
        .flags = V1 | PMIWIRE_PEER_BACKSLASH | PMIWIRE_PEER_SEMICOLON_V1,
        .max_key_bytes = 63,
        .max_value_bytes = 1023,
        .max_kvsname_bytes = 255,
        .max_line_bytes = 1023,
        .max_fields = 64,
        .max_mapping_bytes = 538,
    },
    {
        /* Its parser drops backslashes on both wires and asserts over 1,000 words. PMI-2 fields end
         * at `;` alone, and may not be empty. */
        .name = "mpich-main",
        .peer = "MPICH 5.1.0a1's client",
        .flags = V1 | V2 | PMIWIRE_PEER_SEMICOLON_V1 | PMIWIRE_PEER_EXTENDED_MAPPING |
                 PMIWIRE_PEER_V1_2 | PMIWIRE_PEER_SPACES_V2 | PMIWIRE_PEER_RAW_V2,
        .max_key_bytes = 63,
        .max_value_bytes = 1023,
        .max_kvsname_bytes = 255,
        .max_line_bytes = 5000,
        .max_msg_bytes = 5000,
        .max_fields = 1000,
    },
    {
        .name = "slurm-libpmi2",
        .peer = "Slurm 22.05.8's libpmi2",
        .flags = V2 | PMIWIRE_PEER_BACKSLASH | PMIWIRE_PEER_SEMICOLON_V2 | PMIWIRE_PEER_SPACES |
                 PMIWIRE_PEER_EMPTY | PMIWIRE_PEER_RAW_V2,
        .max_key_bytes = 64,
        .max_value_bytes = 1024,
        .max_kvsname_bytes = 255,
        .max_msg_bytes = 65536,
        .max_fields = 200,
    },
    {
        /* 64/1024/64 with NUL; a line is at most the sum and 64 bytes more. */
        .name = "flux",
        .peer = "flux-core's simple client",
        .flags = V1 | PMIWIRE_PEER_SPACES | PMIWIRE_PEER_EMPTY | PMIWIRE_PEER_BACKSLASH |
                 PMIWIRE_PEER_SEMICOLON_V1 | PMIWIRE_PEER_VALUE_LAST,
        .max_key_bytes = 63,
        .max_value_bytes = 1023,
        .max_kvsname_bytes = 63,
        .max_line_bytes = 1215,
    },
    {
        /* One 64 KiB buffer for all clients; longer values are cut to 1,023 bytes with rc=0. */
        .name = "hydra-4.0",
        .peer = "mpiexec.hydra 4.0.2 (Debian 12)",
        .flags =
            V1 | V2 | PMIWIRE_PEER_BACKSLASH | PMIWIRE_PEER_SEMICOLON_V1 | PMIWIRE_PEER_SPACES_V2,
        .max_key_bytes = 63,
        .max_value_bytes = 1023,
        .max_kvsname_bytes = 255,
        .max_line_bytes = 65535,
        .max_msg_bytes = 65535,
        .max_mapping_bytes = 1023,
    },
    {
        /* One empty put ends the job; drops backslashes; asserts over 1,000 words. */
        .name = "hydra-main",
        .peer = "mpiexec.hydra 5.1.0a1",
        .flags =
            V1 | V2 | PMIWIRE_PEER_SEMICOLON_V1 | PMIWIRE_PEER_V1_2 | PMIWIRE_PEER_EXTENDED_MAPPING,
        .max_key_bytes = 63,
        .max_value_bytes = 1023,
        .max_kvsname_bytes = 255,
        .max_line_bytes = 65535,
        .max_msg_bytes = 65535,
        .max_fields = 1000,
    },
    {
        /* PMI-1: slurmstepd takes one read() of at most 1,024 bytes for one command. PMI-2: it ends
         * a value at the first ';', although its own client doubles them. */
        .name = "slurmstepd",
        .peer = "Slurm 22.05.8's mpi/pmi2 plugin",
        .flags =
            V1 | V2 | PMIWIRE_PEER_BACKSLASH | PMIWIRE_PEER_SEMICOLON_V1 | PMIWIRE_PEER_SPACES_V2,
        .max_key_bytes = 63,
        .max_value_bytes = 1023,
        .max_kvsname_bytes = 255,
        .max_line_bytes = 1024,
        .max_msg_bytes = 65536,
    },
    {
        /* Answers with rc != 0 to anything longer than it advertises. */
        .name = "fencepost",
        .peer = "this library's server engine",
        .flags = V1 | V2 | PMIWIRE_PEER_BACKSLASH | PMIWIRE_PEER_SEMICOLON_V1 |
                 PMIWIRE_PEER_SEMICOLON_V2 | PMIWIRE_PEER_SPACES_V2 | PMIWIRE_PEER_8BIT |
                 PMIWIRE_PEER_EXTENDED_MAPPING | PMIWIRE_PEER_V1_2 | PMIWIRE_PEER_LONG_EXTRA,
        .max_key_bytes = 64,
        .max_value_bytes = 1024,
        .max_kvsname_bytes = 255,
        .max_line_bytes = 65536,
        .max_msg_bytes = 65536,
    },
};

#define N_PROFILES (sizeof(profiles) / sizeof(profiles[0]))

const struct pmiwire_profile *pmiwire_profile_at(uint32_t i)
{
    return i < N_PROFILES ? &profiles[i] : NULL;
}

const struct pmiwire_profile *pmiwire_profile_find(const char *name)
{
    for (size_t i = 0; name && i < N_PROFILES; i++)
        if (strcmp(profiles[i].name, name) == 0)
            return &profiles[i];
    return NULL;
}

/* Bytes that end a value in this framing, for every reader. */
static int framing_allows(uint16_t wire, unsigned char c)
{
    if (c == '\0')
        return 0;
    if (wire == PMIWIRE_V2)
        return 1;
    return c != '\n' && (c != ' ' || wire == PMIWIRE_V1_MCMD);
}

static int peer_allows(uint32_t flags, uint16_t wire, unsigned char c)
{
    if (c == ' ')
        return wire == PMIWIRE_V1_MCMD || (flags & PMIWIRE_PEER_SPACES) ||
               (wire == PMIWIRE_V2 && (flags & PMIWIRE_PEER_SPACES_V2));
    if (c == ';')
        return wire == PMIWIRE_V1_MCMD ||
               (wire == PMIWIRE_V2 ? flags & PMIWIRE_PEER_SEMICOLON_V2
                                   : flags & PMIWIRE_PEER_SEMICOLON_V1) != 0;
    if (c == '\\')
        return (flags & PMIWIRE_PEER_BACKSLASH) != 0;
    if (wire == PMIWIRE_V2 && (flags & PMIWIRE_PEER_RAW_V2))
        return c != 0;
    if (c >= 127)
        return (flags & PMIWIRE_PEER_8BIT) != 0 && c != 127;
    return c > 32;
}

/* All but control bytes, space, `;`, backslash, 127 and what is above it. */
const uint8_t pmiwire__plain_bytes[256] = {
    [32] = 0,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* ! to / */
    [48] = 1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, /* 0 to ? */
    [64] = 1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* @ to O */
    [80] = 1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, /* P to _ */
    [96] = 1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* ` to o */
    [112] = 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, /* p to ~ */
};

int pmiwire__is_plain(struct pmiwire_str s)
{
    const size_t blocks = s.len & ~(size_t)15;
    unsigned char odd = 0;

    for (size_t i = blocks; i < s.len; i++)
        if (!pmiwire__plain_bytes[(unsigned char)s.ptr[i]])
            return 0;
    /* The same by comparisons and without a branch: compilers use vector instructions for it. */
    for (size_t i = 0; i < blocks; i++) {
        const unsigned char c = (unsigned char)s.ptr[i];

        odd |= c < 33 || c > 126 || c == ';' || c == '\\';
    }
    return !odd;
}

/* Bytes that end a key, for every reader. */
static int ends_key(unsigned char c)
{
    return c == '=' || c == ';' || c == '\n' || c == ' ';
}

/* Returns whether the framing itself, and not a peer, cannot carry this byte. */
static int framing_refuses(const struct pmiwire_profile *profile, uint16_t wire, int is_key,
                           unsigned char c)
{
    return (is_key && ends_key(c)) || (!framing_allows(wire, c) && !(profile && c == ' '));
}

size_t pmiwire__bad_byte(const struct pmiwire_profile *profile, uint16_t wire, int is_key,
                         struct pmiwire_str s)
{
    size_t i = 0;

    for (; i < s.len; i++) {
        const unsigned char c = (unsigned char)s.ptr[i];

        if (pmiwire__plain_bytes[c] && !(is_key && c == '='))
            continue;
        if (framing_refuses(profile, wire, is_key, c) ||
            (profile && !peer_allows(profile->flags, wire, c)))
            break;
    }
    return i;
}

static int check_bytes(const struct pmiwire_profile *profile, uint16_t wire, int is_key,
                       struct pmiwire_str s)
{
    return pmiwire__bad_byte(profile, wire, is_key, s) < s.len ? PMIWIRE_ECHARS : 0;
}

int pmiwire__check_value(const struct pmiwire_profile *profile, uint16_t wire,
                         struct pmiwire_str value)
{
    if (profile && value.len == 0 && !(profile->flags & PMIWIRE_PEER_EMPTY))
        return PMIWIRE_EEMPTY;
    if (profile && profile->max_value_bytes && value.len > profile->max_value_bytes)
        return PMIWIRE_EVALLEN;
    return pmiwire__is_plain(value) ? 0 : check_bytes(profile, wire, 0, value);
}

int pmiwire__check_key(const struct pmiwire_profile *profile, uint16_t wire, struct pmiwire_str key)
{
    if (key.len == 0)
        return PMIWIRE_EEMPTY;
    if (profile && profile->max_key_bytes && key.len > profile->max_key_bytes)
        return PMIWIRE_EKEYLEN;
    if (pmiwire__is_plain(key))
        return memchr(key.ptr, '=', key.len) ? PMIWIRE_ECHARS : 0;
    return check_bytes(profile, wire, 1, key);
}

void pmiwire__refusal_text(char *text, size_t cap, int code, const struct pmiwire_profile *profile,
                           uint16_t wire, const char *what, size_t at, unsigned char byte)
{
    const int is_key = strcmp(what, "key") == 0;
    const int framing = !profile ||
                        (code == PMIWIRE_ECHARS && framing_refuses(profile, wire, is_key, byte)) ||
                        (code == PMIWIRE_ECHARS && wire == PMIWIRE_V1 && byte == ' ');
    char whose[64];

    if (framing)
        snprintf(whose, sizeof(whose), "PMI-%d without fp-bytes", wire == PMIWIRE_V2 ? 2 : 1);
    else
        snprintf(whose, sizeof(whose), "the profile \"%s\"", profile->name);
    if (code == PMIWIRE_ECHARS)
        snprintf(text, cap, "%s holds byte 0x%02x at %zu, which %s cannot carry", what, byte, at,
                 whose);
    else if (code == PMIWIRE_EEMPTY && is_key)
        snprintf(text, cap, "key is empty");
    else if (code == PMIWIRE_EEMPTY)
        snprintf(text, cap, "%s is empty, which %s cannot carry", what, whose);
    else
        snprintf(text, cap, "%s has %zu bytes, %s carries %u", what, at, whose,
                 profile ? (unsigned)(is_key ? profile->max_key_bytes : profile->max_value_bytes)
                         : 0);
}
