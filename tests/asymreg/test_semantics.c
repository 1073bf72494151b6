/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * [--no-pidfd=ENOSYS|EPERM] [CASE]: every failure of remote access between two processes, over
 * shared memory, CMA and both, gives its defined error.
 */
#define _GNU_SOURCE
#include "targets.h"

#include <sys/resource.h>

#define PE 7u

struct world {
    uint32_t mode; /* ASYMREG_LOCAL_* */
    uint32_t kind; /* of memory that this mode reaches */
    struct asymreg_context *ctx;
    struct asymreg_worker *me;
    struct target t;
};

static void world_init(struct world *w, uint32_t mode, uint32_t flags)
{
    w->mode = mode;
    w->kind = mode & ASYMREG_LOCAL_CMA ? MALLOC : SHARED;
    target_start(&w->t, mode);
    w->ctx = open_context(mode, flags, 0);
    CHECK_EQ(asymreg_import(w->ctx, PE, w->t.blob, w->t.blob_bytes, NULL), 0);
    CHECK_EQ(asymreg_worker_create(w->ctx, &w->me), 0);
}

static void world_fini(struct world *w)
{
    asymreg_worker_destroy(w->me);
    asymreg_close(w->ctx);
    target_end(&w->t);
}

static struct answer reg(struct world *w, uint32_t kind, uint64_t addr, uint64_t bytes,
                         uint32_t prot)
{
    struct answer a = tell(
        &w->t,
        (struct order){.what = REGISTER, .kind = kind, .addr = addr, .bytes = bytes, .prot = prot});

    CHECK_EQ(a.rc, 0);
    return a;
}

static unsigned char look(struct world *w, uint64_t addr)
{
    return (unsigned char)tell(&w->t, (struct order){.what = LOOK, .addr = addr}).value;
}

static void there_and_back(struct world *w)
{
    static const size_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 63, 64, 4096, 65536, 1000000};
    unsigned char *out = malloc(1000000), *in = malloc(1000000);
    uint32_t kinds[] = {MALLOC, SHARED, A_FILE};

    for (int k = 0; k < 3; k++) {
        if (kinds[k] == MALLOC && !(w->mode & ASYMREG_LOCAL_CMA))
            continue;
        struct answer a = reg(w, kinds[k], 0, 1000100, ASYMREG_RW);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            uint64_t at = a.addr + i * 3 + 1;
            for (size_t j = 0; j < sizes[i]; j++)
                out[j] = (unsigned char)(j * 7 + i);
            CHECK_EQ(asymreg_put(w->me, PE, at, a.id, out, sizes[i]), 0);
            CHECK_EQ(asymreg_flush(w->me, PE), 0);
            CHECK_EQ(look(w, at), out[0]);
            CHECK_EQ(look(w, at + sizes[i] - 1), out[sizes[i] - 1]);
            memset(in, 0, sizes[i]);
            CHECK_EQ(asymreg_get_nb(w->me, PE, at, ASYMREG_ANY, in, sizes[i], NULL), 0);
            CHECK_EQ(asymreg_flush(w->me, ASYMREG_ALL_PEERS), 0);
            CHECK(memcmp(in, out, sizes[i]) == 0);
            CHECK_EQ(asymreg_put_nb(w->me, PE, at, 0, "x", 1, NULL), 0);
            CHECK_EQ(asymreg_flush(w->me, PE), 0);
            CHECK_EQ(asymreg_get(w->me, PE, at, 0, in, 1), 0);
            CHECK_EQ(in[0], 'x');
        }
    }
    free(out);
    free(in);
}

static void out_of_range(struct world *w)
{
    struct answer a = reg(w, w->kind, 0, 1000, ASYMREG_RW);
    struct asymreg_region r;
    char buf[2000];

    CHECK_EQ(asymreg_get(w->me, PE, a.addr, 0, buf, 1000), 0);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr, 0, buf, 1001), ASYMREG_ERANGE);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 999, 0, buf, 1), 0);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 999, a.id, buf, 2), ASYMREG_ERANGE);
    CHECK_EQ(asymreg_put(w->me, PE, a.addr + 999, 0, buf, 2), ASYMREG_ERANGE);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 1000, 0, buf, 1), ASYMREG_ENOREGION);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr - 1, 0, buf, 1), ASYMREG_ENOREGION);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr - 1, 0, buf, 2), ASYMREG_ENOREGION);
    CHECK_EQ(asymreg_get(w->me, PE, 0, 0, buf, 1), ASYMREG_ENOREGION);
    CHECK_EQ(asymreg_get(w->me, PE, UINT64_MAX, 0, buf, 1), ASYMREG_ENOREGION);
    /* The end at 2^64, and lengths that wrap around to inside the region. */
    CHECK_EQ(asymreg_get(w->me, PE, UINT64_MAX, 0, buf, 2), ASYMREG_EOVERFLOW);
#if SIZE_MAX > UINT32_MAX
    CHECK_EQ(asymreg_put(w->me, PE, a.addr + 10, 0, buf, (size_t)-5), ASYMREG_EOVERFLOW);
#endif
    CHECK_EQ(asymreg_put(w->me, PE, a.addr + 10, 0, buf, (size_t)0 - a.addr - 10), ASYMREG_ERANGE);
    CHECK_EQ(asymreg_resolve(w->me, PE, a.addr + 5, a.id, 995, ASYMREG_READ, &r, NULL), 0);
    CHECK(r.start == a.addr && r.last == a.addr + 999 && r.id == a.id && r.prot == ASYMREG_RW);
    CHECK_EQ(r.reserved, 0);
    CHECK_EQ(asymreg_resolve(w->me, PE, a.addr + 5, 0, 996, ASYMREG_READ, &r, NULL),
             ASYMREG_ERANGE);
    CHECK_EQ(asymreg_resolve(w->me, PE, a.addr + 5, 0, 1, ASYMREG_ATOMIC, &r, NULL),
             w->mode == ASYMREG_LOCAL_CMA ? ASYMREG_ENOTSUP : ASYMREG_EACCES);
}

