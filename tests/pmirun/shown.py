# SPDX-License-Identifier: BSD-3-Clause
"""shown.py PMIRUN RAWPMI GROUP [PROGRAM]: pmirun's --timeline, --stats and --progress. Groups: see the end.
PROGRAM: short, a pmirun with room for few events; pmix, a PMIx client."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

try:
    import fcntl
    import json
    import pty
    import select
    import struct
    import termios
except ImportError as missing:
    print(f"skip: needs all of Python ({missing}): apt install python3")
    sys.exit(77)

PMIRUN, RAW, GROUP = sys.argv[1:4]
for name in list(os.environ):  # as no-batch.bash
    if name.startswith("SLURM_") or name in ("PBS_NODEFILE", "LSB_MCPU_HOSTS", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE"):
        del os.environ[name]
LIMIT = 100  # seconds after which the test takes a job for hung
NODES = ["-N", "2", "--launch", "fork"]
failed = False
folder = tempfile.mkdtemp()


def check(ok, text):
    global failed
    if not ok:
        failed = True
        print("FAIL:", text)


def run(status, *args, program=PMIRUN):
    """Runs a job that ends with this exit status; returns its stderr."""
    done = subprocess.run([program, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    check(done.returncode == status, f"{' '.join(args)}: status {done.returncode}, not {status}: {done.stderr[:500]}")
    return done.stderr


def path(name):
    return os.path.join(folder, name)


def soon(what, text):
    """Whether it holds within a minute."""
    end = time.monotonic() + LIMIT
    while not what():
        if time.monotonic() > end:
            check(False, text)
            return
        time.sleep(0.02)


# ---- timelines ----


def read_trace(name):
    """The rows of a trace, by (node, name): their spans and marks, each (name, begin, end)."""
    with open(path(name), encoding="ascii") as f:
        trace = json.load(f)
    threads, rows = {}, {}
    for e in trace["traceEvents"]:
        if e["ph"] == "M" and e["name"] == "thread_name":
            key = (e["pid"], e["args"]["name"])
            check(key not in rows, f"{name}: {key} has two rows")
            threads[e["pid"], e["tid"]] = rows[key] = {"spans": [], "marks": []}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            check(e["ts"] >= 0 and e["dur"] >= 0, f"{name}: a span with such times: {e}")
            threads[e["pid"], e["tid"]]["spans"].append((e["name"], e["ts"], e["ts"] + e["dur"]))
        elif e["ph"] == "i" and e["s"] == "t":
            threads[e["pid"], e["tid"]]["marks"].append(e["name"])
    return trace["otherData"]["about"], rows


def named(row, *names):
    return sorted((s for s in row["spans"] if s[0] in names), key=lambda s: s[1])


def check_whole(rows, key, *colls):
    """A rank's row from launch to exit, with these collectives between."""
    row = rows.get(key)
    check(row is not None, f"no row for {key}: {sorted(rows)}")
    if row is None:
        return
    life = named(row, "before init", "init to finalize", "after finalize")
    check([s[0] for s in life] == ["before init", "init to finalize", "after finalize"], f"{key}: its life is {life}")
    check(life[1][1] < life[1][2], f"{key}: it takes no time from init to finalize: {life}")
    check(all(a[2] <= b[1] + 0.01 for a, b in zip(life, life[1:])), f"{key}: what follows begins before: {life}")
    inside = named(row, "fence", "Allgather", "Ring", "group barrier")
    check([s[0] for s in inside] == list(colls), f"{key}: its collectives are {inside}")
    check(all(life[1][1] <= s[1] and s[2] <= life[1][2] + 0.01 for s in inside), f"{key}: {inside} is not in {life[1]}")
    check(row["marks"] == ["exited with status 0"], f"{key}: its marks are {row['marks']}")


