/* SPDX-License-Identifier: BSD-3-Clause */
/* Hints: every value at, below and above its limits; unknown keys; the string form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <locale.h>

#include "../../libstorwin/src/internal.h"
#include "storwin_test.h"

static char long_path[STORWIN_MAX_PATH + 2];

struct row {
    const char *key, *value;
    int rc;
    const char *back; /* what storwin__hint_text() gives afterwards; NULL: the value itself */
};

static const struct row rows[] = {
    {"storage_alloc_raw", "true", 0, NULL},
    {"storage_alloc_raw", "false", 0, NULL},
    {"storage_alloc_raw", "yes", STORWIN_EVALUE, NULL},
    {"storage_alloc_atomic", "none", 0, NULL},
    {"storage_alloc_atomic", "auto", 0, NULL},
    {"storage_alloc_atomic", "true", STORWIN_EVALUE, NULL},
    {"storage_alloc_changes", "tracked", 0, NULL},
    {"storage_alloc_changes", "seen", STORWIN_EVALUE, NULL},
    {"storage_alloc_generation", "1", 0, NULL},
    {"storage_alloc_generation", "9223372036854775807", 0, NULL},
    {"storage_alloc_generation", "0", STORWIN_EVALUE, NULL},
    {"storage_alloc_generation", "newest", STORWIN_EVALUE, NULL},
    {"storage_alloc_generations", "1", STORWIN_EVALUE, NULL},
    {"storage_alloc_generations", "2", 0, NULL},
    {"storage_alloc_generations", "16", 0, NULL},
    {"storage_alloc_generations", "17", STORWIN_EVALUE, NULL},
    {"storage_alloc_version", "1", 0, NULL},
    {"storage_alloc_version", "18446744073709551615", 0, NULL},
    {"storage_alloc_version", "18446744073709551616", STORWIN_EVALUE, NULL},
    {"storage_alloc_version", "0", STORWIN_EVALUE, NULL},
    {"storage_alloc_version", "v2", STORWIN_EVALUE, NULL},
    {"alloc_type", "memory", 0, NULL},
    {"alloc_type", "storage", 0, NULL},
    {"alloc_type", "Storage", STORWIN_EVALUE, NULL},
    {"alloc_type", "", STORWIN_EVALUE, NULL},
    {"alloc_type", "storag", STORWIN_EVALUE, NULL},
    {"alloc_type", "storage ", STORWIN_EVALUE, NULL},
    {"storage_alloc_filename", "", STORWIN_EVALUE, NULL},
    {"storage_alloc_filename", "a", 0, NULL},
    {"storage_alloc_offset", "0", 0, NULL},
    {"storage_alloc_offset", "1", 0, NULL}, /* alignment is the allocation's business */
    {"storage_alloc_offset", "9223372036854775807", 0, NULL},
    {"storage_alloc_offset", "9223372036854775808", STORWIN_EVALUE, NULL},
    {"storage_alloc_offset", "18446744073709551616", STORWIN_EVALUE, NULL},
    {"storage_alloc_offset", "-1", STORWIN_EVALUE, NULL},
    {"storage_alloc_offset", "+1", STORWIN_EVALUE, NULL},
    {"storage_alloc_offset", "0x10", STORWIN_EVALUE, NULL},
    {"storage_alloc_offset", " 1", STORWIN_EVALUE, NULL},
    {"storage_alloc_offset", "", STORWIN_EVALUE, NULL},
    {"storage_alloc_factor", "0", 0, NULL},
    {"storage_alloc_factor", "1", 0, NULL},
    {"storage_alloc_factor", "auto", 0, NULL},
    {"storage_alloc_factor", "0.5", 0, NULL},
    {"storage_alloc_factor", ".25", 0, "0.25"},
    {"storage_alloc_factor", "1.", 0, "1"},
    {"storage_alloc_factor", "1.000000000", 0, "1"},
    {"storage_alloc_factor", "0.000000001", 0, NULL},
    {"storage_alloc_factor", "0.999999999", 0, NULL},
    {"storage_alloc_factor", "0.1234567891", STORWIN_EVALUE, NULL},
    {"storage_alloc_factor", "1.000000001", STORWIN_EVALUE, NULL},
    {"storage_alloc_factor", "1.1", STORWIN_EVALUE, NULL},
    {"storage_alloc_factor", "2", STORWIN_EVALUE, NULL},
    {"storage_alloc_factor", "99999999999999999999", STORWIN_EVALUE, NULL},
    {"storage_alloc_factor", "-0.5", STORWIN_EVALUE, NULL},
    {"storage_alloc_factor", "0,5", STORWIN_EVALUE, NULL},
    {"storage_alloc_factor", "0.5.5", STORWIN_EVALUE, NULL},
    {"storage_alloc_factor", ".", STORWIN_EVALUE, NULL},
    {"storage_alloc_factor", "", STORWIN_EVALUE, NULL},
    {"storage_alloc_factor", "5e-1", STORWIN_EVALUE, NULL},
    {"storage_alloc_factor", "nan", STORWIN_EVALUE, NULL},
    {"storage_alloc_factor", "Auto", STORWIN_EVALUE, NULL},
    {"storage_alloc_order", "memory_first", 0, NULL},
    {"storage_alloc_order", "storage_first", 0, NULL},
    {"storage_alloc_order", "first", STORWIN_EVALUE, NULL},
    {"storage_alloc_unlink", "true", 0, NULL},
    {"storage_alloc_unlink", "false", 0, NULL},
    {"storage_alloc_unlink", "1", STORWIN_EVALUE, NULL},
    {"storage_alloc_discard", "true", 0, NULL},
    {"storage_alloc_discard", "TRUE", STORWIN_EVALUE, NULL},
    {"storage_alloc_sparse", "true", 0, NULL},
    {"storage_alloc_sparse", "yes", STORWIN_EVALUE, NULL},
    {"access_style", "read_once", 0, NULL},
    {"access_style", "random", 0, NULL},
    {"access_style", "read_mostly,write_once", 0, "write_once,read_mostly"},
    {"access_style", "read_mostly, random", 0, "read_mostly,random"},
    {"access_style",
     "sequential,reverse_sequential,random,read_once,write_once,read_mostly,write_mostly", 0,
     "read_once,write_once,read_mostly,write_mostly,sequential,reverse_sequential,random"},
    {"access_style", "", STORWIN_EVALUE, NULL},
    {"access_style", "random,", STORWIN_EVALUE, NULL},
    {"access_style", ",random", STORWIN_EVALUE, NULL},
    {"access_style", "random random", STORWIN_EVALUE, NULL},
    {"access_style", "sometimes", STORWIN_EVALUE, NULL},
    {"file_perm", "0", 0, "00"},
    {"file_perm", "0600", 0, NULL},
    {"file_perm", "0777", 0, NULL},
    {"file_perm", "01000", STORWIN_EVALUE, NULL},
    {"file_perm", "04755", STORWIN_EVALUE, NULL},
    {"file_perm", "384", 0, "0600"}, /* decimal, as printed from S_IRUSR | S_IWUSR */
    {"file_perm", "511", 0, "0777"},
    {"file_perm", "512", STORWIN_EVALUE, NULL},
    {"file_perm", "38a", STORWIN_EVALUE, NULL},
    {"file_perm", "0608", STORWIN_EVALUE, NULL},
    {"file_perm", "", STORWIN_EVALUE, NULL},
    {"storage_alloc_block", "4096", 0, NULL},
    {"storage_alloc_block", "1048576", 0, NULL},
    {"storage_alloc_block", "2048", STORWIN_EVALUE, NULL},
    {"storage_alloc_block", "12288", STORWIN_EVALUE, NULL},
    {"storage_alloc_block", "2097152", STORWIN_EVALUE, NULL},
    {"striping_factor", "0", STORWIN_EVALUE, NULL},
    {"striping_factor", "1", 0, NULL},
    {"striping_factor", "65535", 0, NULL},
    {"striping_factor", "65536", STORWIN_EVALUE, NULL},
    {"striping_unit", "0", STORWIN_EVALUE, NULL},
    {"striping_unit", "65535", STORWIN_EVALUE, NULL},
    {"striping_unit", "65536", 0, NULL},
    {"striping_unit", "65537", STORWIN_EVALUE, NULL},
    {"striping_unit", "4294901760", 0, NULL},
    {"striping_unit", "4294967296", STORWIN_EVALUE, NULL},
    {"storage_alloc_pager", "kernel", 0, NULL},
    {"storage_alloc_pager", "resident", 0, NULL},
    {"storage_alloc_pager", "user", 0, NULL},
    {"storage_alloc_pager", "users", STORWIN_EVALUE, NULL},
    {"storage_alloc_budget", "1048575", STORWIN_EVALUE, NULL},
    {"storage_alloc_budget", "1048576", 0, NULL},
    {"storage_alloc_budget", "70368744177664", 0, NULL},
    {"storage_alloc_budget", "70368744177665", STORWIN_EVALUE, NULL},
    {"storage_alloc_memory", "0", STORWIN_EVALUE, NULL},
    {"storage_alloc_memory", "1", 0, NULL},
    {"storage_alloc_memory", "70368744177664", 0, NULL},
    {"storage_alloc_memory", "70368744177665", STORWIN_EVALUE, NULL},
    {"storage_alloc_memfd", "true", 0, NULL},
    {"storage_alloc_memfd", "false", 0, NULL},
    {"storage_alloc_memfd", "0", STORWIN_EVALUE, NULL},
    {"storage_alloc_threads", "0", STORWIN_EVALUE, NULL},
    {"storage_alloc_threads", "1", 0, NULL},
    {"storage_alloc_threads", "64", 0, NULL},
    {"storage_alloc_threads", "65", STORWIN_EVALUE, NULL},
    {"Alloc_type", "storage", STORWIN_UNKNOWN, NULL},
    {"alloc_typ", "storage", STORWIN_UNKNOWN, NULL},
    {"alloc_typee", "storage", STORWIN_UNKNOWN, NULL},
    {"cb_buffer_size", "1", STORWIN_UNKNOWN, NULL},
    {"", "1", STORWIN_UNKNOWN, NULL},
};

