/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic commits and adopted memory: restored states, refused calls, and detected changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../../libstorwin/src/commit.h"
#include "storwin_test.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define BYTES (UINT64_C(300000)) /* no multiple of anything */

static const uint32_t atomics[] = {STORWIN_ATOMIC_JOURNAL, STORWIN_ATOMIC_SLOTS,
                                   STORWIN_ATOMIC_AUTO};
static const unsigned withouts[] = {0, STORWIN__NO_SCAN, STORWIN__NO_SCAN | STORWIN__NO_UFFD,
                                    STORWIN__NO_DIRECT, STORWIN__NO_RING};

/* Called before the next flush. */
static void (*before_flush)(void);
static unsigned failing_flush; /* counts down to the one that fails; 0: none does */

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    void (*hook)(void) = before_flush;

    before_flush = NULL;
    if (hook)
        hook();
    if (failing_flush > 0 && --failing_flush == 0) {
        errno = EIO;
        return -1;
    }
    (void)fd; /* a process that is not killed needs none, and disks are slow */
    return 0;
}

static struct storwin_opts commit_opts(uint32_t atomic)
{
    struct storwin_opts opts = storage_opts(test_path("commit"));

    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = atomic;
    return opts;
}

static struct storwin_window *alloc_window(const struct storwin_opts *opts, uint64_t bytes)
{
    struct storwin_window *win;
    struct storwin_error err;

    if (storwin_alloc(opts, bytes, &win, &err) < 0)
        fail_msg("%s: %s", err.hint, err.text);
    return win;
}

static int open_fails(const struct storwin_opts *opts, uint64_t bytes, struct storwin_error *err)
{
    struct storwin_window *win = NULL;
    int rc = storwin_alloc(opts, bytes, &win, err);

    assert_null(win);
    assert_int_equal(rc, err->code);
    assert_true(err->text[0] != 0);
    return rc;
}

static struct storwin_info window_info(const struct storwin_window *win)
{
    struct storwin_info info = {.size = sizeof(info)};

    assert_int_equal(storwin_query(win, &info), 0);
    return info;
}

static void commit_window(struct storwin_window *win)
{
    struct storwin_error err;

    if (storwin_commit(win, &err) < 0)
        fail_msg("%s: %s", err.hint, err.text);
}

static void discard(struct storwin_window *win)
{
    assert_int_equal(storwin_discard(win, NULL), 0);
}

static void fill(uint8_t *at, uint64_t bytes, unsigned with)
{
    for (uint64_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(i * 31 / 7 + with * 13);
}

static int holds(const uint8_t *at, uint64_t bytes, unsigned with)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (at[i] != (uint8_t)(i * 31 / 7 + with * 13))
            return 0;
    return 1;
}

/* Commits of every density beside a model; the window is opened anew now and then. */
static void random_commits(uint32_t atomic, unsigned without)
{
    struct storwin_opts opts = commit_opts(atomic);
    struct storwin_window *win;
    uint8_t *model = calloc(1, BYTES), *base;
    uint64_t rng = 7 + atomic + without, generation = 0;

    atomic_store(&storwin__without, without);
    win = alloc_window(&opts, BYTES);
    assert_int_equal(window_info(win).recovery, STORWIN_RECOVERY_NONE);
    for (unsigned round = 0; round < 20; round++) {
        const unsigned n = round % 10 == 7 ? 4000 : round % 4 * 2;

        base = storwin_base(win);
        for (unsigned i = 0; i < n; i++) {
            const uint64_t at = test_random(&rng) % BYTES;

            base[at] = model[at] = (uint8_t)(test_random(&rng) | 1);
        }
        if (round % 3 == 1)
            assert_int_equal(storwin_sync(win, 5, 1, NULL), 0);
        else
            commit_window(win);
        assert_ptr_equal(base, storwin_base(win));
        generation += n > 0 || round == 0;
        if (without < STORWIN__NO_SCAN) /* a store of what was there is a change by page tables */
            assert_int_equal(window_info(win).generation, generation);
        generation = window_info(win).generation;
        if (round % 5 == 4) {
            memset(base, 'x', BYTES / 2); /* never committed */
            discard(win);
            win = alloc_window(&opts, BYTES);
            assert_int_equal(window_info(win).generation, generation);
            assert_int_equal(window_info(win).recovery, STORWIN_RECOVERY_CLEAN);
            assert_memory_equal(storwin_base(win), model, BYTES);
        }
    }
    fill(storwin_base(win), BYTES, 1);
    assert_int_equal(storwin_free(win, NULL), 0); /* commits */
    win = alloc_window(&opts, BYTES);
    assert_true(holds(storwin_base(win), BYTES, 1));
    discard(win);
    unlink(opts.filename);
    free(model);
}

static void commits(void **state)
{
    for (unsigned a = 0; a < 3; a++)
        for (unsigned w = 0; w < 5; w++)
            random_commits(atomics[a], withouts[w]);
    atomic_store(&storwin__without, STORWIN__NO_DIRECT);
}

/* A journal that fills up many times; single pages. */
static void journal_wraps(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_JOURNAL);
    struct storwin_window *win = alloc_window(&opts, BYTES);
    uint8_t *base = storwin_base(win);

    fill(base, BYTES, 0);
    for (unsigned round = 1; round <= 300; round++) {
        base[round * 5000 % BYTES] = (uint8_t)round;
        commit_window(win);
        if (round % 23 == 0) {
            uint8_t *was = malloc(BYTES);

            memcpy(was, base, BYTES);
            discard(win);
            win = alloc_window(&opts, BYTES);
            base = storwin_base(win);
            assert_memory_equal(base, was, BYTES);
            free(was);
        }
    }
    assert_int_equal(window_info(win).generation, 300);
    discard(win);
    unlink(opts.filename);
}

