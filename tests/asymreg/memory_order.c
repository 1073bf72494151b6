/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocols of the index, the published table, bound handles, epochs and drain, checked
 * exhaustively under a weak memory model: C11's, which x86's, Arm's and RISC-V's are at least as
 * strong as.
 *
 * The model. A location keeps its stores in modification order. A thread has a view: for each
 * location, the oldest store that it may still load. A load returns any store from there on, and
 * moves the view to it. A store carries a view: with release that of its thread, else that of the
 * thread's last release fence, and that of the store before it if that is the thread's too (a
 * release sequence). An acquire load takes over the view of the store that it returns; an acquire
 * fence those of the loads before it. A seq_cst fence does both, and all of them share one view: of
 * two threads that store, fence and load, the later one sees the other's store. A seq_cst access
 * counts as acquire and release alone, which is less than C11 says. membarrier() is a fence in each
 * thread, at any point of it. Every interleaving and every choice of every load are tried.
 *
 * A load never returns a store that is made later. Hardware may move a store before a load of the
 * same thread. That could break only memory that is reused too early; there the check demands more:
 * the last use happens-before the next (E_READ, D_USER).
 *
 * Then each release, acquire and fence is weakened in turn, and stores are swapped: each time the
 * check must fail. A check that still passes would mean an order that the protocol does not need,
 * or a blind model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LOCATIONS 64
#define MAX_STORES    24 /* of one location */
#define MAX_CHOICES   256

enum { RELAXED, ACQUIRE, RELEASE = ACQUIRE };

/* What may be weakened. */
enum mutant {
    NONE,
    ROOT_RELAXED,
    ROOT_LOAD_RELAXED,
    LEAF_FILLED_LATE,
    FIELDS_RELAXED,
    FIELDS_LOAD_RELAXED,
    BEGIN_RELAXED,
    BEGIN_LOAD_RELAXED,
    END_BEHIND_TREE,
    BEGIN_BEFORE_TREE,
    SECOND_LOOK_OMITTED,
    LAST_HIT_UNCHECKED,
    N_INDEX,
    LEAF_ODD_OMITTED = N_INDEX,
    LEAF_EVEN_EARLY,
    LEAF_LOOK_OMITTED,
    COPY_RELAXED,
    SLOT_RELAXED,
    HEAD_LATE,
    HEAD_LOOK_OMITTED,
    RECORD_RELAXED,
    RECORD_LATE,
    TAIL_RELAXED,
    N_TABLE,
    RETIRED_EARLY = N_TABLE,
    RETIRED_RELAXED,
    RETIRED_LOAD_RELAXED,
    RETIRE_FENCE_OMITTED,
    CHECK_FENCE_OMITTED,
    N_BOUND,
    EPOCH_BARRIER_OMITTED = N_BOUND,
    EPOCH_RELAXED,
    EPOCH_LOAD_RELAXED,
    READER_EXIT_RELAXED,
    READERS_LOAD_RELAXED,
    ANNOUNCED_BY_EXCHANGE,
    N_EPOCHS,
    DRAIN_BARRIER_OMITTED = N_EPOCHS,
    RETRACT_RELAXED,
    BUSY_LOAD_RELAXED,
    BUSY_BY_EXCHANGE,
    N_MUTANTS
};

