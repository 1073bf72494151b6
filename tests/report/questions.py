# SPDX-License-Identifier: BSD-3-Clause
"""The report's questions, in the order of the page, and the charts that answer them; chart.py documents a chart's
entries."""

GET = {"ours": "pmirun, shared table", "ours, sockets": "pmirun --no-shm", "ours, srun": "srun, our table", "hydra": "mpiexec.hydra",
       "slurm": "srun --mpi=pmi2", "openmpi pmix": "Open MPI's PMIx 4.2"}
PMIX_GET = {"ours, PMI-1": "pmirun, PMI-1, our table", "ours, PMIx, ds21": "pmirun, PMIx's store", "ours, PMIx": "pmirun, PMIx",
            "mpirun, ds21": "mpirun, PMIx's store", "srun, ds21": "srun, PMIx's store"}
START = {"ours, PMI-1": "pmirun, PMI-1", "ours, PMI-2": "pmirun, PMI-2", "ours, PMIx": "pmirun, PMIx", "mpirun": "mpirun", "srun": "srun --mpi=pmix"}
TABLES = {"ours": "libshmht", "SHMEM-2/XXH3": "the paper's table", "SHMEM-1/XXH3": "the paper's, one region", "absl::flat_hash_map": "absl::flat_hash_map",
          "std::unordered_map": "std::unordered_map", "uthash": "uthash", "LMDB": "LMDB"}
RANKS = {"ours": "librankmap", "ours, model known": "librankmap, model known", "VC-VCRT": "VC-VCRT", "switch": "the paper's switch", "MPICH main": "MPICH main",
         "UCC": "UCC", "Open MPI sparse": "Open MPI, sparse"}
SHAPES = {"stride": "stride", "blockstride": "stride of blocks", "lut": "irregular"}
REGIONS = {"ours": "libasymreg", "ours (batches)": "libasymreg, in batches", "pgtable": "UCX pgtable", "absl::btree_map": "absl::btree_map", "std::map": "std::map",
           "binary search, branch-free": "binary search, branch-free"}
COMMITS = {"ours-journal": "libstorwin, journal", "ours-slots": "libstorwin, slots", "LMDB": "LMDB", "msync": "msync(), not atomic",
           "write+fsync": "write and fsync of all"}
CHANGED = {"1%": "1 % changed", "10%": "10 % changed", "100%": "all changed"}
DIRTY = {"1%,runs of 1": "1 % changed, single pages", "10%,runs of 1": "10 % changed, single pages", "100%": "all changed"}
SYNCS = {"resident": "libstorwin, resident", "kernel,random": "libstorwin, kernel, random", "kernel": "libstorwin, kernel", "msync": "msync()"}
PAGERS = {"user,random": "libstorwin, user, random", "user": "libstorwin, user", "mmap,MADV_RANDOM": "mmap, MADV_RANDOM", "mmap": "mmap"}
WINDOWS = {"storage": "on storage", "combined": "half in memory, half on storage", "resident": "on storage, resident", "memory": "in memory, MPI's own",
           "MPI I/O": "MPI I/O"}
STREAMS = {"SEQ": "sequential", "RND": "random", "MIX": "mixed"}
RMA = {"unidirectional put": "put", "unidirectional get": "get", "accumulate": "accumulate", "fetch-and-op": "fetch-and-op"}
COUNTS = {"1S storage": "windows on storage", "1S combined": "windows half on storage", "2S MPI I/O": "messages and MPI I/O"}
MESSAGES = {"v1 put": "PMI-1 put", "v1 get": "PMI-1 get", "v2 kvs-put": "PMI-2 put", "v2 kvs-get": "PMI-2 get"}
PARSERS = {"ours": "libpmiwire", "strtok-and-copy": "strtok and copy", "strtok-and-strdup": "strtok and strdup"}
MAPS = {"ours": "librankmap", "AV-Rankmap": "AV-Rankmap", "VC-VCRT": "VC-VCRT", "VC-VCRT shared": "VC-VCRT, shared tables"}
DESIGNS = {"ring": "Ring", "direct": "Direct", "dkvs": "DKVS", "fence-tree": "Put-Fence-Get, tree"}
STORAGE = r"storage|combined|resident|kernel|user|1S"
NEIGHBOURS = {f"{who} {way}": label for who, way, label in (
    ("ours", "Direct TCP", "pmirun, Direct"), ("ours", "Ring TCP", "pmirun, Ring"), ("ours", "Put-Fence-Get TCP", "pmirun, Put-Fence-Get"),
    ("srun", "Ring", "srun, Ring"), ("srun", "Put-Fence-Get", "srun, Put-Fence-Get"),
    ("mpiexec.hydra", "Put-Fence-Get PMI-1", "mpiexec.hydra, PMI-1"), ("mpiexec.hydra", "Put-Fence-Get PMI-2", "mpiexec.hydra, PMI-2"))}