static void every_value(void **state)
{
    unsigned known = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        struct storwin_opts opts, before;
        struct storwin_error err = {.code = 77};
        char text[4200];

        storwin_opts_init(&opts);
        before = opts;
        if (storwin_opts_set(&opts, row->key, row->value, &err) != row->rc)
            fail_msg("%s=%s: not %d", row->key, row->value, row->rc);
        if (row->rc == 0) {
            const char *back = row->back ? row->back : row->value;

            assert_int_equal(storwin__hint_text(&opts, row->key, text, sizeof(text)), strlen(back));
            assert_string_equal(text, back);
            assert_int_equal(storwin__hint_text(&opts, row->key, text, strlen(back)), -ENOBUFS);
            known++;
        } else {
            assert_memory_equal(&opts, &before, sizeof(opts));
        }
        if (row->rc < 0) {
            assert_int_equal(err.code, row->rc);
            assert_string_equal(err.hint, row->key);
            assert_non_null(strstr(err.text, row->key));
        } else {
            assert_int_equal(err.code, 77);
        }
    }
    assert_true(known > 30);
}

static void paths(void **state)
{
    struct storwin_opts opts;

    storwin_opts_init(&opts);
    memset(long_path, 'a', STORWIN_MAX_PATH + 1);
    assert_int_equal(storwin_opts_set(&opts, "storage_alloc_filename", long_path, NULL),
                     STORWIN_EVALUE);
    long_path[STORWIN_MAX_PATH] = '\0';
    assert_int_equal(storwin_opts_set(&opts, "storage_alloc_filename", long_path, NULL), 0);
    assert_ptr_equal(opts.filename, long_path);
}

