/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file shmht.h
 * @brief A hash table in shared memory: one process writes, every process of the node reads in
 *        place.
 *
 * A *table* is one memory object: a sealed memfd, or a named file where file descriptors cannot
 * travel. One *writer* puts pairs: a key and a value, each of any bytes. Any number of *readers*,
 * in any process, map the object read-only. An *array* is a table of values indexed by rank.
 *
 *  - A Get is wait-free, also while the writer puts, updates, merges and grows the table. It takes
 *    no lock and copies nothing. It makes no system call, except one fstat() after the object has
 *    grown.
 *  - A value that a Get finds points into the mapping. It does not change, and stays valid until
 *    the reader detaches or follows a compacted table.
 *  - Readers do not trust the shared memory (the *region*): each Get checks offsets and lengths.
 *  - A killed writer leaves nothing to repair.
 *  - Replaced and deleted pairs keep their space until the writer compacts the table into a new
 *    object. Readers follow it there.
 *  - In a *Fence*, the servers of several nodes exchange their new pairs as *blocks*. Each server
 *    merges the blocks of the others into its own table.
 *
 * A table from both sides:
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
 * function that fails returns a negative code: see the end of this header. Passing NULL is
 * undefined unless documented as allowed.
 *
 * @source S. Chakraborty, H. Subramoni, J. Perkins, D. K. Panda, "SHMEMPMI - Shared Memory based
 * PMI for Improved Performance and Scalability", CCGrid 2016: two regions, one writer and many
 * readers (III, IV-C), Allgather (V), the description in the Fence's response (VI). The table's
 * layout, growth beside readers, validation, blocks and compaction are ours.
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

/** Borrowed bytes. `{NULL, 0}` is an absent value; an empty value has a pointer. */
struct shmht_bytes {
    const void *ptr;
    size_t len; /**< bytes */
};

/* ------------------------------------------------------------------ write a table */

/**
 * A caller's own hash function. It must return the same 64 bits for the same key and seed in every
 * process that opens the table.
 */
typedef uint64_t shmht_hash_fn(const void *key, size_t len, uint64_t seed);

/** How to create a table. A member of 0 has its default; max_bytes has none and must be set. */
struct shmht_writer_opts {
    size_t size; /**< sizeof(struct shmht_writer_opts) */
    /** byte cap of the object, tables and garbage included. The call reserves this much address
     * space, but no memory */
    uint64_t max_bytes;
    /** entries that the first table holds before it grows; 0: 56 */
    uint64_t expected_entries;
    uint32_t flags;      /**< SHMHT_NAMED, SHMHT_KEEP_NAME, SHMHT_HUGE, SHMHT_DEFER */
    uint32_t duplicates; /**< SHMHT_DUP_*; default SHMHT_DUP_REPLACE */
    /** path of a named object, which must not exist; NULL: /dev/shm/shmht- and 128 random bits */
    const char *name;
    uint32_t hash_id; /**< SHMHT_HASH_* or the id of `hash`; 0: SHMHT_HASH_XXH3 */
    /** load factor (used slots / slots), 10 to 90 percent; 0: 70. When it is reached, the table
     * grows to twice its size. A table that cannot grow is filled to 90 */
    uint32_t max_load_percent;
    shmht_hash_fn *hash; /**< the caller's own, for ids from SHMHT_HASH_CALLER on; NULL otherwise */
    uint64_t seed;       /**< seed of the hash; 0: random */
    /** bytes that must stay available on the node and in the memory cgroup; 0: 16 MiB. If growth
     * would leave less, the put fails with -ENOMEM. The check is made once per MiB of growth */
    uint64_t min_free_bytes;
    /** number of the table; 0: 1. shmht_writer_compact() gives the new table the next number */
    uint64_t generation;
    const struct shmht_allocator *allocator; /**< for the handle; NULL: libc */
    /** NULL, or memory for the table itself: max_bytes bytes, aligned to 64. The library then
     * creates no object. You share the memory by your own means, or not at all */
    void *region;
};

