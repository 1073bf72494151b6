/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every allocation and call of UCX or libibverbs that the back-ends make fails in turn, by --wrap,
 * through the life of two contexts in one process: failpoints ucx|ibv. The call of the library in
 * which the failure occurs reports it, and succeeds when repeated.
 */
#define _GNU_SOURCE
#include <asymreg.h>
#ifdef HAVE_UCX
#include <asymreg-ucx.h>
#include <ucp/api/ucp.h>
#endif
#ifdef HAVE_IBV
#include <asymreg-ibv.h>
#include <infiniband/verbs.h>
#endif

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK_END() exit(1)
#include "../check.h"

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libuct.so\nleak:libucp.so\n";
}

static atomic_long countdown;
static atomic_int armed, fired, error;
static const char *_Atomic victim;
static const char *transport_name;
static int n_failed, shown; /* the failure of this life was reported */

static int hit(const char *name, int code)
{
    if (!atomic_load(&armed) || atomic_fetch_sub(&countdown, 1) != 1)
        return 0;
    victim = name;
    error = code;
    atomic_store(&fired, 1);
    errno = code;
    return 1;
}

#define WRAP(type, name, bad, code, params, args)                                                  \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params                                                                      \
    {                                                                                              \
        return hit(#name, code) ? (bad) : __real_##name args;                                      \
    }
WRAP(void *, malloc, NULL, ENOMEM, (size_t n), (n))
WRAP(void *, calloc, NULL, ENOMEM, (size_t n, size_t m), (n, m))
WRAP(void *, realloc, NULL, ENOMEM, (void *p, size_t n), (p, n))
WRAP(void *, aligned_alloc, NULL, ENOMEM, (size_t a, size_t n), (a, n))
WRAP(void *, mmap, MAP_FAILED, ENOMEM, (void *a, size_t n, int p, int f, int fd, off_t o),
     (a, n, p, f, fd, o))
WRAP(FILE *, fopen, NULL, EMFILE, (const char *path, const char *how), (path, how))
WRAP(FILE *, open_memstream, NULL, ENOMEM, (char **p, size_t *n), (p, n))
WRAP(int, eventfd, -1, EMFILE, (unsigned n, int f), (n, f))
WRAP(int, pthread_create, EAGAIN, EAGAIN,
     (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *c), (t, a, f, c))
#ifdef HAVE_UCX
#define BAD     UCS_ERR_NO_MEMORY
#define BAD_PTR UCS_STATUS_PTR(UCS_ERR_NO_MEMORY)
WRAP(ucs_status_t, ucp_config_read, BAD, ENOMEM, (const char *a, const char *b, ucp_config_t **c),
     (a, b, c))
WRAP(ucs_status_t, ucp_init_version, BAD, ENOMEM,
     (unsigned a, unsigned b, const ucp_params_t *p, const ucp_config_t *c, ucp_context_h *h),
     (a, b, p, c, h))
WRAP(ucs_status_t, ucp_worker_create, BAD, ENOMEM,
     (ucp_context_h c, const ucp_worker_params_t *p, ucp_worker_h *w), (c, p, w))
WRAP(ucs_status_t, ucp_worker_get_address, BAD, ENOMEM,
     (ucp_worker_h w, ucp_address_t **a, size_t *n), (w, a, n))
WRAP(ucs_status_t, ucp_mem_map, BAD, ENOMEM,
     (ucp_context_h c, const ucp_mem_map_params_t *p, ucp_mem_h *m), (c, p, m))
WRAP(ucs_status_t, ucp_rkey_pack, BAD, ENOMEM, (ucp_context_h c, ucp_mem_h m, void **k, size_t *n),
     (c, m, k, n))
WRAP(ucs_status_t, ucp_ep_create, BAD, ENOMEM,
     (ucp_worker_h w, const ucp_ep_params_t *p, ucp_ep_h *e), (w, p, e))
WRAP(ucs_status_t, ucp_ep_rkey_unpack, BAD, ENOMEM, (ucp_ep_h e, const void *b, ucp_rkey_h *k),
     (e, b, k))
WRAP(ucs_status_ptr_t, ucp_put_nbx, BAD_PTR, ENOMEM,
     (ucp_ep_h e, const void *b, size_t n, uint64_t a, ucp_rkey_h k, const ucp_request_param_t *p),
     (e, b, n, a, k, p))
WRAP(ucs_status_ptr_t, ucp_get_nbx, BAD_PTR, ENOMEM,
     (ucp_ep_h e, void *b, size_t n, uint64_t a, ucp_rkey_h k, const ucp_request_param_t *p),
     (e, b, n, a, k, p))
WRAP(ucs_status_ptr_t, ucp_am_send_nbx, BAD_PTR, ENOMEM,
     (ucp_ep_h e, unsigned id, const void *h, size_t hn, const void *b, size_t n,
      const ucp_request_param_t *p),
     (e, id, h, hn, b, n, p))
WRAP(ucs_status_t, ucp_worker_set_am_recv_handler, BAD, ENOMEM,
     (ucp_worker_h w, const ucp_am_handler_param_t *p), (w, p))
WRAP(ucs_status_ptr_t, ucp_ep_flush_nbx, BAD_PTR, ENOMEM,
     (ucp_ep_h e, const ucp_request_param_t *p), (e, p))
#endif
#ifdef HAVE_IBV
#undef ibv_reg_mr
WRAP(struct ibv_device **, ibv_get_device_list, NULL, ENOMEM, (int *n), (n))
WRAP(struct ibv_context *, ibv_open_device, NULL, ENOMEM, (struct ibv_device * d), (d))
WRAP(struct ibv_pd *, ibv_alloc_pd, NULL, ENOMEM, (struct ibv_context * c), (c))
WRAP(struct ibv_cq *, ibv_create_cq, NULL, ENOMEM,
     (struct ibv_context * c, int n, void *p, struct ibv_comp_channel *h, int v), (c, n, p, h, v))
WRAP(struct ibv_qp *, ibv_create_qp, NULL, ENOMEM, (struct ibv_pd * p, struct ibv_qp_init_attr *a),
     (p, a))
WRAP(struct ibv_comp_channel *, ibv_create_comp_channel, NULL, ENOMEM, (struct ibv_context * c),
     (c))
WRAP(struct ibv_mr *, ibv_reg_mr, NULL, ENOMEM, (struct ibv_pd * p, void *a, size_t n, int f),
     (p, a, n, f))
WRAP(struct ibv_ah *, ibv_create_ah, NULL, ENOMEM, (struct ibv_pd * p, struct ibv_ah_attr *a),
     (p, a))
WRAP(int, ibv_modify_qp, ENOMEM, ENOMEM, (struct ibv_qp * q, struct ibv_qp_attr *a, int m),
     (q, a, m))
#endif

static int open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    CHECK(d != NULL);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static struct asymreg_context *owner, *user;
static struct asymreg_worker *w;
static unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
static ssize_t n_blob;

/* As tests/asymreg/failpoints_asymreg.c. A failed connection is opened again. */
static void try_again(int line, const char *text, int rc, int had_fired)
{
    /* A failure in the other side's thread, while it answers, shows in a later call: the connection
     * fails. */
    if (!atomic_load(&fired) || shown ||
        (had_fired && rc != ASYMREG_EUNREACH && rc != ASYMREG_EPEER)) {
        fprintf(stderr, "%s:%d: %s is %d (%s) without cause\n", __FILE__, line, text, rc,
                asymreg_strerror(rc));
        exit(1);
    }
    if (rc != -atomic_load(&error) && rc != ASYMREG_EUNREACH && rc != ASYMREG_EPEER) {
        fprintf(stderr, "%s:%d: %s is %d (%s) when %s fails\n", __FILE__, line, text, rc,
                asymreg_strerror(rc), victim);
        exit(1);
    }
    n_failed++;
    shown = 1;
    if (w && (rc == ASYMREG_EUNREACH || rc == ASYMREG_EPEER)) {
        CHECK(asymreg_forget(user, 1) == 0);
        CHECK(asymreg_import(user, 1, blob, (size_t)n_blob, NULL) == 0);
    }
}
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int had_ = atomic_load(&fired);                                                            \
        atomic_store(&armed, 1);                                                                   \
        int rc_ = (call);                                                                          \
        atomic_store(&armed, 0);                                                                   \
        if (rc_ != 0) {                                                                            \
            try_again(__LINE__, #call, rc_, had_);                                                 \
            rc_ = (call);                                                                          \
            if (rc_ != 0) {                                                                        \
                fprintf(stderr, "%s:%d: %s is %d (%s) after %s failed\n", __FILE__, __LINE__,      \
                        #call, rc_, asymreg_strerror(rc_), victim);                                \
                exit(1);                                                                           \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static int open_one(struct asymreg_context **ctx)
{
    struct asymreg_opts opts = {.size = sizeof(opts), .max_regions = 500};
    int rc = -ENOSYS;

#ifdef HAVE_UCX
    if (strcmp(transport_name, "ucx") == 0) {
        struct asymreg_ucx_opts o = {.size = sizeof(o), .flags = ASYMREG_UCX_THREAD};

        rc = asymreg_ucx_create(&o, &opts.transport, NULL);
    }
#endif
#ifdef HAVE_IBV
    if (strcmp(transport_name, "ibv") == 0) {
        struct asymreg_ibv_opts o = {.size = sizeof(o), .timeout_ms = 20000};

        rc = asymreg_ibv_create(&o, &opts.transport, NULL);
        if (rc == -ENODEV && !atomic_load(&fired)) {
            printf("skip: needs a verbs adapter\n");
            fflush(stdout);
            _exit(77);
        }
    }
#endif
    return rc < 0 ? rc : asymreg_open(&opts, ctx, NULL);
}

static void life(void)
{
    enum { N = 20 };
    static char memory[N][4096] __attribute__((aligned(64)));
    char buf[4096];
    asymreg_id ids[N];
    uint64_t old = 77;

    w = NULL;
    memset(memory, 0, sizeof(memory));
    TRY(open_one(&owner));
    TRY(open_one(&user));
    for (int i = 0; i < N; i++)
        TRY(asymreg_register(owner, memory[i], sizeof(memory[i]), ASYMREG_ALL, NULL, &ids[i],
                             NULL));
    n_blob = asymreg_export(owner, blob, sizeof(blob), NULL);
    CHECK(n_blob > 0);
    TRY(asymreg_import(user, 1, blob, (size_t)n_blob, NULL));
    TRY(asymreg_worker_create(user, &w));
    for (int i = 0; i < N; i += 7) {
        memset(buf, 'a' + i, sizeof(buf));
        TRY(asymreg_put(w, 1, (uintptr_t)memory[i], ids[i], buf, sizeof(buf)));
        TRY(asymreg_flush(w, 1));
        CHECK(memcmp(memory[i], buf, sizeof(buf)) == 0);
        memset(buf, 0, sizeof(buf));
        TRY(asymreg_get(w, 1, (uintptr_t)memory[i], ids[i], buf, sizeof(buf)));
        CHECK(memcmp(memory[i], buf, sizeof(buf)) == 0);
    }
    memset(memory[1], 0, 8);
    TRY(asymreg_amo(w, 1, (uintptr_t)memory[1], ids[1], ASYMREG_AMO_SWAP, 8, 5, 0,
                    &old)); /* the failed operation was not begun */
    CHECK(old == 0 && memory[1][0] == 5);
    TRY(asymreg_put_nb(w, 1, (uintptr_t)memory[2], ids[2], buf, 100, NULL));
    TRY(asymreg_flush(w, ASYMREG_ALL_PEERS));
    CHECK(memcmp(memory[2], buf, 100) == 0);
    for (int i = 0; i < N; i++)
        TRY(asymreg_unregister(owner, ids[i]));
    atomic_store(&armed, 1);
    asymreg_worker_destroy(w);
    asymreg_forget(user, 1);
    asymreg_close(user);
    asymreg_close(owner);
    atomic_store(&armed, 0);
}

int main(int argc, char **argv)
{
    long k = 0;
    int again;

    CHECK(argc == 2);
    transport_name = argv[1];
    setenv("UCX_LOG_LEVEL", "fatal", 0);
    alarm(350);
    for (int i = 0; i < 2; i++) /* then the libraries below hold what they keep until exit */
        life();
    n_failed = 0;
    do {
        int files = open_files();
        atomic_store(&countdown, ++k);
        atomic_store(&fired, 0);
        shown = 0;
        life();
        again = atomic_load(&fired);
        CHECK(open_files() == files);
    } while (again);
    printf("%s: %ld calls failed in turn, of which %d showed\n", transport_name, k - 1, n_failed);
    CHECK(k > 20 && n_failed > k / 3);
    return 0;
}
