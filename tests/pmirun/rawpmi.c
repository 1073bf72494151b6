/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A PMI-1 client that speaks the wire by hand, well or badly:
 *
 *     rawpmi pgf           put, fence, get from both neighbours, finalize
 *     rawpmi chat N        N questions, finalize; no fence
 *     rawpmi early         rank 0 finalizes at once; the others enter a fence and print its answer
 *     rawpmi silent        init, half a message, then silence
 *     rawpmi garbage       no PMI at all on the PMI socket, until it is closed
 *     rawpmi strangers N   N more connections to PMI_PORT: ours again by its id, init without an
 *                          id, or garbage; all are refused
 *     rawpmi noread        questions without end, answers never read
 *     rawpmi exit S WHEN   exit status S `early` (before init), `inited` or `final`(ized)
 *     rawpmi abort S [DIR] init, abort with code S; with DIR not before DIR/closed is there, and
 *                          then makes DIR/aborted
 *     rawpmi victim DIR    init, closes its connection, makes DIR/closed, and kills itself once
 *                          DIR/aborted is there
 *     rawpmi die S WHEN    signal S
 *     rawpmi sleep         init, fence, finalize, then sleep
 *     rawpmi spawn N PROG [ARG...] [-- KEY VALUE ...]
 *                          spawns N processes; prints rc and errcodes
 *     rawpmi commands N PROG
 *                          spawns a process by each of N commands in one request; prints rc
 *     rawpmi spawns N PROG ARG
 *                          50 spawns, then N more; prints by how many KiB the memory of our pmirun
 *                          has grown meanwhile
 *     rawpmi fill PROG ARG spawns until pmirun refuses, prints the number and the reason; then
 *     spawns again, when one of them may have ended, until pmirun accepts
 *     rawpmi hints         SPARSE puts, gets that wait for them without a fence, then more puts and
 *                          a fence
 *     rawpmi gather N [shm]
 *                          N Allgathers, and Gets of all values; with shm each is advertised in
 *                          shared memory; prints the size of our pmirun's shared memory at the end
 *     rawpmi gone DIR      waits for a key, closes its connection meanwhile, and ends when DIR/late
 *                          is there
 *     rawpmi late DIR      puts that key late, gets it, and makes DIR/late
 *     rawpmi ahead         rank 0 and rank 1 wait for a key that no rank puts; rank 0 also waits
 *                          for another key, which rank 1 puts when its Get has ended; the others
 *                          are in a barrier
 *     rawpmi last DIR      rank 0 waits for two keys that rank 1 puts last of all; our pmirun
 *                          learns of rank 1's end before it reads the puts
 *     rawpmi far N DIR     spawns N processes, and waits for a key in their space that none of them
 *                          puts
 *     rawpmi room DIR      one of these: writes its space's name to DIR/room, stays a little, and
 *                          finalizes
 *     rawpmi publish       all publish one name: one succeeds, and the others find the name at
 *                          once; other ranks of its job may unpublish it
 *     rawpmi child         a spawned process: checks its preput, puts and fences
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int fd, rank, size;
static char kvsname[256], line[8192];
static size_t have;

static void fail(const char *what)
{
    fprintf(stderr, "rawpmi: rank %d: %s\n", rank, what);
    exit(99);
}

static void send_text(const char *text)
{
    size_t n = strlen(text);

    while (n > 0) {
        ssize_t w = write(fd, text, n);

        if (w <= 0)
            fail("cannot write to the server");
        text += w;
        n -= (size_t)w;
    }
}

/* The next line, without its end, in `line`; what follows it is kept. */
static void read_line(void)
{
    static char buf[8192];
    char *nl;

    while (!(nl = memchr(buf, '\n', have))) {
        ssize_t n = have < sizeof(buf) ? read(fd, buf + have, sizeof(buf) - have) : 0;

        if (n <= 0)
            fail("the server has closed the connection");
        have += (size_t)n;
    }
    memcpy(line, buf, (size_t)(nl - buf));
    line[nl - buf] = '\0';
    have -= (size_t)(nl + 1 - buf);
    memmove(buf, nl + 1, have);
}

