/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file shmht.h
 * @brief A hash table in shared memory: one process writes, every process of the node reads in
 *        place.
 *
 * A *table* is one memory object: a sealed memfd, or a named file where file descriptors cannot
 * travel. One *writer* puts pairs of bytes; any number of *readers*, in any process, map the object
 * read-only. A Get is wait-free: it takes no lock, makes no system call and copies nothing, also
 * while the writer puts, updates, merges and grows the table. A value that a Get finds points into
 * the mapping and does not change until the reader detaches. A region is untrusted memory: a
 * hostile one causes an error, never a crash. A killed writer leaves nothing to repair. The space
 * of replaced and deleted pairs returns when the writer compacts the table into a new object, which
 * readers follow. A *Fence* between servers is a merge of blocks of pairs. An *array* is a table of
 * values indexed by rank.
 *
 *     struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 64 << 20};
 *     shmht_writer_create(&opts, &writer, NULL);                    // a launcher, a PMI server
 *     shmht_put(writer, "mpi-addr-7", 10, "lid 0001 qp 0007", 17);
 *     fd = shmht_writer_share(writer, &desc);                       // a reader needs both
 *     shmht_fd_send(sock, fd, &desc);
 *
 *     fd = shmht_fd_recv(sock, &desc);                              // a process of the job
 *     shmht_reader_attach(&desc, fd, NULL, &reader, NULL);
 *     shmht_get(reader, "mpi-addr-7", 10, &value);                  // value.ptr: in place
 *
 *     shmht_reader_detach(reader);
 *     shmht_writer_destroy(writer);
 *
 * A whole program is examples/shmht.c; the bytes in memory and on the wire are in LAYOUT.md. A
 * function that fails returns a negative code (at the end of this header); passing NULL is
 * undefined unless documented as allowed.
 *
 * @source S. Chakraborty, H. Subramoni, J. Perkins, D. K. Panda, "SHMEMPMI - Shared Memory based
 * PMI for Improved Performance and Scalability", CCGrid 2016: two regions, writer and readers (III,
 * IV-C), Allgather (V), description in the Fence's response (VI). The table's layout, growth under
 * readers, validation, blocks and compaction are ours.
 */
#ifndef SHMHT_H
#define SHMHT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Release of this header; shmht_version() is that of the library in use. */
#define SHMHT_VERSION_MAJOR 0
#define SHMHT_VERSION_MINOR 1
#define SHMHT_VERSION_PATCH 0
#define SHMHT_VERSION       "0.1.0"

#if defined(__GNUC__)
#define SHMHT_API __attribute__((visibility("default")))
#else
#define SHMHT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct shmht_writer; /**< the one process (and one thread at a time) that writes a table */
struct shmht_reader; /**< a table, attached for reading; any number of threads may share one */
struct shmht_array;  /**< an array, as its writer or as a reader */
struct shmht_allocator;
struct shmht_error;

/** Borrowed bytes. Absent is `{NULL, 0}`; present and empty has a pointer. */
struct shmht_bytes {
    const void *ptr;
    size_t len; /**< bytes */
};

/* ------------------------------------------------------------------ write a table */

/**
 * A caller's own hash: the same 64 bits for the same key and seed in every process that opens the
 * table.
 */
typedef uint64_t shmht_hash_fn(const void *key, size_t len, uint64_t seed);

/** How to create a table. Zero means the default, except for max_bytes, which has none. */
struct shmht_writer_opts {
    size_t size; /**< sizeof(struct shmht_writer_opts) */
    /** byte cap of the object, tables and garbage included: address space is reserved, memory is
     * not */
    uint64_t max_bytes;
    /** entries that the first table holds before it is rebuilt; 0: 56 */
    uint64_t expected_entries;
    uint32_t flags;      /**< SHMHT_NAMED, SHMHT_KEEP_NAME, SHMHT_HUGE, SHMHT_DEFER */
    uint32_t duplicates; /**< SHMHT_DUP_*; default SHMHT_DUP_REPLACE */
    /** path of a named object, which must not exist; NULL: /dev/shm/shmht- and 128 random bits */
    const char *name;
    uint32_t hash_id; /**< SHMHT_HASH_* or the id of `hash`; 0: SHMHT_HASH_XXH3 */
    /** entries / slots at which the table is rebuilt twice as large, 10 to 90; 0: 70. A table
     * that cannot grow is filled to 90 */
    uint32_t max_load_percent;
    shmht_hash_fn *hash; /**< the caller's own, for ids from SHMHT_HASH_CALLER on; NULL otherwise */
    uint64_t seed;       /**< seed of the hash; 0: random */
    /** memory that must stay available on the node and in the memory cgroup: a put whose growth
     * would leave less fails with -ENOMEM (checked once per MiB of growth); 0: 16 MiB */
    uint64_t min_free_bytes;
    uint64_t generation;                     /**< of the new table; 0: 1 */
    const struct shmht_allocator *allocator; /**< for the handle; NULL: libc */
    /** memory for the table itself instead of an object, aligned to 64 bytes, of max_bytes
     * bytes: shared by other means, or not at all */
    void *region;
};