/**
 * @brief Create an empty table and become its writer.
 *
 *  - The object is a memfd of mode 0400. The call maps it, then seals it (SHRINK, FUTURE_WRITE,
 *    SEAL). With SHMHT_NAMED the object is a file of mode 0400 instead.
 *  - The call reserves max_bytes of address space.
 *  - The object grows in steps of 1/64 of its present size (64 KiB to 64 MiB). Each step is
 *    preallocated: on a full node or tmpfs shmht_put() fails, without SIGBUS.
 *  - The table has 32-bit offsets. So records are aligned to 4 bytes if max_bytes is at most 16
 *    GiB, to 8 up to 32 GiB, and so on.
 *  - A child of fork() does not inherit the mapping. In the child, calls with the parent's writer
 *    fail with -EPERM, and a Get through shmht_writer_view() faults. None of this holds for a table
 *    in the caller's memory (region).
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
 * @param value      value_len bytes, any bytes; copied. May be NULL if value_len is 0. The library
 *                   adds no NUL: if readers need one, include it in value_len
 * @param value_len  bytes, 0 … SHMHT_MAX_VALUE_BYTES
 *
 * With the policy SHMHT_DUP_REPLACE, a put of the value that the key already has stores nothing. It
 * returns SHMHT_PUT_REPLACED.
 * @return SHMHT_PUT_NEW, SHMHT_PUT_REPLACED or SHMHT_PUT_KEPT; SHMHT_EEXIST, SHMHT_EKEYLEN,
 *         SHMHT_EVALLEN, SHMHT_EFULL, SHMHT_EPROBE, -ENOSPC, -ENOMEM, -EFBIG (RLIMIT_FSIZE), -EPERM
 *         (a forked child). After an error the pairs of the table are as before.
 * @threads one writer, any readers. A writer killed here leaves the old state or the new one.
 * @cost amortized O(1); a system call only when the object grows
 * @source SHMEMPMI, Algorithms 1 and 3; the layout of the table is ours
 */
SHMHT_API int shmht_put(struct shmht_writer *w, const void *key, size_t key_len, const void *value,
                        size_t value_len);

/**
 * @brief Delete a pair.
 *
 *  - Gets that begin later do not find the key. Pointers to its value stay valid.
 *  - The record keeps its space until shmht_writer_compact().
 *  - The slot in the table stays used until the table grows, or until a put of the same key takes
 *    it.
 *  - A block contains no deletions: each server deletes from its own table.
 * @param w        the writer
 * @param key      key_len bytes
 * @param key_len  bytes, 1 … SHMHT_MAX_KEY_BYTES
 * @return 0; SHMHT_ENOENT: no such key; SHMHT_EKEYLEN; -EPERM (a forked child)
 * @threads one writer, any readers. If a writer is killed here, Gets may find the pair or not. If
 *          they do not, shmht_reader_next() may still return it.
 * @cost as shmht_get(). The call needs no memory, so it also works at the cap
 * @source ours
 */
SHMHT_API int shmht_delete(struct shmht_writer *w, const void *key, size_t key_len);

#define SHMHT_MAX_NAME_BYTES 192u /**< path of a named object, with its NUL */

/**
 * The description of a table or an array: what a reader needs beside the file descriptor. Pass it
 * on as text (shmht_desc_format()), or with the file descriptor (shmht_fd_send()).
 */
struct shmht_desc {
    uint32_t kind;    /**< SHMHT_KIND_* */
    uint32_t layout;  /**< SHMHT_LAYOUT_VERSION of the writer */
    uint32_t hash_id; /**< SHMHT_HASH_* of a table; 0 for an array */
    uint32_t uid;     /**< owner of a named object */
    /** random number in the region's header: attaching to another region fails with SHMHT_ESTALE */
    uint64_t id;
    uint64_t generation; /**< of the table or array */
    uint64_t max_bytes;  /**< byte cap: a reader maps up to it */
    /** path of a named object; empty: the object has no name, and readers need its descriptor */
    char name[SHMHT_MAX_NAME_BYTES];
};

/**
 * @brief Get what readers attach with: the object's file descriptor (returned) and its description.
 * @param w  the writer
 * @param desc  the description of the table; NULL is allowed
 * @return the read-only file descriptor of the object, close-on-exec; SHMHT_EFIXED (the table is in
 *         the caller's memory); -EPERM (with desc, in a forked child)
 *
 * The descriptor belongs to the writer. Send it with shmht_fd_send(), or let children inherit a
 * duplicate.
 * @threads one writer, any readers
 */
SHMHT_API int shmht_writer_share(const struct shmht_writer *w, struct shmht_desc *desc);

/**
 * @brief Stop writing: unmap, close, and unlink the name (unless SHMHT_KEEP_NAME).
 *
 * Attached readers continue. With SHMHT_DEFER and SHMHT_KEEP_NAME the call first publishes, as
 * shmht_writer_publish() does.
 * @param w  NULL is allowed
 * @threads one thread, of the process that created the table. In a forked child the call frees only
 *          the child's descriptors and handle; the name stays
 */