static void ask(const char *request, const char *answer)
{
    send_text(request);
    read_line();
    if (strncmp(line, answer, strlen(answer)) != 0) {
        fprintf(stderr, "rawpmi: rank %d: \"%s\" was answered with \"%s\"\n", rank, request, line);
        exit(99);
    }
}

static const char *field(const char *name)
{
    char word[64];
    const char *p;

    snprintf(word, sizeof(word), " %s=", name);
    p = strstr(line, word);
    return p ? p + strlen(word) : "";
}

static int env_int(const char *name)
{
    const char *v = getenv(name);

    return v ? atoi(v) : -1;
}

static int dial(const char *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *colon = strchr(port, ':');
    int sock = socket(AF_INET, SOCK_STREAM, 0);

    if (!colon)
        fail("bad PMI_PORT");
    addr.sin_port = htons((unsigned short)atoi(colon + 1));
    if (sock < 0 || connect(sock, (struct sockaddr *)&addr, sizeof(addr)) != 0)
        fail("cannot connect");
    return sock;
}

static void connect_port(const char *port)
{
    const char *id = getenv("RAWPMI_ID") ? getenv("RAWPMI_ID") : getenv("PMI_ID");
    char text[64];

    if (!id)
        fail("no PMI_ID");
    fd = dial(port);
    snprintf(text, sizeof(text), "cmd=initack pmiid=%s\n", id);
    ask(text, "cmd=initack");
    if (*field("rc") && strcmp(field("rc"), "0") != 0 && strncmp(field("rc"), "0 ", 2) != 0)
        fail("the id was refused");
    for (int i = 0; i < 3; i++)
        read_line();
}

static void start(void)
{
    const char *port = getenv("PMI_PORT");

    rank = env_int("PMI_RANK");
    size = env_int("PMI_SIZE");
    fd = env_int("PMI_FD");
    if (port)
        connect_port(port);
    else if (fd < 0)
        fail("no PMI_FD");
}

static void init(void)
{
    ask("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init");
    if (*field("pmi_version") != '1' || *field("rc") != '0' || *field("pmi_subversion") != '1')
        fail("init was refused");
    ask("cmd=get_maxes\n", "cmd=maxes");
    ask("cmd=get_appnum\n", "cmd=appnum");
    ask("cmd=get_my_kvsname\n", "cmd=my_kvsname");
    snprintf(kvsname, sizeof(kvsname), "%s", field("kvsname"));
    kvsname[strcspn(kvsname, " ")] = '\0';
}

static void finalize(void)
{
    ask("cmd=finalize\n", "cmd=finalize_ack");
}

static void get(int who)
{
    char text[512], expect[64];

    snprintf(text, sizeof(text), "cmd=get kvsname=%s key=card-%d\n", kvsname, who);
    snprintf(expect, sizeof(expect), "value-of-%d", who);
    ask(text, "cmd=get_result");
    if (strcmp(field("value"), expect) != 0)
        fail("a wrong value");
}

static void put_and_fence(void)
{
    char text[512];

    snprintf(text, sizeof(text), "cmd=put kvsname=%s key=card-%d value=value-of-%d\n", kvsname,
             rank, rank);
    ask(text, "cmd=put_result");
    if (*field("rc") != '0')
        fail("a put was refused");
    ask("cmd=barrier_in\n", "cmd=barrier_out");
}

static void leave_or_die(char **argv)
{
    int number = atoi(argv[2]);
    const char *when = argv[3];

    start();
    if (strcmp(when, "early") != 0) {
        init();
        put_and_fence();
        if (strcmp(when, "final") == 0)
            finalize();
    }
    if (strcmp(argv[1], "exit") == 0)
        _exit(number);
    signal(number, SIG_DFL);
    raise(number);
}

