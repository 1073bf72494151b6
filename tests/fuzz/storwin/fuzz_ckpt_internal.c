/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target: a checkpoint file, and the header of a slot by itself.
 *
 * A header: any bytes are looked at within their bounds; what is taken for a header is one that
 * this library would have made, byte for byte; and a header with any byte changed is not taken.
 *
 * A file: the input is a short program that writes an image of both slots, sealed as a commit would
 * or torn, and then opens it, stores, commits, closes and opens it again. A reader of its own says
 * of each image what storwin_ckpt_open() has to answer and which state it has to find. A file that
 * is refused for what it holds stays as it is, and what was committed is there after the next open.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../../libstorwin/src/ckpt.h"
#include "fuzz.h"
#include "fuzz_scratch.h"
#include "../../../libstorwin/src/internal.h"

#define MAX_STATE  12288u /* three blocks under a sum each */
#define SLOT_BYTES (2 * STORWIN__CKPT_HEADER_BYTES)
#define OFFSET     4096u
#define FILE_BYTES (OFFSET + 2 * SLOT_BYTES)

static void check(int holds)
{
    if (!holds)
        abort();
}

static void any_bytes(const uint8_t *data, uint64_t bytes, uint32_t slot)
{
    struct storwin__ckpt_header *raw = malloc(sizeof(*raw)), h, made;
    int rc;

    check(raw != NULL);
    memcpy(raw, data, sizeof(*raw));
    rc = storwin__ckpt_header_check(raw, bytes, slot, &h);
    check(rc == 0 || rc == STORWIN_ENONE || rc == STORWIN_EFORMAT);
    if (rc == 0) {
        storwin__ckpt_header_make(&made, bytes, h.generation, h.app_version, h.data_sum, slot);
        check(memcmp(&made, raw, sizeof(made)) == 0 && h.generation > 0);
    }
    free(raw);
}

/* A header of these numbers, then the same with one byte different. */
static void made_header(const uint8_t *data)
{
    struct storwin__ckpt_header h, seen;
    uint64_t n[4];
    uint8_t *bytes = (uint8_t *)&h;

    memcpy(n, data, sizeof(n));
    storwin__ckpt_header_make(&h, n[0], n[1], n[2], n[3], data[32] & 1);
    check(storwin__ckpt_header_check(&h, n[0], data[32] & 1, &seen) == (n[1] ? 0 : STORWIN_ENONE));
    check(storwin__ckpt_header_check(&h, n[0] + 1, data[32] & 1, &seen) == STORWIN_EFORMAT);
    check(storwin__ckpt_header_check(&h, n[0], !(data[32] & 1), &seen) == STORWIN_EFORMAT);
    if (data[34] == 0)
        return;
    bytes[data[33] % sizeof(h)] ^= data[34];
    check(storwin__ckpt_header_check(&h, n[0], data[32] & 1, &seen) < 0);
}

/* ---- a file ---- */

/* What is left of the input; zeros behind its end. */
struct input {
    const uint8_t *at, *end;
};

static uint8_t take(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static uint64_t take_number(struct input *in, unsigned bytes)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < bytes; i++)
        n |= (uint64_t)take(in) << 8 * i;
    return n;
}

struct file {
    char path[64];
    uint8_t image[FILE_BYTES];
    uint64_t bytes;  /* of the file, which may end within a slot */
    uint64_t offset; /* of the first slot */
    uint32_t state_bytes;
    struct storwin_opts opts;
};

/* What a file holds, read without the library's help but for the form of a header and the sum of a
 * block. */
struct seen {
    int rc; /* of an open that takes every version */
    int newest;
    uint64_t generation, app_version;
    const uint8_t *data;
    uint32_t n_valid;
};

static uint8_t *slot_at(struct file *f, unsigned slot)
{
    return f->image + f->offset + slot * SLOT_BYTES;
}

static uint64_t data_sum(const uint8_t *data, uint32_t bytes)
{
    uint64_t sum = 0;

    for (uint32_t at = 0; at < bytes; at += 4096)
        sum += storwin__sum(data + at, bytes - at < 4096 ? bytes - at : 4096, at / 4096);
    return sum;
}

static struct seen look(struct file *f)
{
    struct seen s = {.newest = -1};

