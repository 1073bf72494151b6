/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic commits: the layout of a file, as in LAYOUT.md, and the sources' shared declarations.
 *
 * A file has two areas, each for the whole state, which take turns as *home*, and a journal. A
 * commit either appends the changes to the journal, or writes the other area and makes it home,
 * with an empty journal. Neither overwrites data of the last record, and the next record is written
 * last: every crash leaves the state of one of these two records.
 *
 *     append   changed blocks behind the end of the journal    flush    record    flush
 *     flip     the changes that the other area lacks           flush    record    flush
 *
 * Data come from the window itself. If threads store meanwhile, they come from a picture of it: all
 * data of a batch, but of an area only the pages that were stored into.
 *
 * A file that keeps N > 2 generations has N areas and no journal: each commit writes the area of
 * the oldest record. There are as many places for records as areas, and they take turns; each has
 * two copies of its record. After a failure no data handed to the kernel counts as written: the
 * next commit writes it again.
 */
#ifndef STORWIN_COMMIT_INTERNAL_H
#define STORWIN_COMMIT_INTERNAL_H

#include "internal.h"

#include <sys/uio.h>

#define STORWIN__RECORD_MAGIC  UINT64_C(0x4d4f54414e495753) /* "SWINATOM" */
#define STORWIN__BATCH_MAGIC   UINT64_C(0x4c4e524a4e495753) /* "SWINJRNL" */
#define STORWIN__RECORD_ORDER  0x01020304u
#define STORWIN__RECORD_LAYOUT 1u /* two areas; 3 to STORWIN_MAX_GENERATIONS: that many */
#define STORWIN__BLOCK         UINT64_C(4096)  /* unit of the journal and of checksums */
#define STORWIN__PLACE_BYTES   UINT64_C(65536) /* from one place of records to the other */
#define STORWIN__COPY_BYTES    UINT64_C(32768) /* from one copy of a record to the other */
#define STORWIN__FIRST_AREA    (2 * STORWIN__PLACE_BYTES) /* behind two places */
#define STORWIN__AREA_UNIT     UINT64_C(65536)            /* areas are a multiple of this */

/* In the machine's byte order, which `order` shows. Fits one sector. */
struct storwin__record {
    uint64_t magic;
    uint32_t order, layout;
    uint32_t place, copy; /* position of this copy */
    uint32_t block_bytes;
    uint32_t home;                       /* an area, from 0 */
    uint64_t seq;                        /* of records, from 1 */
    uint64_t bytes;                      /* length of the state */
    uint64_t base, cap;                  /* begin of the areas, bytes of one */
    uint64_t generation, data_sum;       /* of the area with the journal */
    uint64_t home_generation, home_sum;  /* of the area alone */
    uint64_t epoch;                      /* seq of the record that made this area home */
    uint64_t journal_bytes, journal_sum; /* its valid length; the sum of its last batch */
    uint64_t app_version;                /* the caller's; 0: none */
    uint64_t sum;                        /* of all the fields above */
};
_Static_assert(offsetof(struct storwin__record, place) == 16 &&
                   offsetof(struct storwin__record, seq) == 32 &&
                   offsetof(struct storwin__record, generation) == 64 &&
                   offsetof(struct storwin__record, journal_bytes) == 104 &&
                   offsetof(struct storwin__record, sum) == 128 &&
                   sizeof(struct storwin__record) == 136,
               "the layout on storage");

/* A commit's batch in the journal: this head, n_blocks entries, zeros up to a whole block, and the
 * blocks in the order of the entries; zeros pad a short last block. */
struct storwin__batch {
    uint64_t magic, epoch, generation, n_blocks;
    uint64_t data_sum; /* of the state with this batch */
    uint64_t prev;     /* sum of the previous batch; in the first, home_sum */
    uint64_t reserved; /* 0 */
    uint64_t sum;      /* of the fields above and the entries */
};
struct storwin__entry {
    uint64_t block, sum; /* storwin__sum(block, its length, its number) */
};
_Static_assert(sizeof(struct storwin__batch) == 64 && sizeof(struct storwin__entry) == 16,
               "the layout on storage");