SHMHT_API void shmht_writer_destroy(struct shmht_writer *w);

/* ------------------------------------------------------------------ read it */

/** How to attach. Zero means the default. */
struct shmht_reader_opts {
    size_t size;         /**< sizeof(struct shmht_reader_opts) */
    uint32_t flags;      /**< SHMHT_POPULATE, SHMHT_HUGE, SHMHT_UNSEALED */
    uint32_t hash_id;    /**< id of `hash` */
    shmht_hash_fn *hash; /**< the caller's own, for tables with this hash_id; NULL: none */
    /** refuse a region with a larger byte cap, since the reader maps up to the cap; 0:
     * SHMHT_MAX_REGION_BYTES */
    uint64_t max_bytes;
    const struct shmht_allocator *allocator; /**< for the handle; NULL: libc */
    /** NULL: the table is in a memory object. Otherwise the address of the table, aligned to 64
     * bytes, in memory that the caller has mapped and keeps readable. Not for arrays */
    const void *region;
    size_t region_bytes; /**< bytes from `region` on: the reader accesses nothing outside them */
};

/**
 * @brief Attach to a table for reading.
 *
 *  - The call first checks how far the object can be trusted. A file descriptor must have
 *    F_SEAL_SHRINK, unless SHMHT_UNSEALED is set. A file opened by name must have the right owner
 *    and mode.
 *  - It then checks size, magic, version, byte order and bounds, and that this process computes the
 *    same hash as the writer.
 *  - It maps the object read-only up to its byte cap, so that later growth needs no new mapping.
 * @param desc  from the writer. NULL: attach by fd alone, and check neither id nor generation
 * @param fd    the object, or -1: open desc->name. The caller keeps fd; the reader uses a duplicate
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
 * @param value  the value; valid and unchanging until r is detached or follows another table.
 *               `{NULL, 0}` if the call fails
 * @return 0, SHMHT_ENOENT, SHMHT_EKEYLEN or SHMHT_ECORRUPT
 * @threads MT-Safe, beside the writer too.
 * @cost Wait-free. A Get of a pair of 48 bytes reads one cache line of the table, and one or two of
 *       the record; a Get of an absent key reads one line. No allocation. No system call, except
 *       one fstat() when the object has grown since this handle last looked.
 * @source SHMEMPMI, Algorithm 2; the layout of the table is ours
 */
SHMHT_API int shmht_get(const struct shmht_reader *r, const void *key, size_t key_len,
                        struct shmht_bytes *value);

/**
 * @brief Look many keys up. The memory accesses of SHMHT_BATCH keys are in flight together.
 * @param r       the reader
 * @param keys    array of n keys
 * @param n       any number
 * @param values  array of n, in the order of the keys; `{NULL, 0}` for an absent key
 * @return the number of keys found; SHMHT_ECORRUPT if any look-up met corruption; otherwise
 *         SHMHT_EKEYLEN if any key has a bad length. After an error, the keys that caused it have
 *         the value `{NULL, 0}`, and all other keys are answered
 * @threads as shmht_get()
 * @cost from 1e6 entries on, a fraction of the cost of single Gets; in a table that fits the cache,
 *       the same cost
 */
SHMHT_API ssize_t shmht_get_many(const struct shmht_reader *r, const struct shmht_bytes *keys,
                                 size_t n, struct shmht_bytes *values);

/**
 * @brief Look a key up, and wait until the writer has put it.
 *
 * The call sleeps in the kernel (on a futex in the region) while the key is absent. The writer
 * puts, then calls shmht_writer_wake(). The library does not notice that a writer has died: set a
 * time limit if that may happen.
 * @param r           the reader
 * @param key         key_len bytes
 * @param key_len     bytes, 1 … SHMHT_MAX_KEY_BYTES
 * @param timeout_ns  nanoseconds; 0: do not sleep; negative: no limit
 * @param value  as shmht_get()
 * @return 0; -ETIMEDOUT (still absent); SHMHT_ESTALE (absent, and the writer has compacted the
 *         table: call shmht_reader_follow()); SHMHT_EKEYLEN, SHMHT_ECORRUPT; -ENOSYS (the kernel
 *         has no futex)
 * @threads MT-Safe, beside the writer too. Signals do not end the wait.
 * @cost as shmht_get() if the key is there
 * @source PMI's waiting Get, without a server; ours
 */
SHMHT_API int shmht_get_wait(const struct shmht_reader *r, const void *key, size_t key_len,
                             int64_t timeout_ns, struct shmht_bytes *value);

