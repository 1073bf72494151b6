/* SPDX-License-Identifier: BSD-3-Clause */
/* The contract of asymreg/transport.h, the same test for every transport: contract TRANSPORT
 * [--no-pidfd | --kills N] [--living | --dying] [CASE]...
 *
 * Each case runs in two processes of its own. The target registers memory and obeys orders that
 * arrive on a socket; except for `ucx`, which needs its progress, the target sleeps in read(), so
 * that the test shows which operations work without it. The initiator is the case. The socket is
 * local; on two machines, `contract TRANSPORT --listen PORT` is the target of every case that
 * `contract TRANSPORT --connect ADDRESS PORT` runs.
 *
 * --no-pidfd: without descriptors of processes, as in sandboxes that refuse them.
 *
 * --kills N: the case `killed` N times, each killed at another moment of its operations.
 *
 * --living, --dying: the cases in which the target lives, or in which it is killed. A network may
 * then print an error about the lost connection.
 *
 * For ibv: CONTRACT_DEVICE0 and CONTRACT_DEVICE1 name the adapters of the target and the initiator.
 * */
#define _GNU_SOURCE
#include "transport_contract.h"

#ifdef HAVE_UCX
#include <asymreg-ucx.h>
#endif
#ifdef HAVE_IBV
#include <asymreg-ibv.h>
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *transport_name;
static unsigned char *memory[N_REGIONS];
static struct asymreg_mem *registered[N_REGIONS];
static int fds[N_REGIONS];
static bool passive;      /* the target makes no call while it waits for orders */
static bool elsewhere;    /* the target is on another machine */
static int seconds = 150; /* a case that takes longer hangs */
uint64_t kill_after_us;   /* of case `killed` */

/* UCX leaks memory when a connection fails; the leak is not ours. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libuct.so\nleak:libucp.so\n";
}

struct asymreg_transport *make_transport(int role, bool dying)
{
    struct asymreg_transport *t = NULL;
    int rc = ASYMREG_ENOTSUP;

    (void)role, (void)dying;
    if (strcmp(transport_name, "local") == 0) {
        rc = asymreg_local_create(NULL, &t, NULL);
#ifdef HAVE_UCX
    } else if (strncmp(transport_name, "ucx", 3) == 0) {
        struct asymreg_ucx_opts o = {.size = sizeof(o), .flags = passive ? ASYMREG_UCX_THREAD : 0};

        rc = asymreg_ucx_create(&o, &t, NULL);
#endif
#ifdef HAVE_IBV
    } else if (strcmp(transport_name, "ibv") == 0) {
        /* An emulated machine that is busy may be silent for longer than the default second: also
         * a target that is to be killed has to live until then. */
        struct asymreg_ibv_opts o = {.size = sizeof(o),
                                     .device =
                                         getenv(role ? "CONTRACT_DEVICE1" : "CONTRACT_DEVICE0"),
                                     .timeout_ms = dying ? 5000 : 20000};

        rc = asymreg_ibv_create(&o, &t, NULL);
        if (rc == -ENODEV) {
            printf("skip: needs a verbs adapter\n");
            fflush(stdout);
            _exit(77);
        }
#endif
    }
    CHECK_MSG(rc == 0 && t, "no transport %s: %d", transport_name, rc);
    return t;
}

static void die_of_alarm(int signal_number)
{
    (void)signal_number;
    raise(SIGKILL);
}

/* Kills this process after some microseconds, whatever it does then. */
static void die_after(uint64_t us)
{
    const struct itimerval timer = {
        .it_value = {.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)}};

    signal(SIGALRM, die_of_alarm);
    if (us == 0 || setitimer(ITIMER_REAL, &timer, NULL) < 0)
        raise(SIGKILL);
}

uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void fill(unsigned char *p, size_t bytes, uint64_t seed)
{
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;

    for (size_t i = 0; i < bytes; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        p[i] = (unsigned char)(x >> 24);
    }
}

uint64_t sum_of(const unsigned char *p, size_t bytes)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* Reads all of it; false at the end of the stream. */
static bool receive(int sock, void *buf, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(sock, (char *)buf + done, bytes - done);

        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return false;
        CHECK_MSG(n > 0 || errno == EINTR, "read: %s", strerror(errno));
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static void transmit(int sock, const void *buf, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = send(sock, (const char *)buf + done, bytes - done, MSG_NOSIGNAL);

        CHECK_MSG(n > 0 || errno == EINTR, "write: %s", strerror(errno));
        done += n > 0 ? (size_t)n : 0;
    }
}

