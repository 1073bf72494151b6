/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by pmiprobe's files: verdicts, connections, the played process, child processes. */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <signal.h>

#include <pmiwire.h>

/* A case's result, by rising severity: of two ranks the worse one counts. */
enum verdict {
    V_NONE,    /* nothing reported */
    V_OK,      /* as a conforming server does */
    V_NO,      /* an optional feature that the server lacks, refused in good form */
    V_TAKEN,   /* a message that should be refused was answered with rc=0 */
    V_ERROR,   /* error reply */
    V_CLOSED,  /* connection closed, the job lives */
    V_DELAYED, /* another rank was held up */
    V_WRONG,   /* a false reply, or one outside of the protocol */
    V_HANG,    /* no reply */
    V_KILLED,  /* the job was ended */
    V_CRASH,   /* the server or launcher died */
    V_COUNT
};
const char *verdict_name(enum verdict v);
int verdict_find(const char *name);

/* ---- conn.c: a socket and the messages on it ---- */

enum got { GOT_MSG, GOT_CLOSED, GOT_TIMEOUT, GOT_BAD };

#define CONN_FIELDS 256
#define CONN_BYTES  (1024 * 1024 + 65536)

struct conn {
    int fd;
    char *buf;
    size_t len;  /* bytes in buf */
    size_t used; /* of those, bytes of the message handed out last */
    bool closed;
    int error; /* after GOT_BAD: PMIWIRE_E* */
    struct pmiwire_decoder dec;
    struct pmiwire_msg msg;
    struct pmiwire_field fields[CONN_FIELDS];
};

/* Take over a socket. With `v1_value_to_eol` a PMI-1 value may hold spaces. 0 or -errno. */
int conn_open(struct conn *c, int fd, bool v1_value_to_eol);
void conn_close(struct conn *c);
/* Send everything within timeout_ms: 0, -ETIMEDOUT or -EPIPE. *sent, if given, counts the bytes
 * sent. */
int conn_send(struct conn *c, const void *data, size_t len, int timeout_ms, size_t *sent);
/* The next message, in c->msg; its bytes are c->buf, c->used of them. */
enum got conn_recv(struct conn *c, int timeout_ms);
/* Wait for the peer to close: true if it did. Discards all bytes that arrive. */
bool conn_ends(struct conn *c, int timeout_ms);

int64_t now_ms(void);
void sleep_ms(int ms);
/* Bytes as printable text, cut with "…" to fit. Returns out. */
char *printable(const char *data, size_t len, char *out, size_t cap);
bool str_is(struct pmiwire_str s, const char *text);
/* Print text as the inside of a JSON string, or of a markdown table's cell. */
void print_json(FILE *f, const char *text);
void print_cell(FILE *f, const char *text, int width);

/* ---- proc.c: child processes that do not outlive the probe ---- */

extern volatile sig_atomic_t probe_stopped; /* a signal asked us to end */

void proc_setup(void);
/* Start argv in its own process group; it gets SIGTERM when the probe dies. envp: "A=b" pairs to
 * add. out_fd becomes its stdout (and stderr), keep_fd stays open in it, when 0 or more. */
pid_t proc_start(char *const argv[], const char *const *env, int out_fd, int keep_fd);
/* End the rest of its group: SIGTERM, grace, SIGKILL; and every orphan that we inherited. */
void proc_end(pid_t pgid, bool running, int grace_ms);

/* ---- play.c: the process under the launcher ---- */

struct play {
    struct conn c;
    const struct probe_case *pc;
    const char *report; /* path, rank is appended; NULL: print */
    int rank, size;     /* as the environment says */
    int wire;           /* PMIWIRE_V1 or PMIWIRE_V2 */
    int reply_ms;       /* how long to wait for a reply */
    int kvsname_max, keylen_max, vallen_max;
    bool pad_right; /* PMI-2 lengths as Slurm's client writes them */
    bool setup;     /* in begin(): a failure now is not the case's subject */
    bool begun;     /* init is done: send finalize at the end */
    bool spoiled;   /* the connection is of no further use */
    char kvsname[512];
    char text[320]; /* the last reply, printable */
    /* the request being built, its bytes, and its reply */
    struct pmiwire_encoder enc;
    char out[131072];
    const struct pmiwire_command_desc *reply;
};