/**
 * @brief Wake the readers that wait in shmht_get_wait(): each looks for its key again.
 *
 * Call it once after a batch of puts: shmht_put() wakes nobody. With SHMHT_DEFER, call it after
 * shmht_writer_publish().
 * @param w  the writer
 * @return how many sleeping readers were woken; -EPERM (a forked child), -ENOSYS
 * @threads one writer, any readers
 * @cost one system call, even if no reader sleeps: a reader's mapping is read-only, so it cannot
 *       tell the writer that it sleeps
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
 *  1. A Get finds the result of the latest put or delete of its key that happens-before it (through
 *     a message or a Fence), or of a later one. A Get that runs at the same time as an update finds
 *     the old value or the new one, whole.
 *  2. A Get is wait-free: it never blocks on the writer, never retries, and reads at most
 *     SHMHT_MAX_PROBE table lines.
 *  3. A pointer that a Get returned stays valid, with the same bytes, until the handle is closed or
 *     follows another table. Records never move or change, not even deleted ones.
 *  4. A writer may be killed at any point. Readers then find every earlier put. They find the
 *     interrupted put whole or not at all. In an interrupted merge this holds for each pair. An
 *     interrupted delete has happened or not. Reading needs no repair. To continue writing, create
 *     a table, and shmht_put() into it each pair that shmht_reader_next() returns.
 *  5. A region is untrusted memory: every Get checks offsets and lengths. An altered or hostile
 *     region gives SHMHT_ECORRUPT or a wrong value. It never causes an access outside the mapping
 *     or an endless loop. One exception, SIGBUS, is among the caveats.
 *
 * Caveats:
 *  - Readers cannot write to a sealed memfd through the descriptor that they get. A process with
 *    the writer's uid, or root, can reopen the memfd through /proc and make it larger.
 *  - A process with the uid of a *named* object's owner can change the object's mode, and then
 *    write or truncate it. The owner of an object that readers attached with SHMHT_UNSEALED can
 *    truncate it too. Readers of a truncated object get SIGBUS.
 *  - Data is in the byte order of its writer. Regions and blocks of the other byte order are
 *    refused.
 *  - Readers know the seed of the hash: it is in the header. A reader can therefore choose keys
 *    whose hashes have equal upper bits, and have the writer put them. Such keys are cheap to find
 *    (2 million hashes, a fraction of a second). After about 8,192 of them, puts of keys with
 *    nearby hashes fail with SHMHT_EPROBE, and a Get of an absent key near them reads up to
 *    SHMHT_MAX_PROBE lines. Keys in the table stay readable. shmht_writer_compact() removes the
 *    problem: the new table has a new seed.
 *  - Only shmht_writer_compact() returns the space of replaced pairs, deleted pairs and old tables.
 *    A deleted key also keeps its slot, which counts as used when the writer decides to grow the
 *    table. The larger table has no slots of deleted keys.
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
 * @param sock  a blocking socket: stream, seqpacket or datagram
 * @param fd    from shmht_writer_share() or shmht_array_share()
 * @param desc  from the same call
 * @return 0, SHMHT_ENAME or -errno
 * @threads MT-Safe.
 */
SHMHT_API int shmht_fd_send(int sock, int fd, const struct shmht_desc *desc);

/**
 * @brief Receive a file descriptor and its description from shmht_fd_send().
 * @param sock  the other end
 * @param desc  the description that came with it
 * @return a file descriptor, close-on-exec, which the caller closes; -EPIPE (the other end is
 *         closed); an error of shmht_desc_parse(); SHMHT_EMAGIC also if the message has no file
 *         descriptor; -errno
 * @threads MT-Safe.
 */
SHMHT_API int shmht_fd_recv(int sock, struct shmht_desc *desc);

/** Bytes of shmht_desc_format()'s longest text, with NUL. */
#define SHMHT_DESC_TEXT_BYTES 320u

/**
 * @brief Write a description as text, which PMI-1 and PMI-2 can carry as the value of a field.
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
 * @param text  len bytes, not trusted; need not end with NUL
 * @param len   bytes
 * @param desc  filled in
 * @return 0; SHMHT_EMAGIC (not a description), SHMHT_EVERSION, SHMHT_ECORRUPT (a field),
 *         SHMHT_ENAME
 * @threads MT-Safe.
 */
SHMHT_API int shmht_desc_parse(const char *text, size_t len, struct shmht_desc *desc);

/* ------------------------------------------------------------------ the writer's other calls */