static const char *const mutant_names[N_MUTANTS] = {
    [ROOT_RELAXED] = "root stored relaxed",
    [ROOT_LOAD_RELAXED] = "root loaded relaxed",
    [LEAF_FILLED_LATE] = "node linked before it is filled",
    [FIELDS_RELAXED] = "a slot's fields stored relaxed",
    [FIELDS_LOAD_RELAXED] = "a slot's fields loaded relaxed",
    [BEGIN_RELAXED] = "a region's generation stored relaxed",
    [BEGIN_LOAD_RELAXED] = "a region's generation loaded relaxed",
    [END_BEHIND_TREE] = "region unlinked before its generation ends",
    [BEGIN_BEFORE_TREE] = "slot written before it is linked",
    [SECOND_LOOK_OMITTED] = "generation not looked at again",
    [LAST_HIT_UNCHECKED] = "last hit used without a look at its generation",
    [LEAF_ODD_OMITTED] = "leaf's generation not odd while a slot changes",
    [LEAF_EVEN_EARLY] = "leaf's generation even before the slot is written",
    [LEAF_LOOK_OMITTED] = "leaf's generation not looked at again",
    [COPY_RELAXED] = "leaf copied by relaxed loads",
    [SLOT_RELAXED] = "published slot stored relaxed",
    [HEAD_LATE] = "log's head moved after its record is overwritten",
    [HEAD_LOOK_OMITTED] = "log's head not looked at again",
    [RECORD_RELAXED] = "record stored relaxed over an older one",
    [RECORD_LATE] = "log's tail moved before the record is there",
    [TAIL_RELAXED] = "log's tail stored relaxed",
    [RETIRED_EARLY] = "count of what has gone stored before the slot",
    [RETIRED_RELAXED] = "count of what has gone stored relaxed",
    [RETIRED_LOAD_RELAXED] = "count of what has gone loaded relaxed",
    [RETIRE_FENCE_OMITTED] = "no fence before the memory is used again",
    [CHECK_FENCE_OMITTED] = "no fence between a get's loads and its check",
    [EPOCH_BARRIER_OMITTED] = "no barrier before readers are looked at",
    [EPOCH_RELAXED] = "epoch stored relaxed",
    [EPOCH_LOAD_RELAXED] = "epoch loaded relaxed",
    [READER_EXIT_RELAXED] = "end of a search stored relaxed",
    [READERS_LOAD_RELAXED] = "a reader's epoch loaded relaxed",
    [ANNOUNCED_BY_EXCHANGE] = "search announced by an exchange, no fence",
    [DRAIN_BARRIER_OMITTED] = "no barrier before operations are looked at",
    [RETRACT_RELAXED] = "end of an operation stored relaxed",
    [BUSY_LOAD_RELAXED] = "an operation's number loaded relaxed",
    [BUSY_BY_EXCHANGE] = "operation announced by an exchange, no fence",
};

static enum mutant mutant;
static const char *wrong;

static void fail(const char *what)
{
    if (!wrong)
        wrong = what;
}

/* ------------------------------------------------------------------ choices */

static int choices[MAX_CHOICES], n_choices[MAX_CHOICES], depth;

static int choose(int n)
{
    if (n < 1 || depth == MAX_CHOICES)
        abort();
    n_choices[depth] = n;
    return n == 1 ? 0 : choices[depth++];
}

/* The next combination of choices; 0 when all have been tried. */
static int next_run(void)
{
    while (depth > 0 && choices[depth - 1] + 1 >= n_choices[depth - 1])
        choices[--depth] = 0;
    if (depth == 0)
        return 0;
    choices[depth - 1]++;
    depth = 0;
    return 1;
}

/* ------------------------------------------------------------------ memory */

struct view {
    unsigned char at[MAX_LOCATIONS];
};

struct thread;
static struct {
    int value;
    struct view view;
    const struct thread *by;
} memory[MAX_LOCATIONS][MAX_STORES];
static int n_stores[MAX_LOCATIONS], n_locations;
static struct view sc_view; /* of the last seq_cst fence */

struct thread {
    struct view now, loaded, released; /* loaded: of all stores that it has loaded */
    int pc, reg[4], ended;
};

static struct thread owner, peer;

/* Adds this many locations, all 0. */
static void forget(int n)
{
    n_locations = n;
    for (int i = 0; i < n; i++)
        n_stores[i] = 1;
    memset(&sc_view, 0, sizeof(sc_view));
    memset(&owner, 0, sizeof(owner));
    memset(&peer, 0, sizeof(peer));
}

static void join(struct view *to, const struct view *from)
{
    for (int i = 0; i < n_locations; i++)
        if (to->at[i] < from->at[i])
            to->at[i] = from->at[i];
}

