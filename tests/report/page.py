#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""page.py FOLDER GOALS: makes FOLDER/index.html of FOLDER/data/: *.json, figures as the benchmarks print them; *.command, *.failed and
*.skipped beside them; and machine.tsv. `make`, whose head says more, calls it.

The page has the questions of questions.py with their charts, whether the goals are met, and each figure in a table. It is one file that loads nothing
from other hosts. Prints "no figures for" each chart that a benchmark of this run should have filled; the status is still 0.
"""
import glob
import json
import os
import sys
from html import escape

sys.dont_write_bytecode = True
import chart  # noqa: E402
from chart import Chart, count, number, select  # noqa: E402
from questions import QUESTIONS  # noqa: E402

MACHINE = ("processor", "cores", "governor", "memory", "kernel", "load at the start", "load at the end", "compiler", "build", "commit", "date",
           "run")


def slurp(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


class Run:
    """A run's files in a folder."""

    def __init__(self, folder):
        data = os.path.join(folder, "data")
        self.figures, self.state, self.commands = {}, {}, {}
        for path in sorted(glob.glob(glob.escape(data) + "/*.*")):
            name, kind = os.path.splitext(os.path.basename(path))
            if kind == ".json":
                self.figures[name] = [json.loads(line) for line in slurp(path).splitlines() if '"unit"' in line]
            elif kind in (".failed", ".skipped"):
                self.state[name] = (kind[1:], slurp(path).strip())
            elif kind == ".command":
                self.commands[name] = slurp(path).strip()
        self.machine = dict(line.split("\t", 1) for line in slurp(os.path.join(data, "machine.tsv")).splitlines() if "\t" in line)
        self.quick = self.machine.get("run", "").startswith("quick")
        self.all = [f for figures in self.figures.values() for f in figures]
        self.names = sorted({*self.figures, *self.state})

    def value(self, bench, case, n, metric, who):
        """The figure of that name whose n is nearest, within a tenth."""
        return next((f["value"] for f in self.all if (f["bench"], f["case"], f["metric"], f["who"]) == (bench, case, metric, who)
                     and abs(f["n"] - n) <= n / 10), None)

    def source(self, spec):
        """The run, as the page calls it, that has the chart's figures, or at least figures of its benchmark; None: it was left out."""
        mine = [name for name, figures in self.figures.items() if any(f["bench"] == spec["bench"] for f in figures)]
        return next((name for name in mine if select(spec, self.figures[name])), next(iter(mine), None))


# ---------------------------------------------------------------- tables

def table(head, rows, attributes=""):
    """Rows of cells; a cell is HTML already. The first of a row is its head."""
    return (f'<div class="wide"><table{attributes}><thead><tr>' + "".join(f"<th>{cell}</th>" for cell in head) + "</tr></thead><tbody>\n"
            + "\n".join(f"<tr><th>{row[0]}</th>" + "".join(cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in row[1:]) + "</tr>"
                        for row in rows) + "</tbody></table></div>\n")


def metric_table(metric, unit, figures):
    who = sorted(dict.fromkeys(f["who"] for f in figures), key=lambda w: chart.color_of(w) != "blue")
    values = {(f["case"], f["n"], f["who"]): f["value"] for f in figures}
    rows, before = [], None
    for case, n in dict.fromkeys((f["case"], f["n"]) for f in figures):
        cells = [number(values[case, n, w]) if (case, n, w) in values else "" for w in who]
        cells = [f'<td class="ours">{c}</td>' if chart.color_of(w) == "blue" else c for c, w in zip(cells, who)]
        rows.append(["" if case == before else escape(case), count(n)] + cells)
        before = case
    return (f"<h4>{escape(metric)}, {escape(unit)}</h4>\n" + table(["case", "n"] + [escape(w) for w in who], rows))


def bench_details(run, name):
    """Each figure of a benchmark, folded."""
    out = [f'<details class="bench" id="{escape(name)}"><summary>{escape(name)}']
    figures = run.figures.get(name, [])
    kind, why = run.state.get(name, ("", ""))
    if kind:
        out.append(f' <span class="{kind}">{kind}: {escape(why)}</span>')
    out.append(f" <small>{len(figures)} figures</small></summary>\n" if figures else "</summary>\n")
    if name in run.commands:
        out.append(f'<p class="command"><code>{escape(run.commands[name])}</code></p>\n')
    for metric, unit in dict.fromkeys((f["metric"], f["unit"]) for f in figures):
        out.append(metric_table(metric, unit, [f for f in figures if (f["metric"], f["unit"]) == (metric, unit)]))
    return "".join(out) + "</details>\n"