/**
 * @brief Create an empty table and become its writer.
 *
 *  - The object is a memfd, mode 0400, mapped and then sealed (SHRINK, FUTURE_WRITE, SEAL); with
 *    SHMHT_NAMED a file, mode 0400.
 *  - The call reserves max_bytes of address space. The object grows in steps of 1/64 of its present
 *    size (64 KiB to 64 MiB), and each step is preallocated: on a full node or tmpfs shmht_put()
 *    fails, without SIGBUS.
 *  - The table has 32-bit offsets. So records are aligned to 8 bytes if max_bytes is above 16 GiB,
 *    to 16 above 32 GiB, and so on.
 *  - The mapping is not inherited by fork(): in a child, the parent's writer fails with -EPERM, and
 *    a Get through its view faults. A table in the caller's memory (region) has no such limit.
 * @param opts  max_bytes must be set: SHMHT_MIN_REGION_BYTES … SHMHT_MAX_REGION_BYTES
 * @param out  the writer
 * @param err  detail on failure, or NULL
 * @return 0; -EINVAL (an option), SHMHT_ENAME, -EEXIST (name taken), SHMHT_EHASH, SHMHT_EFULL
 *         (expected_entries do not fit), SHMHT_EPROC, -ENOMEM, -ENOSPC or another -errno
 * @threads MT-Safe.
 * @allocates the handle; the object: header and first table
 */
SHMHT_API int shmht_writer_create(const struct shmht_writer_opts *opts, struct shmht_writer **out,
                                  struct shmht_error *err);

/**
 * @brief Put a pair.
 * @param w          the writer
 * @param key        key_len bytes, any bytes; copied
 * @param key_len    bytes, 1 … SHMHT_MAX_KEY_BYTES
 * @param value      value_len bytes, any bytes; copied. NULL if value_len is 0. Readers find a NUL
 *                   at its end only if value_len counts one
 * @param value_len  bytes, 0 … SHMHT_MAX_VALUE_BYTES
 * The call does not store a value again that equals the key's present one.
 * @return SHMHT_PUT_NEW, SHMHT_PUT_REPLACED or SHMHT_PUT_KEPT; SHMHT_EEXIST, SHMHT_EKEYLEN,
 *         SHMHT_EVALLEN, SHMHT_EFULL, SHMHT_EPROBE, -ENOSPC, -ENOMEM, -EFBIG (RLIMIT_FSIZE), -EPERM
 *         (a forked child). After an error the table is as it was.
 * @threads one writer, any readers. A writer killed here leaves the old state or the new one.
 * @cost amortized O(1); a system call only when the object grows
 * @source SHMEMPMI, Algorithms 1 and 3, over another table.
 */
SHMHT_API int shmht_put(struct shmht_writer *w, const void *key, size_t key_len, const void *value,
                        size_t value_len);

/**
 * @brief Delete a pair.
 *
 * Gets that begin later do not find the key. Pointers to its value stay valid, as those to a
 * replaced one. The record and its slot stay until shmht_writer_compact(); a later put of the same
 * key takes the slot. A block has no deletions: each server deletes from its own table.
 * @param w        the writer
 * @param key      key_len bytes
 * @param key_len  bytes, 1 … SHMHT_MAX_KEY_BYTES
 * @return 0; SHMHT_ENOENT: no such key; SHMHT_EKEYLEN; -EPERM (a forked child)
 * @threads one writer, any readers. A writer killed here leaves the pair or not; if Gets do not
 *          find it, shmht_reader_next() still may.
 * @cost as shmht_get(); needs no memory, so it works at the cap too
 * @source ours
 */
SHMHT_API int shmht_delete(struct shmht_writer *w, const void *key, size_t key_len);

#define SHMHT_MAX_NAME_BYTES 192u /**< path of a named object, with its NUL */

/**
 * The description of a table or an array: what a reader needs beside the file descriptor. It
 * travels as text (shmht_desc_format()), or with the file descriptor (shmht_fd_send()).
 */
struct shmht_desc {
    uint32_t kind;    /**< SHMHT_KIND_* */
    uint32_t layout;  /**< SHMHT_LAYOUT_VERSION of the writer */
    uint32_t hash_id; /**< SHMHT_HASH_* of a table; 0 for an array */
    uint32_t uid;     /**< who owns a named object */
    /** random number in the region's header: attaching to another region fails with SHMHT_ESTALE */
    uint64_t id;
    uint64_t generation; /**< of the table or array */
    uint64_t max_bytes;  /**< byte cap, up to which a reader maps */
    /** path of a named object; empty: it comes as a file descriptor */
    char name[SHMHT_MAX_NAME_BYTES];
};

/**
 * @brief Get what readers attach with: the object's file descriptor (returned) and its description.
 * @param w  the writer
 * @param desc  the description of the table; NULL is allowed
 * @return the read-only file descriptor of the object, close-on-exec. It belongs to the writer: let
 *         children inherit a duplicate, or send it (shmht_fd_send()). SHMHT_EFIXED: the table is in
 *         the caller's memory. -EPERM: with desc, in a forked child
 * @threads one writer, any readers
 */
SHMHT_API int shmht_writer_share(const struct shmht_writer *w, struct shmht_desc *desc);

/**
 * @brief Stop writing: unmap, close, unlink the name (unless SHMHT_KEEP_NAME). Attached readers
 *        continue.
 * @param w  NULL is allowed
 * @threads one thread, of the process that created the table. In a forked child the call frees the
 *          child's descriptors and handle alone, and leaves the name to the parent
 */
SHMHT_API void shmht_writer_destroy(struct shmht_writer *w);

/* ------------------------------------------------------------------ read it */

