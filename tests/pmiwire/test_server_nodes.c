/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's job and its exchange: the caller's stores, Allgathers, limits, time; on one node and
 * on several. */
#include "server_ranks.h"

#include "../heap.h"

static struct ranks k;

static void connect_all(void)
{
    for (uint32_t r = 0; r < k.n; r++) {
        r_connect(&k, r);
        r_init(&k, r);
    }
}

static void all_enter(enum what what)
{
    for (uint32_t r = 0; r < k.n; r++)
        r_enter(&k, r, what, 0, 0);
    r_run(&k);
}

static void all_hear(int rc)
{
    for (uint32_t r = 0; r < k.n; r++)
        assert_int_equal(r_rc(r_hear(&k, r)), rc);
}

/* Does rank r find this pair of rank `of`? */
static bool has(uint32_t r, uint32_t of, uint32_t number)
{
    char text[60];

    snprintf(text, sizeof(text), k.v2 ? "cmd=kvs-get;key=k%u.%u;" : "cmd=get key=k%u.%u\n", of,
             number);
    r_ask(&k, r, text);
    return strstr(r_hear(&k, r), "value=v") != NULL;
}

/* ---- Allgather, whose values the engine keeps ---- */

static void hears_value(uint32_t r, uint32_t number, uint32_t of, const char *value)
{
    char text[100];
    const char *heard;

    snprintf(text, sizeof(text),
             k.v2 ? "cmd=kvs-get;key=-allgather-%u-%u;" : "cmd=get key=-allgather-%u-%u\n", number,
             of);
    r_ask(&k, r, text);
    heard = r_hear(&k, r);
    if (value)
        snprintf(text, sizeof(text), k.v2 ? "rc=0;found=TRUE;value=%s;" : "rc=0 value=%s\n", value);
    else
        snprintf(text, sizeof(text), k.v2 ? "rc=0;found=FALSE;" : "rc=-1 msg=key not found");
    if (!strstr(heard, text))
        fail_msg("rank %u hears \"%s\", not \"%s\"", r, heard, text);
}

static void test_allgather(void **state)
{
    char request[200], value[100];

    for (uint32_t n_nodes = 1; n_nodes <= 3; n_nodes += 2)
        for (uint32_t wire = 0; wire < 2; wire++) {
            r_start(&k, n_nodes, 6, wire == 1, PMIWIRE_DESIGN_DKVS);
            connect_all();
            hears_value(0, 0, 0, NULL);
            for (uint32_t number = 0; number < 12; number++) {
                for (uint32_t r = 0; r < k.n; r++) {
                    snprintf(request, sizeof(request),
                             k.v2 ? "cmd=kvs-fence;fp-gather=%u-of-%0*u;"
                                  : "cmd=barrier_in fp-gather=%u-of-%0*u\n",
                             r, (int)(1 + 5 * r), number);
                    r_ask(&k, r, request);
                    if (r + 1 == k.n)
                        break;
                    r_run(&k);
                    assert_string_equal(r_hear(&k, r), "");
                    if (number > 0) { /* still those of the previous one */
                        snprintf(value, sizeof(value), "0-of-%u", number - 1);
                        hears_value(k.n - 1, number - 1, 0, value);
                    }
                }
                r_run(&k);
                all_hear(0);
                for (uint32_t r = 0; r < k.n; r++)
                    for (uint32_t of = 0; of < k.n; of++) {
                        snprintf(value, sizeof(value), "%u-of-%0*u", of, (int)(1 + 5 * of), number);
                        hears_value(r, number, of, value);
                    }
                hears_value(0, number, 6, NULL);
                hears_value(0, number + 1, 0, NULL);
                if (number > 0)
                    hears_value(0, number - 1, 0, NULL);
                hears_value(0, number * 10 + 0, 99, NULL);
            }
            r_stop(&k);
        }
}

/* ---- Allgather, whose values are taken ---- */

static struct {
    uint32_t n_calls, n_values, n_ends, number, longest;
    int rc; /* that the callback returns, at the end or before */
    bool at_end;
} taken[CL_NODES];

static int on_gather(void *ctx, const struct pmiwire_peer *job, uint32_t number, uint32_t longest,
                     const void *block, size_t bytes)
{
    const uint32_t me = cl_node(job)->id;
    struct pmiwire_keyval kv;
    size_t pos = 0, n = 0;
    uint32_t rank;

    taken[me].number = number;
    taken[me].longest = longest;
    if (!block) {
        assert_int_equal(bytes, 0);
        taken[me].n_ends++;
        assert_int_equal(
            pmiwire_server_advertise(k.cl.servers[me], 0, PMIWIRE_EXT_ARRAY, str("there")), 0);
        return taken[me].at_end ? taken[me].rc : 0;
    }
    taken[me].n_calls++;
    while (pmiwire_block_next(block, bytes, &pos, &kv) == 1) {
        assert_int_equal(kv.key.len, sizeof(rank));
        memcpy(&rank, kv.key.ptr, sizeof(rank));
        assert_int_equal(kv.value.len, 1 + rank % 10 * 90);
        for (size_t i = 0; i < kv.value.len; i++)
            assert_int_equal(kv.value.ptr[i], 'a' + (int)(rank % 26));
        n++;
    }
    taken[me].n_values += (uint32_t)n;
    return taken[me].at_end ? 0 : taken[me].rc;
}