FENCES = {"ours TCP": "pmirun, TCP", "srun": "srun", "mpiexec.hydra PMI-1": "mpiexec.hydra, PMI-1",
          "mpiexec.hydra PMI-2": "mpiexec.hydra, PMI-2"}


def pmi(title, case, metric, x="ranks", who=GET, **more):
    return dict(title=title, bench="pmibench", case=case, metric=metric, x=x, who=who, **more)


def chart(title, bench, case, metric, x="", **more):
    return dict(title=title, bench=bench, case=case, metric=metric, x=x, **more)


QUESTIONS = (
    dict(id="get", title="How fast is a Get?",
         text="A client looks up a key that another rank has put. With the shared table it reads memory; by socket it waits for a server's answer.",
         charts=(pmi("A Get under each launcher", "get", "wall_us.mean", "clients at once"),
                 pmi("A Get in a process of Open MPI", "mpiget", "wall_us.mean", who=PMIX_GET),
                 pmi("The first Get of each rank, in a process of Open MPI", "mpiget", "first_us.mean", who=PMIX_GET))),
    dict(id="start", title="How long does a job take to start?",
         text="From the launcher's start to its end; each rank initializes, exchanges and finalizes.",
         charts=(chart("A PMI job of one node", "launch", "job", "whole_job", "ranks", ours="pmirun",
                       note="The posix_spawn loop starts as many processes that return at once: the floor."),
                 pmi("An Open MPI job that only starts", "start of Open MPI", "wall_ms", who=START),
                 pmi("A job without MPI", "start without MPI", "wall_ms", who=START),
                 pmi("Processor time of launcher and servers, Open MPI", "start of Open MPI", "cpu_ms", who=START))),
    dict(id="fence", title="How long does an exchange take?",
         text="Collectives of PMI on one node, and on four hosts, which are network namespaces of this machine.",
         charts=(pmi("A Fence, slowest rank, one node", "fence", "fence_us.max"),
                 pmi("An Allgather, slowest rank, one node", "allgather", "allgather_us.max"),
                 chart("One put and barrier of all ranks, one node", "launch", "put+barrier", "round", "ranks", ours="pmirun"),
                 chart("Each rank's value to its two neighbours, four hosts", "exchange_hosts", "neighbours", "time", "ranks", who=NEIGHBOURS),
                 chart("A Fence with a pair of each rank, four hosts", "exchange_hosts", "fence", "time", "ranks", who=FENCES),
                 chart("Each rank's value to its two neighbours, simulated", "exchange", "sparse, own processors", "time", "ranks, 16 a node",
                       who=DESIGNS, mine=".", note="A simulation with costs measured on this machine: tests/bench/exchange."))),
    dict(id="memory", title="How much memory does PMI take?",
         text="With a shared table a node holds each pair once; without, each client holds its own copy.",
         charts=(pmi("A client", {"memory of 16384 pairs": "16,384 pairs", "memory of 1024 pairs": "1,024 pairs"}, "pss_kb.mean", "clients"),
                 pmi("Launcher and servers, Open MPI", "start of Open MPI", "servers_kb", who=START),
                 chart("A node after a Fence, table and clients", "shmht_memory", "fence", "node_bytes", "clients", sizes=r"fence-(\d+)",
                       ours="libshmht"))),
    dict(id="table", title="How fast is the table?",
         text="libshmht beside other hash tables, one process, keys of 16 bytes and values of 32.",
         charts=(chart("A hit", "shmht_get", "hit", "ns_per_get", "pairs", who=TABLES),
                 chart("A key that is absent", "shmht_get", "absent", "ns_per_get", "pairs", who=TABLES),
                 chart("An insertion", "shmht_build", "insert", "ns_per_entry", "pairs", who=TABLES),
                 chart("Processor time of a Get, by processes at once", "shmht_clients", "clients", "cpu_ns_per_get", "processes",
                       sizes=r"clients-(\d+)", who=TABLES))),
    dict(id="codec", title="How fast are PMI messages read and written?",
         text="libpmiwire beside parsers as launchers have them; bytes of the wire.",
         charts=(chart("Decoding", "codec", MESSAGES, "decode throughput", who=PARSERS),
                 chart("Encoding", "codec", MESSAGES, "encode throughput", who=PARSERS))),
    dict(id="rank", title="How fast does a rank become an address?",
         text="librankmap beside the structures of MPI implementations: look-ups in rank order, and what a communicator costs.",
         charts=(chart("A look-up, ranks at a constant stride", "rankmap_lookup", "stride", "ns_per_lookup", "ranks", who=RANKS),
                 chart("A look-up, irregular ranks", "rankmap_lookup", "lut", "ns_per_lookup", "ranks", who=RANKS),
                 chart("Instructions of a look-up", "rankmap_lookup", SHAPES, "instructions", who=RANKS, bars=True),
                 chart("Finding the model of a communicator, a rank", "rankmap_detect", "stride", "ns_per_rank", "ranks", ours="librankmap"),
                 chart("Maps and addresses of a process, 100 communicators", "rankmap_memory", "figure 3, 100 splits", "bytes a process", "ranks",
                       who=MAPS))),
    dict(id="region", title="How fast is one-sided access by address?",
         text="libasymreg finds the registered region that holds an address, then puts or gets by its key.",
         charts=(chart("Which region holds an address", "asym_lookup", "uniform", "ns_per_lookup", "regions, spread evenly", who=REGIONS),
                 chart("The same, regions in clusters of 64", "asym_lookup", "clustered", "ns_per_lookup", "regions", who=REGIONS),
                 chart("A put of 8 bytes", "asym_bound", "put", "ns_per_op", "regions", ours="libasymreg"),
                 chart("Registering a region", "asym_register", "register", "ns_per_register", "regions", ours="libasymreg"))),
    dict(id="storage", title="What does a window on storage cost?",
         text="libstorwin's commits are atomic and durable; msync() alone is durable only.",
         charts=(chart("A commit", "storwin_commit", CHANGED, "ms_per_commit", who=COMMITS, bars=True),
                 chart("Bytes written for a byte that changed, by a commit", "storwin_commit", CHANGED, "bytes_per_changed_byte", who=COMMITS, bars=True),
                 chart("A sync, stores excluded", "storwin_sync", DIRTY, "time", who=SYNCS, mine=STORAGE, bars=True),
                 chart("Random accesses to a window larger than memory", "storwin_pager", "random", "accesses", who=PAGERS, mine=STORAGE))),
    dict(id="mpi", title="What does it cost an MPI program?",
         text="Programs with MPI windows under libswmpi.so, in memory and on storage.",
         charts=(chart("Bandwidth of a window with its syncs (mSTREAM)", "swmpi_mstream", STREAMS, "bandwidth with sync", who=WINDOWS, mine=STORAGE),
                 chart("One-sided operations on 8 bytes", "swmpi_rma", RMA, "time", who=WINDOWS, mine=STORAGE),
                 chart("A distributed hash table", "swmpi_dht", "insert", "insert", who=WINDOWS, mine=STORAGE),
                 chart("Checkpoint and restart (HACC-IO)", "swmpi_haccio", {"checkpoint": "checkpoint", "restart": "restart"}, "time", who=WINDOWS,
                       mine=STORAGE),
                 chart("Word count with checkpoints", "swmpi_mapreduce", "checkpoints", "time", who=COUNTS, mine=STORAGE))),
)
