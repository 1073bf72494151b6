# SPDX-License-Identifier: BSD-3-Clause
"""The drawings of the documents. Each function returns a canvas.Picture; PICTURES has its path."""
from canvas import Picture


def whole():
    p = Picture(820, 400, "Five libraries in one job",
                "The launcher serves PMI and writes each key into a table in shared memory, which ranks read in place. "
                "A rank map turns a rank into an address; peers' memory is reached by address; windows lie in memory, in a file, or both.")
    p.box(24, 60, 220, 90, ["Launcher", "pmirun", "libpmiwire: PMI-1, PMI-2"], "blue", "blue")
    p.box(24, 270, 220, 90, ["Table in shared memory", "libshmht", "every key of the job"], "green", "green")
    p.box(370, 60, 150, 300, ["Rank", "a process of MPI,", "OpenSHMEM or", "your own runtime"], "gray")
    p.box(640, 60, 156, 82, ["Rank map", "librankmap", "rank → address"], "purple", "purple")
    p.box(640, 169, 156, 82, ["Any peer's memory", "libasymreg", "put, get, atomics"], "orange", "orange")
    p.box(640, 278, 156, 82, ["Window", "libstorwin", "memory, file, or both"], "green", "green")
    p.arrow([(244, 105), (370, 105)], both=True)
    p.text(307, 97, "PMI: put, fence", 12, "middle")
    p.arrow([(134, 150), (134, 270)])
    p.text(144, 214, "writes", 12)
    p.arrow([(370, 315), (244, 315)], "green")
    p.text(307, 307, "Get: a read", 12, "middle")
    for y, words in ((101, "who is rank 7?"), (210, "put to address"), (319, "load and store")):
        p.arrow([(520, y), (640, y)])
        p.text(580, y - 8, words, 12, "middle")
    return p


def regions():
    p = Picture(820, 400, "A table, a reader and a growing writer",
                "One region of shared memory: a header, a first table that growth has left behind, records, a table twice as large, "
                "records, and reserved address space. A Get reads header, table line and record; a put appends a record and stores its slot.")
    p.box(24, 56, 180, 52, ["Reader", "maps it read-only"], "green", "green")
    p.box(606, 56, 190, 52, ["Writer", "one process"], "blue", "blue")
    y, h = 180, 72
    p.box(24, y, 90, h, ["header"], "gray")
    p.box(114, y, 86, h, ["table", "left behind"], "gray", dash=True)
    p.box(200, y, 110, h, ["records"], "gray")
    p.box(310, y, 180, h, ["table", "lines of 8 slots:", "hash, offset"], "purple", "purple")
    p.box(490, y, 130, h, ["records", "key, value"], "gray")
    p.box(620, y, 176, h, ["reserved", "up to max_bytes"], "gray", dash=True)
    p.arrow([(50, 108), (50, y)], "green")
    p.number(50, 140, 1, "green")
    p.arrow([(70, y + h), (70, 292), (370, 292), (370, y + h)], "green")
    p.number(220, 292, 2, "green")
    p.arrow([(420, y + h), (420, 292), (550, 292), (550, y + h)], "green")
    p.number(485, 292, 3, "green")
    p.arrow([(660, 108), (612, y)], "blue")
    p.number(638, 140, "a", "blue")
    p.arrow([(625, 108), (440, y)], "blue")
    p.number(540, 141, "b", "blue")
    p.arrow([(606, 76), (96, 126), (96, y)], "blue", dash=True)
    p.number(300, 106, "c", "blue")
    for i, (color, words) in enumerate((
            ("green", "Get: 1 the header names the table; 2 one cache line finds the slot; 3 the record is compared and used in place."),
            ("blue", "Put: a appends a record; b stores its slot, with release."),
            ("blue", "Growth: c appends a table twice as large, then one store into the header. Readers in the old table stay correct."))):
        p.text(24, 332 + 22 * i, words, 13, color=color)
    return p


def put_get():
    p = Picture(820, 350, "A Put's way and a Get's way",
                "Rank 0 sends a put to the server, which writes the pair into the table; after a fence rank 1 reads it in place. "
                "A client without the extension asks by socket.")
    p.box(24, 70, 140, 80, ["Rank 0", "PMI client"], "gray")
    p.box(310, 70, 200, 80, ["pmirun", "libpmiwire's server", "engine"], "blue", "blue")
    p.box(310, 230, 200, 80, ["Table", "libshmht,", "in shared memory"], "green", "green")
    p.box(670, 70, 126, 240, ["Rank 1", "PMI client"], "gray")
    p.arrow([(164, 95), (310, 95)], "blue")
    p.number(182, 80, 1)
    p.text(250, 87, "put key=value", 12, "middle")
    p.arrow([(310, 130), (164, 130)], "soft")
    p.text(240, 146, "rc=0", 12, "middle", "soft")
    p.arrow([(410, 150), (410, 230)], "blue")
    p.number(410, 188, 2)
    p.text(426, 193, "writes the pair", 12)
    p.arrow([(510, 95), (670, 95)], "blue", both=True)
    p.number(530, 80, 3)
    p.text(600, 87, "fence", 12, "middle")
    p.arrow([(670, 272), (510, 272)], "green")
    p.number(530, 255, 4, "green")
    p.text(604, 264, "get: reads in place", 12, "middle")
    p.arrow([(670, 132), (510, 132)], "soft", dash=True, both=True)
    p.text(590, 150, "get by socket: any client", 12, "middle", "soft")
    p.text(24, 252, "A Get from the table: no system", 12, color="soft")
    p.text(24, 270, "call, no lock, no copy.", 12, color="soft")
    return p


