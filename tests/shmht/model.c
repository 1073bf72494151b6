/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol of writer.c and lookup.c, checked exhaustively under a weak memory model.
 *
 * The model. The writer is a list of stores, each relaxed or release, in the order of writer.c.
 * No other thread stores, so the modification order of a location is the order of its stores in
 * that list. A load may return any of them that is neither older than one that this thread has
 * loaded from there before (coherence), nor older than one that happens before the load: loading a
 * release store with acquire makes all stores before it in the list happen before what follows
 * (synchronizes-with). Nothing else orders anything: relaxed and plain loads may return stale
 * values even through a pointer, and stores may become visible in any order. This is C11 for one
 * storing thread, whose programs cannot tell it from the axiomatic form; x86 and ARM allow less. So
 * the loads' choices cover every result of every interleaving and reordering, and the check tries
 * all of them.
 *
 * What is checked. Between the writer's operations is floor[key], a release store of the version
 * that was put, as an application would publish it. A reader loads it with acquire, then (Get) must
 * find that version or a later one, whole, and a second Get no earlier one; or (walk) must meet
 * every key whose floor was set, and no earlier version. A delete is a version without a record.
 * shmht_writer_wake() publishes as floor does. The argument in prose is at the head of lookup.c.
 *
 * Then each release and acquire of the protocol is weakened in turn, and stores are swapped: each
 * time the check must fail. A check that still passes would mean an order that the protocol does
 * not need, or a blind model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_KEYS      3
#define LINE        2 /* slots of a line */
#define MAX_RECS    12
#define DELETED     MAX_RECS /* in a slot: no record */
#define MAX_STORES  128
#define MAX_CHOICES 64

enum {
    TOP,
    TABLE,
    FLOOR,
    WORD = FLOOR + N_KEYS,
    DATA1 = WORD + MAX_RECS,
    DATA2 = DATA1 + MAX_RECS,
    SLOT = DATA2 + MAX_RECS,
    N_LOCATIONS = SLOT + 3 * 8
};

/* What may be weakened. */
enum {
    NONE,
    R_SLOT,
    R_TOP,
    R_TABLE,
    R_DEAD,
    R_FLOOR,
    A_SLOT,
    A_TABLE,
    A_TOP,
    A_WORD,
    S_RECORD_AFTER_SLOT,
    S_TABLE_BEFORE_FILL,
    S_DEAD_BEFORE_SLOT_AND_TOP,
    S_TOP_BEFORE_RECORD,
    S_DELETE_EMPTIES,
    S_DELETE_AFTER_FLOOR,
    S_DEAD_NOT_STORED,
    N_MUTANTS
};

static const char *const mutant_names[N_MUTANTS] = {
    "the protocol",
    "slot stored relaxed",
    "top stored relaxed",
    "table stored relaxed",
    "dead bit stored relaxed",
    "floor stored relaxed",
    "slot loaded relaxed",
    "table loaded relaxed",
    "top loaded relaxed",
    "record's word loaded relaxed in a walk",
    "slot stored before its record",
    "table published before it is filled",
    "old record marked before the new one is in the log",
    "top moved before the record is there",
    "a delete empties the slot",
    "a delete is announced before its stores",
    "a deleted record is not marked"};

enum { KIND_RECORD = 1, KIND_SKIP = 2, DEAD = 4 };

static struct {
    int location;
    int value;
    int release;
} stores[MAX_STORES];
static int n_stores;
static int mutant;

/* ------------------------------------------------------------------ the writer: its stores, in
 * order */

static int top, n_tables, table_lines, record_of[N_KEYS], key_of[MAX_RECS], version_of[MAX_RECS];
static int deleted_at[N_KEYS]; /* version of the last delete; 0: none */
static int one_home;           /* all keys share a home line */

static void store(int location, int value, int release)
{
    if (n_stores == MAX_STORES)
        abort();
    stores[n_stores].location = location;
    stores[n_stores].value = value;
    stores[n_stores].release = release;
    n_stores++;
}

static int slot_at(int table, int index)
{
    return SLOT + 8 * table + index;
}

/* Keys 0 and 1 share a home line; key 2 has another if the table has two lines. So a line becomes
 * full and the search continues in the next. */
static int home(int key, int lines)
{
    return lines == 1 || one_home ? 0 : key == 2 ? lines - 1 : 0;
}

static int last_value(int location)
{
    int value = 0;

    for (int i = 0; i < n_stores; i++)
        if (stores[i].location == location)
            value = stores[i].value;
    return value;
}

/* A slot's value: tag of the key in the lower part, place of the record + 1 in the upper. */
static int slot_value(int key, int record)
{
    return key + 1 + 16 * (record + 1);
}

/* The slot of a key in the present table, or the first empty one of its search. */
static int find_slot(int table, int lines, int key)
{
    for (int line = home(key, lines);; line = (line + 1) % lines)
        for (int i = 0; i < LINE; i++) {
            int value = last_value(slot_at(table, line * LINE + i));

            if (value == 0 || value % 16 == key + 1)
                return slot_at(table, line * LINE + i);
        }
}

