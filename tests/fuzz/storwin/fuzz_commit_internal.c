/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target: damaged files of atomic commits.
 *
 * The first byte chooses one of four files, one for each way of committing and one that keeps three
 * generations, whose commits are known; the rest is a list of faults: flipped bits, swapped,
 * overwritten or zeroed blocks, a truncated end. An opened file has a committed state with the
 * right number. After a single fault that is the newest state, or an error reports the damage, and
 * the generation that the error calls whole opens. storwin_file_query() and storwin_open_read()
 * agree with the opened state.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>

#include "../../../libstorwin/src/commit.h"
#include "fuzz.h"
#include "fuzz_scratch.h"

#define BYTES       20000u /* five blocks */
#define IMAGE_BYTES (6 * 65536u)
#define N_BLOCKS    (IMAGE_BYTES / 4096)
#define COMMITS     7u

static uint8_t images[4][IMAGE_BYTES], states[COMMITS + 1][BYTES];
static uint64_t image_bytes[4];
static char path[64];

static void check(int holds)
{
    if (!holds)
        abort();
}

static struct storwin_opts options(uint32_t atomic, uint64_t generation)
{
    struct storwin_opts opts;

    storwin_opts_init(&opts);
    opts.alloc_type = STORWIN_STORAGE;
    opts.filename = path;
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = atomic;
    opts.changes = STORWIN_CHANGES_COMPARED;
    opts.generation = generation;
    opts.flags = STORWIN_DISCARD | STORWIN_SPARSE;
    opts.n_threads = 1;
    return opts;
}

static const uint32_t atomics[] = {STORWIN_ATOMIC_JOURNAL, STORWIN_ATOMIC_SLOTS,
                                   STORWIN_ATOMIC_AUTO, STORWIN_ATOMIC_SLOTS};

/* The state of a generation, from the one before: one block changes, or everything. */
static void advance(uint8_t *state, unsigned generation)
{
    if (generation % 3)
        memset(state + generation % 4 * 4096, (int)generation, 500);
    else
        memset(state, (int)generation, BYTES);
}

static void prepare(void)
{
    snprintf(path, sizeof(path), "%s/fuzz-commit-%ld", fuzz_directory(), (long)getpid());
    for (uint32_t i = 0; i < 4; i++) {
        struct storwin_opts opts = options(atomics[i], 0);
        struct storwin_window *win;
        ssize_t n;
        int fd;

        opts.generations = i == 3 ? 3 : 0;
        check(storwin_alloc(&opts, BYTES, &win, NULL) == 0);
        for (unsigned g = 1; g <= COMMITS; g++) {
            advance(storwin_base(win), g);
            check(storwin_commit(win, NULL) == 0);
            memcpy(states[g], storwin_base(win), BYTES);
        }
        check(storwin_free(win, NULL) == 0);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = pread(fd, images[i], IMAGE_BYTES, 0);
        check(fd >= 0 && n > 0);
        image_bytes[i] = (uint64_t)n;
        close(fd);
        unlink(path);
    }
}

/* The next bytes of the input; zeros behind its end. */
struct input {
    const uint8_t *at, *end;
};

static uint32_t take(struct input *in)
{
    uint32_t n = in->at < in->end ? *in->at++ : 0;

    return n | (in->at < in->end ? (uint32_t)*in->at++ : 0) << 8;
}

/* Returns the number of faults. */
static unsigned damage(uint8_t *image, uint64_t *bytes, struct input *in)
{
    unsigned n, cuts = 0;

    for (n = 0; in->at < in->end && n < 8; n++) {
        static uint8_t block[4096];
        const uint32_t what = take(in), a = take(in), b = take(in);
        uint8_t *to = image + a % N_BLOCKS * 4096, *from = image + b % N_BLOCKS * 4096;

        switch (what % 5) {
        case 0: to[b / 8 % 4096] ^= (uint8_t)(1u << b % 8); break;
        case 1:
            memcpy(block, to, sizeof(block));
            memcpy(to, from, sizeof(block));
            memcpy(from, block, sizeof(block));
            break;
        case 2: memmove(to, from, sizeof(block)); break;
        case 3: memset(to, 0, sizeof(block)); break;
        default: /* the beginning of another block, as a torn write leaves it */
            memmove(to, from, b / N_BLOCKS % 8 * 512);
        }
        if (what % 251 == 250 && *bytes > a % N_BLOCKS * 4096) {
            *bytes = a % N_BLOCKS * 4096;
            memset(image + *bytes, 0, IMAGE_BYTES - *bytes);
            cuts++;
        }
    }
    return n + cuts;
}