def nodes():
    p = Picture(820, 400, "One node and several",
                "On one node pmirun starts the ranks, serves them and writes the table. On several, a head reaches one agent a node; "
                "agents serve their ranks and exchange keys along a tree.")
    p.text(24, 62, "pmirun -n 3", 13, bold=True)
    p.box(24, 76, 200, 60, ["pmirun", "server and launcher"], "blue", "blue")
    p.box(24, 300, 200, 48, ["table"], "green", "green")
    for i in range(3):
        x = 24 + 70 * i
        p.box(x, 190, 60, 56, [f"rank {i}"], "gray")
        p.arrow([(x + 30, 136), (x + 30, 190)], both=True)
        p.arrow([(x + 30, 246), (x + 30, 300)], "green")
    p.text(24, 372, "Put, Fence by socket; Get from", 12, color="soft")
    p.text(24, 388, "the table", 12, color="soft")
    p.line([(250, 60), (250, 380)], "rule", 1)
    p.text(274, 62, "pmirun --hosts a,b,c -n 6", 13, bold=True)
    p.box(454, 70, 164, 50, ["head", "starts no rank"], "blue", "blue")
    for i, host in enumerate("abc"):
        x = 274 + 176 * i
        p.box(x, 170, 164, 178, [], "gray", dash=True)
        p.text(x + 82, 366, f"node {host}", 12, "middle", "soft")
        p.box(x + 12, 182, 140, 40, ["agent"], "blue", "blue")
        p.arrow([(536, 120), (x + 82, 182)], "soft", dash=True, both=True)
        for j in range(2):
            p.box(x + 12 + 72 * j, 244, 68, 36, [f"rank {2 * i + j}"], "gray")
        p.box(x + 12, 302, 140, 34, ["table"], "green", "green")
        p.line([(x + 82, 222), (x + 82, 244)], "ink", 1)
        p.line([(x + 82, 280), (x + 82, 302)], "green", 1.5)
    for i in range(2):
        x = 426 + 176 * i
        p.arrow([(x, 202), (x + 36, 202)], "blue", both=True)
    p.text(536, 388, "Between agents: pairs of a Fence along a tree, authenticated and encrypted.", 12, "middle", "blue")
    return p