static void zero_length(struct world *w)
{
    struct answer a = reg(w, w->kind, 0, 100, ASYMREG_READ);

    CHECK_EQ(asymreg_put(w->me, PE, a.addr, 0, NULL, 0), 0);
    CHECK_EQ(asymreg_get(w->me, PE, 12345, 0, NULL, 0), 0);
    CHECK_EQ(asymreg_get(w->me, PE + 1, 12345, 0, NULL, 0), ASYMREG_ENOPEER);
    a = reg(w, w->kind, 0, 100, ASYMREG_RW); /* and some from nowhere */
    CHECK_EQ(asymreg_put(w->me, PE, a.addr, 0, NULL, 8), -EINVAL);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr, 0, NULL, 100), -EINVAL);
    CHECK_EQ(asymreg_put_nb(w->me, PE, a.addr, a.id, NULL, 1, NULL), -EINVAL);
    CHECK_EQ(asymreg_register(w->ctx, NULL, 10, ASYMREG_RW, NULL, NULL, NULL), -EINVAL);
}

static void permissions(struct world *w)
{
    struct answer ro = reg(w, w->kind, 0, 100, ASYMREG_READ),
                  wo = reg(w, w->kind, 0, 100, ASYMREG_WRITE);
    char buf[100] = "unchanged";

    CHECK_EQ(asymreg_put(w->me, PE, ro.addr, 0, "x", 1), ASYMREG_EACCES);
    CHECK_EQ(look(w, ro.addr), 0);
    CHECK_EQ(asymreg_get(w->me, PE, ro.addr, 0, buf + 50, 1), 0);
    CHECK_EQ(asymreg_put(w->me, PE, wo.addr, 0, "x", 1), 0);
    CHECK_EQ(asymreg_get(w->me, PE, wo.addr, 0, buf, 10), ASYMREG_EACCES);
    CHECK(strcmp(buf, "unchanged") == 0);
    CHECK_EQ(asymreg_amo(w->me, PE, ro.addr & ~7ull, 0, ASYMREG_AMO_ADD, 8, 1, 0, NULL),
             w->mode & ASYMREG_LOCAL_SHM ? ASYMREG_EACCES : ASYMREG_ENOTSUP);
    /* A descriptor that cannot write is found out when it is registered. */
    struct answer a = tell(
        &w->t, (struct order){
                   .what = REGISTER, .kind = READ_ONLY_FILE, .bytes = 4096, .prot = ASYMREG_RW});
    CHECK_EQ(a.rc, ASYMREG_EACCES);
    a = reg(w, READ_ONLY_FILE, 0, 4096, ASYMREG_READ);
    tell(&w->t, (struct order){.what = FILL, .addr = a.addr, .bytes = 4096, .value = 'r'});
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 100, 0, buf, 1), 0);
    CHECK_EQ(buf[0], 'r');
    CHECK_EQ(asymreg_put(w->me, PE, a.addr + 100, 0, buf, 1), ASYMREG_EACCES);
    /* And a region cannot permit more than its segment. */
    tell(&w->t, (struct order){.what = UNREGISTER, .value = a.id});
    a = tell(&w->t,
             (struct order){.what = REGISTER, .addr = a.addr, .bytes = 4096, .prot = ASYMREG_RW});
    CHECK_EQ(a.rc, ASYMREG_EACCES);
}

/* Memory that its owner may not write, registered as writable: only the kernel can refuse. */
static void unwritable_memory(struct world *w)
{
    struct answer a;

    if (!(w->mode & ASYMREG_LOCAL_CMA))
        return;
    a = reg(w, ANON, 0, 8192, ASYMREG_RW);
    CHECK_EQ(asymreg_put(w->me, PE, a.addr, 0, "x", 1), 0);
    tell(&w->t, (struct order){.what = UNMAP, .addr = a.addr, .bytes = 4096});
    CHECK_EQ(asymreg_put(w->me, PE, a.addr, 0, "x", 1), ASYMREG_EFAULT);
    CHECK_EQ(asymreg_put(w->me, PE, a.addr + 4096, 0, "x", 1), 0);
    a = reg(w, MALLOC, (uintptr_t) "a constant string", 10,
            ASYMREG_RW); /* the same place in both: forked */
    char buf[10];
    CHECK_EQ(asymreg_get(w->me, PE, a.addr, 0, buf, 10), 0);
    CHECK(memcmp(buf, "a constant", 10) == 0);
    CHECK_EQ(asymreg_put(w->me, PE, a.addr, 0, "x", 1), ASYMREG_EFAULT);
}

static void overlap(struct world *w)
{
    struct answer a = reg(w, w->kind, 0, 1000, ASYMREG_RW), b;
    struct order o = {.what = REGISTER, .addr = a.addr, .bytes = 1000, .prot = ASYMREG_RW};

    CHECK_EQ(tell(&w->t, o).rc, ASYMREG_EOVERLAP);
    o.bytes = 0;
    CHECK_EQ(tell(&w->t, o).rc, -EINVAL);
    o.addr++, o.bytes = 10;
    CHECK_EQ(tell(&w->t, o).rc, ASYMREG_EOVERLAP);
    o.flags = ASYMREG_SHARE;
    CHECK_EQ(tell(&w->t, o).rc, ASYMREG_EOVERLAP);
    o.addr = a.addr, o.bytes = 1000, o.prot = ASYMREG_READ;
    CHECK_EQ(tell(&w->t, o).rc, ASYMREG_EOVERLAP); /* another permission */
    o.prot = ASYMREG_RW;
    b = tell(&w->t, o);
    CHECK_EQ(b.rc, 0);
    CHECK(b.id == a.id);
    /* Two users: it stays until both have released it. */
    CHECK_EQ(tell(&w->t, (struct order){.what = UNREGISTER, .value = a.id}).rc, 0);
    CHECK_EQ(asymreg_put(w->me, PE, a.addr, a.id, "x", 1), 0);
    CHECK_EQ(tell(&w->t, (struct order){.what = UNREGISTER, .value = a.id}).rc, 0);
    CHECK_EQ(asymreg_put(w->me, PE, a.addr, a.id, "x", 1), ASYMREG_ESTALE);
    CHECK_EQ(tell(&w->t, (struct order){.what = UNREGISTER, .value = a.id}).rc, ASYMREG_ESTALE);
    o.addr = UINT64_MAX - 100, o.flags = 0;
    CHECK_EQ(tell(&w->t, o).rc, ASYMREG_EOVERFLOW);
    o.addr = a.addr, o.prot = 8;
    CHECK_EQ(tell(&w->t, o).rc, -EINVAL);
    o.prot = ASYMREG_RW, o.flags = 2;
    CHECK_EQ(tell(&w->t, o).rc, -EINVAL);
}

