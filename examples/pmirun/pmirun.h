/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmirun: a job launcher for one node and the PMI server of the processes that it starts.
 *
 * The shape. One process, one thread, one epoll loop (loop.c) that looks at: the ranks' PMI
 * connections (pmi.c), their stdout and stderr (output.c), signals (signals.c), a listening socket
 * (port.c) and the terminal (input.c). libpmiwire's server engine knows the protocol; what it
 * leaves to us is to start processes (launch.c, spawn.c) and to end them (job.c).
 *
 * All state hangs off one `struct pmirun`.
 */
#ifndef PMIRUN_H
#define PMIRUN_H

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <pmiwire/server.h>

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull

/* Exit statuses of our own; see the table in pmirun.1. */
#define STATUS_USAGE 2
#define STATUS_TIMEOUT 124
#define STATUS_NOEXEC 126
#define STATUS_NOTFOUND 127
#define STATUS_SIGNAL 128
#define STATUS_RESOURCES 250 /* descriptors, processes or memory ran out */
#define STATUS_NOFINALIZE 251 /* a rank left after PMI init without finalize, with status 0 */
#define STATUS_OUTPUT 252 /* output could not be written */

#define GRACE_NS (2 * NS_PER_S) /* between SIGTERM and SIGKILL */

struct pmirun;
struct job;
struct rank;

/* What an epoll event stands for: the first member of everything that is polled. */
enum source_kind { SOURCE_SIGNALS, SOURCE_LISTENER, SOURCE_CONN, SOURCE_STREAM, SOURCE_SINK, SOURCE_INPUT, SOURCE_INPUT_PIPE };

struct source {
    enum source_kind kind;
    int fd; /* -1: closed */
};

/* Where output goes: our stdout or stderr. */
struct sink {
    struct source src;
    int how;         /* see output.c */
    char *buf;       /* bytes that wait: from head to len */
    size_t head, len, cap;
    bool armed;      /* in epoll, waiting for room */
    bool dead;       /* nobody reads it any more: bytes are dropped */
    bool full;       /* too much waits: streams that feed it are paused */
    struct stream *paused;
};

/* A rank's stdout or stderr. */
struct stream {
    struct source src;
    struct rank *rank;
    struct sink *sink;
    char *part; /* a line without its end, yet */
    size_t part_len, part_cap;
    uint64_t part_ns;  /* when it last grew */
    bool mid_line;     /* what was passed on last did not end a line */
    bool paused;
    struct stream *next_paused;
};

/* A PMI connection. */
struct conn {
    struct source src;
    struct pmiwire_conn *pmi;
    struct rank *rank; /* NULL: has not said yet who it is (PMI_PORT) */
    bool armed;        /* waits for room to write */
    bool queued;       /* in pr->ready */
    bool table_sent;   /* the descriptor of its job's table, or there is none to be sent */
    uint32_t n_arrays; /* of its job's Allgathers, those whose descriptor has been sent */
    uint32_t n_diags;
    struct conn *next; /* in pr->ready, then in pr->grave */
};

/* One program with its arguments: a `:` group of the command line, or a sub-command of a spawn. */
struct app {
    uint32_t n_procs;
    char **argv;    /* argv[0] is the program as named */
    char *path;     /* what to execve; relative paths are relative to wdir */
    char *wdir;     /* NULL: ours */
    char *search;   /* NULL: $PATH */
    char **sets;    /* VAR=value of -x, NULL-terminated */
    uint32_t n_sets;
    char **envp;    /* complete environment but for the slots at its beginning; see launch.c */
};

enum rank_state { RANK_WAITING, RANK_RUNNING, RANK_EXITED };

struct rank {
    struct job *job;
    struct app *app;
    uint32_t number;
    pid_t pid;
    enum rank_state state;
    uint32_t pmi_state; /* PMIWIRE_CONN_* as last told; FAILED is not stored here */
    uint32_t token;     /* PMI_PORT: its PMI_ID, good for one connection */
    bool token_used;
    struct conn *conn;
    struct stream out, err;
};

/* A job: a key-value space and the processes that share it. */
struct job {
    uint32_t id;     /* the engine's number */
    uint32_t number; /* ours, 0 for the command line's */
    char kvsname[128];
    uint32_t n_ranks, n_launched, n_live;
    uint32_t n_inited;     /* ranks that ever completed PMI init */
    uint32_t n_absent;     /* ranks that exited without */
    bool absent_warned;
    bool abandoned;        /* a spawn that failed: how its ranks end does not matter */
    int early_status;      /* of the first rank that failed without PMI init */
    bool spawned;
    uint64_t spawn_token;
    const char *spawner;   /* kvsname of the job that spawned this one */
    struct table *table; /* its pairs in shared memory; NULL: the engine stores them */
    struct gather *gather; /* its Allgathers; NULL: they are pairs like others */
    struct app *apps;
    uint32_t n_apps;
    struct rank *ranks;
    struct job *next;        /* all jobs */
    struct job *next_launch; /* jobs with processes to start */
};

