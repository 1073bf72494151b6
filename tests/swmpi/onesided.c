/* SPDX-License-Identifier: BSD-3-Clause */
/* onesided [--odd] [HINTS]: every kind of one-sided communication on windows with these hints. Each
 * part checks its results, and prints a digest of all ranks' windows: the same for every storage of
 * windows, every launcher and every MPI. With hints for storage it also checks that they took
 * effect; without, the environment may choose any kind of window. */
#include "window.h"

#define PAGE      4096
#define MAX_WORDS (5 * PAGE / 8 + 13)
#define BYTES     ((MPI_Aint)n_words * 8)
#define ROUNDS    2 /* even */

/* Five pages, so that the border of a combined window is inside; with --odd a bit more. --odd needs
 * storage windows: MPICH 4.0.2 itself confuses the windows of two ranks when their length is not a
 * multiple of the page size.
 */
static int n_words = 5 * PAGE / 8;

static const char *hints;
static struct world w;
static int64_t *base;
static MPI_Win win;

static int on_storage(void)
{
    return strstr(hints, "alloc_type=storage") != NULL;
}

static void win_begin(void)
{
    MPI_Info info = info_of(hints);

    MPI_Win_allocate(BYTES, sizeof(int64_t), info, MPI_COMM_WORLD, &base, &win);
    MPI_Info_free(&info);
    memset(base, 0, (size_t)BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* FNV-1a over all windows in rank order, printed by rank 0. */
static void digest(const char *name, const void *data, size_t bytes)
{
    uint64_t mine = UINT64_C(0xcbf29ce484222325), all[64], sum = 0;

    CHECK_MSG(w.size <= 64, "too many ranks");
    for (size_t i = 0; i < bytes; i++)
        mine = (mine ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    MPI_Gather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    for (int r = 0; w.rank == 0 && r < w.size; r++)
        sum = (sum ^ all[r]) * UINT64_C(0x100000001b3);
    if (w.rank == 0)
        printf("%-10s %016llx\n", name, (unsigned long long)sum);
}

static void win_end(const char *name)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w.rank, 0, win);
    MPI_Win_sync(win);
    MPI_Win_unlock(w.rank, win);
    digest(name, base, (size_t)BYTES);
    MPI_Win_free(&win);
    CHECK_MSG(win == MPI_WIN_NULL, "MPI_Win_free left the handle");
}

/* Read, change, write under an exclusive lock: no update is lost. */
static void test_lock(void)
{
    int64_t value;

    win_begin();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < w.size; i++) {
            int target = (w.rank + i) % w.size;
            MPI_Aint at = (n_words - 1) * (round % 2);

            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
            MPI_Get(&value, 1, MPI_INT64_T, target, at, 1, MPI_INT64_T, win);
            MPI_Win_flush(target, win);
            value += w.rank + 1;
            MPI_Put(&value, 1, MPI_INT64_T, target, at, 1, MPI_INT64_T, win);
            MPI_Win_unlock(target, win);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, w.rank, 0, win);
    value = (int64_t)w.size * (w.size + 1) / 2 * (ROUNDS / 2);
    CHECK_MSG(base[0] == value && base[n_words - 1] == value, "%lld and %lld, expected %lld",
              (long long)base[0], (long long)base[n_words - 1], (long long)value);
    MPI_Win_unlock(w.rank, win);
    win_end("lock");
}