/* A hint sets its own field and no other: a table that confused two hints would still read and
 * print them alike. */
static void every_field(void **state)
{
    struct storwin_opts want, got;

#define SETS(key, text, field, value)                                                              \
    storwin_opts_init(&want);                                                                      \
    got = want;                                                                                    \
    want.field = value;                                                                            \
    assert_int_equal(storwin_opts_set(&got, key, text, NULL), 0);                                  \
    assert_memory_equal(&got, &want, sizeof(got))
    SETS("alloc_type", "storage", alloc_type, STORWIN_STORAGE);
    SETS("storage_alloc_offset", "8192", offset_bytes, 8192);
    SETS("storage_alloc_factor", "0.25", factor_ppb, STORWIN_FACTOR_ONE / 4);
    SETS("storage_alloc_factor", "auto", factor_ppb, STORWIN_FACTOR_AUTO);
    SETS("storage_alloc_order", "storage_first", order, STORWIN_STORAGE_FIRST);
    SETS("storage_alloc_unlink", "true", flags, STORWIN_UNLINK);
    SETS("storage_alloc_discard", "true", flags, STORWIN_DISCARD);
    SETS("storage_alloc_sparse", "true", flags, STORWIN_SPARSE);
    SETS("storage_alloc_memfd", "true", flags, STORWIN_MEMFD);
    SETS("storage_alloc_raw", "true", flags, STORWIN_RAW);
    SETS("access_style", "read_once", access_style, STORWIN_ACCESS_READ_ONCE);
    SETS("access_style", "write_once", access_style, STORWIN_ACCESS_WRITE_ONCE);
    SETS("access_style", "read_mostly", access_style, STORWIN_ACCESS_READ_MOSTLY);
    SETS("access_style", "write_mostly", access_style, STORWIN_ACCESS_WRITE_MOSTLY);
    SETS("access_style", "sequential", access_style, STORWIN_ACCESS_SEQUENTIAL);
    SETS("access_style", "reverse_sequential", access_style, STORWIN_ACCESS_REVERSE);
    SETS("access_style", "random", access_style, STORWIN_ACCESS_RANDOM);
    SETS("file_perm", "0640", file_perm, 0640);
    SETS("striping_factor", "3", striping_factor, 3);
    SETS("striping_unit", "131072", striping_unit, 131072);
    SETS("storage_alloc_pager", "resident", pager, STORWIN_PAGER_RESIDENT);
    SETS("storage_alloc_pager", "user", pager, STORWIN_PAGER_USER);
    SETS("storage_alloc_budget", "2097152", budget_bytes, 2097152);
    SETS("storage_alloc_memory", "12345", memory_bytes, 12345);
    SETS("storage_alloc_threads", "5", n_threads, 5);
    SETS("storage_alloc_atomic", "journal", atomic, STORWIN_ATOMIC_JOURNAL);
    SETS("storage_alloc_atomic", "slots", atomic, STORWIN_ATOMIC_SLOTS);
    SETS("storage_alloc_changes", "tracked", changes, STORWIN_CHANGES_TRACKED);
    SETS("storage_alloc_changes", "compared", changes, STORWIN_CHANGES_COMPARED);
    SETS("storage_alloc_generation", "7", generation, 7);
    SETS("storage_alloc_version", "8", app_version, 8);
    SETS("storage_alloc_generations", "3", generations, 3);
}