static void store(struct thread *t, int location, int value, int order)
{
    int n = n_stores[location]++;

    if (n == MAX_STORES)
        abort();
    t->now.at[location] = (unsigned char)n;
    memory[location][n].value = value;
    memory[location][n].by = t;
    memory[location][n].view = order == RELEASE ? t->now : t->released;
    memory[location][n].view.at[location] = (unsigned char)n;
    if (memory[location][n - 1].by == t) /* a release sequence */
        join(&memory[location][n].view, &memory[location][n - 1].view);
}

static int take(struct thread *t, int location, int which, int order)
{
    t->now.at[location] = (unsigned char)which;
    join(&t->loaded, &memory[location][which].view);
    if (order == ACQUIRE)
        join(&t->now, &memory[location][which].view);
    return memory[location][which].value;
}

static int load(struct thread *t, int location, int order)
{
    int oldest = t->now.at[location];

    return take(t, location, oldest + choose(n_stores[location] - oldest), order);
}

/* Loads until the value changes. Whether some store is: */
static int can_await(const struct thread *t, int location, int value)
{
    for (int i = t->now.at[location]; i < n_stores[location]; i++)
        if (memory[location][i].value != value)
            return 1;
    return 0;
}

static void await(struct thread *t, int location, int value, int order)
{
    int which[MAX_STORES], n = 0;

    for (int i = t->now.at[location]; i < n_stores[location]; i++)
        if (memory[location][i].value != value)
            which[n++] = i;
    (void)take(t, location, which[choose(n)], order);
}

static void fence_acquire(struct thread *t)
{
    join(&t->now, &t->loaded);
}

static void fence(struct thread *t)
{
    fence_acquire(t);
    join(&t->now, &sc_view);
    sc_view = t->now;
    t->released = t->now;
}

/* ------------------------------------------------------------------ the owner of a table: index.c
 * and table.c. Two slots; a region is one address */

enum {
    N_SLOTS = 2,
    N_NODES = 8,
    RING = 2,
    FLOOR = 0, /* the number of returned changes, as the application publishes it */
    ROOT,
    HINT, /* slot + 1 */
    LEAF, /* its generation */
    HEAD,
    TAIL,
    RETIRED,
    USER,                        /* what the region's memory holds */
    SLOT,                        /* generation, start, value */
    RECORD = SLOT + 3 * N_SLOTS, /* number + 1, slot, generation, start, value */
    NODE = RECORD + 5 * RING,    /* for each slot the start of its region, 0: not linked */
    N_OWNED = NODE + N_SLOTS * N_NODES
};
_Static_assert(N_OWNED <= MAX_LOCATIONS, "few locations");

struct slot {
    int generation, start, value;
};

static struct slot slots[N_SLOTS];
static int linked[N_SLOTS];
/* The regions after each change. */
static struct slot history[16][N_SLOTS];
static struct view views[16]; /* of who has seen it */
static int n_changes, n_nodes, leaf_generation, n_retired, published;

static void link_node(void)
{
    int at = NODE + N_SLOTS * ++n_nodes;

    if (n_nodes >= N_NODES)
        abort();
    if (mutant == LEAF_FILLED_LATE)
        store(&owner, ROOT, n_nodes, RELEASE);
    for (int i = 0; i < N_SLOTS; i++)
        store(&owner, at + i, linked[i], RELAXED);
    if (mutant != LEAF_FILLED_LATE)
        store(&owner, ROOT, n_nodes, mutant == ROOT_RELAXED ? RELAXED : RELEASE);
}

/* asymreg__slot_write() */
static void slot_write(int n)
{
    int at = SLOT + 3 * n,
        order = mutant == FIELDS_RELAXED || mutant == SLOT_RELAXED ? RELAXED : RELEASE;

    if (slots[n].generation % 2) {
        store(&owner, at + 1, slots[n].start, order);
        store(&owner, at + 2, slots[n].value, order);
    }
    store(&owner, at, slots[n].generation,
          mutant == BEGIN_RELAXED || mutant == SLOT_RELAXED ? RELAXED : RELEASE);
}