/* The records found in all places. */
struct storwin__records {
    struct storwin__record at[STORWIN_MAX_GENERATIONS]; /* seq 0: no valid copy, or discarded */
    uint64_t newest_seq, newest_generation;             /* of all valid copies */
    uint32_t areas;                                     /* and places; 2 without a record */
    unsigned n_damaged;                                 /* damaged copies beside a whole one */
    unsigned n_torn;       /* places where both copies were written, and neither is whole */
    unsigned n_unfinished; /* places where only one copy was written, and is not whole */
    int ours;              /* some copy has the magic */
    int foreign;           /* some copy is of another layout or machine, or not a record; or there
                            * is no record, and other bytes are before the areas */
    int swapped;           /* some copy is of a machine of the other byte order */
};

struct storwin__commit {
    struct storwin__record last; /* of the newest commit; seq 0: none */
    /* in the file, by place; seq 0: the place is free */
    struct storwin__record at[STORWIN_MAX_GENERATIONS];
    uint32_t areas; /* and places */
    /* with durable data, possibly not durable itself; seq 0: none */
    struct storwin__record pending;
    uint64_t base, cap, journal_cap;
    uint64_t n_blocks;
    uint64_t *sums;                         /* of each block, as last summed */
    atomic_uint_least64_t total;            /* of all of these */
    uint64_t newest_seq, newest_generation; /* of all ever found or written */
    uint64_t app_version;                   /* for every record written */
    uint32_t place;                         /* place of the next record */
    /* the next commit must write an area: there is no home yet, and each area lacks all */
    int whole;
    /* the file was shortened: it does not hold the last commit */
    int lost;
    /* the older record that was opened: it must become the newest before data of the newer one
     * are overwritten; seq 0: none */
    struct storwin__record discard;
    /* Sets of pages. changed: since the last commit; fresh: of these, what the last search for
     * stores found; lacks, for each area: what it lacks of the last commit. A commit in progress
     * adds its changes to those of the next area, and then removes what it has written. */
    atomic_uint_least64_t *changed, *fresh, *lacks[STORWIN_MAX_GENERATIONS];
    uint64_t old_base, old_bytes; /* areas of a shorter state, to be freed; 0 bytes: none */
    uint8_t *picture;             /* addresses for a copy of the storage span; NULL: none */
    int stores_meanwhile; /* stores came during the last commit: begin a batch with a picture */
    uint32_t recovery;
    uint64_t replayed_bytes;
};

#define STORWIN__MOST_IOV 1024u /* IOV_MAX of Linux */
typedef ssize_t storwin__transfer_fn(int fd, const struct iovec *iov, int n, off_t offset);

/* A range of the file to read or write, with pieces that are adjacent in memory joined. */
struct storwin__stream {
    struct storwin_window *win;
    storwin__transfer_fn *call; /* preadv or pwritev */
    struct iovec iov[STORWIN__MOST_IOV];
    unsigned n;
    uint64_t offset, bytes;
};

/* commit_layout.c */
void storwin__record_seal(struct storwin__record *r, uint32_t place, uint32_t copy);
int storwin__record_check(const void *raw, uint32_t place, uint32_t copy,
                          struct storwin__record *r);
void storwin__batch_seal(struct storwin__batch *b, const struct storwin__entry *entries);
int storwin__batch_check(const struct storwin__batch *b, const struct storwin__record *r,
                         uint64_t prev, uint64_t room);
uint64_t storwin__batch_sum(const struct storwin__batch *b, const struct storwin__entry *entries);
uint64_t storwin__batch_index_bytes(uint64_t n_blocks);
uint64_t storwin__area_at(const struct storwin__record *r, uint32_t area);
uint32_t storwin__record_areas(const struct storwin__record *r);

/* commit_records.c */
const struct storwin__record *storwin__record_newest(const struct storwin__records *found);
const struct storwin__record *storwin__record_older(const struct storwin__records *found,
                                                    const struct storwin__record *than);
const struct storwin__record *storwin__record_for(const struct storwin__records *found,
                                                  uint64_t generation,
                                                  const struct storwin__record *after,
                                                  uint64_t *covered);
int storwin__records_refuse(const struct storwin__records *found, const char *path,
                            struct storwin_error *err);
int storwin__version_check(const struct storwin_window *win, const struct storwin__record *r,
                           struct storwin_error *err);
int storwin__generation_absent(const struct storwin_window *win,
                               const struct storwin__records *found, uint64_t generation,
                               struct storwin_error *err);
int storwin__generations_check(const struct storwin_opts *opts, const char *path, uint32_t areas,
                               struct storwin_error *err);
uint64_t storwin__commit_space(uint64_t bytes, uint32_t atomic, uint32_t areas);
int storwin__commit_precheck(const struct storwin_opts *opts, const char *path, uint64_t bytes,
                             uint64_t *space, struct storwin_error *err);

