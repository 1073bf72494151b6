#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_page.py: makes pages of small runs and reads them: sections, tiles, goals, colours, charts inside their frame, hostile names, states."""
import contextlib
import glob
import html.parser
import io
import json
import os
import re
import sys
import tempfile
import xml.dom.minidom

sys.dont_write_bytecode = True
import chart  # noqa: E402
import check  # noqa: E402
import page as report  # noqa: E402
from questions import QUESTIONS  # noqa: E402

VOID = ("meta", "br")


class Reader(html.parser.HTMLParser):
    """Every element is closed in its turn; ids are unique; each link within the page has its target."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.targets = [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        if attrs.get("href", "").startswith("#"):
            self.targets.append(attrs["href"][1:])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"


def figure(bench, case, n, who, metric, value, unit="ns"):
    return json.dumps({"bench": bench, "case": case, "n": n, "who": who, "metric": metric, "value": value, "unit": unit})


def make(files, status=0, machine="processor\tA & B\ncores\t2 of 2\nrun\tfull size\n"):
    """The page of a run with these files in data/, and what page.py printed."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/data")
        for name, text in {"machine.tsv": machine, **files}.items():
            with open(f"{folder}/data/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        with open(folder + "/goals", "w", encoding="utf-8") as file:
            file.write("# none\nshmht_get|hit|1000000|ns_per_get|ours|LMDB|<= 0.5\nshmht_get|hit|1000|ns_per_get|ours||<= 3\nother|x|1|y|ours||>= 1\n")
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()) as error:
            assert report.main([folder, folder + "/goals"]) == status, (said.getvalue(), error.getvalue())
        if status:
            return error.getvalue(), ""
        with open(folder + "/index.html", encoding="utf-8") as file:
            return file.read(), said.getvalue()


def check_charts(page):
    """The page's charts are XML, and nothing is drawn outside of their frames."""
    charts = re.findall(r"<svg .*?</svg>", page, re.S)
    for text in charts:
        svg = xml.dom.minidom.parseString(text).documentElement
        width, height = map(float, svg.getAttribute("viewBox").split()[2:])
        for x, y in re.findall(r'(?:x|cx)="(-?[\d.]+)" (?:y|cy)="(-?[\d.]+)"', text):
            assert 0 <= float(x) <= width and 0 <= float(y) <= height, (x, y, text[:300])
        for words in svg.getElementsByTagName("text"):
            right = float(words.getAttribute("x")) + (chart.width_of(words.firstChild.data, int(words.getAttribute("font-size")))
                                                      if words.getAttribute("text-anchor") == "start" else 0)
            assert right <= width + 1, (right, words.firstChild.data)
    return charts


def read(page):
    reader = Reader()
    reader.feed(page)
    assert not reader.open, reader.open
    assert len(set(reader.ids)) == len(reader.ids), reader.ids
    assert set(reader.targets) <= set(reader.ids), set(reader.targets) - set(reader.ids)
    assert not re.search(r'(src|href|action)="(?!#)', page), "the page asks for something elsewhere"
    return reader


def whole():
    """Each chart of questions.py is drawn from figures of its names, curves as well as bars, with values over twelve decades."""
    figures = []
    for question in QUESTIONS:
        for spec in question["charts"]:
            for i, who in enumerate(list(spec.get("who") or ("ours", "raw", "a peer that nobody knows, with a name as long as this one"))):
                for case in spec["case"] if isinstance(spec["case"], dict) else (spec["case"],):
                    for n in (1, 64, 4096, 10 ** 6):
                        names = (case, n) if "sizes" not in spec else (spec["sizes"].replace(r"(\d+)", str(n)), 7)
                        figures.append(figure(spec["bench"], *names, who, spec["metric"], 10.0 ** (i % 4 * 4 - 3) * (n + i)))
    page, said = make({"all.json": "\n".join(figures), "all.command": "run <all> & more\n", "other.failed": "status 1: <b>why</b>\n",
                       "left.skipped": "needs gnuplot\n"})
    reader = read(page)
    assert said == "", said
    for question in QUESTIONS:
        assert question["id"] in reader.ids and f'class="tile" href="#{question["id"]}"' in page, question["id"]
    charts = check_charts(page)
    assert len(charts) == sum(len(q["charts"]) for q in QUESTIONS), len(charts)
    assert "failed: status 1: &lt;b&gt;why&lt;/b&gt;" in page and "skipped: needs gnuplot" in page
    assert "run &lt;all&gt; &amp; more" in page and "A &amp; B" in page
    assert "@media print" in page and page.count("--paper:#0d1117") == 2 and page.count("--paper:#ffffff") == 1


