# SPDX-License-Identifier: BSD-3-Clause
"""A chart of the report, as SVG whose colours the page defines, and a sentence with its result.

A chart has the figures of one metric: curves over n with three sizes or more, else bars at the largest size. The contestant determines the
colour, so that a peer has one colour on the whole page.
"""
import math
import os
import re
import sys
from html import escape

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "pictures"))
from canvas import COLORS, spread, width_of  # noqa: E402

COLORS = {name: pair for name, pair in COLORS.items() if not name.endswith("-tint")}
COLORS.update({"teal": ("#0b7285", "#39c5cf"), "brown": ("#7d4e00", "#d4a72c"), "pink": ("#bf3989", "#f778ba")})

# colour, who, and who they are; the first that matches. Of one colour in one chart the first is drawn solid, the next ones dashed or pale.
FAMILIES = (
    ("blue", r"ours|pmirun|asymreg$|libpmiwire", "Fencepost's libraries and pmirun"),
    ("orange", r"mpiexec\.hydra|hydra|ch4|MPICH main", "MPICH 4.0: its launcher mpiexec.hydra, its rank maps"),
    ("purple", r"srun|slurm", "Slurm 22.05: srun with its PMI-2 and PMIx plugins"),
    ("green", r"mpirun|openmpi|Open MPI", "Open MPI 4.1: mpirun with its PMIx server, its sparse groups"),
    ("red", r"SHMEM-|VC-VCRT|VCRT|AV-Rankmap|switch", "the designs of the papers, and those that the papers compare with, built as described"),
    ("teal", r"absl::", "Abseil's containers"),
    ("brown", r"std::|uthash|GHashTable|ck_ht|red-black|sorted array|binary search|strtok", "textbook containers and parsers"),
    ("pink", r"LMDB|tinycdb|pgtable|UCC", "LMDB and tinycdb; UCX's page table, UCC's rank maps"),
    ("soft", r"raw|memcpy|read$|mmap|msync|write\+fsync|posix_spawn|store$|one handle|(2S )?MPI I/O|memory$|copies",
     "without us: the kernel, libc or MPI alone, a bare access, a plain window"),
)
DASHES = ("", "7 4", "2 3", "10 3 2 3")
PALENESS = (1, 0.65, 0.4, 0.25)
WIDTH = 640
TIMES = (("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9))
SIZES = (("B", 1), ("kB", 1024), ("MB", 1024 ** 2), ("GB", 1024 ** 3))
MORE_IS_BETTER = re.compile(r"/s$|^Gets$")
MOST_SERIES = 10


def color_of(who, mine=None):
    """The family's colour, or None for an unknown one."""
    if mine and re.match(mine, who):
        return "blue"
    return next((color for color, pattern, _ in FAMILIES if re.match(pattern, who)), None)


def number(value):
    """Three significant digits, thousands separated."""
    if value == 0 or 0.001 <= abs(value) < 1e12:
        digits = 0 if value == 0 or abs(value) >= 100 else 2 - math.floor(math.log10(abs(value)))
        text = f"{value:,.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.3g}"


def count(n):
    return f"{n / 1e6:.3g}M" if n >= 1e6 else f"{n / 1e3:.3g}K" if n >= 1e4 or n and n % 1000 == 0 else f"{n:,g}"


def octets(n):
    for size, letter in ((2 ** 30, "GiB"), (2 ** 20, "MiB"), (2 ** 10, "KiB")):
        if n >= size:
            return f"{n / size:.3g} {letter}"
    return f"{n} B"


def scaled(unit, values):
    """The largest unit in which the values' geometric middle is at least 1, and what to divide by."""
    unit = {"bytes": "B"}.get(unit, unit)
    for scale in (TIMES, SIZES):
        base = dict(scale).get(unit)
        if base:
            sizes = [abs(v) for v in values if v] or [1]
            middle = math.sqrt(min(sizes)) * math.sqrt(max(sizes)) * base
            unit, size = next((entry for entry in reversed(scale) if middle >= entry[1]), scale[0])
            return unit.replace("us", "µs"), size / base
    return unit, 1


def said(value, unit):
    """A value in its own best unit."""
    best, scale = scaled(unit, (value,))
    return f"{number(value / scale)} {best}"


def room_of(words, size=13):
    """The width of words in the widest usual font."""
    return 1.15 * width_of(words, size)


class Series:
    def __init__(self, who, label, points, color, turn):
        self.who, self.label, self.points, self.color = who, label, points, color
        self.dash, self.paleness = DASHES[turn % 4], PALENESS[turn % 4]

    def stroke(self):
        dash = f' stroke-dasharray="{self.dash}"' if self.dash else ""
        return f'style="stroke:var(--{self.color})"{dash}'

    def fill(self):
        return f'style="fill:var(--{self.color});fill-opacity:{self.paleness}"'


def select(spec, figures):
    """The chart's figures; with `sizes` their case is a size."""
    cases = spec["case"] if isinstance(spec["case"], dict) else (spec["case"],)
    found = [f for f in figures if f["bench"] == spec["bench"] and f["metric"] == spec["metric"] and f["who"] in spec.get("who", (f["who"],))]
    if "sizes" not in spec:
        return [f for f in found if f["case"] in cases]
    found = [(re.fullmatch(spec["sizes"], f["case"]), f) for f in found]
    largest = max((f["n"] for match, f in found if match), default=0)
    return [dict(f, case=spec["case"], n=int(match[1])) for match, f in found if match and f["n"] == largest]


class Chart:
    """spec: title, bench, metric, and case, a name or a dictionary of names and what the reader reads;
    sizes, a pattern of cases that differ in a number, which then stands for n (case is their common name);
    x, what n counts ("bytes" is shown as KiB); ours, the displayed name of "ours"; who, a dictionary of the shown contestants, in order,
    with displayed names (default: all); mine, a pattern of further names that are ours; bars, to draw no curves."""

    def __init__(self, spec, figures):
        self.spec = spec
        cases = spec["case"] if isinstance(spec["case"], dict) else {spec["case"]: ""}
        found = select(spec, figures)
        shown = spec.get("who")
        names = list(dict.fromkeys(f["who"] for f in found))
        names = [w for w in shown if w in names] if shown else sorted(names, key=lambda w: color_of(w, spec.get("mine")) != "blue")
        self.cases = {case: words for case, words in cases.items() if any(f["case"] == case for f in found)}
        self.n = sorted({f["n"] for f in found})
        self.empty = not found
        if self.empty:
            return
        self.raw = found[0]["unit"]
        self.unit, self.scale = scaled(self.raw, [f["value"] for f in found])
        self.series, turns, spare = [], {}, [c for c in ("green", "teal", "brown", "pink", "red", "purple", "orange")]
        taken = {color_of(w, spec.get("mine")) for w in names}
        for who in names[:MOST_SERIES]:
            color = color_of(who, spec.get("mine"))
            if not color:
                color = next((c for c in spare if c not in taken), "soft")
                taken.add(color)
            turn = turns[color] = turns.get(color, -1) + 1
            points = {(f["case"], f["n"]): f["value"] / self.scale for f in found if f["who"] == who}
            self.series.append(Series(who, self.label(who), points, color, turn))
        self.curves = len(self.n) >= 3 and len(self.cases) == 1 and not spec.get("bars")

    def label(self, who):
        shown = self.spec.get("who") or {}
        return shown.get(who) or re.sub(r"\bours\b", self.spec.get("ours", "ours"), who)

    def size(self, n):
        x = self.spec.get("x", "")
        return octets(n) if x == "bytes" else f"{count(n)} {x}"

    def answer(self):
        """Ours against the best peer at the largest size that both have, as a value, a sentence's end and a verdict; None without a
        peer."""
        better = max if MORE_IS_BETTER.search(self.unit) else min
        ours = next((s for s in self.series if s.color == "blue"), None)
        if not ours:
            return None
        case, n = max(ours.points, key=lambda p: (p[1], -list(self.cases).index(p[0])))
        peers = [s for s in self.series if s.color not in ("blue", "soft") and (case, n) in s.points]
        peers = peers or [s for s in self.series if s.color == "soft" and (case, n) in s.points]
        mine = ours.points[case, n]
        where = ", ".join(filter(None, (self.cases[case], self.size(n) if self.spec.get("x") else "")))
        first = said(mine * self.scale, self.raw), f"{ours.label}, {where}" if where else ours.label
        peers = [s for s in peers if s.points[case, n] > 0]  # 0 has no ratio
        if not peers or mine <= 0:
            return first + ("",)
        peer = better(peers, key=lambda s: s.points[case, n])
        ratio = mine / peer.points[case, n]
        if better is max:
            ratio = 1 / ratio
        kind = ("faster", "slower", "as fast as") if self.raw in dict(TIMES) else \
            ("more", "less", "as much as") if better is max else ("smaller", "larger", "as large as")
        verdict = f"{number(1 / ratio)}× {kind[0]} than" if ratio < 0.95 else f"{number(ratio)}× {kind[1]} than" if ratio > 1.05 else kind[2]
        return first + (f"{verdict} {peer.label} ({said(peer.points[case, n] * self.scale, self.raw)})",)

    def svg(self):
        out = self.lines() if self.curves else self.bars()
        words = " ".join(filter(None, (self.spec["title"] + ".", "; ".join(
            f"{s.label}: {number(list(s.points.values())[-1])} {self.unit}" for s in self.series))))
        return (f'<svg viewBox="0 0 {WIDTH} {self.height:.0f}" role="img" aria-label="{escape(words)}">' + "".join(out) + "</svg>")

    # ------------------------------------------------------------ drawing

    @staticmethod
    def text(x, y, words, anchor="start", color="ink", room=None, small=False):
        size = 12 if small else 13
        while room and len(words) > 4 and room_of(words, size) > room:
            words = words.rstrip("…")[:-1] + "…"
        return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" style="fill:var(--{color})">'
                f"{escape(words)}</text>")

    @staticmethod
    def rule(x0, y0, x1, y1, color="rule"):
        return f'<path d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}" style="stroke:var(--{color})"/>'

    def axis(self, values):
        """From a value to a height between 0 and 1, and the ticks: logarithmic where the values differ eightfold."""
        low, high = min(values), max(values)
        if low > 0 and high / low >= 8:
            steps = [s * 10.0 ** e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for s in (1, 2, 5)]
            bottom, top = max(s for s in steps if s <= low * 1.0001), min(s for s in steps if s >= high * 0.9999)
            ticks = [s for s in steps if bottom <= s <= top and (top / bottom < 100 or math.log10(s) % 1 in (0, 1))]
            return (lambda v: math.log(v / bottom) / math.log(top / bottom)), ticks
        low = min(low, 0)
        step = 10.0 ** math.floor(math.log10((high - low) or 1))
        step = next(s for s in (step / 5, step / 2, step, 2 * step) if (high - low) / s <= 6)
        bottom, top = math.floor(low / step) * step, math.ceil((high / step) - 1e-9) * step or 1
        return (lambda v: (v - bottom) / (top - bottom)), [bottom + i * step for i in range(round((top - bottom) / step) + 1)]

    def lines(self):
        ends = [f"{s.label}: {number(s.points[max(s.points)])}" for s in self.series]
        room = min(max(room_of(e) for e in ends), 280) + 14
        self.height = max(320, 60 + 18 * len(ends))
        x0, y0, x1, y1 = 62, 30, WIDTH - room, self.height - 44
        values = [v for s in self.series for v in s.points.values()]
        up, ticks = self.axis(values)
        wide = self.n[0] > 0 and self.n[-1] / self.n[0] >= 4
        left, right = (math.log(self.n[0]), math.log(self.n[-1])) if wide else (self.n[0], self.n[-1])

        def at(n, value):
            return x0 + ((math.log(n) if wide else n) - left) / (right - left) * (x1 - x0), y1 - up(value) * (y1 - y0)

        out = [self.text(4, 14, self.unit + (", logarithmic" if min(values) > 0 and max(values) / min(values) >= 8 else ""), color="soft", small=True)]
        for tick in ticks:
            y = y1 - up(tick) * (y1 - y0)
            out += [self.rule(x0, y, x1, y), self.text(x0 - 8, y + 4, number(tick), "end", "soft", small=True)]
        last = -100.0
        for n in self.n:
            x, words = at(n, values[0])[0], octets(n) if self.spec.get("x") == "bytes" else count(n)
            if x - last >= width_of(words, 12) + 8:
                out += [self.rule(x, y1, x, y1 + 4, "soft"), self.text(x, y1 + 18, words, "middle", "soft", small=True)]
                last = x
        out.append(self.text((x0 + x1) / 2, y1 + 38, self.spec.get("x", "n"), "middle", "soft"))
        places = spread([at(*self.end(s))[1] for s in self.series], 17)
        over = max(0, max(places) + 8 - self.height)
        for s, words, y in reversed(list(zip(self.series, ends, places))): # ours are drawn last, above the others
            path = [at(n, v) for (_, n), v in sorted(s.points.items(), key=lambda p: p[0][1])]
            out.append(f'<path fill="none" stroke-width="{3 if s.color == "blue" and not s.dash else 2}" {s.stroke()} '
                       f'd="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in path)}"/>')
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" style="fill:var(--{s.color})"/>' for x, y in path]
            out.append(self.text(x1 + 10, y + 4 - over, words, color=s.color, room=room - 13))
        return out

    @staticmethod
    def end(series):
        point = max(series.points, key=lambda p: p[1])
        return point[1], series.points[point]

    def bars(self):
        rows = []
        for case, words in self.cases.items():
            n = max(n for s in self.series for c, n in s.points if c == case)
            mine = [(s.label, s.points[case, n], s) for s in self.series if (case, n) in s.points]
            head = words or (self.size(n) if self.spec.get("x") else "")
            rows += ([(head, None, None)] if head else []) + mine
        x0 = min(max(room_of(label) for label, value, s in rows if s), 240) + 14
        x1 = WIDTH - 16 - max(room_of(number(value)) for _, value, s in rows if s)
        low = min(0, min(value for _, value, s in rows if s))
        top = max(0, max(value for _, value, s in rows if s)) or (0 if low else 1)
        out, y = [self.text(4, 14, self.unit, color="soft", small=True)], 22
        for label, value, s in rows:
            if not s:
                out.append(self.text(4, y + 20, label, color="soft"))
                y += 28
                continue
            zero, tip = (x0 + (v - low) / (top - low) * (x1 - x0) for v in (0, value))
            out.append(self.text(x0 - 8, y + 15, label, "end", room=x0 - 12))
            out.append(f'<rect x="{min(zero, tip):.1f}" y="{y + 3}" width="{max(abs(tip - zero), 1):.1f}" height="15" rx="2" {s.fill()}/>')
            out.append(self.text(max(zero, tip) + 6, y + 15, number(value)))
            y += 21
        self.height = y + 10
        return out