/* One registration serves the whole space, to its last byte; no memory is there. */
static void at_the_top(struct world *w)
{
    struct order o = {
        .what = REGISTER, .addr = UINTPTR_MAX - 999, .bytes = 1000, .prot = ASYMREG_RW};
    struct asymreg_region r;
    char buf[1000];

    if (w->mode == ASYMREG_LOCAL_SHM)
        return;
    CHECK_EQ(tell(&w->t, o).rc, 0);
    CHECK_EQ(asymreg_resolve(w->me, PE, o.addr, 0, 1000, 0, &r, NULL), 0);
    CHECK(r.start == o.addr && r.last == UINTPTR_MAX);
    CHECK_EQ(asymreg_get(w->me, PE, o.addr, r.id, buf, 1000), ASYMREG_EFAULT);
    CHECK_EQ(asymreg_put(w->me, PE, UINTPTR_MAX, 0, "x", 1), ASYMREG_EFAULT);
    CHECK_EQ(asymreg_get(w->me, PE, o.addr, r.id, buf, 1001),
             UINTPTR_MAX == UINT64_MAX ? ASYMREG_EOVERFLOW : ASYMREG_ERANGE);
    o.what = UNREGISTER;
    o.value = r.id;
    CHECK_EQ(tell(&w->t, o).rc, 0);
    CHECK_EQ(asymreg_get(w->me, PE, UINTPTR_MAX, 0, buf, 1), ASYMREG_ESTALE);
}

static void after_unregister(struct world *w)
{
    struct answer a = reg(w, w->mode & ASYMREG_LOCAL_CMA ? ANON : SHARED, 0, 4096, ASYMREG_RW);
    char c;

    CHECK_EQ(asymreg_put(w->me, PE, a.addr, 0, "x", 1), 0);
    CHECK_EQ(tell(&w->t, (struct order){.what = UNREGISTER, .value = a.id}).rc, 0);
    CHECK_EQ(tell(&w->t, (struct order){.what = UNMAP, .addr = a.addr, .bytes = 4096}).rc, 0);
    CHECK_EQ(asymreg_put(w->me, PE, a.addr, 0, "x", 1),
             ASYMREG_ESTALE); /* it was there a moment ago */
    CHECK_EQ(asymreg_get(w->me, PE, a.addr, 0, &c, 1), ASYMREG_ENOREGION); /* that is known now */
    CHECK_EQ(asymreg_get(w->me, PE, a.addr, a.id, &c, 1),
             ASYMREG_ESTALE); /* who names it is told what became of it */
}

static void registered_again(struct world *w)
{
    struct answer a = reg(w, w->kind, 0, 1000, ASYMREG_RW), b, c;
    char x;

    CHECK_EQ(asymreg_put(w->me, PE, a.addr, a.id, "1", 1), 0);
    CHECK_EQ(tell(&w->t, (struct order){.what = UNREGISTER, .value = a.id}).rc, 0);
    b = reg(w, w->kind, a.addr, 500, ASYMREG_RW);
    CHECK(b.id != a.id);
    CHECK_EQ(asymreg_put(w->me, PE, a.addr, a.id, "2", 1), ASYMREG_ESTALE);
    CHECK_EQ(look(w, a.addr), '1');
    CHECK_EQ(asymreg_put(w->me, PE, a.addr, b.id, "3", 1), 0);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr, ASYMREG_ANY, &x, 1), 0);
    CHECK_EQ(x, '3');
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 500, ASYMREG_ANY, &x, 1), ASYMREG_ENOREGION);
    c = reg(w, w->kind, a.addr + 500, 500, ASYMREG_READ);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 500, ASYMREG_ANY, &x, 1), 0);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 500, b.id, &x, 1),
             ASYMREG_ERANGE); /* it is there, and ends before */
    CHECK_EQ(asymreg_put(w->me, PE, a.addr + 500, c.id, &x, 1), ASYMREG_EACCES);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 1000, c.id, &x, 1),
             ASYMREG_ERANGE); /* and nothing there */
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 1000, a.id, &x, 1), ASYMREG_ESTALE);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 1000, a.id + (UINT64_C(1) << 32), &x, 1),
             ASYMREG_ESTALE); /* of no registration ever */
    CHECK_EQ(tell(&w->t, (struct order){.what = UNREGISTER, .value = c.id}).rc, 0);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 1000, c.id, &x, 1), ASYMREG_ESTALE);
}

static void adjacent(struct world *w)
{
    struct answer a = reg(w, w->kind, 0, 1008, ASYMREG_RW), c;
    struct asymreg_context *split = open_context(w->mode, ASYMREG_SPLIT, 0);
    struct asymreg_worker *ws;
    char out[1001], in[1001];

    tell(&w->t, (struct order){.what = UNREGISTER, .value = a.id});
    a = reg(w, w->kind, a.addr, 400, ASYMREG_RW);
    reg(w, w->kind, a.addr + 400, 600, ASYMREG_RW);
    memset(out, 'a', sizeof(out));
    CHECK_EQ(asymreg_put(w->me, PE, a.addr, 0, out, 401), ASYMREG_ERANGE);
    CHECK_EQ(look(w, a.addr), 0);
    CHECK_EQ(asymreg_import(split, PE, w->t.blob, w->t.blob_bytes, NULL), 0);
    CHECK_EQ(asymreg_worker_create(split, &ws), 0);
    CHECK_EQ(asymreg_put(ws, PE, a.addr, 0, out, 1000), 0);
    CHECK_EQ(asymreg_get(ws, PE, a.addr, 0, in, 1000), 0);
    CHECK(memcmp(in, out, 1000) == 0);
    CHECK_EQ(asymreg_put(ws, PE, a.addr, 0, out, 1001),
             ASYMREG_ERANGE); /* nothing there after the second: a part is there */
    c = reg(w, w->kind, a.addr + 1000, 8, ASYMREG_READ);
    CHECK_EQ(asymreg_put(ws, PE, a.addr, 0, out, 1001), ASYMREG_ERANGE); /* "nothing was sent" */
    CHECK_EQ(asymreg_put(ws, PE, c.addr, 0, out, 1), ASYMREG_EACCES);
    CHECK_EQ(asymreg_get(ws, PE, a.addr, 0, in, 1001), 0);
    CHECK_EQ(asymreg_put(ws, PE, a.addr, a.id, out, 401),
             ASYMREG_ERANGE); /* the one that was meant ends here */
    CHECK_EQ(asymreg_put(ws, PE, a.addr + 399, 0, out, 2), 0);
    asymreg_worker_destroy(ws);
    asymreg_close(split);
}