struct probe_case {
    const char *name;
    void (*run)(struct play *p);
    const char *expect; /* what a conforming server does */
    uint16_t accept;    /* BIT(verdict) of each that conforms */
    uint8_t wire;       /* PMIWIRE_V1 or PMIWIRE_V2 */
    uint8_t ranks;
    uint8_t flags; /* CASE_* */
    uint8_t arg;
    int16_t status; /* CASE_ENDS: the launcher's status, -1 any but 0, -2 any */
};
#define BIT(v)       (1u << (v))
#define CASE_WITNESS 1u /* rank 1 puts and gets meanwhile and reports its verdict */
#define CASE_ENDS    2u /* rank 0 must make the job end */

const struct probe_case *case_at(int i);
const struct probe_case *case_find(const char *name);
bool case_conforms(const struct probe_case *pc, enum verdict v);

int play_main(int argc, char **argv);

/* Open the connection the launcher gave: PMI_FD, or PMI_PORT and PMI_ID. 0 or a message. */
const char *play_connect(struct play *p);

/* Each of these ends the process with a verdict if the server's answer is malformed or missing. */
void begin(struct play *p); /* init and each client's first requests */
void fullinit(struct play *p, bool with_jobid);
void begin_version(struct play *p, int version, int subversion);
/* Requests as the protocol has them: begin one, add fields to p->enc, end it. Its command on either
 * wire; that of the other may be 0. */
void request_begin(struct play *p, uint16_t v1, uint16_t v2);
void request_text(struct play *p, uint16_t field, const char *value);
size_t request_end(struct play *p); /* the bytes in p->out */
void request_send(struct play *p);  /* ends and sends it */
void request_call(struct play *p);  /* sends it and hears its reply */
/* One without fields, and its reply. */
void request_plain(struct play *p, uint16_t v1, uint16_t v2);
void say_raw(struct play *p, const void *data, size_t len);
const struct pmiwire_msg *hear(struct play *p);
void hear_cmd(struct play *p, const char *cmd); /* the next message must have this name */
int rc_of(struct play *p);                      /* of the last message; absent is 0 */
int put(struct play *p, const char *key, const char *value, size_t len); /* its rc */
int put_as_is(struct play *p, const char *key, const char *value);       /* unescaped, unchecked */
void put_begin(struct play *p);                                          /* up to the key */
void get_begin(struct play *p, const char *key);
int get(struct play *p, const char *key, struct pmiwire_str *value); /* 0 found, else 1 */
void fence(struct play *p);
void fence_send(struct play *p);
void put_ok(struct play *p, const char *key, const char *value);
void get_is(struct play *p, const char *key, const char *value);
void alive(struct play *p); /* the server still answers us */
struct pmiwire_str field_of(struct play *p, uint16_t id);
int number_of(struct play *p, uint16_t id, const char *name); /* must be there and a number */
_Noreturn void finish(struct play *p, enum verdict v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void note(struct play *p, const char *word); /* a line in the report */
/* Wait until rank's report has this word, e.g. "ready" or "verdict". */
bool wait_note(struct play *p, int rank, const char *word, int ms);
void witness(struct play *p);
/* Send malformed bytes and judge the reply. */
void provoke(struct play *p, const void *data, size_t len);

/* A PMI-2 message or PMI-1 line into out; returns its length. */
size_t frame(int wire, const char *body, size_t len, char *out, size_t cap);

/* ---- server.c, client.c, transcript.c ---- */
int server_main(int argc, char **argv);
int compare_main(int argc, char **argv);
int client_main(int argc, char **argv);
int print_variations(void);
int replay_main(int argc, char **argv);
_Noreturn void transcript_play(struct play *p, const char *path);

#endif /* PROBE_H */