static void retire(void)
{
    store(&owner, RETIRED, ++n_retired, mutant == RETIRED_RELAXED ? RELAXED : RELEASE);
    if (mutant != RETIRE_FENCE_OMITTED)
        fence(&owner);
}

static void log_append(int n)
{
    int tail = n_changes, at = RECORD + 5 * (tail % RING),
        order = mutant == RECORD_RELAXED ? RELAXED : RELEASE;

    if (mutant == RECORD_LATE)
        store(&owner, TAIL, tail + 1, RELEASE);
    if (tail >= RING && mutant != HEAD_LATE)
        store(&owner, HEAD, tail + 1 - RING, RELEASE);
    store(&owner, at, tail + 1, order);
    store(&owner, at + 1, n, order);
    store(&owner, at + 2, slots[n].generation, order);
    store(&owner, at + 3, slots[n].start, order);
    store(&owner, at + 4, slots[n].value, order);
    if (tail >= RING && mutant == HEAD_LATE)
        store(&owner, HEAD, tail + 1 - RING, RELEASE);
    if (mutant != RECORD_LATE)
        store(&owner, TAIL, tail + 1, mutant == TAIL_RELAXED ? RELAXED : RELEASE);
}

/* slot_publish(); of an index that is not published, the slot alone. */
static void publish(int n)
{
    if (!published) {
        slot_write(n);
        return;
    }
    if (!(slots[n].generation % 2) && mutant == RETIRED_EARLY)
        retire();
    if (mutant != LEAF_ODD_OMITTED)
        store(&owner, LEAF, leaf_generation + 1, RELEASE);
    leaf_generation += 2;
    if (mutant == LEAF_EVEN_EARLY)
        store(&owner, LEAF, leaf_generation, RELEASE);
    slot_write(n);
    if (mutant != LEAF_EVEN_EARLY)
        store(&owner, LEAF, leaf_generation, RELEASE);
    log_append(n);
    if (!(slots[n].generation % 2) && mutant != RETIRED_EARLY)
        retire();
}

static void change_ends(void)
{
    n_changes++;
    memcpy(history[n_changes], slots, sizeof(slots));
    views[n_changes] = owner.now;
    store(&owner, FLOOR, n_changes, RELEASE);
}

static void insert(int n, int start)
{
    slots[n] = (struct slot){slots[n].generation + 1, start, 100 + n_changes};
    linked[n] = start;
    if (mutant == BEGIN_BEFORE_TREE)
        publish(n);
    link_node();
    if (mutant != BEGIN_BEFORE_TREE)
        publish(n);
    store(&owner, HINT, n + 1, RELAXED);
    change_ends();
}

static void withdraw(int n)
{
    slots[n].generation++;
    linked[n] = 0;
    if (mutant != END_BEHIND_TREE)
        publish(n);
    link_node();
    if (mutant == END_BEHIND_TREE)
        publish(n);
    change_ends();
}

/* A slot reused for another address, and the address in another slot. Readers start with an
 * existing, empty table. */
static void own(int n, int is_published)
{
    forget(N_OWNED);
    published = is_published;
    memset(slots, 0, sizeof(slots));
    memset(linked, 0, sizeof(linked));
    n_changes = n_nodes = leaf_generation = n_retired = 0;
    link_node();
    views[0] = peer.now = owner.now;
    insert(0, 10);
    if (n > 1)
        withdraw(0);
    if (n > 2)
        insert(0, 20);
    if (n > 3)
        insert(1, 10);
}

/* ------------------------------------------------------------------ lookups: search.c */

enum { BY_TREE, BY_HINT };

static struct {
    int slot, generation, value, start;
} last_hit;

