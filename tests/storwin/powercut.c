/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * powercut: commits on a disk whose power is cut. powercut.sh runs it on both sides of a QEMU
 * guest.
 *
 *   powercut write NAME HOW DEVICE [FILE]
 *       in the guest: restores the state, which must be no older than the last acknowledged one in
 *       the disk's mark, and then commits without end, on the device or in FILE of the file system
 *       on it. After each commit it puts the generation into the mark and prints "NAME GENERATION".
 *       Now and then it is killed, before a sync or anywhere, and restores again. HOW: journal,
 *       slots, or careless: a journal without any flush.
 *   powercut sweep KIND IMAGE LOG OUT CUTS NTH SEED
 *       on the host: IMAGE is the disk's earlier state, LOG the guest's writes and flushes since,
 *       from QEMU's blklogwrites. For CUTS random points of it, before and behind each NTH flush
 *       (0: none), and at the end, it makes a disk that a power cut there may leave: all writes
 *       before the last flush, any part of the later ones. The commit that the mark before the cut
 *       acknowledges must restore bit for bit. KIND: raw, ext4, or careless: raw, and a commit must
 *       be lost. OUT receives the disk cut at the end, with its mark.
 *   powercut check KIND IMAGE ACKNOWLEDGED
 *       on the host: the same for one disk, unchanged.
 *
 * The mark is written like data, past the page cache and without a flush, so that in the log it
 * follows its generation's flush. It is in the last MARK_BYTES of a disk, the commits are at the
 * beginning.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "storwin_test.h"

#define STATE      (UINT32_C(1) << 17)
#define MARK_BYTES UINT64_C(65536)
#define MARK_MAGIC UINT64_C(0x6b72616d74756370)
#define LOG_MAGIC  UINT64_C(0x6a736677736872)
#define LOG_FLUSH  1u
#define LOG_FUA    2u
#define SHORT_MS   30

struct mark {
    uint64_t magic, generation;
};

struct entry {
    uint64_t at, bytes, flags; /* in the image */
    const uint8_t *data;
};

static bool careless;
static uint64_t rng, dies_in; /* a writer dies before so manyth a sync; 0: never */
static uint64_t *commits;     /* of all writers; in memory that they share */

static void sync_begins(void)
{
    if (dies_in > 0 && --dies_in == 0)
        raise(SIGKILL);
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    sync_begins();
    return careless ? 0 : __real_fdatasync(fd);
}

static uint64_t end_of(int fd)
{
    off_t end = lseek(fd, 0, SEEK_END);

    CHECK(end > (off_t)MARK_BYTES);
    return (uint64_t)end;
}

/* Returns the restored generation, checked whole; 0 if there is none. */
static uint64_t restored(const struct storwin_window *win)
{
    static uint8_t want[STATE];
    const uint64_t generation = window_generation(win);

    if (generation > 0) {
        test_state(generation, want, STATE);
        CHECK(memcmp(storwin_base(win), want, STATE) == 0);
    }
    return generation;
}

/* Commits until it is killed. */
static void writer(const char *name, const char *how, const char *device, const char *file)
{
    static union {
        struct mark mark;
        uint8_t block[4096];
    } m __attribute__((aligned(4096)));
    const int fd = open(device, O_RDWR | O_DIRECT | O_CLOEXEC);
    struct storwin_window *win;
    uint64_t at, g;
    char line[64];

    CHECK(fd >= 0);
    careless = strcmp(how, "careless") == 0;
    at = end_of(fd) - MARK_BYTES;
    CHECK(pread(fd, &m, sizeof(m), (off_t)at) == (ssize_t)sizeof(m));
    win = test_commit_open(
        file ? file : device,
        strcmp(how, "slots") == 0 ? STORWIN_ATOMIC_SLOTS : STORWIN_ATOMIC_JOURNAL, 0, STATE);
    CHECK(win != NULL);
    g = restored(win);
    CHECK(m.mark.magic != MARK_MAGIC || g == m.mark.generation || g == m.mark.generation + 1);
    for (int first = 1;; first = 0) {
        int n;

        if (!first) {
            test_state(++g, storwin_base(win), STATE);
            CHECK(storwin_commit(win, NULL) == 0);
            ++*commits;
        }
        /* what was restored counts as committed: the program continues from it */
        m.mark.magic = MARK_MAGIC;
        m.mark.generation = g;
        CHECK(pwrite(fd, &m, sizeof(m), (off_t)at) == (ssize_t)sizeof(m));
        n = snprintf(line, sizeof(line), "%s %s%llu\n", name, first ? "restored " : "",
                     (unsigned long long)g);
        CHECK(write(1, line, (size_t)n) == n);
    }
}

/* The writer is killed now and then, or dies while its last writes are only in the page cache; then
 * another one starts. On a slow machine a short life is over before a commit: so the next life may
 * be longer, until there is one. */