static void spawn(int argc, char **argv)
{
    char text[8192];
    int n = 0, n_args = 0, n_info = 0, i = 4;

    n += snprintf(text + n, sizeof(text) - (size_t)n,
                  "mcmd=spawn\nnprocs=%s\nexecname=%s\ntotspawns=1\nspawnssofar=1\n", argv[2],
                  argv[3]);
    for (; i < argc && strcmp(argv[i], "--") != 0; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "arg%d=%s\n", ++n_args, argv[i]);
    n += snprintf(text + n, sizeof(text) - (size_t)n,
                  "argcnt=%d\npreput_num=1\npreput_key_0=PARENT\npreput_val_0=it-is-me\n", n_args);
    for (i++; i + 1 < argc; i += 2, n_info++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "info_key_%d=%s\ninfo_val_%d=%s\n",
                      n_info, argv[i], n_info, argv[i + 1]);
    snprintf(text + n, sizeof(text) - (size_t)n, "info_num=%d\nendcmd\n", n_info);
    ask(text, "cmd=spawn_result");
    printf("%s\n", line);
    fflush(stdout);
}

static void spawn_commands(int n, const char *program)
{
    char text[1024];

    for (int i = 1; i <= n; i++) {
        snprintf(text, sizeof(text),
                 "mcmd=spawn\nnprocs=1\nexecname=%s\ntotspawns=%d\nspawnssofar=%d\nargcnt=0\n"
                 "preput_num=0\ninfo_num=0\nendcmd\n",
                 program, n, i);
        send_text(text);
    }
    read_line();
    printf("%s\n", line);
    fflush(stdout);
}

/* ---- a pmirun's memory while we spawn processes ---- */

/* A number in /proc/PID/status; -1: there is none. */
static long status_number(int pid, const char *name)
{
    char path[64], text[256];
    long v = -1;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    f = fopen(path, "r");
    while (f && fgets(text, sizeof(text), f))
        if (strncmp(text, name, strlen(name)) == 0)
            v = atol(text + strlen(name));
    if (f)
        fclose(f);
    return v;
}

static int count_children(int pid)
{
    char path[64];
    int n = 0, child_pid;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    f = fopen(path, "r");
    while (f && fscanf(f, "%d", &child_pid) == 1)
        n++;
    if (f)
        fclose(f);
    return n;
}

/* The memory of our pmirun, and of its head if it is an agent, once all spawned processes have
 * ended. */
static void measure(long kib[2], int n_before)
{
    int parent = getppid(), head = (int)status_number(parent, "PPid:");

    while (count_children(parent) > n_before)
        usleep(1000);
    usleep(200000); /* time to clean up */
    kib[0] = status_number(parent, "RssAnon:");
    kib[1] = status_number(head, "RssAnon:");
}

static void spawn_many(int n, char **argv, int n_before)
{
    char text[1024];

    for (int i = 0; i < n; i++) {
        while (count_children(getppid()) > n_before + 40)
            usleep(1000);
        snprintf(text, sizeof(text),
                 "mcmd=spawn\nnprocs=4\nexecname=%s\ntotspawns=1\nspawnssofar=1\narg1=%s\nargcnt="
                 "1\npreput_num=1\n"
                 "preput_key_0=PARENT\npreput_val_0=x\ninfo_num=0\nendcmd\n",
                 argv[0], argv[1]);
        ask(text, "cmd=spawn_result rc=0");
    }
}

static void spawns(int n, char **argv)
{
    int n_before = count_children(getppid());
    long before[2], after[2];

    spawn_many(50, argv, n_before);
    measure(before, n_before);
    spawn_many(n, argv, n_before);
    measure(after, n_before);
    printf("grown %ld %ld\n", after[0] - before[0], after[1] - before[1]);
    fflush(stdout);
}