/* The explaining call returns the failed operation's code, and the reason. */
static void explained(struct world *w, uint64_t addr, int code, const char *why)
{
    struct asymreg_error err = {0};

    CHECK_EQ(asymreg_resolve(w->me, PE, (addr + 7) & ~7ull, 0, 8, ASYMREG_ATOMIC, NULL, &err),
             code);
    CHECK_EQ(err.code, code);
    CHECK_EQ(err.pe, PE);
    CHECK_EQ(err.bytes, 8);
    if (!strstr(err.text, why)) {
        fprintf(stderr, "not \"%s\" but \"%s\"\n", why, err.text);
        exit(1);
    }
}

/* Each refusal names what was asked for and what is there. */
static void refusals_explained(struct world *w)
{
    struct answer a = reg(w, w->kind, 0, 1000, ASYMREG_READ), old = a;
    struct asymreg_error err = {0};
    char text[64];

    snprintf(text, sizeof(text), "%#llx to %#llx", (unsigned long long)a.addr,
             (unsigned long long)a.addr + 999);
    CHECK_EQ(asymreg_resolve(w->me, PE, a.addr + 5, a.id, 996, 0, NULL, &err), ASYMREG_ERANGE);
    CHECK(strstr(err.text, "996 bytes") && strstr(err.text, text) && err.bytes == 996);
    CHECK_EQ(asymreg_resolve(w->me, PE, a.addr, a.id, 8, ASYMREG_WRITE, NULL, &err),
             ASYMREG_EACCES);
    CHECK(strstr(err.text, "permits get") && !strstr(err.text, "put"));
    CHECK_EQ(asymreg_resolve(w->me, PE, a.addr + 1000, 0, 8, 0, NULL, &err), ASYMREG_ENOREGION);
    CHECK(strstr(err.text, "no region"));
    CHECK_EQ(tell(&w->t, (struct order){.what = UNREGISTER, .value = a.id}).rc, 0);
    a = reg(w, w->kind, a.addr, 1000, ASYMREG_READ);
    CHECK_EQ(asymreg_resolve(w->me, PE, a.addr, old.id, 8, 0, NULL, &err), ASYMREG_ESTALE);
    CHECK(strstr(err.text, "another id"));
}

/* What put and get say, before and after the memory of a region has gone. */
static void missing_memory_explained(struct world *w)
{
    struct answer a;
    struct asymreg_error err = {0};
    char word[8] = "";

    if (!(w->mode & ASYMREG_LOCAL_CMA))
        return;
    a = reg(w, ANON, 0, 8192, ASYMREG_RW);
    CHECK_EQ(asymreg_resolve(w->me, PE, a.addr, a.id, 8192, ASYMREG_RW, NULL, NULL), 0);
    CHECK_EQ(tell(&w->t, (struct order){.what = PROTECT, .addr = a.addr, .bytes = 8192}).rc, 0);
    CHECK_EQ(asymreg_put(w->me, PE, a.addr, a.id, word, 8), ASYMREG_EFAULT);
    CHECK_EQ(asymreg_resolve(w->me, PE, a.addr, a.id, 8, ASYMREG_WRITE, NULL, &err),
             ASYMREG_EFAULT);
    CHECK(strstr(err.text, "protected"));
    CHECK_EQ(asymreg_resolve(w->me, PE, a.addr, a.id, 8, ASYMREG_READ, NULL, NULL), 0);
    CHECK_EQ(tell(&w->t, (struct order){.what = UNMAP, .addr = a.addr + 4096, .bytes = 4096}).rc,
             0);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 4090, a.id, word, 8), ASYMREG_EFAULT);
    CHECK_EQ(asymreg_resolve(w->me, PE, a.addr + 4090, a.id, 8, ASYMREG_READ, NULL, &err),
             ASYMREG_EFAULT);
    CHECK(strstr(err.text, "unmapped"));
}

static void truncated_file(struct world *w)
{
    struct answer a =
        reg(w, A_FILE, 0, 16384, w->mode & ASYMREG_LOCAL_SHM ? ASYMREG_ALL : ASYMREG_RW);
    char buf[8192];

    tell(&w->t, (struct order){.what = FILL, .addr = a.addr, .bytes = 16384, .value = 'f'});
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 8192, 0, buf, 8192), 0);
    CHECK(buf[0] == 'f' && buf[8191] == 'f');
    CHECK_EQ(asymreg_put(w->me, PE, a.addr + 8192, 0, "g", 1), 0);
    CHECK_EQ(look(w, a.addr + 8192), 'g');
    CHECK_EQ(tell(&w->t, (struct order){.what = TRUNCATE, .bytes = 4096}).rc, 0);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr, 0, buf, 4096), 0);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 4096, 0, buf, 1), ASYMREG_EFAULT);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr, 0, buf, 8192), ASYMREG_EFAULT);
    CHECK_EQ(asymreg_put(w->me, PE, a.addr + 4096, 0, "g", 1), ASYMREG_EFAULT);
    CHECK_EQ(asymreg_put(w->me, PE, a.addr, 0, buf, 8192), ASYMREG_EFAULT);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr, 0, ASYMREG_AMO_ADD, 8, 1, 0, NULL), ASYMREG_ENOTSUP);
    explained(w, a.addr, ASYMREG_ENOTSUP,
              w->mode & ASYMREG_LOCAL_SHM ? "may be shortened" : "process_vm_writev");
    CHECK_EQ(tell(&w->t, (struct order){.what = LOOK}).value,
             4096); /* nothing made it grow again */
    CHECK_EQ(tell(&w->t, (struct order){.what = TRUNCATE, .bytes = 16384}).rc, 0);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 8192, 0, buf, 1), 0);
    CHECK_EQ(buf[0], 0);
    /* Trust from one side only is no trust. */
    a = tell(&w->t, (struct order){.what = REGISTER,
                                   .kind = A_FILE,
                                   .bytes = 8192,
                                   .prot = ASYMREG_RW,
                                   .flags = ASYMREG_TRUSTED << 8});
    CHECK_EQ(a.rc, 0);
    CHECK_EQ(asymreg_put(w->me, PE, a.addr + 4096, 0, "g", 1), 0);
    CHECK_EQ(tell(&w->t, (struct order){.what = TRUNCATE, .bytes = 0}).rc, 0);
    CHECK_EQ(asymreg_put(w->me, PE, a.addr + 4096, 0, "g", 1), ASYMREG_EFAULT);
}

