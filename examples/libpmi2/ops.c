/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops.h"
#include "pmi2.h"

/* A put that does not wait. */
struct put {
    struct request request;
    struct put *next;  /* of the refused ones */
    uint64_t fence;    /* the number of its Fence */
    struct op *gather; /* it is this Allgather's, or NULL */
    struct pair *pair; /* kept unless it is refused, or NULL */
    int hint;
    int rc, peer_rc;   /* of a refused one */
    const char *value; /* in text, behind the key */
    char text[];
};

/* A requested value of one rank in an Allgather. */
struct get_value {
    struct request request;
    struct op *op;
    int rank;
};

static struct {
    struct op *first;
    int n;                     /* of them, without those whose caller waits */
    unsigned n_gathers;        /* so far */
    uint64_t n_fences;         /* so far */
    struct put *refused;       /* those that no Fence has reported: one a Fence, in their order */
    struct put *told;          /* the one that the last Fence has reported */
    struct shmht_array *array; /* the last Allgather's values, */
    char *own;                 /* where they are */
} ops;

/* ---- the list ---- */

static void put_free(struct put *put)
{
    if (put)
        pairs_drop(put->pair);
    free(put);
}

static struct op *op_add(int what, const char *value)
{
    struct op *op = calloc(1, sizeof(*op) + strlen(value) + 1), **end = &ops.first;

    if (!op)
        return NULL;
    op->what = what;
    strcpy(op->value, value);
    while (*end)
        end = &(*end)->next;
    *end = op;
    return op;
}

/* Take it off the list and free it, except its values. */
static void op_drop(struct op *op)
{
    struct op **at = &ops.first;

    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    ops.n -= op->is_counted;
    shmht_array_detach(op->array);
    free(op->own);
    free(op->gets);
    put_free(op->refused);
    free(op);
}

struct op *op_oldest(int what)
{
    struct op *op = ops.first;

    while (op && !(op->what & what))
        op = op->next;
    return op;
}

/* A request of an operation has completed; the first failure is the operation's result. */
static void request_over(struct op *op, int rc, const struct pmiwire_event *ev)
{
    op->n_open--;
    if (op->rc == 0 && rc < 0) {
        op->rc = rc;
        op->peer_rc = ev ? ev->peer_rc : 0;
    }
}

/* ---- puts ---- */

static int put_send(struct session *s, struct request *r, uint64_t cookie)
{
    struct put *put = (struct put *)r;

    return pmiwire_client_put(s->client, pmiwire_strz(put->text), pmiwire_strz(put->value),
                              (uint32_t)put->hint, cookie);
}

static void put_done(struct session *s, struct request *r, int rc, const struct pmiwire_event *ev)
{
    struct put *put = (struct put *)r, **at = &ops.refused;

    if (put->gather)
        request_over(put->gather, rc, ev);
    if (rc == 0 && put->pair) {
        pairs_add(&core.pairs, put->pair);
        put->pair = NULL;
    }
    /* Refusals come out of order: this library's own before the server's. */
    while (*at && (*at)->fence < put->fence)
        at = &(*at)->next;
    if (rc == 0 || put->gather || (*at && (*at)->fence == put->fence)) {
        put_free(put);
        return;
    }
    put->rc = rc;
    put->peer_rc = ev ? ev->peer_rc : 0;
    put->next = *at;
    *at = put;
}

static struct put *new_put(const char *key, const char *value, int hint)
{
    const size_t n = strlen(key) + 1, bytes = n + strlen(value) + 1;
    struct put *put = calloc(1, sizeof(*put) + bytes);

    if (!put)
        return NULL;
    put->request.send = put_send;
    put->request.done = put_done;
    put->fence = ops.n_fences;
    put->hint = hint;
    put->value = strcpy(put->text + n, value);
    memcpy(put->text, key, n);
    return put;
}

int op_put(const char *key, const char *value, int hint, struct pair *pair)
{
    struct put *put;
    int rc;

    while (session_progress(&core.session, 0))
        ;
    if (!session_busy(&core.session))
        return 1;
    put = new_put(key, value, hint);
    if (!put)
        return -ENOMEM;
    put->pair = pair;
    rc = session_begin(&core.session, &put->request);
    if (rc < 0) {
        put->pair = NULL; /* still the caller's */
        put_free(put);
    }
    return rc;
}

/* ---- Fences ---- */

static int fence_send(struct session *s, struct request *r, uint64_t cookie)
{
    return pmiwire_client_fence(s->client, pmiwire_strz(NULL), cookie);
}

/* Takes the first refused put off the list, if it is of this Fence or one before it. */
static struct put *take_refused(uint64_t fence)
{
    struct put *put = ops.refused;

    if (!put || put->fence > fence)
        return NULL;
    ops.refused = put->next;
    return put;
}

/* A Fence fails with a refused put before it. */
static void report_refused(struct op *op)
{
    struct put *put;

    while ((put = take_refused(op->fence)) != NULL) {
        if (op->rc < 0) {
            put_free(put);
            continue;
        }
        op->rc = put->rc;
        op->peer_rc = put->peer_rc;
        op->refused = put;
    }
}