def one():
    """A job of one node."""
    host = os.uname().nodename
    run(0, "--timeline", path("one.json"), "-n", "3", RAW, "pgf")
    about, rows = read_trace("one.json")
    check(re.fullmatch(r"pmirun: 3 processes, [0-9.]+ s, status 0", about), about)
    check(len(rows) == 3, f"rows: {sorted(rows)}")
    for i in range(3):
        check_whole(rows, (0, f"rank {i}"), "fence")
    fences = [s for row in rows.values() for s in named(row, "fence")]
    check(max(s[1] for s in fences) <= min(s[2] for s in fences) + 0.01, f"a rank left before another one entered: {fences}")
    with open(path("one.json"), encoding="ascii") as f:
        check(f"node 0 ({host})" in f.read(), "the trace does not name the host")
    run(0, "--timeline=" + path("ring.json"), "--no-shm", "-n", "2", RAW, "gather", "3")
    for i in range(2):
        row = read_trace("ring.json")[1][0, f"rank {i}"]
        check(len(named(row, "Allgather")) == 3, f"rank {i}: {row['spans']}")
    run(0, "--timeline", path("spawn.json"), "-n", "1", RAW, "spawn", "2", RAW, "child")
    rows = read_trace("spawn.json")[1]
    check(sorted(k[1] for k in rows) == ["rank 0", "rank 1:0", "rank 1:1"], f"with spawned ranks: {sorted(rows)}")