/* Every key of the table is tried above, and is listed. */
static void every_key(void **state)
{
    size_t n = 0;

    for (const char *key; (key = storwin_hint_key(n)) != NULL; n++) {
        int good = 0, bad = 0;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            good += strcmp(rows[i].key, key) == 0 && rows[i].rc == 0;
            bad += strcmp(rows[i].key, key) == 0 && rows[i].rc < 0;
        }
        if (good == 0 || bad == 0)
            fail_msg("%s is not in the table of this test", key);
    }
    assert_int_equal(n, STORWIN__HINTS);
    assert_null(storwin_hint_key(SIZE_MAX));
}

static void null_arguments(void **state)
{
    struct storwin_opts opts;
    struct storwin_error err;

    storwin_opts_init(&opts);
    assert_int_equal(storwin_opts_set(NULL, "alloc_type", "memory", &err), -EINVAL);
    assert_int_equal(storwin_opts_set(&opts, NULL, "memory", NULL), -EINVAL);
    assert_int_equal(storwin_opts_set(&opts, "alloc_type", NULL, &err), -EINVAL);
    opts.size--;
    assert_int_equal(storwin_opts_set(&opts, "alloc_type", "memory", &err), -EINVAL);
    assert_int_equal(storwin_hints_split(NULL, NULL, 0, &err), -EINVAL);
}

