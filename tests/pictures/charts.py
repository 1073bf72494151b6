# SPDX-License-Identifier: BSD-3-Clause
"""The charts of the documents, from the JSON lines in figures/, and the tables that have the same figures.

A file of figures/ holds a benchmark's output from a kept run, rounded as in the document's table.
"""
import os
import re

from canvas import Picture, bars, lines, read

here = os.path.dirname(os.path.abspath(__file__))


def figures(name):
    return read(os.path.join(here, "figures", name + ".json"))


def curves(name, title, description, series, x_title, y_title, height=380, room=230):
    """A picture of lines; `room` is the width of the names beside them."""
    p = Picture(820, height, title, description)
    lines(p, (74, 76, 820 - room, height - 62), figures(name), series, x_title, y_title)
    return p


GET = (("hydra", "mpiexec.hydra"), ("slurm", "srun --mpi=pmi2"), ("openmpi pmix", "Open MPI's PMIx 4.2"),
       ("ours, sockets", "pmirun --no-shm"), ("ours", "pmirun"))
LAUNCH = (("mpiexec.hydra", "mpiexec.hydra"), ("pmirun", "pmirun"))
START = (("mpirun", "mpirun"), ("srun", "srun --mpi=pmix"), ("ours, PMIx", "pmirun, PMIx"), ("ours, PMI-1", "pmirun, PMI-1"))
HITS = (("LMDB", "LMDB"), ("std::unordered_map", "std::unordered_map"), ("absl::flat_hash_map", "absl::flat_hash_map"),
        ("SHMEM-2/XXH3", "the paper's table"), ("ours", "libshmht"), ("ours, 32 at a time", "libshmht, 32 at a time"))
RANKS = (("VC-VCRT, lut", "VC-VCRT, irregular"), ("VC-VCRT, stride", "VC-VCRT, stride"), ("ours, lut 32-bit", "librankmap, irregular"),
         ("switch, stride", "the paper's switch, stride"), ("ours, stride", "librankmap, stride"))
REGIONS = (("binary search", "binary search"), ("binary search, branch-free", "binary search, branch-free"), ("pgtable", "UCX pgtable"), ("ours", "libasymreg"))


def get():
    return curves("get", "A Get, microseconds, by the number of clients at once",
                  "Times of a Get from shared memory stay near 0.1 microseconds; those by socket grow with the clients, under each launcher.",
                  GET, "clients at once", "µs, both axes logarithmic")


def launch():
    return curves("launch", "A whole PMI job, milliseconds, by ranks", "A job under pmirun takes 0.6 to 0.8 of mpiexec.hydra's time.",
                  LAUNCH, "ranks", "ms, both axes logarithmic")


def start():
    return curves("start", "An Open MPI job that only starts, milliseconds, by ranks",
                  "pmirun by PMI-1 is fastest, pmirun by PMIx second up to 128 ranks, before srun and mpirun.", START, "ranks",
                  "ms, both axes logarithmic")


def hits():
    return curves("shmht-hits", "A hit, nanoseconds, by pairs in the table",
                  "libshmht is ahead of each library from 100,000 pairs up; 32 look-ups at a time take 24 ns among four million.",
                  HITS, "pairs of 16 and 32 bytes", "ns, both axes logarithmic", room=260)


def ranks():
    return curves("rankmap-lookup", "Rank to address, nanoseconds, by ranks of the communicator",
                  "librankmap's strides stay at 0.3 to 0.5 ns; a table of pointers takes 8 to 9 ns at a million ranks.",
                  RANKS, "ranks, looked up in order", "ns, both axes logarithmic", room=270)


def regions():
    return curves("asymreg-lookup", "Which region holds an address, nanoseconds, by regions",
                  "libasymreg takes 42 ns among a million regions, UCX's pgtable 156 and a branch-free binary search 240.",
                  REGIONS, "regions, spread evenly", "ns, both axes logarithmic", room=260)


def codec():
    p = Picture(820, 330, "Decoding, GB/s of wire", "libpmiwire decodes 1.0 to 3.0 GB/s, two to three times the parsers that copy or allocate.")
    found = {(f["case"], f["who"]): f["value"] for f in figures("codec")}
    rows = []
    for case in ("PMI-1 put", "PMI-1 get", "PMI-2 kvs-put"):
        for who, color in (("libpmiwire", "blue"), ("strtok and copy", "orange"), ("strtok and strdup", "soft")):
            rows.append((f"{case}: {who}", found[case, who], color))
    bars(p, (260, 50, 720, 310), rows, "")
    return p


