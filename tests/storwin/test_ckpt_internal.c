/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints: the newest whole state comes back, a torn one never; what the file may not be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../../libstorwin/src/ckpt.h"
#include "../../libstorwin/src/internal.h"
#include "storwin_test.h"

#include <sys/wait.h>

#define STATE      300001u /* bytes: no multiple of anything */
#define SLOT_BYTES (65536u + 5 * 65536u)

static const unsigned withouts[] = {0, STORWIN__NO_SCAN, STORWIN__NO_UFFD};

static struct storwin_opts ckpt_opts(unsigned kind)
{
    struct storwin_opts opts = storage_opts(test_path("ckpt"));

    opts.pager = kind == 0 ? STORWIN_PAGER_KERNEL : STORWIN_PAGER_RESIDENT;
    atomic_store(&storwin__without, kind == 0 ? 0 : withouts[kind - 1]);
    return opts;
}

static struct storwin_ckpt *open_ckpt(const struct storwin_opts *opts)
{
    struct storwin_ckpt *ckpt;
    struct storwin_error err;

    if (storwin_ckpt_open(opts, STATE, 7, &ckpt, &err) < 0)
        fail_msg("%s: %s", err.hint, err.text);
    return ckpt;
}

static void fill(uint8_t *data, uint64_t generation)
{
    for (uint32_t i = 0; i < STATE; i++)
        data[i] = (uint8_t)(i * 31 / 7 + generation * 13);
}

static int holds(const struct storwin_ckpt *ckpt, uint64_t generation)
{
    struct storwin_info_ckpt info = {.size = sizeof(info)};

    if (storwin_ckpt_query(ckpt, &info) < 0)
        return generation == 0;
    if (info.generation != generation || info.bytes != STATE || info.app_version != 7)
        return 0;
    for (uint32_t i = 0; i < STATE; i++)
        if (((const uint8_t *)info.data)[i] != (uint8_t)(i * 31 / 7 + generation * 13))
            return 0;
    return 1;
}

static uint64_t ckpt_generation(const struct storwin_ckpt *ckpt)
{
    struct storwin_info_ckpt info = {.size = sizeof(info)};

    (void)storwin_ckpt_query(ckpt, &info);
    return info.generation;
}

static void commit(struct storwin_ckpt *ckpt, uint64_t generation, uint32_t flags)
{
    void *data;

    assert_int_equal(storwin_ckpt_begin(ckpt, flags, &data, NULL), 0);
    fill(data, generation);
    assert_int_equal(storwin_ckpt_commit(ckpt, NULL), 0);
}

/* A child has the slots, with the pager kernel those of its parent: it neither stores into them nor
 * commits. */
static void in_a_child(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind++) {
        struct storwin_opts opts = ckpt_opts(kind);
        struct storwin_ckpt *ckpt = open_ckpt(&opts);
        void *data = NULL;
        int status;
        pid_t pid;

        commit(ckpt, 1, 0);
        commit(ckpt, 2, 0);
        for (int begun = 0; begun < 2; begun++) {
            if (begun)
                assert_int_equal(storwin_ckpt_begin(ckpt, 0, &data, NULL), 0);
            pid = fork();
            if (pid == 0) {
                alarm(100);
                _exit(storwin_ckpt_begin(ckpt, STORWIN_CKPT_COPY, &data, NULL) != STORWIN_ESTATE ||
                      storwin_ckpt_commit(ckpt, NULL) != STORWIN_ESTATE || !holds(ckpt, 2));
            }
            assert_int_equal(waitpid(pid, &status, 0), pid);
            assert_int_equal(status, 0);
        }
        fill(data, 3);
        assert_int_equal(storwin_ckpt_commit(ckpt, NULL), 0);
        storwin_ckpt_close(ckpt);
        ckpt = open_ckpt(&opts);
        assert_true(holds(ckpt, 3));
        storwin_ckpt_close(ckpt);
        unlink(opts.filename);
    }
}