/* A window comes back to its last commit, in place, whatever commits and failures were before. */
static void reverts_of(uint32_t atomic, unsigned without)
{
    struct storwin_opts opts = commit_opts(atomic);
    uint8_t *model = malloc(BYTES), *base;
    struct storwin_window *win;
    struct storwin_error err;
    uint64_t rng = 3 + atomic + without;

    atomic_store(&storwin__without, without);
    win = alloc_window(&opts, BYTES);
    base = storwin_base(win);
    base[3] = 3;
    assert_int_equal(storwin_revert(win, &err), STORWIN_ENONE);
    assert_int_equal(base[3], 3);
    for (unsigned round = 0; round < 40; round++) {
        const unsigned n = round % 8 == 5 ? 3000 : round % 5 * 2;

        for (unsigned i = 0; i < n; i++)
            base[test_random(&rng) % BYTES] = (uint8_t)test_random(&rng);
        commit_window(win);
        memcpy(model, base, BYTES);
        for (unsigned i = 0; i < 1 + round % 3 * 20; i++)
            base[test_random(&rng) % BYTES] ^= 1;
        if (round % 4 == 3) { /* it may have written data to the other area */
            failing_flush = 1;
            assert_int_equal(storwin_commit(win, &err), -EIO);
            base[test_random(&rng) % BYTES] ^= 1;
        }
        assert_int_equal(storwin_revert(win, &err), 0);
        assert_memory_equal(base, model, BYTES);
        if (without < STORWIN__NO_SCAN) { /* nothing counts as changed */
            const uint64_t generation = window_info(win).generation;

            commit_window(win);
            assert_int_equal(window_info(win).generation, generation);
        }
        if (round % 9 == 8) {
            memset(base, 'x', BYTES);
            discard(win);
            win = alloc_window(&opts, BYTES);
            base = storwin_base(win);
            assert_memory_equal(base, model, BYTES);
        }
    }
    /* A failed record: the commit counts. */
    base[9] ^= 1;
    memcpy(model, base, BYTES);
    failing_flush = 2;
    assert_int_equal(storwin_commit(win, &err), -EIO);
    base[9] ^= 2;
    assert_int_equal(storwin_revert(win, &err), 0);
    assert_memory_equal(base, model, BYTES);
    discard(win);
    win = alloc_window(&opts, BYTES + 100000); /* longer: the memory behind is kept */
    base = storwin_base(win);
    memset(base, 'x', BYTES + 5);
    assert_int_equal(storwin_revert(win, &err), 0);
    assert_memory_equal(base, model, BYTES);
    assert_memory_equal(base + BYTES, "xxxxx", 6);
    commit_window(win);
    base[0] ^= 1;
    assert_int_equal(truncate(opts.filename, 200000), 0);
    assert_int_equal(storwin_revert(win, &err), STORWIN_ESHORT);
    assert_int_equal(base[0], model[0] ^ 1);
    failing_flush = 1;
    assert_int_equal(storwin_commit(win, &err), -EIO);
    assert_int_equal(storwin_revert(win, &err), STORWIN_ESHORT);
    assert_int_equal(base[0], model[0] ^ 1);
    commit_window(win);
    assert_int_equal(storwin_revert(win, &err), 0);
    discard(win);
    unlink(opts.filename);
    free(model);
}

static void reverts(void **state)
{
    for (unsigned a = 0; a < 3; a++)
        for (unsigned w = 0; w < 5; w++)
            reverts_of(atomics[a], withouts[w]);
    atomic_store(&storwin__without, STORWIN__NO_DIRECT);
}

static uint8_t *racing;

static void store_into_it(void)
{
    racing[BYTES / 2]++;
}

/* A store between the first page that is written and the record: the commit has it or not, and the
 * next one has it. */
static void races(void **state)
{
    for (unsigned a = 0; a < 3; a++)
        for (unsigned w = 0; w < 3; w++) {
            struct storwin_opts opts = commit_opts(atomics[a]);
            struct storwin_window *win;

            atomic_store(&storwin__without, withouts[w]);
            win = alloc_window(&opts, BYTES);
            racing = storwin_base(win);
            fill(racing, BYTES, 1);
            commit_window(win);
            racing[17] = 'x';
            before_flush = store_into_it;
            assert_int_equal(storwin_commit(win, NULL), 0);
            assert_int_equal(window_info(win).generation, 2);
            commit_window(win); /* with both stores */
            discard(win);
            win = alloc_window(&opts, BYTES);
            racing = storwin_base(win);
            assert_int_equal(racing[17], 'x');
            racing[17] = (uint8_t)(17 * 31 / 7 + 13);
            racing[BYTES / 2]--;
            assert_true(holds(racing, BYTES, 1));
            discard(win);
            unlink(opts.filename);
        }
    atomic_store(&storwin__without, STORWIN__NO_DIRECT);
}

