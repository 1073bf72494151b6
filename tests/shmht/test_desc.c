/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cm.h"

static struct shmht_desc sample(void)
{
    struct shmht_desc d;

    memset(&d, 0, sizeof(d));
    d.kind = SHMHT_KIND_TABLE;
    d.layout = SHMHT_LAYOUT_VERSION;
    d.hash_id = UINT32_MAX;
    d.uid = UINT32_MAX;
    d.id = UINT64_MAX;
    d.generation = UINT64_MAX;
    d.max_bytes = SHMHT_MAX_REGION_BYTES;
    memset(d.name, 'n', sizeof(d.name) - 1);
    d.name[0] = '/';
    return d;
}

/* The longest one has the header's length, and every character is safe as a PMI value. */
static void test_text(void **state)
{
    char text[SHMHT_DESC_TEXT_BYTES];
    struct shmht_desc d = sample(), back;
    ssize_t n = shmht_desc_format(&d, text, sizeof(text));

    assert_true(n > 0 && n < (ssize_t)sizeof(text) && text[n] == '\0');
    for (ssize_t i = 0; i < n; i++)
        assert_true(text[i] > 32 && text[i] < 127 && !strchr(";\\= ", text[i]));
    assert_int_equal(shmht_desc_parse(text, (size_t)n, &back), 0);
    assert_memory_equal(&d, &back, sizeof(d));
    assert_int_equal(shmht_desc_format(&d, text, (size_t)n), SHMHT_ENOBUF);
    assert_int_equal(shmht_desc_format(&d, text, (size_t)n + 1), n);
    for (ssize_t len = 0; len < n - (ssize_t)strlen(d.name) + 1; len++)
        assert_true(shmht_desc_parse(text, (size_t)len, &back) < 0);
    d.name[0] = '\0';
    n = shmht_desc_format(&d, text, sizeof(text));
    assert_int_equal(shmht_desc_parse(text, (size_t)n, &back), 0);
    assert_string_equal(back.name, "");
    strcpy(d.name, "relative");
    assert_int_equal(shmht_desc_format(&d, text, sizeof(text)), SHMHT_ENAME);
    strcpy(d.name, "/with space");
    assert_int_equal(shmht_desc_format(&d, text, sizeof(text)), SHMHT_ENAME);
    memset(d.name, 'a', sizeof(d.name)); /* no NUL */
    d.name[0] = '/';
    assert_int_equal(shmht_desc_format(&d, text, sizeof(text)), SHMHT_ENAME);
}

static void test_text_refused(void **state)
{
    static const struct {
        const char *text;
        int rc;
    } bad[] = {
        {"", SHMHT_EMAGIC},
        {"shmh", SHMHT_EMAGIC},
        {"shmht", SHMHT_ECORRUPT},
        {"shmht2,1,1,0,1,1,100000,-", SHMHT_EVERSION},
        {"shmht1,1,1,0,1,1,100000", SHMHT_ECORRUPT},
        {"shmht1,1,1,0,1,1,100000,", SHMHT_ENAME},
        {"shmht1,3,1,0,1,1,100000,-", SHMHT_ECORRUPT},
        {"shmht1,1,1,0,1,1,fff,-", SHMHT_ECORRUPT},
        {"shmht1,1,1,0,1,1,4000000001,-", SHMHT_ECORRUPT},
        {"shmht00001,1,1,0,1,1,100000,-", SHMHT_ECORRUPT}, /* a digit too many, in each field */
        {"shmht1,00001,1,0,1,1,100000,-", SHMHT_ECORRUPT},
        {"shmht1,1,000000001,0,1,1,100000,-", SHMHT_ECORRUPT},
        {"shmht1,1,1,000000000,1,1,100000,-", SHMHT_ECORRUPT},
        {"shmht1,1,1,0,11111111111111111,1,100000,-", SHMHT_ECORRUPT},
        {"shmht1,1,1,0,1,00000000000000001,100000,-", SHMHT_ECORRUPT},
        {"shmht1,1,1,0,1,1,00000000000100000,-", SHMHT_ECORRUPT},
        {"shmht1,1,1,0,1,1,0x1000,-", SHMHT_ECORRUPT},
        {"shmht1,1,,0,1,1,100000,-", SHMHT_ECORRUPT},
        {"shmht1,1,1,0,1,1,100000,x", SHMHT_ENAME},
        {"shmht1,1,1,0,1,1,100000,/a b", SHMHT_ENAME},
        {"shmht1,1,1,0,1,1,100000,/a;b", SHMHT_ENAME},
        {"SHMHT1,1,1,0,1,1,100000,-", SHMHT_EMAGIC},
    };
    struct shmht_desc d;

    assert_int_equal(shmht_desc_parse("shmht1,1,1,0,1,1,100000,-", 25, &d), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(shmht_desc_parse(bad[i].text, strlen(bad[i].text), &d), bad[i].rc);
    assert_int_equal(shmht_desc_parse("shmht1,1,1,0,1,1,100000,/a\0b", 28, &d), SHMHT_ENAME);
}

/* Over each kind of socket; a message without a descriptor, with something else, and the end. */
static void test_send(void **state)
{
    static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 1 << 20};
    struct shmht_writer *w;
    struct shmht_desc sent, got;
    struct stat a, b;
    char other[SHMHT_DESC_TEXT_BYTES] = "something else";
    int pair[2], fd, ours;

    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    ours = shmht_writer_share(w, &sent);
    assert_true(ours >= 0);
    for (int t = 0; t < 3; t++) {
        assert_int_equal(socketpair(AF_UNIX, types[t], 0, pair), 0);
        assert_int_equal(shmht_fd_send(pair[0], ours, &sent), 0);
        fd = shmht_fd_recv(pair[1], &got);
        assert_true(fd >= 0);
        assert_memory_equal(&sent, &got, sizeof(sent));
        assert_true(fstat(fd, &a) == 0 && fstat(ours, &b) == 0 && a.st_ino == b.st_ino);
        close(fd);
        assert_int_equal(write(pair[0], other, sizeof(other)), sizeof(other));
        assert_int_equal(shmht_fd_recv(pair[1], &got), SHMHT_EMAGIC);
        assert_true(shmht_desc_format(&sent, other, sizeof(other)) > 0);
        assert_int_equal(write(pair[0], other, sizeof(other)), sizeof(other));
        assert_int_equal(shmht_fd_recv(pair[1], &got),
                         SHMHT_EMAGIC); /* a descriptor's description alone */
        close(pair[0]);
        if (types[t] != SOCK_DGRAM)
            assert_int_equal(shmht_fd_recv(pair[1], &got), -EPIPE);
        close(pair[1]);
        strcpy(other, "something else");
    }
    assert_int_equal(shmht_fd_send(-1, ours, &sent), -EBADF);
    shmht_writer_destroy(w);
}