/* commit_io.c */
int storwin__commit_transfer(struct storwin_window *win, storwin__transfer_fn *call,
                             struct iovec *iov, unsigned n, uint64_t offset);
int storwin__stream_put(struct storwin__stream *s, uint8_t *at, uint64_t bytes);
int storwin__stream_flush(struct storwin__stream *s);
int storwin__records_read(int fd, uint64_t offset, struct storwin__records *found);
int storwin__records_present(int fd, uint64_t offset);
int storwin__record_write(struct storwin_window *win, const struct storwin__record *r,
                          struct storwin_error *err);
void storwin__commit_punch(const struct storwin_window *win, uint64_t offset, uint64_t bytes);
void *storwin__blocks_alloc(const struct storwin_window *win, uint64_t bytes, void **whole);

/* commit_lock.c */
int storwin__commit_lock(const struct storwin_window *win, uint64_t space,
                         struct storwin_error *err);

/* commit_open.c */
int storwin__commit_alloc(struct storwin_window *win, uint32_t areas, struct storwin_error *err);
void storwin__lack_all(struct storwin_window *win);
int storwin__load_record(struct storwin_window *win, const struct storwin__record *r,
                         uint64_t generation, struct storwin_error *err);
int storwin__commit_open(struct storwin_window *win, struct storwin_error *err);
void storwin__commit_close(struct storwin_window *win);

/* commit_journal.c */
int storwin__journal_fits(const struct storwin_window *win, uint64_t n_pages);
int storwin__journal_append(struct storwin_window *win, uint64_t generation,
                            struct storwin__record *next);
int storwin__journal_replay(struct storwin_window *win, const struct storwin__record *r,
                            uint64_t generation, const atomic_uint_least64_t *set,
                            struct storwin__record *reached, struct storwin_error *err);

/* commit_home.c */
uint32_t storwin__commit_area(const struct storwin__commit *c);
void storwin__place_record(struct storwin__commit *c, const struct storwin__record *r);
int storwin__commit_flip(struct storwin_window *win, uint64_t generation,
                         struct storwin__record *next, struct storwin__failure *fail);
void storwin__flip_pages(const struct storwin_window *win, atomic_uint_least64_t *set);

/* commit_picture.c */
int storwin__picture_take(struct storwin_window *win, struct storwin_error *err);
void storwin__picture_drop(struct storwin_window *win);

/* commit_freeze.c */
pid_t storwin__freeze(void);
void storwin__thaw(pid_t pid);
int storwin__frozen_read(pid_t pid, void *to, const void *from, size_t bytes);

/* commit_readable.c */
int storwin__check_readable(const struct storwin_window *win, const atomic_uint_least64_t *set,
                            struct storwin_error *err);
int storwin__all_readable(const struct storwin_window *win);
int storwin__check_mapped(const struct storwin_window *win, struct storwin_error *err);

/* commit.c */
int storwin__commit(struct storwin_window *win, uint64_t generation, struct storwin_error *err);
int storwin__commit_prepare(struct storwin_window *win, struct storwin_error *err);
int storwin__commit_changes(struct storwin_window *win, uint64_t generation,
                            struct storwin_error *err);
int storwin__must_flip(const struct storwin_window *win, uint64_t n_changed);
int storwin__find_stores(struct storwin_window *win);
int storwin__commit_check(const struct storwin_window *win, struct storwin_error *err);
int storwin__write_pending(struct storwin_window *win, struct storwin_error *err);
int storwin__find_changes(struct storwin_window *win, int protect, struct storwin_error *err);

/* commit_sums.c */
struct storwin__summing {
    struct storwin_window *win;
    atomic_uint_least64_t *set; /* NULL: there is no thread */
    pthread_t thread;
};
void storwin__sum_start(struct storwin__summing *s, struct storwin_window *win,
                        const atomic_uint_least64_t *set);
void storwin__sum_finish(const struct storwin__summing *s);
uint64_t storwin__block_bytes(const struct storwin_window *win, uint64_t block);
void storwin__block_read(const struct storwin_window *win, uint64_t block, uint8_t *to);
void storwin__block_copy(struct storwin_window *win, uint64_t block, uint8_t *to);
int storwin__compare_pages(struct storwin_window *win, const atomic_uint_least64_t *set,
                           uint64_t first, uint64_t end);
int storwin__compare(struct storwin_window *win, const atomic_uint_least64_t *set);

#endif