/* The program takes pages away: the commit fails, names them, and changes nothing. */
static void unreadable(void **state)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bytes = 64 * page;
    struct storwin_opts opts = storage_opts(test_path("commit"));

    for (unsigned way = 0; way < 4; way++) /* protected, unmapped; compared too */
        for (unsigned a = 0; a < 3; a++) {
            uint8_t *at =
                mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            struct storwin_window *win;
            struct storwin_error err;

            opts.atomic = atomics[a];
            opts.changes = way < 2 ? STORWIN_CHANGES_TRACKED : STORWIN_CHANGES_COMPARED;
            assert_int_equal(storwin_adopt(at, bytes, &opts, &win, NULL), 0);
            for (unsigned g = 1; g < 4; g++) {
                fill(at, bytes, g);
                commit_window(win);
            }
            at[5 * page + 9] ^= 1;
            at[6 * page + 9] ^= 1;
            at[7 * page + 9] ^= 1;
            if (way % 2)
                munmap(at + 6 * page, page);
            else
                assert_int_equal(mprotect(at + 6 * page, page, PROT_NONE), 0);
            for (unsigned tries = 0; tries < 2; tries++) {
                assert_int_equal(storwin_commit(win, &err), -EFAULT);
                assert_int_equal(err.offset, 6 * page);
                assert_int_equal(err.bytes, page);
            }
            assert_int_equal(window_info(win).generation, 3);
            if (way % 2 == 0) {
                assert_int_equal(mprotect(at + 6 * page, page, PROT_READ), 0);
                commit_window(win);
                assert_int_equal(window_info(win).generation, 4);
            }
            discard(win);
            munmap(at, bytes);
            at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            assert_int_equal(storwin_adopt(at, bytes, &opts, &win, NULL), 0);
            for (unsigned i = 5; way % 2 == 0 && i < 8; i++)
                at[i * page + 9] ^= 1;
            assert_true(holds(at, bytes, 3));
            discard(win);
            munmap(at, bytes);
            unlink(opts.filename);
        }
}

/* A copy of the file with one bit different: what comes back is whole, or nothing does and the text
 * says what would. */
static void flip_one(const struct storwin_opts *opts, uint64_t at, unsigned bit)
{
    struct storwin_window *win;
    struct storwin_error err;
    uint8_t was, now;
    int rc;

    read_file(opts->filename, at, &was, 1);
    now = was ^ (uint8_t)(1u << bit);
    write_file(opts->filename, at, &now, 1);
    rc = storwin_alloc(opts, BYTES, &win, &err);
    if (rc == 0) {
        assert_true(holds(storwin_base(win), BYTES, (unsigned)window_info(win).generation));
        assert_int_equal(window_info(win).generation, opts->generation ? opts->generation : 3);
        if (at < 2 * 65536 && at % 32768 < sizeof(struct storwin__record) && !opts->generation)
            assert_int_equal(window_info(win).recovery, STORWIN_RECOVERY_REPAIRED);
        discard(win);
    } else {
        assert_int_equal(rc, STORWIN_EDAMAGED);
        assert_true(at >= 2 * 65536); /* one bit of a record loses nothing */
        assert_non_null(strstr(err.text, "generation 2"));
        assert_non_null(strstr(err.text, opts->filename));
    }
    write_file(opts->filename, at, &was, 1);
}

static void damage(void **state)
{
    for (unsigned a = 0; a < 3; a++) {
        struct storwin_opts opts = commit_opts(atomics[a]);
        struct storwin_window *win = alloc_window(&opts, BYTES);
        uint64_t rng = 5 + a, size;

        for (unsigned g = 1; g <= 3; g++) {
            uint8_t *base = storwin_base(win);

            fill(base, BYTES, g);
            commit_window(win);
        }
        discard(win);
        size = file_size(opts.filename);
        for (unsigned i = 0; i < 400; i++) {
            uint64_t at = test_random(&rng) % size;

            if (i < 300) /* a record */
                at = i % 4 * 32768 + test_random(&rng) % sizeof(struct storwin__record);
            flip_one(&opts, at, (unsigned)(test_random(&rng) % 8));
        }
        opts.generation = 2;
        win = alloc_window(&opts, BYTES);
        assert_int_equal(window_info(win).recovery, STORWIN_RECOVERY_OLDER);
        assert_true(holds(storwin_base(win), BYTES, 2));
        fill(storwin_base(win), BYTES, 4);
        commit_window(win); /* a number of its own */
        assert_int_equal(window_info(win).generation, 4);
        discard(win);
        opts.generation = 0;
        win = alloc_window(&opts, BYTES);
        assert_int_equal(window_info(win).generation, 4);
        assert_true(holds(storwin_base(win), BYTES, 4));
        discard(win);
        unlink(opts.filename);
    }
}

/* A window shorter than the newest state opens an older one that fits it, and continues from it. */
static void shorter_older(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_SLOTS);
    struct storwin_error err;

    for (unsigned a = 0; a < 3; a++)
        for (unsigned moves = 0; moves < 2; moves++) { /* whether the areas have moved */
            const uint64_t longer = moves ? 5 * BYTES : BYTES + 10;
            struct storwin_window *win;

            opts.atomic = atomics[a];
            win = alloc_window(&opts, BYTES);
            fill(storwin_base(win), BYTES, 1);
            commit_window(win);
            discard(win);
            win = alloc_window(&opts, longer);
            fill(storwin_base(win), longer, 2);
            commit_window(win);
            discard(win);
            assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EFORMAT);
            opts.generation = 2;
            assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EFORMAT);
            opts.generation = 1;
            for (unsigned tries = 0; tries < 2; tries++) {
                err.code = 7; /* untouched on success */
                assert_int_equal(storwin_alloc(&opts, BYTES, &win, &err), 0);
                assert_int_equal(err.code, 7);
                assert_true(holds(storwin_base(win), BYTES, 1));
                assert_int_equal(window_info(win).generation, 1);
                if (tries == 0)
                    discard(win);
            }
            opts.generation = 0;
            fill(storwin_base(win), BYTES, 3);
            commit_window(win);
            ((uint8_t *)storwin_base(win))[7] ^= 1;
            commit_window(win);
            discard(win);
            win = alloc_window(&opts, BYTES);
            ((uint8_t *)storwin_base(win))[7] ^= 1;
            assert_true(holds(storwin_base(win), BYTES, 3));
            assert_int_equal(window_info(win).generation, 4);
            discard(win);
            unlink(opts.filename);
        }
}