/* The value of the region, or 0. */
static int slot_read(int n, int start)
{
    int at = SLOT + 3 * n, order = mutant == FIELDS_LOAD_RELAXED ? RELAXED : ACQUIRE, there, value;
    int generation = load(&peer, at, mutant == BEGIN_LOAD_RELAXED ? RELAXED : ACQUIRE);

    there = load(&peer, at + 1, order);
    value = load(&peer, at + 2, order);
    if (!(generation % 2) || there != start ||
        (mutant != SECOND_LOOK_OMITTED && load(&peer, at, RELAXED) != generation))
        return 0;
    last_hit.slot = n;
    last_hit.generation = generation;
    last_hit.start = start;
    return last_hit.value = value;
}

static int lookup(int start, int how)
{
    int node, hint, value;

    if (last_hit.value && last_hit.start == start &&
        (mutant == LAST_HIT_UNCHECKED ||
         load(&peer, SLOT + 3 * last_hit.slot, ACQUIRE) == last_hit.generation))
        return last_hit.value;
    if (how == BY_HINT && (hint = load(&peer, HINT, RELAXED)) &&
        (value = slot_read(hint - 1, start)))
        return value;
    node = load(&peer, ROOT, mutant == ROOT_LOAD_RELAXED ? RELAXED : ACQUIRE);
    for (int i = 0; i < N_SLOTS; i++)
        if (load(&peer, NODE + N_SLOTS * node + i, RELAXED) == start)
            return slot_read(i, start);
    return 0;
}

/* The result of a lookup after this many changes. */
static int truth(int changes, int start)
{
    for (int i = 0; i < N_SLOTS; i++)
        if (history[changes][i].generation % 2 && history[changes][i].start == start)
            return history[changes][i].value;
    return 0;
}

/* Two lookups, by one reader or two, return the state of two moments, in their order and not before
 * the published changes. */
static void check_lookups(int start, int first, int second, int readers)
{
    int moment = 0;

    last_hit.value = 0;
    for (int i = 0; i < 2; i++) {
        int floor = load(&peer, FLOOR, ACQUIRE), found;

        if (readers == 2)
            last_hit.value = 0;
        found = lookup(start, i ? second : first);
        if (moment < floor)
            moment = floor;
        while (moment <= n_changes && truth(moment, start) != found)
            moment++;
        if (moment > n_changes) {
            fail(found ? "a lookup finds what was not there" : "a lookup misses a region");
            return;
        }
    }
}

/* ------------------------------------------------------------------ copies: peer_copy.c */

enum { MAX_TRIES = 1, BUSY = -1 }; /* what is read again is read as the first time */

static struct {
    struct slot slots[N_SLOTS];
    int position, first;
} copy;

static int read_order(void)
{
    return mutant == COPY_RELAXED ? RELAXED : ACQUIRE;
}

static int read_log(int *head, int *tail)
{
    for (int i = 0; i < MAX_TRIES; i++) {
        *head = load(&peer, HEAD, ACQUIRE);
        *tail = load(&peer, TAIL, ACQUIRE);
        if (*tail < copy.position)
            fail("the log goes back");
        if (*head > *tail)
            continue;
        if (*tail - *head > RING)
            *head = *tail - RING;
        return 0;
    }
    return BUSY;
}

static void apply(int n, struct slot now)
{
    if (now.generation > copy.slots[n].generation)
        copy.slots[n] = now;
}

static int by_leaf(int tail)
{
    struct slot read[N_SLOTS];

    copy.position = tail;
    for (int i = 0; i < MAX_TRIES; i++) {
        int before = load(&peer, LEAF, ACQUIRE);

        for (int n = 0; n < N_SLOTS; n++) {
            read[n].start = load(&peer, SLOT + 3 * n + 1, read_order());
            read[n].generation = load(&peer, SLOT + 3 * n, read_order());
            read[n].value = load(&peer, SLOT + 3 * n + 2, read_order());
        }
        if (mutant == LEAF_LOOK_OMITTED ||
            (load(&peer, LEAF, ACQUIRE) == before && before % 2 == 0)) {
            for (int n = 0; n < N_SLOTS; n++)
                apply(n, read[n]);
            return 0;
        }
    }
    return BUSY;
}

