/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get: find the key's line, compare 8 hashes at once, compare the key of whatever matches.
 *
 * Why it is right beside a writer. The writer (writer.c) stores a record, then `top`, then the slot
 * that refers to it, with release; a table it fills before it stores `header.table`, with release;
 * it never takes back or reuses anything. A Get loads `table` and each slot that it uses with
 * acquire, so what they refer to is there, whole. Slots of a line fill from the left and lines of a
 * search in order, so a key that was put before the Get began is found before the first empty slot.
 * An update stores another offset into the same slot: the Get has the old record or the new one,
 * and both stay. A Get that loaded `table` before the table grew misses only what was put while it
 * ran. tests/shmht/model.c checks this exhaustively, under a memory model that allows every
 * reordering that release and acquire do not forbid.
 */
#include "internal.h"
#include "line.h"

/* Behind a record's first byte: where a small record most likely has its second line. */
#define PREFETCH_BYTES 48

#define FORM(x)   x##_scalar
#define FORM_NAME "scalar"
#define TARGET
#define MATCH   line_match_scalar
#define MATCHED line_slot_of_one
#define DROP    line_drop_one
#include "lookup_form.h"

#ifdef SHMHT__X86
#define FORM(x)   x##_sse2
#define FORM_NAME "sse2"
#define TARGET
#define MATCH   line_match_sse2
#define MATCHED line_slot_of_two
#define DROP    line_drop_two
#include "lookup_form.h"

#define FORM(x)   x##_avx2
#define FORM_NAME "avx2"
#define TARGET    __attribute__((target("avx2")))
#define MATCH     line_match_avx2
#define MATCHED   line_slot_of_one
#define DROP      line_drop_one
#include "lookup_form.h"

#define FORM(x)   x##_avx512
#define FORM_NAME "avx512"
#define TARGET    __attribute__((target("avx512f")))
#define MATCH     line_match_avx512
#define MATCHED   line_slot_of_one
#define DROP      line_drop_one
#include "lookup_form.h"
#endif

const struct shmht__isa *shmht__isa_find(const char *name)
{
#ifdef SHMHT__X86
    if (strcmp(name, "sse2") == 0)
        return &isa_sse2;
    if (strcmp(name, "avx2") == 0)
        return __builtin_cpu_supports("avx2") ? &isa_avx2 : NULL;
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") ? &isa_avx512 : NULL;
#endif
    return strcmp(name, "scalar") == 0 ? &isa_scalar : NULL;
}

const struct shmht__isa *shmht__isa_best(void)
{
#ifdef SHMHT__X86
    return &isa_sse2;
#else
    return &isa_scalar;
#endif
}

int shmht_get(const struct shmht_reader *r, const void *key, size_t key_len,
              struct shmht_bytes *value)
{
    return r->get(r, key, key_len, value);
}

ssize_t shmht_get_copy(const struct shmht_reader *r, const void *key, size_t key_len, void *buf,
                       size_t cap)
{
    struct shmht_bytes value;
    int rc = shmht_get(r, key, key_len, &value);

    if (rc < 0)
        return rc;
    if (value.len > cap)
        return SHMHT_ENOBUF;
    if (value.len > 0)
        memcpy(buf, value.ptr, value.len);
    return (ssize_t)value.len;
}

ssize_t shmht_get_many(const struct shmht_reader *r, const struct shmht_bytes *keys, size_t n,
                       struct shmht_bytes *values)
{
    ssize_t found = 0, error = 0;

    for (size_t i = 0; i < n; i += SHMHT_BATCH) {
        ssize_t rc =
            r->isa->batch(r, keys + i, n - i < SHMHT_BATCH ? n - i : SHMHT_BATCH, values + i);

        if (LIKELY(rc >= 0))
            found += rc;
        else if (error != SHMHT_ECORRUPT)
            error = rc;
    }
    return error ? error : found;
}