static void store_record(int record, int key, int version)
{
    store(WORD + record, KIND_RECORD, 0);
    store(DATA1 + record, 16 * version + key, 0);
    store(DATA2 + record, 16 * version + key, 0);
}

static void put(int key, int version)
{
    int record = top, slot = find_slot(n_tables - 1, table_lines, key), old = record_of[key];

    key_of[record] = key;
    version_of[record] = version;
    record_of[key] = record;
    top++;
    if (mutant == S_TOP_BEFORE_RECORD)
        store(TOP, top, 1);
    if (mutant == S_DEAD_BEFORE_SLOT_AND_TOP && old >= 0)
        store(WORD + old, KIND_RECORD | DEAD, 1);
    if (mutant == S_RECORD_AFTER_SLOT)
        store(slot, slot_value(key, record), 1);
    store_record(record, key, version);
    if (mutant != S_TOP_BEFORE_RECORD)
        store(TOP, top, mutant != R_TOP);
    if (mutant != S_RECORD_AFTER_SLOT)
        store(slot, slot_value(key, record), mutant != R_SLOT);
    if (mutant != S_DEAD_BEFORE_SLOT_AND_TOP && old >= 0)
        store(WORD + old, KIND_RECORD | DEAD, mutant != R_DEAD);
    store(FLOOR + key, version, mutant != R_FLOOR);
}

static void delete_key(int key, int version)
{
    int slot = find_slot(n_tables - 1, table_lines, key);

    deleted_at[key] = version;
    if (mutant == S_DELETE_AFTER_FLOOR)
        store(FLOOR + key, version, 1);
    store(slot, mutant == S_DELETE_EMPTIES ? 0 : slot_value(key, DELETED), 1);
    if (mutant != S_DEAD_NOT_STORED)
        store(WORD + record_of[key], KIND_RECORD | DEAD, 1);
    if (mutant != S_DELETE_AFTER_FLOOR)
        store(FLOOR + key, version, mutant != R_FLOOR);
    record_of[key] = -1;
}

static void grow(int lines)
{
    int before = n_tables - 1, before_lines = table_lines;

    n_tables++;
    table_lines = lines;
    if (mutant == S_TABLE_BEFORE_FILL)
        store(TABLE, 8 * n_tables + lines, 1);
    for (int i = 0; i < before_lines * LINE; i++) {
        int value = last_value(slot_at(before, i));

        if (value != 0 && value / 16 - 1 != DELETED)
            store(find_slot(n_tables - 1, lines, value % 16 - 1), value, 0);
    }
    store(WORD + top, KIND_SKIP, 0);
    top++;
    store(TOP, top, mutant != R_TOP);
    if (mutant != S_TABLE_BEFORE_FILL)
        store(TABLE, 8 * n_tables + lines, mutant != R_TABLE);
}

/* Inserts, an update before growth, growth, an update after it, an insert that overflows into the
 * next line; a delete in front of a key that overflowed, a put of the deleted key, growth without a
 * deleted key, a put of it afterwards. */
static void write_all(int which)
{
    n_stores = top = n_tables = 0;
    memset(record_of, -1, sizeof(record_of));
    memset(deleted_at, 0, sizeof(deleted_at));
    n_tables = 1;
    one_home = which >= 2;
    table_lines = one_home ? 2 : 1;
    store(TABLE, 8 * n_tables + table_lines, 1); /* the region is published whole */
    put(0, 1);
    if (one_home) {
        put(1, 1);
        if (which == 2) {
            put(2, 1);
            delete_key(1, 2);
            put(1, 3);
            delete_key(0, 2);
        } else {
            delete_key(0, 2);
            grow(2);
            put(2, 1);
            put(0, 3);
            delete_key(1, 2);
        }
        return;
    }
    if (which == 0) {
        put(0, 2);
        put(1, 1);
        grow(2);
        put(2, 1);
        put(0, 3);
    } else {
        put(1, 1);
        grow(2);
        put(1, 2);
        put(2, 1);
    }
}

/* ------------------------------------------------------------------ a reader: loads, each of which
 * has a choice */

static int choices[MAX_CHOICES], n_choices[MAX_CHOICES], depth;
static int synchronized_to; /* stores before this index happen before what the reader does now */
static int
    seen[N_LOCATIONS]; /* coherence: index of the store loaded last, + 1; 0: the initial value */
static const char *wrong;

static int choose(int n)
{
    if (depth == MAX_CHOICES)
        abort();
    n_choices[depth] = n;
    return choices[depth++];
}

/* The next combination of choices; 0 when all have been tried. */
static int next_run(void)
{
    while (depth > 0 && choices[depth - 1] + 1 >= n_choices[depth - 1])
        choices[--depth] = 0;
    if (depth == 0)
        return 0;
    choices[depth - 1]++;
    return 1;
}

