/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line. */
#ifndef PMIRUN_OPTIONS_H
#define PMIRUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "allocation.h"
#include "place/place.h"

#ifndef MAX_PROCS
#define MAX_PROCS 1000000u /* of a job */
#endif
#define MAX_SPAWNED 1024u /* a node, by default; see --max-procs */

/* LAUNCH_SSH: by a built-in template (reach.c); LAUNCH_TEMPLATE: by the user's; LAUNCH_STEP: by
 * Slurm, which starts the ranks too (multinode/step.h). */
enum launch_kind {
    LAUNCH_HERE,
    LAUNCH_FORK,
    LAUNCH_SSH,
    LAUNCH_SRUN,
    LAUNCH_TEMPLATE,
    LAUNCH_STEP
};
/* --mpi: what ranks use to find each other; local/mpi_detect.h. */
enum mpi_mode { MPI_AUTO, MPI_PMI, MPI_OPENMPI, MPI_PMIX };

enum stats_form { STATS_NONE, STATS_JSON, STATS_TABLE };

struct app;
struct template;

/* Which variables of pmirun's environment a program gets: all, or those in `pass`. */
enum env_mode { ENV_UNSET, ENV_ALL, ENV_SOME };

struct env {
    enum env_mode what;
    char **pass; /* names, NULL-terminated */
    uint32_t n_pass;
};

#define UNIVERSE_SLOTS (-2) /* until the hosts are known: the sum of their slots */
#define STDIN_ALL      (UINT32_MAX - 1)
#define STDIN_NONE     UINT32_MAX

struct options {
    struct app *apps;
    uint32_t n_apps;
    uint32_t n_procs;      /* of all apps */
    uint32_t max_spawned;  /* processes that PMI spawn may have running at a time */
    double timeout_s;      /* 0: none */
    double stall_s;        /* 0: never */
    double get_s;          /* for a Get that waits; 0: no limit */
    int32_t universe_size; /* -1: unknown */
    uint64_t shm_max_bytes;
    enum mpi_mode mpi;
    bool labels, timestamps, use_port, no_shm, pmi_1_2, verbose, progress;
    enum stats_form stats;
    char *timeline; /* a file; NULL: none */
    struct place_policy place;
    char *map_by, *bind_to; /* their texts, NULL: not given */
    char *topology;         /* replaces the node's own; NULL: the node's */
    bool report_bindings;
    bool exit_codes; /* print the exit codes of all ranks at the end */
    bool as_hydra;   /* hydra's rules for the ends of ranks and of the job */
    char *outfile;   /* a pattern with %r and others; NULL: pmirun's stdout */
    char *errfile;
    uint32_t stdin_rank; /* the reader of stdin: a rank, STDIN_ALL or STDIN_NONE */
    /* For all groups. */
    char **sets; /* VAR=value, NULL-terminated */
    uint32_t n_sets;
    struct env env;
    char *wdir, *path;
    /* Several nodes. */
    enum launch_kind launch;
    uint32_t design; /* PMIWIRE_DESIGN_* */
    uint32_t n_nodes;
    bool cyclic;
    bool one_host;             /* an agent's: all nodes are on this one */
    struct allocation given;   /* the hosts, from options or a batch system */
    uint32_t per_host;         /* slots of every host; 0: not given */
    struct template *template; /* LAUNCH_SSH, LAUNCH_TEMPLATE */
    char *launch_agent;        /* replaces ssh or srun; NULL: these */
    uint32_t fanout;           /* starters in flight at a time */
    double wait_s;             /* for hosts that cannot be reached yet */
    double start_s;            /* for agents to connect, after that */
    double node_s;             /* a node that is silent this long is lost; 0: never */
};

/* Exits on --help, --version and errors. */
void options_parse(struct options *opt, int argc, char **argv);

#endif
