/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs, ranks and jobs: what all other files know of them. job_end.c decides what happens to
 * them, rank_end.c carries it out.
 */
#ifndef PMIRUN_JOB_H
#define PMIRUN_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../options.h"
#include "output.h"
#include "timer.h"
#include "util.h"

#define GRACE_NS (2 * NS_PER_S) /* between SIGTERM and SIGKILL */
/* for output that another process holds open after the last rank */
#define DRAIN_NS NS_PER_S

/* One program with its arguments: a `:` group of the command line, or a sub-command of a spawn. */
struct app {
    uint32_t n_procs;
    char **argv;  /* argv[0] is the program as named */
    char *path;   /* what to execve; relative paths are relative to wdir */
    char *wdir;   /* NULL: ours */
    char *search; /* NULL: $PATH */
    char **sets;  /* VAR=value of -x, NULL-terminated */
    uint32_t n_sets;
    struct env env; /* which of our variables it gets */
    char *hosts;    /* head: names of the nodes to start it on; NULL: all */
};

enum rank_state { RANK_WAITING, RANK_RUNNING, RANK_EXITED };

struct rank {
    struct job *job;
    struct app *app;
    uint32_t number; /* in the job */
    uint32_t local;  /* among those of its node */
    uint32_t node;   /* that it runs on */
    pid_t pid;
    bool is_child; /* the process is this one's child, and not reaped */
    enum rank_state state;
    int exit_code;      /* 128 + the signal that it died of; -1: not known */
    uint32_t pmi_state; /* PMIWIRE_CONN_* as last reported; FAILED is not stored here */
    bool hung_up;       /* its connection ended between init and finalize */
    bool aborted;       /* it has asked for the end of all */
    bool outlived;      /* it has ended; what it left behind has its connection and output */
    uint32_t token;     /* PMI_PORT: its PMI_ID, good for one connection */
    bool token_used;
    struct conn *conn;
    struct stream out, err;
};

/* A job: a key-value space and the processes that share it. */
struct job {
    /* The description, the same on all nodes. */
    uint32_t number; /* ours, 0 for the command line's */
    char *kvsname;
    char *spawner;         /* kvsname of the job that spawned this one; NULL: none */
    uint32_t spawner_rank; /* that asked */
    struct app *apps;
    uint32_t n_apps;
    uint32_t *node_of; /* by rank; NULL: all are here */
    enum mpi_mode mpi; /* what its ranks use; MPI_AUTO: not chosen yet (mpi_detect.c) */
    uint32_t n_ranks;  /* its size */

    struct jobs *jobs;             /* of which it is one */
    struct pmiwire_server *server; /* that serves its ranks; NULL: a head, whose agents do */
    uint32_t id;                   /* the server's number */
    uint32_t n_local;              /* entries of `ranks`: all ranks, or an agent's own */
    uint32_t n_launched, n_live;   /* of those */
    uint32_t n_launching;          /* head: agents that have not started all of theirs */
    uint32_t n_members;            /* head: agents with ranks of it */
    uint32_t n_gave_up;            /* those of them that report its failure */
    bool abandoned;                /* a failed spawn: the ends of its ranks do not count */
    bool spawn_done;               /* its spawner is to get the answer, as spawn_err: 0 or -errno */
    int spawn_err;
    bool ended; /* no rank of it is left here */
    bool over;  /* agent: nor anywhere */
    bool spawned;
    uint64_t spawn_token;
    uint32_t spawn_node;    /* head: of the rank that asked */
    char *mpi_reason;       /* the reason, a sentence; NULL: not chosen yet */
    bool wrong_mpi;         /* it needs another mode than --mpi has asked for */
    bool offers_pmix;       /* MPI_PMIX because nothing proves which MPI its programs use */
    const char *silent_mpi; /* an MPI in a rank's memory, though no rank has asked; NULL: none */
    bool yields;            /* its ranks yield their processor while they wait */
    struct binding *bound;  /* processors of its ranks here; NULL: all that pmirun may use */
    uint32_t *seats;        /* of its ranks on this host (bind.c); NULL: they have none */
    char **vars;            /* NAME=value for all its ranks here, NULL-terminated; NULL: none */
    struct early *early;    /* the pairs that its ranks find before they put; NULL: none */
    struct table *table;    /* its pairs in shared memory; NULL: the engine stores them */
    struct gather *gather;  /* its Allgathers; NULL: none yet */
    struct rank *ranks;
    bool queued; /* it has processes to start; jobs have their turn one by one */
    struct job *next;
};