    for (unsigned i = 0; i < 2; i++) {
        const uint64_t at = f->offset + i * SLOT_BYTES;
        struct storwin__ckpt_header h;
        int rc = storwin__ckpt_header_check(slot_at(f, i), f->state_bytes, i, &h);

        if (rc == STORWIN_EFORMAT || (f->bytes > at && f->bytes < at + sizeof(h)))
            s.rc = STORWIN_EFORMAT;
        if (rc != 0 ||
            h.data_sum != data_sum(slot_at(f, i) + STORWIN__CKPT_HEADER_BYTES, f->state_bytes))
            continue;
        s.n_valid++;
        if (s.newest < 0 || h.generation > s.generation) {
            s.newest = (int)i;
            s.generation = h.generation;
            s.app_version = h.app_version;
            s.data = slot_at(f, i) + STORWIN__CKPT_HEADER_BYTES;
        }
    }
    return s;
}

static void store(struct file *f)
{
    int fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    check(fd >= 0 && pwrite(fd, f->image, f->bytes, 0) == (ssize_t)f->bytes);
    close(fd);
}

static void load(struct file *f)
{
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    memset(f->image, 0, sizeof(f->image));
    check(fd >= 0);
    n = pread(fd, f->image, sizeof(f->image), 0);
    check(n >= 0 && lseek(fd, 0, SEEK_END) == n);
    f->bytes = (uint64_t)n;
    close(fd);
}

/* Up to an order above 3: what the slots hold. A slot is sealed at once, for the data that are
 * there then. */
static void make_image(struct file *f, struct input *in)
{
    while (in->at < in->end) {
        const uint8_t order = take(in);
        uint8_t *slot = slot_at(f, order >> 3 & 1), *data = slot + STORWIN__CKPT_HEADER_BYTES;
        uint32_t at;

        switch (order & 7) {
        case 0: /* bytes of a header */
            for (at = take(in) % sizeof(struct storwin__ckpt_header);
                 at < sizeof(struct storwin__ckpt_header); at++)
                slot[at] = take(in);
            break;
        case 1: /* bytes of the state */
            at = (uint32_t)take_number(in, 2);
            for (unsigned n = take(in), value = take(in); n > 0; n--)
                data[at++ % f->state_bytes] = (uint8_t)(value += n);
            break;
        case 2: { /* the header of a commit; its numbers */
            const uint64_t generation = take_number(in, order & 16 ? 8 : 1), version = take(in);

            storwin__ckpt_header_make((struct storwin__ckpt_header *)(void *)slot, f->state_bytes,
                                      generation, version, data_sum(data, f->state_bytes),
                                      order >> 3 & 1);
            break;
        }
        case 3: /* one byte of it changes */
            at = take(in) % sizeof(struct storwin__ckpt_header);
            slot[at] ^= take(in);
            break;
        default: return;
        }
    }
}

/* Opens it and compares what is found with what lies there. NULL when it was refused, as it should
 * be. */
static struct storwin_ckpt *open_file(struct file *f, uint64_t version, struct seen *before)
{
    static uint8_t was[FILE_BYTES];
    const uint64_t bytes = f->bytes;
    const struct seen s = look(f);
    struct storwin_info_ckpt info = {.size = sizeof(info)};
    struct storwin_ckpt *ckpt = NULL;
    struct storwin_error err;
    int rc = storwin_ckpt_open(&f->opts, f->state_bytes, version, &ckpt, &err);

    *before = s;
    if (s.rc < 0 || (s.newest >= 0 && version != 0 && version != s.app_version)) {
        check(rc == (s.rc < 0 ? s.rc : STORWIN_EVERSION) && !ckpt && err.code == rc && err.text[0]);
        memcpy(was, f->image, sizeof(was));
        load(f);
        check(memcmp(was, f->image, sizeof(was)) == 0 &&
              (rc == STORWIN_EVERSION || f->bytes == bytes));
        return NULL;
    }
    check(rc == 0 && ckpt);
    check(storwin_ckpt_query(ckpt, &info) == (s.newest < 0 ? STORWIN_ENONE : 0));
    check(info.generation == s.generation && info.app_version == s.app_version &&
          info.n_valid == s.n_valid && !info.open);
    check(s.newest < 0 ? !info.data : memcmp(info.data, s.data, f->state_bytes) == 0);
    return ckpt;
}

/* Between open and close: begins, stores and commits. `newest` is what is committed, `state` its
 * bytes. Returns when the input says so. */