static int on_gather_long(void *ctx, const struct pmiwire_peer *job, uint32_t number,
                          uint32_t longest, const void *block, size_t bytes)
{
    const uint32_t me = cl_node(job)->id;
    struct pmiwire_keyval kv;
    size_t pos = 0;

    assert_int_equal(number, 0);
    assert_int_equal(longest, 35000);
    taken[me].n_calls += block != NULL;
    while (block && pmiwire_block_next(block, bytes, &pos, &kv) == 1) {
        uint32_t rank;

        memcpy(&rank, kv.key.ptr, sizeof(rank));
        assert_int_equal(kv.value.len, 35000 - rank);
        taken[me].n_values++;
    }
    return 0;
}

static void gather_all(void)
{
    char text[1000];

    for (uint32_t r = 0; r < k.n; r++) {
        const int head = snprintf(text, sizeof(text), "cmd=barrier_in fp-gather=");
        const size_t len = 1 + r % 10 * 90;

        memset(text + head, 'a' + (int)(r % 26), len);
        snprintf(text + head + len, sizeof(text) - (size_t)head - len, "\n");
        r_ask(&k, r, text);
    }
    r_run(&k);
}

static void start_taking(uint32_t n_nodes, struct pmiwire_server_ops *ops)
{
    *ops = cl_ops;
    ops->gather = on_gather;
    memset(taken, 0, sizeof(taken));
    memset(k.conn, 0, sizeof(k.conn));
    k.n = 40;
    k.v2 = false;
    cl_start(&k.cl, n_nodes, k.n, CYCLIC, 0, NULL, ops);
    connect_all();
}

static void test_gather_taken(void **state)
{
    struct pmiwire_server_ops ops;

    for (uint32_t n_nodes = 1; n_nodes <= 4; n_nodes += 3) {
        start_taking(n_nodes, &ops);
        for (uint32_t number = 0; number < 3; number++) {
            gather_all();
            for (uint32_t i = 0; i < n_nodes; i++) {
                assert_int_equal(taken[i].n_values, k.n * (number + 1));
                assert_int_equal(taken[i].n_ends, number + 1);
                assert_int_equal(taken[i].number, number);
                assert_int_equal(taken[i].longest, 1 + 9 * 90);
            }
            for (uint32_t r = 0; r < k.n; r++)
                assert_string_equal(r_hear(&k, r), "cmd=barrier out rc=0 fp-array=there\n");
            hears_value(0, number, 1, NULL); /* the engine asks find(), which does not have it */
            all_enter(FENCE);                /* not an Allgather */
            for (uint32_t r = 0; r < k.n; r++)
                assert_string_equal(r_hear(&k, r), "cmd=barrier out rc=0\n");
        }
        r_stop(&k);
    }
}

/* An error of the callback, for a block or at the end, ends the exchange. */
static void test_gather_fails(void **state)
{
    struct pmiwire_server_ops ops;

    for (uint32_t at_end = 0; at_end < 2; at_end++) {
        start_taking(1, &ops);
        taken[0].rc = -ENOMEM;
        taken[0].at_end = at_end;
        gather_all();
        for (uint32_t r = 0; r < k.n; r++)
            assert_non_null(strstr(r_hear(&k, r), "rc=-1 msg=Cannot allocate memory"));
        assert_int_equal(k.cl.n_failed[0], 1);
        assert_int_equal(k.cl.failed_rc, -ENOMEM);
        r_enter(&k, 0, FENCE, 0, 0);
        assert_non_null(strstr(r_hear(&k, 0), "rc=-1 msg=Cannot allocate memory"));
        r_stop(&k);
    }
}

/* The callback leaves the values to the engine. */
static void test_gather_left(void **state)
{
    struct pmiwire_server_ops ops;
    char value[92];

    memset(value, 'b', 91);
    value[91] = '\0';
    for (uint32_t n_nodes = 1; n_nodes <= 4; n_nodes += 3) {
        start_taking(n_nodes, &ops);
        for (uint32_t number = 0; number < 3; number++) {
            for (uint32_t i = 0; i < n_nodes; i++)
                taken[i].rc = number != 1; /* the second is taken */
            gather_all();
            for (uint32_t r = 0; r < k.n; r++) {
                (void)r_hear(&k, r);
                hears_value(r, number, 1, number != 1 ? value : NULL);
            }
            assert_int_equal(taken[0].n_values, k.n * (number + 1));
        }
        r_stop(&k);
    }
}

