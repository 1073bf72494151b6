/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line. */
#ifndef PMIRUN_OPTIONS_H
#define PMIRUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "place/place.h"

#ifndef MAX_PROCS
#define MAX_PROCS 1000000u /* of a job */
#endif
#define MAX_SPAWNED 1024u /* unless --max-procs says something else, a node */

/* LAUNCH_SSH: by a template of ours (reach.c); LAUNCH_TEMPLATE: by the user's; LAUNCH_STEP: by
 * Slurm, which starts the ranks too (multinode/step.h). */
enum launch_kind {
    LAUNCH_HERE,
    LAUNCH_FORK,
    LAUNCH_SSH,
    LAUNCH_SRUN,
    LAUNCH_TEMPLATE,
    LAUNCH_STEP
};
enum link_kind { LINKS_ANY, LINKS_TCP, LINKS_UCX };
/* What ranks use to find each other; local/way.h. */
enum mpi_way { MPI_AUTO, MPI_PMI, MPI_OPENMPI, MPI_PMIX };

enum stats_form { STATS_NONE, STATS_JSON, STATS_TABLE };

struct app;
struct template;

/* What of our environment a program gets: all, or what is named. */
struct env {
    enum { ENV_UNSAID, ENV_ALL, ENV_SOME } what;
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
    enum mpi_way mpi;
    bool labels, use_port, no_shm, pmi_1_2, verbose, progress;
    enum stats_form stats;
    char *timeline; /* a file; NULL: none */
    bool timeline_svg;
    struct place_policy place;
    char *map_by, *bind_to; /* the texts of it, NULL: none */
    char *topology;         /* in the place of the node's own; NULL: that */
    bool report_bindings;
    bool exit_codes; /* print those of all ranks at the end */
    bool as_hydra;   /* ends of ranks and of the job, as hydra has them */
    char *outfile;   /* where output goes, with %r and the like; NULL: to ours */
    char *errfile;
    uint32_t stdin_rank; /* who gets our stdin: a rank, STDIN_ALL or STDIN_NONE */
    /* For all groups. */
    char **sets; /* VAR=value, NULL-terminated */
    uint32_t n_sets;
    struct env env;
    char *wdir, *path;
    /* Several nodes. */
    enum launch_kind launch;
    enum link_kind links;
    uint32_t design; /* PMIWIRE_DESIGN_* */
    uint32_t n_nodes;
    bool cyclic;
    bool one_host; /* an agent's: all nodes are on this one */
    char **hosts;
    uint32_t *slots; /* of each host: processes that it takes before the next one gets some */
    uint32_t n_hosts;
    uint32_t per_host;         /* slots of any host; 0: not said */
    const char *allocation;    /* the variable that named the hosts; NULL: they were given */
    struct template *template; /* LAUNCH_SSH, LAUNCH_TEMPLATE */
    const char *way;           /* its text, where it is another's than ssh's; NULL: ssh's */
    char *launch_agent;        /* in the place of ssh or srun; NULL: these */
    uint32_t fanout;           /* starters that are under way at a time */
    double wait_s;             /* for hosts that cannot be reached yet */
    double start_s;            /* for agents to come, after that */
    double node_s;             /* a node that is silent for so long is lost; 0: never */
};

/* Exits on --help, --version and errors. */
void options_parse(struct options *opt, int argc, char **argv);

#endif