/** How to attach. Zero means the default. */
struct shmht_reader_opts {
    size_t size;         /**< sizeof(struct shmht_reader_opts) */
    uint32_t flags;      /**< SHMHT_POPULATE, SHMHT_HUGE, SHMHT_UNSEALED */
    uint32_t hash_id;    /**< id of `hash` */
    shmht_hash_fn *hash; /**< the caller's own, for a table whose id is hash_id; NULL: none */
    /** refuse a region whose byte cap is larger (it is mapped whole); 0: SHMHT_MAX_REGION_BYTES */
    uint64_t max_bytes;
    const struct shmht_allocator *allocator; /**< for the handle; NULL: libc */
    /** the table's first byte, aligned to 64 bytes, in memory that the caller has mapped and
     * keeps readable; NULL: the table is in a memory object, given by its file descriptor.
     * Arrays do not support this */
    const void *region;
    size_t region_bytes; /**< bytes of `region`: the reader accesses nothing outside */
};

/**
 * @brief Attach to a table for reading.
 *
 * Checks seals (of a file descriptor) or owner and mode (of a name), size, magic, version, byte
 * order, bounds, and that this process computes the writer's hash. Then maps the object read-only
 * up to its byte cap, so that growth needs no new mapping.
 * @param desc  from the writer; NULL: fd alone; id and generation are not checked
 * @param fd    the object; -1: open desc->name. Stays the caller's: the reader has a duplicate
 * @param opts  NULL: defaults. With opts->region, desc is NULL and fd is -1
 * @param out  the reader
 * @param err  which check failed, and on what; or NULL
 * @return 0; -EINVAL, SHMHT_EMAGIC, SHMHT_EVERSION, SHMHT_EORDER, SHMHT_EKIND, SHMHT_ETRUNC,
 *         SHMHT_ECORRUPT, SHMHT_EHASH, SHMHT_EUNSEALED, SHMHT_EOWNER, SHMHT_ESTALE, SHMHT_ELIMIT,
 *         SHMHT_ENAME, -ENOMEM (also: no address space), or another -errno
 * @threads MT-Safe.
 * @allocates the handle
 */
SHMHT_API int shmht_reader_attach(const struct shmht_desc *desc, int fd,
                                  const struct shmht_reader_opts *opts, struct shmht_reader **out,
                                  struct shmht_error *err);

/**
 * @brief Look a key up, in place.
 * @param r        the reader
 * @param key      key_len bytes
 * @param key_len  bytes, 1 … SHMHT_MAX_KEY_BYTES
 * @param value  the value; valid and unchanging until r is detached. `{NULL, 0}` if the call
 *                    fails
 * @return 0, SHMHT_ENOENT, SHMHT_EKEYLEN or SHMHT_ECORRUPT
 * @threads MT-Safe, beside the writer too.
 * @cost Wait-free. One line of the table, and one or two of the record for a pair of 48 bytes; one
 *       line for an absent key. No allocation; no system call, but one fstat() when the object has
 *       grown since this handle last looked.
 * @source SHMEMPMI, Algorithm 2, over another table.
 */
SHMHT_API int shmht_get(const struct shmht_reader *r, const void *key, size_t key_len,
                        struct shmht_bytes *value);

/**
 * @brief Look many keys up, SHMHT_BATCH at a time with their memory accesses in flight together.
 * @param r       the reader
 * @param keys    array of n keys
 * @param n       any number
 * @param values  array of n, in the order of the keys; `{NULL, 0}` for an absent key
 * @return how many were found; SHMHT_EKEYLEN if any key has a bad length, SHMHT_ECORRUPT if any
 *         look-up met corruption: those keys are `{NULL, 0}`, all others are answered
 * @threads as shmht_get()
 * @cost from 1e6 entries on, a fraction of single Gets; in a table that fits the cache, as single
 *       Gets
 */
SHMHT_API ssize_t shmht_get_many(const struct shmht_reader *r, const struct shmht_bytes *keys,
                                 size_t n, struct shmht_bytes *values);

/**
 * @brief Look a key up, and wait until the writer has put it.
 *
 * Sleeps in the kernel (a futex in the region) while the key is absent; the mapping stays
 * read-only. The writer puts, then calls shmht_writer_wake(). The library does not know whether the
 * writer still lives: wait with a time limit if it may die.
 * @param r           the reader
 * @param key         key_len bytes
 * @param key_len     bytes, 1 … SHMHT_MAX_KEY_BYTES
 * @param timeout_ns  nanoseconds; 0: does not sleep; negative: no limit
 * @param value  as shmht_get()
 * @return 0; -ETIMEDOUT: still absent; SHMHT_ESTALE: absent, and the writer has compacted the table
 *         (shmht_reader_follow()); SHMHT_EKEYLEN, SHMHT_ECORRUPT; -ENOSYS: no futex here
 * @threads MT-Safe, beside the writer too. Signals do not end the wait.
 * @cost as shmht_get() if the key is there
 * @source PMI's waiting Get, without a server; ours
 */
SHMHT_API int shmht_get_wait(const struct shmht_reader *r, const void *key, size_t key_len,
                             int64_t timeout_ns, struct shmht_bytes *value);

/**
 * @brief Wake the readers that wait in shmht_get_wait(): each looks for its key again.
 *
 * Call it after a batch of puts. A put itself makes no system call.
 * @param w  the writer. With SHMHT_DEFER, after shmht_writer_publish()
 * @return how many readers slept; -EPERM (a forked child), -ENOSYS
 * @threads one writer, any readers
 * @cost one system call, also if no reader sleeps: readers cannot write that they do
 */
SHMHT_API int shmht_writer_wake(struct shmht_writer *w);