/* Both copies of the newest record, an area, a file that was cut: named, and the generation before
 * opens if it is asked for. */
static void lost(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_SLOTS);
    struct storwin_window *win = alloc_window(&opts, BYTES);
    struct storwin_error err;

    for (unsigned g = 1; g <= 3; g++) {
        fill(storwin_base(win), BYTES, g);
        commit_window(win);
    }
    discard(win);
    write_file(opts.filename, 40, "oops", 4); /* the third is in place 0, as the first was */
    write_file(opts.filename, 32768 + 40, "oops", 4);
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EDAMAGED);
    assert_non_null(strstr(err.text, "generation 2"));
    opts.generation = 3;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_ENONE);
    assert_non_null(strstr(err.text, "generation 3: it has 0 to 0 and 2 to 2"));
    opts.generation = 2;
    win = alloc_window(&opts, BYTES);
    assert_true(holds(storwin_base(win), BYTES, 2));
    assert_int_equal(window_info(win).recovery, STORWIN_RECOVERY_OLDER);
    ((uint8_t *)storwin_base(win))[0] ^= 1;
    commit_window(win);
    assert_int_equal(window_info(win).generation, 4); /* 3 was somebody's */
    discard(win);
    opts.generation = 0;
    win = alloc_window(&opts, BYTES);
    ((uint8_t *)storwin_base(win))[0] ^= 1;
    assert_true(holds(storwin_base(win), BYTES, 2));
    discard(win);
    assert_int_equal(truncate(opts.filename, 200000), 0);
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EDAMAGED);
    assert_int_equal(file_size(opts.filename), 200000);
    unlink(opts.filename);
}

static uint64_t file_space(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

static void lengths(void **state)
{
    const uint64_t bytes[] = {BYTES, BYTES + 1, 4 * 65536 + 65536, 5 * 65536 + 1, 3000000, 3000001};

    for (unsigned a = 0; a < 3; a++) {
        struct storwin_opts opts = commit_opts(atomics[a]);
        struct storwin_window *win = alloc_window(&opts, BYTES);
        struct storwin_error err;
        uint64_t before;

        for (unsigned i = 0; i < 6; i++) {
            for (unsigned round = 0; round < 3; round++) {
                fill(storwin_base(win), bytes[i], i);
                ((uint8_t *)storwin_base(win))[9] = (uint8_t)round;
                commit_window(win);
            }
            discard(win);
            before = file_space(opts.filename);
            if (i > 0)
                assert_int_equal(open_fails(&opts, bytes[i] - 1, &err), STORWIN_EFORMAT);
            for (unsigned tries = 0; tries < 2;
                 tries++) { /* a commit that is cut off costs nothing */
                win = alloc_window(&opts, i < 5 ? bytes[i + 1] : bytes[i]);
                if (i >= 4) /* what was given back, more than 1 MB, is not taken again */
                    assert_true(file_space(opts.filename) < before + 1000000);
                assert_int_equal(((uint8_t *)storwin_base(win))[9], 2);
                if (tries == 0) {
                    memset(storwin_base(win), 'x', bytes[i]);
                    failing_flush = 1;
                    assert_int_equal(storwin_commit(win, &err), -EIO);
                    discard(win);
                }
            }
            assert_int_equal(((uint8_t *)storwin_base(win))[9], 2);
            ((uint8_t *)storwin_base(win))[9] = (uint8_t)(9 * 31 / 7 + i * 13);
            assert_true(holds(storwin_base(win), bytes[i], i));
            if (i < 5)
                assert_int_equal(((uint8_t *)storwin_base(win))[bytes[i + 1] - 1], 0);
        }
        discard(win);
        unlink(opts.filename);
    }
}

/* A file of ours whose older record is of a longer state, and whose journal names a block far
 * behind the end: refused, and nothing outside the window is written. */
static void malformed(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_JOURNAL);
    struct storwin__records found;
    struct storwin_window *win;
    struct storwin_error err;
    struct {
        struct storwin__batch head;
        struct storwin__entry entry;
    } batch;
    int fd;

    for (unsigned what = 0; what < 2; what++) {
        opts.atomic = what == 0 ? STORWIN_ATOMIC_SLOTS : STORWIN_ATOMIC_JOURNAL;
        win = alloc_window(&opts, BYTES);
        fill(storwin_base(win), BYTES, 1);
        commit_window(win);
        ((uint8_t *)storwin_base(win))[5] ^= 1;
        commit_window(win);
        discard(win);
        fd = open(opts.filename, O_RDONLY | O_CLOEXEC);
        assert_int_equal(storwin__records_read(fd, 0, &found), 0);
        close(fd);
        for (uint32_t copy = 0; copy < 2; copy++) {
            struct storwin__record r = found.at[what]; /* the first commit's is at 0 */

            if (what == 0) {
                r.bytes = r.cap = UINT64_C(64) << 20;
            } else {
                const uint64_t at = r.base + 2 * r.cap;

                read_file(opts.filename, at, &batch, sizeof(batch));
                assert_int_equal(batch.head.n_blocks, 1);
                batch.entry.block = UINT64_C(1) << 52;
                storwin__batch_seal(&batch.head, &batch.entry);
                write_file(opts.filename, at, &batch, sizeof(batch));
                r.journal_sum = batch.head.sum;
            }
            storwin__record_seal(&r, what, copy);
            write_file(opts.filename, what * 65536 + copy * 32768, &r, sizeof(r));
        }
        opts.generation = 1 + what;
        assert_int_equal(open_fails(&opts, BYTES, &err),
                         what == 0 ? STORWIN_EFORMAT : STORWIN_EDAMAGED);
        opts.generation = 0;
        unlink(opts.filename);
    }
}