void tell_only(struct side *s, struct order order)
{
    transmit(s->sock, &order, sizeof(order));
}

struct answer hear(struct side *s)
{
    struct answer answer;

    /* The target may need this side's progress, and this side the target's. */
    if (!passive) {
        struct pollfd p = {.fd = s->sock, .events = POLLIN};

        do {
            s->ops->progress(s->t);
        } while (poll(&p, 1, 0) == 0);
    }
    CHECK_MSG(receive(s->sock, &answer, sizeof(answer)), "the target has gone");
    return answer;
}

struct answer tell(struct side *s, struct order order)
{
    tell_only(s, order);
    return hear(s);
}

void wait_until_stopped(pid_t pid)
{
    char path[64], line[256], state = 0;

    if (elsewhere) {
        usleep(200000);
        return;
    }
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    while (state != 'T') {
        FILE *f = fopen(path, "re");

        if (!f)
            return;
        if (fgets(line, sizeof(line), f) && strrchr(line, ')'))
            sscanf(strrchr(line, ')'), ") %c", &state);
        fclose(f);
    }
}

void continue_stopped(pid_t pid)
{
    if (!elsewhere)
        kill(pid, SIGCONT);
}

/* The target. */

/* Counters are in shared memory where the transport can use a descriptor: some transports have
 * atomics only there. */
static void make_memory(struct side *s)
{
    for (int i = 0; i < N_REGIONS; i++) {
        fds[i] = -1;
        if (i == FILE_BACKED || (i == COUNTERS && s->caps.flags & ASYMREG_CAP_FD)) {
            fds[i] = memfd_create("contract", MFD_CLOEXEC | MFD_ALLOW_SEALING);
            CHECK_MSG(fds[i] >= 0 && ftruncate(fds[i], REGION_BYTES) == 0, "memfd: %s",
                      strerror(errno));
            if (i == COUNTERS)
                CHECK_MSG(fcntl(fds[i], F_ADD_SEALS, F_SEAL_SHRINK) == 0, "seal: %s",
                          strerror(errno));
            memory[i] = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
            CHECK_MSG(memory[i] != MAP_FAILED, "mmap: %s", strerror(errno));
        } else {
            memory[i] = aligned_alloc(64, REGION_BYTES);
            CHECK_MSG(memory[i], "no memory");
        }
        fill(memory[i], REGION_BYTES, (uint64_t)i + 1);
    }
    memset(memory[COUNTERS], 0, REGION_BYTES);
}

static struct published publish(struct side *s, int region)
{
    struct asymreg_error err = {0};
    static const uint32_t prot[N_REGIONS] = {ASYMREG_RW, ASYMREG_READ, ASYMREG_ALL, ASYMREG_RW};
    struct asymreg_mem_desc desc = {.size = sizeof(desc),
                                    .addr = (uintptr_t)memory[region],
                                    .bytes = REGION_BYTES,
                                    .prot = prot[region],
                                    .fd = fds[region]};
    struct published p = {.memory = desc.addr, .addr = desc.addr, .bytes = desc.bytes};
    size_t bytes = 0;
    int rc;

    if (!(s->caps.flags & (fds[region] >= 0 ? ASYMREG_CAP_FD : ASYMREG_CAP_PRIVATE)))
        return p;
    if (fds[region] < 0 &&
        s->caps.flags & ASYMREG_CAP_WHOLE_SPACE) { /* then that is what the core registers */
        desc.addr = p.addr = 0;
        desc.bytes = p.bytes = UINT64_MAX;
        desc.prot = ASYMREG_ALL;
    }
    rc = s->ops->mem_reg(s->t, &desc, &registered[region], p.handle, &bytes, &err);
    CHECK_MSG(rc == 0 && registered[region], "mem_reg: %d %s", rc, err.text);
    CHECK_MSG(bytes <= s->caps.max_handle_bytes, "a handle of %zu bytes", bytes);
    p.handle_bytes = bytes;
    return p;
}