/**
 * @brief Get a reader of the writer's own table (its *view*), for every call that takes a reader.
 *
 * Other threads of this process may use it while the writer's thread writes. Do not detach it.
 * @return a reader that lives as long as the writer
 * @threads one writer, any readers
 */
SHMHT_API struct shmht_reader *shmht_writer_view(struct shmht_writer *w);

/**
 * @brief Copy all pairs into a new table, without the replaced and deleted ones.
 *
 * For a server that runs for long and whose pairs are replaced or deleted: compaction returns the
 * memory of old pairs.
 *
 *  - The new table has the next generation number. It has room for all present pairs from the
 *    beginning, so it does not grow while they are copied.
 *  - With SHMHT_DEFER the call first publishes, as shmht_writer_publish() does.
 *  - The pairs of the old table do not change. Readers, and you, can still Get from it. Do not
 *    write to it after success.
 *  - At its end the call stores the new generation in the old table (`superseded` in its
 *    statistics), and wakes the readers that wait in shmht_get_wait().
 *  - Send the new table's file descriptor and description to the readers, then destroy the old
 *    writer. The old table's memory is freed when its last reader has followed or detached.
 * @param w     the old table
 * @param opts  as for shmht_writer_create(), with these differences. Hash and duplicate policy are
 *              always the old table's. max_load_percent 0: as in the old table. generation 0: the
 *              next one. expected_entries: raised to the present number of pairs. With NULL the
 *              new table has the old one's options and a new random seed. NULL fails with -EINVAL
 *              if the old table is in the caller's memory
 * @param out  the writer of the new table
 * @param err  detail on failure, or NULL
 * @return 0; as shmht_writer_create(); as shmht_writer_publish(); -EINVAL also if the new table
 *         would overlap the old one in the caller's memory (region)
 * @threads one writer, any readers. A writer killed here leaves the old table.
 * @cost O(entries)
 */
SHMHT_API int shmht_writer_compact(struct shmht_writer *w, const struct shmht_writer_opts *opts,
                                   struct shmht_writer **out, struct shmht_error *err);

/**
 * @brief Move a reader from a compacted table to the new one.
 *
 * The call attaches to the new table with the same options, then detaches from the old one.
 * Pointers that this reader's Gets returned become invalid, and so do iterators of the old table.
 * @param r     from shmht_reader_attach() to an object. After a failure r still reads the old table
 * @param desc  as for shmht_reader_attach()
 * @param fd    as for shmht_reader_attach()
 * @param err  which check failed, and on what; or NULL
 * @return as shmht_reader_attach(); SHMHT_ESTALE also if the table's generation is not higher than
 *         the old one's; -EINVAL also if the reader's table is in the caller's memory, or r is a
 *         writer's view
 * @threads no other thread may use r during this call
 * @source ours
 */
SHMHT_API int shmht_reader_follow(struct shmht_reader *r, const struct shmht_desc *desc, int fd,
                                  struct shmht_error *err);

/**
 * @name Deferred growth
 *
 * Each growth leaves the smaller table behind in the object, and the last table may be twice as
 * large as needed. With a million small pairs this waste is a third of the object's memory.
 *
 * A writer with SHMHT_DEFER does not grow a full table in the object. It copies the table into
 * private memory, and grows the copy. The records of further pairs still go into the object.
 * shmht_writer_publish(), for example at the end of a Fence, makes one table of the right size in
 * the object, and frees the private one.
 *
 *  - Until the writer publishes, readers and the writer's view find only the pairs of the object's
 *    present table, with their latest values. shmht_writer_get() finds all pairs.
 *  - shmht_reader_next() and the counters of shmht_reader_stats() include unpublished pairs.
 *  - If the writer is killed before it publishes, Gets never find the unpublished pairs.
 *  - A private table takes 9 to 12 bytes an entry. While it grows, the previous private table is
 *    held as well.
 * @{
 */
/**
 * @brief Publish all pairs to the readers.
 *
 * The call makes one new table in the object. The new table has twice as many lines as the present
 * one, if all pairs fit into that many lines and the object has room for them. Otherwise it has as
 * many lines as the pairs need at max_load_percent.
 *
 * With SHMHT_DEFER, tables in the object are filled to max_load_percent + 10, at most 90 %. So at
 * the default of 70 % a table sized for its pairs has room for one seventh more pairs.
 * @param w  the writer. Without SHMHT_DEFER, or without unpublished pairs, the call is a no-op
 * @return 0; -EPERM (a forked child); SHMHT_EFULL, -ENOSPC, -ENOMEM, -EFBIG, SHMHT_EPROBE: nothing
 *         has changed, and you may repeat the call
 * @threads one writer, any readers. If the writer is killed here, readers find the old table or the
 *          new one.
 * @cost O(entries); O(1) if no pair is unpublished
 */
