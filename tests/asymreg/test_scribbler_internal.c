/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * [ROUNDS [SEED]]: two peers exchange data with each other and with a third, which keeps writing
 * nonsense into all memory of the library that it can map: its own published table, and the others'
 * memory that their descriptors make writable. The two never crash or hang, data between their
 * private memory is never wrong, and an operation on the third returns a result or an error that
 * names it.
 */
#define _GNU_SOURCE
#include "targets.h"

#include <asymreg.h>
#include <dirent.h>
#include <sched.h>
#include <sys/stat.h>

#include "../../libasymreg/src/rma/activity.h"
#include "../../libasymreg/src/table/table.h"

enum { N = 3, SCRIBBLER = 2, BYTES = 8192, MAX_BLOCKS = 64, WORDS_A_ROUND = 200 };

/* What the processes share. */
static struct board {
    pid_t pids[N];
    struct {
        unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
        size_t bytes;
        uint64_t private, shared; /* addresses of regions of BYTES */
    } at[N];
    int published, ready, done, stop;
    uint64_t written, of_others; /* by the scribbler: times; blocks of others that it maps */
    uint64_t refused[N];         /* by the others: operations on the scribbler's memory */
    uint64_t contradicted[N];    /* of these: its table contradicted itself */
} * board;

static uint64_t random_state;

static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void wait_for(const int *what, int value)
{
    while (__atomic_load_n(what, __ATOMIC_ACQUIRE) < value)
        usleep(1000);
}

/* A context with memory of both kinds, whose addresses are on the board. */
static struct asymreg_context *publish(int me)
{
    struct asymreg_context *c = open_context(0, ASYMREG_DRAIN, 2000);
    char *private = calloc(1, BYTES);
    void *shared;
    ssize_t n;

    CHECK(private);
    CHECK_EQ(asymreg_segment_alloc(c, BYTES, &shared, NULL), 0);
    CHECK_EQ(asymreg_register(c, private, BYTES, ASYMREG_RW, NULL, NULL, NULL), 0);
    CHECK_EQ(asymreg_register(c, shared, BYTES, ASYMREG_ALL, NULL, NULL, NULL), 0);
    n = asymreg_export(c, board->at[me].blob, ASYMREG_MAX_BLOB_BYTES, NULL);
    CHECK(n > 0);
    board->at[me].bytes = (size_t)n;
    board->at[me].private = (uintptr_t) private;
    board->at[me].shared = (uintptr_t)shared;
    __atomic_fetch_add(&board->published, 1, __ATOMIC_ACQ_REL);
    wait_for(&board->published, N);
    return c;
}

/* ---- the scribbler ---- */

static struct block {
    uint64_t *words, *were; /* were: what stood there first */
    size_t n;
} blocks[MAX_BLOCKS];
static int n_blocks;

static void add_block(void *p, size_t bytes)
{
    struct block b = {.words = p, .were = malloc(bytes), .n = bytes / sizeof(uint64_t)};

    CHECK(b.were && n_blocks < MAX_BLOCKS);
    memcpy(b.were, p, bytes);
    blocks[n_blocks++] = b;
}

/* The library's memory that this process has mapped for writing. */
static void find_own(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned long start, end;
    char line[512];

    CHECK(f);
    while (fgets(line, sizeof(line), f))
        if (strstr(line, "/memfd:asymreg") && sscanf(line, "%lx-%lx rw-s", &start, &end) == 2 &&
            strstr(line, " rw-s "))
            add_block((void *)start, end - start); // NOLINT: as the kernel writes it
    fclose(f);
}

/* Another process's memory that can be mapped for writing. */
static void find_others(pid_t pid)
{
    char path[64], name[512], link[256];
    struct dirent *e;
    struct stat st;
    ssize_t n;
    void *p;
    DIR *d;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    CHECK((d = opendir(path)));
    while ((e = readdir(d))) {
        snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        n = readlink(name, link, sizeof(link) - 1);
        if (n < 0 || (link[n] = '\0', strncmp(link, "/memfd:asymreg", 14)) != 0 ||
            (fd = open(name, O_RDWR | O_CLOEXEC)) < 0)
            continue;
        CHECK_EQ(fstat(fd, &st), 0);
        p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (p == MAP_FAILED)
            continue;
        add_block(p, (size_t)st.st_size);
        board->of_others++;
    }
    closedir(d);
}

