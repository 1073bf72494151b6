/* SPDX-License-Identifier: BSD-3-Clause */
#include "internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *storwin_version(void)
{
    return STORWIN_VERSION;
}

/* Returns the error's text in the C locale, without a static buffer: glibc 2.32 has a function for
 * that; elsewhere strerror() uses a static buffer only for unknown numbers. NULL: unknown. */
static const char *errno_text(int number)
{
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 32)
    return strerrordesc_np(number);
#endif
#endif
    return number <= EHWPOISON ? strerror(number) : NULL;
}

const char *storwin_strerror(int code)
{
    const char *text;

    switch (code) {
    case 0: return "success";
    case STORWIN_PENDING: return "the sync is in flight";
    case STORWIN_UNKNOWN: return "no hint of this library has this key";
    case STORWIN_EVALUE: return "a hint has a value that is not allowed";
    case STORWIN_EMISSING: return "a hint is missing";
    case STORWIN_ECONFLICT: return "two hints exclude each other";
    case STORWIN_ESHORT: return "the device or file ends before the window does";
    case STORWIN_ETYPE: return "neither a regular file nor a block device";
    case STORWIN_EOWNER: return "a link, or a file of another user";
    case STORWIN_EPAGER: return "the user-level pager is not allowed here";
    case STORWIN_ERANGE: return "the range does not lie within the window";
    case STORWIN_ESYNTAX: return "not a list of key=value";
    case STORWIN_EFORMAT: return "the file holds no commits, or a state longer than the window";
    case STORWIN_ENONE: return "the file holds no such commit";
    case STORWIN_EVERSION: return "the state is of another version of the application";
    case STORWIN_ESTATE: return "not allowed in this state";
    case STORWIN_EBUSY: return "in use";
    case STORWIN_EDAMAGED: return "the committed data is damaged";
    case STORWIN_ERACE: return "the program stored into the window during a commit";
    case STORWIN_ENOWIN: return "the window is not attached";
    default: break;
    }
    text = code < 0 && code > -4096 ? errno_text(-code) : NULL;
    return text ? text : "unknown error code";
}

/* Fills err, if there is one, and returns code. */
int(storwin__fail)(struct storwin_error *err, int code, const char *hint, const char *format, ...)
{
    va_list args;

    if (!err)
        return code;
    memset(err, 0, sizeof(*err));
    err->code = code;
    if (hint)
        snprintf(err->hint, sizeof(err->hint), "%s", hint);
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    return code;
}

/* Refuses calls in a child of fork(): its copies are as old as the fork and would overwrite data
 * that the parent has synced since; and it would wait for threads that only the parent has. */
int storwin__owned(const struct storwin_window *win, struct storwin_error *err)
{
    if (win->owner == getpid())
        return 0;
    (void)storwin__fail(err, STORWIN_ESTATE, NULL,
                        "the window is process %ld's, which allocated it", (long)win->owner);
    return STORWIN_ESTATE;
}

void storwin__failure_add(struct storwin__failure *f, int code, uint64_t lo, uint64_t hi)
{
    if (f->code == 0) {
        f->code = code;
        f->lo = lo;
        f->hi = hi;
        return;
    }
    f->lo = storwin__min(lo, f->lo);
    f->hi = storwin__max(hi, f->hi);
}

/* The same for pages [first, end) of the storage span. */
void storwin__failure_add_pages(struct storwin__failure *f, int code,
                                const struct storwin_window *win, uint64_t first, uint64_t end)
{
    storwin__failure_add(f, code, win->stor_offset + first * win->page_bytes,
                         win->stor_offset + storwin__min(end * win->page_bytes, win->stor_bytes));
}
