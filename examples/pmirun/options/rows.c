/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All options. row.h says what a row is, and what else an option needs.
 *
 * The columns .hydra, .srun and .mpirun say by which name one gets the same there; they make a
 * table of the manual. Left out: not there.
 */
#include <stddef.h>

#include "../local/util.h"
#include "row.h"

#define AT(field) .at = offsetof(struct options, field)

const struct option_row option_rows[] = {
    {.help = "For each group of processes, before its program:"},
    {.names = "-n -np --n",
     .arg = "N",
     .scope = SCOPE_GROUP,
     .set = set_procs,
     .min = 1,
     .max = MAX_PROCS,
     .help = "number of processes (1)",
     .man = "Start N processes; 1 when not given.",
     .hydra = "-n",
     .srun = "-n",
     .mpirun = "-n"},
    {.names = "-x",
     .arg = "VAR[=VALUE]",
     .scope = SCOPE_GROUP,
     .set = set_x,
     .help = "set an environment variable (-x VAR: pass ours on, as happens anyway)",
     .man = "Set a variable in the environment. The environment of `pmirun` is passed on in any "
            "case, except variables of other launchers (PMI_*, PMIX_*, Slurm's step variables).",
     .hydra = "-env VAR VALUE",
     .srun = "--export",
     .mpirun = "-x"},
    {.names = "--wdir",
     .arg = "DIR",
     .scope = SCOPE_GROUP,
     .set = set_wdir,
     .help = "working directory",
     .man = "Working directory.",
     .hydra = "-wdir",
     .srun = "--chdir",
     .mpirun = "--wdir"},

    {.help = "Where, for the whole job, before the first program:"},
    {.names = "-N --nodes",
     .arg = "N",
     .scope = SCOPE_JOB,
     .set = set_count,
     AT(n_nodes),
     .min = 1,
     .max = 65536,
     .help = "on N nodes",
     .man = "On N nodes; as many as there are hosts when not given. More than there are processes "
            "is as many as there are processes.",
     .srun = "-N"},
    {.names = "--hosts",
     .arg = "A,B,...",
     .scope = SCOPE_JOB,
     .set = set_hosts,
     .help = "their names",
     .man = "Their names, for ssh or srun.",
     .hydra = "-hosts",
     .srun = "--nodelist",
     .mpirun = "--host"},
    {.names = "--map",
     .arg = "HOW",
     .scope = SCOPE_JOB,
     .set = set_map,
     .words = "block cyclic",
     .help = "block (the default): nodes get consecutive ranks; cyclic: ranks go round",
     .man = "`block`, the default: the first node gets the first ranks, and so on, as evenly as "
            "can be; `cyclic`: ranks go round.",
     .srun = "--distribution",
     .mpirun = "--map-by"},
    {.names = "--launch",
     .arg = "HOW",
     .scope = SCOPE_JOB,
     .set = set_launch,
     .words = "fork ssh srun",
     .help = "how to get there: ssh (when there are hosts), srun, or fork (all on this host)",
     .man = "How to get there: `ssh` (the default when there are hosts), `srun`, or `fork`, which "
            "starts all nodes on this host.",
     .hydra = "-launcher"},
    {.names = "--launch-agent",
     .arg = "PROG",
     .scope = SCOPE_JOB,
     .set = set_text,
     AT(launch_agent),
     .help = "what to call in the place of ssh or srun",
     .man = "What to call in the place of ssh or srun. It is given what ssh would be: -x, a host, "
            "a command for a shell.",
     .hydra = "-launcher-exec",
     .mpirun = "plm_rsh_agent"},
    {.names = "--links",
     .arg = "HOW",
     .scope = SCOPE_JOB,
     .set = set_word,
     AT(links),
     .words = "any tcp ucx",
     .help = "between nodes: tcp (the default), ucx, or any: ucx when every node has it",
     .man = "How key-value pairs travel between nodes: `tcp` (the default), `ucx`, or `any`: UCX "
            "when every node has it."},
    {.names = "--design",
     .arg = "HOW",
     .scope = SCOPE_JOB,
     .set = set_word,
     AT(design),
     .words = "dkvs direct tree",
     .help = "where keys live that few ranks read: dkvs (the default), direct, tree",
     .man = "Where a key lives that a client has put as one that few ranks read "
            "(fp-hint=sparse), which no fence carries: `dkvs`, the default: on a node that its "
            "name decides; `direct`: on the node of the rank that put it, which a Get must name "
            "(srcid, fp-src) if it is to find the key from another node; `tree`: on the first "
            "node, copies on those between."},

    {.help = "Time, for the whole job:"},
    {.names = "--start-timeout",
     .arg = "S",
     .scope = SCOPE_JOB,
     .set = set_seconds,
     AT(start_s),
     .help = "for the nodes to answer (60; 0: for ever)",
     .man = "For all nodes to answer; 60 when not given, 0 for never giving up."},
    {.names = "--node-timeout",
     .arg = "S",
     .scope = SCOPE_JOB,
     .set = set_node_timeout,
     .help = "a node that is silent for S seconds is lost (25; 0: never)",
     .man = "A node that is silent for S seconds, because it or its network is gone or because "
            "`pmirun` there is stopped or hangs, is lost; 25 when not given, 80000 at most, 0 for "
            "never."},
    {.names = "--timeout",
     .arg = "S",
     .scope = SCOPE_JOB,
     .set = set_seconds,
     AT(timeout_s),
     .help = "stop the job after S seconds, with status 124",
     .man = "Stop the job after S seconds; 0, the default, is never.",
     .hydra = "MPIEXEC_TIMEOUT",
     .srun = "--time",
     .mpirun = "--timeout"},
    {.names = "--get-timeout",
     .arg = "S",
     .scope = SCOPE_JOB,
     .set = set_seconds,
     AT(get_s),
     .help = "for a Get that waits for its key (60; 0: for ever)",
     .man = "A Get that waits for its key (see GETS THAT WAIT) ends without a value after S "
            "seconds, give or take half a second; 60 when not given, 0 for never."},
    {.names = "--stall-timeout",
     .arg = "S",
     .scope = SCOPE_JOB,
     .set = set_seconds,
     AT(stall_s),
     .help = "cut off clients silent in mid-message for S seconds (60; 0: never)",
     .man = "Cut off a client that stops in the middle of a message, or does not read its "
            "answers, for S seconds; 60 when not given, 0 for never."},

    {.help = "Output:"},
    {.names = "-l --label",
     .scope = SCOPE_JOB,
     .set = set_flag,
     AT(labels),
     .help = "label each line of output with its rank",
     .man = "Begin each line of output with `[`rank`]`, or `[`job:rank`]` for processes that were "
            "spawned.",
     .hydra = "-l, -prepend-rank",
     .srun = "-l",
     .mpirun = "--tag-output"},
    {.names = "--stats",
     .scope = SCOPE_JOB,
     .arg = "[=FORM]",
     .set = set_stats,
     .words = "json table",
     .help = "print counters and times on stderr at the end: json (the default), a line; or table",
     .man = "At the end print counters and times on stderr: as one line of JSON (`json`, when not "
            "given), or for the eye (`table`). Times are milliseconds since the start."},
    {.names = "--progress",
     .scope = SCOPE_JOB,
     .set = set_flag,
     AT(progress),
     .help = "on a terminal: a line with the ranks started, initialized and finalized",
     .man = "Show how many ranks have been started, are initialized (PMI or PMIx init) and have "
            "finalized, in a line at the bottom of the terminal: `-`, `=` and `#` in its bar. The "
            "line gives way to output, and is shown again when none has come for a quarter of a "
            "second. Without a terminal at stderr nothing is shown.",
     .mpirun = "--show-progress"},
    {.names = "--timeline",
     .arg = "FILE",
     .scope = SCOPE_JOB,
     .set = set_timeline,
     .help = "at the end draw who was where when: a picture (NAME.svg) or a trace (NAME.json)",
     .man = "At the end, however the job ends, write where each rank was when: before init, from "
            "init to finalize, in which fence, Allgather, Ring or barrier of a group, and how it "
            "exited, by node and rank. NAME.svg is a picture, NAME.json a trace for Perfetto or "
            "chrome://tracing. On several nodes their agents report it, and their times are off "
            "by half a round trip at most. Fences by PMIx begin when all ranks of the node have "
            "entered; libpmix does not report those of a single node. After 1048576 events no "
            "more collectives are recorded, after twice as many nothing is, which `pmirun` "
            "reports; a picture has 2048 rows. A `pmirun` that dies of SIGKILL leaves an empty "
            "file."},
    {.names = "-v --verbose",
     .scope = SCOPE_JOB,
     .set = set_flag,
     AT(verbose),
     .help = "report on stderr what happens",
     .man = "Report on stderr what happens, with times.",
     .hydra = "-verbose",
     .srun = "-v",
     .mpirun = "-v"},

    {.help = "PMI and PMIx:"},
    {.names = "--mpi",
     .arg = "HOW",
     .scope = SCOPE_JOB,
     .set = set_word,
     AT(mpi),
     .words = "auto pmi openmpi pmix",
     .help = "what ranks use: pmi; openmpi (Open MPI 4 by PMI-1); pmix; or auto (the default): "
             "what the program's libraries ask for",
     .man = "What the processes use to find each other: `pmi` (PMI-1 or PMI-2), `openmpi` (Open "
            "MPI 4 by PMI-1), `pmix` (PMIx), or `auto`, the default: what the programs' libraries "
            "ask for (see OPEN MPI AND PMIX).",
     .srun = "--mpi"},
    {.names = "--pmi-port",
     .scope = SCOPE_JOB,
     .set = set_flag,
     AT(use_port),
     .help = "let processes connect over TCP (PMI_PORT), not an inherited socket",
     .man = "Serve PMI over TCP on the loopback interface (PMI_PORT, PMI_ID). A process "
            "identifies itself by a random number that it alone gets; connections of other users "
            "are refused, and so is a wrong number, however many come. Only where the kernel does "
            "not tell whose a connection is (NETLINK_SOCK_DIAG) do 64 wrong numbers close the "
            "port, so that nobody finds one by trying.",
     .hydra = "-pmi-port"},
    {.names = "--pmi-1.2",
     .scope = SCOPE_JOB,
     .set = set_flag,
     AT(pmi_1_2),
     .help = "speak PMI 1.2 to clients that ask for 1.1",
     .man = "Answer with PMI 1.2 whatever a client asks for, so that MPICH 4.3 and later use "
            "group barriers. Flux's client refuses it."},
    {.names = "--universe-size",
     .arg = "N",
     .scope = SCOPE_JOB,
     .set = set_universe_size,
     .min = -1,
     .max = INT32_MAX,
     .help = "what to answer to a question for the universe's size (-1: unknown)",
     .man = "Answer to a question for the size of the universe; -1, the default, means unknown.",
     .hydra = "-usize"},
    {.names = "--max-procs",
     .arg = "N",
     .scope = SCOPE_JOB,
     .set = set_count,
     AT(max_spawned),
     .min = 0,
     .max = MAX_PROCS,
     .help = "processes that PMI spawn may have running at a time (1024 a node)",
     .man = "Processes that PMI spawn may have running at a time, on all nodes together; 1024 for "
            "each node when not given, 0 for none, 1000000 at most. A spawn of more fails."},
    {.names = "--no-shm",
     .scope = SCOPE_JOB,
     .set = set_flag,
     AT(no_shm),
     .help = "no shared memory: every Get is asked by socket",
     .man = "Keep the key-value space in `pmirun`'s own memory: every Get is asked by socket."},
    {.names = "--shm-max",
     .arg = "MIB",
     .scope = SCOPE_JOB,
     .set = set_shm_max,
     .min = 1,
     .max = 65536,
     .help = "shared memory that a job's pairs may take (1024); then ranks ask by socket",
     .man = "Shared memory that the pairs of one job may take (1024). What is put beyond that is "
            "kept in `pmirun`'s own memory, up to 256 MiB a job on each node, and ranks ask for "
            "all pairs from the next fence on. A Put beyond that is refused; what fences bring is "
            "not."},

    {.help = "About pmirun:"},
    {.names = "-h --help",
     .arg = "[=WHAT]",
     .scope = SCOPE_GROUP,
     .set = show_help,
     .words = "man table names",
     .help = "print this; =man, =table: what the manual has of it; =names: for the shell",
     .man = "Print help; with `=man` and `=table` this list and the table below in roff, with "
            "`=names` what completion by a shell needs.",
     .hydra = "-help",
     .srun = "--help",
     .mpirun = "--help"},
    {.names = "-V --version",
     .scope = SCOPE_GROUP,
     .set = show_version,
     .help = "print the version",
     .man = "Print the version.",
     .hydra = "-version",
     .srun = "-V",
     .mpirun = "-V"},
};

const size_t n_option_rows = sizeof(option_rows) / sizeof(option_rows[0]);