/* Memory runs out while the engine keeps the values: the Allgather fails, and no value is found. */
static void test_gather_without_memory(void **state)
{
    uint32_t n_failed = 0;
    long fail_at = 0;
    bool done;

    do {
        struct heap heap = {0};
        const struct pmiwire_allocator a = {heap_realloc, heap_free, &heap};
        const struct pmiwire_server_opts opts = {.allocator = &a};

        memset(&k, 0, sizeof(k));
        k.n = 6;
        cl_start(&k.cl, 1, k.n, CYCLIC, 0, &opts, NULL);
        connect_all();
        heap.n_calls = 0;
        heap.fail_at = ++fail_at;
        gather_all();
        done = heap.n_calls < fail_at;
        for (uint32_t r = 0; r < k.n; r++) {
            const char *heard = r_hear(&k, r);

            if (r == 0 && strstr(heard, "rc=-1 msg=Cannot allocate memory")) {
                n_failed++;
                for (uint32_t of = 0; of < k.n; of++)
                    hears_value(r, 0, of, NULL);
            }
        }
        r_stop(&k);
        assert_int_equal(heap.n_live, 0);
    } while (!done && fail_at < 100);
    assert_true(done && n_failed > 1);
}

/* ---- a store elsewhere ---- */

static struct {
    struct {
        char key[32], value[64]; /* with its NUL */
        size_t len;
    } pairs[200];
    uint32_t n, n_puts, n_merged;
    int merge_rc;
} stores[CL_NODES];

static void store(uint32_t node, struct pmiwire_str key, struct pmiwire_str value)
{
    uint32_t i = 0;

    while (i < stores[node].n && (strlen(stores[node].pairs[i].key) != key.len ||
                                  memcmp(stores[node].pairs[i].key, key.ptr, key.len) != 0))
        i++;
    assert_true(i < 200 && key.len < 32 && value.len < 64);
    if (i == stores[node].n)
        stores[node].n++;
    snprintf(stores[node].pairs[i].key, 32, "%.*s", (int)key.len, key.ptr);
    memcpy(stores[node].pairs[i].value, value.ptr, value.len);
    stores[node].pairs[i].value[value.len] = '\0';
    stores[node].pairs[i].len = value.len;
}

static int on_put(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
                  struct pmiwire_str value)
{
    assert_int_equal(k.cl.w.node_of[who->rank], cl_node(who)->id);
    store(cl_node(who)->id, key, value);
    stores[cl_node(who)->id].n_puts++;
    return 0;
}

static int on_find(void *ctx, const struct pmiwire_peer *job, struct pmiwire_str key,
                   struct pmiwire_str *value)
{
    const uint32_t me = cl_node(job)->id;

    assert_int_equal(job->job, 0);
    assert_int_equal(job->rank, PMIWIRE_RANK_UNKNOWN);
    for (uint32_t i = 0; i < stores[me].n; i++)
        if (strlen(stores[me].pairs[i].key) == key.len &&
            memcmp(stores[me].pairs[i].key, key.ptr, key.len) == 0) {
            *value = (struct pmiwire_str){stores[me].pairs[i].value, stores[me].pairs[i].len};
            return 0;
        }
    return PMIWIRE_ENOENT;
}

static int on_merge(void *ctx, const struct pmiwire_peer *job, const void *block, size_t bytes)
{
    const uint32_t me = cl_node(job)->id;
    struct pmiwire_keyval kv;
    size_t pos = 0;

    while (pmiwire_block_next(block, bytes, &pos, &kv) == 1) {
        assert_true(kv.value.len > 0 && kv.value.ptr[kv.value.len - 1] == '\0');
        kv.value.len--;
        store(me, kv.key, kv.value);
        stores[me].n_merged++;
    }
    return stores[me].merge_rc;
}

static void start_storing(uint32_t n_nodes, uint32_t design, struct pmiwire_server_ops *ops)
{
    *ops = cl_ops;
    ops->put = on_put;
    ops->find = on_find;
    ops->merge = on_merge;
    memset(stores, 0, sizeof(stores));
    memset(k.conn, 0, sizeof(k.conn));
    k.n = 8;
    k.v2 = false;
    cl_start(&k.cl, n_nodes, k.n, CYCLIC, design, NULL, ops);
    connect_all();
}