static void work(struct file *f, struct input *in, struct storwin_ckpt *ckpt, uint64_t version,
                 struct seen *newest, uint8_t *state)
{
    struct storwin_info_ckpt info = {.size = sizeof(info)};
    void *data = NULL;

    for (uint8_t order; in->at < in->end && (order = take(in) & 7) < 6;) {
        const uint32_t flags = order % 2 ? STORWIN_CKPT_COPY : 0;

        if (order < 2 && data) {
            check(storwin_ckpt_begin(ckpt, flags, &data, NULL) == STORWIN_ESTATE);
        } else if (order < 2) {
            check(storwin_ckpt_begin(ckpt, 4, &data, NULL) == -EINVAL &&
                  storwin_ckpt_begin(ckpt, flags, &data, NULL) == 0);
            check(!flags || newest->newest < 0 || memcmp(data, state, f->state_bytes) == 0);
        } else if (order < 4) {
            const uint64_t at = take_number(in, 2) % f->state_bytes;

            if (data)
                ((uint8_t *)data)[at] ^= take(in);
        } else if (!data) {
            check(storwin_ckpt_commit(ckpt, NULL) == STORWIN_ESTATE);
        } else if (newest->generation == UINT64_MAX) {
            check(storwin_ckpt_commit(ckpt, NULL) == -EOVERFLOW);
        } else {
            check(storwin_ckpt_commit(ckpt, NULL) == 0);
            memcpy(state, data, f->state_bytes);
            data = NULL;
            newest->app_version = version || newest->newest < 0 ? version : newest->app_version;
            newest->newest = newest->newest < 0 ? 0 : 1 - newest->newest;
            newest->generation++;
        }
        check(storwin_ckpt_query(ckpt, &info) == (newest->newest < 0 ? STORWIN_ENONE : 0));
        check(info.generation == newest->generation && info.open == (data != NULL));
        check(newest->newest < 0 || memcmp(info.data, state, f->state_bytes) == 0);
    }
}

static void whole_file(const uint8_t *input, size_t size)
{
    static struct file f;
    static uint8_t state[MAX_STATE];
    struct input in = {input, input + size};
    const uint8_t how = take(&in);
    struct storwin_ckpt *ckpt;
    struct seen s;

    memset(&f, 0, sizeof(f));
    snprintf(f.path, sizeof(f.path), "%s/fuzz_storwin_ckpt.%ld", fuzz_directory(), (long)getpid());
    storwin_opts_init(&f.opts);
    f.opts.filename = f.path;
    f.opts.pager = how & 1 ? STORWIN_PAGER_RESIDENT : STORWIN_PAGER_KERNEL;
    f.opts.offset_bytes = f.offset = how & 2 ? OFFSET : 0;
    f.state_bytes = 1 + (uint32_t)take_number(&in, 2) % MAX_STATE;
    make_image(&f, &in);
    f.bytes = f.offset + 2 * SLOT_BYTES;
    if (how & 4) { /* cut off */
        f.bytes = f.bytes * take(&in) / 255;
        f.bytes += take(&in) % 80;
    }
    f.bytes = how & 8 ? 0 : storwin__min(f.bytes, f.offset + 2 * SLOT_BYTES);
    memset(f.image + f.bytes, 0, sizeof(f.image) - f.bytes);
    if (!(how & 8)) /* else there is none */
        store(&f);
    for (unsigned opens = 0; opens < 4; opens++) {
        const uint64_t version = take(&in) & 3;
        struct seen again;

        ckpt = open_file(&f, version, &s);
        if (!ckpt)
            break;
        if (s.newest >= 0)
            memcpy(state, s.data, f.state_bytes);
        work(&f, &in, ckpt, version, &s, state);
        storwin_ckpt_close(ckpt);
        load(&f);
        again = look(&f);
        check(again.rc == 0 && again.generation >= s.generation);
        if (s.newest >= 0 && again.generation == s.generation)
            check(again.app_version == s.app_version &&
                  memcmp(again.data, state, f.state_bytes) == 0);
    }
    check(unlink(f.path) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t bytes = 0;

    if (size >= 35)
        made_header(data);
    if (size >= sizeof(struct storwin__ckpt_header)) {
        memcpy(&bytes, data + offsetof(struct storwin__ckpt_header, bytes), sizeof(bytes));
        any_bytes(data, bytes, data[20] & 1);
        any_bytes(data, 4096, 0);
    }
    whole_file(data, size);
    return 0;
}