static int load(int location, int acquire)
{
    int candidates[MAX_STORES + 1], n = 0, oldest = seen[location], pick;

    for (int i = 0; i < synchronized_to; i++)
        if (stores[i].location == location && i + 1 > oldest)
            oldest = i + 1;
    if (oldest == 0)
        candidates[n++] = 0;
    for (int i = 0; i < n_stores; i++)
        if (stores[i].location == location && i + 1 >= oldest)
            candidates[n++] = i + 1;
    pick = candidates[choose(n)];
    seen[location] = pick;
    if (pick == 0)
        return 0;
    if (acquire && stores[pick - 1].release && pick > synchronized_to)
        synchronized_to = pick;
    return stores[pick - 1].value;
}

static void fail(const char *what)
{
    if (!wrong)
        wrong = what;
}

/* Reads a record that a slot or a walk led to. Returns the version, or -1: torn, or not of this
 * key. */
static int read_record(int record, int key)
{
    int a = load(DATA1 + record, 0), b = load(DATA2 + record, 0);

    return a != b || a % 16 != key || a < 16 ? -1 : a / 16;
}

/* lookup.c. Returns the version, 0 if absent, -1 if wrong. */
static int get(int key)
{
    int table = load(TABLE, mutant != A_TABLE), lines = table % 8, number = table / 8 - 1;

    if (lines == 0)
        return -1;
    for (int probe = 0, line = home(key, lines); probe < lines;
         probe++, line = (line + 1) % lines) {
        int hint[LINE];

        for (int i = 0; i < LINE; i++) /* the vector */
            hint[i] = load(slot_at(number, line * LINE + i), 0);
        for (int i = 0; i < LINE; i++) {
            int slot;

            if (hint[i] % 16 != key + 1)
                continue;
            slot = load(slot_at(number, line * LINE + i), mutant != A_SLOT);
            if (slot != 0 && slot / 16 - 1 != DELETED)
                return load(WORD + slot / 16 - 1, 0) == 0 ? -1 : read_record(slot / 16 - 1, key);
        }
        if (load(slot_at(number, line * LINE + LINE - 1), 0) == 0)
            return 0;
    }
    return 0;
}

/* A Get that finds nothing has the key's state before its first put, or after a delete. */
static int at_most(int key, int version)
{
    return version == 0 ? deleted_at[key] : version;
}

static int at_least(int version, int floor)
{
    return version == 0 ? floor : version;
}

static void check_gets(int key)
{
    int floor = load(FLOOR + key, 1), first, second;

    first = get(key);
    second = get(key);
    if (first < 0 || second < 0)
        fail("a record that is torn or not there");
    else if (at_most(key, first) < floor || at_most(key, second) < floor)
        fail("a key or version that was put before is not found");
    else if (at_most(key, second) < at_least(first, floor))
        fail("a version goes back");
}

/* shmht_reader_next(), from the beginning to the end. */
static void check_walk(int key)
{
    int floor = load(FLOOR + key, 1), met = 0, end = load(TOP, mutant != A_TOP);

    for (int pos = 0; pos < end || pos < (end = load(TOP, mutant != A_TOP)); pos++) {
        int word = load(WORD + pos, mutant != A_WORD), version;

        if (word == 0) {
            fail("a walk meets what is no record");
            return;
        }
        if (word & (KIND_SKIP | DEAD) || key_of[pos] != key)
            continue;
        version = read_record(pos, key);
        if (version < 0)
            fail("a walk meets a torn record");
        else if (version < floor)
            fail("a walk meets a record that was replaced or deleted before");
        else if (version > met)
            met = version;
    }
    if (at_most(key, met) < floor)
        fail("a walk leaves a key out");
}

static const char *check(unsigned long *runs)
{
    const char *found = NULL;

    for (int which = 0; which < 4; which++) {
        write_all(which);
        for (int what = 0; what < 2 * N_KEYS && !found; what++) {
            memset(choices, 0, sizeof(choices));
            do {
                depth = synchronized_to = 0;
                memset(seen, 0, sizeof(seen));
                wrong = NULL;
                synchronized_to = 1; /* the table was there when the reader attached */
                (what < N_KEYS ? check_gets : check_walk)(what % N_KEYS);
                ++*runs;
                if (wrong)
                    found = wrong;
            } while (!found && next_run());
        }
    }
    return found;
}

int main(void)
{
    int failed = 0;

    for (mutant = NONE; mutant < N_MUTANTS; mutant++) {
        unsigned long runs = 0;
        const char *found = check(&runs);

        printf("%-52s %9lu runs: %s\n", mutant_names[mutant], runs, found ? found : "all right");
        failed |= (found != NULL) != (mutant != NONE);
    }
    if (failed)
        printf("FAILED: the protocol is wrong, or the model does not see what it should\n");
    return failed;
}