/* Somebody shortens the file under the window: the next commit writes all of it again. */
static void shortened(void **state)
{
    for (unsigned a = 0; a < 3; a++)
        for (unsigned to = 0; to < 3; to++) {
            struct storwin_opts opts = commit_opts(atomics[a]);
            struct storwin_window *win = alloc_window(&opts, BYTES);
            uint64_t size;

            for (unsigned g = 1; g <= 3; g++) {
                if (g == 1)
                    fill(storwin_base(win), BYTES, 1);
                else
                    ((uint8_t *)storwin_base(win))[70000] ^= 1;
                commit_window(win);
            }
            if (atomics[a] == STORWIN_ATOMIC_JOURNAL) /* nothing was written twice so far */
                assert_int_equal(win->commit->last.home_generation, 1);
            size = file_size(opts.filename);
            assert_int_equal(truncate(opts.filename, to == 0 ? 0 : to == 1 ? 140000 : 300000), 0);
            if (to == 0)
                ((uint8_t *)storwin_base(win))[BYTES - 1] ^= 2;
            commit_window(win);
            assert_int_equal(file_size(opts.filename), size);
            assert_int_equal(window_info(win).generation, 4);
            discard(win);
            win = alloc_window(&opts, BYTES);
            if (to == 0)
                ((uint8_t *)storwin_base(win))[BYTES - 1] ^= 2;
            assert_true(holds(storwin_base(win), BYTES, 1));
            assert_int_equal(window_info(win).generation, 4);
            discard(win);
            unlink(opts.filename);
        }
}

/* The first commit after an older generation was opened is cut off, at either flush of it. */
static void older_cut_off(void **state)
{
    for (unsigned a = 0; a < 3; a++)
        for (unsigned flush = 1; flush < 4; flush++) {
            struct storwin_opts opts = commit_opts(atomics[a]);
            struct storwin_window *win = alloc_window(&opts, BYTES);

            for (unsigned g = 1; g <= 3; g++) {
                fill(storwin_base(win), BYTES, g);
                commit_window(win);
            }
            discard(win);
            opts.generation = 2;
            win = alloc_window(&opts, BYTES);
            fill(storwin_base(win), BYTES, 7);
            failing_flush = flush;
            assert_int_equal(storwin_commit(win, NULL), -EIO);
            discard(win);
            opts.generation = 0;
            win = alloc_window(&opts, BYTES);
            assert_true(holds(storwin_base(win), BYTES, flush == 3 ? 7 : 2));
            fill(storwin_base(win), BYTES, 8);
            commit_window(win);
            discard(win);
            win = alloc_window(&opts, BYTES);
            assert_true(holds(storwin_base(win), BYTES, 8));
            discard(win);
            unlink(opts.filename);
        }
}

/* The older record covers three generations by its journal, and the first of these is opened. When
 * the next commit is cut off, that one is the newest, and none of the other two. */
static void older_in_journal(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO);
    struct storwin_window *win = alloc_window(&opts, BYTES);
    uint8_t *base = storwin_base(win);

    fill(base, BYTES, 0);
    for (unsigned g = 1; g <= 4; g++) {
        base[g] = 'x';
        if (g == 4)
            fill(base, BYTES, 4); /* no journal */
        commit_window(win);
    }
    discard(win);
    opts.generation = 2;
    win = alloc_window(&opts, BYTES);
    assert_int_equal(window_info(win).generation, 2);
    ((uint8_t *)storwin_base(win))[5] ^= 1;
    failing_flush = 2; /* the first is that of the older record */
    assert_int_equal(storwin_commit(win, NULL), -EIO);
    discard(win);
    opts.generation = 0;
    win = alloc_window(&opts, BYTES);
    assert_int_equal(window_info(win).generation, 2);
    base = storwin_base(win);
    assert_true(base[2] == 'x' && base[3] != 'x');
    base[6] ^= 1;
    commit_window(win); /* behind the journal as it is now */
    discard(win);
    win = alloc_window(&opts, BYTES);
    base = storwin_base(win);
    base[6] ^= 1;
    base[1] = (uint8_t)(1 * 31 / 7);
    base[2] = (uint8_t)(2 * 31 / 7);
    assert_true(holds(base, BYTES, 0));
    discard(win);
    unlink(opts.filename);
}

/* A generation that a commit has discarded no longer opens, though its journal is still there. */
static void older_discards(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO);
    struct storwin_window *win = alloc_window(&opts, BYTES);

    for (unsigned g = 1; g <= 3; g++) {
        ((uint8_t *)storwin_base(win))[g] = 'x';
        commit_window(win);
    }
    discard(win);
    opts.generation = 2;
    win = alloc_window(&opts, BYTES);
    commit_window(win);
    assert_int_equal(window_info(win).generation, 4);
    discard(win);
    opts.generation = 3;
    win = alloc_window(&opts, BYTES);
    assert_int_equal(window_info(win).generation, 2);
    assert_memory_equal(storwin_base(win), "\0xx\0", 4);
    discard(win);
    unlink(opts.filename);
}

/* No free descriptor: a commit needs none. */
static void no_descriptors(void **state)
{
    for (unsigned w = 0; w < 3; w++) {
        struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO);
        struct storwin_window *win;
        struct rlimit was, none;

        atomic_store(&storwin__without, withouts[w] | STORWIN__NO_DIRECT);
        win = alloc_window(&opts, BYTES);
        fill(storwin_base(win), BYTES, 1);
        commit_window(win);
        ((uint8_t *)storwin_base(win))[9] ^= 1;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
        none = was;
        none.rlim_cur = 3;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        commit_window(win);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
        assert_int_equal(window_info(win).generation, 2);
        discard(win);
        unlink(opts.filename);
    }
    atomic_store(&storwin__without, STORWIN__NO_DIRECT);
}