/* Adds 1 to a counter through the transport, connected to this very process. */
static void add_to_self(struct side *s, const struct order *order)
{
    struct hello *h = &s->hello;
    struct asymreg_ep *ep;
    struct asymreg_rkey *key;
    struct published *p = &h->regions[COUNTERS];
    int rc = s->ops->connect(s->t, h->address, h->address_bytes, &ep, NULL);

    CHECK_MSG(rc == 0, "connect to itself: %d", rc);
    rc = s->ops->rkey_unpack(s->t, ep, p->handle, p->handle_bytes, p->addr, p->bytes, &key, NULL);
    CHECK_MSG(rc == 0, "unpack its own: %d", rc);
    for (uint64_t i = 0; i < order->value; i++) {
        do {
            rc = s->ops->amo(s->t, ep, key, (uintptr_t)memory[COUNTERS] + order->offset,
                             ASYMREG_AMO_ADD, (uint32_t)order->bytes, 1, 0, NULL, NULL);
            if (rc == -EAGAIN)
                s->ops->progress(s->t);
        } while (rc == -EAGAIN);
        CHECK_MSG(rc == 0 || rc == ASYMREG_PENDING, "add: %d", rc);
    }
    while ((rc = s->ops->flush(s->t, ep)) == ASYMREG_PENDING)
        s->ops->progress(s->t);
    CHECK_MSG(rc == 0, "flush of adds: %d", rc);
    s->ops->rkey_release(s->t, ep, key);
    s->ops->disconnect(s->t, ep);
}

static void obey(struct side *s, const struct order *order)
{
    struct answer answer = {.pid = getpid()};
    int region = (int)order->region, rc;

    switch (order->kind) {
    case ORDER_SUM: answer.value = sum_of(memory[region] + order->offset, order->bytes); break;
    case ORDER_FILL: fill(memory[region] + order->offset, order->bytes, order->value); break;
    case ORDER_DEREG:
        rc = s->ops->mem_dereg(s->t, registered[region]);
        CHECK_MSG(rc == 0, "mem_dereg: %d", rc);
        registered[region] = NULL;
        break;
    case ORDER_REG: answer.published = publish(s, region); break;
    case ORDER_ADD: add_to_self(s, order); break;
    case ORDER_KILL: die_after(order->value); break;
    case ORDER_STOP:
        transmit(s->sock, &answer, sizeof(answer));
        raise(SIGSTOP);
        return;
    default: break;
    }
    transmit(s->sock, &answer, sizeof(answer));
}

static int target(int sock, bool dying)
{
    struct side s = {.t = make_transport(0, dying), .sock = sock};
    struct order order;
    size_t bytes = 0;
    int rc;

    s.ops = s.t->ops;
    s.caps.size = sizeof(s.caps);
    CHECK_MSG(s.ops->query(s.t, &s.caps) == 0, "query");
    make_memory(&s);
    rc = s.ops->address(s.t, s.hello.address, &bytes, NULL);
    CHECK_MSG(rc == 0 && bytes <= s.caps.max_address_bytes, "address: %d, %zu bytes", rc, bytes);
    s.hello.address_bytes = bytes;
    for (int i = 0; i < N_REGIONS; i++)
        s.hello.regions[i] = publish(&s, i);
    transmit(sock, &s.hello, sizeof(s.hello));
    for (;;) {
        struct pollfd p = {.fd = sock, .events = POLLIN};

        if (!passive) {
            do {
                s.ops->progress(s.t);
                sched_yield();
            } while (poll(&p, 1, 0) == 0);
        }
        if (!receive(sock, &order, sizeof(order)) || order.kind == ORDER_QUIT)
            break;
        obey(&s, &order);
    }
    for (int i = 0; i < N_REGIONS; i++) {
        if (registered[i])
            CHECK_MSG(s.ops->mem_dereg(s.t, registered[i]) == 0, "mem_dereg at the end");
    }
    s.ops->destroy(s.t);
    return 0;
}

/* The initiator. */

/* Both sides may connect still, behind their operations, and UCX 1.18 aborts a process whose peer
 * ends meanwhile. */
static void settle(struct side *s)
{
    for (int i = 0; i < 10; i++) {
        tell(s, (struct order){.kind = ORDER_SUM});
        usleep(passive ? 10000 : 1000);
    }
}

