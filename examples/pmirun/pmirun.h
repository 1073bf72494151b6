/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmirun: a job launcher and the PMI server of the processes that it starts, on one node or
 * several.
 *
 * The shape. One process, one thread, one epoll loop (loop.c) that looks at: the ranks' PMI
 * connections (pmi.c), their stdout and stderr (output.c), signals (signals.c), a listening socket
 * (port.c) and the terminal (input.c). libpmiwire's server engine knows the protocol; what it
 * leaves to us is to start processes (launch.c, spawn.c) and to end them (job.c).
 *
 * On several nodes the same program runs once more on each, as an *agent*, and the pmirun of the
 * command line is their *head*:
 *
 *         head ---- ssh, srun or fork: starts the agents; hands each the secret on its stdin
 *        / |  \     one authenticated TCP connection an agent (channel.c, net.c)
 *   agent--agent--agent     the exchange of pairs: TCP, or UCX active messages (exchange.c,
 *                           links_ucx.c)
 *     |      |      |
 *   ranks  ranks  ranks
 *
 * An agent starts its ranks, serves them PMI, and tells the head whatever happens to them. It
 * judges nothing. The head has a `struct rank` for each of them, to which it applies what it hears
 * just as the pmirun of one node applies what it sees: job.c decides there what an exit means,
 * output.c makes lines and labels out of the bytes that come. What the head does to ranks (signals,
 * their end) it tells the agents. So `pr->head` and `pr->agent`, of which at most one is set, are
 * asked only where it matters whether a rank is here: to start it, to send it a signal, to take its
 * bytes.
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
#include <sys/uio.h>

#include <pmiwire/server.h>

#define NS_PER_S  1000000000ull
#define NS_PER_MS 1000000ull

/* Exit statuses of our own; see the table in pmirun.1. */
#define STATUS_USAGE      2
#define STATUS_TIMEOUT    124
#define STATUS_NOEXEC     126
#define STATUS_NOTFOUND   127
#define STATUS_SIGNAL     128
#define STATUS_RESOURCES  250 /* descriptors, processes or memory ran out */
#define STATUS_NOFINALIZE 251 /* a rank left after PMI init without finalize, with status 0 */
#define STATUS_OUTPUT     252 /* output could not be written */
#define STATUS_NODE       253 /* a node could not be reached, or was lost */

#ifndef MAX_PROCS
#define MAX_PROCS 1000000u /* of a job */
#endif
#define GRACE_NS (2 * NS_PER_S) /* between SIGTERM and SIGKILL */

struct pmirun;
struct job;
struct rank;
struct net;
struct net_ops;
struct head;
struct agent;
struct names;
struct msg;
struct msg_in;

/* What an epoll event stands for: the first member of everything that is polled. */
enum source_kind {
    SOURCE_SIGNALS,
    SOURCE_LISTENER,
    SOURCE_CONN,
    SOURCE_STREAM,
    SOURCE_SINK,
    SOURCE_INPUT,
    SOURCE_INPUT_PIPE,
    SOURCE_NET_LISTENER,
    SOURCE_NET,
    SOURCE_STARTER,
    SOURCE_BOOT,
    SOURCE_UCX
};

struct source {
    enum source_kind kind;
    int fd; /* -1: closed */
};

/* Where output goes: our stdout or stderr; an agent's: the head's. */
struct sink {
    struct source src;
    uint32_t room; /* agent: bytes that the head still wants */
    int how;       /* see output.c */
    char *buf;     /* bytes that wait: from head to len */
    size_t head, len, cap;
    bool armed; /* in epoll, waiting for room */
    bool dead;  /* nobody reads it any more: bytes are dropped */
    bool full;  /* too much waits: streams that feed it are paused */
    struct stream *paused;
};

/* A rank's stdout or stderr. */
struct stream {
    struct source src;
    bool remote; /* open, and its bytes come from an agent */
    struct rank *rank;
    struct sink *sink;
    char *part; /* a line without its end, yet */
    size_t part_len, part_cap;
    uint64_t part_ns; /* when it last grew */
    bool mid_line;    /* what was passed on last did not end a line */
    bool paused;
    struct stream *next_paused;
};