static void fill(char **argv)
{
    char text[512];
    int n = -1;

    snprintf(text, sizeof(text),
             "mcmd=spawn\nnprocs=1\nexecname=%s\ntotspawns=1\nspawnssofar=1\narg1=%s\nargcnt=1\n"
             "preput_num=0\ninfo_num=0\nendcmd\n",
             argv[0], argv[1]);
    do {
        n++;
        ask(text, "cmd=spawn_result");
    } while (*field("rc") == '0');
    printf("%d were started: %s\n", n, line);
    do
        ask(text, "cmd=spawn_result");
    while (*field("rc") != '0');
    puts("and one more");
    fflush(stdout);
}

/* ---- one that dies, and one that notices ---- */

static void make(const char *dir, const char *name)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");
    if (!f)
        fail("cannot make a file");
    fclose(f);
}

static void await(const char *dir, const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    while (access(path, F_OK) != 0)
        usleep(1000);
}

static void child(void)
{
    char text[512], cwd[256];

    start();
    init();
    if (env_int("PMI_SPAWNED") != 1)
        fail("PMI_SPAWNED is not set");
    snprintf(text, sizeof(text), "cmd=get kvsname=%s key=PARENT\n", kvsname);
    ask(text, "cmd=get_result rc=0");
    put_and_fence();
    get((rank + 1) % size);
    printf("child %d of %d in %s: %s\n", rank, size, getcwd(cwd, sizeof(cwd)) ? cwd : "?",
           field("value"));
    fflush(stdout);
    finalize();
}

static void strangers(int n)
{
    char again[64], answer[1024];
    const char *says[] = {"cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=abort exitcode=3\n",
                          "no PMI at all\n"};
    const char *port = getenv("PMI_PORT");

    if (!port || !getenv("PMI_ID"))
        fail("no PMI_PORT, or no PMI_ID");
    snprintf(again, sizeof(again), "cmd=initack pmiid=%s\n", getenv("PMI_ID"));
    for (int i = 0; i < n; i++) {
        const char *text = i < 4 || i % 3 == 0 ? again : says[i % 3]; /* 100 wrong ids of 300 */
        const int sock = dial(port);
        size_t len = 0;
        ssize_t got;

        if (send(sock, text, strlen(text), MSG_NOSIGNAL) < 0 || shutdown(sock, SHUT_WR) != 0)
            fail("cannot write to the server");
        while (len < sizeof(answer) - 1 &&
               (got = read(sock, answer + len, sizeof(answer) - 1 - len)) > 0)
            len += (size_t)got;
        answer[len] = '\0';
        close(sock);
        if (strstr(answer, "rc=0") || ((i < 4 || i % 3 == 0) && !strstr(answer, "rc=-1")))
            fail("a stranger was not refused");
    }
    ask("cmd=get_universe_size\n", "cmd=universe_size");
    printf("%d were refused\n", n);
    fflush(stdout);
}

static void put_sparse(int value)
{
    char text[512];

    snprintf(text, sizeof(text), "cmd=put kvsname=%s key=sparse-%d fp-hint=sparse value=%d-of-%d\n",
             kvsname, rank, value, rank);
    ask(text, "cmd=put_result rc=0");
}

static void get_sparse(int who, int value, const char *how)
{
    char text[512], expect[64];

    snprintf(text, sizeof(text), "cmd=get kvsname=%s key=sparse-%d fp-get=%s fp-src=%d\n", kvsname,
             who, how, who);
    snprintf(expect, sizeof(expect), "%d-of-%d", value, who);
    ask(text, "cmd=get_result");
    if (strcmp(field("value"), expect) != 0) {
        fprintf(stderr, "rawpmi: rank %d: key of rank %d: \"%s\", not \"%s\"\n", rank, who,
                field("value"), expect);
        exit(99);
    }
}