/**
 * @brief Detach: unmap and close. Pointers that this reader's Gets returned become invalid.
 * @param r  from shmht_reader_attach(); NULL is allowed
 * @threads no other thread may use r during this call or later
 */
SHMHT_API void shmht_reader_detach(struct shmht_reader *r);

/**
 * @name What readers and the writer may rely on
 * While the writer puts, updates, deletes, merges and grows:
 *  1. A Get sees every put that happens-before it (through a message or a Fence), or a later value,
 *     or that the key was deleted later. One that runs at the same time as an update finds the old
 *     value or the new one, whole.
 *  2. A Get is wait-free: it never blocks on the writer, never retries, and reads at most
 *     SHMHT_MAX_PROBE table lines.
 *  3. A pointer handed out stays valid, and its bytes stay the same, until the handle is closed or
 *     follows another table: records never move or change, deleted ones too.
 *  4. A writer may be killed at any point. Readers then find every earlier put. They find the
 *     interrupted put whole or not at all; of an interrupted merge, this holds for each pair. An
 *     interrupted delete has happened or not.
 *     Reading needs no repair. To continue, create a table, and shmht_put() into it each pair that
 *     shmht_reader_next() gives.
 *  5. A region is untrusted memory: every Get checks offsets and lengths. A truncated, altered or
 *     hostile region gives SHMHT_ECORRUPT or a wrong value, never an access outside the mapping and
 *     never an endless loop.
 *
 * Caveats:
 *  - Readers cannot write to a sealed memfd through the descriptor that they get. A process with
 *    the writer's uid, or root, can reopen it and make the object larger.
 *  - A process with the uid of a *named* object can change its mode, and then do anything: if it
 *    truncates the object, readers get SIGBUS.
 *  - Data is in the byte order of its writer; a region or block of the other order is refused.
 *  - A reader of a table knows its seed. Keys that it chooses, and that the writer puts, can all
 *    have equal upper bits of the hash. After about 8,192 of them (2 million hashes, a fraction of
 *    a second) puts of keys near them fail with SHMHT_EPROBE, and a Get of an absent key near them
 *    reads up to SHMHT_MAX_PROBE lines. Present keys stay readable. shmht_writer_compact() ends
 *    this: it draws a new seed.
 *  - Only shmht_writer_compact() gives back the space of replaced and deleted pairs and of old
 *    tables. Until then a deleted key counts when the table is rebuilt.
 * @{
 */
/** table lines, of 64 bytes, that a Get reads in the worst case */
#define SHMHT_MAX_PROBE 1024u
/** keys that shmht_get_many() keeps in flight at once */
#define SHMHT_BATCH 32u
/** @} */

/* ------------------------------------------------------------------ reaching a reader */

/**
 * @brief Send a file descriptor and its description over a UNIX-domain socket (SCM_RIGHTS), as one
 *        message.
 * @param sock  stream, seqpacket or datagram; blocking
 * @param fd    of shmht_writer_share() or shmht_array_share()
 * @param desc  describes it
 * @return 0, SHMHT_ENAME or -errno
 * @threads MT-Safe.
 */
SHMHT_API int shmht_fd_send(int sock, int fd, const struct shmht_desc *desc);

/**
 * @brief Receive a file descriptor and its description from shmht_fd_send().
 * @param sock  the other end
 * @param desc  its description
 * @return a file descriptor, close-on-exec, which the caller closes; -EPIPE: the other end is
 *         closed; as shmht_desc_parse(), where SHMHT_EMAGIC may also be a message without a
 *         descriptor; -errno
 * @threads MT-Safe.
 */
SHMHT_API int shmht_fd_recv(int sock, struct shmht_desc *desc);

/** Bytes of shmht_desc_format()'s longest text, with NUL. */
#define SHMHT_DESC_TEXT_BYTES 320u

/**
 * @brief Write a description as text that is safe as a value of `key=value` in either PMI wire.
 *
 * Only letters, digits and `,` `.` `_` `-` `/` occur, at most SHMHT_DESC_TEXT_BYTES - 1 of them.
 * @param desc  the description
 * @param buf  NUL-terminated
 * @param cap   bytes of buf
 * @return length without NUL; SHMHT_ENOBUF; SHMHT_ENAME
 * @threads MT-Safe.
 */
SHMHT_API ssize_t shmht_desc_format(const struct shmht_desc *desc, char *buf, size_t cap);

/**
 * @brief Read a description from text.
 * @param text  len bytes, need not end with NUL; not trusted
 * @param len   bytes
 * @param desc  filled in
 * @return 0; SHMHT_EMAGIC (not a description), SHMHT_EVERSION, SHMHT_ECORRUPT (a field),
 *         SHMHT_ENAME
 * @threads MT-Safe.
 */
SHMHT_API int shmht_desc_parse(const char *text, size_t len, struct shmht_desc *desc);

/* ------------------------------------------------------------------ the writer's other calls */

/**
 * @brief The table as a reader in the writer's own process, for every call that takes a reader.
 * @return a reader that lives as long as the writer; other threads may use it while the writer's
 *         thread writes. Not to be detached.
 * @threads one writer, any readers
 */
SHMHT_API struct shmht_reader *shmht_writer_view(struct shmht_writer *w);