static int initiator(int sock, const struct contract_case *c)
{
    struct asymreg_error err = {0};
    struct side s = {.t = make_transport(1, c->dying), .sock = sock, .dying = c->dying};
    int rc;

    s.ops = s.t->ops;
    s.caps.size = sizeof(s.caps);
    CHECK_MSG(s.ops->query(s.t, &s.caps) == 0, "query");
    if (!receive(sock, &s.hello, sizeof(s.hello)))
        return 77; /* the target prints why */
    rc = s.ops->connect(s.t, s.hello.address, s.hello.address_bytes, &s.ep, &err);
    CHECK_MSG(rc == 0, "connect: %d %s", rc, err.text);
    for (int i = 0; i < N_REGIONS; i++) {
        struct published *p = &s.hello.regions[i];

        if (p->handle_bytes == 0 &&
            !(s.caps.flags & ASYMREG_CAP_FD && s.caps.flags & ASYMREG_CAP_PRIVATE))
            continue;
        rc = s.ops->rkey_unpack(s.t, s.ep, p->handle, p->handle_bytes, p->addr, p->bytes,
                                &s.keys[i], NULL);
        CHECK_MSG(rc == 0, "rkey_unpack: %d", rc);
    }
    c->run(&s);
    if (!c->dying)
        settle(&s);
    for (int i = 0; i < N_REGIONS; i++) {
        if (s.keys[i])
            s.ops->rkey_release(s.t, s.ep, s.keys[i]);
    }
    if (s.ep)
        s.ops->disconnect(s.t, s.ep);
    if (!c->dying)
        tell_only(&s, (struct order){.kind = ORDER_QUIT});
    s.ops->destroy(s.t);
    return 0;
}

static pid_t start(int role, int sock, int other, const struct contract_case *c)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (other >= 0)
            close(other);
        alarm((unsigned int)seconds);
        exit(role ? initiator(sock, c) : target(sock, c->dying));
    }
    CHECK_MSG(pid > 0, "fork: %s", strerror(errno));
    return pid;
}

/* Returns its status; continues a process that has stopped itself, after a second or when no
 * process needs it stopped any longer. */
static int wait_for(pid_t pid, bool alone)
{
    int status;

    CHECK_MSG(waitpid(pid, &status, WUNTRACED) == pid, "waitpid");
    while (WIFSTOPPED(status)) {
        if (!alone)
            sleep(1);
        kill(pid, SIGCONT);
        CHECK_MSG(waitpid(pid, &status, WUNTRACED) == pid, "waitpid");
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_here(const struct contract_case *c)
{
    int pair[2], us, them;
    pid_t target_pid, initiator_pid;

    CHECK_MSG(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    target_pid = start(0, pair[0], pair[1], c);
    initiator_pid = start(1, pair[1], pair[0], c);
    close(pair[0]);
    close(pair[1]);
    us = wait_for(initiator_pid, true);
    if (us != 0 && us != 77)
        kill(target_pid, SIGKILL);
    them = wait_for(target_pid, true);
    if (them == 128 + SIGKILL && (c->dying || us != 0))
        them = 0;
    return us ? us : them;
}

/* Two machines: each case is a connection; the name of the case comes first. */

static int listen_for_cases(const char *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)atoi(port)),
                            .sin_addr.s_addr = htonl(INADDR_ANY)};
    int one = 1, sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), worst = 0;
    char name[32];

    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    CHECK_MSG(bind(sock, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(sock, 1) == 0,
              "listen: %s", strerror(errno));
    for (;;) {
        int peer = accept(sock, NULL, NULL), rc;

        CHECK_MSG(peer >= 0, "accept: %s", strerror(errno));
        if (!receive(peer, name, sizeof(name)) || name[0] == 0)
            return worst;
        for (const struct contract_case *c = contract_cases; c->name; c++) {
            if (strcmp(c->name, name) == 0) {
                rc = wait_for(start(0, peer, sock, c), false);
                if (rc != 0 && !(c->dying && rc == 128 + SIGKILL))
                    worst = rc;
            }
        }
        close(peer);
    }
}

static int dial(const char *address, const char *port, const char *case_name)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    char name[32] = "";
    int sock;

    CHECK_MSG(inet_pton(AF_INET, address, &a.sin_addr) == 1, "%s is no address", address);
    for (int i = 0;; i++) {
        sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(sock, (struct sockaddr *)&a, sizeof(a)) == 0)
            break;
        CHECK_MSG(i < 300, "connect to %s: %s", address, strerror(errno));
        close(sock);
        usleep(100000);
    }
    snprintf(name, sizeof(name), "%s", case_name);
    transmit(sock, name, sizeof(name));
    return sock;
}