/* Random words, plausible words, and words copied from elsewhere. */
static uint64_t nonsense(const struct block *b, uint64_t was)
{
    switch (random_number() % 8) {
    case 0: return random_number();
    case 1: return random_number() % 256;
    case 2: return was + 1;
    case 3: return was ^ UINT64_C(1) << random_number() % 64;
    case 4: return b->words[random_number() % b->n];
    case 5: return b->words[random_number() % (b->n < 64 ? b->n : 64)];
    case 6: return (uint64_t)board->pids[random_number() % N] << 32;
    default: return 0;
    }
}

static void write_words(void)
{
    const struct block *b = &blocks[random_number() % (uint64_t)n_blocks];
    /* Half of the writes go to the beginning, where the important fields are. */
    size_t most = random_number() % 2 && b->n > 512 ? 512 : b->n;
    uint64_t *word = &b->words[random_number() % most];

    __atomic_store_n(word, nonsense(b, *word), __ATOMIC_RELAXED);
}

/* A number that should be below `end`: at its edge, beyond it, or random. */
static uint32_t number_below(uint32_t end)
{
    const uint32_t some[] = {0, 1, 2, end / 2, end - 1, end, end + 1, (uint32_t)random_number()};

    return some[random_number() % 8];
}

/* A plausible slot of our own table. */
static struct asymreg__slot some_slot(const struct asymreg__header *h)
{
    static uint32_t generation = 100;
    const uint64_t where[] = {board->at[SCRIBBLER].private, board->at[SCRIBBLER].shared,
                              random_number(), UINT64_MAX - random_number() % 4};
    const uint64_t lengths[] = {BYTES, random_number() % BYTES, random_number(), 0};
    struct asymreg__slot s = {.start = where[random_number() % 4],
                              .generation = generation += 1 + (uint32_t)(random_number() % 2),
                              .prot = random_number() % 4 ? ASYMREG_ALL
                                                          : (uint32_t)(random_number() % 16)};

    s.last = s.start + lengths[random_number() % 4] - 1;
    s.value = (random_number() % 4 ? UINT64_C(1) << 32 : random_number() << 32) |
              number_below(random_number() % 2 ? 3 : h->max_segments);
    return s;
}

/* Changes of our own table that peers accept as its owner's: their counters are right. */
static void lie(struct asymreg__header *h)
{
    struct asymreg__slot s = some_slot(h);
    uint64_t tail = h->log.log_tail;
    uint32_t slot = number_below(h->max_regions), n = number_below(h->max_regions);
    char *base = (char *)h;

    switch (random_number() % 8) {
    default: { /* by the log */
        struct asymreg__record *r =
            (struct asymreg__record *)(void *)(base + h->ring_at) + (tail & (h->ring - 1));
        r->slot = random_number() % 2 ? slot : (uint32_t)(random_number() % 64);
        r->content = s;
        r->sequence = tail + 1;
        atomic_store_explicit(&h->log.log_tail, tail + 1, memory_order_release);
        break;
    }
    case 0: /* by a leaf, which peers must read since the log has run past them */
        slot %= h->max_regions;
        ((struct asymreg__slot *)(void *)(base + h->slots_at))[slot] = s;
        ((uint64_t *)(void *)(base + h->leaves_at))[slot / ASYMREG__LEAF_SLOTS] +=
            random_number() % 4 ? 2 : 1;
        atomic_store_explicit(&h->log.log_tail, tail + h->ring + 1, memory_order_release);
        atomic_store_explicit(&h->log.log_head, tail + h->ring + 1, memory_order_release);
        break;
    case 1: atomic_store_explicit(&h->log.n_slots, n, memory_order_relaxed); break;
    case 2: { /* a segment */
        uint64_t *segment =
            (uint64_t *)(void *)(base + h->segments_at + random_number() % 3 * h->segment_bytes);
        segment[random_number() % 8] = random_number() % 2 ? s.start : nonsense(&blocks[0], s.last);
        break;
    }
    }
}

/* The marks of peers inside an owner's memory. */
static void lie_of_activity(struct asymreg__activity *a)
{
    struct asymreg__activity_slot *s = &a->slots[random_number() % 8];

    if (random_number() % 4 == 0)
        atomic_store_explicit(&a->n_used, number_below(ASYMREG__ACTIVITY_SLOTS),
                              memory_order_relaxed);
    s->process = (uint64_t)board->pids[random_number() % N] << 32;
    s->busy = random_number() % 4;
}

