/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Untrusted input of the UCX back-end: handles and addresses. The first byte chooses one, and
 * whether the rest is raw bytes, changes (two bytes of offset, one of value) to the header before
 * UCX's own bytes in a valid one, with a corrected checksum, or a truncated one. UCX trusts its own
 * bytes, and aborts on a truncated address. So the target drops inputs whose only fault is in those
 * bytes, which takes a matching length and checksum.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "ucx.h"

#include <stdlib.h>

enum { ADDRESS_HEADER_BYTES = 80 };

/* Offsets from the header's end: of the number of UCX's bytes behind it, and of the checksum, which
 * counts as 0. */
enum { ADDRESS_LENGTH_AT = 12, HANDLE_LENGTH_AT = 16, CHECKSUM_AT = 8 };

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libuct.so\nleak:libucp.so\nleak:libucs.so\n";
}

static struct asymreg_transport *t;
static struct asymreg_ep *self;
static struct asymreg_mem *mem;
static char memory[4096];
static unsigned int n_connects;
static unsigned char handle[ASYMREG_MAX_HANDLE_BYTES], address[ASYMREG_MAX_ADDRESS_BYTES];
static size_t handle_bytes, address_bytes;

static void seal(unsigned char *p, size_t n, size_t head)
{
    uint64_t sum = 0;

    memcpy(p + head - CHECKSUM_AT, &sum, sizeof(sum));
    sum = asymreg_ucx__checksum(p, n);
    memcpy(p + head - CHECKSUM_AT, &sum, sizeof(sum));
}

/* Whether the length and the checksum are right for bytes of UCX's other than those of the good
 * one. */
static bool forged(const unsigned char *p, size_t n, const unsigned char *good, size_t good_bytes,
                   size_t head, size_t length_at)
{
    unsigned char copy[ASYMREG_MAX_ADDRESS_BYTES];
    uint32_t length;

    if (n <= head || n > sizeof(copy) ||
        (n == good_bytes && memcmp(p + head, good + head, n - head) == 0))
        return false;
    memcpy(&length, p + head - length_at, sizeof(length));
    memcpy(copy, p, n);
    seal(copy, n, head);
    return length == n - head && memcmp(copy, p, n) == 0;
}

static void try_handle(const unsigned char *p, size_t n)
{
    struct asymreg_rkey *key;
    int rc;

    if (forged(p, n, handle, handle_bytes, HEADER_BYTES, HANDLE_LENGTH_AT))
        return;
    rc = t->ops->rkey_unpack(t, self, p, n, (uintptr_t)memory, sizeof(memory), &key, NULL);
    if (rc == 0)
        t->ops->rkey_release(t, self, key);
    else if (rc != ASYMREG_ETABLE)
        abort();
}

static void try_address(const unsigned char *p, size_t n)
{
    struct asymreg_ep *ep;
    int rc;

    if (forged(p, n, address, address_bytes, ADDRESS_HEADER_BYTES, ADDRESS_LENGTH_AT))
        return;
    n_connects++;
    rc = t->ops->connect(t, p, n, &ep, NULL);
    if (rc == 0)
        t->ops->disconnect(t, ep);
    else if (rc != ASYMREG_EBLOB && rc != ASYMREG_EVERSION && rc != ASYMREG_EPEER &&
             rc != ASYMREG_EUNREACH)
        abort();
    for (int i = 0; i < 16; i++)
        t->ops->progress(t);
}

static void open_once(void)
{
    struct asymreg_mem_desc desc = {.size = sizeof(desc),
                                    .addr = (uintptr_t)memory,
                                    .bytes = sizeof(memory),
                                    .prot = ASYMREG_RW,
                                    .fd = -1};

    setenv("UCX_TLS", "self,posix", 1);
    if (asymreg_ucx_create(NULL, &t, NULL) < 0 ||
        t->ops->mem_reg(t, &desc, &mem, handle, &handle_bytes, NULL) < 0 ||
        t->ops->address(t, address, &address_bytes, NULL) < 0 ||
        t->ops->connect(t, address, address_bytes, &self, NULL) < 0)
        abort();
    n_connects = 0;
    try_handle(handle, handle_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char copy[ASYMREG_MAX_ADDRESS_BYTES], *raw;
    size_t n, head;

    if (t &&
        n_connects > 500) { /* UCX keeps what it mapped for an endpoint until the worker's end */
        t->ops->disconnect(t, self);
        t->ops->mem_dereg(t, mem);
        t->ops->destroy(t);
        t = NULL;
    }
    if (!t)
        open_once();
    if (size == 0)
        return 0;
    if (!(data[0] & 1)) { /* on the heap, where a sanitizer sees one byte too many */
        if (!(raw = malloc(size)))
            return 0;
        memcpy(raw, data + 1, size - 1);
        (data[0] & 2 ? try_handle : try_address)(raw, size - 1);
        free(raw);
        return 0;
    }
    n = data[0] & 2 ? handle_bytes : address_bytes;
    head = data[0] & 2 ? HEADER_BYTES : ADDRESS_HEADER_BYTES;
    memcpy(copy, data[0] & 2 ? handle : address, n);
    for (size_t i = 1; i + 3 <= size; i += 3)
        copy[(data[i] | data[i + 1] << 8) % head] = data[i + 2];
    if (data[0] & 4)
        n -= data[0] >> 3; /* fewer than the header has */
    seal(copy, n, head);
    (data[0] & 2 ? try_handle : try_address)(copy, n);
    return 0;
}