static void stopped_target(struct world *w)
{
    struct answer a = reg(w, w->kind, 0, 100000, ASYMREG_RW), s;
    char buf[1000], in[1000];
    int status;

    CHECK_EQ(asymreg_refresh(w->ctx, PE) >= 0, 1);
    if (w->mode & ASYMREG_LOCAL_SHM)
        s = reg(w, SHARED, 0, 4096, ASYMREG_ALL);
    CHECK(kill(w->t.pid, SIGSTOP) == 0);
    CHECK(waitpid(w->t.pid, &status, WUNTRACED) == w->t.pid && WIFSTOPPED(status));
    memset(buf, 's', sizeof(buf));
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(asymreg_put(w->me, PE, a.addr + (uint64_t)i * 1000, a.id, buf, 1000), 0);
        CHECK_EQ(asymreg_flush(w->me, PE), 0);
        CHECK_EQ(asymreg_get(w->me, PE, a.addr + (uint64_t)i * 1000, 0, in, 1000), 0);
        CHECK(memcmp(buf, in, 1000) == 0);
    }
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 100000, 0, in, 1),
             ASYMREG_ENOREGION); /* the table can be read, too */
    if (w->mode & ASYMREG_LOCAL_SHM) {
        uint64_t old = 1;
        CHECK_EQ(asymreg_amo(w->me, PE, s.addr, s.id, ASYMREG_AMO_FETCH_ADD, 8, 5, 0, &old), 0);
        CHECK_EQ(old, 0);
    }
    CHECK(kill(w->t.pid, SIGCONT) == 0);
    CHECK_EQ(look(w, a.addr + 99999), 's');
}

/* Soon every operation reports the death; it may succeed until then. The test prints the delay: a
 * busy machine is no failure, a hang is one. */
static void expect_gone(struct world *w, uint64_t addr)
{
    double start = now();
    char buf[8] = "";
    int rc;

    do {
        rc = asymreg_put(w->me, PE, addr, 0, buf, 8);
        if (rc == 0)
            rc = asymreg_flush(w->me, PE);
        CHECK(rc == 0 || rc == ASYMREG_EPEER);
    } while (rc == 0);
    printf("gone, noticed after %.1f ms\n", (now() - start) * 1e3);
    CHECK_EQ(asymreg_put(w->me, PE, addr, 0, buf, 8), ASYMREG_EPEER);
    CHECK_EQ(asymreg_get(w->me, PE, addr, 0, buf, 8), ASYMREG_EPEER);
    CHECK_EQ(asymreg_get(w->me, PE, 0, 0, buf, 0), ASYMREG_EPEER);
    CHECK_EQ(asymreg_flush(w->me, PE), ASYMREG_EPEER);
    CHECK_EQ(asymreg_flush(w->me, ASYMREG_ALL_PEERS), ASYMREG_EPEER);
    CHECK_EQ(asymreg_refresh(w->ctx, PE), ASYMREG_EPEER);
    /* Its memory disappears before the process: until then another peer may still see the
     * process. */
    while ((rc = asymreg_import(w->ctx, PE + 1, w->t.blob, w->t.blob_bytes, NULL)) == 0)
        CHECK_EQ(asymreg_forget(w->ctx, PE + 1), 0);
    CHECK_EQ(rc, ASYMREG_EPEER);
    CHECK_EQ(asymreg_forget(w->ctx, PE), 0);
    CHECK_EQ(asymreg_forget(w->ctx, PE), ASYMREG_ENOPEER);
    CHECK_EQ(asymreg_forget(w->ctx, ASYMREG_MAX_PEERS), ASYMREG_ENOPEER);
    CHECK_EQ(asymreg_forget(NULL, PE), ASYMREG_ENOPEER);
    CHECK_EQ(asymreg_put(w->me, PE, addr, 0, buf, 8), ASYMREG_ENOPEER);
}

static void killed_target(struct world *w)
{
    struct answer a = reg(w, w->kind, 0, 4096, ASYMREG_RW);

    CHECK_EQ(asymreg_put(w->me, PE, a.addr, 0, "x", 1), 0);
    kill(w->t.pid, SIGKILL);
    expect_gone(w, a.addr);
}

/* Calls that the table refuses report the death too, each one alone: a process may wait for a peer
 * to register. */
static void killed_before_registering(struct world *w)
{
    struct answer a = reg(w, w->kind, 0, 64, ASYMREG_READ);
    double start = now();
    struct asymreg_bound b;
    char x = 'x';
    int rc;

    for (uint32_t pe = PE + 1; pe <= PE + 6; pe++) {
        CHECK_EQ(asymreg_import(w->ctx, pe, w->t.blob, w->t.blob_bytes, NULL), 0);
        CHECK_EQ(asymreg_get(w->me, pe, a.addr, a.id, &x, 1), 0);
    }
    kill(w->t.pid, SIGKILL);
    for (uint32_t call = 1; call <= 6; call++) {
        do {
            rc = call == 1   ? asymreg_get(w->me, PE + 1, 8, ASYMREG_ANY, &x, 1)
                 : call == 2 ? asymreg_put(w->me, PE + 2, a.addr, a.id, &x, 1)
                 : call == 3 ? asymreg_get_nb(w->me, PE + 3, a.addr, a.id + 1, &x, 1, NULL)
                 : call == 4 ? asymreg_bind(w->me, PE + 4, a.addr, a.id, 65, &b)
                 : call == 5 ? asymreg_resolve(w->me, PE + 5, 8, 0, 1, 0, NULL, NULL)
                             : asymreg_refresh(w->ctx, PE + 6);
        } while (rc != ASYMREG_EPEER && (rc < 0 || call == 6) && now() - start < 30);
        CHECK_EQ(rc, ASYMREG_EPEER);
        CHECK_EQ(asymreg_forget(w->ctx, PE + call), 0);
    }
}

