/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strerrordesc_np() */
#endif
#include <errno.h>
#include <stdio.h>

#include "base_internal.h"

const char *pmiwire_version(void)
{
    return PMIWIRE_VERSION;
}

/* Returns libc's text without a lock or a static buffer, NULL for an unknown number: glibc 2.32 has
 * a function for it; elsewhere strerror() writes to a static buffer only for unknown numbers. */
static const char *errno_text(int number)
{
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 32)
    return strerrordesc_np(number);
#endif
#endif
    return number <= EHWPOISON ? strerror(number) : NULL;
}

const char *pmiwire_strerror(int code)
{
    const char *text;

    switch (code) {
    case 0: return "success";
    case PMIWIRE_PENDING: return "the answer comes later";
    case PMIWIRE_EBADLEN:
        return "message does not start with cmd=, mcmd= or a positive decimal length";
    case PMIWIRE_ETOOBIG: return "message is longer than the limit";
    case PMIWIRE_ENUL: return "message holds a NUL byte";
    case PMIWIRE_ENOCMD: return "message does not start with a command";
    case PMIWIRE_ENOEQ: return "a word without '='";
    case PMIWIRE_EEMPTY: return "an empty key or value";
    case PMIWIRE_EUNTERM: return "message does not end with ';'";
    case PMIWIRE_EFIELDS: return "message has too many fields";
    case PMIWIRE_EUNKNOWN: return "unknown command";
    case PMIWIRE_EMISSING: return "a mandatory field is missing";
    case PMIWIRE_EDUP: return "a field occurs twice";
    case PMIWIRE_ETYPE: return "a field has a value of the wrong form";
    case PMIWIRE_EKEYLEN: return "key is too long";
    case PMIWIRE_EVALLEN: return "value is too long";
    case PMIWIRE_ECHARS: return "a byte that the wire or the peer cannot carry";
    case PMIWIRE_ELINE: return "message is longer than the peer can read";
    case PMIWIRE_EPEERFIELDS: return "message has more fields than the peer can read";
    case PMIWIRE_ERESERVED: return "extra field has a reserved or malformed name";
    case PMIWIRE_ENOBUF: return "buffer is too small";
    case PMIWIRE_ESTATE: return "not allowed in this state";
    case PMIWIRE_EPROTO: return "the peer's answer does not match the request";
    case PMIWIRE_EVERSION: return "the other side does not support this protocol version";
    case PMIWIRE_EMAPPING: return "syntax error in a process mapping";
    case PMIWIRE_EMAPSIZE: return "process mapping is too long or its numbers are too large";
    case PMIWIRE_ENOENT: return "no such key, name, job or attribute";
    case PMIWIRE_EEXIST: return "already there";
    case PMIWIRE_ESLOW: return "client does not read its replies";
    case PMIWIRE_ESTALL: return "client is silent in the middle of a message";
    case PMIWIRE_EEOF: return "connection ended in the middle of a conversation";
    case PMIWIRE_ESTALE: return "the request no longer exists";
    case PMIWIRE_EPEER: return "the peer refused";
    case PMIWIRE_ELOST: return "a node of the job is lost";
    case PMIWIRE_ETIME: return "no answer within the time given";
    case PMIWIRE_EGONE: return "a rank that it needs is gone";
    default: break;
    }
    text = code < 0 && code > -4096 ? errno_text(-code) : NULL;
    return text ? text : "unknown error code";
}

int pmiwire__error(struct pmiwire_error *err, int code, const char *what, const char *where,
                   size_t offset)
{
    size_t n;

    if (!err)
        return code;
    memset(err, 0, sizeof(*err));
    err->code = code;
    err->offset = offset;
    snprintf(err->text, sizeof(err->text), "%s%s%s%s", what ? what : "", what ? ": " : "",
             pmiwire_strerror(code), where);
    n = strlen(err->text);
    if (offset)
        snprintf(err->text + n, sizeof(err->text) - n, " at byte %zu", offset);
    return code;
}
