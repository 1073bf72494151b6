/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Untrusted input of the verbs back-end: handles, addresses, datagrams. The first byte chooses one,
 * and whether the rest is raw bytes or changes (offset, value) to a valid one. An accepted input is
 * within its limits, and packed again gives the same bytes.
 */
#include "fuzz.h"

#include "ibv.h"

#include <stdlib.h>

static void handle(const unsigned char *p, size_t n)
{
    struct wire_handle h;
    unsigned char again[HANDLE_BYTES];

    if (!asymreg_ibv__handle_unpack(p, n, &h))
        return;
    asymreg_ibv__handle_pack(&h, again);
    if (n != sizeof(again) || memcmp(p, again, n) != 0 || h.prot & ~KNOWN_PROT)
        abort();
}

static void address(const unsigned char *p, size_t n)
{
    struct wire_address a;
    unsigned char again[ADDRESS_BYTES];
    int rc = asymreg_ibv__address_unpack(p, n, &a);

    if (rc != 0 && rc != ASYMREG_EBLOB && rc != ASYMREG_EVERSION)
        abort();
    if (rc < 0)
        return;
    asymreg_ibv__address_pack(&a, again);
    if (n != sizeof(again) || memcmp(p, again, n) != 0 || a.ud_qpn > 0xffffff ||
        a.port.mtu < IBV_MTU_256 || a.port.mtu > IBV_MTU_4096)
        abort();
}

static void message(const unsigned char *p, size_t n)
{
    struct message m;
    unsigned char again[MESSAGE_BYTES];

    if (!asymreg_ibv__message_unpack(p, n, &m))
        return;
    asymreg_ibv__message_pack(&m, again);
    if (n != sizeof(again) || memcmp(p, again, n) != 0 || m.type < REQUEST || m.type > BYE ||
        m.qpn > 0xffffff || m.ud_qpn > 0xffffff)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const read[])(const unsigned char *, size_t) = {handle, address, message};
    unsigned char good[UD_BYTES], *copy;
    struct port_address port = {.mtu = IBV_MTU_1024, .rd_atomic = 16};
    size_t n;

    if (size == 0)
        return 0;
    if (!(data[0] & 1)) { /* on the heap, where a sanitizer sees one byte too many */
        copy = malloc(size);
        if (!copy)
            return 0;
        memcpy(copy, data + 1, size - 1);
        read[data[0] / 2 % 3](copy, size - 1);
        free(copy);
        return 0;
    }
    switch (data[0] / 2 % 3) {
    case 0:
        asymreg_ibv__handle_pack(
            &(struct wire_handle){
                .prot = ASYMREG_RW, .rkey = 77, .seq = 1, .addr = 4096, .bytes = 100},
            good);
        n = HANDLE_BYTES;
        break;
    case 1:
        asymreg_ibv__address_pack(
            &(struct wire_address){
                .is_global = true, .cookie = 5, .ud_qpn = 6, .qkey = 7, .port = port},
            good);
        n = ADDRESS_BYTES;
        break;
    default:
        asymreg_ibv__message_pack(
            &(struct message){.type = REQUEST, .to = 1, .from = 2, .qpn = 3, .port = port}, good);
        n = MESSAGE_BYTES;
    }
    for (size_t i = 1; i + 2 <= size; i += 2)
        good[data[i] % n] = data[i + 1];
    read[data[0] / 2 % 3](good, n);
    return 0;
}