def models():
    p = Picture(820, 414, "Rank maps: models as grids of processes",
                "Each grid has 32 processes in rows of 8; a coloured cell belongs to the communicator and holds its rank. Shown are stride, "
                "blocks, a transposed grid, a brick, runs around a failed process, and a table of random ranks.")
    shuffled = [16, 23, 11, 25, 22, 26, 30, 20, 31, 0, 14, 7, 1, 5, 3, 29]
    shown = [
        ("stride", "1 + 2·r", "16 bytes", [1 + 2 * r for r in range(16)]),
        ("blockstride", "4·⌊r/2⌋ + r mod 2", "40 bytes", [4 * (r // 2) + r % 2 for r in range(16)]),
        ("blockstride: transposed", "⌊r/4⌋ + 8·(r mod 4)", "40 bytes", [r // 4 + 8 * (r % 4) for r in range(32)]),
        ("md-blockstride: a brick", "r₀ + 4·r₁ + 16·r₂", "56 bytes", [r % 2 + 4 * (r // 2 % 2) + 16 * (r // 4) for r in range(8)]),
        ("runs: process 11 failed", "0-10, 12-31", "24 bytes", [r + (r >= 11) for r in range(31)]),
        ("table: no formula", "T[r], packed", "5 bits a rank here", shuffled),
    ]
    cell = 28
    for i, (name, formula, size, ids) in enumerate(shown):
        x0, y0 = 24 + 266 * (i % 3), 72 + 186 * (i // 3)
        p.text(x0, y0 - 12, name, 13, bold=True)
        rank_of = {id: rank for rank, id in enumerate(ids)}
        for id in range(32):
            x, y = x0 + cell * (id % 8), y0 + cell * (id // 8)
            rank = rank_of.get(id)
            tint = "gray" if rank is None else ("blue", "purple", "orange", "green")[4 * rank // len(ids)]
            p.add(f'<rect class="f-{tint}-tint s-rule" x="{x}" y="{y}" width="{cell}" height="{cell}"/>')
            if rank is not None:
                p.text(x + cell / 2, y + cell / 2 + 4, str(rank), 11, "middle")
        p.text(x0, y0 + 4 * cell + 18, formula, 12)
        p.text(x0 + 8 * cell, y0 + 4 * cell + 18, size, 12, "end", "soft")
    return p


def window():
    p = Picture(820, 420, "A window and its pagers",
                "One range of addresses: a part in memory, a part in a file. The pager kernel uses the page cache, resident holds everything "
                "in private memory and writes the changed pages, user holds a bounded part and evicts blocks.")
    p.text(24, 62, "one range of addresses, plain loads and stores", 12, color="soft")
    p.box(24, 72, 250, 44, ["part in memory"], "green", "green")
    p.box(274, 72, 522, 44, ["part on storage"], "purple", "purple")
    for i, (name, memory, tint, words, edge) in enumerate((
            ("kernel", "page cache", 240, ("a sync is msync():", "whole folios"), "soft"),
            ("resident", "all in private memory", 240, ("a sync writes", "the changed pages"), "blue"),
            ("user", "a budget", 96, ("faults read blocks,", "old ones are evicted"), "orange"))):
        x = 24 + 266 * i
        p.text(x, 158, f"pager {name}", 13, bold=True)
        p.box(x, 170, 240, 48, [], "gray", dash=tint < 240)
        p.box(x, 170, tint, 48, [memory], {"soft": "gray", "blue": "blue", "orange": "orange"}[edge], edge)
        p.arrow([(x + 40, 218), (x + 40, 306)], edge, both=name != "resident")
        p.text(x + 54, 258, words[0], 12)
        p.text(x + 54, 275, words[1], 12)
        p.box(x, 306, 240, 40, ["file or block device"], "purple", "purple")
        changed = {0: range(2, 6), 1: (3,), 2: (1,)}[i]
        for k in range(8):
            color = "red" if k in changed else "rule"
            p.add(f'<rect class="f-{color}" x="{x + 8 + 28 * k}" y="352" width="24" height="8" rx="1"/>')
    p.text(24, 388, "Red: what a sync writes where one page has changed. With storage_alloc_atomic a sync is a commit: all of it survives", 12,
           color="soft")
    p.text(24, 404, "a crash, or none of it.", 12, color="soft")
    return p


def by_address():
    p = Picture(820, 390, "Put by address",
                "The target registers memory and publishes a table. The initiator finds the address in its index of that table, checks range, "
                "permission and generation, and stores; the target takes no part.")
    p.box(24, 60, 300, 290, [], "gray", dash=True)
    p.text(40, 84, "Initiator", 13, bold=True)
    p.box(44, 100, 260, 44, ["asymreg_put(7, address, bytes)"], "blue", "blue")
    p.box(44, 186, 260, 56, ["search: which region?", "its index of the peer's table"], "gray")
    p.box(44, 284, 260, 50, ["check: range, permission,", "generation"], "gray")
    p.arrow([(174, 144), (174, 186)], "blue")
    p.number(174, 164, 1)
    p.arrow([(174, 242), (174, 284)], "blue")
    p.number(174, 262, 3)
    p.box(496, 60, 300, 290, [], "gray", dash=True)
    p.text(512, 84, "Target (PE 7): takes no part", 13, bold=True)
    p.box(516, 108, 260, 130, ["published table", "first, last address,", "generation, permissions", "of each region;", "a log of changes"],
          "green", "green")
    p.box(516, 262, 76, 70, ["region"], "purple", "purple")
    p.box(608, 262, 76, 70, ["region"], "purple", "purple")
    p.box(700, 262, 76, 70, ["region"], "purple", "purple")
    p.arrow([(304, 204), (516, 204)], "blue", both=True)
    p.number(410, 204, 2)
    p.text(410, 186, "reads what is new in the log", 12, "middle")
    p.arrow([(304, 310), (410, 310), (410, 342), (646, 342), (646, 332)], "orange")
    p.number(360, 310, 4, "orange")
    p.text(332, 296, "store, CMA, UCX, verbs", 12, color="orange")
    p.text(24, 374, "A stale, read-only or short region is an error with a name, before a byte is written.", 12, color="soft")
    return p


PICTURES = {
    "examples/minirt/pictures/whole.svg": whole,
    "libshmht/pictures/regions.svg": regions,
    "libpmiwire/pictures/put-get.svg": put_get,
    "libpmiwire/pictures/nodes.svg": nodes,
    "librankmap/pictures/models.svg": models,
    "libstorwin/pictures/window.svg": window,
    "libasymreg/pictures/put.svg": by_address,
}