/* Requests that the server must answer at once. */
static void no_waiting(void)
{
    char text[512];

    /* PMI's own get, and one that asks the other nodes, do not wait for a missing key. */
    snprintf(text, sizeof(text), "cmd=get kvsname=%s key=absent\n", kvsname);
    ask(text, "cmd=get_result rc=-");
    snprintf(text, sizeof(text), "cmd=get kvsname=%s key=absent fp-get=remote\n", kvsname);
    ask(text, "cmd=get_result rc=-");
    /* Malformed ones do not wait either. */
    for (int source = -2; source <= size; source += size + 2) {
        snprintf(text, sizeof(text), "cmd=get kvsname=%s key=absent fp-get=wait fp-src=%d\n",
                 kvsname, source);
        ask(text, "cmd=get_result rc=");
        if (*field("rc") == '0')
            fail("a source that is no rank was taken");
    }
    snprintf(text, sizeof(text), "cmd=get kvsname=%s key=absent fp-get=perhaps\n", kvsname);
    ask(text, "cmd=get_result rc=");
    snprintf(text, sizeof(text), "cmd=put kvsname=%s key=absent fp-hint=thick value=1\n", kvsname);
    ask(text, "cmd=put_result rc=");
    if (*field("rc") == '0')
        fail("a hint that is none was taken");
}

static void hints(void)
{
    char text[512];

    ask("cmd=init pmi_version=1 pmi_subversion=1 fp-client=1\n", "cmd=response_to_init");
    if (*field("fp-exchange") != '1')
        fail("no exchange is advertised");
    ask("cmd=get_my_kvsname\n", "cmd=my_kvsname");
    snprintf(kvsname, sizeof(kvsname), "%s", field("kvsname"));
    kvsname[strcspn(kvsname, " ")] = '\0';
    if (rank == 0)
        no_waiting();
    if (rank % 2)
        usleep(300000); /* others ask for it in the meantime */
    put_sparse(1);
    get_sparse((rank + 1) % size, 1, "wait");
    get_sparse((rank + size - 1) % size, 1, "wait");
    ask("cmd=barrier_in\n", "cmd=barrier_out");
    for (int value = 2; value < 5; value++) {
        put_sparse(value);
        ask("cmd=barrier_in\n", "cmd=barrier_out");
        for (int who = 0; who < size; who++)
            get_sparse(who, value, "remote");
        ask("cmd=barrier_in\n", "cmd=barrier_out");
    }
    snprintf(text, sizeof(text), "cmd=get kvsname=%s key=absent\n", kvsname);
    ask(text, "cmd=get_result rc=-");
}

/* Bytes of the shared memory that our pmirun has. */
static long shared_bytes(void)
{
    char folder[64], path[400], target[64];
    const struct dirent *e;
    struct stat st;
    long n = 0;
    DIR *d;

    snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)getppid());
    d = opendir(folder);
    while (d && (e = readdir(d))) {
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        memset(target, 0, sizeof(target));
        if (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, "memfd:shmht") &&
            stat(path, &st) == 0)
            n += st.st_size;
    }
    if (d)
        closedir(d);
    return n;
}

static void gather(int n, int shm)
{
    char text[512], expect[64];

    ask("cmd=init pmi_version=1 pmi_subversion=1 fp-client=1\n", "cmd=response_to_init");
    ask("cmd=get_my_kvsname\n", "cmd=my_kvsname");
    snprintf(kvsname, sizeof(kvsname), "%s", field("kvsname"));
    kvsname[strcspn(kvsname, " ")] = '\0';
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof(text), "cmd=barrier_in fp-gather=%0*d\n", 1 + (i + rank) % 40, rank);
        ask(text, "cmd=barrier_out");
        if ((*field("fp-array") != '\0') != shm || *field("rc") > '0')
            fail("an Allgather was answered otherwise");
        for (int who = 0; who < size; who++) {
            snprintf(text, sizeof(text), "cmd=get kvsname=%s key=-allgather-%d-%d\n", kvsname, i,
                     who);
            snprintf(expect, sizeof(expect), "%0*d", 1 + (i + who) % 40, who);
            ask(text, "cmd=get_result rc=0");
            if (strcmp(field("value"), expect) != 0)
                fail("another value than was given");
        }
    }
    ask("cmd=barrier_in\n", "cmd=barrier_out"); /* which is not a Fence, and announces no array */
    if (*field("fp-array"))
        fail("a fence is answered as an Allgather");
    printf("shared %ld\n", shared_bytes());
    fflush(stdout);
}

