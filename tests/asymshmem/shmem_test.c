/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An OpenSHMEM program that makes every call of libasymshmem's and runs small programs, and whose
 * PE 0 prints all PEs' results, so that the output does not depend on the kind of memory. With
 * MEMORY=asymmetric the memory is malloc'd, has another size and address in each PE, and is
 * registered; otherwise it is symmetric, and the program needs no libasymshmem.
 *
 * With CONTEXT=default the program creates no other context: over TCP, Debian 12's OpenSHMEM then
 * hangs at its end, and in barriers.
 *
 * With NO_CMA=1 the kernel refuses process_vm_readv() and process_vm_writev(), so that CMA cannot
 * be what works.
 *
 * MEMORY=missing: puts to unregistered memory; the first one must end the job.
 *
 * Names on standard error a signal inside the OpenSHMEM's own shmem_finalize(), which these tests
 * do not test. libasymshmem's shmem_finalize() comes first, and calls the pshmem_finalize() below.
 */
#define _GNU_SOURCE
#include "shmem_test.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct result {
    char name[24];
    double value;
};

int me, n_pes, next;
bool asymmetric;
shmem_ctx_t ctx;
static bool missing;
static struct result results[MAX_PES][MAX_RESULTS]; /* symmetric; at PE 0 those of all */
static int n_results;

void fail(const char *what)
{
    fprintf(stderr, "PE %d: not so: %s\n", me, what);
    shmem_global_exit(3);
    abort();
}

void result(const char *class, const char *name, double value)
{
    struct result *r = &results[me][n_results++];

    if (n_results > MAX_RESULTS)
        fail("there is room for results");
    snprintf(r->name, sizeof(r->name), "%s %s", class, name);
    r->value = value;
}

void result_of_all(const char *name, double value)
{
    printf("%-24s %.17g\n", name, value);
}

static void print_results(void)
{
    if (me != 0)
        shmem_putmem(results[me], results[me], sizeof(results[me]), 0);
    shmem_barrier_all();
    for (int i = 0; i < n_results && me == 0; i++) {
        printf("%-24s", results[0][i].name);
        for (int pe = 0; pe < n_pes; pe++)
            printf(" %.17g", results[pe][i].value);
        printf("\n");
    }
    fflush(stdout);
}

struct block block_alloc(size_t bytes)
{
    struct block b = {.where = shmem_malloc((size_t)n_pes * sizeof(*b.where))};
    uint64_t address;

    if (asymmetric || missing) {
        bytes += 4096 * (size_t)me;
        b.mine = malloc(bytes + 64 * (size_t)me);
        b.mine += 64 * (size_t)me; /* no two at one address, whatever malloc() returns */
    } else {
        b.mine = shmem_malloc(bytes);
    }
    if (!b.where || !b.mine)
        fail("there is memory");
    memset(b.mine, 0, bytes);
    /* Memory of another origin is not freed, and stays registered. */
    if (asymmetric && (shmemx_register(b.mine, bytes) != 0 || shmemx_free(b.mine) == 0 ||
                       shmemx_register(b.mine, bytes) == 0))
        fail("memory can be registered once");
    address = (uintptr_t)b.mine;
    shmem_barrier_all();
    for (int pe = 0; pe < n_pes; pe++)
        shmem_uint64_p(&b.where[me], address, pe);
    shmem_barrier_all();
    return b;
}

void *block_at(const struct block *block, int pe)
{
    return (char *)(uintptr_t)block->where[pe];
}

void block_free(struct block *block)
{
    shmem_barrier_all();
    if (asymmetric) {
        if (shmemx_unregister(block->mine) != 0 || shmemx_unregister(block->mine) == 0)
            fail("memory can be unregistered once");
        shmem_barrier_all();
        if (shmem_addr_accessible(block_at(block, next), next))
            fail("what was unregistered is not accessible");
        shmem_barrier_all();
        free(block->mine - 64 * (size_t)me);
    } else {
        shmem_free(block->mine);
    }
    shmem_free(block->where);
}

static void in_their_finalize(int signal_number)
{
    static const char text[] = "a signal in the OpenSHMEM's own shmem_finalize()\n";

    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
        _exit(1);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void expect_signals(void)
{
    signal(SIGSEGV, in_their_finalize);
    signal(SIGBUS, in_their_finalize);
    signal(SIGABRT, in_their_finalize);
}

void pshmem_finalize(void)
{
    void (*theirs)(void) = (void (*)(void))dlsym(RTLD_NEXT, "pshmem_finalize");

    expect_signals();
    theirs();
}

static void refuse_cma(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        fprintf(stderr, "no filter of system calls here: CMA is not ruled out\n");
}

int main(void)
{
    const char *memory = getenv("MEMORY") ? getenv("MEMORY") : "symmetric";
    bool own_context;

    if (getenv("NO_CMA"))
        refuse_cma();
    shmem_init();
    me = shmem_my_pe();
    n_pes = shmem_n_pes();
    next = (me + 1) % n_pes;
    own_context = !getenv("CONTEXT");
    ctx = SHMEM_CTX_DEFAULT;
    if (n_pes > MAX_PES || (own_context && shmem_ctx_create(0, &ctx) != 0))
        fail("there are up to 16 PEs, and a context");
    asymmetric = strcmp(memory, "asymmetric") == 0;
    missing = strcmp(memory, "missing") == 0;
    /* Not by a launcher: Open MPI 5's oshrun may lose part of a line. */
    if (me == 0 && getenv("RESULTS") && !freopen(getenv("RESULTS"), "w", stdout))
        fail("the file for results opens");
    run_calls();
    run_programs();
    print_results();
    if (own_context)
        shmem_ctx_destroy(ctx);
    shmem_barrier_all();
    if (!shmemx_register)
        expect_signals();
    shmem_finalize();
    return 0;
}
