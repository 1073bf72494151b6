/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and functions that the sources of the library share. */
#ifndef STORWIN_INTERNAL_H
#define STORWIN_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#if !defined(_FILE_OFFSET_BITS) && __SIZEOF_LONG__ == 4
#define _FILE_OFFSET_BITS 64 /* files of more than 2 GiB */
#endif
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <time.h>

#include <storwin.h>

#ifndef __GLIBC__ /* musl's takes an int, too narrow for these requests */
#define ioctl(fd, request, arg) (ioctl)((fd), (int)(request), (arg))
#endif

#define STORWIN__HINTS    24     /* keys of the table in opts.c */
#define STORWIN__COPIES   65536u /* a commit's longest request of copies; no page is longer */
#define STORWIN__FILENAME "storage_alloc_filename"

/*
 * Each bit disables one facility of the system, so that tests reach the code for older kernels and
 * simpler file systems on any machine.
 */
#define STORWIN__NO_SCAN      1u
#define STORWIN__NO_UFFD      2u
#define STORWIN__NO_DIRECT    4u
#define STORWIN__NO_TMPFILE   8u
#define STORWIN__NO_FALLOCATE 16u
#define STORWIN__NO_RING      32u
#define STORWIN__NO_MOVE      64u
#define STORWIN__NO_FORK      128u
#define STORWIN__NO_SYS_UFFD  256u /* a userfaultfd serves no faults of the kernel */
extern atomic_uint storwin__without;

static inline int storwin__disabled(unsigned facility)
{
    return (atomic_load_explicit(&storwin__without, memory_order_relaxed) & facility) != 0;
}

extern atomic_uint storwin__lock_ms; /* how long commit_lock.c waits for a lock */
extern atomic_uint storwin__sum_min; /* a commit of so many pages or more sums them in a thread */

/* alloc.c; NULL: libc */
int storwin__allocator_check(const struct storwin_allocator *a, struct storwin_error *err);
void *storwin__realloc(const struct storwin_allocator *a, void *ptr, size_t bytes);
void *storwin__calloc(const struct storwin_allocator *a, size_t n, size_t bytes);
char *storwin__strndup(const struct storwin_allocator *a, const char *text, size_t len);
char *storwin__strdup(const struct storwin_allocator *a, const char *text);
void storwin__free(const struct storwin_allocator *a, void *ptr);