static void test_store(void **state)
{
    struct pmiwire_server_ops ops;

    for (uint32_t n_nodes = 1; n_nodes <= 4; n_nodes++)
        for (uint32_t design = 0; design < 3; design += 2) {
            const char *heard;

            start_storing(n_nodes, design, &ops);
            for (uint32_t r = 0; r < k.n; r++)
                r_put(&k, r, 0, false);
            for (uint32_t r = 0; r < k.n; r++) /* SPARSE: on one node an ordinary pair */
                r_put(&k, r, 1, true);
            for (uint32_t r = 0; r < k.n; r++) /* DENSE already */
                r_put(&k, r, 0, true);
            for (uint32_t i = 0; i < n_nodes; i++) {
                const uint32_t here = k.n / n_nodes + (i < k.n % n_nodes);

                assert_int_equal(stores[i].n, n_nodes == 1 ? 2 * here : here);
                assert_int_equal(stores[i].n_puts, n_nodes == 1 ? 3 * here : 2 * here);
            }
            all_enter(FENCE);
            all_hear(0);
            for (uint32_t i = 0; i < n_nodes && n_nodes > 1; i++) {
                assert_int_equal(stores[i].n, k.n);
                assert_int_equal(stores[i].n_merged, 2 * k.n);
            }
            for (uint32_t r = 0; r < k.n; r++)
                for (uint32_t of = 0; of < k.n; of++)
                    for (uint32_t number = 0; number < 2; number++) {
                        r_enter(&k, r, GET, of, number);
                        r_run(&k);
                        heard = r_hear(&k, r);
                        if (!strstr(heard, number ? "value=v1\n" : "value=v0\n"))
                            fail_msg("%u nodes, design %u: rank %u gets \"%s\" of k%u.%u", n_nodes,
                                     design, r, heard, of, number);
                    }
            assert_int_equal(cl_stats(&k.cl, 0).n_fences, 1);
            r_stop(&k);
        }
}

/* A store's calls while it is asked and while it takes a Fence's pairs: it reports to all clients,
 * in the next answer to a Fence, that its table is no longer complete. */
static void advertise_end(const struct pmiwire_peer *job, const char *text)
{
    assert_int_equal(pmiwire_server_advertise(k.cl.servers[cl_node(job)->id], job->job,
                                              PMIWIRE_EXT_TABLE_END, str(text)),
                     0);
}

static int on_find_advertise(void *ctx, const struct pmiwire_peer *job, struct pmiwire_str key,
                             struct pmiwire_str *value)
{
    advertise_end(job, "asked");
    return on_find(ctx, job, key, value);
}

static int on_merge_advertise(void *ctx, const struct pmiwire_peer *job, const void *block,
                              size_t bytes)
{
    advertise_end(job, "given");
    return on_merge(ctx, job, block, bytes);
}

static void test_store_advertises(void **state)
{
    struct pmiwire_server_ops ops = cl_ops;

    ops.put = on_put;
    ops.find = on_find_advertise;
    ops.merge = on_merge_advertise;
    for (uint32_t n_nodes = 1; n_nodes <= 2; n_nodes++) {
        memset(stores, 0, sizeof(stores));
        memset(&k, 0, sizeof(k));
        k.n = 4;
        cl_start(&k.cl, n_nodes, k.n, CYCLIC, 0, NULL, &ops);
        connect_all();
        for (uint32_t round = 0; round < 2; round++) {
            r_put(&k, 0, 0, false);
            if (n_nodes == 1)
                (void)has(0, 0, 0);
            all_enter(FENCE);
            for (uint32_t r = 0; r < k.n; r++)
                assert_non_null(strstr(r_hear(&k, r),
                                       n_nodes == 1 ? "fp-table-end=asked" : "fp-table-end=given"));
            assert_true(has(k.n - 1, 0, 0));
        }
        r_stop(&k);
    }
}

static void test_merge_fails(void **state)
{
    struct pmiwire_server_ops ops;

    start_storing(2, 0, &ops);
    stores[1].merge_rc = -ENOMEM;
    r_put(&k, 0, 0, false);
    all_enter(FENCE);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(k.cl.n_failed[i], 1);
    assert_int_equal(k.cl.failed_rc, -ENOMEM);
    assert_int_equal(k.cl.failed_node, cl_number(1));
    for (uint32_t r = 1; r < k.n; r += 2)
        assert_non_null(strstr(r_hear(&k, r), "rc=-1 msg=Cannot allocate memory"));
    r_stop(&k);
}

/* ---- limits, time ---- */

/* The NUL behind rank 0's value becomes another byte in every frame to node 1 that has it. */
static uint32_t spoil(void)
{
    static const char had[] = "v0"; /* with its NUL */
    uint32_t n = 0;

    for (struct msg *m = k.cl.w.queues[0 * k.cl.w.n_nodes + 1].head; m; m = m->next)
        for (size_t i = 0; i + sizeof(had) <= m->bytes; i++)
            if (memcmp(m->data + i, had, sizeof(had)) == 0) {
                m->data[i + 2] = 'x';
                n++;
            }
    return n;
}

/* A node that is another program sends a value without the NUL that its readers rely on: the Fence
 * fails, and neither the launcher's store nor the engine's takes it. */