/* Opens it; returns the generation of its state, or the error. */
static int64_t open_it(uint32_t atomic, uint64_t generation, struct storwin_error *err)
{
    const struct storwin_opts opts = options(atomic, generation);
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win = NULL;
    int rc = storwin_alloc(&opts, BYTES, &win, err);

    if (rc < 0) {
        check(!win && err->code == rc && err->text[0]);
        return rc;
    }
    check(storwin_query(win, &info) == 0 && info.generation <= COMMITS);
    check(memcmp(storwin_base(win), states[info.generation], BYTES) == 0);
    check(storwin_free(win, NULL) == 0);
    return (int64_t)info.generation;
}

/* Returns the generation of a reader's copy, or the error; 0: no commit. */
static int64_t read_it(uint32_t atomic)
{
    const struct storwin_opts opts = options(atomic, 0);
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win = NULL;
    const int rc = storwin_open_read(&opts, &win, NULL);

    if (rc < 0)
        return rc == STORWIN_ENONE ? 0 : rc;
    check(storwin_query(win, &info) == 0 && info.generation <= COMMITS);
    check(info.bytes == BYTES && memcmp(storwin_base(win), states[info.generation], BYTES) == 0);
    check(storwin_free(win, NULL) == 0);
    return (int64_t)info.generation;
}

static int query(uint32_t atomic, struct storwin_info_file *file)
{
    const struct storwin_opts opts = options(atomic, 0);
    struct storwin_error err;
    int rc;

    file->size = sizeof(*file);
    rc = storwin_file_query(&opts, file, &err);
    check(rc == 0 || (err.code == rc && err.text[0]));
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint8_t image[IMAGE_BYTES];
    struct input in = {data + 1, data + bytes};
    const uint32_t kind = bytes ? data[0] % 4 : 0, atomic = atomics[kind];
    struct storwin_error err;
    struct storwin_info_file file;
    const char *whole;
    uint64_t length;
    unsigned faults;
    int64_t got, seen;
    int fd, rc;

    if (!path[0])
        prepare();
    if (bytes == 0)
        return 0;
    memcpy(image, images[kind], sizeof(image));
    length = image_bytes[kind];
    faults = damage(image, &length, &in);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(fd >= 0 && pwrite(fd, image, length, 0) == (ssize_t)length);
    close(fd);
    rc = query(atomic, &file);
    seen = read_it(atomic); /* before a window writes its record again */
    got = open_it(atomic, 0, &err);
    check(seen == got);
    check(got >= 0 || got == STORWIN_EDAMAGED || got == STORWIN_EFORMAT);
    if (faults <= 1 && length > 0) /* an empty file is a new one */
        check(got == COMMITS || (faults && got == STORWIN_EDAMAGED));
    if (got > 0)
        check(rc == 0 && file.generation == (uint64_t)got && file.bytes == BYTES && !file.damaged);
    else
        check(rc == (got == 0 ? STORWIN_ENONE : got) || (got == STORWIN_EDAMAGED && rc == 0));
    if (rc == 0 && faults == 0)
        check(open_it(atomic, file.older_generation, &err) == COMMITS - 1);
    whole = got == STORWIN_EDAMAGED ? strstr(err.text, "; generation ") : NULL;
    if (whole) {
        const uint64_t generation = strtoull(whole + strlen("; generation "), NULL, 10);

        check(open_it(atomic, generation, &err) == (int64_t)generation);
    }
    unlink(path);
    return 0;
}