/**
 * @brief Copy all pairs into a new table of the next generation and of its final size, without
 *        garbage.
 *
 * For a server that runs for long and whose pairs are replaced or deleted: it gives their memory
 * back. The old table stays as it is, for its readers and for you. Its statistics name the new
 * table's generation (`superseded`). Destroy the old writer once you have sent the new table's file
 * descriptor and description. Its memory is free when the last reader has followed or detached.
 * @param w     the old table; do not write to it after success
 * @param opts  as for shmht_writer_create(); NULL: as the old one was created, with a new random
 *              seed. Hash and policy are always the old table's. generation 0: the next one;
 *              expected_entries 0: the present number
 * @param out  the writer of the new table
 * @param err  detail on failure, or NULL
 * @return 0, or as shmht_writer_create(); -EINVAL also if the new table would lie in the old one's
 *         memory (region)
 * @threads one writer, any readers. A writer killed here leaves the old table.
 * @cost O(entries)
 */
SHMHT_API int shmht_writer_compact(struct shmht_writer *w, const struct shmht_writer_opts *opts,
                                   struct shmht_writer **out, struct shmht_error *err);

/**
 * @brief Move a reader to the table that its own was compacted into: attach to that one with the
 *        same options, then detach from the old one.
 *
 * Pointers that this reader's Gets returned become invalid; iterators of the old table too.
 * @param r     from shmht_reader_attach() to an object. After a failure it reads the old table
 * @param desc  as for shmht_reader_attach()
 * @param fd    as for shmht_reader_attach()
 * @param err  which check failed, and on what; or NULL
 * @return as shmht_reader_attach(); SHMHT_ESTALE also if the generation is not a later one; -EINVAL
 *         if the reader's table is in the caller's memory, or r is a writer's view
 * @threads no other thread may use r during this call
 * @source ours
 */
SHMHT_API int shmht_reader_follow(struct shmht_reader *r, const struct shmht_desc *desc, int fd,
                                  struct shmht_error *err);

/**
 * @name Deferred growth
 *
 * A table that grows while it is filled leaves every smaller one behind, and the last one may be
 * twice as large as needed. With a million small pairs this waste is a third of the object's
 * memory. A writer with SHMHT_DEFER does not grow a full table; it indexes further pairs in a
 * private one, while their records go into the log. shmht_writer_publish(), for example at the end
 * of a Fence, makes one table of the right size in the object and frees the private one.
 *
 *  - Until then readers, and the writer's view, find only the pairs of the present table, with
 *    their latest values. shmht_writer_get() finds all pairs.
 *  - shmht_reader_next() and the counters include unpublished pairs.
 *  - If the writer is killed before it publishes, the pairs of the private table are lost.
 *  - A private table takes 9 to 12 bytes an entry; while it grows, the previous private table is
 *    held as well.
 * @{
 */
/**
 * @brief Publish all pairs to the readers.
 *
 * The new table has room for a seventh more pairs. If the present table is at least half as large,
 * the new one has twice the present one's size.
 * @param w  the writer; a no-op without SHMHT_DEFER, or without unpublished pairs
 * @return 0; SHMHT_EFULL, -ENOSPC, -ENOMEM, -EFBIG, SHMHT_EPROBE: nothing changed, and the call may
 *         be repeated
 * @threads one writer, any readers. A killed writer leaves the old table or the new one.
 * @cost O(entries); O(1) if no pair is unpublished
 */
SHMHT_API int shmht_writer_publish(struct shmht_writer *w);

/**
 * @brief Look a key up among all pairs, published or not.
 * @param w        the writer
 * @param key      key_len bytes
 * @param key_len  bytes
 * @param value  the value; valid and unchanging until w is destroyed. `{NULL, 0}` if the call
 *                    fails
 * @return as shmht_get()
 * @threads the writer's
 */
SHMHT_API int shmht_writer_get(const struct shmht_writer *w, const void *key, size_t key_len,
                               struct shmht_bytes *value);

/** @brief 1 if readers cannot find some pairs yet, else 0. The writer's thread. */
SHMHT_API int shmht_writer_has_unpublished(const struct shmht_writer *w);
/** @} */

/**
 * @brief Grow the table for n_entries at once; with SHMHT_DEFER, the private table.
 * @param w          the writer
 * @param n_entries  in all, present entries included
 * @return 0, also if the table is large enough; SHMHT_EFULL, -ENOSPC, -ENOMEM, -EFBIG,
 *         SHMHT_EPROBE: nothing changed
 * @threads one writer, any readers
 */
SHMHT_API int shmht_writer_reserve(struct shmht_writer *w, uint64_t n_entries);

/* ------------------------------------------------------------------ a Fence: blocks of pairs */

/**
 * A place in the log; begin with `{0}`. Valid for tables of one id; the members are the library's.
 */
struct shmht_iter {
    uint64_t pos;
};

/**
 * @brief Make a block of the pairs that follow a place in the log.
 *
 * For a server in a Fence: what it sends to the servers of other nodes.
 * A block is a header of SHMHT_BLOCK_HEADER_BYTES and pairs in the log's own form, in its maker's
 * byte order. It may lie at any address. In a Fence each server exports its new pairs, exchanges
 * blocks with the others, and merges theirs.
 * @param r    a reader, or the writer's view
 * @param it   where to begin; moved behind the last pair taken. Keep it: the next Fence continues
 *             from there
 * @param buf  memory for the block
 * @param cap  its bytes
 * @return bytes of the block; 0: no pair from here on; SHMHT_ENOBUF: cap is too small for the next
 *         pair; SHMHT_ECORRUPT
 * @threads MT-Safe on distinct iterators, beside the writer too.
 */
SHMHT_API ssize_t shmht_reader_export(const struct shmht_reader *r, struct shmht_iter *it,
                                      void *buf, size_t cap);