/* Another process has the file open for some milliseconds. Returns when it has. */
static pid_t hold_file(const struct storwin_opts *opts, unsigned ms)
{
    int ready[2], status = 0;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        struct storwin_window *win;

        alarm(100);
        status = storwin_alloc(opts, BYTES, &win, NULL);
        if (write(ready[1], &status, sizeof(status)) > 0)
            usleep(ms * 1000);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &status, sizeof(status)), sizeof(status));
    assert_int_equal(status, 0);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static uint64_t open_busy(const struct storwin_opts *opts)
{
    struct storwin_error err;
    const uint64_t start = storwin__now_ms();

    assert_int_equal(open_fails(opts, BYTES, &err), STORWIN_EBUSY);
    assert_non_null(strstr(err.text, opts->filename));
    return storwin__now_ms() - start;
}

/* One window at a time has a file with commits: a second one of this process fails at once, one of
 * another process at a deadline, or waits. */
static void locked(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO),
                        plain = storage_opts(opts.filename);
    struct storwin_window *win = alloc_window(&opts, BYTES), *others[2];
    int status;
    pid_t pid;

    atomic_store(&storwin__lock_ms, 60000);
    assert_true(open_busy(&opts) < 30000);
    plain.flags = STORWIN_RAW;
    assert_true(open_busy(&plain) < 30000);
    discard(win);
    pid = hold_file(&opts, 300);
    win = alloc_window(&opts, BYTES); /* waits */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    discard(win);
    atomic_store(&storwin__lock_ms, 20);
    pid = hold_file(&opts, 100000);
    assert_true(open_busy(&opts) >= 20);
    assert_true(open_busy(&plain) >= 20);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (unsigned i = 0; i < 2; i++) /* without commits they share it */
        others[i] = alloc_window(&plain, BYTES);
    open_busy(&opts);
    for (unsigned i = 0; i < 2; i++)
        discard(others[i]);
    atomic_store(&storwin__lock_ms, 1000);
    unlink(opts.filename);
}

/* A file of commits is not opened without them, unless the options say so. */
static void forgotten_hint(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO),
                        plain = storage_opts(opts.filename);
    struct storwin_window *win;
    struct storwin_error err;

    for (uint64_t offset = 0; offset <= 65536; offset += 65536) {
        opts.offset_bytes = offset;
        win = alloc_window(&opts, BYTES);
        fill(storwin_base(win), BYTES, 1);
        commit_window(win);
        discard(win);
        for (plain.pager = 0; plain.pager < test_pagers; plain.pager++)
            for (plain.offset_bytes = offset; plain.offset_bytes <= 65536;
                 plain.offset_bytes += 65536) {
                const uint64_t size = file_size(opts.filename);

                assert_int_equal(open_fails(&plain, 100 * BYTES, &err), STORWIN_EFORMAT);
                assert_non_null(strstr(err.text, "storage_alloc_atomic"));
                assert_non_null(strstr(err.text, opts.filename));
                assert_int_equal(file_size(opts.filename), size);
            }
        win = alloc_window(&opts, BYTES);
        assert_true(holds(storwin_base(win), BYTES, 1));
        discard(win);
        plain.pager = STORWIN_PAGER_KERNEL;
        plain.offset_bytes = offset;
        plain.flags = STORWIN_RAW;
        win = alloc_window(&plain, BYTES);
        assert_memory_equal(storwin_base(win), "SWINATOM", 8);
        plain.flags = 0;
        discard(win);
        unlink(opts.filename);
    }
}

static void other_files(void **state)
{
    static const char text[] = "somebody's thesis, the only copy";
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO);
    struct storwin_error err;
    char copy[sizeof(text)];

    for (unsigned i = 0; i < 3; i++) { /* also where a commit has zeros */
        write_file(opts.filename, i * 5000, text, sizeof(text));
        assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EFORMAT);
        assert_int_equal(file_size(opts.filename), i * 5000 + sizeof(text));
        read_file(opts.filename, i * 5000, copy, sizeof(text));
        assert_string_equal(copy, text);
        unlink(opts.filename);
    }
}

