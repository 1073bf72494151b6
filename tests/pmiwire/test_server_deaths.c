/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks with random requests and random ends, on servers whose frames arrive in any order. A model
 * knows the collectives that each rank has entered. Every answer must be true; and once all frames
 * have arrived and the servers have ticked, no rank waits for what is impossible, or for what has
 * happened.
 */
#include "server_ranks.h"

enum { MOST_RANKS = 12, N_COLLS = 3 };

static struct ranks k;
static uint32_t (*rnd)(struct world *, uint32_t) = w_random;

static struct rank {
    bool gone;
    bool waits;
    enum what what;
    uint32_t number;           /* of the collective, from 1; of the key */
    uint32_t other;            /* the key's rank, or the other one of the group */
    uint32_t entered[N_COLLS]; /* the last number */
    uint32_t done[N_COLLS];    /* completed */
    uint32_t met[MOST_RANKS];  /* barriers of groups with each other rank that it has entered */
    uint32_t met_done[MOST_RANKS];
    uint32_t n_puts;
} ranks[MOST_RANKS];
static bool sparse, attr_put[CL_NODES];
static enum what common;
static uint64_t n_completed[N_WHATS], n_impossible[N_WHATS];

static bool same_node(uint32_t a, uint32_t b)
{
    return k.cl.w.node_of[a] == k.cl.w.node_of[b];
}

/* Is another rank left? `here`: on this rank's node. */
static bool others_left(uint32_t r, bool here)
{
    for (uint32_t q = 0; q < k.n; q++)
        if (q != r && !ranks[q].gone && (!here || same_node(q, r)))
            return true;
    return false;
}

/* Does a rank's ring need that node's ranks? Those of its own node and of the two beside it. */
static bool is_near(uint32_t r, uint32_t q)
{
    const uint32_t n = k.cl.w.n_nodes, a = k.cl.w.node_of[r], b = k.cl.w.node_of[q];

    return a == b || (a + 1) % n == b || (b + 1) % n == a;
}

/* The rank's wait can end. */
static bool is_complete(uint32_t r)
{
    const struct rank *me = &ranks[r];

    switch (me->what) {
    case FENCE:
    case GATHER:
    case RING:
        for (uint32_t q = 0; q < k.n; q++)
            if (ranks[q].entered[me->what] < me->number && (me->what != RING || is_near(r, q)))
                return false;
        return true;
    case GROUP: return ranks[me->other].met[r] >= me->number;
    case NODEATTR: return attr_put[k.cl.w.node_of[r]];
    case GET_NAMED:
    case GET:
    default: return ranks[me->other].n_puts > me->number;
    }
}

/* Has its key been put where this rank may never see it? A DENSE one that no Fence has brought. */
static bool may_be_lost(uint32_t r)
{
    return !sparse && k.cl.w.n_nodes > 1 && !same_node(r, ranks[r].other);
}

/* The rank's wait can never end. */
static bool is_impossible(uint32_t r)
{
    const struct rank *me = &ranks[r];

    switch (me->what) {
    case FENCE:
    case GATHER:
    case RING:
        for (uint32_t q = 0; q < k.n; q++)
            if (ranks[q].gone && ranks[q].entered[me->what] < me->number)
                return true;
        return false;
    case GROUP: return ranks[me->other].gone && ranks[me->other].met[r] < me->number;
    case NODEATTR: return !is_complete(r) && !others_left(r, true);
    case GET_NAMED: return ranks[me->other].gone && (!is_complete(r) || may_be_lost(r));
    case GET:
    default: return (!is_complete(r) || may_be_lost(r)) && !others_left(r, false);
    }
}

static void wrong(uint32_t r, const char *heard)
{
    fail_msg("rank %u of %u on %u nodes, seed at work: what %d number %u other %u hears \"%s\"", r,
             k.n, k.cl.w.n_nodes, (int)ranks[r].what, ranks[r].number, ranks[r].other, heard);
}

/* Reads the answers so far, and checks them. */
static void listen(void)
{
    for (uint32_t r = 0; r < k.n; r++) {
        struct rank *me = &ranks[r];
        const char *heard;

        if (!me->waits || !k.conn[r])
            continue;
        heard = r_hear(&k, r);
        if (!heard[0])
            continue;
        me->waits = false;
        if (r_rc(heard) == 0) {
            if (!is_complete(r))
                wrong(r, heard);
            n_completed[me->what]++;
            if (me->what <= RING)
                me->done[me->what] = me->number;
            if (me->what == GROUP)
                me->met_done[me->other] = me->number;
        } else {
            if (r_rc(heard) != 14 || !strstr(heard, "rank") || !is_impossible(r))
                wrong(r, heard);
            n_impossible[me->what]++;
        }
    }
}

