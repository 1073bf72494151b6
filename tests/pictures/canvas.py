# SPDX-License-Identifier: BSD-3-Clause
"""Pictures as SVG: boxes, arrows and grids, and charts of JSON lines; each readable in light and in dark.

The same input gives the same bytes, so that a test can compare. A text that does not fit its box or the picture is an
error, so pictures need no inspection for cut words.
"""
import json
import math
from xml.sax.saxutils import escape, quoteattr

COLORS = {  # name: light, dark; tints fill boxes, the others draw lines and words
    "paper": ("#ffffff", "#0d1117"), "ink": ("#24292f", "#e6edf3"), "soft": ("#57606a", "#9198a1"),
    "rule": ("#d0d7de", "#30363d"), "blue": ("#0969da", "#4493f8"), "orange": ("#bc4c00", "#f0883e"),
    "green": ("#1a7f37", "#3fb950"), "purple": ("#8250df", "#bc8cff"), "red": ("#cf222e", "#ff7b72"),
    "blue-tint": ("#ddf4ff", "#12304f"), "orange-tint": ("#fff1e5", "#4a2a10"), "green-tint": ("#dafbe1", "#14391f"),
    "purple-tint": ("#fbefff", "#35204f"), "gray-tint": ("#f6f8fa", "#1c2128"),
}
OURS = ("blue", "green")  # the same in each chart, so that a reader finds ours quickly; the last name is blue
PEERS = ("orange", "purple", "soft", "red")
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"


def style():
    def rules(i):
        out = []
        for name, pair in COLORS.items():
            out.append(f".f-{name}{{fill:{pair[i]}}}.s-{name}{{stroke:{pair[i]}}}")
        return "".join(out)
    return f"<style>{rules(0)}@media (prefers-color-scheme:dark){{{rules(1)}}}</style>"


def width_of(text, size):
    """An upper estimate for Helvetica and similar fonts."""
    narrow = sum(c in "iljtfrI.,:;'|!()[] " for c in text)
    return size * (0.36 * narrow + 0.60 * (len(text) - narrow))


class Picture:
    def __init__(self, width, height, title, description):
        self.width, self.height = width, height
        self.out = [f"<title>{escape(title)}</title>", f"<desc>{escape(description)}</desc>", style(),
                    f'<rect class="f-paper s-rule" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>']
        self.text(16, 28, title, size=16, bold=True)

    def add(self, element):
        self.out.append(element)

    def text(self, x, y, words, size=13, anchor="start", color="ink", bold=False, room=None):
        """One line of words. `room`: its available width; default: the picture's."""
        width = width_of(words, size)
        left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
        if left < 4 or left + width > self.width - 4 or room is not None and width > room or y > self.height - 4:
            raise ValueError(f"no room for {words!r}: {width:.0f} wide at {x}, {y}")
        weight = ' font-weight="600"' if bold else ""
        self.add(f'<text class="f-{color}" x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"{weight}>{escape(words)}</text>')

    def box(self, x, y, w, h, lines=(), tint="gray", edge=None, size=13, dash=False, top=False):
        """A rectangle with lines of words in its middle (or from its top), the first one bold."""
        if x < 4 or y < 4 or x + w > self.width - 4 or y + h > self.height - 4:
            raise ValueError(f"the box {lines} leaves the picture")
        dashed = ' stroke-dasharray="5 4"' if dash else ""
        self.add(f'<rect class="f-{tint}-tint s-{edge or "soft"}" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6"{dashed}/>')
        step = size + 5
        first = y + step + 2 if top else y + h / 2 - step * (len(lines) - 1) / 2 + size / 3
        if first + step * (len(lines) - 1) > y + h:
            raise ValueError(f"the box of {lines} is too low")
        for i, line in enumerate(lines):
            self.text(x + w / 2, first + i * step, line, size, "middle", bold=i == 0, room=w - 8)

    def line(self, points, color="ink", width=1.5, dash=False):
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashed = ' stroke-dasharray="6 4"' if dash else ""
        self.add(f'<polyline class="s-{color}" fill="none" stroke-width="{width}" points="{path}"{dashed}/>')

    def arrow(self, points, color="ink", dash=False, both=False):
        """A line with a head at its end, or at both ends."""
        ends = [(points[-2], points[-1])] + ([(points[1], points[0])] if both else [])
        self.line(points, color, dash=dash)
        for (x0, y0), (x, y) in ends:
            a = math.atan2(y - y0, x - x0)
            wings = [(x - 9 * math.cos(a + d), y - 9 * math.sin(a + d)) for d in (0.4, -0.4)]
            corners = " ".join(f"{px:.1f},{py:.1f}" for px, py in [(x, y)] + wings)
            self.add(f'<polygon class="f-{color}" points="{corners}"/>')

    def dot(self, x, y, color, radius=4):
        self.add(f'<circle class="f-{color}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>')

    def number(self, x, y, n, color="blue"):
        """A step's number in a disc."""
        self.dot(x, y, color, 10)
        self.text(x, y + 4.5, str(n), 12, "middle", "paper", bold=True)

    def svg(self):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
                f'viewBox="0 0 {self.width} {self.height}" role="img" font-family={quoteattr(FONT)}>')
        return "\n".join([head] + self.out + ["</svg>"]) + "\n"