def sync():
    p = Picture(820, 350, "A sync, times as fast as msync(), by what changed",
                "With one page in a hundred changed a sync of the pager resident is 4.6 to 7.7 times as fast as msync().")
    rows = [(f"{f['case']}: {f['who']}", f["value"], "blue" if f["who"] == "resident" else "orange") for f in figures("storwin-sync")]
    bars(p, (330, 50, 740, 310), rows, "", (1, "msync()"))
    return p


COMMITS = (("ours-journal", "journal"), ("ours-slots", "slots"), ("msync", "msync()"), ("LMDB", "LMDB"), ("write+fsync", "write and fsync"))


def commit():
    p = Picture(820, 330, "A commit of 1 GiB, milliseconds, by what changed",
                "With 1 % changed a commit by a journal takes 11 ms, LMDB 37, msync(), which is not atomic, 209, and rewriting everything 296.")
    names = dict(COMMITS)
    rows = [(f"{f['case']}: {names[f['who']]}", f["value"], "blue" if f["who"].startswith("ours") else "orange")
            for f in figures("storwin-commit") if f["case"] != "100 %"]
    bars(p, (230, 50, 740, 310), rows, "")
    return p


CHARTS = {
    "examples/pmirun/pictures/get.svg": get,
    "examples/pmirun/pictures/launch.svg": launch,
    "examples/pmirun/pictures/start.svg": start,
    "libshmht/pictures/hits.svg": hits,
    "libpmiwire/pictures/codec.svg": codec,
    "librankmap/pictures/lookup.svg": ranks,
    "libasymreg/pictures/lookup.svg": regions,
    "libstorwin/pictures/sync.svg": sync,
    "libstorwin/pictures/commit.svg": commit,
}


# ---------------------------------------------------------------- tables of the documents

def by_n(name, series, scale=1):
    """Rows of a table whose first column is n: (first cell, values)."""
    found = figures(name)
    ns = sorted({f["n"] for f in found})
    return [(str(n), [f["value"] / scale for who, _ in series for f in found if f["who"] == who and f["n"] == n]) for n in ns]


def by_who(name, series):
    """Rows of a table whose first column is the contestant, with the picture's name."""
    found = figures(name)
    return [(label, [f["value"] for f in sorted(found, key=lambda f: f["n"]) if f["who"] == who]) for who, label in series]


def by_case(name, whos):
    """Rows of a table whose first column is the case, and whose second is n where the figures have one."""
    found = figures(name)
    cases = dict.fromkeys((f["case"], f.get("n")) for f in found)
    return [(case, ([n] if n else []) + [f["value"] for who in whos for f in found if f["case"] == case and f["who"] == who])
            for case, n in cases]


TABLES = (
    ("examples/pmirun/FIGURES.md", by_n("get", [(w, w) for w in ("ours", "ours, sockets", "hydra", "slurm", "openmpi pmix")])),
    ("examples/pmirun/FIGURES.md", by_n("launch", [("pmirun", ""), ("mpiexec.hydra", "")])),
    ("examples/pmirun/FIGURES.md", by_n("start", [(w, w) for w in ("ours, PMI-1", "ours, PMIx", "mpirun", "srun")], 1000)),
    ("libshmht/README.md", by_who("shmht-hits", HITS)),
    ("libpmiwire/README.md", by_case("codec", ("libpmiwire", "strtok and copy", "strtok and strdup"))),
    ("librankmap/README.md", by_who("rankmap-lookup", RANKS)),
    ("libasymreg/README.md", by_who("asymreg-lookup", REGIONS)),
    ("libstorwin/README.md", by_case("storwin-sync", ("resident", "access_style=random"))),
    ("libstorwin/README.md", by_case("storwin-commit", [who for who, _ in COMMITS])),
)


def rows_of(text):
    """Each row of a document's tables: its first cell, and the numbers that follow, without other cells."""
    for line in text.splitlines():
        if not line.startswith("|"):
            continue
        cells = [cell.strip().replace(",", "") for cell in line.strip("| \n").split("|")]
        yield line.strip("| \n").split("|")[0].strip().replace(",", "").strip("`*"), [
            float(cell) for cell in cells[1:] if re.fullmatch(r"[0-9]*\.?[0-9]+", cell)]


def missing(text, rows):
    """The rows that no table of the text has."""
    there = list(rows_of(text))
    return [f"{first}: {values}" for first, values in rows
            if not any(f == first.replace(",", "") and v[:len(values)] == values for f, v in there)]