/* A PMI connection. */
struct conn {
    struct source src;
    struct pmiwire_conn *pmi;
    struct rank *rank;     /* NULL: has not said yet who it is (PMI_PORT) */
    bool armed;            /* waits for room to write */
    bool queued;           /* in pr->ready */
    bool table_sent;       /* the descriptor of its job's table, or there is none to be sent */
    uint32_t n_arrays;     /* of its job's Allgathers, those whose descriptor has been sent */
    struct waiter *waiter; /* its Get that waits for a key; NULL: none does */
    uint32_t n_diags;
    struct conn *next; /* in pr->ready, then in pr->grave */
};

/* One program with its arguments: a `:` group of the command line, or a sub-command of a spawn. */
struct app {
    uint32_t n_procs;
    char **argv;  /* argv[0] is the program as named */
    char *path;   /* what to execve; relative paths are relative to wdir */
    char *wdir;   /* NULL: ours */
    char *search; /* NULL: $PATH */
    char **sets;  /* VAR=value of -x, NULL-terminated */
    uint32_t n_sets;
    char *hosts; /* head: names of the nodes to start it on; NULL: all */
    char **envp; /* complete environment but for the slots at its beginning; see launch.c */
};

enum rank_state { RANK_WAITING, RANK_RUNNING, RANK_EXITED };

struct rank {
    struct job *job;
    struct app *app;
    uint32_t number; /* in the job */
    uint32_t local;  /* among those of its node */
    uint32_t node;   /* that it runs on */
    pid_t pid;
    enum rank_state state;
    uint32_t pmi_state; /* PMIWIRE_CONN_* as last told; FAILED is not stored here */
    bool hung_up;       /* its connection ended between init and finalize */
    bool aborted;       /* it has asked for the end of all */
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
    uint32_t n_ranks; /* its size */
    uint32_t n_local; /* entries of `ranks`: those that this pmirun knows: all, or an agent's own */
    uint32_t n_launched, n_live; /* of those */
    uint32_t *node_of;           /* by rank; NULL: all are here */
    uint32_t n_launching;        /* head: agents that have not started all of theirs */
    uint32_t n_members,
        n_gave_up;     /* head: agents that have ranks of it; those that say that it failed */
    uint32_t n_inited; /* ranks that ever completed PMI init */
    uint32_t n_absent; /* ranks that exited without */
    uint32_t n_gone;   /* ranks that put nothing any more: finalized, or exited */
    bool absent_warned;
    bool abandoned;   /* a spawn that failed: how its ranks end does not matter */
    bool ended;       /* no rank of it is left here */
    bool over;        /* agent: nor anywhere */
    int early_status; /* of the first rank that failed without PMI init */
    bool spawned;
    uint64_t spawn_token;
    uint32_t spawn_node;       /* head: of the rank that asked */
    char *spawner;             /* kvsname of the job that spawned this one */
    struct table *table;       /* its pairs in shared memory; NULL: the engine stores them */
    struct gather *gather;     /* its Allgathers; NULL: they are pairs like others */
    struct exchange *exchange; /* agent: its pairs between nodes; NULL: they are all here */
    struct waits
        *waits; /* Gets that wait for their key; NULL: none ever did, or the exchange has them */
    struct app *apps;
    uint32_t n_apps;
    struct rank *ranks;
    struct job *next;        /* all jobs */
    struct job *next_launch; /* jobs with processes to start */
};

enum launch_kind { LAUNCH_HERE, LAUNCH_FORK, LAUNCH_SSH, LAUNCH_SRUN };
enum link_kind { LINKS_ANY, LINKS_TCP, LINKS_UCX };

struct options {
    struct app *apps;
    uint32_t n_apps;
    uint32_t n_procs;      /* of all apps */
    double timeout_s;      /* 0: none */
    double stall_s;        /* 0: never */
    double get_s;          /* for a Get that waits; 0: no limit */
    int32_t universe_size; /* -1: unknown */
    uint64_t shm_max_bytes;
    bool labels, use_port, no_shm, pmi_1_2, verbose, stats;
    enum launch_kind launch;
    enum link_kind links;
    uint32_t design; /* PMIWIRE_DESIGN_* */
    uint32_t n_nodes;
    bool cyclic;
    char **hosts;
    uint32_t n_hosts;
    char *launch_agent; /* in the place of ssh; NULL: ssh */
    double start_s;     /* for agents to come */
    double node_s;      /* a node that is silent for so long is lost; 0: never */
};

