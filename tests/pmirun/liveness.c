/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that can no longer complete because a rank is gone: every waiting rank gets an error
 * within pmirun's grace of 1 s and less than another; LIMIT_S allows for busy machines.
 *
 *     liveness rank WIRE COLL DEED WHO BOARD THEN [late]
 *                   Rank WHO does DEED when all others wait in COLL (late: before they enter it),
 *                   the others print the error. WIRE: 1, 2, or mixed: odd ranks 2. COLL:
 *                   fence, gather, ring. DEED: finalize; close its connection; cut: be cut off;
 *                   stall: half a message; early: exit with 0 before init; kill; exit with 7;
 *                   dying: close, and kill when the others have the error. Ranks that survive the
 *                   deed continue. THEN, after the error: leave, finalize; fail, exit with 1; stay,
 *                   continue.
 *     liveness begin BOARD
 *                   Makes the board.
 *     liveness check BOARD SECONDS
 *                   All got the error within this many seconds after the deed, and the deed is no
 *                   longer ago.
 *     liveness random PMIRUN RUNS [SEED]
 *                   RUNS jobs, on one node and on four. In each, a random rank does a random deed
 *                   at a random moment of a long row of collectives: `liveness chain`. After the
 *                   error some ranks leave, some exit with 1, some stay.
 *
 * The board is a file that all ranks of a job map. It holds the time of the deed and, for each
 * rank, since when it waits and how long it has waited.
 */
#define _GNU_SOURCE /* memfd_create() */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_RANKS 64
#define NS        1000000000ull
#define LIMIT_S   20.0
#define STALL_S   0.5 /* --stall-timeout of random runs */
#define TICK_S    0.5 /* how often pmirun looks at it */

enum { FENCE, GATHER, RING, N_COLLS };
enum { FINALIZE, CLOSE, CUT, STALL, EARLY, KILL, EXIT, DYING, N_DEEDS };
static const char *const colls[] = {"fence", "gather", "ring"};
static const char *const deeds[] = {"finalize", "close", "cut",  "stall",
                                    "early",    "kill",  "exit", "dying"};

struct board {
    _Atomic uint64_t deed_ns; /* 0: not done. For a stall, the time when pmirun could notice */
    struct {
        _Atomic uint64_t since_ns; /* waits since then; 0: does not wait */
        _Atomic uint64_t worst_ns; /* longest completed wait, its part after the deed */
        _Atomic uint32_t told;     /* got the error; 2: and has printed it */
        _Atomic uint32_t done;     /* it did not need the lost rank */
        _Atomic uint32_t over;     /* chain: it has done the whole row */
    } rank[MAX_RANKS];
};

static struct board *board;
static int fd = -1, rank, size, wire;
static char text[8192]; /* the answer */
static size_t have;
static char input[8192];

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void fail(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    fprintf(stderr, "liveness: rank %d: ", rank);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(99);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

static void nap(double s)
{
    const struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};

    nanosleep(&t, NULL);
}

static int find(const char *word, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    fail("unknown word %s", word);
}

static struct board *map_board(int file, bool make)
{
    void *p = MAP_FAILED;

    if (file >= 0 && (!make || ftruncate(file, sizeof(struct board)) == 0))
        p = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (p == MAP_FAILED)
        fail("no board: %s", strerror(errno));
    return p;
}

static struct board *open_board(const char *path, bool make)
{
    int file = open(path, (make ? O_CREAT | O_EXCL : 0) | O_RDWR | O_CLOEXEC, 0600);
    struct board *b = map_board(file, make);

    close(file);
    return b;
}

/* ---- a rank: PMI by hand ---- */

static void say(const char *body)
{
    char out[1024];
    size_t n = (size_t)(wire == 2 ? snprintf(out, sizeof(out), "%6zu%s", strlen(body), body)
                                  : snprintf(out, sizeof(out), "%s\n", body));

    if (send(fd, out, n, MSG_NOSIGNAL) != (ssize_t)n)
        fail("cannot write \"%s\": %s", body, strerror(errno));
}

/* Bytes of the first whole message in `input`, and of the part before its text; 0: incomplete. */
static size_t whole(size_t *head)
{
    const char *nl;
    size_t n;

    if (wire == 2) {
        char digits[7] = "";

        memcpy(digits, input, 6);
        *head = 6;
        n = 6 + (size_t)strtoul(digits, NULL, 10);
        return have >= 6 && have >= n ? n : 0;
    }
    *head = 0;
    nl = memchr(input, '\n', have);
    return nl ? (size_t)(nl - input) + 1 : 0;
}