static int by_delta(int tail)
{
    for (; copy.position < tail; copy.position++) {
        int at = RECORD + 5 * (copy.position % RING), record[5], head, now;

        for (int i = 0; i < 5; i++)
            record[i] = load(&peer, at + i, read_order());
        if (read_log(&head, &now) != 0 || (head > copy.position && mutant != HEAD_LOOK_OMITTED))
            return BUSY;
        if (record[0] != copy.position + 1 || record[1] >= N_SLOTS) {
            fail("a record is not what it should be");
            return BUSY;
        }
        apply(record[1], (struct slot){record[2], record[3], record[4]});
    }
    return 0;
}

/* asymreg__cache_refresh() */
static int refresh(void)
{
    int head, tail, goal = -1;

    for (int i = 0; i < MAX_TRIES; i++) {
        if (read_log(&head, &tail) != 0)
            return BUSY;
        if (goal < 0)
            goal = tail;
        if (copy.first || head > copy.position) {
            copy.first = 1;
            if (by_leaf(tail) != 0)
                return BUSY;
            copy.first = 0;
            goal = 0;
            if (read_log(&head, &tail) != 0)
                return BUSY;
        }
        if (by_delta(tail) == 0 && copy.position >= goal)
            return 0;
    }
    return BUSY;
}

/* Each slot has its contents of some moment after the floor. */
static void check_copy(int known)
{
    int floor;

    memset(&copy, 0, sizeof(copy));
    copy.first = 1;
    if (known >= 0) { /* it had followed the table so far */
        copy.first = 0;
        copy.position = known;
        memcpy(copy.slots, history[known], sizeof(copy.slots));
        join(&peer.now, &views[known]);
    }
    floor = load(&peer, FLOOR, ACQUIRE);
    if (refresh() != 0)
        return;
    for (int n = 0; n < N_SLOTS; n++) {
        const struct slot *s = &copy.slots[n];
        int moment = floor;

        while (moment <= n_changes &&
               (history[moment][n].generation != s->generation ||
                (s->generation % 2 &&
                 (history[moment][n].start != s->start || history[moment][n].value != s->value))))
            moment++;
        if (moment > n_changes) {
            fail("a copied slot is torn or too old");
            return;
        }
    }
}

/* ------------------------------------------------------------------ bound handles: bound.h */

enum { BEFORE = 5, AFTER = 9 };

static void own_bound(void)
{
    own(1, 1);
    store(&owner, USER, BEFORE, RELAXED);
    peer.now = owner.now; /* the handle was bound to this */
    withdraw(0);
    store(&owner, USER, AFTER, RELAXED); /* the memory has another use */
}

static void check_bound(void)
{
    int order = mutant == RETIRED_LOAD_RELAXED ? RELAXED : ACQUIRE, value;

    if (load(&peer, RETIRED, order) != 0) {
        if (load(&peer, SLOT, RELAXED) % 2)
            fail("a region is counted as gone and still there");
        return;
    }
    value = load(&peer, USER, RELAXED);
    if (mutant != CHECK_FENCE_OMITTED)
        fence_acquire(&peer);
    if (load(&peer, RETIRED, RELAXED) == 0 && value != BEFORE)
        fail("a get returns what was not the region's");
}

/* ------------------------------------------------------------------ two threads that store */

static int fences; /* in the place of membarrier() */

/* One step each, in every order; `can` says whether a thread waits. */
static void interleave(void (*step_owner)(void), void (*step_peer)(void), int (*can)(void))
{
    while (!owner.ended || !peer.ended) {
        int may_owner = !owner.ended && can(), may_peer = !peer.ended;

        if (!may_owner && !may_peer)
            return;
        if (may_owner && (!may_peer || choose(2)))
            step_owner();
        else
            step_peer();
    }
}