static void closed_target(struct world *w)
{
    struct answer a = reg(w, w->kind, 0, 4096, ASYMREG_RW);

    CHECK_EQ(asymreg_put(w->me, PE, a.addr, 0, "x", 1), 0);
    tell(&w->t, (struct order){.what = CLOSE});
    expect_gone(w, a.addr);
}

static void killed_in_the_middle(struct world *w)
{
    enum { BYTES = 32 << 20 };
    struct answer a = reg(w, w->kind, 0, BYTES, ASYMREG_RW);
    char *buf = calloc(1, BYTES);
    struct timespec delay = {.tv_nsec = 20000000 + (long)getpid() % 10 * 1000000};
    pid_t
        killer; /* a process: of threads, valgrind lets this one go on for thousands of transfers */
    int rc, n = 0, status;

    CHECK_EQ(asymreg_put(w->me, PE, a.addr, 0, buf, BYTES), 0);
    if ((killer = fork()) == 0) {
        nanosleep(&delay, NULL);
        _exit(kill(w->t.pid, SIGKILL) != 0);
    }
    CHECK(killer > 0);
    do {
        rc = n++ % 2 ? asymreg_put(w->me, PE, a.addr, 0, buf, BYTES)
                     : asymreg_get(w->me, PE, a.addr, 0, buf, BYTES);
    } while (rc == 0);
    CHECK_EQ(rc, ASYMREG_EPEER);
    CHECK(waitpid(killer, &status, 0) == killer && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(buf);
    expect_gone(w, a.addr);
}

static void atomics(struct world *w)
{
    uint64_t old = 99;
    struct answer a;

    if (!(w->mode & ASYMREG_LOCAL_SHM)) {
        a = reg(w, MALLOC, 0, 4096, ASYMREG_ALL);
        CHECK_EQ(asymreg_amo(w->me, PE, a.addr, 0, ASYMREG_AMO_ADD, 8, 1, 0, NULL),
                 ASYMREG_ENOTSUP);
        explained(w, a.addr, ASYMREG_ENOTSUP, "process_vm_writev");
        return;
    }
    a = reg(w, SHARED, 0, 4096, ASYMREG_ALL);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr, 0, ASYMREG_AMO_ADD, 8, 5, 0, &old), 0);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr, 0, ASYMREG_AMO_FETCH_ADD, 8, UINT64_MAX, 0, &old), 0);
    CHECK_EQ(old, 5);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr, a.id, ASYMREG_AMO_SWAP, 8, 100, 0, &old), 0);
    CHECK_EQ(old, 4);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr, 0, ASYMREG_AMO_COMPARE_SWAP, 8, 7, 99, &old), 0);
    CHECK_EQ(old, 100);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr, 0, ASYMREG_AMO_COMPARE_SWAP, 8, 7, 100, NULL), 0);
    CHECK_EQ(look(w, a.addr), 7);
    /* 4 bytes: the neighbours stay as they are, and addition wraps. */
    uint32_t words[3] = {0x11111111, 0xffffffff, 0x22222222};
    CHECK_EQ(asymreg_put(w->me, PE, a.addr + 8, 0, words, 12), 0);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr + 12, 0, ASYMREG_AMO_FETCH_ADD, 4, 2, 0, &old), 0);
    CHECK_EQ(old, 0xffffffff);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr + 12, 0, ASYMREG_AMO_COMPARE_SWAP, 4, 9,
                         0xffffffff00000001, &old),
             0);
    CHECK_EQ(old, 1);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr + 12, 0, ASYMREG_AMO_SWAP, 4, 10, 0, &old), 0);
    CHECK_EQ(old, 9);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr + 8, 0, words, 12), 0);
    CHECK(words[0] == 0x11111111 && words[1] == 10 && words[2] == 0x22222222);
    for (uint64_t off = 1; off < 8; off++)
        CHECK_EQ(asymreg_amo(w->me, PE, a.addr + off, 0, ASYMREG_AMO_ADD, 8, 1, 0, NULL),
                 ASYMREG_EALIGN);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr + 2, 0, ASYMREG_AMO_ADD, 4, 1, 0, NULL), ASYMREG_EALIGN);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr, 0, 9, 8, 1, 0, NULL), -EINVAL);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr, 0, UINT32_MAX, 8, 1, 0, NULL), -EINVAL);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr, 0, 0, 2, 1, 0, NULL), -EINVAL);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr + 4096, 0, 0, 8, 1, 0, NULL), ASYMREG_ENOREGION);
    CHECK_EQ(asymreg_amo(w->me, PE, a.addr + 4088, 0, 0, 8, 1, 0, NULL), 0);
    struct answer p = reg(w, SHARED, 0, 4096, ASYMREG_RW);
    CHECK_EQ(asymreg_amo(w->me, PE, p.addr, 0, ASYMREG_AMO_ADD, 8, 1, 0, NULL), ASYMREG_EACCES);
    if (w->mode & ASYMREG_LOCAL_CMA) {
        p = reg(w, MALLOC, 0, 4096, ASYMREG_ALL);
        CHECK_EQ(asymreg_amo(w->me, PE, (p.addr + 7) & ~7ull, 0, ASYMREG_AMO_ADD, 8, 1, 0, NULL),
                 ASYMREG_ENOTSUP);
        explained(w, p.addr, ASYMREG_ENOTSUP, "process_vm_writev");
    }
}