static void scribble(void)
{
    publish(SCRIBBLER);
    find_own();
    CHECK(n_blocks >= 3); /* table, activity, segment */
    for (int i = 0; i < SCRIBBLER; i++)
        find_others(board->pids[i]);
    wait_for(&board->ready, SCRIBBLER);
    for (int lies = 0; !__atomic_load_n(&board->stop, __ATOMIC_ACQUIRE);) {
        for (int i = 0; i < n_blocks && board->written % 1024 == 0; i++) /* all is well again */
            memcpy(blocks[i].words, blocks[i].were, blocks[i].n * sizeof(*blocks[i].words));
        if (board->written % 1024 == 0)
            lies = random_number() % 4 != 0;
        if (!lies)
            write_words();
        for (int i = 0; lies && i < n_blocks; i++) {
            if (*blocks[i].were == TABLE_MAGIC)
                lie((struct asymreg__header *)(void *)blocks[i].words);
            else if (blocks[i].n * 8 >= sizeof(struct asymreg__activity))
                lie_of_activity((struct asymreg__activity *)(void *)blocks[i].words);
        }
        __atomic_fetch_add(&board->written, 1, __ATOMIC_RELAXED);
        if (random_number() % 128 == 0)
            sched_yield();
    }
    _exit(0);
}

/* ---- the two others ---- */

static struct asymreg_context *ctx;
static struct asymreg_worker *worker;
static int me;

/* Every code that an operation or import may have. */
static int is_defined(int rc)
{
    return rc >= 0 || (rc <= ASYMREG_ENOREGION && rc >= ASYMREG_ETIMEDOUT) || rc == -ENOMEM ||
           rc == -EEXIST;
}

/* After an operation on the scribbler's memory: its error names it. */
static void judge(int rc, uint64_t addr)
{
    struct asymreg_error err = {.code = 0};

    CHECK(is_defined(rc));
    if (rc >= 0)
        return;
    board->refused[me]++;
    board->contradicted[me] += rc == ASYMREG_ETABLE;
    rc = asymreg_resolve(worker, SCRIBBLER, addr, ASYMREG_ANY, 8, ASYMREG_RW, NULL, &err);
    CHECK(is_defined(rc));
    if (rc < 0) {
        CHECK_EQ(err.code, rc);
        CHECK_EQ(err.pe, SCRIBBLER);
        CHECK(err.text[0] != '\0' && strcmp(err.text, "unknown error code") != 0);
    }
}

/* Anew, or where the last import has failed. */
static void import(int pe, int anew)
{
    struct asymreg_error err = {.code = 0};
    int rc = anew ? asymreg_forget(ctx, (uint32_t)pe) : 0;

    CHECK(rc == 0 || rc == ASYMREG_ENOPEER);
    rc = asymreg_import(ctx, (uint32_t)pe, board->at[pe].blob, board->at[pe].bytes, &err);
    CHECK(is_defined(rc));
    if (rc < 0) {
        CHECK_EQ(err.code, rc);
        CHECK_EQ(err.pe, (uint32_t)pe);
        CHECK(err.text[0] != '\0');
    }
}

/* Every kind of operation on regions that the scribbler once registered. */
static void with_the_scribbler(uint64_t round)
{
    uint64_t addr[] = {board->at[SCRIBBLER].private, board->at[SCRIBBLER].shared}, value = round;
    struct asymreg_bound bound;
    char buf[256] = "";

    for (int i = 0; i < 2; i++) {
        uint64_t at = addr[i] + 8 * (round % 32);
        judge(asymreg_put(worker, SCRIBBLER, at, ASYMREG_ANY, buf, 64), at);
        judge(asymreg_get(worker, SCRIBBLER, at, ASYMREG_ANY, buf, sizeof(buf)), at);
        judge(asymreg_put_nb(worker, SCRIBBLER, at, ASYMREG_ANY, buf, 64, NULL), at);
        judge(asymreg_flush(worker, SCRIBBLER), at);
        judge(
            asymreg_amo(worker, SCRIBBLER, at, ASYMREG_ANY, ASYMREG_AMO_FETCH_ADD, 8, 1, 0, &value),
            at);
        if (asymreg_bind(worker, SCRIBBLER, at, ASYMREG_ANY, 64, &bound) == 0) {
            judge(asymreg_bound_put(&bound, 8, &value, 8), at);
            judge(asymreg_bound_get(&bound, 16, &value, 8), at);
            asymreg_unbind(&bound);
        }
    }
    judge(asymreg_refresh(ctx, SCRIBBLER), addr[0]);
}