/* How a job is to be: what job_create() is told. */
struct job_plan {
    struct app *apps;
    uint32_t n_apps;
    const char *spawner; /* kvsname of the job that spawned it; NULL: none */
    const char *kvsname; /* NULL: a new one */
    uint32_t number;     /* when a kvsname is given */
    uint32_t *node_of;   /* by rank, becomes the job's; NULL: all here */
};

/* When things happened, ns since the start; 0: has not. */
struct phases {
    uint64_t launch_begin, launch_end, first_init, last_init, first_finalize, last_finalize,
        last_exit;
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
    uint64_t n_ranks; /* of all jobs, ever */
    uint64_t n_live;  /* processes that run */
    struct job *launch, **launch_tail;
    struct rank **by_pid; /* open-addressing table */
    size_t by_pid_cap, by_pid_n;
    struct launcher *launcher; /* launch.c's own */

    struct sink out, err;
    uint64_t part_deadline_ns; /* 0: no unfinished line is waiting */
    uint64_t n_streams;        /* open ones */
    struct conn *ready, *grave;
    uint64_t n_conns, n_unknown; /* open connections; of those, without identity */

    struct source signals, listener, input, input_pipe;
    char *input_buf;
    size_t input_head, input_len;
    bool input_blocked;      /* the pipe to rank 0 is full */
    uint64_t input_retry_ns; /* in the background: when to look again, 0: no need */
    uint16_t port;
    uint32_t bad_ids;
    uint64_t n_complaints; /* about clients that have not said who they are */
    struct rank **by_token;
    size_t by_token_cap, by_token_n;
    int diag_fd; /* NETLINK_SOCK_DIAG, -1: none */

    sigset_t orig_mask, handled;
    struct rlimit orig_nofile;
    bool nofile_raised, pipe_was_ignored, xfsz_was_ignored;
    uint32_t n_interrupts;
    int last_signal; /* forwarded last, 0: none */

    bool stopping;
    uint64_t kill_ns;     /* when SIGKILL follows, 0: not planned */
    uint64_t drain_ns;    /* after that, do not wait for readers of our output */
    uint64_t deadline_ns; /* --timeout, 0: none */
    uint64_t tick_ns;     /* next tick of the engine, 0: none */
    pid_t *inherited;     /* children that we were born with, not our concern */
    size_t n_inherited;
    uint64_t sweep_ns;    /* when to look for leftovers again, 0: have not yet */
    bool clean;           /* no process of ours is left */
    struct rank *aborter; /* who asked for the end of all, NULL: nobody, or that has been judged */
    int32_t abort_code;
    char abort_text[256];
    uint64_t abort_ns; /* when it did */
    int status;        /* exit status so far */
    bool status_set;
    struct phases at;
    char *scratch; /* SCRATCH_BYTES that any reader may use at once */

    struct net *net;     /* NULL: one node */
    struct head *head;   /* not NULL: ranks are started by agents */
    struct agent *agent; /* not NULL: this is one */
    struct names *names; /* published ones, where there are several nodes */
    uint32_t input_room; /* head: bytes of stdin that the agent of rank 0 still takes */
    bool input_is_file;  /* head: epoll does not take it */
    bool input_ends;     /* agent: nothing follows what is in input_buf */
};

#define SCRATCH_BYTES 65536u