/* False: the connection has ended. */
static bool hear(void)
{
    size_t n, head;

    while ((n = whole(&head)) == 0) {
        ssize_t got = recv(fd, input + have, sizeof(input) - have, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        have += (size_t)got;
    }
    memcpy(text, input + head, n - head);
    text[n - head - (wire == 1)] = '\0';
    have -= n;
    memmove(input, input + n, have);
    return true;
}

/* The answer's rc; 0 when it has none, as in barrier_out. */
static int rc(void)
{
    const char *p = strstr(text, "rc=");

    return p ? atoi(p + 3) : 0;
}

static void ask(const char *body)
{
    say(body);
    if (!hear() || rc() != 0)
        fail("\"%s\" was answered with \"%s\"", body, text);
}

static void init(void)
{
    char body[256];
    int want = wire;

    wire = 1;
    snprintf(body, sizeof(body), "cmd=init pmi_version=%d pmi_subversion=%d fp-client=1", want,
             want == 1);
    ask(body);
    wire = want;
    if (wire == 2) {
        snprintf(body, sizeof(body), "cmd=fullinit;pmirank=%d;threaded=FALSE;fp-client=1;", rank);
        ask(body);
    }
}

static void finalize(void)
{
    ask(wire == 2 ? "cmd=finalize;" : "cmd=finalize");
}

/* One collective; false when it cannot complete, with the error in `text`. */
static bool collective(int coll, unsigned number)
{
    static const char *const requests[][2] = {
        {"cmd=barrier_in", "cmd=kvs-fence;"},
        {"cmd=barrier_in fp-gather=value-%d-%u", "cmd=kvs-fence;fp-gather=value-%d-%u;"},
        {"cmd=barrier_in fp-ring=value-%d-%u", "cmd=ring;ring-count=1;ring-left=left-%d;"
                                               "ring-right=right-%u;"}};
    uint64_t since = now_ns(), end, deed;
    char body[256];
    bool answered;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(body, sizeof(body), requests[coll][wire == 2], rank, number);
#pragma GCC diagnostic pop
    say(body);
    board->rank[rank].since_ns = since;
    answered = hear();
    end = now_ns();
    board->rank[rank].since_ns = 0;
    deed = board->deed_ns;
    since = since > deed ? since : deed;
    if (deed && end > since && end - since > board->rank[rank].worst_ns)
        board->rank[rank].worst_ns = end - since;
    if (!answered)
        fail("the connection has ended");
    if (rc() == 0)
        return true;
    board->rank[rank].told = 1;
    return false;
}

static void live_on(void) __attribute__((noreturn));
static void live_on(void)
{
    for (;;)
        pause();
}

/* Stays, unless no rank will ever wait for it: the deed came after the last collective. */
static void live_on_while_needed(void) __attribute__((noreturn));
static void live_on_while_needed(void)
{
    int n_over;

    do {
        nap(0.01);
        n_over = 0;
        for (int i = 0; i < size; i++)
            n_over += i != rank && board->rank[i].over;
    } while (n_over < size - 1);
    _exit(0);
}

static bool all_others_printed(void)
{
    for (int i = 0; i < size; i++)
        if (i != rank && board->rank[i].told != 2)
            return false;
    return true;
}

/* The deeds that are possible at any moment, also in a signal handler. */
static void do_deed(int deed)
{
    static char junk[300000];
    const double later = deed == STALL ? STALL_S + TICK_S : 0;

    board->deed_ns = now_ns() + (uint64_t)(later * 1e9);
    board->rank[rank].since_ns = 0; /* it does not wait any longer */
    switch (deed) {
    case CLOSE: close(fd); break;
    case CUT: /* neither a length nor a complete line */
        memset(junk, 'x', sizeof(junk));
        for (size_t at = 0; at < sizeof(junk);) {
            ssize_t n = send(fd, junk + at, sizeof(junk) - at, MSG_NOSIGNAL);

            if (n <= 0)
                break;
            at += (size_t)n;
        }
        break;
    case STALL: send(fd, wire == 2 ? "    20cmd=" : "cmd=put", 7, MSG_NOSIGNAL); break;
    case DYING:
        close(fd);
        /* pmirun's grace, in which it looks for a better cause, is 1 s. */
        while (!all_others_printed() && now_ns() < board->deed_ns + 700000000)
            nap(0.005);
        raise(SIGKILL);
        break;
    case KILL: raise(SIGKILL); break;
    case EARLY: _exit(0);
    case EXIT: _exit(7);
    default: break;
    }
    live_on_while_needed();
}

static void be_gone(int deed)
{
    if (deed == FINALIZE) {
        board->deed_ns = now_ns();
        finalize();
        exit(0);
    }
    do_deed(deed);
}

static bool all_others_wait(void)
{
    for (int i = 0; i < size; i++)
        if (i != rank && !board->rank[i].since_ns && !board->rank[i].done)
            return false;
    return true;
}

static int number_of(const char *name)
{
    const char *v = getenv(name);

    return v ? atoi(v) : -1;
}

static void begin_rank(const char *which, const char *path)
{
    rank = number_of("PMI_RANK");
    size = number_of("PMI_SIZE");
    fd = number_of("PMI_FD");
    if (fd < 0 || rank < 0 || size > MAX_RANKS)
        fail("not started by pmirun, or too many ranks");
    wire = strcmp(which, "mixed") == 0 ? 1 + rank % 2 : atoi(which);
    board = open_board(path, false);
}

static int run_rank(char **argv, bool late)
{
    const int coll = find(argv[3], colls, N_COLLS), deed = find(argv[4], deeds, N_DEEDS);
    const int who = atoi(argv[5]);

    begin_rank(argv[2], argv[6]);
    if (rank == who) {
        if (deed != EARLY)
            init();
        while (!late && !all_others_wait())
            nap(0.005);
        nap(0.05); /* their output is complete */
        be_gone(deed);
    }
    init();
    while (late && !board->deed_ns)
        nap(0.005);
    if (late)
        nap(0.05);
    if (collective(coll, 0)) {
        if (coll != RING)
            fail("the collective is complete: %s", text);
        board->rank[rank].done = 1;
        printf("rank %d: complete\n", rank);
    } else {
        printf("rank %d: %s\n", rank, text);
        fflush(stdout);
        board->rank[rank].told = 2;
    }
    fflush(stdout);
    if (strcmp(argv[7], "stay") == 0)
        live_on();
    if (strcmp(argv[7], "fail") == 0)
        exit(1);
    finalize();
    return 0;
}

/* ---- a rank of a random run ---- */

static uint64_t state;

static uint64_t below(uint64_t n)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

static volatile sig_atomic_t my_deed = -1, due;

static void on_alarm(int sig)
{
    due = 1;
    if (my_deed != FINALIZE && my_deed >= 0)
        do_deed(my_deed);
}

/* liveness chain WIRE SEED DEED WHO US BOARD: the deed is done US microseconds after the start. */
static int run_chain(char **argv)
{
    const int deed = find(argv[4], deeds, N_DEEDS), who = atoi(argv[5]), us = atoi(argv[6]);
    const struct itimerval timer = {.it_value = {us / 1000000, us % 1000000 + 1}};
    uint64_t mood;

    begin_rank(argv[2], argv[7]);
    state = strtoull(argv[3], NULL, 10) * 1000 + (unsigned)rank;
    mood = below(3);
    if (rank == who && deed == EARLY) {
        nap(us / 1e6);
        be_gone(deed);
    }
    init();
    if (rank == who) {
        my_deed = deed;
        signal(SIGALRM, on_alarm);
        setitimer(ITIMER_REAL, &timer, NULL);
    }
    state = strtoull(argv[3], NULL, 10); /* the same row for all */
    for (unsigned i = 0; i < 60; i++) {
        if (!collective((int)below(N_COLLS), i))
            break;
        if (due)
            be_gone(my_deed);
        nap((double)below(5000) / 1e6);
    }
    if (rank == who)
        setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    if (board->rank[rank].told && mood == 0)
        exit(1);
    if (board->rank[rank].told && mood == 1)
        live_on();
    board->rank[rank].over = !board->rank[rank].told;
    finalize();
    return 0;
}

/* ---- the result of a job ---- */

/* NULL, or what is wrong. `end`: when all processes had ended. */
static const char *judge(double limit_s, uint64_t end, bool *told)
{
    static char why[200];
    const uint64_t deed = board->deed_ns, limit = (uint64_t)(limit_s * 1e9);

    *told = false;
    for (int i = 0; i < MAX_RANKS; i++) {
        uint64_t since = board->rank[i].since_ns, worst = board->rank[i].worst_ns;

        *told = *told || board->rank[i].told;
        if (since && deed) { /* it was ended while it waited */
            since = since > deed ? since : deed;
            worst = end > since && end - since > worst ? end - since : worst;
        }
        if (worst > limit) {
            snprintf(why, sizeof(why), "rank %d waited for %.3f s after the deed", i,
                     (double)worst / 1e9);
            return why;
        }
    }
    return NULL;
}

static int run_check(char **argv)
{
    const double limit = atof(argv[3]);
    uint64_t end = now_ns();
    const char *why;
    bool told;

    board = open_board(argv[2], false);
    why = judge(limit, end, &told);
    if (!board->deed_ns)
        why = "the deed was not done";
    else if (!why && end > board->deed_ns + (uint64_t)(limit * 1e9))
        why = "the job did not end in time";
    if (why)
        printf("%s; the deed was %.3f s ago\n", why, ((double)end - (double)board->deed_ns) / 1e9);
    return why != NULL;
}

/* ---- random runs ---- */

static pid_t start(char **argv)
{
    pid_t parent = getpid(), pid = fork();
    int null;

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(126);
    null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    if (!getenv("LIVENESS_VERBOSE"))
        dup2(null, 2);
    execv(argv[0], argv);
    _exit(126);
}

/* Its status, -1: it did not end. */
static int await(pid_t pid, double limit_s)
{
    const uint64_t until = now_ns() + (uint64_t)(limit_s * 1e9);
    int status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_ns() > until) {
            kill(pid, SIGTERM);
            nap(5);
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return -1;
        }
        nap(0.002);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* One job. False: something was wrong, and the function has printed it. */
static bool run_once(const char *self, const char *pmirun, unsigned i)
{
    static const char *const wires[] = {"1", "2", "mixed"};
    const int n = 2 + (int)below(7), deed = (int)below(N_DEEDS);
    const int file = memfd_create("board", MFD_CLOEXEC);
    char words[6][32];
    const char *why, *argv[32];
    int k = 0, status;
    bool told;

    snprintf(words[0], sizeof(words[0]), "%d", n);
    snprintf(words[1], sizeof(words[1]), "%llu", (unsigned long long)below(1u << 30));
    snprintf(words[2], sizeof(words[2]), "%d", (int)below((uint64_t)n));
    snprintf(words[3], sizeof(words[3]), "%d", (int)below(deed == EARLY ? 100000 : 300000));
    snprintf(words[4], sizeof(words[4]), "%g", STALL_S);
    snprintf(words[5], sizeof(words[5]), "/proc/%d/fd/%d", (int)getpid(), file);
    argv[k++] = pmirun;
    if (i % 2) {
        static const char *const four[] = {"-N", "4", "--launch", "fork"};

        for (int j = 0; j < 4; j++)
            argv[k++] = four[j];
    }
    argv[k++] = "--stall-timeout";
    argv[k++] = words[4];
    argv[k++] = "-n";
    argv[k++] = words[0];
    argv[k++] = self;
    argv[k++] = "chain";
    argv[k++] = wires[below(3)];
    argv[k++] = words[1];
    argv[k++] = deeds[deed];
    argv[k++] = words[2];
    argv[k++] = words[3];
    argv[k++] = words[5];
    argv[k] = NULL;
    board = map_board(file, true);
    status = await(start((char **)(uintptr_t)argv), 60);
    why = judge(LIMIT_S, now_ns(), &told);
    if (status < 0)
        why = "it did not end";
    else if (!why && status == 0 && told)
        why = "status 0, although ranks got the error of a collective";
    else if (!why && status == 99)
        why = "a rank was not served as it should be";
    if (why) {
        printf("FAILED: %s; status %d:", why, status);
        for (int j = 0; j < k; j++)
            printf(" %s", argv[j]);
        printf("\n");
    }
    munmap(board, sizeof(*board));
    close(file);
    return why == NULL;
}

static int run_random(int argc, char **argv)
{
    const unsigned runs = (unsigned)atoi(argv[3]);
    const unsigned long long seed = argc > 4 ? strtoull(argv[4], NULL, 10) : (unsigned)getpid();
    char self[4096] = "";
    unsigned failed = 0;

    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        fail("/proc/self/exe: %s", strerror(errno));
    state = seed;
    setvbuf(stdout, NULL, _IOLBF, 0); /* shows findings before the end */
    printf("seed %llu\n", seed);
    for (unsigned i = 0; i < runs; i++)
        failed += !run_once(self, argv[2], i);
    printf("%u runs, %u failed\n", runs, failed);
    return failed != 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    if (strcmp(mode, "rank") == 0 && (argc == 8 || argc == 9))
        return run_rank(argv, argc == 9);
    if (strcmp(mode, "chain") == 0 && argc == 8)
        return run_chain(argv);
    if (strcmp(mode, "check") == 0 && argc == 4)
        return run_check(argv);
    if (strcmp(mode, "random") == 0 && argc >= 4)
        return run_random(argc, argv);
    if (strcmp(mode, "begin") == 0 && argc == 3) {
        unlink(argv[2]);
        open_board(argv[2], true);
        return 0;
    }
    fail("unknown mode %s", mode);
}