static void test_merge_without_nul(void **state)
{
    struct pmiwire_server_ops ops;
    struct pmiwire_str value;

    for (uint32_t elsewhere = 0; elsewhere < 2; elsewhere++) {
        uint32_t n = 0;

        if (elsewhere) {
            start_storing(2, 0, &ops);
        } else {
            memset(stores, 0, sizeof(stores));
            r_start(&k, 2, 8, false, 0);
            connect_all();
        }
        r_put(&k, 0, 0, false);
        for (uint32_t r = 0; r < k.n; r++)
            r_enter(&k, r, FENCE, 0, 0);
        do
            n += spoil();
        while (cl_step(&k.cl));
        assert_int_equal(n, 1);
        assert_int_equal(k.cl.n_failed[1], 1);
        assert_int_equal(k.cl.failed_rc, -EINVAL);
        assert_int_equal(k.cl.failed_node, cl_number(1));
        for (uint32_t r = 1; r < k.n; r += 2)
            assert_int_equal(r_rc(r_hear(&k, r)), -1);
        assert_int_equal(stores[1].n, 0);
        assert_int_equal(pmiwire_server_get(k.cl.servers[1], 0, str("k0.0"), &value),
                         PMIWIRE_ENOENT);
        r_stop(&k);
    }
}

/* A put that frames cannot carry is refused; on one node there are no frames. */
static void test_long_pairs(void **state)
{
    static char text[6000];
    struct pmiwire_server_opts opts = {.vallen_max = 5000, .keylen_max = 3000};
    struct pmiwire_str found;

    cl_frame_bytes = PMIWIRE_EXCHANGE_MIN_FRAME_BYTES;
    for (uint32_t n_nodes = 1; n_nodes <= 2; n_nodes++) {
        memset(&k, 0, sizeof(k));
        k.n = 2;
        cl_start(&k.cl, n_nodes, 2, CYCLIC, 0, &opts, NULL);
        connect_all();
        for (uint32_t i = 0; i < 4; i++) {
            /* with a NUL, a key of 1 byte and 192 more than 4,096; a key of 2,048 bytes */
            static const size_t values[] = {3902, 3903, 1, 1}, keys[] = {1, 1, 2047, 2048};
            int n = snprintf(text, sizeof(text), "cmd=put key=");

            memset(text + n, 'k', keys[i]);
            n += (int)keys[i];
            n += snprintf(text + n, sizeof(text) - (size_t)n, " value=");
            memset(text + n, 'v', values[i]);
            n += (int)values[i];
            snprintf(text + n, sizeof(text) - (size_t)n, "\n");
            r_say(&k, 0, text);
            assert_int_equal(r_rc(r_hear(&k, 0)), n_nodes == 1 || i % 2 == 0 ? 0 : i == 1 ? 7 : 5);
            /* A refused pair is not there. */
            assert_int_equal(
                pmiwire_server_get(k.cl.servers[0], 0,
                                   (struct pmiwire_str){text + strlen("cmd=put key="), keys[i]},
                                   &found) == 0 &&
                    found.len == values[i],
                n_nodes == 1 || i % 2 == 0);
        }
        r_stop(&k);
    }
    cl_frame_bytes = 0;
}

/* A launcher whose own store is full: the engine's takes over. */
static int on_put_engine(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
                         struct pmiwire_str value)
{
    return pmiwire_server_put(k.cl.servers[cl_node(who)->id], 0, key, value);
}

static int on_find_engine(void *ctx, const struct pmiwire_peer *job, struct pmiwire_str key,
                          struct pmiwire_str *value)
{
    return pmiwire_server_get(k.cl.servers[cl_node(job)->id], 0, key, value);
}

static int on_merge_engine(void *ctx, const struct pmiwire_peer *job, const void *block,
                           size_t bytes)
{
    return 1;
}

/* Rank r puts until one is refused; returns the number of accepted puts. *heard is the refusal. */
static uint32_t fill(uint32_t r, const char **heard)
{
    for (uint32_t n = 0;; n++) {
        char text[100];

        assert_true(n < 20000);
        snprintf(text, sizeof(text),
                 k.v2 ? "cmd=kvs-put;key=k%u.%u;value=v%u;" : "cmd=put key=k%u.%u value=v%u\n", r,
                 n, n);
        r_ask(&k, r, text);
        *heard = r_hear(&k, r);
        if (r_rc(*heard) != 0)
            return n;
    }
}

static void start_limited(uint32_t n_nodes, bool v2, size_t max_kvs_bytes, bool elsewhere,
                          uint32_t design)
{
    struct pmiwire_server_opts opts = {.max_kvs_bytes = max_kvs_bytes};
    struct pmiwire_server_ops ops = cl_ops;

    if (elsewhere) {
        ops.put = on_put_engine;
        ops.find = on_find_engine;
        ops.merge = on_merge_engine;
    }
    memset(k.conn, 0, sizeof(k.conn));
    k.n = 2;
    k.v2 = v2;
    cl_start(&k.cl, n_nodes, k.n, CYCLIC, design, &opts, &ops);
    connect_all();
}

/* A Put beyond the store's limit fails with the limit's name, and the Fence brings the accepted
 * pairs, which are more than one node may put. */