static void arguments(void **state)
{
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_AUTO);
    struct storwin_window *win;
    struct storwin_error err;
    char text[32];
    int status;
    pid_t pid;

    opts.pager = STORWIN_PAGER_KERNEL;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_ECONFLICT);
    assert_string_equal(err.hint, "storage_alloc_atomic");
    assert_non_null(strstr(err.text, "the pager kernel writes"));
    opts.pager = STORWIN_PAGER_USER;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_ECONFLICT);
    assert_non_null(strstr(err.text, "the pager user writes"));
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = 4;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EVALUE);
    opts.atomic = STORWIN_ATOMIC_AUTO;
    opts.changes = 1; /* an earlier release's value */
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EVALUE);
    opts.changes = 3;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EVALUE);
    opts.changes = 0;
    assert_int_equal(open_fails(&opts, STORWIN_MAX_BYTES / 4 + 1, &err), -EINVAL);
    opts.generation = 1;
    assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_ENONE);
    assert_int_equal(file_size(opts.filename), UINT64_MAX);
    opts.generation = 0;
    opts.factor_ppb = STORWIN_FACTOR_ONE / 2; /* memory first: that is not committed */
    win = alloc_window(&opts, BYTES);
    fill(storwin_base(win), BYTES, 5);
    commit_window(win);
    assert_int_equal(storwin_hint_query(win, "storage_alloc_atomic", text, sizeof(text)), 4);
    assert_string_equal(text, "auto");
    assert_int_equal(storwin_commit(NULL, &err), -EINVAL);
    pid = fork();
    if (pid == 0) {
        alarm(100);
        _exit(storwin_commit(win, NULL) != STORWIN_ESTATE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    discard(win);
    win = alloc_window(&opts, BYTES);
    memset(storwin_base(win), 0, 1); /* of the memory part: zeros */
    assert_memory_equal(
        (char *)storwin_base(win) + BYTES - 5,
        ((uint8_t[]){(uint8_t)((BYTES - 5) * 31 / 7 + 65), (uint8_t)((BYTES - 4) * 31 / 7 + 65),
                     (uint8_t)((BYTES - 3) * 31 / 7 + 65), (uint8_t)((BYTES - 2) * 31 / 7 + 65),
                     (uint8_t)((BYTES - 1) * 31 / 7 + 65)}),
        5);
    discard(win);
    unlink(opts.filename);
    win = NULL;
    assert_int_equal(storwin_alloc(NULL, BYTES, &win, &err), 0);
    assert_int_equal(storwin_commit(win, &err), STORWIN_ESTATE);
    assert_int_equal(storwin_free(win, NULL), 0);
}

/* Two windows under one number: the first decides. Everything stops after `steps` commits; both
 * come back as of the last number that the first has. */
static void stop_after(unsigned steps, unsigned unchanged)
{
    struct storwin_opts opts[2] = {commit_opts(STORWIN_ATOMIC_AUTO),
                                   commit_opts(STORWIN_ATOMIC_AUTO)};
    struct storwin_window *win[2];
    uint64_t decided = 0;

    opts[1].filename = test_path("other");
    for (unsigned i = 0; i < 2; i++)
        win[i] = alloc_window(&opts[i], BYTES);
    for (unsigned step = 0; step < steps; step++) {
        const uint64_t generation = 10 + step / 2 * 10;
        const unsigned which = 1 - step % 2;
        uint8_t *base = storwin_base(win[which]);

        if (step < 2)
            fill(base, BYTES, 1);
        else if (step / 2 % 2 != unchanged || which == 0)
            base[7] = base[200000] = (uint8_t)(step / 2);
        assert_int_equal(storwin_commit_generation(win[which], generation, NULL), 0);
        assert_int_equal(storwin_commit_generation(win[which], generation, NULL), STORWIN_EVALUE);
        decided = which == 0 ? generation : decided;
    }
    discard(win[0]);
    discard(win[1]);
    win[0] = alloc_window(&opts[0], BYTES);
    assert_int_equal(window_info(win[0]).generation, decided);
    opts[1].generation = decided;
    win[1] = alloc_window(&opts[1], BYTES);
    if (decided > 0) {
        const unsigned round = (unsigned)decided / 10 - 1;
        const unsigned last = round > 0 && round % 2 == unchanged ? round - 1 : round;
        const uint8_t *base = storwin_base(win[1]);

        assert_int_equal(base[8], (uint8_t)(8 * 31 / 7 + 13));
        assert_int_equal(base[7], last ? last : (uint8_t)(7 * 31 / 7 + 13));
        assert_int_equal(base[200000], last ? last : (uint8_t)(UINT64_C(200000) * 31 / 7 + 13));
        assert_int_equal(
            storwin_commit_generation(win[1], window_info(win[1]).newest_generation + 1, NULL), 0);
    }
    discard(win[0]);
    discard(win[1]);
    unlink(opts[0].filename);
    unlink(opts[1].filename);
}

/* A flush fails, of the data or of the record: the same number again, but not for other data. */
static void again(void **state)
{
    for (unsigned flush = 1; flush < 3; flush++)
        for (unsigned a = 0; a < 3; a++) {
            struct storwin_opts opts = commit_opts(atomics[a]);
            struct storwin_window *win = alloc_window(&opts, BYTES);
            struct storwin_error err;

            fill(storwin_base(win), BYTES, 1);
            commit_window(win);
            fill(storwin_base(win), BYTES, 2);
            failing_flush = flush;
            assert_int_equal(storwin_commit_generation(win, 9, &err), -EIO);
            assert_int_equal(window_info(win).generation, 1);
            if (flush == 2) {
                failing_flush = 1;
                assert_int_equal(storwin_commit_generation(win, 9, &err), -EIO);
            }
            assert_int_equal(storwin_commit_generation(win, 9, &err), 0);
            assert_int_equal(window_info(win).generation, 9);
            fill(storwin_base(win), BYTES, 3);
            failing_flush = 2;
            assert_int_equal(storwin_commit_generation(win, 10, &err), -EIO);
            fill(storwin_base(win), BYTES, 4);
            assert_int_equal(storwin_commit_generation(win, 10, &err), STORWIN_ERACE);
            commit_window(win);
            assert_int_equal(window_info(win).generation, 11);
            discard(win);
            for (opts.generation = 10; opts.generation < 12; opts.generation++) {
                win = alloc_window(&opts, BYTES);
                assert_true(holds(storwin_base(win), BYTES, (unsigned)opts.generation - 7));
                discard(win);
            }
            unlink(opts.filename);
        }
}

static void together(void **state)
{
    for (unsigned steps = 2; steps < 14; steps++)
        for (unsigned unchanged = 0; unchanged < 3; unchanged++)
            stop_after(steps, unchanged);
}

/* The program's own memory, wherever it begins. */
static void adopted(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("commit"));
    uint8_t *whole = malloc(BYTES + 5000);

    for (unsigned offset = 0; offset < 3; offset++) {
        uint8_t *at = whole + offset * 1237 + 1;
        struct storwin_window *win;
        struct storwin_error err;

        memset(whole, 0xee, BYTES + 5000);
        fill(at, BYTES, 1);
        if (storwin_adopt(at, BYTES, &opts, &win, &err) < 0)
            fail_msg("%s: %s", err.hint, err.text);
        assert_ptr_equal(storwin_base(win), at);
        commit_window(win);
        at[BYTES - 1] ^= 1;
        at[0] ^= 1;
        commit_window(win);
        assert_int_equal(window_info(win).generation, 2);
        assert_int_equal(at[-1], 0xee);
        assert_int_equal(at[BYTES], 0xee);
        discard(win);
        memset(whole, 0xaa, BYTES + 5000);
        assert_int_equal(storwin_adopt(at, BYTES, &opts, &win, &err), 0);
        assert_int_equal(at[-1], 0xaa);
        assert_int_equal(at[BYTES], 0xaa);
        at[BYTES - 1] ^= 1;
        at[0] ^= 1;
        assert_true(holds(at, BYTES, 1));
        assert_int_equal(storwin_free(win, NULL), 0);
        at[0]++; /* it is still the program's */
        unlink(opts.filename);
    }
    free(whole);
}