static void one_after_another(void **state)
{
    struct storwin_opts opts, before;
    struct storwin_error err;

    storwin_opts_init(&opts);
    assert_int_equal(storwin_opts_set(&opts, "alloc_type", "memory", &err), 0);
    before = opts;
    assert_int_equal(storwin_opts_set(&opts, "cb_nodes", "4", &err), STORWIN_UNKNOWN);
    assert_memory_equal(&opts, &before, sizeof(opts));
    assert_int_equal(storwin_opts_set(&opts, "storage_alloc_factor", "0.5", &err), 0);
    assert_int_equal(storwin_opts_set(&opts, "alloc_type", "storage", &err), 0);
    assert_int_equal(opts.alloc_type, STORWIN_STORAGE); /* the later one counts */
    assert_int_equal(opts.factor_ppb, STORWIN_FACTOR_ONE / 2);
    before = opts;
    assert_int_equal(storwin_opts_set(&opts, "storage_alloc_factor", "3", &err), STORWIN_EVALUE);
    assert_string_equal(err.hint, "storage_alloc_factor");
    assert_memory_equal(&opts, &before, sizeof(opts));
}

static void split(void **state)
{
    char text[] = " alloc_type = storage ;;\tstorage_alloc_filename=/a b=c ; x=; ";
    char none[] = "", no_equals[] = "a=b;c", no_key[] = "=b", blank_key[] = "  =b",
         three[] = "a=1;b=2;c=3";
    struct storwin_hint hints[3];
    struct storwin_error err;

    assert_int_equal(storwin_hints_split(text, hints, 3, &err), 3);
    assert_string_equal(hints[0].key, "alloc_type");
    assert_string_equal(hints[0].value, "storage");
    assert_string_equal(hints[1].key, "storage_alloc_filename");
    assert_string_equal(hints[1].value, "/a b=c");
    assert_string_equal(hints[2].key, "x");
    assert_string_equal(hints[2].value, "");
    assert_int_equal(storwin_hints_split(none, hints, 3, &err), 0);
    assert_int_equal(storwin_hints_split(none, NULL, 0, &err), 0);
    assert_int_equal(storwin_hints_split(no_equals, hints, 3, &err), STORWIN_ESYNTAX);
    assert_int_equal(storwin_hints_split(no_key, hints, 3, &err), STORWIN_ESYNTAX);
    assert_int_equal(storwin_hints_split(blank_key, hints, 3, &err), STORWIN_ESYNTAX);
    assert_int_equal(storwin_hints_split(three, hints, 2, &err), -ENOBUFS);
}

/* The struct has the same limits as the strings. */
static void struct_limits(void **state)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct storwin_opts good = storage_opts("x"), opts, copy;
    struct storwin_error err;