static void generations(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind++) {
        struct storwin_opts opts = ckpt_opts(kind);
        struct storwin_info_ckpt info = {.size = sizeof(info)};

        for (uint64_t g = 0; g < 8; g++) {
            struct storwin_ckpt *ckpt = open_ckpt(&opts);

            assert_true(holds(ckpt, g));
            assert_int_equal(storwin_ckpt_query(ckpt, &info), g ? 0 : STORWIN_ENONE);
            assert_int_equal(info.n_valid, g < 2 ? g : 2);
            commit(ckpt, g + 1, g % 2 ? STORWIN_CKPT_COPY : 0);
            assert_true(holds(ckpt, g + 1));
            storwin_ckpt_close(ckpt);
        }
        unlink(opts.filename);
    }
    storwin_ckpt_close(NULL);
}

/* Small changes from one state to the next: the sums that are kept must be those of the whole. */
static void small_changes(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind++) {
        struct storwin_opts opts = ckpt_opts(kind);
        struct storwin_ckpt *ckpt = open_ckpt(&opts);
        struct storwin_info_ckpt info = {.size = sizeof(info)};
        uint8_t *model = calloc(1, STATE);
        uint64_t rng = 99 + kind;

        for (unsigned round = 0; round < 30; round++) {
            void *data;

            assert_int_equal(storwin_ckpt_begin(ckpt, STORWIN_CKPT_COPY, &data, NULL), 0);
            assert_memory_equal(data, model, STATE);
            for (unsigned i = 0; i < 5; i++) {
                uint64_t at = test_random(&rng) % STATE;

                model[at] = ((uint8_t *)data)[at] = (uint8_t)test_random(&rng);
            }
            assert_int_equal(storwin_ckpt_commit(ckpt, NULL), 0);
            if (round % 3 == 2) {
                storwin_ckpt_close(ckpt);
                ckpt = open_ckpt(&opts);
            }
            assert_int_equal(storwin_ckpt_query(ckpt, &info), 0);
            assert_int_equal(info.generation, round + 1);
            assert_memory_equal(info.data, model, STATE);
        }
        storwin_ckpt_close(ckpt);
        free(model);
        unlink(opts.filename);
    }
}

static void not_committed(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind++) {
        struct storwin_opts opts = ckpt_opts(kind);
        struct storwin_ckpt *ckpt = open_ckpt(&opts);
        void *data;

        commit(ckpt, 1, 0);
        commit(ckpt, 2, 0);
        assert_int_equal(storwin_ckpt_begin(ckpt, 0, &data, NULL), 0);
        fill(data, 77);
        assert_true(holds(ckpt, 2)); /* the newest is not disturbed */
        storwin_ckpt_close(ckpt);
        ckpt = open_ckpt(&opts);
        assert_true(holds(ckpt, 2));
        storwin_ckpt_close(ckpt);
        unlink(opts.filename);
    }
}

/* Every byte of the newest header, and some of its data: damaged, it is not restored; the one
 * before is. */
static void torn(void **state)
{
    struct storwin_opts opts = ckpt_opts(0);
    struct storwin_ckpt *ckpt = open_ckpt(&opts);
    struct storwin_error err;

    (void)state;
    commit(ckpt, 1, 0);
    commit(ckpt, 2, 0); /* in slot 1 */
    storwin_ckpt_close(ckpt);
    for (uint32_t i = 0; i < sizeof(struct storwin__ckpt_header) + 40; i++) {
        uint64_t at = i < sizeof(struct storwin__ckpt_header)
                          ? SLOT_BYTES + i
                          : SLOT_BYTES + 65536 + (i * 7919u) % STATE;
        uint8_t was, now;
        int rc;

        if (i == sizeof(struct storwin__ckpt_header) + 39)
            at = SLOT_BYTES + 65536 + STATE - 1;
        read_file(opts.filename, at, &was, 1);
        now = was ^ (uint8_t)(1u << i % 8);
        write_file(opts.filename, at, &now, 1);
        rc = storwin_ckpt_open(&opts, STATE, 7, &ckpt, &err);
        if (rc == 0) {
            assert_true(holds(ckpt, 1));
            storwin_ckpt_close(ckpt);
        } else {
            assert_int_equal(rc, STORWIN_EFORMAT); /* the magic and what follows it */
            assert_true(i < offsetof(struct storwin__ckpt_header, bytes));
        }
        write_file(opts.filename, at, &was, 1);
    }
    ckpt = open_ckpt(&opts);
    assert_true(holds(ckpt, 2));
    commit(ckpt, 3, 0);
    storwin_ckpt_close(ckpt);
    /* A slot that was never finished: its header is of the state before last, its data is not. */
    write_file(opts.filename, 65536 + 1000, "torn", 4);
    ckpt = open_ckpt(&opts);
    assert_true(holds(ckpt, 2));
    storwin_ckpt_close(ckpt);
    unlink(opts.filename);
}