def figures_and_goals():
    rows = [figure("shmht_get", "hit", n, who, "ns_per_get", value) for n, who, value in (
        (1000, "ours", 5.0), (1000, "LMDB", 100.0), (1000000, "ours", 40.0), (1000000, "LMDB", 20.0), (1000000, "absl::flat_hash_map", 400.0))]
    page, said = make({"bench_shmht_get.json": "\n".join(rows)})
    read(page)
    assert "no figures for shmht_get: A key that is absent" in said and "pmibench" not in said, said
    assert "0 met, 2 missed, 1 not judged in this run" in page
    # The best peer counts, not the first; and two sizes are bars at the larger one.
    assert "<b>40 ns</b>: libshmht, 1M pairs, 2× slower than LMDB (20 ns). " in page, re.findall("<figcaption>.*", page)
    (svg,) = check_charts(page)
    assert svg.count("<rect ") == 3 and re.findall(r"fill:var\(--(\w+)\);fill-op", svg) == ["blue", "teal", "pink"], svg
    page, _ = make({"bench_shmht_get.json": "\n".join(rows)}, machine="run\tquick: a try\n")
    assert "3 not judged" in page and "0 met, 0 missed" in page and "not to be trusted" in page


def hostile():
    """Names and values as no benchmark prints them: each is text, and nothing is divided by zero."""
    evil = "</script><script>alert(1)</script>"
    rows = [figure("launch", "job", n, who, "whole_job", value, "ms") for n, value in ((0, 0), (1, -1), (5, 1e300), (7, 1e-300)) for who in ("ours", evil)]
    page, _ = make({"bench_launch.json": "\n".join(rows), evil.replace("/", "") + ".skipped": "x"})
    assert "alert(1)</script>" not in page and page.count("<script>") == 1
    check_charts(page)
    for value in (0, 1, -3):
        check_charts(make({"bench_launch.json": figure("launch", "job", 4, "ours", "whole_job", value, "ms")})[0])
        check_charts(make({"bench_launch.json": figure("launch", "job", 4, "ours", "whole_job", 5, "ms") + "\n" +
                           figure("launch", "job", 4, "mpiexec.hydra", "whole_job", value, "ms")})[0])
    assert "<evil>" not in make({"bench_launch.json": figure("launch", "job", 4, "ours", "whole_job", 5, "<evil>")})[0]
    assert "no figures in" in make({"empty.json": ""}, status=1)[0]
    assert "no figures in" in make({}, status=1)[0]


def colors():
    """A peer has one colour everywhere, and a chart's own palette has only colours that the page defines."""
    assert chart.color_of("mpiexec.hydra") == chart.color_of("hydra") == "orange" != chart.color_of("srun Ring")
    assert chart.color_of("SHMEM-2/XXH3") == "red" and chart.color_of("storage") is None and chart.color_of("storage", "storage") == "blue"
    assert {color for color, _, _ in chart.FAMILIES} <= set(chart.COLORS)


def documents():
    """A run with every figure of the documents agrees with them; one whose figure is twice as large, or that has none, does not."""
    kept = [f for path in sorted(glob.glob(os.path.join(check.here, "..", "pictures", "figures", "*.json"))) for f in check.read(path)]
    for factor, last in ((1, "0 differ"), (2, "1 differ")):
        rows = []
        for i, f in enumerate(kept):
            case, n, who, metric, base = check.wanted(f)
            value = f["value"] * (factor if i == 0 else 1)
            rows += [figure(f["bench"], case, n or 7, base, metric, 100), figure(f["bench"], case, n or 7, who, metric, 100 / value)] if base else [
                figure(f["bench"], case, n or 7, who, metric, value)]
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(folder + "/data")
            with open(folder + "/data/all.json", "w", encoding="utf-8") as file:
                file.write("\n".join(rows))
            with contextlib.redirect_stdout(io.StringIO()) as said:
                assert check.main([folder]) == factor - 1, said.getvalue()
            assert f"{len(kept)} figures compared, {last}" in said.getvalue() and "lacks 0" in said.getvalue(), said.getvalue()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        assert check.main([folder]) == 1


for test in (whole, figures_and_goals, hostile, colors, documents):
    test()
    print("ok", test.__name__)