struct options {
    struct app *apps;
    uint32_t n_apps;
    uint32_t n_procs;      /* of all apps */
    double timeout_s;      /* 0: none */
    double stall_s;        /* 0: never */
    int32_t universe_size; /* -1: unknown */
    uint64_t shm_max_bytes;
    bool labels, use_port, no_shm, pmi_1_2, verbose, stats;
};

/* When things happened, ns since the start; 0: has not. */
struct phases {
    uint64_t launch_begin, launch_end, first_init, last_init, first_finalize, last_finalize, last_exit;
    uint64_t launch_busy; /* time spent in starting processes */
};

struct pmirun {
    struct options opt;
    struct pmiwire_server *server;
    int epoll;
    int null_fd;
    uint64_t start_ns, now_ns;

    struct job *jobs, **jobs_tail;
    uint32_t n_jobs;
    uint64_t n_ranks;              /* of all jobs, ever */
    uint64_t n_live;               /* processes that run */
    struct job *launch, **launch_tail;
    struct rank **by_pid;          /* open-addressing table */
    size_t by_pid_cap, by_pid_n;
    struct launcher *launcher;     /* launch.c's own */

    struct sink out, err;
    uint64_t part_deadline_ns;     /* 0: no unfinished line is waiting */
    uint64_t n_streams;            /* open ones */
    struct conn *ready, *grave;
    uint64_t n_conns, n_unknown;   /* open connections; of those, without identity */

    struct source signals, listener, input, input_pipe;
    char *input_buf;
    size_t input_head, input_len;
    bool input_blocked;            /* the pipe to rank 0 is full */
    uint64_t input_retry_ns;       /* in the background: when to look again, 0: no need */
    uint16_t port;
    uint32_t bad_ids;
    struct rank **by_token;
    size_t by_token_cap, by_token_n;
    int diag_fd;                   /* NETLINK_SOCK_DIAG, -1: none */

    sigset_t orig_mask, handled;
    struct rlimit orig_nofile;
    bool nofile_raised, pipe_was_ignored;
    uint32_t n_interrupts;
    int last_signal;               /* forwarded last, 0: none */

    bool stopping;
    uint64_t kill_ns;              /* when SIGKILL follows, 0: not planned */
    uint64_t drain_ns;             /* after that, do not wait for readers of our output */
    uint64_t deadline_ns;          /* --timeout, 0: none */
    uint64_t tick_ns;              /* next tick of the engine, 0: none */
    pid_t *inherited;              /* children that we were born with, not our concern */
    size_t n_inherited;
    uint64_t sweep_ns;             /* when to look for leftovers again, 0: have not yet */
    bool clean;                    /* no process of ours is left */
    int status;                    /* exit status so far */
    bool status_set;
    struct phases at;
    char *scratch;                 /* SCRATCH_BYTES that any reader may use at once */
};

#define SCRATCH_BYTES 65536u