static int write_commits(char **argv)
{
    long longest_ms = SHORT_MS; /* of the 20 parts of a life */

    rng = (uint64_t)getpid() * 2654435761u | 1;
    commits =
        mmap(NULL, sizeof(*commits), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(commits != MAP_FAILED);
    for (;;) {
        long ms = (long)(test_random(&rng) % (uint64_t)longest_ms);
        struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
        const uint64_t before = *commits;
        int status, dead = 0;
        pid_t pid;

        dies_in = test_random(&rng) % 4 ? test_random(&rng) % 20 + 1 : 0;
        pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            writer(argv[2], argv[3], argv[4], argv[5]);
        for (int i = 0; i < 20 && !dead; i++) {
            nanosleep(&pause, NULL);
            dead = waitpid(pid, &status, WNOHANG) == pid;
        }
        if (!dead) {
            kill(pid, SIGKILL);
            CHECK(waitpid(pid, &status, 0) == pid);
        }
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (*commits > before)
            longest_ms = SHORT_MS;
        else if (longest_ms < 2000)
            longest_ms *= 2;
    }
}

/* Writes the image, and restores the newest commit from it. False: none, or older than the
 * acknowledged one. */
static bool survives(const char *kind, const uint8_t *image, uint64_t bytes, uint64_t acknowledged,
                     unsigned round)
{
    const bool ext4 = strcmp(kind, "ext4") == 0;
    struct storwin_window *win;
    uint64_t g;

    (void)unlink("cut.img");
    (void)unlink("cut.state");
    write_file("cut.img", 0, image, bytes);
    if (ext4) { /* as mounting it would: the journal is replayed */
        int status = system("e2fsck -fp cut.img > cut.fsck 2>&1");

        CHECK(WIFEXITED(status));
        if (WEXITSTATUS(status) > 1) {
            fprintf(stderr, "the file system is damaged:\n");
            (void)!system("cat cut.fsck >&2");
            return false;
        }
        CHECK(system("debugfs -R 'dump /state cut.state' cut.img > cut.fsck 2>&1") == 0);
        if (access("cut.state", R_OK) < 0)
            return acknowledged == 0;
    }
    win = test_commit_open(ext4 ? "cut.state" : "cut.img", STORWIN_ATOMIC_JOURNAL + round % 3, 0,
                           STATE);
    if (!win)
        return false;
    g = restored(win);
    CHECK(storwin_free(win, NULL) == 0);
    return g == acknowledged || g == acknowledged + 1;
}

static uint8_t *load(const char *path, uint64_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *data;

    CHECK(fd >= 0);
    *bytes = end_of(fd);
    data = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(data != MAP_FAILED);
    close(fd);
    return data;
}

/* The complete entries of a log; an entry that QEMU's end has cut off was never acknowledged. */
static struct entry *load_log(const char *path, uint64_t image_bytes, uint64_t *n_entries)
{
    uint64_t bytes, n = 0, super[3], at;
    const uint8_t *log = load(path, &bytes);
    struct entry *entries;
    uint32_t sector;

    memcpy(super, log, sizeof(super));
    memcpy(&sector, log + sizeof(super), sizeof(sector));
    if (super[0] == 0) /* QEMU writes it with a flush */
        sector = 512;
    else
        CHECK(super[0] == LOG_MAGIC && super[1] == 1 && sector == 512);
    entries = calloc(bytes / sector + 1, sizeof(*entries));
    CHECK(entries != NULL);
    for (at = sector; at + sector <= bytes;) {
        struct entry *e = &entries[n];
        uint64_t raw[4]; /* sector, sectors, flags, bytes of data that are none of the disk's */

        memcpy(raw, log + at, sizeof(raw));
        CHECK(raw[3] == 0 && raw[2] <= (LOG_FLUSH | LOG_FUA));
        if ((raw[1] == 0 && raw[2] == 0) || raw[1] > (bytes - at) / sector - 1)
            break;
        *e = (struct entry){raw[0] * sector, raw[1] * sector, raw[2], log + at + sector};
        CHECK(e->at <= image_bytes && e->bytes <= image_bytes - e->at);
        at += sector + e->bytes;
        n++;
    }
    *n_entries = n;
    return entries;
}

/* A write that was in flight: lost, whole, or any of its units. */
static void apply_some(uint8_t *image, const struct entry *e, uint64_t unit)
{
    const uint64_t how = test_random(&rng) % 4;

    for (uint64_t i = 0; i < e->bytes; i += unit)
        if (how == 1 || (how > 1 && test_random(&rng) % 2))
            memcpy(image + e->at + i, e->data + i, unit < e->bytes - i ? unit : e->bytes - i);
}

static int by_position(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static uint64_t acknowledged_by(const uint8_t *image, uint64_t bytes)
{
    struct mark m;

    memcpy(&m, image + bytes - MARK_BYTES, sizeof(m));
    return m.magic == MARK_MAGIC ? m.generation : 0;
}

/* The number of the log's entries that have begun at each cut; the last cut is its end. */
static uint64_t *choose_cuts(const struct entry *entries, uint64_t n, unsigned n_random,
                             uint64_t nth, uint64_t *n_cuts)
{
    uint64_t *cuts = calloc(n_random + 2 * n + 1, sizeof(*cuts)), n_flushes = 0, k = 0;

    CHECK(cuts != NULL);
    while (k < n_random)
        cuts[k++] = test_random(&rng) % n;
    for (uint64_t i = 0; i < n; i++)
        if (entries[i].flags & LOG_FLUSH && nth > 0 && n_flushes++ % nth == 0) {
            cuts[k++] = i;
            cuts[k++] = i + 1;
        }
    cuts[k++] = n;
    qsort(cuts, k, sizeof(*cuts), by_position);
    *n_cuts = k;
    return cuts;
}

static int sweep(const char *kind, const char *before, const char *log, const char *out,
                 unsigned n_random, uint64_t nth)
{
    /* A file system's blocks are never torn, as on disks with sectors of 4 KiB, which ext4 relies
     * on; the library does not. */
    const uint64_t unit = strcmp(kind, "ext4") == 0 ? 4096 : 512;
    uint64_t bytes, n, done = 0, flushed = 0, n_flushes = 0, in_doubt = 0, lost = 0, acknowledged;
    uint8_t *durable = load(before, &bytes), *image = malloc(bytes), *latest = malloc(MARK_BYTES);
    struct entry *entries = load_log(log, bytes, &n);
    uint64_t *cuts, n_cuts;

    CHECK(image && latest);
    CHECK(n > 0);
    cuts = choose_cuts(entries, n, n_random, nth, &n_cuts);
    memcpy(latest, durable + bytes - MARK_BYTES, MARK_BYTES);
    for (uint64_t i = 0; i < n_cuts; i++) {
        for (; done < cuts[i]; done++) { /* what is durable at the cut: all before the last flush */
            const struct entry *e = &entries[done];

            if (e->bytes > 0 && e->at == bytes - MARK_BYTES)
                memcpy(latest, e->data, e->bytes < MARK_BYTES ? e->bytes : MARK_BYTES);
            if (e->flags & LOG_FLUSH) {
                n_flushes++;
                for (; flushed < done; flushed++)
                    memcpy(durable + entries[flushed].at, entries[flushed].data,
                           entries[flushed].bytes);
            }
        }
        memcpy(image, durable, bytes);
        for (uint64_t k = flushed; k < done; k++)
            apply_some(image, &entries[k], unit);
        in_doubt += done - flushed;
        memcpy(image + bytes - MARK_BYTES, latest, MARK_BYTES); /* it is not the library's */
        acknowledged = acknowledged_by(image, bytes);
        if (!survives(kind, image, bytes, acknowledged, (unsigned)i)) {
            lost++;
            if (strcmp(kind, "careless") != 0)
                fprintf(stderr,
                        "cut after %llu of %llu writes and flushes: generation %llu is lost\n",
                        (unsigned long long)done, (unsigned long long)n,
                        (unsigned long long)acknowledged);
        }
    }
    (void)unlink(out);
    write_file(out, 0, image, bytes);
    printf("%-8s %u random cuts and %llu at flushes, among %llu writes and %llu flushes, %.1f "
           "writes in doubt at each: %llu lost something; %llu generations\n",
           kind, n_random, (unsigned long long)(n_cuts - n_random - 1),
           (unsigned long long)(n - n_flushes), (unsigned long long)n_flushes,
           (double)in_doubt / (double)n_cuts, (unsigned long long)lost,
           (unsigned long long)acknowledged_by(image, bytes));
    return strcmp(kind, "careless") == 0 ? lost == 0 : lost > 0;
}

int main(int argc, char **argv)
{
    uint64_t bytes;

    if (argc >= 5 && strcmp(argv[1], "write") == 0)
        return write_commits(argv);
    if (argc == 9 && strcmp(argv[1], "sweep") == 0) {
        rng = strtoull(argv[8], NULL, 10) * 2654435761u | 1;
        return sweep(argv[2], argv[3], argv[4], argv[5], (unsigned)atoi(argv[6]),
                     strtoull(argv[7], NULL, 10));
    }
    if (argc == 5 && strcmp(argv[1], "check") == 0) {
        const uint8_t *image = load(argv[3], &bytes);

        return !survives(argv[2], image, bytes, strtoull(argv[4], NULL, 10), 0);
    }
    fprintf(stderr, "powercut write|sweep|check ...\n");
    return 2;
}