/** Counts of a merge. */
struct shmht_merged {
    uint64_t n_new;      /**< keys added */
    uint64_t n_replaced; /**< keys given the block's value */
    uint64_t n_kept;     /**< pairs of the block that the policy, keep or reject, left out */
};

/**
 * @brief Put all pairs of a block, in its order, as shmht_put() would.
 *
 * The call checks the whole block and reserves room for all of it before it publishes a pair.
 * @param w      the writer
 * @param block  from shmht_reader_export() of any server, any alignment; not trusted
 * @param bytes  bytes received: the block and nothing behind it
 * @param merged  counts of pairs; may be NULL
 * @return 0; SHMHT_EMAGIC, SHMHT_EVERSION, SHMHT_EORDER, SHMHT_ETRUNC, SHMHT_ECORRUPT, SHMHT_EFULL,
 *         -ENOSPC, -ENOMEM, -EFBIG: the table is as it was; SHMHT_EPROBE: the pairs before the one
 *         that failed are in the table. Under SHMHT_DUP_REJECT the call leaves out pairs whose keys
 *         exist, and counts them.
 * @threads one writer, any readers. A killed writer leaves some of the pairs.
 * @source SHMEMPMI, section IV-B: "the Fence operation is equivalent to merging multiple hash
 *         tables into one".
 */
SHMHT_API int shmht_writer_merge(struct shmht_writer *w, const void *block, size_t bytes,
                                 struct shmht_merged *merged);

#define SHMHT_BLOCK_HEADER_BYTES 32u /**< bytes of an empty block */

/* ------------------------------------------------------------------ arrays: values by rank */

/** How to create an array. Zero means the default, except for n_ranks and stride_bytes. */
struct shmht_array_opts {
    size_t size;      /**< sizeof(struct shmht_array_opts) */
    uint64_t n_ranks; /**< values, 1 or more; the object has its final size from the beginning */
    uint32_t stride_bytes;   /**< bytes of each value, 1 … SHMHT_MAX_STRIDE_BYTES */
    uint32_t flags;          /**< create: SHMHT_NAMED, SHMHT_KEEP_NAME, SHMHT_HUGE */
    const char *name;        /**< as in struct shmht_writer_opts */
    uint64_t min_free_bytes; /**< as in struct shmht_writer_opts */
    uint64_t generation;     /**< 0: 1 */
    const struct shmht_allocator *allocator; /**< for the handle; NULL: libc */
};

/**
 * @brief Create an array without values.
 * @param opts  n_ranks and stride_bytes must be set; together at most SHMHT_MAX_REGION_BYTES
 * @param out  the array, for writing
 * @param err  detail on failure, or NULL
 * @return 0, or as shmht_writer_create()
 * @threads MT-Safe.
 * @allocates the handle, and the object at its full size
 * @source SHMEMPMI, section V: "the value from rank r will be available at offset r * MaxLength".
 */
SHMHT_API int shmht_array_create(const struct shmht_array_opts *opts, struct shmht_array **out,
                                 struct shmht_error *err);

/**
 * @brief Set the value of a rank, once. A shorter one is padded with zero bytes: an array stores no
 *        lengths.
 * @param a      of shmht_array_create()
 * @param rank   0 … n_ranks - 1
 * @param value  len bytes
 * @param len    bytes, 0 … stride_bytes
 * @return 0; SHMHT_ERANK, SHMHT_EVALLEN, SHMHT_EEXIST, -EINVAL for a reader, -EPERM in a forked
 *         child
 * @threads one writer, any readers. A killed writer leaves the rank set whole, or not set.
 */
SHMHT_API int shmht_array_put(struct shmht_array *a, uint64_t rank, const void *value, size_t len);

/**
 * @brief Get what the array's readers attach with: the object's file descriptor (returned) and its
 *        description.
 * @param a  of shmht_array_create()
 * @param desc  the description of the array; NULL is allowed
 * @return as shmht_writer_share(); -EINVAL for a reader
 * @threads MT-Safe.
 */
SHMHT_API int shmht_array_share(const struct shmht_array *a, struct shmht_desc *desc);

/**
 * @brief Stop writing, as shmht_writer_destroy().
 * @param a  of shmht_array_create(); NULL is allowed
 * @threads as shmht_writer_destroy()
 */
SHMHT_API void shmht_array_destroy(struct shmht_array *a);

/**
 * @brief Attach to an array for reading.
 * @param desc  as for shmht_reader_attach()
 * @param fd    as for shmht_reader_attach()
 * @param opts  NULL: defaults
 * @param out  the array, for reading
 * @param err  which check failed, and on what; or NULL
 * @return as shmht_reader_attach()
 * @threads MT-Safe.
 */
SHMHT_API int shmht_array_attach(const struct shmht_desc *desc, int fd,
                                 const struct shmht_reader_opts *opts, struct shmht_array **out,
                                 struct shmht_error *err);

/**
 * @brief The value of a rank, in place.
 * @param a     the array
 * @param rank  0 … n_ranks - 1
 * @param value  stride_bytes bytes; `{NULL, 0}` if the call fails
 * @return 0, SHMHT_ENOENT (not set yet), SHMHT_ERANK
 * @threads MT-Safe, beside the writer too.
 * @cost two memory accesses; one is a bit in a line that 512 ranks share
 */
SHMHT_API int shmht_array_get(const struct shmht_array *a, uint64_t rank,
                              struct shmht_bytes *value);

