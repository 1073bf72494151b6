/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes: one registers memory and says where, the other puts a text there. */
#include <asymreg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct { /* what a peer needs to know: an address, and once the blob */
    uint64_t addr;
    asymreg_id id;
    ssize_t n;
    char blob[ASYMREG_MAX_BLOB_BYTES];
} h;
static struct asymreg_context *ctx;
static struct asymreg_error err;

static int target(int tell, int done)
{
    char *text = calloc(1, 100), c; /* any memory; this process takes no further part */

    h.addr = (uintptr_t)text;
    if (asymreg_open(NULL, &ctx, &err) < 0 ||
        asymreg_register(ctx, text, 100, ASYMREG_RW, NULL, &h.id, &err) < 0 ||
        (h.n = asymreg_export(ctx, h.blob, sizeof(h.blob), &err)) < 0)
        return fprintf(stderr, "target: %s\n", err.text), 1;
    if (write(tell, &h, sizeof(h)) != sizeof(h) || read(done, &c, 1) != 1)
        return 1;
    puts(text);
    asymreg_close(ctx);
    return 0;
}

static int initiator(void)
{
    struct asymreg_worker *me;

    if (asymreg_open(NULL, &ctx, &err) < 0 || asymreg_import(ctx, 7, h.blob, (size_t)h.n, &err) < 0)
        return fprintf(stderr, "initiator: %s\n", err.text), 1;
    if (asymreg_worker_create(ctx, &me) < 0 ||
        asymreg_put(me, 7, h.addr, h.id, "hello world", 12) < 0 || asymreg_flush(me, 7) < 0)
        return 1; /* asymreg_resolve() would say why */
    asymreg_worker_destroy(me);
    asymreg_close(ctx);
    return 0;
}

int main(void)
{
    int tell[2], done[2], status;

    if (pipe(tell) || pipe(done))
        return 2;
    if (fork() == 0) /* without the ends that it does not use, each side sees the other's exit */
        exit(close(tell[0]) || close(done[1]) || target(tell[1], done[0]));
    if (close(tell[1]) || close(done[0]) || read(tell[0], &h, sizeof(h)) != sizeof(h) ||
        initiator() || write(done[1], "", 1) != 1)
        return 1;
    return wait(&status) > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