/* Several processes count in the same words. */
static void atomics_at_once(struct world *w)
{
    enum { PROCESSES = 3, TIMES = 20000 };
    struct answer a;
    uint64_t sum[2];

    if (!(w->mode & ASYMREG_LOCAL_SHM))
        return;
    a = reg(w, SHARED, 0, 4096, ASYMREG_ALL);
    for (int i = 0; i < PROCESSES; i++) {
        if (fork() == 0) {
            struct asymreg_context *c = open_context(w->mode, 0, 0);
            struct asymreg_worker *me;
            CHECK_EQ(asymreg_import(c, 1, w->t.blob, w->t.blob_bytes, NULL), 0);
            CHECK_EQ(asymreg_worker_create(c, &me), 0);
            for (int k = 0; k < TIMES; k++) {
                uint64_t old, seen;
                CHECK_EQ(asymreg_amo(me, 1, a.addr, a.id, ASYMREG_AMO_ADD, 4, 1, 0, NULL), 0);
                CHECK_EQ(asymreg_get(me, 1, a.addr + 8, a.id, &old, 8), 0);
                do {
                    seen = old;
                    CHECK_EQ(asymreg_amo(me, 1, a.addr + 8, a.id, ASYMREG_AMO_COMPARE_SWAP, 8,
                                         seen + 3, seen, &old),
                             0);
                } while (old != seen);
            }
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK_EQ(asymreg_get(w->me, PE, a.addr, 0, sum, 16), 0);
    CHECK_EQ((uint32_t)sum[0], PROCESSES * TIMES);
    CHECK_EQ(sum[1], PROCESSES * TIMES * 3);
}

static void numbers_of_peers(struct world *w)
{
    char c;

    CHECK_EQ(asymreg_import(w->ctx, PE, w->t.blob, w->t.blob_bytes, NULL), -EEXIST);
    CHECK_EQ(asymreg_import(w->ctx, ASYMREG_MAX_PEERS, w->t.blob, w->t.blob_bytes, NULL), -EINVAL);
    CHECK_EQ(asymreg_import(w->ctx, ASYMREG_MAX_PEERS - 1, w->t.blob, w->t.blob_bytes, NULL), 0);
    CHECK_EQ(asymreg_get(w->me, ASYMREG_MAX_PEERS, 1, 0, &c, 1), ASYMREG_ENOPEER);
    CHECK_EQ(asymreg_get(w->me, ASYMREG_MAX_PEERS - 1, 1, 0, &c, 1), ASYMREG_ENOREGION);
    struct answer a = reg(w, w->kind, 0, 10, ASYMREG_RW);
    CHECK_EQ(asymreg_get(w->me, PE, a.addr, 0, &c, 1), 0);
    for (int i = 0; i < 3; i++) { /* the worker notices that the number means another peer */
        CHECK_EQ(asymreg_forget(w->ctx, PE), 0);
        CHECK_EQ(asymreg_get(w->me, PE, a.addr, 0, &c, 1), ASYMREG_ENOPEER);
        CHECK_EQ(asymreg_import(w->ctx, PE, w->t.blob, w->t.blob_bytes, NULL), 0);
        CHECK_EQ(asymreg_get(w->me, PE, a.addr, 0, &c, 1), 0);
    }
}

/* More peers than a process has descriptors: the transport keeps 64, and notices each peer's
 * death. */
static void many_peers(struct world *w)
{
    /* Each reserves 73 MiB of address space. */
    enum { PEERS = UINTPTR_MAX > UINT32_MAX ? 300 : 30, FIRST = 1000 };
    struct rlimit before, few;
    struct answer a = reg(w, w->kind, 0, 10, ASYMREG_RW);
    char c;

    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    few = before;
    few.rlim_cur = 100; /* 65 with PE, what the test has open, and a few to come and go */
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    for (uint32_t i = 0; i < PEERS; i++) {
        CHECK_EQ(asymreg_import(w->ctx, FIRST + i, w->t.blob, w->t.blob_bytes, NULL), 0);
        CHECK_EQ(asymreg_get(w->me, FIRST + i, a.addr, a.id, &c, 1), 0);
    }
    for (uint32_t i = 0; i < PEERS; i++) { /* 0 bytes: asks the kernel */
        CHECK_EQ(asymreg_put(w->me, FIRST + i, a.addr, a.id, &c, 1), 0);
        CHECK_EQ(asymreg_put(w->me, FIRST + i, 0, ASYMREG_ANY, NULL, 0), 0);
    }
    for (uint32_t i = 0; i < PEERS; i += 7) { /* some come and go */
        CHECK_EQ(asymreg_forget(w->ctx, FIRST + i), 0);
        CHECK_EQ(asymreg_import(w->ctx, FIRST + i, w->t.blob, w->t.blob_bytes, NULL), 0);
    }
    /* Dead, but not yet waited for: its number is still taken. */
    kill(w->t.pid, SIGKILL);
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)w->t.pid, &info, WEXITED | WNOWAIT) == 0);
    for (uint32_t i = 0; i < PEERS; i++)
        CHECK_EQ(asymreg_put(w->me, FIRST + i, 0, ASYMREG_ANY, NULL, 0), ASYMREG_EPEER);
    for (uint32_t i = 0; i < PEERS; i++)
        CHECK_EQ(asymreg_get(w->me, FIRST + i, a.addr, a.id, &c, 1), ASYMREG_EPEER);
    CHECK_EQ(asymreg_import(w->ctx, FIRST + PEERS, w->t.blob, w->t.blob_bytes, NULL),
             ASYMREG_EPEER);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

/* This process is a peer like any other. */
static void oneself(struct world *w)
{
    asymreg_id id;
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    ssize_t n = asymreg_export(w->ctx, blob, sizeof(blob), NULL);
    static char memory[100];
    void *p = memory;
    char in[6];

    CHECK(n > 0 && n < 512);
    CHECK_EQ(asymreg_export(w->ctx, blob, (size_t)n - 1, NULL), -ENOBUFS);
    CHECK_EQ(asymreg_export(w->ctx, blob, (size_t)n, NULL), n);
    CHECK_EQ(asymreg_import(w->ctx, 0, blob, (size_t)n, NULL), 0);
    if (!(w->mode & ASYMREG_LOCAL_CMA)) {
        struct asymreg_error err = {0};
        CHECK_EQ(asymreg_register(w->ctx, memory, 100, ASYMREG_RW, NULL, NULL, &err),
                 ASYMREG_ENOTSUP);
        CHECK_EQ(err.code, ASYMREG_ENOTSUP);
        CHECK_EQ(err.addr, (uintptr_t)memory);
        CHECK_EQ(err.bytes, 100);
        CHECK(strstr(err.text, "CMA, which is off") != NULL);
        CHECK_EQ(asymreg_segment_alloc(w->ctx, 100, &p, NULL), 0);
    }
    CHECK_EQ(asymreg_register(w->ctx, p, 100, ASYMREG_RW, NULL, &id, NULL), 0);
    CHECK_EQ(asymreg_put(w->me, 0, (uintptr_t)p + 10, 0, "self", 5), 0);
    CHECK(strcmp((char *)p + 10, "self") == 0);
    CHECK_EQ(asymreg_get(w->me, 0, (uintptr_t)p + 10, 0, in, 5), 0);
    CHECK(strcmp(in, "self") == 0);
    CHECK_EQ(asymreg_unregister(w->ctx, id), 0);
}

