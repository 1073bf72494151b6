/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All options of pmirun. row.h says what a row is, and what else an option needs. advice.c has the
 * options of other launchers that pmirun refuses.
 */
#include <stddef.h>

#include "../local/job.h"
#include "row.h"

#define AT(field)       .at = offsetof(struct options, field)
#define AT_GROUP(field) .at = offsetof(struct app, field)

const struct option_row option_rows[] = {
    {.text = "Options of a group of processes, before its program:"},
    {"-n -np --n --ntasks --nprocs", "N", SCOPE_GROUP, set_count,
     "Number of processes (default: with -N one a node, else one for each slot of the hosts, else "
     "one). With --ppn the default is that many a node instead of one. The hosts are those of the "
     "options or of the allocation; a host without slots has 1. A group beside others has one "
     "process by default.",
     .others = {"-n", "-n", "-n"}, AT_GROUP(n_procs), .min = 1, .max = MAX_PROCS},
    {"-x", "VAR[=VALUE]", SCOPE_GROUP, set_x,
     "Set VAR, or pass it on from the environment of `pmirun`. By default `pmirun` passes on its "
     "whole environment, except variables of other launchers (PMI_*, PMIX_*, Slurm's step "
     "variables); --envnone, --envlist, --genvnone and --genvlist change that.",
     .others = {"-env VAR VALUE", "--export", "-x"}},
    {"--env", "VAR VALUE", SCOPE_GROUP, set_env,
     "Set an environment variable, as -x VAR=VALUE does.", .others = {"-env", "--export", "-x"}},
    {"--envlist", "A,B,...", SCOPE_GROUP, set_envlist,
     "Pass on only these variables of the environment of `pmirun`.",
     .others = {"-envlist", "--export=A,B", NULL}},
    {"--envnone", NULL, SCOPE_GROUP, set_envmode,
     "Pass on only the variables that -x VAR names. `pmirun` still searches its own PATH for the "
     "program.",
     .others = {"-envnone", "--export=NONE", NULL}, .min = ENV_SOME},
    {"--envall", NULL, SCOPE_GROUP, set_envmode,
     "Pass on the whole environment of `pmirun` (default). For a group, it overrides --genvnone "
     "and --genvlist.",
     .others = {"-envall", "--export=ALL", NULL}, .min = ENV_ALL},
    {"--wdir --wd --chdir", "DIR", SCOPE_GROUP, set_text,
     "Start the processes in DIR (default: where `pmirun` is).",
     .others = {"-wdir", "--chdir", "--wdir"}, AT_GROUP(wdir)},
    {"--path", "DIR", SCOPE_GROUP, set_text,
     "Search for the program in DIR before PATH. DIR may be several directories, separated by "
     "colons.",
     .others = {NULL, NULL, "--path"}, AT_GROUP(search)},

    {.text = "Options of all groups, before the first program:"},
    {"--genv", "VAR VALUE", SCOPE_JOB, set_env,
     "Like --env, for all groups. A group's own value wins.", .others = {"-genv", NULL, NULL}},
    {"--genvlist", "A,B,...", SCOPE_JOB, set_envlist,
     "Like --envlist, for all groups without an option of their own.",
     .others = {"-genvlist", NULL, NULL}},
    {"--genvnone", NULL, SCOPE_JOB, set_envmode,
     "Like --envnone, for all groups without an option of their own.",
     .others = {"-genvnone", NULL, NULL}, .min = ENV_SOME},
    {"--genvall", NULL, SCOPE_JOB, set_envmode,
     "Like --envall, for all groups without an option of their own (default).",
     .others = {"-genvall", NULL, NULL}, .min = ENV_ALL},
    {"--mca --gmca", "NAME VALUE", SCOPE_JOB, set_mca,
     "Set a parameter of Open MPI (OMPI_MCA_NAME=VALUE). Open MPI's library reads it in its "
     "environment. Parameters of mpirun itself have no effect.",
     .others = {NULL, NULL, "--mca"}},
    {"--gwdir", "DIR", SCOPE_JOB, set_text, "Like --wdir, for all groups without one of their own.",
     .others = {"-wdir", NULL, NULL}, AT(wdir)},
    {"--gpath", "DIR", SCOPE_JOB, set_text, "Like --path, for all groups without one of their own.",
     AT(path)},
    {"--configfile", "FILE", SCOPE_JOB, set_configfile,
     "Read the rest of the command line from FILE, a group a line. A group has its options, "
     "program and arguments. Blanks separate words; '...' and \"...\" quote blanks; \\ quotes the "
     "next character and continues the line at its end; a # at the start of a word begins a "
     "comment. Options for the whole job may precede --configfile, or stand in the first line of "
     "the file. The file may have 1 MiB.",
     .others = {"-configfile", "--multi-prog", "--app"}},

    {.text = "Nodes and processors:"},
    {"-N --nodes", "N", SCOPE_JOB, set_count,
     "Number of nodes (default: as many as the hosts). If the hosts have slots, the default is as "
     "many as the processes fill. The job uses at most as many nodes as it has processes.",
     .others = {NULL, "-N", NULL}, AT(n_nodes), .min = 1, .max = 65536},
    {"--hosts --host --nodelist -H -w", "A,B:2,...", SCOPE_JOB, set_hosts,
     "Run on these hosts; a:2 has two slots; n[1-4] are four. The command of --launch reaches "
     "them. A number after a colon gives a host's slots; n[01-04,12] stands for n01 to n04 and "
     "n12. An IPv6 address with slots is written in brackets; nodes connect to each other by "
     "IPv4. A host that is named twice has the slots of both. If no host has slots, the ranks are "
     "spread over all hosts as --map says. If one host has slots, every other host without slots "
     "has 1; ranks fill the slots of the first host, then those of the next, and begin again at "
     "the first host after the last. A name consists of letters, digits and ._-@%: and does not "
     "begin with -; there may be 65536 hosts.",
     .others = {"-hosts", "-w", "--host"}},
    {"--hostfile --machinefile -f", "FILE", SCOPE_JOB, set_hostfile,
     "Read hosts from FILE, a line each: `a`, `a:2` or `a` `slots=2`. A # begins a comment. "
     "max_slots=N is accepted and ignored. Hosts of --hosts and of several files are added "
     "together.",
     .others = {"-f", "SLURM_HOSTFILE", "--hostfile"}},
    {"--ppn --perhost --npernode --ntasks-per-node", "N", SCOPE_JOB, set_count,
     "Give each host N slots, whatever else names its slots. Without hosts, --launch srun and "
     "fork use as many nodes as the processes then need.",
     .others = {"-ppn", "--ntasks-per-node", "-npernode"}, AT(per_host), .min = 1,
     .max = MAX_PROCS},
    {"--map", "HOW", SCOPE_JOB, set_second,
     "Distribute ranks over the nodes: block (default), cyclic. `block`: the first node gets the "
     "first ranks, and so on, as evenly as possible. `cyclic`: nodes get ranks in turn.",
     .others = {NULL, "--distribution", "--map-by"}, .words = "block cyclic", AT(cyclic)},
    {"--map-by", "HOW", SCOPE_JOB, set_map_by,
     "Distribute ranks by slot, node, ppr:N:node, core, ... (see BINDING). `slot`: nodes get "
     "consecutive ranks, as with --map block. `node`: nodes get ranks round-robin, as with --map "
     "cyclic. `ppr:N:node`: each node gets N processes, as with --ppn N. `socket`, `numa`, "
     "`l1cache`, `l2cache`, `l3cache`, `core`, `hwthread`: these objects of a node get its ranks "
     "round-robin, or, with `:block` appended, equal shares of consecutive ranks. `:PE=N` "
     "appended: each rank gets N objects of --bind-to, or N cores without that option.",
     .others = {"-map-by", "--distribution", "--map-by"}},
    {"--bind-to", "WHAT", SCOPE_JOB, set_bind_to,
     "Bind ranks: none (default), socket, core:N, list:0-3,4+6, ... (see BINDING). `none`, the "
     "default without --map-by: each rank may use all processors that `pmirun` may use. `socket`, "
     "`numa`, `l1cache`, `l2cache`, `l3cache`, `core`, `hwthread`: one such object a rank; "
     "`core:2`: two of them. `list:0-3,4+6,...`: processors 0 to 3 for the first rank of a node, "
     "4 and 6 for the second, and so on; after the end of the list, ranks begin again at its "
     "start.",
     .others = {"-bind-to", "--cpu-bind", "--bind-to"}},
    {"--report-bindings", NULL, SCOPE_JOB, set_flag,
     "Print each rank's binding on stderr: what it is bound to, a picture of that, and its "
     "processors' numbers (see BINDING).",
     .others = {"HYDRA_TOPO_DEBUG", "--cpu-bind=v", "--report-bindings"}, AT(report_bindings)},
    {"--topology", "TEXT", SCOPE_JOB, set_text,
     "Place ranks on this hwloc topology, bind none. The notation is that of hwloc's synthetic "
     "topologies: \"socket:2 core:32 pu:2\". `pmirun` reports the places (--report-bindings). Open "
     "MPI's parameter hwloc_base_topo_file names a file instead.",
     .others = {"HWLOC_SYNTHETIC", NULL, NULL}, AT(topology)},
    {"--launch --launcher --bootstrap", "HOW", SCOPE_JOB, set_launch,
     "Start agents by ssh (default with hosts), srun, fork or a command. `slurm` is the same as "
     "`srun`; `fork`: all nodes are on this host. In a command %h stands for the host and %c for "
     "the command to run there (see THE WAY TO A NODE).",
     .others = {"-launcher", NULL, NULL}, .words = "fork ssh srun slurm"},
    {"--fanout", "N", SCOPE_JOB, set_count,
     "Start at most N nodes at a time (default 16). Each agent that connects makes room for the "
     "next. `srun` starts all nodes at once.",
     AT(fanout), .min = 1, .max = 65536},
    {"--wait-hosts", "S", SCOPE_JOB, set_seconds,
     "Retry nodes that cannot be reached, for S seconds (default 0). If a node's launch command "
     "ends before its agent has connected, `pmirun` runs it again after a second. If the command "
     "neither ends nor brings an agent within 10 seconds, or a quarter of S if that is less, "
     "`pmirun` kills its process group (SIGTERM, two seconds later SIGKILL) and runs it again "
     "with twice the time; the last try has all the time that remains. If S is below 4, and for "
     "srun, which may wait for nodes itself, `pmirun` kills no command. --start-timeout begins "
     "after S seconds.",
     AT(wait_s)},
    {"--launch-agent --launcher-exec", "PROG", SCOPE_JOB, set_text,
     "Run PROG instead of ssh or srun, with the same arguments. Those of ssh are -x, a host, and "
     "a command for a shell.",
     .others = {"-launcher-exec", NULL, "plm_rsh_agent"}, AT(launch_agent)},
    {"--links", "HOW", SCOPE_JOB, set_links,
     "Links between nodes: `tcp` (default); `any` is the same.", .words = "any tcp"},
    {"--design", "HOW", SCOPE_JOB, set_word,
     "Home of sparse keys: dkvs (default), direct, tree. A key is sparse that a client puts with "
     "fp-hint=sparse, since few ranks read it; no fence carries such a key. `dkvs`: it is on a "
     "node that depends on its name. `direct`: on the node of the rank that put it; a Get from "
     "another node must name that rank (srcid, fp-src). `tree`: on the first node; the nodes on "
     "the way to it keep copies.",
     .words = "dkvs direct tree", AT(design)},

    {.text = "Time limits:"},
    {"--start-timeout", "S", SCOPE_JOB, set_seconds,
     "Give up if not all nodes answer within S seconds (default 60; 0: never).", AT(start_s)},
    {"--node-timeout", "S", SCOPE_JOB, set_seconds,
     "Stop the job if a node is silent for S seconds (default 25; 0: never). At most 80000. The "
     "node is lost then, whether it or its network has failed or the `pmirun` there is stopped or "
     "hangs.",
     AT(node_s), .max = 80000}, /* as TCP's keep-alive has it */
    {"--timeout", "S", SCOPE_JOB, set_seconds,
     "Stop the job after S seconds, with status 124 (default 0: never). The variable "
     "MPIEXEC_TIMEOUT does the same; the option overrides it.",
     .others = {"MPIEXEC_TIMEOUT", "--time", "--timeout"}, .env = "MPIEXEC_TIMEOUT", AT(timeout_s)},
    {"--get-timeout", "S", SCOPE_JOB, set_seconds,
     "End a Get that waits after S seconds (default 60; 0: no limit). It ends without a value, to "
     "within half a second (see GETS THAT WAIT).",
     AT(get_s)},
    {"--stall-timeout", "S", SCOPE_JOB, set_seconds,
     "Disconnect a client stalled for S seconds (default 60; 0: never). A client is stalled that "
     "stops in the middle of a message, or does not read its answers.",
     AT(stall_s)},

    {.text = "Input and output:"},
    {"-l --label --prepend-rank --tag-output", NULL, SCOPE_JOB, set_flag,
     "Label each line of output with its rank. The label is `[`rank`]`, or `[`job:rank`]` for "
     "spawned processes.",
     .others = {"-prepend-rank", "-l", "--tag-output"}, AT(labels)},
    {"--timestamp-output", NULL, SCOPE_JOB, set_flag,
     "Begin each line of output with the local time. It is when `pmirun` forwards the line, to a "
     "millisecond: `2026-01-31` `12:00:00.000`. With -l, the label follows it.",
     .others = {NULL, NULL, "-timestamp-output"}, AT(timestamps)},
    {"--outfile-pattern", "FILE", SCOPE_JOB, set_pattern,
     "Write stdout to files: %r rank, %g job, %p and %h node. A file is created, or truncated, "
     "when a rank starts. In its name, %r stands for the rank, %g for the job's number (0; higher "
     "for a spawned job), %p for the node's number, %h for the node's name, and %% for %. Ranks "
     "with the same file name share the file, line by line. The files are on the node where "
     "`pmirun` was called.",
     .others = {"-outfile-pattern", "--output", "-output-filename"}, AT(outfile)},
    {"--errfile-pattern", "FILE", SCOPE_JOB, set_pattern,
     "Write stderr to files, in the same way. Both options may give the same name.",
     .others = {"-errfile-pattern", "--error", "-output-filename"}, AT(errfile)},
    {"-s --stdin", "WHO", SCOPE_JOB, set_stdin,
     "Who reads stdin: a rank (default 0), all, none. `all`: each rank of the first job reads a "
     "full copy, at the speed of the slowest rank that has not closed it.",
     .others = {NULL, "--input", "--stdin"}, .words = "all none", .min = 0, .max = MAX_PROCS - 1},
    {"--print-all-exitcodes", NULL, SCOPE_JOB, set_flag,
     "Print the exit status of each rank of the first job at the end. There is a line for each "
     "node on stderr: `exit` `codes:` `[node]` `0,0,1`. 128+N stands for a rank that died of "
     "signal N, and - for one that was not started or whose node was lost.",
     .others = {"-print-all-exitcodes", NULL, NULL}, AT(exit_codes)},
    {"--stats", "[=FORM]", SCOPE_JOB, set_stats,
     "Print counters and times at the end: json, table. They are printed on stderr: as one line "
     "of JSON (`json`, the default), or as a table for people (`table`). Times are milliseconds "
     "since the start.",
     .words = "json table"},
    {"--progress --show-progress", NULL, SCOPE_JOB, set_flag,
     "Show on a terminal how many ranks have started and ended. The last line of the terminal "
     "shows how many ranks have started, have initialized (PMI or PMIx init) and have finalized: "
     "`-`, `=` and `#` in its bar. Output replaces the line, which returns after a quarter of a "
     "second without output. If stderr is no terminal, the option has no effect.",
     .others = {NULL, NULL, "--show-progress"}, AT(progress)},
    {"--timeline", "FILE", SCOPE_JOB, set_timeline,
     "Write what each rank did when to NAME.json. It is written at the end, however the job ends, "
     "by node and rank: before init, from init to finalize, in each fence, Allgather, Ring or "
     "barrier of a group, and how it exited. NAME.json is a trace, which Perfetto and "
     "chrome://tracing draw. With several nodes, the agents record their ranks' events; their "
     "times are off by up to half a round trip, and by the drift between the hosts' clocks during "
     "the job. A fence of PMIx begins when all ranks of the node have entered it, since libpmix "
     "does not report each one. After 1048576 events `pmirun` records no more collectives, after "
     "twice as many nothing more, and reports both. A `pmirun` that dies of SIGKILL leaves an "
     "empty file.",
     .others = {NULL}},
    {"-v --verbose -vv -vvv", NULL, SCOPE_JOB, set_flag, "Report events on stderr, with times.",
     .others = {"-verbose", "-v", "-v"}, AT(verbose)},

    {.text = "PMI and PMIx:"},
    {"--mpi", "HOW", SCOPE_JOB, set_mpi,
     "How ranks find each other: auto (default), pmi, pmi2, openmpi, pmix. `pmi`: PMI-1 or PMI-2; "
     "`pmi2` is the same. `openmpi`: Open MPI 4 over PMI-1. `pmix`: PMIx. `auto`: what the "
     "programs' libraries require (see OPEN MPI AND PMIX).",
     .others = {NULL, "--mpi", NULL}, .words = "auto pmi openmpi pmix pmi2"},
    {"--pmi-port", NULL, SCOPE_JOB, set_flag,
     "Serve PMI over TCP (PMI_PORT), not an inherited socket. `pmirun` listens on the loopback "
     "interface. Each process identifies itself by a random number that only it gets (PMI_ID). "
     "`pmirun` refuses connections of other users, and every wrong number, without a limit on "
     "attempts. Only if the kernel does not report the owner of a connection (NETLINK_SOCK_DIAG) "
     "do 64 wrong numbers close the port, so that no process finds a number by trying.",
     .others = {"-pmi-port", NULL, NULL}, AT(use_port)},
    {"--pmi-1.2", NULL, SCOPE_JOB, set_flag,
     "Answer PMI 1.2 to clients that ask for 1.1. MPICH 4.3 and later then use group barriers. "
     "Flux's client refuses the answer.",
     AT(pmi_1_2)},
    {"--universe-size --usize", "N", SCOPE_JOB, set_universe_size,
     "Universe size for clients (default -1: unknown). `INFINITE` means unknown, too; `SYSTEM` "
     "means the slots of all hosts, where a host without slots counts 1.",
     .others = {"-usize", NULL, NULL}, .words = "SYSTEM INFINITE", .min = -1, .max = INT32_MAX},
    {"--max-procs", "N", SCOPE_JOB, set_count,
     "Cap on running spawned processes (default 1024 a node). It counts the processes of PMI "
     "spawn that run at a time, on all nodes together (0: none; at most 1000000). A spawn beyond "
     "the cap fails.",
     AT(max_spawned), .min = 0, .max = MAX_PROCS},
    {"--no-shm", NULL, SCOPE_JOB, set_flag,
     "No shared memory: every Get uses the socket. The key-value space is in the memory of "
     "`pmirun`.",
     AT(no_shm)},
    {"--shm-max", "MIB", SCOPE_JOB, set_shm_max,
     "Cap on a job's shared memory for pairs (default 1024). `pmirun` keeps further pairs in its "
     "own memory, up to 256 MiB a job on each node, and from the next fence on, every Get uses "
     "the socket. A Put beyond that fails; pairs that a fence brings are always kept.",
     .min = 1, .max = 65536},

    {.text = "The end of the job:"},
    {"--ends", "HOW", SCOPE_JOB, set_second,
     "Rules for exits: strict (default), or hydra: those of MPICH. Some scripts rely on hydra's "
     "(see ENDS SIDE BY SIDE).",
     .words = "strict hydra", AT(as_hydra)},

    {.text = "About pmirun:"},
    {"-h --help --usage", "[=WHAT]", SCOPE_GROUP, show_help,
     "Print this help; =man, =table, =names: other forms. `=man` prints the manual's list and "
     "`=table` its table, both in roff; `=names` prints what a shell's completion needs.",
     .others = {"-help", "--help", "--help"}, .words = "man table names"},
    {"-V --version", NULL, SCOPE_GROUP, show_version, "Print the version.",
     .others = {"-version", "-V", "-V"}},
    {"--info", NULL, SCOPE_GROUP, show_info, "Print the version and what `pmirun` was built with.",
     .others = {"-info", NULL, "ompi_info"}},

    {.text = "Options of other launchers, accepted because pmirun does this anyway:"},
    {"--oversubscribe --overcommit -O", NULL, SCOPE_NOTHING,
     .text = "A node may have more processes than processors."},
    {"--allow-run-as-root", NULL, SCOPE_NOTHING, .text = "Root may run jobs."},
    {"-q -Q --quiet", NULL, SCOPE_NOTHING,
     .text = "`pmirun` prints only errors and warnings, unless another option asks for more."},
    {"-u --unbuffered", NULL, SCOPE_NOTHING,
     .text = "Output is forwarded when a line is complete or 0.2 s old."},
    {"--overlap --exact", NULL, SCOPE_NOTHING,
     .text = "Jobs of one allocation may run at the same time."},
    {"--noprefix --novm --leave-session-attached", NULL, SCOPE_NOTHING,
     .text = "`pmirun` sets no prefix, starts no daemons in advance, and keeps its session."},
    {"--do-not-resolve", NULL, SCOPE_NOTHING,
     .text = "The command of --launch resolves host names."},
    {"--resv-ports", NULL, SCOPE_NOTHING, .text = "`pmirun` needs no reserved ports."},
    {"-X --disable-status", NULL, SCOPE_NOTHING,
     .text = "The first SIGINT is forwarded to the ranks."},
    {"-E --preserve-env -Z --no-allocate", NULL, SCOPE_NOTHING,
     .text = "`pmirun` passes on its environment, and allocates no nodes."},
    {"--personality", "NAME", SCOPE_NOTHING, .text = "--mpi auto serves every MPI."},
    {"--disable-x", NULL, SCOPE_NOTHING, .text = "`pmirun` does not forward X."},
    {"--disable-hostname-propagation", NULL, SCOPE_NOTHING,
     .text = "`pmirun` does not propagate host names."},
    {"--rmk", "NAME", SCOPE_NOTHING,
     .text = "Hosts come from --hosts, --hostfile, or the allocation's variables."},
    {"--topolib", "NAME", SCOPE_NOTHING, .text = "The topology library is hwloc."},
    {"--demux", "NAME", SCOPE_NOTHING, .text = "`pmirun` uses epoll."},
};

const size_t n_option_rows = sizeof(option_rows) / sizeof(option_rows[0]);
