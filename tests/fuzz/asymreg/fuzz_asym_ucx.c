/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the UCX back-end takes from other processes: handles and addresses. The first byte says which, and whether the bytes are as they are, or
 * changes (two bytes of offset, one of value) to what stands before UCX's own bytes in a good one, with the checksum made right again, or such a
 * one cut short. UCX's own bytes are UCX's to judge: it believes them.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "ucx.h"

#include <stdlib.h>

enum { ADDRESS_HEADER_BYTES = 80 };

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

static void try_handle(const unsigned char *p, size_t n)
{
    struct asymreg_rkey *key;
    int rc = t->ops->rkey_unpack(t, self, p, n, (uintptr_t)memory, sizeof(memory), &key);

    if (rc == 0)
        t->ops->rkey_release(t, self, key);
    else if (rc != ASYMREG_ETABLE)
        abort();
}

static void try_address(const unsigned char *p, size_t n)
{
    struct asymreg_ep *ep;
    int rc = t->ops->connect(t, p, n, &ep);

    n_connects++;
    if (rc == 0)
        t->ops->disconnect(t, ep);
    else if (rc != ASYMREG_EBLOB && rc != ASYMREG_EVERSION && rc != ASYMREG_EPEER && rc != ASYMREG_EUNREACH)
        abort();
    for (int i = 0; i < 16; i++)
        t->ops->progress(t);
}

static void open_once(void)
{
    struct asymreg_mem_desc desc = {.size = sizeof(desc), .addr = (uintptr_t)memory, .bytes = sizeof(memory), .prot = ASYMREG_RW, .fd = -1};

    setenv("UCX_TLS", "self,posix", 1);
    if (asymreg_ucx_create(NULL, &t) < 0 || t->ops->mem_reg(t, &desc, &mem, handle, &handle_bytes) < 0 ||
        t->ops->address(t, address, &address_bytes) < 0 || t->ops->connect(t, address, address_bytes, &self) < 0)
        abort();
    n_connects = 0;
    try_handle(handle, handle_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char copy[ASYMREG_MAX_ADDRESS_BYTES], *raw;
    size_t n, head, at;
    uint64_t sum;

    if (t && n_connects > 500) { /* UCX keeps what it mapped for an endpoint until the worker's end */
        t->ops->disconnect(t, self);
        t->ops->mem_dereg(t, mem);
        t->ops->destroy(t);
        t = NULL;
    }
    if (!t)
        open_once();
    if (size == 0)
        return 0;
    if (!(data[0] & 1)) { /* on the heap, where one byte too many shows */
        if (!(raw = malloc(size)))
            return 0;
        memcpy(raw, data + 1, size - 1);
        (data[0] & 2 ? try_handle : try_address)(raw, size - 1);
        free(raw);
        return 0;
    }
    n = data[0] & 2 ? handle_bytes : address_bytes;
    head = data[0] & 2 ? HEADER_BYTES : ADDRESS_HEADER_BYTES;
    at = head - sizeof(sum); /* the checksum, which is counted as 0 */
    memcpy(copy, data[0] & 2 ? handle : address, n);
    for (size_t i = 1; i + 3 <= size; i += 3)
        copy[(data[i] | data[i + 1] << 8) % head] = data[i + 2];
    if (data[0] & 4)
        n -= data[0] >> 3; /* fewer than it says */
    memset(copy + at, 0, sizeof(sum));
    sum = asymreg_ucx__checksum(copy, n);
    memcpy(copy + at, &sum, sizeof(sum));
    (data[0] & 2 ? try_handle : try_address)(copy, n);
    return 0;
}