/* A run of words across the whole window, in a shared epoch with flushes and requests. */
static void test_flush(void)
{
    static int64_t out[MAX_WORDS], in[MAX_WORDS];
    int to = (w.rank + 1) % w.size, from = (w.rank + w.size - 1) % w.size;
    MPI_Request request;

    win_begin();
    for (int i = 0; i < n_words; i++)
        out[i] = (int64_t)w.rank * 1000003 + i;
    MPI_Win_lock_all(0, win);
    MPI_Put(out, n_words / 2, MPI_INT64_T, to, 0, n_words / 2, MPI_INT64_T, win);
    MPI_Win_flush_local(to, win);
    MPI_Win_flush(to, win);
    MPI_Rput(out + n_words / 2, n_words - n_words / 2, MPI_INT64_T, to, n_words / 2,
             n_words - n_words / 2, MPI_INT64_T, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush_all(win);
    MPI_Rget(in, n_words, MPI_INT64_T, to, 0, n_words, MPI_INT64_T, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_MSG(memcmp(in, out, (size_t)BYTES) == 0, "what was put is not what is got");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    for (int i = 0; i < n_words; i++)
        CHECK_MSG(base[i] == (int64_t)from * 1000003 + i, "word %d is %lld", i, (long long)base[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    win_end("flush");
}

static void test_fence(void)
{
    int64_t mine, left = -1, right = -1;

    win_begin();
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Aint slot = (MPI_Aint)(round * 1000 % n_words) & ~(MPI_Aint)1;

        mine = w.rank * 100 + round;
        MPI_Put(&mine, 1, MPI_INT64_T, (w.rank + 1) % w.size, slot, 1, MPI_INT64_T, win);
        MPI_Put(&mine, 1, MPI_INT64_T, (w.rank + w.size - 1) % w.size, slot + 1, 1, MPI_INT64_T,
                win);
        MPI_Win_fence(0, win);
        MPI_Get(&left, 1, MPI_INT64_T, (w.rank + 1) % w.size, slot, 1, MPI_INT64_T, win);
        MPI_Get(&right, 1, MPI_INT64_T, (w.rank + w.size - 1) % w.size, slot + 1, 1, MPI_INT64_T,
                win);
        MPI_Win_fence(0, win);
        CHECK_MSG(left == mine && right == mine, "round %d: %lld and %lld, expected %lld", round,
                  (long long)left, (long long)right, (long long)mine);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    win_end("fence");
}

/* Post, start, complete, wait with the neighbours alone. */
static void test_pscw(void)
{
    int from = (w.rank + w.size - 1) % w.size, to = (w.rank + 1) % w.size, done = 0;
    MPI_Group world, origin, target;
    int64_t value[2];

    win_begin();
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &from, &origin);
    MPI_Group_incl(world, 1, &to, &target);
    for (int round = 0; round < ROUNDS; round++) {
        value[0] = w.rank * 10 + round;
        value[1] = -value[0];
        MPI_Win_post(origin, 0, win);
        MPI_Win_start(target, 0, win);
        MPI_Put(value, 2, MPI_INT64_T, to, round * (n_words / ROUNDS), 2, MPI_INT64_T, win);
        MPI_Win_complete(win);
        if (round % 2)
            MPI_Win_wait(win);
        for (done = round % 2; !done;)
            MPI_Win_test(win, &done);
        CHECK_MSG(base[round * (n_words / ROUNDS)] == from * 10 + round &&
                      base[round * (n_words / ROUNDS) + 1] == -(from * 10 + round),
                  "round %d: %lld", round, (long long)base[round * (n_words / ROUNDS)]);
    }
    MPI_Group_free(&origin);
    MPI_Group_free(&target);
    MPI_Group_free(&world);
    win_end("pscw");
}

static void test_accumulate(void)
{
    int64_t ones[64], got[64];
    double *place = NULL, half = 0.5 * (w.rank + 1);
    MPI_Datatype every_other;

    win_begin();
    for (int i = 0; i < 64; i++)
        ones[i] = i + 1;
    MPI_Win_fence(0, win);
    for (int target = 0; target < w.size; target++) /* across the border of a combined window */
        MPI_Accumulate(ones, 64, MPI_INT64_T, target, n_words / 2 - 32, 64, MPI_INT64_T, MPI_SUM,
                       win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 64; i++)
        CHECK_MSG(base[n_words / 2 - 32 + i] == (int64_t)w.size * (i + 1), "word %d is %lld", i,
                  (long long)base[n_words / 2 - 32 + i]);
    MPI_Win_fence(0, win);
    MPI_Accumulate(&half, 1, MPI_DOUBLE, 0, 3, 1, MPI_DOUBLE, MPI_MAX, win);
    MPI_Win_fence(0, win);
    place = (double *)(base + 3);
    CHECK_MSG(w.rank != 0 || *place == 0.5 * w.size, "the maximum is %g", *place);
    MPI_Type_vector(32, 1, 2, MPI_INT64_T, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Win_fence(0, win);
    MPI_Put(ones, 32, MPI_INT64_T, (w.rank + 1) % w.size, 100, 1, every_other, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 64; i++)
        CHECK_MSG(base[100 + i] == (i % 2 ? 0 : i / 2 + 1), "word %d of a vector is %lld", i,
                  (long long)base[100 + i]);
    MPI_Type_free(&every_other);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0,
                 win); /* every rank gets some state of the sum, and reads without changing */
    MPI_Get_accumulate(ones, 64, MPI_INT64_T, got, 64, MPI_INT64_T, 0, n_words - 64, 64,
                       MPI_INT64_T, MPI_SUM, win);
    MPI_Win_flush(0, win);
    CHECK_MSG(got[63] == got[0] * 64, "an accumulate is not atomic by element: %lld, %lld",
              (long long)got[0], (long long)got[63]);
    MPI_Get_accumulate(NULL, 0, MPI_INT64_T, got, 1, MPI_INT64_T, 0, n_words - 64, 1, MPI_INT64_T,
                       MPI_NO_OP, win);
    MPI_Win_unlock(0, win);
    CHECK_MSG(got[0] >= 1 && got[0] <= w.size, "the sum is %lld", (long long)got[0]);
    win_end("accumulate");
}

/* A lock of one word, taken by compare-and-swap, guards a counter that is not atomic. */
static void test_cas(void)
{
    const int64_t open = -1;
    int64_t me = w.rank, found, count;

    win_begin();
    if (w.rank == 0)
        base[1] = open;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < ROUNDS; i++) {
        do {
            MPI_Compare_and_swap(&me, &open, &found, MPI_INT64_T, 0, 1, win);
            MPI_Win_flush(0, win);
        } while (found != open);
        MPI_Get(&count, 1, MPI_INT64_T, 0, n_words - 1, 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        count++;
        MPI_Put(&count, 1, MPI_INT64_T, 0, n_words - 1, 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        MPI_Compare_and_swap(&open, &me, &found, MPI_INT64_T, 0, 1, win);
        MPI_Win_flush(0, win);
        CHECK_MSG(found == me, "the lock of rank %d belongs to %lld", w.rank, (long long)found);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_MSG(w.rank != 0 || base[n_words - 1] == (int64_t)ROUNDS * w.size, "%lld increments",
              (long long)base[n_words - 1]);
    win_end("cas");
}

/* Tickets: every number is drawn once. */
static void test_fetch_and_op(void)
{
    const int64_t one = 1;
    int64_t ticket, mark = w.rank + 1, old;

    win_begin();
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Fetch_and_op(&one, &ticket, MPI_INT64_T, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        CHECK_MSG(ticket >= 0 && ticket < (int64_t)ROUNDS * w.size, "ticket %lld",
                  (long long)ticket);
        MPI_Fetch_and_op(&mark, &old, MPI_INT64_T, w.size - 1, 1 + ticket * 7, MPI_REPLACE, win);
        MPI_Win_flush(w.size - 1, win);
        CHECK_MSG(old == 0, "ticket %lld was drawn by rank %lld too", (long long)ticket,
                  (long long)old - 1);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w.rank, 0, win);
    for (int i = 0, seen[64] = {0}; w.rank == w.size - 1 && i < ROUNDS * w.size; i++) {
        int64_t who = base[1 + i * 7];

        CHECK_MSG(who >= 1 && who <= w.size && ++seen[who - 1] <= ROUNDS, "ticket %d: %lld", i,
                  (long long)who);
        base[1 + i * 7] = 1; /* who drew it depends on time; the digest must not */
    }
    MPI_Win_unlock(w.rank, win);
    win_end("fetch_op");
}

/* Loads and stores into the segments of others, with and without gaps between them. */
static void test_shared(const char *name, const char *more, int64_t words)
{
    char text[4096];
    int64_t *mine, *theirs, *next = NULL;
    MPI_Info info;
    MPI_Aint bytes;
    MPI_Win shared;
    int unit;

    snprintf(text, sizeof(text), "%s;%s", hints, more);
    info = info_of(text);
    MPI_Win_allocate_shared((MPI_Aint)(words * 8), 8, info, MPI_COMM_WORLD, &mine, &shared);
    MPI_Info_free(&info);
    CHECK_MSG(flavor_of(shared) == MPI_WIN_FLAVOR_SHARED, "flavor %d", flavor_of(shared));
    CHECK_MSG(!on_storage() || strcmp(hint_of(shared, "alloc_type"), "storage") == 0,
              "not on storage");
    memset(mine, 0, (size_t)words * 8);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, shared);
    for (int r = 0; r < w.size; r++) {
        MPI_Win_shared_query(shared, r, &bytes, &unit, &theirs);
        CHECK_MSG(bytes == (MPI_Aint)(words * 8) && unit == 8, "rank %d: %lld bytes in units of %d",
                  r, (long long)bytes, unit);
        CHECK_MSG(r != w.rank || theirs == mine, "the own segment is elsewhere");
        CHECK_MSG(*more || !next || theirs == next, "segments are not one after the other");
        next = theirs + words;
    }
    MPI_Win_shared_query(shared, MPI_PROC_NULL, &bytes, &unit, &theirs);
    MPI_Win_sync(shared);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(shared);
    for (int r = 0; r < w.size; r++) { /* each rank stores into a stripe of every segment */
        MPI_Win_shared_query(shared, r, &bytes, &unit, &theirs);
        for (int64_t i = w.rank; i < words; i += w.size)
            theirs[i] = r * 1000000 + i;
    }
    MPI_Win_sync(shared);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(shared);
    for (int64_t i = 0; i < words; i++)
        CHECK_MSG(mine[i] == w.rank * 1000000 + i, "word %lld is %lld", (long long)i,
                  (long long)mine[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS; i++) { /* one-sided operations see the same memory */
        const int64_t one = 1;
        int64_t old;

        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, words - 1, MPI_SUM, shared);
        MPI_Win_flush(0, shared);
    }
    MPI_Win_sync(shared);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(shared);
    MPI_Win_shared_query(shared, 0, &bytes, &unit, &theirs);
    CHECK_MSG(theirs[words - 1] == words - 1 + (int64_t)ROUNDS * w.size, "the sum is %lld",
              (long long)theirs[words - 1]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(shared);
    digest(name, mine, (size_t)words * 8);
    MPI_Win_free(&shared);
}

/* Memory that is attached and detached during the window's life; messages carry its addresses. */
static void test_dynamic(void)
{
    MPI_Info info = info_of(hints);
    MPI_Aint mine, theirs;
    MPI_Win dynamic;
    int64_t value, *memory;
    int to = (w.rank + 1) % w.size, from = (w.rank + w.size - 1) % w.size;

    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
    CHECK_MSG(flavor_of(dynamic) == MPI_WIN_FLAVOR_DYNAMIC, "flavor %d", flavor_of(dynamic));
    for (int round = 0; round < 2; round++) {
        MPI_Alloc_mem(BYTES, info, &memory);
        memset(memory, 0, (size_t)BYTES);
        MPI_Win_attach(dynamic, memory, BYTES);
        MPI_Get_address(memory, &mine);
        MPI_Sendrecv(&mine, 1, MPI_AINT, from, 0, &theirs, 1, MPI_AINT, to, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Win_lock_all(0, dynamic);
        for (int i = 0; i < 5; i++) {
            value = w.rank + i * 10 + round;
            MPI_Put(&value, 1, MPI_INT64_T, to, MPI_Aint_add(theirs, (n_words - 1) / 5 * i * 8), 1,
                    MPI_INT64_T, dynamic);
        }
        MPI_Win_flush(to, dynamic);
        MPI_Accumulate(&value, 1, MPI_INT64_T, to, MPI_Aint_add(theirs, BYTES - 8), 1, MPI_INT64_T,
                       MPI_SUM, dynamic);
        MPI_Win_flush(to, dynamic);
        MPI_Get(&value, 1, MPI_INT64_T, to, MPI_Aint_add(theirs, BYTES - 8), 1, MPI_INT64_T,
                dynamic);
        MPI_Win_flush(to, dynamic);
        CHECK_MSG(value == w.rank + 40 + round, "%lld", (long long)value);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(dynamic);
        for (int i = 0; i < 5; i++)
            CHECK_MSG(memory[(n_words - 1) / 5 * i] == from + i * 10 + round, "place %d: %lld", i,
                      (long long)memory[(n_words - 1) / 5 * i]);
        MPI_Win_unlock_all(dynamic);
        digest("dynamic", memory, (size_t)BYTES);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_detach(dynamic, memory);
        MPI_Free_mem(memory);
    }
    MPI_Info_free(&info);
    MPI_Win_free(&dynamic);
}

/* The attributes and info of a window. */
static void test_attributes(void)
{
    void *found_base = NULL;
    MPI_Aint *size = NULL;
    int *unit = NULL, *model = NULL, flag = 0;

    win_begin();
    CHECK_MSG(flavor_of(win) == MPI_WIN_FLAVOR_ALLOCATE, "flavor %d", flavor_of(win));
    MPI_Win_get_attr(win, MPI_WIN_BASE, &found_base, &flag);
    CHECK_MSG(flag && found_base == base, "base %p, expected %p", found_base, (void *)base);
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag);
    CHECK_MSG(flag && *size == BYTES, "size %lld", (long long)*size);
    MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag);
    CHECK_MSG(flag && *unit == 8, "displacement unit %d", *unit);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag);
    CHECK_MSG(flag && (*model == MPI_WIN_UNIFIED || *model == MPI_WIN_SEPARATE), "model %d",
              *model);
    CHECK_MSG(!on_storage() || strcmp(hint_of(win, "alloc_type"), "storage") == 0,
              "alloc_type is '%s'", hint_of(win, "alloc_type"));
    win_end("attributes");
}

/* Windows of no bytes on some ranks, and of one. */
static void test_sizes(void)
{
    MPI_Info info = info_of(hints);
    unsigned char *bytes, value = (unsigned char)(w.rank + 1);

    for (int most = 0; most < 2; most++) {
        MPI_Aint n = w.rank == 0 ? most : 0;

        MPI_Win_allocate(n, 1, info, MPI_COMM_WORLD, &bytes, &win);
        if (n)
            bytes[0] = 0;
        MPI_Win_fence(0, win);
        if (most)
            MPI_Accumulate(&value, 1, MPI_UNSIGNED_CHAR, 0, 0, 1, MPI_UNSIGNED_CHAR, MPI_SUM, win);
        MPI_Win_fence(0, win);
        CHECK_MSG(!n || bytes[0] == w.size * (w.size + 1) / 2, "the byte is %d", bytes[0]);
        MPI_Win_free(&win);
    }
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    w = world_start(&argc, &argv);
    if (argc > 1 && strcmp(argv[1], "--odd") == 0) {
        n_words = MAX_WORDS;
        argc--;
        argv++;
    }
    hints = argc > 1 ? argv[1] : "";
    test_lock();
    test_flush();
    test_fence();
    test_pscw();
    test_accumulate();
    test_cas();
    test_fetch_and_op();
    test_shared("shared", "", 2 * PAGE / 8);
    test_shared("noncontig", "alloc_shared_noncontig=true", n_words);
    test_dynamic();
    test_attributes();
    test_sizes();
    return world_end(&w, "onesided");
}