/** An array's place, size and number of values. */
struct shmht_info_array {
    /** n_ranks * stride_bytes bytes, aligned to 4096: once all ranks are set, index them
     * directly */
    const void *values;
    uint64_t n_ranks;
    uint64_t stride_bytes;
    uint64_t n_set; /**< ranks that have a value */
    /** the object's size: n_ranks * stride_bytes, a bit a rank, and the header, in pages */
    uint64_t total_bytes;
    uint64_t generation;
    int32_t huge_errno; /**< why not all of it is in 2 MB pages: an errno, or 0 */
    uint32_t notes;     /**< SHMHT_NOTE_* */
};

/**
 * @brief Report an array's place, size and number of values.
 * @param a  the array
 * @param info  filled in
 * @return 0
 * @threads MT-Safe, beside the writer too.
 */
SHMHT_API int shmht_array_query(const struct shmht_array *a, struct shmht_info_array *info);

/**
 * @brief Detach, as shmht_reader_detach(). Pointers into the array become invalid.
 * @param a  of shmht_array_attach(); NULL is allowed
 * @threads no other thread may use a during this call or later
 */
SHMHT_API void shmht_array_detach(struct shmht_array *a);

/* ------------------------------------------------------------------ iteration, statistics */

/**
 * @brief The next pair, in the order of insertion (a value counts from the put that stored it).
 *
 * For a process that needs all pairs, not one key: a dump of the key-value space, or a copy of it.
 * At the end the call returns 0; after further puts it continues from there. A key that is updated
 * during the iteration may appear twice, the later value last; no key is left out that is not
 * deleted meanwhile.
 * @param r   the reader
 * @param it  where it is
 * @param key    in place
 * @param value  in place
 * @return 1: a pair; 0: no more now; SHMHT_ECORRUPT
 * @threads MT-Safe on distinct iterators, beside the writer too.
 * @cost sequential reading of the log
 */
SHMHT_API int shmht_reader_next(const struct shmht_reader *r, struct shmht_iter *it,
                                struct shmht_bytes *key, struct shmht_bytes *value);

/**
 * Where a table's bytes are. While the writer puts, counters may be a few puts apart from each
 * other.
 */
struct shmht_stats {
    uint64_t entries;    /**< keys */
    uint64_t slots;      /**< places in the present table; load is entries / slots */
    uint64_t generation; /**< of this table, when it was attached */
    /** generation of the table that the writer compacted this one into: this one stays readable,
     * and nothing is added to it. 0: none */
    uint64_t superseded;
    /** the object's size, which is the node's cost; the sum of the next six */
    uint64_t total_bytes;
    uint64_t header_bytes;
    uint64_t live_bytes;      /**< records that Gets find */
    uint64_t garbage_bytes;   /**< records that were replaced, deleted or not kept */
    uint64_t table_bytes;     /**< the present table */
    uint64_t old_table_bytes; /**< tables left behind by growth, and padding */
    uint64_t free_bytes;      /**< preallocated, for records to come */
    uint64_t max_bytes;       /**< the cap */
    uint64_t table_grows;     /**< times the table was rebuilt */
    uint64_t huge_bytes;      /**< bytes of total_bytes that this handle has in 2 MB pages */
    int32_t huge_errno;       /**< why not more: an errno, or 0 */
    uint32_t notes;           /**< SHMHT_NOTE_* */
};

/**
 * @brief Report a table's counts and bytes.
 * @param r  the reader, or the writer's view
 * @param stats  filled in
 * @return 0
 * @threads MT-Safe, beside the writer too. Makes one fstat().
 */
SHMHT_API int shmht_reader_stats(const struct shmht_reader *r, struct shmht_stats *stats);

/* ------------------------------------------------------------------ constants */

/** @name Flags of writers, readers and arrays
 * @{ */
#define SHMHT_NAMED     1u /**< create: a named object instead of a memfd */
#define SHMHT_KEEP_NAME 2u /**< create: do not unlink the name when the writer is destroyed */
/** 2 MB pages; where the kernel refuses them, a note in the statistics */
#define SHMHT_HUGE 4u
/** create: the table grows in shmht_writer_publish() alone */
#define SHMHT_DEFER 32u
/** attach: map all pages in use during the call; pages of later growth are mapped on demand */
#define SHMHT_POPULATE 8u
/** attach: accept a descriptor without F_SEAL_SHRINK, whose owner is trusted not to truncate it */
#define SHMHT_UNSEALED 16u
/** @} */

/** @name Duplicate policies: the effect of a put of an existing key (PMI leaves it undefined)
 * @{ */
#define SHMHT_DUP_REPLACE 0u /**< latest wins */
#define SHMHT_DUP_REJECT  1u /**< SHMHT_EEXIST */
#define SHMHT_DUP_KEEP    2u /**< first wins: SHMHT_PUT_KEPT */
/** @} */

/** @name What a put did (see shmht_put())
 * @{ */
#define SHMHT_PUT_NEW      0 /**< the key is new */
#define SHMHT_PUT_REPLACED 1 /**< the key existed, and has the new value */
#define SHMHT_PUT_KEPT     2 /**< the key existed, and keeps its value */
/** @} */

/** @name Hash functions by id, as in a region's header and description
 * @{ */
#define SHMHT_HASH_XXH3 1u /**< XXH3, 64 bits, with seed: the default */
/** FNV-1a, 64 bits, whose offset basis is XORed with the seed */
#define SHMHT_HASH_FNV1A  2u
#define SHMHT_HASH_CALLER 65536u /**< ids from here on are the caller's own functions */
/** @} */