/* The rank that may have caused the job to fail: it called abort, or ended badly while a collective
 * was stuck. pmirun waits a moment before it decides, since another rank may be the real cause. */
struct cause {
    struct rank *by; /* NULL: none, or it is decided */
    int status;
    char text[512];
    uint64_t since_ns;
};

/* A collective that cannot complete. pmirun waits a moment before it decides, since the end of the
 * missing rank may say more. */
struct stuck {
    struct rank *gone;  /* NULL: none, or it is decided */
    uint32_t coll, why; /* PMIWIRE_COLL_*, PMIWIRE_GONE_* */
    uint64_t since_ns;
};

/* Times of events, ns since the start; 0: has not happened. */
struct phases {
    uint64_t launch_begin, launch_end, first_init, last_init, first_finalize, last_finalize,
        last_exit;
    uint64_t launch_busy; /* time spent in starting processes */
};

/* Processes that outlive their rank. */
struct leftovers {
    pid_t *inherited;    /* children of this process before main(): not pmirun's; then a 0 */
    uint32_t n_serving;  /* ranks that they have outlived and whose connection they use */
    uint32_t n_said;     /* lines about those that were ended */
    struct timer filter; /* until then they may end by themselves; not set: ranks still run */
    struct timer sweep;  /* when to look for leftovers again; not set: not looked yet */
    bool clean;          /* no process of ours is left */
};

/* All jobs of this pmirun, and how it is to end. */
struct jobs {
    const struct options *opt;
    struct head *head;         /* role.h; NULL: not the head of several nodes */
    struct agent *agent;       /* role.h; NULL: no agent */
    struct launcher *launcher; /* NULL: it starts no ranks: a head, or a step of Slurm */
    struct pmi *pmi;           /* not a head's */
    struct guard *guard;
    struct folders *folders;   /* of memory that has a name */
    struct timeline *timeline; /* which rank did what when */
    struct progress *progress;
    struct topology *topology; /* which ranks read */

    struct job *first;
    uint32_t n_jobs;
    uint64_t n_ranks; /* of all jobs, ever */
    uint64_t n_live;  /* processes that run */
    struct phases at;

    int status; /* exit status so far */
    bool status_set;
    bool stopping;
    bool to_end_ranks;    /* jobs_progress() has to order their end */
    bool hasty;           /* a signal or --timeout ends it: it waits for no reader after `drain` */
    int last_signal;      /* forwarded last to the ranks, 0: none */
    struct timer kill;    /* SIGKILL follows; not set: not planned */
    struct timer drain;   /* streams that are still open are closed; not set: not yet known */
    struct timer timeout; /* --timeout */
    struct timer decide;  /* job_decide_end() has something to decide */
    struct timer look;    /* for an MPI that a script hides (mpi_detect.c) */
    struct cause cause;
    struct stuck stuck;
    struct leftovers leftovers;
};

/* Takes all of the plan, but the programs of the command line. kvsname NULL: a new one, and the
 * next number. */
struct job *job_create(struct jobs *jobs, const struct job *plan);
/* The command line's. */
struct job *job_create_first(struct jobs *jobs, uint32_t *node_of);
struct job *job_by_number(const struct jobs *jobs, uint32_t number);
/* NULL: an agent has its own ranks only. */
struct rank *job_rank(const struct job *job, uint32_t number);
/* Has a job of this number existed, and been freed? */
bool job_was(const struct jobs *jobs, uint32_t number);
/* Has the start of all its ranks, on all nodes, succeeded or failed? An agent learns it from its
 * head. */
bool job_is_settled(const struct job *job);
void apps_free(struct app *apps, uint32_t n);
/* Adds a variable, NAME=value, for its ranks here; the job owns the string, from malloc(). -x and
 * our environment (other than PMIX_*) win over it. */
void job_var(struct job *job, char *owned);
/* A rank's process runs, here or on another node; all of a job's do. */
void rank_started(struct rank *r, pid_t pid);
void job_started(struct job *job);
/* The first job with processes to start; NULL: none has. */
struct job *jobs_queued(const struct jobs *jobs);
void jobs_unqueue_all(struct jobs *jobs);
/* "rank 3", or "rank 1:3" of a spawned job; and on which of several nodes. Valid until the next
 * call. */
const char *rank_name(const struct rank *r);
/* Stays, once all nodes are ready. */
const char *node_name(const struct jobs *jobs, uint32_t node);

#endif
