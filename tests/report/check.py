#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check.py OUT: compares the documents' figures with those of a run in OUT/data (tests/report/make OUT).

The figures are those of tests/pictures/figures, which the test `pictures` holds equal to the tables of the READMEs. Prints each that differs
by more than 1.5 times, and how many the run does not have. Status 1 if any differs.
"""
import glob
import json
import os
import sys

MOST = 1.5
here = os.path.dirname(os.path.abspath(__file__))
CODEC = {"PMI-1 put": "v1 put", "PMI-1 get": "v1 get", "PMI-2 kvs-put": "v2 kvs-put", "both wires mixed": "both mixed",
         "libpmiwire": "ours", "strtok and copy": "strtok-and-copy", "strtok and strdup": "strtok-and-strdup"}
SYNC = {"single pages": ",runs of 1", "runs of 16": ",runs of 16", "access_style=random": "kernel,random"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.startswith("{")]


def wanted(f):
    """What a benchmark calls a document's figure: case, n (None: any), who, metric, and the peer of which it is a multiple."""
    case, n, who, metric = f["case"], f.get("n"), f["who"], f["metric"]
    if f["bench"] == "codec":
        return CODEC[case], None, CODEC[who], "decode throughput", None
    if f["bench"] == "rankmap_lookup":
        who, case = who.replace(" 32-bit", "").split(", ")
    if f["bench"] == "shmht_get" and who == "ours, 32 at a time":
        return "many32", n, "ours", metric, None
    if f["bench"] == "launch":
        return "job", n, {"pmirun": "ours"}.get(who, who), "whole_job", None
    if f["bench"] == "storwin_commit":
        return case.replace(" ", ""), 1 << 30, who, metric, None
    if f["bench"] == "storwin_sync":
        part, _, runs = case.partition(", ")
        return "100%" if case == "everything" else part.replace(" ", "") + SYNC[runs], 1 << 28, SYNC.get(who, who), "time", "msync"
    return case, n, who, metric, None


def find(run, bench, case, n, who, metric):
    """The run's value. A benchmark may have rounded n to a power of two."""
    for f in run:
        if [f["bench"], f["case"], f["who"], f["metric"]] == [bench, case, who, metric] and (n is None or 0.9 < f["n"] / n < 1.1):
            return f["value"]
    return None


def main(args):
    if len(args) != 1:
        print(__doc__.split("\n", maxsplit=1)[0], file=sys.stderr)
        return 2
    run = [f for path in sorted(glob.glob(os.path.join(args[0], "data", "*.json"))) for f in read(path)]
    counts = {"found": 0, "differ": 0, "missing": 0}
    for path in sorted(glob.glob(os.path.join(here, "..", "pictures", "figures", "*.json"))):
        for f in read(path):
            case, n, who, metric, base = wanted(f)
            value = find(run, f["bench"], case, n, who, metric)
            if base and value:
                other = find(run, f["bench"], case, n, base, metric)
                value = other and other / value
            if not value:
                counts["missing"] += 1
                continue
            counts["found"] += 1
            factor = max(value / f["value"], f["value"] / value)
            if factor > MOST:
                counts["differ"] += 1
                print(f"{os.path.basename(path)}: {f['case']}, {f.get('n', '')}, {f['who']}: {f['value']:g} in the document, "
                      f"{value:.3g} now, {factor:.1f} times")
    print("{found} figures compared, {differ} differ by more than {most} times; the run lacks {missing}".format(most=MOST, **counts))
    return 1 if counts["differ"] or not counts["found"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
