/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of atomic commits: damage, lengths, older generations, and files of others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "commit_test_internal.h"

#include <sys/stat.h>

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
    assert_non_null(strstr(err.text, "generation 3: it has 2 to 2"));
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
        uint64_t before, space;

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
                if (atomics[a] == STORWIN_ATOMIC_SLOTS)
                    space = 2 * win->commit->cap;
                else
                    space = 3 * win->commit->cap; /* with the journal */
                assert_int_equal(file_size(opts.filename), win->commit->base + space);
                assert_true(file_space(opts.filename) >= space); /* it is reserved */
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

/* A file without a journal gets the space for one, if it is opened for that. */
static void gets_a_journal(void **state)
{
    const uint64_t cap = storwin__round_up(BYTES, STORWIN__AREA_UNIT);
    struct storwin_opts opts = commit_opts(STORWIN_ATOMIC_SLOTS);
    struct storwin_window *win;

    for (unsigned areas = 2; areas <= 3; areas++) { /* with the journal */
        win = alloc_window(&opts, BYTES);
        assert_int_equal(file_size(opts.filename), STORWIN__FIRST_AREA + areas * cap);
        assert_true(file_space(opts.filename) >= STORWIN__FIRST_AREA + areas * cap);
        ((uint8_t *)storwin_base(win))[areas] = 1;
        commit_window(win);
        discard(win);
        opts.atomic = STORWIN_ATOMIC_JOURNAL;
    }
    unlink(opts.filename);
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

/* A small file may say anything of the length of its journal. Lengths that memory cannot have are
 * refused. */
static void too_many_blocks(void **state)
{
    const struct storwin_window none = {.opts = {.allocator = NULL}};
    const struct storwin__record r = {
        .bytes = 5000, .generation = 2, .home_generation = 1, .epoch = 1};
    struct storwin__batch b = {.magic = STORWIN__BATCH_MAGIC, .epoch = 1, .generation = 2};
    void *whole;

    for (b.n_blocks = 0; b.n_blocks < 4; b.n_blocks++)
        assert_int_equal(storwin__batch_check(&b, &r, 0, STORWIN_MAX_BYTES),
                         b.n_blocks == 1 || b.n_blocks == 2);
    b.n_blocks = UINT64_C(1) << 29;
    assert_int_equal(storwin__batch_check(&b, &r, 0, STORWIN_MAX_BYTES), 0);
    assert_null(storwin__blocks_alloc(&none, UINT64_MAX - 4095, &whole));
    assert_null(whole);
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
            failing_flush = 2;
            win = alloc_window(&opts, BYTES);
            assert_int_equal(failing_flush, 1); /* it flushes what is there, and writes nothing */
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
    opts = storage_opts(opts.filename);
    for (unsigned i = 0; i < 10; i++) { /* without commits: only where a copy of a record begins */
        const uint64_t magic =
            i % 2 ? STORWIN__RECORD_MAGIC : __builtin_bswap64(STORWIN__RECORD_MAGIC);
        struct storwin_window *win;

        write_file(opts.filename, i / 2 * STORWIN__COPY_BYTES, &magic, sizeof(magic));
        if (i < 8) {
            assert_int_equal(open_fails(&opts, BYTES, &err), STORWIN_EFORMAT);
        } else {
            assert_int_equal(storwin_alloc(&opts, BYTES, &win, NULL), 0);
            discard(win);
        }
        unlink(opts.filename);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damage),
        cmocka_unit_test(shorter_older),
        cmocka_unit_test(lost),
        cmocka_unit_test(lengths),
        cmocka_unit_test(gets_a_journal),
        cmocka_unit_test(malformed),
        cmocka_unit_test(too_many_blocks),
        cmocka_unit_test(older_cut_off),
        cmocka_unit_test(older_in_journal),
        cmocka_unit_test(older_discards),
        cmocka_unit_test(other_files),
    };

    commit_test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