/* Three steps of the owner's: readers_barrier() of nodes.c, and that of activity.c. */
static void barrier(int step, int omitted)
{
    if (omitted)
        return;
    if (!fences)
        fence(step == 1 ? &peer : &owner);
    else if (step == 0)
        fence(&owner);
}

/* ---- epochs: nodes.c. Node 1 is replaced by node 2, and filled anew when no reader is in it */

/* E_READ: how often node 1 has been read */
enum { E_ROOT, E_EPOCH, E_READER, E_NODE, E_READ = E_NODE + 3, N_EPOCH_LOCATIONS };

static int reclaims(void)
{
    return owner.pc != 5 || can_await(&owner, E_READER, 1);
}

static void step_writer(void)
{
    switch (owner.pc++) {
    case 0: store(&owner, E_ROOT, 2, RELEASE); break;
    case 1: store(&owner, E_EPOCH, 2, mutant == EPOCH_RELAXED ? RELAXED : RELEASE); break;
    case 2:
    case 3:
    case 4: barrier(owner.pc - 3, mutant == EPOCH_BARRIER_OMITTED); break;
    case 5: await(&owner, E_READER, 1, mutant == READERS_LOAD_RELAXED ? RELAXED : ACQUIRE); break;
    default:
        if (owner.now.at[E_READ] + 1 != n_stores[E_READ])
            fail("a search need not end before its node is used again");
        store(&owner, E_NODE + 1, AFTER, RELAXED);
        owner.ended = 1;
    }
}

static void step_searcher(void)
{
    switch (peer.pc++ % 6) {
    case 0:
        peer.reg[0] = load(&peer, E_EPOCH, mutant == EPOCH_LOAD_RELAXED ? RELAXED : ACQUIRE);
        break;
    case 1:
        store(&peer, E_READER, peer.reg[0], mutant == ANNOUNCED_BY_EXCHANGE ? RELEASE : RELAXED);
        break;
    case 2:
        if (fences && mutant != ANNOUNCED_BY_EXCHANGE)
            fence(&peer);
        break;
    case 3: peer.reg[1] = load(&peer, E_ROOT, ACQUIRE); break;
    case 4:
        if (load(&peer, E_NODE + peer.reg[1], RELAXED) != BEFORE)
            fail("a search meets a node that is used again");
        if (peer.reg[1] == 1)
            store(&peer, E_READ, peer.pc, RELAXED);
        break;
    default:
        store(&peer, E_READER, 0, mutant == READER_EXIT_RELAXED ? RELAXED : RELEASE);
        peer.ended = peer.pc == 12;
    }
}

static void check_epochs(void)
{
    forget(N_EPOCH_LOCATIONS);
    store(&owner, E_ROOT, 1, RELAXED);
    store(&owner, E_EPOCH, 1, RELAXED);
    store(&owner, E_NODE + 1, BEFORE, RELAXED);
    store(&owner, E_NODE + 2, BEFORE, RELAXED);
    peer.now = owner.now;
    interleave(step_writer, step_searcher, reclaims);
}

/* ---- drain: activity.c. The peer's store must not come after the owner's */

enum { D_TAIL, D_BUSY, D_USER, N_DRAIN_LOCATIONS };

static int drained(void)
{
    return owner.pc != 5 || !owner.reg[0] || can_await(&owner, D_BUSY, owner.reg[0]);
}

static void step_drainer(void)
{
    int order = mutant == BUSY_LOAD_RELAXED ? RELAXED : ACQUIRE;

    switch (owner.pc++) {
    case 0: store(&owner, D_TAIL, 1, RELEASE); break;
    case 1:
    case 2:
    case 3: barrier(owner.pc - 2, mutant == DRAIN_BARRIER_OMITTED); break;
    case 4: owner.reg[0] = load(&owner, D_BUSY, order); break;
    case 5:
        if (owner.reg[0])
            await(&owner, D_BUSY, owner.reg[0], order);
        break;
    case 6:
        if (load(&owner, D_USER, RELAXED) != memory[D_USER][n_stores[D_USER] - 1].value)
            fail("an operation's end is seen, and not what it stored");
        break;
    default: store(&owner, D_USER, AFTER, RELAXED); owner.ended = 1;
    }
}