/* The program maps a part of adopted memory anew, or has the kernel drop pages of it: both are
 * changes, and so are stores into it afterwards. */
static void mapped_anew(void **state)
{
    const uint64_t lo = 8 * (uint64_t)sysconf(_SC_PAGESIZE), hi = 3 * lo, bytes = 8 * lo;
    struct storwin_opts opts = storage_opts(test_path("commit"));
    uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (unsigned way = 0; way < 2; way++) {
        struct storwin_window *win;

        assert_int_equal(storwin_adopt(at, bytes, &opts, &win, NULL), 0);
        fill(at, bytes, 1);
        commit_window(win);
        if (way == 0)
            assert_ptr_equal(mmap(at + lo, hi - lo, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                             at + lo);
        else
            assert_int_equal(madvise(at + lo, hi - lo, MADV_DONTNEED), 0);
        commit_window(win);
        assert_int_equal(window_info(win).generation, 2);
        at[lo + 1] = 5;
        commit_window(win);
        assert_int_equal(window_info(win).generation, 3);
        commit_window(win);
        assert_int_equal(window_info(win).generation, 3);
        discard(win);
        memset(at, 'x', bytes);
        assert_int_equal(storwin_adopt(at, bytes, &opts, &win, NULL), 0);
        assert_int_equal(at[lo + 1], 5);
        for (uint64_t i = lo; i < hi; i++) {
            assert_int_equal(at[i], i == lo + 1 ? 5 : 0);
            at[i] = (uint8_t)(i * 31 / 7 + 13);
        }
        assert_true(holds(at, bytes, 1));
        discard(win);
        unlink(opts.filename);
    }
    munmap(at, bytes);
}

/* Stores of another process: found by comparing, and refused otherwise. */
static void shared_memory(void **state)
{
    struct storwin_opts opts = storage_opts(test_path("commit"));
    uint8_t *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct storwin_window *win;
    struct storwin_error err;
    int status;

    assert_int_equal(storwin_adopt(at, BYTES, &opts, &win, &err), -EOPNOTSUPP);
    assert_string_equal(err.hint, "storage_alloc_changes");
    assert_int_equal(storwin_adopt(NULL, BYTES, &opts, &win, &err), -EINVAL);
    assert_int_equal(storwin_adopt(at, 0, &opts, &win, &err), -EINVAL);
    opts.pager = STORWIN_PAGER_USER;
    assert_int_equal(storwin_adopt(at, BYTES, &opts, &win, &err), STORWIN_ECONFLICT);
    assert_string_equal(err.hint, "storage_alloc_pager");
    opts.pager = 0;
    opts.changes = STORWIN_CHANGES_COMPARED;
    fill(at, BYTES, 3);
    assert_int_equal(storwin_adopt(at, BYTES, &opts, &win, &err), 0);
    commit_window(win);
    if (fork() == 0) {
        at[100000] = 1;
        at[200000] = 2;
        _exit(0);
    }
    assert_true(wait(&status) > 0 && status == 0);
    commit_window(win);
    discard(win);
    memset(at, 0, BYTES);
    assert_int_equal(storwin_adopt(at, BYTES, &opts, &win, &err), 0);
    assert_int_equal(at[100000], 1);
    assert_int_equal(at[200000], 2);
    discard(win);
    unlink(opts.filename);
    assert_int_equal(mprotect(at, 4096, PROT_READ), 0);
    assert_int_equal(storwin_adopt(at, BYTES, &opts, &win, &err), -EFAULT);
    munmap(at, BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commits),        cmocka_unit_test(journal_wraps),
        cmocka_unit_test(reverts),        cmocka_unit_test(races),
        cmocka_unit_test(damage),         cmocka_unit_test(lost),
        cmocka_unit_test(shorter_older),  cmocka_unit_test(unreadable),
        cmocka_unit_test(lengths),        cmocka_unit_test(other_files),
        cmocka_unit_test(locked),         cmocka_unit_test(forgotten_hint),
        cmocka_unit_test(arguments),      cmocka_unit_test(adopted),
        cmocka_unit_test(shared_memory),  cmocka_unit_test(together),
        cmocka_unit_test(again),          cmocka_unit_test(malformed),
        cmocka_unit_test(shortened),      cmocka_unit_test(older_cut_off),
        cmocka_unit_test(no_descriptors), cmocka_unit_test(older_in_journal),
        cmocka_unit_test(mapped_anew),    cmocka_unit_test(older_discards),
    };

    test_begin();
    atomic_store(&storwin__lock_ms, 1000); /* a test that fails leaves its file locked */
    atomic_store(&storwin__without, STORWIN__NO_DIRECT); /* most need no disk */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