/* A put into the other's private memory reads back. Its activity slots may all be taken, or their
 * header destroyed: then the operation reports that, and has no effect. */
static uint64_t with_the_other(uint64_t round)
{
    int other = 1 - me;
    uint64_t at = board->at[other].private + 512 * (round % 8), out[32], in[32];
    int rc;

    for (int i = 0; i < 32; i++)
        out[i] = in[31 - i] = round * 1000003 + (uint64_t)i;
    rc = asymreg_put(worker, (uint32_t)other, at, ASYMREG_ANY, out, sizeof(out));
    if (rc == 0)
        rc = asymreg_get(worker, (uint32_t)other, at, ASYMREG_ANY, in, sizeof(in));
    if (rc < 0) {
        CHECK(rc == ASYMREG_ENOPEER || rc == ASYMREG_EFULL);
        return 0;
    }
    CHECK(memcmp(in, out, sizeof(in)) == 0);
    return 1;
}

static void work(uint64_t rounds)
{
    static char memory[4096];
    uint64_t worked = 0, written;
    asymreg_id id;
    int rc;

    ctx = publish(me);
    CHECK_EQ(asymreg_worker_create(ctx, &worker), 0);
    import(1 - me, 0);
    import(SCRIBBLER, 0);
    CHECK_EQ(with_the_other(0), 1);
    __atomic_fetch_add(&board->ready, 1, __ATOMIC_ACQ_REL);
    for (uint64_t round = 0; round < rounds; round++) {
        alarm(60); /* nothing waits without end */
        /* Counted from here: on a busy machine the scribbler would be far ahead, then not run. */
        written = __atomic_load_n(&board->written, __ATOMIC_RELAXED);
        while (__atomic_load_n(&board->written, __ATOMIC_RELAXED) < written + WORDS_A_ROUND)
            sched_yield();
        CHECK_EQ(asymreg_register(ctx, memory, sizeof(memory), ASYMREG_RW, NULL, &id, NULL), 0);
        with_the_scribbler(round);
        worked += with_the_other(round);
        rc = round % 4 ? asymreg_unregister(ctx, id) : asymreg_unregister_drain(ctx, id, 20, NULL);
        CHECK(rc == 0 || rc == ASYMREG_ETIMEDOUT);
        import(SCRIBBLER, round % 4 == 0);
        import(1 - me, round % 16 == 0);
    }
    CHECK(worked > 0);
    __atomic_fetch_add(&board->done, 1, __ATOMIC_ACQ_REL);
    wait_for(&board->done, SCRIBBLER); /* the other needs this one until then */
    asymreg_worker_destroy(worker);
    asymreg_close(ctx);
    _exit(0);
}

int main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 300,
             seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int status;

    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED);
    for (me = 0; me < N; me++) {
        random_state = UINT64_C(88172645463325252) * (2 * seed + 1);
        if ((board->pids[me] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            board->pids[me] = getpid();
            if (me == SCRIBBLER)
                scribble();
            work(rounds);
        }
        CHECK(board->pids[me] > 0);
    }
    for (int i = 0; i < SCRIBBLER; i++) {
        CHECK(waitpid(board->pids[i], &status, 0) == board->pids[i]);
        if (status != 0)
            fprintf(stderr, "peer %d: status %d, signal %d\n", i, WEXITSTATUS(status),
                    WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        CHECK_EQ(status, 0);
    }
    board->stop = 1;
    CHECK(waitpid(board->pids[SCRIBBLER], &status, 0) > 0);
    CHECK_EQ(status, 0);
    printf("%llu writes into its own and %llu blocks of others'; refused %llu and %llu operations, "
           "%llu and %llu for a table that contradicts itself\n",
           (unsigned long long)board->written, (unsigned long long)board->of_others,
           (unsigned long long)board->refused[0], (unsigned long long)board->refused[1],
           (unsigned long long)board->contradicted[0], (unsigned long long)board->contradicted[1]);
    CHECK(board->of_others >= 4); /* of each the memory for activity, and a segment */
    CHECK(board->contradicted[0] > 0 && board->contradicted[1] > 0);
    return 0;
}