static void step_operation(void)
{
    switch (peer.pc++ % 5) {
    case 0:
        store(&peer, D_BUSY, 1 + peer.pc / 5, mutant == BUSY_BY_EXCHANGE ? RELEASE : RELAXED);
        break;
    case 1:
        if (fences && mutant != BUSY_BY_EXCHANGE)
            fence(&peer);
        break;
    case 2: peer.reg[0] = load(&peer, D_TAIL, ACQUIRE); break;
    case 3:
        if (peer.reg[0] == 0) {
            if (memory[D_USER][n_stores[D_USER] - 1].value == AFTER)
                fail("an operation stores after the drain");
            store(&peer, D_USER, BEFORE, RELAXED);
        }
        break;
    default:
        store(&peer, D_BUSY, 0, mutant == RETRACT_RELAXED ? RELAXED : RELEASE);
        peer.ended = peer.pc == 10;
    }
}

static void check_drain(void)
{
    forget(N_DRAIN_LOCATIONS);
    interleave(step_drainer, step_operation, drained);
}

/* ------------------------------------------------------------------ all of it */

static unsigned long n_runs;
static int param[4];

static void run_lookups(void)
{
    check_lookups(param[0], param[1], param[2], param[3]);
}

static void run_copy(void)
{
    check_copy(param[0]);
}

/* Every combination of choices of a check, which begins with the existing memory if `keeps`. */
static void explore(void (*check)(void), int keeps)
{
    const struct thread start = peer;

    memset(choices, 0, sizeof(choices));
    depth = 0;
    do {
        if (keeps)
            peer = start;
        check();
        n_runs++;
    } while (!wrong && next_run());
    peer = start;
}

static void check_index(void)
{
    for (int n = 1; n <= 4; n++) {
        own(n, 0);
        for (int i = 0; i < 16 && !wrong; i++) {
            param[0] = i & 1 ? 20 : 10;
            param[1] = i >> 1 & 1;
            param[2] = i >> 2 & 1;
            param[3] = 1 + (i >> 3);
            explore(run_lookups, 1);
        }
    }
}

static void check_table(void)
{
    for (int n = 1; n <= 4; n++) {
        own(n, 1);
        for (param[0] = -1; param[0] < n && !wrong; param[0]++)
            explore(run_copy, 1);
    }
}

static void check_handles(void)
{
    own_bound();
    explore(check_bound, 1);
}

static void check_both(void (*check)(void))
{
    for (fences = 0; fences < 2 && !wrong; fences++)
        explore(check, 0);
}

static void check_all_epochs(void)
{
    check_both(check_epochs);
}

static void check_all_drains(void)
{
    check_both(check_drain);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*check)(void);
        int first, end; /* its mutants */
    } parts[] = {{"index", check_index, 1, N_INDEX},
                 {"published table", check_table, N_INDEX, N_TABLE},
                 {"bound handles", check_handles, N_TABLE, N_BOUND},
                 {"epochs", check_all_epochs, N_BOUND, N_EPOCHS},
                 {"drain", check_all_drains, N_EPOCHS, N_MUTANTS}};
    int failed = 0;

    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        for (int m = 0; m < parts[i].end; m = m ? m + 1 : parts[i].first) {
            mutant = (enum mutant)m;
            n_runs = 0;
            wrong = NULL;
            parts[i].check();
            printf("%-52s %9lu runs: %s\n", m ? mutant_names[m] : parts[i].name, n_runs,
                   wrong ? wrong : "all right");
            failed |= (wrong != NULL) != (m != NONE);
        }
    if (failed)
        printf("FAILED: a protocol is wrong, or the model does not see what it should\n");
    return failed;
}