#define BAD(member, value, code, name)                                                             \
    opts = good;                                                                                   \
    opts.member = value;                                                                           \
    assert_int_equal(storwin__opts_check(&opts, page, &err), code);                                \
    assert_string_equal(err.hint, name)
    assert_int_equal(storwin__opts_check(&good, page, &err), 0);
    BAD(alloc_type, 2, STORWIN_EVALUE, "alloc_type");
    BAD(block_bytes, 2048, STORWIN_EVALUE, "storage_alloc_block");
    BAD(block_bytes, 12288, STORWIN_EVALUE, "storage_alloc_block");
    BAD(block_bytes, 2097152, STORWIN_EVALUE, "storage_alloc_block");
    BAD(order, 2, STORWIN_EVALUE, "storage_alloc_order");
    BAD(pager, 3, STORWIN_EVALUE, "storage_alloc_pager");
    BAD(factor_ppb, STORWIN_FACTOR_ONE + 1, STORWIN_EVALUE, "storage_alloc_factor");
    BAD(factor_ppb, STORWIN_FACTOR_AUTO - 1, STORWIN_EVALUE, "storage_alloc_factor");
    BAD(access_style, 128, STORWIN_EVALUE, "access_style");
    BAD(file_perm, 01000, STORWIN_EVALUE, "file_perm");
    BAD(striping_factor, 65536, STORWIN_EVALUE, "striping_factor");
    BAD(striping_unit, 1, STORWIN_EVALUE, "striping_unit");
    BAD(striping_unit, 65535, STORWIN_EVALUE, "striping_unit");
    BAD(striping_unit, 98304, STORWIN_EVALUE, "striping_unit");
    BAD(n_threads, 65, STORWIN_EVALUE, "storage_alloc_threads");
    BAD(memory_bytes, STORWIN_MAX_BYTES + 1, STORWIN_EVALUE, "storage_alloc_memory");
    BAD(budget_bytes, STORWIN_MIN_BUDGET - 1, STORWIN_EVALUE, "storage_alloc_budget");
    BAD(budget_bytes, STORWIN_MAX_BYTES + 1, STORWIN_EVALUE, "storage_alloc_budget");
    BAD(offset_bytes, page - 1, STORWIN_EVALUE, "storage_alloc_offset");
    BAD(offset_bytes, UINT64_MAX / page * page, STORWIN_EVALUE, "storage_alloc_offset");
    BAD(filename, NULL, STORWIN_EMISSING, "storage_alloc_filename");
    BAD(filename, "", STORWIN_EVALUE, "storage_alloc_filename");
    memset(long_path, 'a', STORWIN_MAX_PATH + 1);
    BAD(filename, long_path, STORWIN_EVALUE, "storage_alloc_filename");
    opts.filename = long_path + 1;
    assert_int_equal(storwin__opts_check(&opts, page, &err), 0);
    BAD(access_style, STORWIN_ACCESS_RANDOM | STORWIN_ACCESS_SEQUENTIAL, STORWIN_ECONFLICT,
        "access_style");
    BAD(access_style, STORWIN_ACCESS_RANDOM | STORWIN_ACCESS_REVERSE, STORWIN_ECONFLICT,
        "access_style");
    BAD(flags, 32, -EINVAL, "");
    opts = good;
    opts.pager = STORWIN_PAGER_RESIDENT;
    assert_int_equal(storwin__opts_check(&opts, 131072, &err), 0);
    opts.atomic = STORWIN_ATOMIC_SLOTS;
    assert_int_equal(storwin__opts_check(&opts, 65536, &err), 0);
    assert_int_equal(storwin__opts_check(&opts, 131072, &err), -EOPNOTSUPP);
    assert_string_equal(err.hint, "storage_alloc_atomic");
    opts = good;
    opts.size = 8; /* other sizes: test_opts_size.c */
    assert_int_equal(storwin__opts_take(&copy, &opts, sizeof(copy), &err), -EINVAL);
    assert_string_equal(err.hint, "");
}

static void explains(void **state)
{
    for (int code = 3; code >= -200; code--)
        assert_true(strlen(storwin_strerror(code)) > 0);
    for (int code = STORWIN_EVALUE; code >= STORWIN_ERACE; code--)
        assert_string_not_equal(storwin_strerror(code), "unknown error code");
    assert_string_equal(storwin_strerror(STORWIN_ERACE - 1), "unknown error code");
    assert_string_equal(storwin_strerror(INT32_MIN), "unknown error code");
    assert_string_equal(storwin_strerror(-ENOSPC), "No space left on device");
    assert_string_equal(storwin_strerror(-EIO), "Input/output error");
    assert_string_equal(storwin_strerror(-4095), "unknown error code");
    assert_string_equal(storwin_version(), STORWIN_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value),    cmocka_unit_test(paths),
        cmocka_unit_test(every_field),    cmocka_unit_test(every_key),
        cmocka_unit_test(null_arguments), cmocka_unit_test(one_after_another),
        cmocka_unit_test(split),          cmocka_unit_test(struct_limits),
        cmocka_unit_test(explains),
    };

    (void)setlocale(LC_ALL, "de_DE.UTF-8"); /* where there is one, 0.5 is still a half */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