static void fence_done(struct session *s, struct request *r, int rc, const struct pmiwire_event *ev)
{
    struct op *op = (struct op *)r;

    request_over(op, rc, ev);
    report_refused(op);
}

/* Whether another one may be begun. */
static int may_begin(int waits)
{
    return !waits && ops.n == PMI2_MAX_OUTSTANDING ? -EAGAIN : 0;
}

/* Its requests have begun, or rc is the reason why one has not. Requests in flight must end first.
 */
static int op_begun(struct op *op, int waits, int rc)
{
    if (rc < 0 && op->n_open == 0) {
        op_drop(op);
        return rc;
    }
    if (rc < 0)
        op->rc = rc;
    op->is_counted = !waits;
    ops.n += !waits;
    return 0;
}

static int op_request(struct op *op, struct request *r)
{
    int rc = session_begin(&core.session, r);

    if (rc == 0)
        op->n_open++;
    return rc;
}

int op_fence(int waits, struct op **out)
{
    struct op *op;
    int rc = may_begin(waits);

    if (rc < 0)
        return rc;
    op = op_add(OP_FENCE, "");
    if (!op)
        return -ENOMEM;
    op->fence = ops.n_fences++;
    op->request.send = fence_send;
    op->request.done = fence_done;
    *out = op;
    return op_begun(op, waits, core.alone ? 0 : op_request(op, &op->request));
}

static void end_fence(struct op *op)
{
    put_free(ops.told);
    ops.told = op->refused;
    op->refused = NULL;
}

int ops_unreported(void)
{
    if (!ops.refused)
        return 0;
    core.session.peer_rc = ops.refused->peer_rc;
    return ops.refused->rc;
}

int op_refused(char key[], int bytes, int *why)
{
    if (!ops.told)
        return PMIWIRE_ENOENT;
    *why = ops.told->rc;
    core.session.peer_rc = ops.told->peer_rc;
    return give(pmiwire_strz(ops.told->text), key, bytes) == 0 ? 0 : PMIWIRE_EKEYLEN;
}

/* ---- Allgathers ---- */

/* One request if the server knows it; otherwise a put, a Fence and a get of each rank's value. */
static int has_gather(void)
{
    return session_offers(&core.session, PMIWIRE_EXT_EXCHANGE);
}

/* Whether the values are expected in shared memory. Otherwise they are requested right after the
 * Allgather, before later operations. */
static int is_shared(void)
{
    return core.session.table.reader != NULL;
}

static void gather_key(char *key, size_t cap, unsigned gather, int rank)
{
    snprintf(key, cap, "-allgather-%u-%d", gather, rank);
}

/* The buffer for values that come one by one: by rank, PMI2_MAX_VALLEN bytes each. */
static char *values_of(struct op *op)
{
    if (!op->to && !op->own)
        op->own = calloc((size_t)core_info()->n_ranks, PMI2_MAX_VALLEN);
    return op->to ? op->to : op->own;
}

static int keep_value(struct op *op, int rank, struct pmiwire_str value)
{
    char *to = values_of(op);

    if (!to)
        return -ENOMEM;
    if (check_string(0, &value) != 0)
        return PMIWIRE_ECHARS;
    to += (size_t)rank * PMI2_MAX_VALLEN;
    if (give(value, to, PMI2_MAX_VALLEN) != 0)
        return PMIWIRE_EVALLEN;
    memset(to + value.len, 0, PMI2_MAX_VALLEN - value.len);
    return 0;
}

static int get_send(struct session *s, struct request *r, uint64_t cookie)
{
    const struct get_value *get = (const struct get_value *)r;
    char key[PMI2_MAX_KEYLEN];
    int rc;

    gather_key(key, sizeof(key), get->op->number, get->rank);
    rc = pmiwire_client_get(s->client, pmiwire_strz(NULL), get->rank, pmiwire_strz(key),
                            PMIWIRE_GET_LOCAL, cookie);
    s->n_asked += rc == 0;
    return rc;
}

static void get_done(struct session *s, struct request *r, int rc, const struct pmiwire_event *ev)
{
    const struct get_value *get = (const struct get_value *)r;

    if (rc == 0)
        rc = keep_value(get->op, get->rank, ev->value);
    request_over(get->op, rc, ev);
}

static int make_gets(struct op *op)
{
    op->gets = calloc((size_t)core_info()->n_ranks, sizeof(*op->gets));
    for (int rank = 0; op->gets && rank < core_info()->n_ranks; rank++)
        op->gets[rank] = (struct get_value){
            .request = {.send = get_send, .done = get_done}, .op = op, .rank = rank};
    return op->gets ? 0 : -ENOMEM;
}

/* An Allgather did not arrive in shared memory as expected: request its values before anything that
 * has not been sent. */
static void get_after_all(struct session *s, struct op *op)
{
    int rc = make_gets(op);

    for (int rank = core_info()->n_ranks - 1; rc == 0 && rank >= 0; rank--) {
        session_begin_first(s, &op->gets[rank].request);
        op->n_open++;
    }
    if (rc < 0)
        op->rc = rc;
}