static void other_files(void **state)
{
    static const char text[] = "somebody's thesis, the only copy";
    struct storwin_opts opts = ckpt_opts(0);
    struct storwin_ckpt *ckpt = (void *)&opts, *second;
    struct storwin_error err;
    char copy[sizeof(text)];

    (void)state;
    write_file(opts.filename, 0, text, sizeof(text));
    assert_int_equal(storwin_ckpt_open(&opts, STATE, 7, &ckpt, &err), STORWIN_EFORMAT);
    assert_ptr_equal(ckpt, &opts);
    assert_int_equal(file_size(opts.filename), sizeof(text));
    read_file(opts.filename, 0, copy, sizeof(text));
    assert_string_equal(copy, text);
    unlink(opts.filename);

    ckpt = open_ckpt(&opts);
    assert_int_equal(storwin_ckpt_open(&opts, STATE, 7, &second, &err), STORWIN_EBUSY);
    commit(ckpt, 1, 0);
    storwin_ckpt_close(ckpt);
    assert_int_equal(storwin_ckpt_open(&opts, STATE + 1, 7, &ckpt, &err), STORWIN_EFORMAT);
    assert_int_equal(storwin_ckpt_open(&opts, 3 * STATE, 7, &ckpt, &err), STORWIN_EFORMAT);
    assert_int_equal(storwin_ckpt_open(&opts, STATE, 8, &ckpt, &err), STORWIN_EVERSION);
    assert_int_equal(file_size(opts.filename), 2 * SLOT_BYTES);
    assert_int_equal(storwin_ckpt_open(&opts, STATE, 0, &ckpt, &err),
                     0); /* any version, and it stays that */
    commit(ckpt, 2, 0);
    storwin_ckpt_close(ckpt);
    ckpt = open_ckpt(&opts);
    assert_true(holds(ckpt, 2));
    storwin_ckpt_close(ckpt);
    unlink(opts.filename);
}