static void gone(const char *dir)
{
    char text[1024];

    snprintf(text, sizeof(text),
             "cmd=get kvsname=%s key=late fp-get=wait\ncmd=get kvsname=%s key=late\n", kvsname,
             kvsname);
    send_text(text);
    usleep(200000);
    close(fd);
    await(dir, "late");
    _exit(0);
}

static void late(const char *dir)
{
    char text[512];

    usleep(500000);
    snprintf(text, sizeof(text), "cmd=put kvsname=%s key=late value=late\n", kvsname);
    ask(text, "cmd=put_result rc=0");
    snprintf(text, sizeof(text), "cmd=get kvsname=%s key=late fp-get=wait\n", kvsname);
    ask(text, "cmd=get_result rc=0 value=late");
    puts("got what was late");
    fflush(stdout);
    make(dir, "late");
}

static void ahead(void)
{
    char text[1024];

    ask("cmd=barrier_in\n", "cmd=barrier_out"); /* all are here */
    usleep((useconds_t)rank * 150000);
    if (rank == 0) {
        snprintf(
            text, sizeof(text),
            "cmd=get kvsname=%s key=never fp-get=wait\ncmd=get kvsname=%s key=next fp-get=wait\n",
            kvsname, kvsname);
        ask(text, "cmd=get_result rc=14"); /* no rank put it in time */
        ask("", "cmd=get_result rc=0 value=next");
    } else if (rank == 1) {
        snprintf(text, sizeof(text), "cmd=get kvsname=%s key=never fp-get=wait\n", kvsname);
        ask(text, "cmd=get_result rc=14");
        snprintf(text, sizeof(text), "cmd=put kvsname=%s key=next fp-hint=sparse value=next\n",
                 kvsname);
        ask(text, "cmd=put_result rc=0");
    }
    ask("cmd=barrier_in\n", "cmd=barrier_out");
}

/* Of a process's children, how many have ended and are not reaped; -1: it is not stopped. */
static int n_zombies(int parent)
{
    char path[64], state;
    int pid, n = 0;
    FILE *f, *g;

    snprintf(path, sizeof(path), "/proc/%d/stat", parent);
    g = fopen(path, "r");
    if (!g || fscanf(g, "%*d (%*[^)]) %c", &state) != 1 || (state != 'T' && state != 't'))
        n = -1;
    if (g)
        fclose(g);
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
    f = fopen(path, "r");
    if (!f)
        fail("cannot read who pmirun's children are");
    while (n >= 0 && fscanf(f, "%d", &pid) == 1) {
        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        g = fopen(path, "r");
        n += g && fscanf(g, "%*d (%*[^)]) %c", &state) == 1 && state == 'Z';
        if (g)
            fclose(g);
    }
    fclose(f);
    return n;
}

static void wait_for_zombies(int n)
{
    while (n_zombies(getppid()) < n)
        usleep(1000);
}

/* pmirun is stopped while rank 2 ends and then rank 1, so that it reaps processes before it reads
 * sockets. */