SHMHT_API int shmht_writer_publish(struct shmht_writer *w);

/**
 * @brief Look a key up among all pairs, published or not.
 * @param w        the writer
 * @param key      key_len bytes
 * @param key_len  bytes
 * @param value  the value; valid and unchanging until w is destroyed. `{NULL, 0}` if the call fails
 * @return as shmht_get(); -EPERM (a forked child)
 * @threads the writer's thread only
 */
SHMHT_API int shmht_writer_get(const struct shmht_writer *w, const void *key, size_t key_len,
                               struct shmht_bytes *value);

/** @brief 1 if there are unpublished pairs, else 0. For the writer's thread only. */
SHMHT_API int shmht_writer_has_unpublished(const struct shmht_writer *w);
/** @} */

/**
 * @brief Grow the table for n_entries at once; with SHMHT_DEFER, the private table.
 * @param w          the writer
 * @param n_entries  in all, present entries included
 * @return 0, also if the table is large enough; -EPERM (a forked child); SHMHT_EFULL (no room for
 *         the table, or to publish it), -ENOSPC, -ENOMEM, -EFBIG, SHMHT_EPROBE: nothing has changed
 * @threads one writer, any readers
 */
SHMHT_API int shmht_writer_reserve(struct shmht_writer *w, uint64_t n_entries);

/* ------------------------------------------------------------------ a Fence: blocks of pairs */

/**
 * A place in a table's *log*, which has the records in the order of insertion. Begin with `{0}`.
 * Use an iterator with one table only, and leave its member to the library.
 */
struct shmht_iter {
    uint64_t pos;
};

/**
 * @brief Make a block of the pairs that follow a place in the log.
 *
 * In a Fence each server exports its new pairs, sends the blocks to the servers of other nodes, and
 * merges theirs.
 *
 * A block is a header of SHMHT_BLOCK_HEADER_BYTES and pairs in the form of the log, in the byte
 * order of the exporting process. It may lie at any address.
 * @param r    a reader, or the writer's view
 * @param it   where to begin. The call moves it behind the last pair of the block. Keep it: the
 *             next call, or the next Fence, continues from there
 * @param buf  memory for the block
 * @param cap  bytes of buf. A block has as many pairs as fit
 * @return bytes of the block; 0 (no further pair); SHMHT_ENOBUF (cap is too small for the next
 *         pair); SHMHT_ECORRUPT
 * @threads MT-Safe on distinct iterators, beside the writer too.
 */
SHMHT_API ssize_t shmht_reader_export(const struct shmht_reader *r, struct shmht_iter *it,
                                      void *buf, size_t cap);

/** What a merge did with the pairs of a block. */
struct shmht_merged {
    uint64_t n_new;      /**< pairs whose keys were new */
    uint64_t n_replaced; /**< pairs whose values replaced earlier ones */
    uint64_t n_kept; /**< pairs skipped: SHMHT_DUP_KEEP or SHMHT_DUP_REJECT, and the key exists */
};

/**
 * @brief Put all pairs of a block, in its order, as shmht_put() would.
 *
 * The call checks the whole block, then makes room for all of its pairs, then puts them one after
 * the other. Under SHMHT_DUP_REJECT and SHMHT_DUP_KEEP it skips pairs whose keys exist, and counts
 * them in n_kept.
 * @param w      the writer
 * @param block  from shmht_reader_export() of any server, any alignment; not trusted
 * @param bytes  exactly the bytes of the block
 * @param merged  filled in on success; may be NULL
 * @return 0; -EPERM (a forked child); SHMHT_EMAGIC, SHMHT_EVERSION, SHMHT_EORDER, SHMHT_ETRUNC,
 *         SHMHT_ECORRUPT, SHMHT_EFULL, -ENOSPC, -ENOMEM, -EFBIG: the pairs of the table are as
 *         before; SHMHT_EPROBE: a pair found no free slot within SHMHT_MAX_PROBE lines. Earlier
 *         pairs of the block may be in the table already. Call shmht_writer_compact() (the new
 *         table has another seed), then merge the block again
 * @threads one writer, any readers. If the writer is killed here, some of the pairs are in the
 *          table.
 * @source SHMEMPMI, section IV-B: "the Fence operation is equivalent to merging multiple hash
 *         tables into one".
 */
SHMHT_API int shmht_writer_merge(struct shmht_writer *w, const void *block, size_t bytes,
                                 struct shmht_merged *merged);