static void test_kvs_limit(void **state)
{
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t n_nodes = 1 + i % 2;
        const char *heard;
        uint32_t n[2];

        start_limited(n_nodes, i & 2, 1000, i & 4, 0);
        for (uint32_t r = 0; r < 2; r++) {
            n[r] = fill(r, &heard);
            assert_non_null(strstr(
                heard, k.v2
                           ? "errmsg=no room for this pair: the limit max_kvs_bytes is 1000 bytes;"
                           : "msg=no room for this pair: the limit max kvs bytes is 1000 bytes\n"));
        }
        assert_in_range(n[0], 10, 20);
        assert_in_range(n[1], n_nodes == 1 ? 0 : 10, n_nodes == 1 ? 0 : 20);
        for (uint32_t again = 0; again < 2; again++) {
            all_enter(FENCE);
            all_hear(0);
            for (uint32_t r = 0; r < 2; r++)
                for (uint32_t of = 0; of < 2; of++)
                    for (uint32_t number = 0; number <= n[of]; number++)
                        assert_int_equal(has(r, of, number), number < n[of]);
        }
        assert_int_equal(k.cl.n_failed[0] + k.cl.n_failed[1], 0);
        r_stop(&k);
    }
}

/* Likewise for the limit on the exchange's pairs for the next Fence, which brings two nodes'
 * pairs. */
static void test_exchange_limit(void **state)
{
    cl_frame_bytes = PMIWIRE_EXCHANGE_MIN_FRAME_BYTES;
    cl_exchange_bytes = 20000;
    for (uint32_t i = 0; i < 12; i++) {
        const char *heard;
        uint32_t n[2];

        start_limited(2, i & 1, 0, i & 2, i / 4);
        for (uint32_t again = 0; again < 2; again++) {
            for (uint32_t r = 0; r < 2; r++) {
                n[r] = fill(r, &heard);
                assert_in_range(n[r], 100, 10000);
                assert_non_null(
                    strstr(heard, k.v2 ? "pair: the limit max_exchange_bytes is 20000 bytes;"
                                       : "pair: the limit max exchange bytes is 20000 bytes\n"));
            }
            all_enter(FENCE);
            all_hear(0);
            for (uint32_t r = 0; r < 2; r++)
                for (uint32_t of = 0; of < 2; of++)
                    for (uint32_t number = 0; number <= n[of]; number++)
                        assert_int_equal(has(r, of, number), number < n[of]);
        }
        assert_int_equal(k.cl.n_failed[0] + k.cl.n_failed[1], 0);
        r_stop(&k);
    }
    cl_frame_bytes = 0;
    cl_exchange_bytes = 0;
}

/* ---- puts that the exchange refuses ---- */

static bool is_stored(const char *key)
{
    struct pmiwire_str found;

    return pmiwire_server_get(k.cl.servers[0], 0, str(key), &found) == 0;
}

/* The launcher's put is not stored if the exchange refuses it. */
static void test_refused_server_put(void **state)
{
    static char text[PMIWIRE_EXCHANGE_MIN_FRAME_BYTES];
    const struct pmiwire_server_opts opts = {.vallen_max = sizeof(text) + 1};
    char key[16];
    int rc;

    memset(text, 'v', sizeof(text) - 1);
    cl_frame_bytes = PMIWIRE_EXCHANGE_MIN_FRAME_BYTES;
    cl_exchange_bytes = 20000;
    memset(&k, 0, sizeof(k));
    k.n = 2;
    cl_start(&k.cl, 2, k.n, CYCLIC, 0, &opts, NULL);
    cl_frame_bytes = 0;
    cl_exchange_bytes = 0;
    /* frames cannot carry it */
    assert_int_equal(pmiwire_server_put(k.cl.servers[0], 0, str("long"), str(text)),
                     PMIWIRE_EVALLEN);
    assert_false(is_stored("long"));
    /* max_exchange_bytes */
    for (uint32_t i = 0;; i++) {
        assert_true(i < 20000);
        snprintf(key, sizeof(key), "k%u", i);
        rc = pmiwire_server_put(k.cl.servers[0], 0, str(key), str("value"));
        assert_true(is_stored(key) == (rc == 0));
        if (rc != 0)
            break;
    }
    assert_int_equal(rc, -ENOMEM);
    /* the exchange has failed */
    assert_int_equal(pmiwire_server_node_lost(k.cl.servers[0], 0, cl_number(1)), 0);
    assert_int_equal(pmiwire_server_put(k.cl.servers[0], 0, str("late"), str("value")),
                     PMIWIRE_ELOST);
    assert_false(is_stored("late"));
    r_stop(&k);
}