static bool refuse_pidfds(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        printf("skip: no filter of system calls: %s\n", strerror(errno));
        return false;
    }
    CHECK_MSG(syscall(SYS_pidfd_open, getpid(), 0) < 0 && errno == EPERM, "pidfd_open");
    return true;
}

/* Codes of libc have libc's text, and an unknown one says so. */
static void check_error_texts(const char *(*explain)(int code))
{
    CHECK_MSG(strcmp(explain(-EINTR), strerror(EINTR)) == 0, "%s", explain(-EINTR));
    CHECK_MSG(strcmp(explain(-3000), "unknown error code") == 0, "%s", explain(-3000));
    CHECK_MSG(strcmp(explain(INT32_MIN), "unknown error code") == 0, "%s", explain(INT32_MIN));
    CHECK_MSG(strcmp(explain(0), "success") == 0, "%s", explain(0));
}

static int kill_often(unsigned int n)
{
    const struct contract_case *c = contract_cases;
    unsigned int seed = (unsigned int)now_ms();
    int rc = 0;

    while (strcmp(c->name, "killed") != 0)
        c++;
    printf("seed %u\n", seed);
    for (unsigned int i = 0; i < n && rc == 0; i++) {
        kill_after_us = 1 + (unsigned int)rand_r(&seed) % 30000;
        rc = run_here(c);
    }
    return rc;
}

int main(int argc, char **argv)
{
    const char *address = NULL, *port = NULL, *only = NULL;
    int first = 2, n = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: contract local|ucx|ucx-thread|ibv [--listen PORT | --connect "
                        "ADDRESS PORT | --no-pidfd | --kills N] [--living | --dying] [CASE]...\n");
        return 2;
    }
    transport_name = argv[1];
    passive = strcmp(transport_name, "ucx") != 0;
    signal(SIGPIPE, SIG_IGN);
    check_error_texts(asymreg_strerror);
#ifdef HAVE_UCX
    check_error_texts(asymreg_ucx_strerror);
#endif
#ifdef HAVE_IBV
    check_error_texts(asymreg_ibv_strerror);
#endif
    if (argc > 3 && strcmp(argv[2], "--listen") == 0)
        return listen_for_cases(argv[3]);
    if (argc > 2 && strcmp(argv[2], "--no-pidfd") == 0) {
        if (!refuse_pidfds())
            return 77;
        first = 3;
    }
    if (argc > 3 && strcmp(argv[2], "--kills") == 0)
        return kill_often((unsigned int)atoi(argv[3]));
    if (argc > 4 && strcmp(argv[2], "--connect") == 0) {
        address = argv[3];
        port = argv[4];
        first = 5;
        elsewhere = true;
    }
    if (first < argc &&
        (strcmp(argv[first], "--living") == 0 || strcmp(argv[first], "--dying") == 0))
        only = argv[first++];
    for (const struct contract_case *c = contract_cases; c->name; c++) {
        bool wanted = first >= argc && strcmp(c->name, "machine") != 0 &&
                      (!only || c->dying == (strcmp(only, "--dying") == 0));
        uint64_t begin = now_ms();
        int rc;

        for (int i = first; i < argc; i++)
            wanted |= strcmp(argv[i], c->name) == 0;
        if (!wanted)
            continue;
        if (address) {
            int sock = dial(address, port, c->name);

            rc = wait_for(start(1, sock, -1, c), true);
            close(sock);
        } else {
            rc = run_here(c);
        }
        if (rc == 77)
            return 77;
        printf("%-12s %s (%llu ms)\n", c->name, rc ? "FAILED" : "ok",
               (unsigned long long)(now_ms() - begin));
        if (rc != 0) {
            fprintf(stderr, "%s: status %d\n", c->name, rc);
            return 1;
        }
        n++;
    }
    if (address &&
        !(first < argc && strcmp(argv[first], "machine") == 0)) /* else no target is left */
        close(dial(address, port, ""));
    CHECK_MSG(n > 0, "no such case");
    return 0;
}