/* error.c */
int storwin__fail(struct storwin_error *err, int code, const char *hint, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A failure's code is negative: what callers, compilers and analysers of other files rely on. */
static inline int storwin__negative(int code)
{
    return code < 0 ? code : -EINVAL;
}
#define storwin__fail(...) storwin__negative(storwin__fail(__VA_ARGS__))

/* opts.c */
int storwin__opts_take(void *to, const void *from, size_t bytes, struct storwin_error *err);
int storwin__opts_or_defaults(struct storwin_opts *to, const struct storwin_opts *from,
                              struct storwin_error *err);
int storwin__opts_check(const struct storwin_opts *opts, uint64_t page_bytes,
                        struct storwin_error *err);
ssize_t storwin__hint_text(const struct storwin_opts *opts, const char *key, char *value,
                           size_t cap);

/* memory.c: files to read; NULL: the real ones */
struct storwin__memory_source {
    const char *meminfo, *cgroup, *mountinfo;
    const char *root; /* prefix of the mount points of mountinfo */
};
uint64_t storwin__memory_available(const struct storwin__memory_source *src);

/* file.c */
struct storwin__file {
    int fd, direct_fd, dir_fd;
    char *name;    /* within dir_fd */
    uint64_t size; /* of a device; of a file before it was grown */
    uint32_t created, device, striping;
    uint32_t nameless; /* created, and has no name yet */
    uint32_t read_only;
    /* named: its name is durable, or this process need not make it durable */
    uint32_t grown, named;
    dev_t dev;
    ino_t ino;
    const struct storwin_allocator *allocator;
};
int storwin__file_open(struct storwin__file *f, const struct storwin_opts *opts, const char *path,
                       int must_exist, uint64_t bytes, struct storwin_error *err);
int storwin__file_open_to_read(struct storwin__file *f, const struct storwin_opts *opts,
                               const char *path, struct storwin_error *err);
int storwin__limit_check(uint64_t bytes, const char *what, const char *hint,
                         struct storwin_error *err);
int storwin__file_extend(const struct storwin_allocator *a, int fd, uint64_t offset, uint64_t bytes,
                         int sparse);
void storwin__file_undo(struct storwin__file *f);
void storwin__file_unlock(struct storwin__file *f);
int storwin__file_lock_size(int fd, int on);
void storwin__file_open_direct(struct storwin__file *f);
void storwin__file_lock_writes(const struct storwin__file *f, uint64_t offset, uint64_t bytes,
                               int on);
int storwin__file_named(const struct storwin__file *f);
int storwin__file_unlink(const struct storwin__file *f);
int storwin__file_sync_name(struct storwin__file *f);
void storwin__file_close(struct storwin__file *f);
int storwin__file_in_use(const struct storwin__file *f);
int storwin__commit_refuse(const struct storwin__file *f, const struct storwin_opts *opts,
                           const char *path, uint64_t bytes, struct storwin_error *err);
int storwin__stripe(int dir_fd, const char *name, const struct storwin_opts *opts,
                    uint32_t *outcome);

/* The storage part of a window is one span of addresses; `first` and `end` below count its
 * pages. */
struct storwin__part {
    uint64_t offset, bytes; /* in the window */
    uint64_t file_offset;
    uint32_t kind, file;
};

struct storwin__segment {
    uint64_t offset, bytes;
};

/* A failed range; several are joined to the span that covers them. Offsets in the window. */
struct storwin__failure {
    int code; /* 0: none */
    uint64_t lo, hi;
};
void storwin__failure_add(struct storwin__failure *f, int code, uint64_t lo, uint64_t hi);
void storwin__failure_add_pages(struct storwin__failure *f, int code,
                                const struct storwin_window *win, uint64_t first, uint64_t end);

struct storwin__pager;
struct storwin__commit;

struct storwin_window {
    struct storwin_opts opts; /* filename is NULL */
    char *path;
    uint8_t *map;
    uint8_t *source; /* what a sync writes: the storage span, or a commit's picture of it */
    uint64_t bytes, map_bytes, page_bytes;
    uint64_t stor_offset, stor_bytes; /* the storage span */
    uint64_t file_base;               /* its offset in the file; with commits: of the home area */
    struct storwin__commit *commit;   /* NULL: without storage_alloc_atomic */
    int adopted;                      /* the memory is the caller's */
    struct storwin__part *parts;
    uint32_t n_parts, n_files;
    struct storwin__file *files;
    uint32_t track, huge;
    int track_fd, pagemap_fd;
    atomic_uint_least64_t *dirty; /* a bit for each page of the storage span: must be written */
    struct storwin__pager *pager;
    struct storwin__failure unmended;  /* range that a sync could not write */
    struct storwin__segment *segments; /* shared: n_ranks */
    uint32_t n_ranks, rank;
    char *shm_name;
    /* of the memory part: open during the allocation, or with STORWIN_MEMFD as long as the
     * window */
    int shm_fd;
    atomic_uint attached, wrote;
    atomic_uint_least64_t n_syncs, dirty_bytes, written_bytes, n_requests;
    pid_t owner;         /* the process that allocated it */
    pthread_t thread;    /* of the asynchronous sync */
    atomic_int async;    /* STORWIN__IDLE ... */
    atomic_int async_fd; /* an eventfd, readable when async is STORWIN__DONE; -1: none */
    int async_rc;
    int (*async_work)(struct storwin_window *win, struct storwin_error *err);
    uint64_t async_offset, async_bytes;
    struct storwin_error async_err;
};
enum { STORWIN__IDLE, STORWIN__RUNNING, STORWIN__DONE };

int storwin__owned(const struct storwin_window *win, struct storwin_error *err); /* error.c */

static inline uint64_t storwin__round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static inline uint64_t storwin__min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t storwin__now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static inline uint64_t storwin__max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t storwin__pages(const struct storwin_window *win)
{
    return storwin__round_up(win->stor_bytes, win->page_bytes) / win->page_bytes;
}

/* Returns whether storwin_open_read() made a window. */
static inline int storwin__reads_only(const struct storwin_window *win)
{
    return win->n_files > 0 && win->files[0].read_only;
}

static inline void storwin__count_written(struct storwin_window *win, uint64_t bytes)
{
    atomic_fetch_add_explicit(&win->written_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&win->n_requests, 1, memory_order_relaxed);
}

/* window.c */
struct storwin__plan {
    const struct storwin_opts *opts;
    uint64_t bytes;           /* of the window */
    const char *const *paths; /* n_files */
    uint32_t n_files;
    const struct storwin__segment *segments; /* n_files: one in each; NULL: one file */
    const char *shm_name;                    /* the memory part is shared */
    void *adopt;                             /* memory of the caller's; NULL: new memory */
    int attach;                              /* everything exists already */
    int sync_names;                          /* make the names of new files durable at once */
};
struct storwin_window *storwin__window_new(const struct storwin_opts *opts);
uint64_t storwin__storage_pages(uint64_t pages, uint32_t factor_ppb);
int storwin__window_create(const struct storwin__plan *plan, struct storwin_window **win,
                           struct storwin_error *err);

/* dirty.c: sets of pages */
atomic_uint_least64_t *storwin__set_alloc(const struct storwin_window *win);
void storwin__set_add(atomic_uint_least64_t *set, uint64_t first, uint64_t end);
void storwin__set_remove(atomic_uint_least64_t *set, uint64_t first, uint64_t end);
void storwin__set_merge(atomic_uint_least64_t *to, const atomic_uint_least64_t *from,
                        uint64_t n_pages);
void storwin__set_subtract(atomic_uint_least64_t *to, const atomic_uint_least64_t *from,
                           uint64_t n_pages);
uint64_t storwin__set_next(const atomic_uint_least64_t *set, uint64_t first, uint64_t end,
                           int value);
uint64_t storwin__set_count(const atomic_uint_least64_t *set, uint64_t first, uint64_t end);

/* track.c */
int storwin__track_open(struct storwin_window *win);
void storwin__track_close(struct storwin_window *win);
void storwin__edges(const struct storwin_window *win, uint64_t *first, uint64_t *last);
void storwin__track_scan(struct storwin_window *win, uint64_t first, uint64_t end, int protect);

/* adopt.c */
int storwin__memory_private(uint64_t lo, uint64_t hi);
int storwin__memory_readable(uint64_t lo, uint64_t hi);

/* parallel.c: runs work(ctx) in up to n threads, including the caller, and returns when all have
 * returned */
void storwin__parallel(unsigned n, void (*work)(void *ctx), void *ctx);
int storwin__thread(pthread_t *thread, void *(*start)(void *), void *ctx);

/* pager_kernel.c: the kernel pager */
int storwin__cache_sync(struct storwin_window *win, uint64_t lo, uint64_t hi,
                        struct storwin__failure *fail);
void storwin__cache_repair(struct storwin_window *win, struct storwin__failure *fail);

/* commit_sums.c */
void storwin__pages_copy(struct storwin_window *win, uint64_t page, uint64_t end, uint8_t *to);
void storwin__copied_pages(const struct storwin_window *win, uint64_t *first, uint64_t *last);

/* write.c */
int storwin__write_pages(struct storwin_window *win, uint64_t first, uint64_t end, int merge,
                         struct storwin__failure *fail);
int storwin__write_through(struct storwin_window *win, const uint8_t *from, uint64_t page,
                           uint64_t n_pages, struct storwin__failure *fail);
int storwin__read_all(int fd, uint8_t *to, uint64_t bytes, uint64_t offset);
int storwin__file_read(const struct storwin__file *f, uint8_t *to, uint64_t bytes, uint64_t offset);
int storwin__read_span(struct storwin_window *win, struct storwin_error *err);
unsigned storwin__threads(const struct storwin_window *win);

/* query.c */
int storwin__struct_give(void *to, const void *full, size_t bytes);

/* sync.c */
int storwin__sync(struct storwin_window *win, uint64_t offset, uint64_t bytes,
                  struct storwin_error *err);
int storwin__sync_names(struct storwin_window *win, struct storwin_error *err);
int storwin__sync_check(const struct storwin_window *win, struct storwin_error *err);
int storwin__async_claim(struct storwin_window *win, struct storwin_error *err);
int storwin__async_start(struct storwin_window *win,
                         int (*work)(struct storwin_window *win, struct storwin_error *err),
                         struct storwin_error *err);
void storwin__find_cut(struct storwin_window *win, uint64_t lo, uint64_t hi,
                       struct storwin__failure *cut);

/* pager_user.c */
int storwin__pager_open(struct storwin_window *win, int resident, struct storwin_error *err);
void storwin__pager_close(struct storwin_window *win);
void storwin__pager_query(const struct storwin_window *win, struct storwin_info *info);
void storwin__pager_stats(const struct storwin_window *win, struct storwin_stats *stats);

/* pager_sync.c */
void storwin__pager_take(struct storwin_window *win, uint64_t first, uint64_t end);
void storwin__pager_peek(struct storwin_window *win);
void storwin__pager_release(struct storwin_window *win, uint64_t first, uint64_t end);
void storwin__pager_unprotect(struct storwin_window *win, uint64_t first, uint64_t end);
int storwin__pager_evicted(struct storwin_window *win, uint64_t *first, uint64_t *end);
void storwin__pager_failure(struct storwin_window *win, struct storwin__failure *fail);
void storwin__pager_distrust(struct storwin_window *win);
uint64_t storwin__pager_slice(const struct storwin_window *win);

/*
 * The program may store into pages that a thread of the library reads. Its earlier stores
 * happen-before the read, through faults that a race detector does not see.
 */
#if defined(__SANITIZE_THREAD__)
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
#define STORWIN__IGNORE_READS(begin_or_end) AnnotateIgnoreReads##begin_or_end(__FILE__, __LINE__)
#else
#define STORWIN__IGNORE_READS(begin_or_end) (void)0
#endif

/*
 * Stores a page's own content into it, so that it counts as changed. An atomic "or 0" does not
 * work: clang turns it into a load. If another store wins, the page counts as changed too. It
 * stores a word: RISC-V has no such instruction for a byte.
 */
static inline void storwin__store_same(unsigned char *at)
{
    _Atomic uint32_t *p = (_Atomic uint32_t *)(void *)(at - (uintptr_t)at % sizeof(*p));
    uint32_t v = atomic_load_explicit(p, memory_order_relaxed);

    (void)atomic_compare_exchange_strong(p, &v, v);
}

#endif