/* util.c */
uint64_t clock_ns(void);
void *xrealloc(void *p, size_t bytes); /* exits on failure: for the command line and the like */
char *xprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool env_set(char *assignment); /* NAME=VALUE, copied; cut in two meanwhile. False without a name */
void die(int status, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
uint32_t random_u32(void);
/* A line to stderr with our name in front, in turn with the ranks' lines. */
void say(struct pmirun *pr, const char *format, ...) __attribute__((format(printf, 2, 3)));
void trace(struct pmirun *pr, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "rank 3", or "rank 1:3" of a spawned job; and on which of several nodes. */
#define RANK_NAME_BYTES 128
const char *rank_name(const struct pmirun *pr, const struct rank *r, char buf[RANK_NAME_BYTES]);

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
struct job *job_create(struct pmirun *pr, const struct job_plan *plan, int *err);
struct job *job_by_number(const struct pmirun *pr, uint32_t number);
/* Has there been a job of this number, which is forgotten now? */
bool job_was(const struct pmirun *pr, uint32_t number);
/* Frees spawned jobs that are over. Not while anything of this batch of events may point to one. */
void job_bury(struct pmirun *pr);
void job_free(struct pmirun *pr, struct job *job); /* not in pr->jobs */
void job_queue(struct pmirun *pr, struct job *job);
void job_rank_exited(struct pmirun *pr, struct rank *r, const siginfo_t *si);
/* A spawn failed: ends what was started of it and tells the spawner. */
void job_abandon(struct pmirun *pr, struct job *job);
/* A rank reached or left init ... finalize, or asked for the end of all. */
void job_rank_state(struct pmirun *pr, struct rank *r, uint32_t state);
void job_rank_aborted(struct pmirun *pr, struct rank *r, int32_t exitcode, const char *message);
/* Acts on an abort, unless another rank is about to die, of what the abort may come from. */
void job_judge_abort(struct pmirun *pr);
uint64_t job_abort_deadline(const struct pmirun *pr);
/* Ends everything: SIGTERM, and SIGKILL after GRACE_NS. The first status given counts. */
void job_stop(struct pmirun *pr, int status);
/* Its second half, without a verdict. */
void job_stop_all(struct pmirun *pr);
void job_set_status(struct pmirun *pr, int status);
void job_kill_all(struct pmirun *pr, int sig);
struct rank *job_find_pid(struct pmirun *pr, pid_t pid);
int job_room_for_pid(struct pmirun *pr); /* before its process is there: one that is not found would
                                            never be reaped */
void job_add_pid(struct pmirun *pr, struct rank *r);
void job_reap(struct pmirun *pr);
/* Descendants that outlived their rank: told to end. True when none is left. */
bool job_sweep(struct pmirun *pr);

/* launch.c */
int launch_init(struct pmirun *pr);
/* Finds app's program; 0, NO_WDIR (its working directory is not there), or an errno: ENOENT,
 * EACCES, ... */
#define NO_WDIR (-1)
int launch_resolve(struct app *app);
/* Starts waiting processes for a little while; true when more are waiting. */
bool launch_some(struct pmirun *pr);
/* Waits until no child shares our memory any more. Before any signal is sent to a rank. */
void launch_land_all(struct pmirun *pr);
/* Starts no more of a job, and keeps nothing that points to it. */
void launch_drop(struct pmirun *pr, struct job *job);
/* Notes those who have left our memory by now, and deals with a program that could not be executed.
 * Before ranks are reaped. */
void launch_settle(struct pmirun *pr);
/* Descriptors for n more processes. 0 or -EMFILE. */
int launch_check_limits(struct pmirun *pr, uint64_t n_more, uint64_t *need, uint64_t *have);

/* nodes.c: the head's nodes */
void nodes_start(struct pmirun *pr); /* exits when nothing can be started */
/* The nodes of n ranks, on those named in `hosts` (NULL: all). False: one is not of this job. */
bool nodes_place(const struct pmirun *pr, uint32_t n, const char *hosts, uint32_t *node_of);
void nodes_launch(struct pmirun *pr, struct job *job, const struct msg_in *preputs);
void nodes_signal(struct pmirun *pr, int sig);
void nodes_stop(struct pmirun *pr);
void nodes_abandon(struct pmirun *pr, struct job *job);
void nodes_over(struct pmirun *pr, const struct job *job);
void nodes_room(struct pmirun *pr, const struct sink *sk); /* its bytes have gone */
bool nodes_send_input(struct pmirun *pr, const char *p, size_t n);
bool nodes_finished(struct pmirun *pr);
uint64_t nodes_deadline(const struct pmirun *pr);
void nodes_deadlines(struct pmirun *pr);
void nodes_starter_event(struct pmirun *pr, struct source *src);
void nodes_reaped(struct pmirun *pr, const siginfo_t *si);
const char *nodes_name(const struct pmirun *pr, uint32_t node);
void nodes_stats(const struct pmirun *pr, struct pmiwire_stats_server *s);
void nodes_spawned(struct pmirun *pr, uint32_t node, uint64_t token, int err, const char *kvsname);

/* agent.c: an agent's side of its head */
void agent_start(struct pmirun *pr); /* exits when the head cannot be heard */
void agent_boot_event(struct pmirun *pr);
bool agent_say(struct pmirun *pr, const char *text, size_t n); /* false: the head cannot hear */
void agent_tell_rank(struct pmirun *pr, uint32_t what, const struct rank *r, uint32_t a, uint32_t b,
                     const char *text);
void agent_tell_job(struct pmirun *pr, uint32_t what, const struct job *job);
bool agent_output(struct pmirun *pr, const struct stream *st, const char *p, size_t n);
void agent_took(struct pmirun *pr, uint32_t n);
void agent_fatal(struct pmirun *pr, int status);
void agent_failed(struct pmirun *pr, int status); /* and the job goes on */
void agent_tell(struct pmirun *pr, const struct msg *m);
extern const struct net_ops agent_net_ops;
void agent_signal(struct pmirun *pr, int sig);
bool agent_may_end(struct pmirun *pr);
bool agent_ended(struct pmirun *pr);
uint64_t agent_deadline(const struct pmirun *pr);
/* To the exchange of a job on another node. */
void agent_send(struct pmirun *pr, uint32_t node, uint32_t job, const struct iovec *iov,
                uint32_t n_iov);
void agent_check_links(struct pmirun *pr); /* tells of those that could not be used */
uint32_t agent_node(const struct pmirun *pr);
/* A message of another agent has come; false when it makes no sense. And: it cannot be reached any
 * more. */
bool agent_heard(struct pmirun *pr, uint32_t node, const void *p, size_t n);
void agent_lost(struct pmirun *pr, uint32_t node, const char *why);

/* links_ucx.c: messages between agents over UCX; where it is not built in, ucx_start() says so */
int ucx_start(struct pmirun *pr);
bool ucx_is_built_in(void);
const void *ucx_address(const struct pmirun *pr, size_t *n);
int ucx_join(struct pmirun *pr); /* the other agents are known */
int ucx_send(struct pmirun *pr, uint32_t node, const void *p, size_t n);
void ucx_event(struct pmirun *pr);
void ucx_stop(struct pmirun *pr);

/* names.c: what ranks publish, on several nodes */
int names_init(struct pmirun *pr); /* 0, -ENOMEM */
void names_fini(struct pmirun *pr);
int names_on_publish(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str service,
                     struct pmiwire_str port);
int names_on_unpublish(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str service);
int names_on_lookup(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str service,
                    uint64_t token, struct pmiwire_str *port);
void names_job_ended(struct pmirun *pr, const struct job *job);
/* What agents tell their head; false when it makes no sense. */
bool names_published(struct pmirun *pr, struct msg_in *in, bool taken_back);
bool names_asked(struct pmirun *pr, uint32_t node, struct msg_in *in);
bool names_sign(struct pmirun *pr, struct msg_in *in);

/* exchange.c: a job's pairs between its nodes */
int exchange_create(struct pmirun *pr, struct job *job);
void exchange_destroy(struct job *job);
void exchange_over(struct job *job); /* no node has any more of the job: ranks of other jobs that
                                        wait here for a key of it are told that it will not come */
/* The value with its NUL; PMIWIRE_HINT_*. */
int exchange_put(struct job *job, int32_t rank, struct pmiwire_str key, struct pmiwire_str value,
                 uint32_t hint);
int exchange_get(struct job *job, int32_t rank, struct pmiwire_str key, int32_t src, uint32_t how,
                 uint64_t token, struct pmiwire_str *value); /* rank -1: of another job */
int exchange_on_ring(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str left,
                     struct pmiwire_str right, uint64_t token);
int exchange_fence(struct job *job); /* 0, PMIWIRE_PENDING, or an error */
/* A frame of node `from`; false when it makes no sense. */
bool exchange_frame(struct job *job, uint32_t from, const void *p, size_t n);
void exchange_lost(struct job *job, uint32_t node);
void exchange_gone(struct job *job, int32_t rank);
void exchange_tick(struct job *job);

/* spawn.c */
void spawn_free_apps(struct app *apps, uint32_t n);
int spawn_request(void *ctx, const struct pmiwire_peer *who, const struct pmiwire_spawn *req,
                  uint64_t token);
void spawn_launched(struct pmirun *pr, struct job *job, int err);
/* A request as the head hears it from an agent: what follows token, job and rank in MSG_SPAWN.
 * False when it makes no sense. */
bool spawn_asked(struct pmirun *pr, struct rank *by, uint64_t token, struct msg_in *in);

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
void table_create(struct pmirun *pr,
                  struct job *job); /* without shared memory job->table stays NULL */
void table_destroy(struct job *job);
/* Every rank has been told where it is, and has opened it: its name is not needed any more, and
 * would outlive a pmirun that is killed. */
void table_settled(struct pmirun *pr, struct job *job);
int table_fd(const struct job *job); /* what readers get, -1: none */
int table_put(struct pmirun *pr, struct job *job, struct pmiwire_str key, struct pmiwire_str value);
/* Pairs that other nodes have put, with the NUL of their values: a block of libshmht's or of the
 * exchange. */
int table_merge(struct pmirun *pr, struct job *job, const void *block, size_t bytes);
int table_find(struct pmirun *pr, const struct job *job, struct pmiwire_str key,
               struct pmiwire_str *value);
int table_on_put(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
                 struct pmiwire_str value, uint32_t hint);
int table_on_get(void *ctx, const struct pmiwire_peer *who, uint32_t job_id, int32_t srcid,
                 struct pmiwire_str key, uint32_t how, uint64_t token, struct pmiwire_str *value);

/* shmname.c: names of shared memory, for --pmi-port */
#define SHM_NAME_BYTES 64
void shm_name(char name[SHM_NAME_BYTES]); /* a new one, that nobody can guess */
void shm_sweep(struct pmirun *pr); /* removes what a pmirun that was killed has left behind */

/* wait.c: Gets that wait for their key, on one node */
int wait_begin(struct pmirun *pr, struct job *job, const struct pmiwire_peer *who, int32_t src,
               struct pmiwire_str key, uint64_t token);
void wait_put(struct pmirun *pr, struct job *job, struct pmiwire_str key,
              struct pmiwire_str value);                      /* after it has been stored */
void wait_rank_gone(struct pmirun *pr, const struct rank *r); /* has finalized, or exited without */
void wait_job_ended(struct pmirun *pr, struct job *job);
void wait_conn_closed(struct conn *c);
void wait_tick(struct pmirun *pr); /* twice a second: --get-timeout; on several nodes who is gone */
void wait_destroy(struct job *job); /* unanswered: no client is left, or we end */

/* gather.c */
void gather_create(struct pmirun *pr, struct job *job);
void gather_destroy(struct job *job);
/* A put that is part of an Allgather: true, and it is kept until the fence. */
bool gather_put(struct pmirun *pr, struct job *job, int32_t rank, struct pmiwire_str key,
                struct pmiwire_str value);
int gather_get(const struct job *job, struct pmiwire_str key, struct pmiwire_str *value);
int gather_on_fence(void *ctx, uint32_t job_id);
/* The descriptor of the last Allgather, -1: none, and how many there have been. */
int gather_fd(const struct job *job, uint32_t *n_arrays);

/* port.c */
int port_init(struct pmirun *pr);
int port_assign(struct pmirun *pr, struct rank *r);        /* gives it a token */
void port_forget(struct pmirun *pr, const struct rank *r); /* takes it back */
void port_accept(struct pmirun *pr);
/* Before a line about a client that has not said who it is, which may come again and again: false,
 * count it only. */
bool port_may_complain(struct pmirun *pr);
int port_identify(void *ctx, struct pmiwire_conn *conn, void *cookie, int32_t pmiid, uint32_t *job,
                  int32_t *rank);

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
bool output_is_open(const struct stream *st);
void output_remote(struct pmirun *pr, struct stream *st, const char *p,
                   size_t n); /* head: n bytes of it have come; 0: its end */
void output_room_given(struct pmirun *pr, struct sink *sk, uint32_t n); /* agent */

/* input.c */
int input_init(struct pmirun *pr, int *child_fd); /* what rank 0 gets as stdin */
void input_event(struct pmirun *pr, struct source *src);
void input_retry(struct pmirun *pr); /* at input_retry_ns */
/* Rank 0 on another node: the head reads and sends as much as is taken, its agent writes. */
void input_head_start(struct pmirun *pr);
void input_head_room(struct pmirun *pr, uint32_t n);
void input_head_close(struct pmirun *pr);
void input_agent_given(struct pmirun *pr, const char *p, size_t n); /* n 0: the end */

/* signals.c */
int signals_init(struct pmirun *pr);
void signals_event(struct pmirun *pr);

#endif /* PMIRUN_H */