/* util.c */
uint64_t clock_ns(void);
void *xrealloc(void *p, size_t bytes); /* exits on failure: for the command line and the like */
char *xprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
void die(int status, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
uint32_t random_u32(void);
/* A line to stderr with our name in front, in turn with the ranks' lines. */
void say(struct pmirun *pr, const char *format, ...) __attribute__((format(printf, 2, 3)));
void trace(struct pmirun *pr, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "rank 3", or "rank 1:3" of a spawned job. */
const char *rank_name(const struct rank *r, char buf[32]);

/* options.c: exits on --help, --version and errors */
void options_parse(struct options *opt, int argc, char **argv);

/* main.c */
void print_stats(struct pmirun *pr);

/* loop.c */
int loop_run(struct pmirun *pr);
int loop_add(struct pmirun *pr, struct source *src, uint32_t events);
void loop_mod(struct pmirun *pr, struct source *src, uint32_t events);
void loop_del(struct pmirun *pr, struct source *src);

/* job.c */
struct job *job_create(struct pmirun *pr, struct app *apps, uint32_t n_apps, const char *spawner, int *err);
void job_queue(struct pmirun *pr, struct job *job);
void job_rank_exited(struct pmirun *pr, struct rank *r, const siginfo_t *si);
/* A spawn failed: ends what was started of it and tells the spawner. */
void job_abandon(struct pmirun *pr, struct job *job);
void job_rank_inited(struct pmirun *pr, struct rank *r);
/* Ends everything: SIGTERM, and SIGKILL after GRACE_NS. The first status given counts. */
void job_stop(struct pmirun *pr, int status);
void job_set_status(struct pmirun *pr, int status);
void job_kill_all(struct pmirun *pr, int sig);
struct rank *job_find_pid(struct pmirun *pr, pid_t pid);
int job_room_for_pid(struct pmirun *pr); /* before its process is there: one that is not found would never be reaped */
void job_add_pid(struct pmirun *pr, struct rank *r);
void job_reap(struct pmirun *pr);
/* Descendants that outlived their rank: told to end. True when none is left. */
bool job_sweep(struct pmirun *pr);

/* launch.c */
int launch_init(struct pmirun *pr);
/* Finds app's program; 0, or an errno: ENOENT, EACCES, ... */
int launch_resolve(struct app *app);
/* Starts waiting processes for a little while; true when more are waiting. */
bool launch_some(struct pmirun *pr);
/* Waits until no child shares our memory any more. Before any signal is sent to a rank. */
void launch_land_all(struct pmirun *pr);
/* Notes those who have left our memory by now, and deals with a program that could not be executed. Before ranks are reaped. */
void launch_settle(struct pmirun *pr);
/* Descriptors for n more processes. 0 or -EMFILE. */
int launch_check_limits(struct pmirun *pr, uint64_t n_more, uint64_t *need, uint64_t *have);

/* spawn.c */
int spawn_request(void *ctx, const struct pmiwire_peer *who, const struct pmiwire_spawn *req, uint64_t token);
void spawn_launched(struct pmirun *pr, struct job *job, int err);

/* pmi.c */
int pmi_init(struct pmirun *pr);
int pmi_attach(struct pmirun *pr, struct rank *r, int fd); /* takes fd */
struct conn *pmi_new_conn(struct pmirun *pr, int fd, uint32_t job, int32_t rank, int *err);
void pmi_event(struct pmirun *pr, struct conn *c, uint32_t events);
void pmi_drain(struct pmirun *pr, struct rank *r); /* reads what an exited rank has left */
void pmi_flush_ready(struct pmirun *pr);
void pmi_bury(struct pmirun *pr); /* frees what was closed in this batch */
void pmi_close(struct pmirun *pr, struct conn *c);

/* table.c */
struct job *job_by_id(const struct pmirun *pr, uint32_t id);
const char *table_why(int rc); /* an error of libshmht's or the system's */
void table_create(struct pmirun *pr, struct job *job); /* without shared memory job->table stays NULL */
void table_destroy(struct job *job);
/* Every rank has been told where it is, and has opened it: its name is not needed any more, and would outlive a pmirun that is killed. */
void table_settled(struct pmirun *pr, struct job *job);
int table_fd(const struct job *job); /* what readers get, -1: none */
int table_put(struct pmirun *pr, struct job *job, struct pmiwire_str key, struct pmiwire_str value);
int table_on_put(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key, struct pmiwire_str value);
int table_on_get(void *ctx, const struct pmiwire_peer *who, uint32_t job_id, int32_t srcid, struct pmiwire_str key,
                 uint64_t token, struct pmiwire_str *value);

/* gather.c */
void gather_create(struct pmirun *pr, struct job *job);
void gather_destroy(struct job *job);
/* A put that is part of an Allgather: true, and it is kept until the fence. */
bool gather_put(struct pmirun *pr, struct job *job, int32_t rank, struct pmiwire_str key, struct pmiwire_str value);
int gather_get(const struct job *job, struct pmiwire_str key, struct pmiwire_str *value);
int gather_on_fence(void *ctx, uint32_t job_id);
/* The descriptor of the last Allgather, -1: none, and how many there have been. */
int gather_fd(const struct job *job, uint32_t *n_arrays);

/* port.c */
int port_init(struct pmirun *pr);
int port_assign(struct pmirun *pr, struct rank *r); /* gives it a token */
void port_accept(struct pmirun *pr);
int port_identify(void *ctx, struct pmiwire_conn *conn, void *cookie, int32_t pmiid, uint32_t *job, int32_t *rank);

/* output.c */
void output_init(struct pmirun *pr);
int output_attach(struct pmirun *pr, struct stream *st, int fd); /* takes fd */
void output_event(struct pmirun *pr, struct stream *st);
void output_room(struct pmirun *pr, struct sink *sk); /* epoll says there is room */
void output_flush(struct pmirun *pr);
void output_parts(struct pmirun *pr); /* passes on lines that have waited for their end */
bool output_pending(const struct pmirun *pr);
void output_text(struct pmirun *pr, const char *text, size_t len); /* to stderr */
void output_close(struct pmirun *pr, struct stream *st);

/* input.c */
int input_init(struct pmirun *pr, int *child_fd); /* what rank 0 gets as stdin */
void input_event(struct pmirun *pr, struct source *src);
void input_retry(struct pmirun *pr); /* at input_retry_ns */

/* signals.c */
int signals_init(struct pmirun *pr);
void signals_event(struct pmirun *pr);

#endif /* PMIRUN_H */