# ---------------------------------------------------------------- charts of JSON lines

def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def short(number):
    """1000 as 1K; a value in its usual unit."""
    for size, letter in ((1e6, "M"), (1e3, "K")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def spread(places, gap):
    """Labels beside the ends of lines: as near as they can be, none over another."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    out = list(places)
    for before, now in zip(order, order[1:]):
        out[now] = max(out[now], out[before] + gap)
    return out


def lines(picture, area, figures, series, x_title, y_title):
    """Values against n, both logarithmic. `series`: pairs of the name in the figures and the name in the picture."""
    x0, y0, x1, y1 = area
    points = {who: sorted((f["n"], f["value"]) for f in figures if f["who"] == who) for who, _ in series}
    for who, found in points.items():
        if not found:
            raise ValueError(f"no figures of {who!r}")
    ns = sorted({n for found in points.values() for n, _ in found})
    values = [v for found in points.values() for _, v in found]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(0.98 * max(values)))
    is_ours = [who.startswith(("ours", "pmirun")) for who, _ in series]
    ours, peers = reversed(OURS[:sum(is_ours)]), iter(PEERS)

    def at(n, value):
        across = math.log(n / ns[0]) / math.log(ns[-1] / ns[0])
        return x0 + across * (x1 - x0), y1 - (math.log10(value) - low) / (high - low) * (y1 - y0)

    for power in range(low, high + 1):
        y = at(ns[0], 10.0 ** power)[1]
        picture.line([(x0, y), (x1, y)], "rule", 1)
        picture.text(x0 - 8, y + 4, short(10.0 ** power), 12, "end", "soft")
    for n in ns:
        x = at(n, values[0])[0]
        picture.line([(x, y1), (x, y1 + 4)], "soft", 1)
        picture.text(x, y1 + 18, short(n), 12, "middle", "soft")
    picture.text((x0 + x1) / 2, y1 + 38, x_title, 13, "middle", "soft")
    picture.text(x0 - 40, y0 - 12, y_title, 13, "start", "soft")
    ends = spread([at(*points[who][-1])[1] for who, _ in series], 17)
    for (who, name), y, mine in zip(series, ends, is_ours):
        color = next(ours if mine else peers)
        path = [at(n, v) for n, v in points[who]]
        picture.line([(round(px, 1), round(py, 1)) for px, py in path], color, 2)
        for px, py in path:
            picture.dot(px, py, color, 3)
        picture.text(path[-1][0] + 10, y + 4, f"{name}: {points[who][-1][1]:,g}", 13, "start", color)


def bars(picture, area, rows, unit, mark=None):
    """Horizontal bars: rows of (label, value, color). `mark`: a value with a line and a name through all of them."""
    x0, y0, x1, y1 = area
    top = max([value for _, value, _ in rows] + ([mark[0]] if mark else []))
    step = (y1 - y0) / len(rows)
    scale = (x1 - x0) / top
    for i, (label, value, color) in enumerate(rows):
        y = y0 + i * step
        picture.text(x0 - 10, y + step / 2 + 4, label, 13, "end")
        picture.add(f'<rect class="f-{color}" x="{x0:g}" y="{y + 4:g}" width="{value * scale:.1f}" height="{step - 8:g}" rx="2"/>')
        picture.text(x0 + value * scale + 8, y + step / 2 + 4, f"{value:g}{unit}", 13)
    if mark:
        x = x0 + mark[0] * scale
        picture.line([(x, y0 - 4), (x, y1 + 4)], "ink", 1, dash=True)
        picture.text(x, y1 + 20, mark[1], 12, "middle", "soft")