static void arguments(void **state)
{
    struct storwin_opts opts = ckpt_opts(0);
    struct storwin_info_ckpt info = {.size = sizeof(info)};
    struct storwin_ckpt *ckpt;
    struct storwin_error err;
    void *data;
    int fd;

    (void)state;
    assert_int_equal(storwin_ckpt_open(NULL, 1, 0, &ckpt, &err), -EINVAL);
    assert_int_equal(storwin_ckpt_open(&opts, 0, 0, &ckpt, &err), -EINVAL);
    assert_int_equal(storwin_ckpt_open(&opts, STORWIN_MAX_BYTES / 4 + 1, 0, &ckpt, &err), -EINVAL);
    opts.pager = STORWIN_PAGER_USER;
    assert_int_equal(storwin_ckpt_open(&opts, 1, 0, &ckpt, &err), STORWIN_ECONFLICT);
    assert_string_equal(err.hint, "storage_alloc_pager");
    opts.pager = STORWIN_PAGER_KERNEL;
    opts.filename = NULL;
    assert_int_equal(storwin_ckpt_open(&opts, 1, 0, &ckpt, &err), STORWIN_EMISSING);
    opts.filename = test_dir;
    assert_int_equal(storwin_ckpt_open(&opts, 1, 0, &ckpt, &err), STORWIN_ETYPE);
    /* Behind the end of all files, where nothing is that could be something else. */
    opts.filename = test_path("far");
    fd = open(opts.filename, O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0 && ftruncate(fd, 10) == 0);
    close(fd);
    opts.offset_bytes = (uint64_t)INT64_MAX / 65536 * 65536;
    assert_int_equal(storwin_ckpt_open(&opts, 1, 0, &ckpt, &err), -EFBIG);
    assert_string_equal(err.hint, "storage_alloc_offset");
    assert_int_equal(file_size(opts.filename), 10);
    unlink(opts.filename);
    opts.filename = test_path("ckpt");
    opts.flags = STORWIN_UNLINK;
    opts.offset_bytes = 3 * (uint64_t)sysconf(_SC_PAGESIZE);
    ckpt = open_ckpt(&opts);
    assert_int_equal(storwin_ckpt_commit(ckpt, &err), STORWIN_ESTATE);
    assert_int_equal(storwin_ckpt_begin(ckpt, 2, &data, NULL), -EINVAL);
    assert_int_equal(storwin_ckpt_begin(ckpt, 0, NULL, NULL), -EINVAL);
    assert_int_equal(storwin_ckpt_begin(ckpt, STORWIN_CKPT_COPY, &data, NULL),
                     0); /* of nothing: zeros */
    assert_int_equal(((char *)data)[STATE - 1], 0);
    assert_int_equal(storwin_ckpt_begin(ckpt, 0, &data, &err), STORWIN_ESTATE);
    assert_int_equal(err.code, STORWIN_ESTATE);
    assert_non_null(strstr(err.text, "not committed"));
    assert_int_equal(storwin_ckpt_query(ckpt, &info), STORWIN_ENONE);
    assert_int_equal(info.open, 1);
    assert_int_equal(storwin_ckpt_query(ckpt, NULL), -EINVAL);
    assert_int_equal(storwin_ckpt_commit(ckpt, &err), 0);
    storwin_ckpt_close(ckpt);
    assert_int_equal(file_size(opts.filename), UINT64_MAX);
}

/* A commit whose number would be 0 would not be found again. */
static void last_generation(void **state)
{
    struct storwin_opts opts = ckpt_opts(0);
    static uint8_t data[STATE];
    struct storwin__ckpt_header h;
    struct storwin_ckpt *ckpt;
    struct storwin_error err;
    uint64_t sum = 0;
    void *begun;

    (void)state;
    fill(data, UINT64_MAX);
    for (uint32_t at = 0; at < STATE; at += 4096)
        sum += storwin__sum(data + at, STATE - at < 4096 ? STATE - at : 4096, at / 4096);
    for (uint64_t generation = UINT64_MAX - 1; generation != 0; generation++) {
        storwin__ckpt_header_make(&h, STATE, generation, 7, sum, 0);
        write_file(opts.filename, 65536, data, STATE);
        write_file(opts.filename, 0, &h, sizeof(h));
        ckpt = open_ckpt(&opts);
        assert_int_equal(storwin_ckpt_begin(ckpt, 0, &begun, NULL), 0);
        assert_int_equal(storwin_ckpt_commit(ckpt, &err),
                         generation == UINT64_MAX ? -EOVERFLOW : 0);
        storwin_ckpt_close(ckpt);
        ckpt = open_ckpt(&opts);
        assert_int_equal(ckpt_generation(ckpt), UINT64_MAX);
        storwin_ckpt_close(ckpt);
        unlink(opts.filename);
    }
}

/* Every bit of a block and its place count. */
static void sums(void **state)
{
    uint8_t block[100] = {0};

    (void)state;
    for (size_t len = 0; len <= sizeof(block); len++) {
        uint64_t sum = storwin__sum(block, len, 5);

        assert_true(storwin__sum(block, len, 6) != sum);
        assert_true(len == 0 || storwin__sum(block, len - 1, 5) != sum);
        for (size_t bit = 0; bit < len * 8; bit++) {
            block[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_true(storwin__sum(block, len, 5) != sum);
            block[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generations),     cmocka_unit_test(small_changes),
        cmocka_unit_test(not_committed),   cmocka_unit_test(torn),
        cmocka_unit_test(other_files),     cmocka_unit_test(arguments),
        cmocka_unit_test(last_generation), cmocka_unit_test(sums),
        cmocka_unit_test(in_a_child),
    };

    test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