static void enter(uint32_t r)
{
    struct rank *me = &ranks[r];

    /* Most ranks take part in the common collectives. */
    me->what = rnd(&k.cl.w, 5) ? common : (enum what)rnd(&k.cl.w, N_WHATS);
    me->other = (r + 1 + rnd(&k.cl.w, k.n - 1)) % k.n;
    if (me->what == GROUP && rnd(&k.cl.w, 2)) /* the same two more often */
        me->other = r / k.cl.w.n_nodes % 2 ? r - k.cl.w.n_nodes : (r + k.cl.w.n_nodes) % k.n;
    if (me->what == GET && k.cl.w.n_nodes > 1 && rnd(&k.cl.w, 4))
        me->what = GET_NAMED;
    switch (me->what) {
    case FENCE:
    case GATHER:
    case RING:
        me->number = me->done[me->what] + 1;
        me->entered[me->what] = me->number;
        break;
    case GROUP:
        if (!same_node(r, me->other))
            return;
        me->number = me->met_done[me->other] + 1;
        me->met[me->other] = me->number;
        break;
    case NODEATTR:
        if (attr_put[k.cl.w.node_of[r]] && rnd(&k.cl.w, 4))
            return;
        break;
    case GET:
    case GET_NAMED:
    default: me->number = rnd(&k.cl.w, ranks[me->other].n_puts + 2); break;
    }
    me->waits = true;
    r_enter(&k, r, me->what, me->other, me->number);
}

static void go(uint32_t r)
{
    static const enum way inside[] = {CLOSES, TOO_BIG, ENDS};
    static const enum way outside[] = {CLOSES, TOO_BIG, ENDS, FINALIZES};
    const enum way way = ranks[r].waits ? inside[rnd(&k.cl.w, 3)] : outside[rnd(&k.cl.w, 4)];

    listen();
    ranks[r].gone = true;
    ranks[r].waits = false;
    r_go(&k, r, way);
    if (way == ENDS && k.conn[r]) /* as a launcher does then */
        pmiwire_conn_close(k.conn[r]);
    k.conn[r] = NULL;
}

static void step(uint32_t death)
{
    const uint32_t r = rnd(&k.cl.w, k.n);
    const uint32_t what = rnd(&k.cl.w, 100);

    if (what < 40) {
        (void)cl_step(&k.cl);
    } else if (what < 42) {
        cl_tick(&k.cl);
    } else if (!ranks[r].gone && rnd(&k.cl.w, death) == 0) {
        go(r);
    } else if (!ranks[r].gone && !ranks[r].waits) {
        if (what < 60) {
            r_put(&k, r, ranks[r].n_puts++, sparse);
        } else if (what == 60) {
            attr_put[k.cl.w.node_of[r]] = true;
            r_ask(&k, r, "cmd=info-putnodeattr;key=k;value=v;");
            assert_int_equal(r_rc(r_hear(&k, r)), 0);
        } else {
            enter(r);
        }
    }
    listen();
}

/* All frames have come, one tick later collectives must be right, and a few later Gets. */
static void settle(void)
{
    for (uint32_t t = 0; t < 5; t++) {
        r_run(&k);
        cl_tick(&k.cl);
        r_run(&k);
        listen();
        for (uint32_t r = 0; r < k.n; r++) {
            const bool get = ranks[r].what == GET || ranks[r].what == GET_NAMED;

            if (!ranks[r].waits || (get && t < 4))
                continue;
            if (is_impossible(r) || (is_complete(r) && !(get && may_be_lost(r))))
                wrong(r, "nothing");
        }
    }
}

static void one_job(uint64_t seed)
{
    static const uint32_t designs[] = {PMIWIRE_DESIGN_DKVS, PMIWIRE_DESIGN_TREE};
    const uint32_t n_nodes = 1 + (uint32_t)(seed % CL_NODES);
    const uint32_t n = 2 * n_nodes + (uint32_t)(seed / 4 % (MOST_RANKS - 2 * n_nodes + 1));
    const uint32_t death = seed % 3 == 0 ? 400 : seed % 3 == 1 ? 60 : 15;

    memset(ranks, 0, sizeof(ranks));
    memset(attr_put, 0, sizeof(attr_put));
    sparse = n_nodes == 1 || seed / 2 % 2;
    r_start(&k, n_nodes, n, seed % 2 == 0, designs[seed / 8 % 2]);
    k.cl.w.rng = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (uint32_t r = 0; r < n; r++) {
        r_connect(&k, r);
        r_init(&k, r);
    }
    for (uint32_t round = 0; round < 6; round++) {
        for (uint32_t i = 0; i < 120; i++) {
            if (i % 40 == 0)
                common = rnd(&k.cl.w, N_COLLS);
            step(death);
        }
        settle();
    }
    for (uint32_t i = 0; i < n_nodes; i++)
        for (uint32_t coll = 0; coll < PMIWIRE_COLL_COUNT_; coll++)
            assert_in_range(k.cl.stuck[i].n[coll], 0, 1);
    r_stop(&k);
}

static void test_deaths(void **state)
{
    for (uint64_t seed = 1; seed <= 2000; seed++)
        one_job(seed);
    for (uint32_t what = 0; what < N_WHATS; what++) {
        printf("%u: %llu completed, %llu impossible\n", what, (unsigned long long)n_completed[what],
               (unsigned long long)n_impossible[what]);
        assert_true(n_completed[what] > 50 && n_impossible[what] > 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_deaths)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