def goals(run, path):
    """The table of goals, and how many are met, missed and not judged."""
    rows, counts = [], {"met": 0, "missed": 0, "none": 0}
    for line in slurp(path).splitlines():
        if line.startswith("#") or "|" not in line:
            continue
        bench, case, n, metric, who, beside, goal = line.split("|")
        value = run.value(bench, case, float(n), metric, who)
        if beside:
            other = run.value(bench, case, float(n), metric, beside)
            value = value / other if value is not None and other else None
        relation, bound = goal.split(" ")
        if value is None:
            verdict, words = "none", "not in this run"
        elif run.quick and metric != "instructions":
            verdict, words = "none", "a quick run is not judged"
        else:
            verdict = words = "met" if (value <= float(bound) if relation == "<=" else value >= float(bound)) else "missed"
        counts[verdict] += 1
        rows.append([escape(f"{bench}, {case}: {metric}, {who}" + (f" / {beside}" if beside else "")), count(float(n)),
                     ("≤ " if relation == "<=" else "≥ ") + bound, "" if value is None else f"{value:.3g}", f'<td class="{verdict}">{words}</td>'])
    words = f"{counts['met']} met, {counts['missed']} missed" + (f", {counts['none']} not judged in this run" if counts["none"] else "")
    return table(["figure", "n", "goal", "here", ""], rows), words


# ---------------------------------------------------------------- the page

def question_section(run, question, missing):
    """The section, and the tile that stands for it at the top."""
    parts, tile = [], ""
    for spec in question["charts"]:
        drawn = Chart(spec, run.all)
        if drawn.empty:
            if run.source(spec):
                missing.append(f"{spec['bench']}: {spec['title']}")
            continue
        answer = drawn.answer()
        name = run.source(spec)
        words = ": ".join(filter(None, answer[1:])) if answer else ""
        caption = (f"<b>{escape(answer[0])}</b>: {escape(answer[1])}" + (f", {escape(answer[2])}" if answer[2] else "") + ". ") if answer else ""
        parts.append(f"<figure><h3>{escape(spec['title'])}</h3>\n{drawn.svg()}\n<figcaption>{caption}{escape(spec.get('note', ''))} "
                     f'<a href="#{escape(name)}">All figures of {escape(name)}</a></figcaption></figure>\n')
        if answer and not tile:
            tile = (f'<a class="tile" href="#{question["id"]}"><span>{escape(question["title"])}</span><b>{escape(answer[0])}</b>'
                    f"<small>{escape(words)}</small></a>\n")
    if not parts:
        return "", ""
    return (f'<section id="{question["id"]}"><h2>{escape(question["title"])}</h2>\n<p>{escape(question["text"])}</p>\n<div class="figures">'
            + "".join(parts) + "</div></section>\n"), tile


def legend():
    rows = [[f'<span class="swatch" style="background:var(--{color})"></span>{escape(what)}'] for color, _, what in chart.FAMILIES]
    return ('<section id="colours"><h2>Who is who?</h2>\n<p>A colour means the same on the whole page. Of several with one colour in a chart the first '
            'is drawn solid, the next ones dashed or pale.</p>\n<ul class="legend">' + "".join(f"<li>{row[0]}</li>" for row in rows) + "</ul></section>\n")


def variables(form):
    return "".join(f"--{name}:{pair[form]};" for name, pair in chart.COLORS.items())