/* On one node frames limit a pair only while a Get waits; what is refused then is not stored. */
static void test_long_pair_and_a_wait(void **state)
{
    static char text[PMIWIRE_EXCHANGE_MIN_FRAME_BYTES];
    const struct pmiwire_server_opts opts = {.vallen_max = sizeof(text) + 1};

    memset(text, 'v', sizeof(text) - 1);
    cl_frame_bytes = PMIWIRE_EXCHANGE_MIN_FRAME_BYTES;
    memset(&k, 0, sizeof(k));
    k.n = 2;
    cl_start(&k.cl, 1, k.n, CYCLIC, 0, &opts, NULL);
    cl_frame_bytes = 0;
    connect_all();
    r_enter(&k, 1, GET, 0, 0);
    assert_int_equal(pmiwire_server_put(k.cl.servers[0], 0, str("k0.0"), str(text)),
                     PMIWIRE_EVALLEN);
    assert_false(is_stored("k0.0"));
    assert_int_equal(pmiwire_server_put(k.cl.servers[0], 0, str("k0.0"), str("v")), 0);
    assert_string_equal(r_hear(&k, 1), "cmd=get result rc=0 value=v\n");
    assert_int_equal(pmiwire_server_put(k.cl.servers[0], 0, str("long"), str(text)), 0);
    r_stop(&k);
}

/* Each allocation of a put fails in turn: a put that is refused is not stored. */
static void test_put_without_memory(void **state)
{
    static char request[1000];
    uint32_t n_refused = 0;
    long fail_at = 0;
    bool done;

    snprintf(request, sizeof(request), "cmd=put key=k value=%0500d\n", 1);
    do {
        struct heap heap = {0};
        const struct pmiwire_allocator a = {heap_realloc, heap_free, &heap};
        const struct pmiwire_server_opts opts = {.allocator = &a};

        memset(&k, 0, sizeof(k));
        k.n = 2;
        cl_start(&k.cl, 2, k.n, CYCLIC, 0, &opts, NULL);
        connect_all();
        r_say(&k, 0, "cmd=put\n"); /* the output grows to hold an error */
        (void)r_hear(&k, 0);
        heap.n_calls = 0;
        heap.fail_at = ++fail_at;
        r_say(&k, 0, request);
        done = heap.n_calls < fail_at;
        assert_true(is_stored("k") == (r_rc(r_hear(&k, 0)) == 0));
        n_refused += !is_stored("k");
        r_stop(&k);
        assert_int_equal(heap.n_live, 0);
    } while (!done && fail_at < 100);
    assert_true(done && n_refused > 2);
}

/* A full link: the Fence waits for it, and other requests do not. */
static bool enough;
static uint32_t n_sent;

static int send_enough(void *ctx, const struct pmiwire_peer *job, uint32_t node,
                       const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    n_sent++;
    return cl_send(ctx, job, node, iov, n_iov, bytes) | enough;
}

static void test_link_ready(void **state)
{
    struct pmiwire_server_ops ops = cl_ops;
    uint32_t n;

    ops.send = send_enough;
    memset(&k, 0, sizeof(k));
    k.n = 2;
    cl_frame_bytes = PMIWIRE_EXCHANGE_MIN_FRAME_BYTES;
    cl_start(&k.cl, 2, 2, CYCLIC, 0, NULL, &ops);
    cl_frame_bytes = 0;
    connect_all();
    enough = true;
    n_sent = 0;
    for (uint32_t i = 0; i < 2000; i++)
        r_put(&k, 0, i * i, false);
    all_enter(FENCE);
    n = n_sent;
    assert_in_range(n, 1, 3); /* not all of them */
    assert_string_equal(r_hear(&k, 0), "");
    assert_int_equal(pmiwire_server_link_ready(k.cl.servers[0], 0, cl_number(1)), 0);
    r_run(&k);
    assert_in_range(n_sent, n + 1, n + 2);
    enough = false;
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(pmiwire_server_link_ready(k.cl.servers[i], 0, cl_number(1 - i)), 0);
    r_run(&k);
    all_hear(0);
    assert_true(n_sent > 4);
    r_enter(&k, 1, GET, 0, 1999 * 1999);
    assert_non_null(strstr(r_hear(&k, 1), "value=v3996001\n"));
    r_stop(&k);
}

/* More than a block: gather() is called several times. */
static void test_gather_blocks(void **state)
{
    const struct pmiwire_server_opts opts = {.vallen_max = 40000};
    static char text[40000];
    struct pmiwire_server_ops ops = cl_ops;

    ops.gather = on_gather_long;
    for (uint32_t n_nodes = 1; n_nodes <= 3; n_nodes += 2) {
        memset(&k, 0, sizeof(k));
        memset(taken, 0, sizeof(taken));
        k.n = 60;
        cl_start(&k.cl, n_nodes, k.n, BLOCK, 0, &opts, &ops);
        connect_all();
        for (uint32_t r = 0; r < k.n; r++) {
            const int head = snprintf(text, sizeof(text), "cmd=barrier_in fp-gather=");
            const size_t len = 35000 - r;

            memset(text + head, 'x', len);
            snprintf(text + head + len, sizeof(text) - (size_t)head - len, "\n");
            r_say(&k, r, text);
        }
        r_run(&k);
        all_hear(0);
        for (uint32_t i = 0; i < n_nodes; i++) {
            assert_true(taken[i].n_calls > 1);
            assert_int_equal(taken[i].n_values, k.n);
        }
        r_stop(&k);
    }
}