static void last(const char *dir)
{
    static char text[100000];
    int left = 1, n;

    if (rank == 0) {
        snprintf(text, sizeof(text),
                 "cmd=get kvsname=%s key=one fp-get=wait fp-src=1\n"
                 "cmd=get kvsname=%s key=two fp-get=wait fp-src=1\n",
                 kvsname, kvsname);
        send_text(text);
        await(dir, "ready");
        await(dir, "final");
        while (ioctl(fd, SIOCOUTQ, &left) == 0 && left > 0)
            usleep(1000);
        kill(getppid(), SIGSTOP);
        wait_for_zombies(0);
        make(dir, "stopped");
        wait_for_zombies(2);
        kill(getppid(), SIGCONT);
        ask("", "cmd=get_result rc=0 value=1");
        ask("", "cmd=get_result rc=0 value=2");
    } else if (rank == 1) {
        make(dir, "ready");
        await(dir, "stopped");
        wait_for_zombies(1);
        n = snprintf(text, sizeof(text), "cmd=put kvsname=%s key=one value=1\n", kvsname);
        while (n < 80000) /* more than is read at once */
            n += snprintf(text + n, sizeof(text) - (size_t)n,
                          "cmd=put kvsname=%s key=filler value=%0700d\n", kvsname, 0);
        snprintf(text + n, sizeof(text) - (size_t)n,
                 "cmd=put kvsname=%s key=two value=2\ncmd=finalize\n", kvsname);
        send_text(text);
        exit(0);
    } else {
        finalize();
        make(dir, "final");
        await(dir, "stopped");
        exit(0);
    }
}

static void far(char **argv)
{
    char *again[] = {argv[0], (char[]){"spawn"}, argv[2], argv[0], (char[]){"room"}, argv[3], NULL};
    char text[512], name[512], space[256] = "";
    FILE *f;

    spawn(6, again);
    await(argv[3], "room");
    snprintf(name, sizeof(name), "%s/room", argv[3]);
    f = fopen(name, "r");
    if (!f || fscanf(f, "%255s", space) != 1)
        fail("no name of a space");
    fclose(f);
    unlink(name);
    snprintf(text, sizeof(text), "cmd=get kvsname=%s key=never fp-get=wait\n", space);
    ask(text, "cmd=get_result rc=");
    if (*field("rc") == '0')
        fail("found a key that no rank has put");
    puts("no such key there");
    fflush(stdout);
}

static void room(const char *dir)
{
    char name[512], whole[512];
    FILE *f;

    if (rank == 0) {
        snprintf(name, sizeof(name), "%s/room.part", dir);
        snprintf(whole, sizeof(whole), "%s/room", dir);
        f = fopen(name, "w");
        if (!f || fputs(kvsname, f) < 0 || fclose(f) != 0 || rename(name, whole) != 0)
            fail("cannot say where we are");
    }
    usleep(300000);
}

/* A lookup that finds nothing, or the port that `publisher` has published. */
static void look_up(int publisher)
{
    char expect[64];

    snprintf(expect, sizeof(expect), "port-of-%d", publisher);
    send_text("cmd=lookup_name service=the-name\n");
    read_line();
    if (publisher < 0 ? *field("rc") == '0' : strcmp(field("port"), expect) != 0) {
        fprintf(stderr, "rawpmi: rank %d: a lookup was answered with \"%s\"\n", rank, line);
        exit(99);
    }
}

static void publish(void)
{
    char text[512];
    int publisher;

    ask("cmd=barrier_in\n", "cmd=barrier_out");
    snprintf(text, sizeof(text), "cmd=publish_name service=the-name port=port-of-%d\n", rank);
    send_text(text);
    read_line();
    if (*field("rc") == '0') {
        printf("rank %d has published it\n", rank);
        fflush(stdout);
        look_up(rank);
    } else { /* another rank has, and perhaps does not have its answer yet */
        send_text("cmd=lookup_name service=the-name\n");
        read_line();
        if (sscanf(field("port"), "port-of-%d", &publisher) != 1 || publisher == rank)
            fail("a name that is taken is not found");
    }
    ask("cmd=barrier_in\n", "cmd=barrier_out");
    if (rank == size - 1)
        ask("cmd=unpublish_name service=the-name\n", "cmd=unpublish_result");
    ask("cmd=barrier_in\n", "cmd=barrier_out");
    look_up(-1);
}