/* The head of a blob: positions, and the checksum (FNV-1a, with 0 in its place). */
enum { CHECKSUM_AT = 16, INCARNATION_AT = 40, TABLE_BYTES_AT = 56 };

static void seal_blob(unsigned char *blob, size_t n)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);

    memset(blob + CHECKSUM_AT, 0, sizeof(sum));
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ blob[i]) * UINT64_C(0x100000001b3);
    memcpy(blob + CHECKSUM_AT, &sum, sizeof(sum));
}

static void damaged_blobs(struct world *w)
{
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];

    for (size_t n = 0; n < w->t.blob_bytes; n++)
        CHECK_EQ(asymreg_import(w->ctx, 1, w->t.blob, n, NULL), ASYMREG_EBLOB);
    for (size_t i = 0; i < w->t.blob_bytes; i++) {
        memcpy(blob, w->t.blob, w->t.blob_bytes);
        blob[i] ^= (unsigned char)(1 << i % 8);
        int rc = asymreg_import(w->ctx, 1, blob, w->t.blob_bytes, NULL);
        CHECK(rc == ASYMREG_EBLOB || rc == ASYMREG_EVERSION);
    }
    memcpy(blob, w->t.blob, w->t.blob_bytes);
    CHECK_EQ(asymreg_import(w->ctx, 1, blob, w->t.blob_bytes + 1, NULL), ASYMREG_EBLOB);
    for (int at = INCARNATION_AT; at <= TABLE_BYTES_AT; at += TABLE_BYTES_AT - INCARNATION_AT) {
        memcpy(blob, w->t.blob, w->t.blob_bytes);
        memset(blob + at, 0, 8);
        seal_blob(blob, w->t.blob_bytes);
        CHECK_EQ(asymreg_import(w->ctx, 1, blob, w->t.blob_bytes, NULL), ASYMREG_EBLOB);
    }
    CHECK_EQ(asymreg_import(w->ctx, 1, NULL, 10, NULL), -EINVAL);
}

/* Many regions in one segment, one descriptor; found one by one, and gone one by one. */
static void many_share_a_segment(struct world *w)
{
    enum { N = 2000 };
    struct answer arena, a;
    asymreg_id ids[N];
    char c;

    arena = reg(w, SHARED, 0, N * 64, ASYMREG_RW);
    tell(&w->t, (struct order){.what = UNREGISTER, .value = arena.id});
    for (uint64_t i = 0; i < N; i++) {
        a = reg(w, SHARED, arena.addr + i * 64, 48, ASYMREG_RW);
        ids[i] = a.id;
        if (i % 100 == 0)
            CHECK_EQ(asymreg_put(w->me, PE, a.addr + 47, a.id, "m", 1), 0);
    }
    for (uint64_t i = 0; i < N; i++) {
        CHECK_EQ(asymreg_get(w->me, PE, arena.addr + i * 64 + 47, 0, &c, 1), 0);
        CHECK_EQ(asymreg_get(w->me, PE, arena.addr + i * 64 + 47, 0, &c, 2), ASYMREG_ERANGE);
    }
    struct asymreg_stats st = {.size = sizeof(st)};
    CHECK_EQ(asymreg_context_stats(w->ctx, &st), 0);
    CHECK(st.n_records >= 10);
    for (uint64_t i = 0; i < N; i += 2)
        CHECK_EQ(tell(&w->t, (struct order){.what = UNREGISTER, .value = ids[i]}).rc, 0);
    for (uint64_t i = 0; i < N; i++) {
        int rc = asymreg_get(w->me, PE, arena.addr + i * 64, 0, &c, 1);
        CHECK(i % 2 ? rc == 0 : rc == ASYMREG_ENOREGION || rc == ASYMREG_ESTALE);
    }
}

static const struct {
    const char *name;
    void (*run)(struct world *w);
} cases[] = {
#define CASE(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }
    CASE(there_and_back),
    CASE(out_of_range),
    CASE(zero_length),
    CASE(permissions),
    CASE(unwritable_memory),
    CASE(overlap),
    CASE(after_unregister),
    CASE(registered_again),
    CASE(adjacent),
    CASE(refusals_explained),
    CASE(missing_memory_explained),
    CASE(truncated_file),
    CASE(stopped_target),
    CASE(killed_target),
    CASE(closed_target),
    CASE(killed_in_the_middle),
    CASE(atomics),
    CASE(atomics_at_once),
    CASE(numbers_of_peers),
    CASE(oneself),
    CASE(damaged_blobs),
    CASE(many_share_a_segment),
    CASE(many_peers),
    CASE(at_the_top),
    CASE(killed_before_registering),
};

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint32_t mode;
    } modes[] = {{"shm", ASYMREG_LOCAL_SHM}, {"cma", ASYMREG_LOCAL_CMA}, {"both", 0}};

    if (no_pidfd_asked(argv[1]))
        argc--, argv++;
    for (size_t m = 0; m < 3; m++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
            struct world w;
            if (argc > 1 && strcmp(argv[1], cases[i].name) != 0)
                continue;
            world_init(&w, modes[m].mode, 0);
            w.mode = modes[m].mode ? modes[m].mode : ASYMREG_LOCAL_SHM | ASYMREG_LOCAL_CMA;
            w.kind = w.mode & ASYMREG_LOCAL_CMA ? MALLOC : SHARED;
            cases[i].run(&w);
            world_fini(&w);
            printf("%s %s\n", cases[i].name, modes[m].name);
        }
    }
    return 0;
}