STYLE = """
:root { color-scheme: light; LIGHT }
@media screen and (prefers-color-scheme: dark) { :root:not([data-form=light]) { color-scheme: dark; DARK } }
@media screen { :root[data-form=dark] { color-scheme: dark; DARK } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 84rem; padding: 1rem 1.2rem 3rem; font: 16px/1.5 system-ui, 'Liberation Sans', sans-serif; color: var(--ink); background: var(--paper); }
h1 { font-size: 1.7rem; margin: .2rem 0; } h2 { margin: 2.4rem 0 .2rem; font-size: 1.4rem; } h3 { margin: 0 0 .4rem; font-size: 1rem; }
h4 { margin: .8rem 0 .1rem; font-size: .9rem; } p { margin: .2rem 0 .6rem; max-width: 60rem; } small, .command, figcaption, header p { color: var(--soft); }
a { color: var(--blue); } .command { font-size: .8rem; overflow-wrap: anywhere; }
header { position: relative; padding-right: 6rem; } #form { position: absolute; top: .4rem; right: 0; font: inherit; font-size: .85rem; padding: .25rem .7rem;
    color: var(--ink); background: none; border: 1px solid var(--rule); border-radius: 6px; cursor: pointer; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: .7rem; margin: 1rem 0; }
.tile { display: flex; flex-direction: column; gap: .1rem; padding: .7rem .9rem; border: 1px solid var(--rule); border-radius: 8px; color: var(--ink); text-decoration: none; }
.tile:hover { border-color: var(--blue); } .tile b { font-size: 1.5rem; line-height: 1.2; color: var(--blue); } .tile span { font-weight: 600; } .tile small { line-height: 1.35; }
.figures { columns: 34rem; column-gap: 1rem; }
figure { margin: 0 0 1rem; break-inside: avoid; border: 1px solid var(--rule); border-radius: 8px; padding: .8rem 1rem; overflow-x: auto; } figcaption { font-size: .88rem; margin-top: .4rem; } figcaption b { color: var(--blue); }
svg { display: block; width: 100%; min-width: 30rem; height: auto; font-family: 'Liberation Sans', Arial, Helvetica, sans-serif; }
.legend { list-style: none; padding: 0; margin: .4rem 0; display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); gap: .3rem 1.5rem; }
.legend li { display: flex; gap: .6rem; font-size: .92rem; } .swatch { flex: none; width: 1.6rem; height: .35rem; border-radius: 2px; margin-top: .6rem; }
details { border-bottom: 1px solid var(--rule); padding: .3rem 0; } summary { cursor: pointer; font-weight: 600; padding: .2rem 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .84rem; font-variant-numeric: tabular-nums; margin: .2rem 0 .8rem; }
th, td { padding: .18rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; vertical-align: top; }
tbody th, thead th:first-child { text-align: left; font-weight: 500; } thead th { color: var(--soft); font-weight: 600; }
#machine tbody th { color: var(--soft); } #machine td { text-align: left; white-space: normal; }
.ours { font-weight: 700; color: var(--blue); } .met { color: var(--green); font-weight: 700; } .missed, .failed { color: var(--red); font-weight: 700; }
.none, .skipped { color: var(--soft); font-weight: 400; } .quick { border: 1px solid var(--orange); border-radius: 6px; color: var(--orange); padding: .4rem .8rem; }
@media (max-width: 40rem) { tbody th { white-space: normal; min-width: 8rem; } th, td { padding: .18rem .35rem; } }
@media print { body { max-width: none; font-size: 10pt; padding: 0; } #form { display: none; } section { break-before: page; } figure, tr, .tile { break-inside: avoid; }
    .wide { overflow: visible; } table { font-size: 7.5pt; } th, td { white-space: normal; padding: .1rem .3rem; } .figures { columns: 2; } svg { min-width: 0; } }
"""
# The button turns to the other form than the one that is seen; ?form=dark in the address does so from the start.
SCRIPT = """
const root = document.documentElement, asked = new URLSearchParams(location.search).get('form');
if (asked) root.dataset.form = asked;
const isDark = () => getComputedStyle(root).colorScheme === 'dark';
addEventListener('DOMContentLoaded', () => {
    const button = document.getElementById('form'), name = () => { button.textContent = isDark() ? 'Light' : 'Dark'; };
    button.onclick = () => { root.dataset.form = isDark() ? 'light' : 'dark'; name(); };
    name();
});
addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(d => d.open = true));
const unfold = () => { const at = document.getElementById(decodeURIComponent(location.hash.slice(1))); if (at && at.tagName === 'DETAILS') { at.open = true; at.scrollIntoView(); } };
addEventListener('hashchange', unfold);
addEventListener('load', unfold);
"""


def page(run, goals_path, missing):
    machine = run.machine
    sections = [question_section(run, question, missing) for question in QUESTIONS]
    goals_table, goals_words = goals(run, goals_path)
    on = ", ".join(escape(machine[key]) for key in ("processor", "kernel") if key in machine)
    cores = escape(machine.get("cores", "?")) + " cores"
    style = STYLE.replace("LIGHT", variables(0)).replace("DARK", variables(1))
    out = ['<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">\n'
           f"<title>Fencepost: figures</title><style>{style}</style>\n<script>{SCRIPT}</script></head><body>\n"
           '<header><h1>Fencepost: figures</h1><button id="form" type="button">Dark</button>\n'
           f"<p>{on}, {cores}. {escape(machine.get('date', ''))}. Commit {escape(machine.get('commit', 'unknown'))}.<br>"
           f"{len(run.figures)} benchmarks, {count(len(run.all))} figures. Goals: <a href=\"#goals\">{goals_words}</a>.</p>\n"]
    if run.quick:
        out.append('<p class="quick">A quick run: it shows that everything runs. Its figures are not to be trusted.</p>\n')
    out.append('</header>\n<nav class="tiles">' + "".join(tile for _, tile in sections) + "</nav>\n")
    out += [section for section, _ in sections]
    out.append(legend())
    out.append(f'<section id="goals"><h2>Are the goals met?</h2>\n<p>{goals_words}.</p>\n<details><summary>Each goal</summary>\n{goals_table}</details></section>\n')
    rows = [[escape(key), escape(machine[key])] for key in MACHINE if key in machine]
    out.append('<section id="machine"><h2>On which machine?</h2>\n' + table(["", ""], rows)
               + "<p>Both sides of a comparison run in turns within one process or one run, and medians are shown.</p></section>\n")
    out.append('<section id="figures"><h2>Each figure</h2>\n<p>n is the benchmark\'s own size: keys, ranks, regions, bytes.</p>\n'
               + "".join(bench_details(run, name) for name in run.names) + "</section>\n")
    return "".join(out) + "</body></html>\n"


def main(arguments):
    if len(arguments) != 2:
        print("usage: page.py FOLDER GOALS", file=sys.stderr)
        return 2
    folder, goals_path = arguments
    run = Run(folder)
    if not run.all:
        print(f"page.py: no figures in {folder}/data: run `make`, or name another folder", file=sys.stderr)
        return 1
    missing = []
    text = page(run, goals_path, missing)
    new = os.path.join(folder, "index.html.new")
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(new, os.path.join(folder, "index.html"))
    for words in missing:
        print("no figures for", words)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