static void test_wait_ns(void **state)
{
    const struct pmiwire_server_opts opts = {.wait_ns = 1200000000};

    for (uint32_t n_nodes = 1; n_nodes <= 3; n_nodes += 2) {
        memset(&k, 0, sizeof(k));
        k.n = 6;
        cl_start(&k.cl, n_nodes, 6, CYCLIC, 0, &opts, NULL);
        connect_all();
        r_enter(&k, 0, GET, 1, 0);
        for (uint32_t i = 0; i < 3; i++) {
            assert_string_equal(r_hear(&k, 0), "");
            cl_tick(&k.cl);
            r_run(&k);
        }
        cl_tick(&k.cl);
        r_run(&k);
        assert_string_equal(r_hear(&k, 0), "cmd=get result rc=14 msg=no answer within the time "
                                           "given value=unknown\n");
        r_stop(&k);
    }
}

/* A job is removed by a callback of its own exchange, as its last connections close. */
static void on_stuck_end(void *ctx, const struct pmiwire_peer *who, uint32_t coll, uint32_t why)
{
    const uint32_t me = cl_node(who)->id;

    (void)ctx, (void)coll, (void)why;
    for (uint32_t r = 0; r < k.n; r++)
        if (k.conn[r] && k.cl.w.node_of[r] == me) {
            pmiwire_conn_close(k.conn[r]);
            k.conn[r] = NULL;
        }
    assert_int_equal(pmiwire_server_job_remove(k.cl.servers[me], 0), 0);
    assert_null(pmiwire_server_exchange(k.cl.servers[me], 0));
}

static void test_removed_inside(void **state)
{
    struct pmiwire_server_ops ops = cl_ops;

    ops.stuck = on_stuck_end;
    for (uint32_t n_nodes = 1; n_nodes <= 2; n_nodes++)
        for (enum what what = FENCE; what <= GROUP; what++) {
            if (what == GET || what == GET_NAMED)
                continue;
            memset(&k, 0, sizeof(k));
            k.n = 6;
            cl_start(&k.cl, n_nodes, 6, CYCLIC, 0, NULL, &ops);
            connect_all();
            for (uint32_t r = 0; r < 5; r++)
                if (what != GROUP || r == 2 || r == 3)
                    r_enter(&k, r, what, r + 2, 0);
            r_ask(&k, 5, "cmd=finalize\n");
            if (what == GROUP && k.conn[4])
                r_ask(&k, 4, "cmd=finalize\n");
            for (uint32_t i = what == GROUP ? 0 : n_nodes - 1; i < n_nodes; i++)
                assert_null(pmiwire_server_exchange(k.cl.servers[i], 0));
            cl_stop(&k.cl);
        }
}

/* A group that spans nodes is refused. */
static void test_groups_of_other_nodes(void **state)
{
    r_start(&k, 2, 6, false, 0);
    connect_all();
    for (uint32_t i = 0; i < 2; i++) {
        r_ask(&k, 0, i ? "cmd=barrier_in group=WORLD:w\n" : "cmd=barrier_in group=0,1:w\n");
        assert_string_equal(r_hear(&k, 0), "cmd=barrier out rc=-1 msg=group spans several nodes\n");
    }
    r_ask(&k, 0, "cmd=barrier_in group=NODE:w\n");
    r_ask(&k, 2, "cmd=barrier_in group=4,2,0:w\n");
    assert_string_equal(r_hear(&k, 0), "");
    r_ask(&k, 4, "cmd=barrier_in group=NODE:w\n");
    for (uint32_t r = 0; r < 6; r += 2)
        assert_string_equal(r_hear(&k, r), "cmd=barrier out rc=0 tag=w\n");
    r_stop(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allgather),
        cmocka_unit_test(test_gather_taken),
        cmocka_unit_test(test_gather_fails),
        cmocka_unit_test(test_gather_left),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_merge_fails),
        cmocka_unit_test(test_merge_without_nul),
        cmocka_unit_test(test_store_advertises),
        cmocka_unit_test(test_gather_without_memory),
        cmocka_unit_test(test_long_pairs),
        cmocka_unit_test(test_kvs_limit),
        cmocka_unit_test(test_exchange_limit),
        cmocka_unit_test(test_wait_ns),
        cmocka_unit_test(test_refused_server_put),
        cmocka_unit_test(test_long_pair_and_a_wait),
        cmocka_unit_test(test_put_without_memory),
        cmocka_unit_test(test_link_ready),
        cmocka_unit_test(test_gather_blocks),
        cmocka_unit_test(test_removed_inside),
        cmocka_unit_test(test_groups_of_other_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