/*
 * The server keeps only the values of the last Allgather, and only one descriptor may be in flight.
 * So if an answer may bring shared memory, another Allgather waits here, in case it does not.
 */
static int gather_send(struct session *s, struct request *r, uint64_t cookie)
{
    struct op *op = (struct op *)r;
    int rc;

    if (s->table.reader && s->n_arrays_due > 0)
        return -EAGAIN;
    rc = pmiwire_client_gather(s->client, pmiwire_strz(op->value), cookie);
    s->n_arrays_due += rc == 0;
    return rc;
}

static void gather_done(struct session *s, struct request *r, int rc,
                        const struct pmiwire_event *ev)
{
    struct op *op = (struct op *)r;

    if (ev && ev->op == PMIWIRE_OP_GATHER)
        s->n_arrays_due--;
    op->array = s->array;
    s->array = NULL;
    if (rc == 0 && !op->array && !op->gets)
        get_after_all(s, op);
    request_over(op, rc, ev);
}

static int gather_begin(struct op *op)
{
    char key[PMI2_MAX_KEYLEN];
    struct put *put = NULL;
    int rc = 0;

    if (!is_shared())
        rc = make_gets(op);
    if (rc == 0 && !has_gather()) {
        gather_key(key, sizeof(key), op->number, core_info()->rank);
        put = new_put(key, op->value, PMI2_HINT_NONE);
        rc = put ? 0 : -ENOMEM;
    }
    if (put) {
        put->gather = op;
        rc = op_request(op, &put->request);
        if (rc < 0)
            put_free(put);
    }
    if (rc == 0)
        rc = op_request(op, &op->request);
    for (int rank = 0; rc == 0 && op->gets && rank < core_info()->n_ranks; rank++)
        rc = op_request(op, &op->gets[rank].request);
    return rc;
}

int op_gather(int waits, const char *value, char *to, struct op **out)
{
    struct op *op;
    int rc = may_begin(waits);

    if (rc < 0)
        return rc;
    op = op_add(to ? OP_GATHER_TO : OP_GATHER, value);
    if (!op)
        return -ENOMEM;
    op->number = ops.n_gathers;
    op->to = to;
    op->request.send = has_gather() ? gather_send : fence_send;
    op->request.done = gather_done;
    rc = core.alone ? keep_value(op, 0, pmiwire_strz(value)) : gather_begin(op);
    rc = op_begun(op, waits, rc);
    if (rc < 0)
        return rc;
    ops.n_gathers++;
    *out = op;
    return 0;
}

/* Copy all values from shared memory. */
static int copy_array(struct op *op, char *to)
{
    struct pmiwire_str value;
    int rc = 0;

    op->to = to;
    for (int rank = 0; rc == 0 && rank < core_info()->n_ranks; rank++) {
        rc = array_get(op->array, rank, &value) == 0 ? keep_value(op, rank, value) : PMIWIRE_ENOENT;
        core.session.n_read += rc == 0;
    }
    return rc;
}

static int end_gather(struct op *op, char *to)
{
    int rc = op->rc;

    if (!to)
        to = op->to;
    if (rc == 0 && to && op->array)
        rc = copy_array(op, to);
    if (rc == 0 && to && op->own)
        memcpy(to, op->own, (size_t)core_info()->n_ranks * PMI2_MAX_VALLEN);
    shmht_array_detach(ops.array);
    free(ops.own);
    ops.array = op->array;
    ops.own = to ? NULL : op->own;
    op->array = NULL;
    if (!to)
        op->own = NULL;
    return rc;
}

/* Whether it has completed. Makes progress on pending operations; with `wait`, until it has. */
static int is_over(const struct op *op, int wait)
{
    while (op->n_open && session_progress(&core.session, wait))
        ;
    return !op->n_open;
}

int op_complete(struct op *op, char *to, int *done)
{
    const int over = op && is_over(op, !done);
    int rc;

    if (done)
        *done = over;
    if (!over)
        return op ? 0 : PMIWIRE_ESTATE;
    /* Sends what has waited for it. */
    while (session_progress(&core.session, 0))
        ;
    core.session.peer_rc = op->peer_rc;
    rc = op->rc;
    if (op->what == OP_FENCE)
        end_fence(op);
    else
        rc = end_gather(op, to);
    op_drop(op);
    return rc;
}

int op_gathered(const void **values, int *stride)
{
    if (ops.own) {
        *values = ops.own;
        *stride = PMI2_MAX_VALLEN;
        return 0;
    }
    if (!ops.array)
        return PMIWIRE_ENOENT;
    *values = array_values(ops.array, stride);
    return 0;
}

void ops_free(void)
{
    while (ops.first)
        op_drop(ops.first);
    shmht_array_detach(ops.array);
    free(ops.own);
    while (ops.refused)
        put_free(take_refused(UINT64_MAX));
    put_free(ops.told);
    memset(&ops, 0, sizeof(ops));
}