/** @name Kinds of regions
 * @{ */
#define SHMHT_KIND_TABLE 1u
#define SHMHT_KIND_ARRAY 2u
/** @} */

/** @name Notes in statistics: requests that the kernel did not grant; not errors
 * @{ */
#define SHMHT_NOTE_NO_HUGE 1u /**< 2 MB pages refused; huge_errno has the reason */
/** kernel without F_SEAL_FUTURE_WRITE: only read-only descriptors and the file mode protect the
 * object */
#define SHMHT_NOTE_NO_SEALS    2u
#define SHMHT_NOTE_NO_POPULATE 4u /**< kernel without MADV_POPULATE_READ: pages come on demand */
/** @} */

/** @name Limits
 * @{ */
#define SHMHT_MAX_KEY_BYTES    65536u    /**< a key has 1 to this many bytes, any bytes */
#define SHMHT_MAX_VALUE_BYTES  16777216u /**< a value has 0 to this many bytes, any bytes */
#define SHMHT_MIN_REGION_BYTES 8192u     /**< smallest max_bytes */
#define SHMHT_MAX_REGION_BYTES (UINT64_C(1) << 38) /**< largest max_bytes: 256 GiB */
#define SHMHT_MAX_STRIDE_BYTES 16777216u           /**< largest value of an array */
/** Version of the layout in shared memory; a reader refuses any other version. */
#define SHMHT_LAYOUT_VERSION 1u
/** @} */

/**
 * Memory of handles, one block each. The allocator outlives the handles made with it. Blocks are
 * aligned as malloc() aligns them.
 */
struct shmht_allocator {
    void *(*realloc)(void *ctx, void *ptr, size_t bytes); /**< of NULL: allocates; required */
    void (*free)(void *ctx, void *ptr);
    void *ctx; /**< the functions' first argument */
};

/* ------------------------------------------------------------------ errors */

/** What failed when making or attaching to something. Written on failure alone. */
struct shmht_error {
    int code; /**< the function's result */
    /** the option, the field of the region's header or the step that failed: a constant such as
     * "max_bytes", "id" or "open" */
    const char *what;
    /** one sentence without a newline: `cannot open /dev/shm/x: No such file or directory` */
    char text[240];
};

/**
 * @brief Explain an error code.
 * @param code  a negative value returned by this library (or 0)
 * @return a constant phrase without a newline, never NULL; for `-errno` that of strerror(); for any
 *         other number "unknown error code"
 *
 * MT-Safe. Allocates nothing.
 */
SHMHT_API const char *shmht_strerror(int code);

/** @brief Release of the library in use, such as "0.1.0". MT-Safe. */
SHMHT_API const char *shmht_version(void);

/**
 * @name Error codes
 *  - Functions return 0 or more on success, `-errno` for a system cause, or one of these.
 *  - The values never change.
 *  - An option struct is refused with -EINVAL if its size is below this release's or above 4,096
 *    bytes, or if a byte that this release does not know is not 0.
 * @{
 */
#define SHMHT_ENOENT (-22001) /**< no such key, or no value at this rank yet */
/** key already there and the policy is to reject, or rank already set */
#define SHMHT_EEXIST (-22002)
/** at the byte cap (max_bytes) or the end of the caller's memory */
#define SHMHT_EFULL   (-22003)
#define SHMHT_EKEYLEN (-22004) /**< key is empty or longer than SHMHT_MAX_KEY_BYTES */
/** value is longer than SHMHT_MAX_VALUE_BYTES, or than the array's stride */
#define SHMHT_EVALLEN (-22005)
/** region or block contradicts itself: an offset, length or count out of its bounds */
#define SHMHT_ECORRUPT (-22006)
#define SHMHT_EMAGIC   (-22007) /**< not a region (or block, or description) of this library */
#define SHMHT_EVERSION (-22008) /**< the layout has another version */
#define SHMHT_EORDER   (-22009) /**< written in the other byte order */
#define SHMHT_EKIND    (-22010) /**< an array where a table was expected, or the reverse */
#define SHMHT_ETRUNC   (-22011) /**< shorter than its header states */
/** hash id unknown here, or this hash computes other values than the writer's */
#define SHMHT_EHASH (-22012)
/** too many keys with the same hash: SHMHT_MAX_PROBE lines are full */
#define SHMHT_EPROBE (-22013)
/** descriptor without F_SEAL_SHRINK: its owner could truncate it under us */
#define SHMHT_EUNSEALED (-22014)
/** named object belongs to another user, or others may write it */
#define SHMHT_EOWNER (-22015)
/** region is not the one that is described (by id or generation) */
#define SHMHT_ESTALE (-22016)
/** a client has locked the new object before its writer could */
#define SHMHT_EBUSY  (-22017)
#define SHMHT_ELIMIT (-22018) /**< region is larger than the limit this reader sets */
/** not an absolute path of letters, digits, `.`, `_`, `-`, `/`, or too long */
#define SHMHT_ENAME  (-22019)
#define SHMHT_ENOBUF (-22020) /**< the caller's buffer is too small */
/** /proc/self/fd is needed for a read-only descriptor and is not there */
#define SHMHT_EPROC (-22021)
#define SHMHT_ERANK (-22022) /**< rank beyond the array */
/** region lies in the caller's memory: it has no descriptor, and nothing to grow into */
#define SHMHT_EFIXED (-22023)
/** @} */

#ifdef __cplusplus
}
#endif
#endif /* SHMHT_H */