#define SHMHT_BLOCK_HEADER_BYTES 32u /**< bytes of an empty block */

/* ------------------------------------------------------------------ arrays: values by rank */

/** How to create an array. A member of 0 has its default; n_ranks and stride_bytes must be set. */
struct shmht_array_opts {
    size_t size;      /**< sizeof(struct shmht_array_opts) */
    uint64_t n_ranks; /**< values, 1 or more; the object has its final size from the beginning */
    uint32_t stride_bytes;   /**< bytes of each value, 1 … SHMHT_MAX_STRIDE_BYTES */
    uint32_t flags;          /**< create: SHMHT_NAMED, SHMHT_KEEP_NAME, SHMHT_HUGE */
    const char *name;        /**< as in struct shmht_writer_opts */
    uint64_t min_free_bytes; /**< as in struct shmht_writer_opts */
    uint64_t generation;     /**< number of the array, for its description; 0: 1 */
    const struct shmht_allocator *allocator; /**< for the handle; NULL: libc */
};

/**
 * @brief Create an array without values.
 * @param opts  n_ranks and stride_bytes must be set; the object has at most SHMHT_MAX_REGION_BYTES
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
 * @brief Set the value of a rank, once. The call pads a value shorter than stride_bytes with zero
 *        bytes: an array stores no lengths.
 * @param a      of shmht_array_create()
 * @param rank   0 … n_ranks - 1
 * @param value  len bytes
 * @param len    bytes, 0 … stride_bytes
 * @return 0; SHMHT_ERANK, SHMHT_EVALLEN, SHMHT_EEXIST, -EINVAL for a reader, -EPERM in a forked
 *         child
 * @threads one writer, any readers. If the writer is killed here, the rank has the whole value or
 *          none.
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

/** An array's address, size and number of values. */
struct shmht_info_array {
    /** n_ranks * stride_bytes bytes, aligned to 4096. Once all ranks are set, you may index this
     * array directly */
    const void *values;
    uint64_t n_ranks;
    uint64_t stride_bytes;
    uint64_t n_set; /**< ranks that have a value */
    /** the object's size: header, n_ranks * stride_bytes and a bit a rank, rounded up to pages */
    uint64_t total_bytes;
    uint64_t generation;
    int32_t huge_errno; /**< why not all bytes are in 2 MB pages: an errno, or 0 */
    uint32_t notes;     /**< SHMHT_NOTE_* */
};

/**
 * @brief Report an array's address, size and number of values.
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
 * @brief Get the next pair, in the order of insertion. An updated key has the place of its latest
 *        put.
 *
 * For a process that needs all pairs, for example to dump or copy the key-value space. After the
 * last pair the call returns 0. After further puts it returns the new pairs. If a key is updated
 * during the iteration, it may appear twice; the later value comes last. Every key that is not
 * deleted during the iteration appears.
 * @param r   the reader
 * @param it  the place of the iteration; the call moves it
 * @param key    in place
 * @param value  in place
 * @return 1 (a pair), 0 (no more now), SHMHT_ECORRUPT
 * @threads MT-Safe on distinct iterators, beside the writer too.
 * @cost sequential reading of the log
 */
SHMHT_API int shmht_reader_next(const struct shmht_reader *r, struct shmht_iter *it,
                                struct shmht_bytes *key, struct shmht_bytes *value);

/**
 * What a table's bytes are used for. While the writer puts, counters may be a few puts apart from
 * each other.
 */