static void endless(void)
{
    /* More answers than sockets and server hold: the server must cut us off, and we notice by
     * SIGPIPE or EPIPE. */
    signal(SIGPIPE, SIG_IGN);
    for (;;)
        if (write(fd, "cmd=get_my_kvsname\n", 19) < 0)
            break;
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    char junk[4096];

    if ((strcmp(mode, "exit") == 0 || strcmp(mode, "die") == 0) && argc > 3) {
        leave_or_die(argv);
        return 98;
    }
    if (strcmp(mode, "child") == 0) {
        child();
        return 0;
    }
    start();
    if (strcmp(mode, "garbage") == 0) {
        memset(junk, 'x', sizeof(junk));
        signal(SIGPIPE, SIG_IGN);
        while (write(fd, junk, sizeof(junk)) > 0)
            ;
        return 0;
    }
    if (strcmp(mode, "hints") == 0) {
        hints();
        finalize();
        return 0;
    }
    if (strcmp(mode, "gather") == 0 && argc > 2) {
        gather(atoi(argv[2]), argc > 3);
        finalize();
        return 0;
    }
    init();
    if (strcmp(mode, "pgf") == 0) {
        put_and_fence();
        get((rank + 1) % size);
        get((rank + size - 1) % size);
    } else if (strcmp(mode, "chat") == 0 && argc > 2) {
        for (int i = atoi(argv[2]); i > 0; i--)
            ask("cmd=get_universe_size\n", "cmd=universe_size");
    } else if (strcmp(mode, "early") == 0) {
        if (rank > 0) {
            ask("cmd=barrier_in\n", "cmd=barrier_out");
            puts(line);
        }
    } else if (strcmp(mode, "silent") == 0) {
        send_text("cmd=put kvsname=");
        for (;;)
            pause();
    } else if (strcmp(mode, "strangers") == 0 && argc > 2) {
        strangers(atoi(argv[2]));
    } else if (strcmp(mode, "noread") == 0) {
        endless();
    } else if (strcmp(mode, "victim") == 0 && argc > 2) {
        close(fd);
        make(argv[2], "closed");
        await(argv[2], "aborted");
        raise(SIGKILL);
    } else if (strcmp(mode, "publish") == 0) {
        publish();
    } else if (strcmp(mode, "gone") == 0 && argc > 2) {
        gone(argv[2]);
    } else if (strcmp(mode, "ahead") == 0) {
        ahead();
    } else if (strcmp(mode, "last") == 0 && argc > 2) {
        last(argv[2]);
    } else if (strcmp(mode, "far") == 0 && argc > 3) {
        far(argv);
    } else if (strcmp(mode, "room") == 0 && argc > 2) {
        room(argv[2]);
    } else if (strcmp(mode, "late") == 0 && argc > 2) {
        late(argv[2]);
    } else if (strcmp(mode, "abort") == 0 && argc > 2) {
        if (argc > 3)
            await(argv[3], "closed");
        snprintf(junk, sizeof(junk), "cmd=abort exitcode=%s\n", argv[2]);
        send_text(junk);
        if (argc > 3)
            make(argv[3], "aborted");
        for (;;)
            pause();
    } else if (strcmp(mode, "spawns") == 0 && argc > 4) {
        spawns(atoi(argv[2]), argv + 3);
    } else if (strcmp(mode, "commands") == 0 && argc > 3) {
        spawn_commands(atoi(argv[2]), argv[3]);
    } else if (strcmp(mode, "fill") == 0 && argc > 3) {
        fill(argv + 2);
    } else if (strcmp(mode, "sleep") == 0) {
        put_and_fence();
        finalize();
        for (;;)
            pause();
    } else if (strcmp(mode, "spawn") == 0 && argc > 3) {
        spawn(argc, argv);
    } else {
        fail("unknown mode");
    }
    finalize();
    return 0;
}