def nodes():
    """The same on two nodes, whose agents send events to the head."""
    run(0, *NODES, "--timeline", path("two.json"), "-n", "4", RAW, "pgf")
    about, rows = read_trace("two.json")
    check("4 processes on 2 nodes" in about and "status 0" in about, about)
    check(len(rows) == 6, f"rows: {sorted(rows)}")
    for i in range(4):
        check_whole(rows, (i // 2, f"rank {i}"), "fence")
    for i in range(2):
        check(rows[i, "agent"]["marks"] == ["answers"], f"agent {i}: {rows[i, 'agent']}")
    # Many events take more than one message.
    run(0, *NODES, "--timeline", path("many.json"), "--no-shm", "-n", "2", RAW, "gather", "3000")
    for i in range(2):
        row = read_trace("many.json")[1][i, f"rank {i}"]
        check(len(named(row, "Allgather")) == 3000, f"rank {i} was in {len(named(row, 'Allgather'))} Allgathers, not 3000")
    err = run(253, "--hosts", "nowhere", "--launch-agent", "false", "--timeline", path("lost.json"), RAW, "pgf")
    rows = read_trace("lost.json")[1]
    check(rows[0, "agent"]["marks"] == ["is lost"] and len(rows) == 1, f"a host that does not answer ({err}): {rows}")


def killed(name, *args):
    """A job that is ended from outside while its ranks wait."""
    ranks = [path("up0"), path("up1")]
    script = f': > "{folder}/up$PMI_RANK"; exec sleep 1000'
    job = subprocess.Popen([PMIRUN, *args, "--timeline", path(name), "-n", "2", "sh", "-c", script], stdin=subprocess.DEVNULL)
    try:
        soon(lambda: all(os.path.exists(r) for r in ranks), f"{name}: the ranks do not start")
        job.send_signal(signal.SIGTERM)
        check(job.wait(LIMIT) == 128 + signal.SIGTERM, f"{name}: status {job.returncode}")
    finally:
        job.kill()
        job.wait()
    for r in ranks:
        os.unlink(r)


def ends():
    """Jobs that do not start, or end badly; files that cannot be written."""
    for args in ([], NODES):
        killed("killed.json", *args)
        rows = read_trace("killed.json")[1]
        ranks = [rows[k] for k in rows if k[1].startswith("rank")]
        check([r["marks"] for r in ranks] == [["died of signal 15"]] * 2, f"killed: {rows}")
        run(137, *args, "--timeline", path("died.json"), "-n", "2", RAW, "die", "9", "inited")
        rows = read_trace("died.json")[1]
        marks = [m for r in rows.values() for m in r["marks"]]
        check("died of signal 9" in marks, f"died: {marks}")
    run(127, "--timeline", path("none.json"), "no-such-program")
    about, rows = read_trace("none.json")
    check("pmirun gave up" in about and not rows, f"a program that is not there: {about} {rows}")
    err = run(2, "--timeline", path("x.png"), RAW, "pgf")
    check(f'--timeline wants a file NAME.json, not "{path("x.png")}"' in err, err)
    err = run(2, "--timeline", path("x.svg"), RAW, "pgf")
    check(f'--timeline no longer draws {path("x.svg")}: use a file NAME.json, which Perfetto and chrome://tracing draw' in err, err)
    err = run(252, "--timeline", path("no/x.json"), RAW, "pgf")
    check(f"--timeline: cannot write {path('no/x.json')}: No such file or directory" in err, err)
    os.symlink("/dev/full", path("full.json"))
    err = run(252, "--timeline", path("full.json"), RAW, "pgf")
    check(f"--timeline: cannot write {path('full.json')}: No space left on device" in err, err)


def limit():
    """PROGRAM has room for 16 events, and twice as many that are no collective's."""
    for args in ([], NODES):
        err = run(0, *args, "--timeline", path("few.json"), "--no-shm", "-n", "2", RAW, "gather", "20", program=sys.argv[4])
        check(err.count("--timeline: 16 events recorded, the limit: later collectives are left out") == 1, err)
        about, rows = read_trace("few.json")
        check("events are left out" in about, about)
        colls = sum(len(named(r, "Allgather")) for r in rows.values())
        check(0 < colls < 16, f"{colls} Allgathers")
        check(all(r["marks"] for r in rows.values()), f"how ranks end is not recorded: {rows}")
    err = run(0, "--timeline", path("few.json"), "-n", "20", RAW, "pgf", program=sys.argv[4])
    check(err.count("--timeline: 32 events recorded, the limit: later events are left out") == 1, err)


def pmix():
    """PROGRAM is a PMIx client, whose fences are seen on one node and over two."""
    for n_nodes, args in ((1, []), (2, NODES)):
        job = [*args, "--mpi", "pmix", "-n", "4", sys.argv[4], "names"]
        run(0, "--timeline", path("pmix.json"), *job)
        rows = read_trace("pmix.json")[1]
        for i in range(4):
            row = rows[i * n_nodes // 4, f"rank {i}"]
            check(named(row, "init to finalize") and named(row, "fence"), f"rank {i} of {n_nodes} nodes: {row}")


# ---- statistics ----


def stats():
    err = run(0, "--stats=json", "-n", "2", RAW, "pgf")
    check(json.loads(err)["processes"] == 2, err)
    check(json.loads(run(0, "--stats", "-n", "2", RAW, "pgf")).keys() == json.loads(err).keys(), "--stats is --stats=json")
    for args in ([], NODES):
        err = run(0, *args, "--stats=table", "-n", "2", RAW, "pgf")
        check(re.match(r"pmirun: status 0, 2 processes, 1 job; --mpi pmi \(no program names .*\)\n", err), err)
        for what in ("launch", "init", "finalize"):
            check(re.search(rf"^  {what} +[0-9]+\.[0-9]{{3}} +[0-9]+\.[0-9]{{3}}$", err, re.M), f"{what}: {err}")
        check(re.search(r"^  puts +2$", err, re.M) and re.search(r"^  PMI messages +[0-9]+   bad 0$", err, re.M), err)
    err = run(7, "--stats=table", "-n", "1", "sh", "-c", "exit 7")
    check(re.search(r"^  init +- +-$", err, re.M), err)
    check('--stats wants json or table, not "xml"' in run(2, "--stats=xml", RAW, "pgf"), "--stats=xml")


# ---- progress ----


class Screen:
    """The part of a terminal that the bar and lines need: it checks that no print overwrites a line's text."""

    def __init__(self):
        self.lines, self.line, self.bar, self.bars = [], "", "", []

    def feed(self, text):
        for part in re.findall(r"\r\x1b\[K(?:[^\r\n]*finalized of [0-9]+)?|\r?\n|[^\r\n]+|\r", text):
            if part.startswith("\r\x1b"):
                check(not self.line, f"the bar is drawn over \"{self.line}\"")
                self.bar = part[4:]
                if self.bar:
                    self.bars.append(self.bar)
            elif part in ("\n", "\r\n"):
                check(not self.bar, f"a line ends behind the bar {self.bar}")
                self.lines.append(self.line)
                self.line = ""
            else:
                check(not self.bar, f"\"{part}\" is printed behind the bar {self.bar}")
                self.line += part


def on_terminal(columns, on_text, *args):
    """pmirun on a terminal: returns its status and the screen. Calls on_text(all output so far) while it runs."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.execv(PMIRUN, [PMIRUN, *args])
    end, text, open_yet = time.monotonic() + LIMIT, "", True
    while open_yet and time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                text += os.read(fd, 65536).decode("ascii")
            except OSError:  # no process has it open any more
                open_yet = False
            on_text(text)
    if open_yet:
        os.kill(pid, signal.SIGKILL)
        check(False, f"{args}: does not end")
    os.close(fd)
    screen = Screen()
    screen.feed(text)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), screen


def progress():
    def ready_at(what):
        def on_text(text):
            if what in text:
                open(path("seen"), "w").close()  # for which the ranks wait

        return on_text

    script = f'echo "line of $PMI_RANK"; while [ ! -e "{path("seen")}" ]; do sleep 0.05; done; echo "and $PMI_RANK"'
    for args in ([], NODES):
        status, screen = on_terminal(80, ready_at("3 started"), *args, "--progress", "-n", "3", "sh", "-c", script)
        check(status == 0, f"on a terminal: status {status}")
        want = sorted(f"{w} {i}" for w in ("line of", "and") for i in range(3))
        check(sorted(screen.lines) == want, f"on a terminal: {screen.lines}")
        check(screen.line == screen.bar == "", f"left behind: {screen.line} {screen.bar}")
        bar = [b for b in screen.bars if "3 started" in b]
        check(bar and re.fullmatch(r"\[-+\] 3 started, 0 initialized, 0 finalized of 3", bar[0]), f"bars: {screen.bars[:5]}")
        os.unlink(path("seen"))
    # A narrow terminal shows no bar, and no line wraps. Ranks that speak PMI are counted.
    script = f'"{RAW}" pgf; while [ ! -e "{path("seen")}" ]; do sleep 0.05; done'
    status, screen = on_terminal(48, ready_at("2 finalized"), "--progress", "-n", "2", "sh", "-c", script)
    check(status == 0, f"on a narrow terminal: status {status}")
    check("2 started, 2 initialized, 2 finalized of 2" in screen.bars, f"on a narrow terminal: {screen.bars}")
    # A prompt with the cursor behind it stays unchanged.
    script = "printf 'a prompt: '; sleep 1; echo; echo end"
    status, screen = on_terminal(80, lambda text: None, "--progress", "sh", "-c", script)
    check(status == 0 and screen.lines == ["a prompt: ", "end"], f"a prompt: {status} {screen.lines}")
    # Without a terminal nothing is shown.
    check(run(0, "--progress", "-n", "2", RAW, "pgf") == "", "--progress without a terminal")
    status, screen = on_terminal(80, lambda text: None, "--progress", "no-such-program")
    check(status == 127 and len(screen.lines) == 1 and not screen.bars, f"no program: {status} {screen.lines}")


try:
    {"one": one, "nodes": nodes, "ends": ends, "limit": limit, "pmix": pmix, "stats": stats, "progress": progress}[GROUP]()
finally:
    shutil.rmtree(folder)
sys.exit(failed)