struct shmht_stats {
    uint64_t entries;    /**< keys */
    uint64_t slots;      /**< slots of the present table, used or not */
    uint64_t generation; /**< of this table, when it was attached */
    /** 0, or the generation of the table that the writer compacted this one into. This table then
     * stays readable, but the writer adds nothing to it */
    uint64_t superseded;
    /** the object's size, which is what it costs the node: the sum of the next six members */
    uint64_t total_bytes;
    uint64_t header_bytes;
    uint64_t live_bytes;      /**< records that Gets find */
    uint64_t garbage_bytes;   /**< records that were replaced or deleted */
    uint64_t table_bytes;     /**< the present table */
    uint64_t old_table_bytes; /**< tables left behind by growth, and padding */
    uint64_t free_bytes;      /**< preallocated, for records to come */
    uint64_t max_bytes;       /**< the cap */
    uint64_t table_grows;     /**< times that the table has grown */
    uint64_t huge_bytes;      /**< bytes of total_bytes that this handle has in 2 MB pages */
    int32_t huge_errno;       /**< why huge_bytes is not higher: an errno, or 0 */
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
/** create, attach: request 2 MB pages. If the kernel refuses, the statistics have a note */
#define SHMHT_HUGE 4u
/** create: the table in the object grows only in shmht_writer_publish() */
#define SHMHT_DEFER 32u
/** attach: map all pages in use during the call; pages of later growth are mapped on demand */
#define SHMHT_POPULATE 8u
/** attach: accept a descriptor without F_SEAL_SHRINK. You trust the object's owner not to truncate
 * it: that would cause SIGBUS here */
#define SHMHT_UNSEALED 16u
/** @} */

/** @name Duplicate policies: the effect of a put of an existing key (PMI leaves it undefined)
 * @{ */
#define SHMHT_DUP_REPLACE 0u /**< the latest value wins */
#define SHMHT_DUP_REJECT  1u /**< the put fails with SHMHT_EEXIST */
#define SHMHT_DUP_KEEP    2u /**< the first value wins: the put returns SHMHT_PUT_KEPT */
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

/** @name Notes in statistics: what the kernel did not grant. They are not errors
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
 * Where handles, and private tables (SHMHT_DEFER), get their memory. The allocator must outlive the
 * handles made with it, and align blocks as malloc() does. Both functions are required.
 */
struct shmht_allocator {
    void *(*realloc)(void *ctx, void *ptr, size_t bytes); /**< with ptr NULL it allocates */
    void (*free)(void *ctx, void *ptr);
    void *ctx; /**< the functions' first argument */
};

/* ------------------------------------------------------------------ errors */

/** What failed in a call that creates, attaches, follows or compacts. Written only on failure. */
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
 * @return a constant phrase without a newline, never NULL: for `-errno` that of strerror(), for an
 *         unknown number "unknown error code"
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
 *  - A call refuses an option struct with -EINVAL in three cases: `size` is below that of this
 *    release; `size` is above 4,096; a byte beyond the members of this release is not 0.
 * @{
 */
#define SHMHT_ENOENT (-22001) /**< no such key, or no value at this rank yet */
/** the key exists and the policy is SHMHT_DUP_REJECT; or the rank is already set */
#define SHMHT_EEXIST (-22002)
/** at the byte cap (max_bytes) or the end of the caller's memory */
#define SHMHT_EFULL   (-22003)
#define SHMHT_EKEYLEN (-22004) /**< key is empty or longer than SHMHT_MAX_KEY_BYTES */
/** value is longer than SHMHT_MAX_VALUE_BYTES, or than the array's stride */
#define SHMHT_EVALLEN (-22005)
/** region, block or description contradicts itself: an offset, length or count is out of bounds */
#define SHMHT_ECORRUPT (-22006)
#define SHMHT_EMAGIC   (-22007) /**< not a region (or block, or description) of this library */
#define SHMHT_EVERSION (-22008) /**< the layout has another version */
#define SHMHT_EORDER   (-22009) /**< written in the other byte order */
#define SHMHT_EKIND    (-22010) /**< an array where a table was expected, or the reverse */
#define SHMHT_ETRUNC   (-22011) /**< shorter than its header states */
/** the hash id is unknown here, or this hash computes other values than the writer's */
#define SHMHT_EHASH (-22012)
/** too many keys with the same hash: SHMHT_MAX_PROBE lines are full */
#define SHMHT_EPROBE (-22013)
/** descriptor without F_SEAL_SHRINK: its owner could truncate the object while it is mapped */
#define SHMHT_EUNSEALED (-22014)
/** named object belongs to another user, or others may write it */
#define SHMHT_EOWNER (-22015)
/** the region is not the one described (its id or generation differs); or the reader's table was
 * compacted into another */
#define SHMHT_ESTALE (-22016)
/** another process has locked the new object before its writer could */
#define SHMHT_EBUSY  (-22017)
#define SHMHT_ELIMIT (-22018) /**< byte cap of the region is above this reader's max_bytes */
/** not an absolute path of letters, digits, `.`, `_`, `-`, `/`, or too long */
#define SHMHT_ENAME  (-22019)
#define SHMHT_ENOBUF (-22020) /**< the caller's buffer is too small */
/** /proc/self/fd is needed for a read-only descriptor and is not there */
#define SHMHT_EPROC (-22021)
#define SHMHT_ERANK (-22022) /**< rank beyond the array */
/** the table lies in the caller's memory: it has no descriptor, and cannot grow beyond it */
#define SHMHT_EFIXED (-22023)
/** @} */

#ifdef __cplusplus
}
#endif
#endif /* SHMHT_H */