/* Sends bytes with a descriptor. */
static void send_piece(int sock, void *bytes, size_t len, int fd)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {bytes, len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    assert_int_equal(sendmsg(sock, &msg, 0), len);
}

/* A stream may deliver the message in two pieces, or the first piece and its end. */
static void test_pieces(void **state)
{
    static const size_t cuts[] = {1, 4, 5, 6, 100, SHMHT_DESC_TEXT_BYTES - 1};
    struct shmht_desc sent = sample(), got;
    char text[SHMHT_DESC_TEXT_BYTES] = {0};
    int pair[2], fd, fds = n_fds();

    assert_true(shmht_desc_format(&sent, text, sizeof(text)) > 0);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        size_t rest = sizeof(text) - cuts[i];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        send_piece(pair[0], text, cuts[i], pair[0]);
        assert_int_equal(write(pair[0], text + cuts[i], rest), rest);
        fd = shmht_fd_recv(pair[1], &got);
        assert_true(fd >= 0);
        assert_memory_equal(&sent, &got, sizeof(sent));
        close(fd);
        send_piece(pair[0], text, cuts[i], pair[1]);
        close(pair[0]);
        assert_int_equal(shmht_fd_recv(pair[1], &got), -EPIPE);
        close(pair[1]);
        assert_int_equal(n_fds(), fds);
    }
}

static int handled; /* the end of a pipe: a byte for each signal */

static void on_signal(int number)
{
    (void)number;
    if (write(handled, "", 1) != 1)
        abort();
}

/* A child's: returns when a process sleeps in the kernel, or has ended. */
static void await_sleep(pid_t pid)
{
    char path[64], state = 'R';

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    while (state != 'S') {
        FILE *f = fopen(path, "re");

        if (!f || fscanf(f, "%*d %*s %c", &state) != 1)
            return;
        fclose(f);
        sched_yield();
    }
}

/* A signal that a process handles while it waits for the message does not end the wait. */
static void test_signal(void **state)
{
    struct sigaction action = {.sa_handler = on_signal}, before;
    struct shmht_desc sent = sample(), got;
    int pair[2], pipes[2], status, fd;
    pid_t pid, waiting = getpid();

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(pipe(pipes), 0);
    handled = pipes[1];
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    pid = fork();
    if (pid == 0) {
        char byte;

        close(pipes[1]);
        await_sleep(waiting);
        kill(waiting, SIGUSR1);
        _exit(read(pipes[0], &byte, 1) == 1 && shmht_fd_send(pair[0], pair[0], &sent) == 0 ? 0 : 1);
    }
    assert_true(pid > 0);
    fd = shmht_fd_recv(pair[1], &got);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(fd >= 0);
    assert_memory_equal(&sent, &got, sizeof(sent));
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    close(fd);
    for (int i = 0; i < 2; i++) {
        close(pair[i]);
        close(pipes[i]);
    }
}

/* In a process without standard input the object of a writer, or a descriptor received, is 0. */
static void test_descriptor_0(void **state)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 1 << 20};
    const int input = fcntl(0, F_DUPFD_CLOEXEC, 100);
    struct shmht_desc sent, got;
    struct shmht_writer *w;
    int pair[2], fd;

    close(0);
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_true(fcntl(0, F_GETFD) >= 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    fd = shmht_writer_share(w, &sent);
    assert_true(fd > 0);
    assert_int_equal(shmht_fd_send(pair[0], fd, &sent), 0);
    shmht_writer_destroy(w);
    assert_int_equal(shmht_fd_recv(pair[1], &got), 0);
    assert_memory_equal(&sent, &got, sizeof(sent));
    close(0);
    close(pair[0]);
    close(pair[1]);
    if (input >= 0) {
        dup2(input, 0);
        close(input);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),   cmocka_unit_test(test_text_refused),
        cmocka_unit_test(test_send),   cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_signal), cmocka_unit_test(test_descriptor_0),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
