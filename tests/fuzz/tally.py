#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds what `make fuzz` has executed since the last time to the table of README.md, and its sum to docs/reliability.md.

Usage: tally.py BUILD [--write]. BUILD is the folder of the preset fuzz; without --write the table is printed and nothing changes.
"""
import argparse
import datetime
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "campaign"))

from ledger import Ledger  # noqa: E402

ROW = re.compile(r"^\| `(\w+)` \| (.*) \| ([\d,]+|-) \| ([\d,]+|-) \|$", re.M)
SUM = re.compile(r"[\d,]+ in all\s\(\d{4}-\d\d-\d\d")
DOCS_SUM = re.compile(r"[\d,]+ executions with sanitizers")
GOAL = 1_000_000_000


def number(text):
    return 0 if text == "-" else int(text.replace(",", ""))


def text_of(value):
    return f"{value:,}" if value else "-"


def rows(readme):
    """target: (executions, edges)."""
    return {row[1]: (number(row[3]), number(row[4])) for row in ROW.finditer(readme)}


def with_lines(readme, lines):
    """The README with the ledger's lines added: edges are those of the last run."""
    counts = rows(readme)
    for line in lines:
        if line["target"] not in counts:
            raise KeyError(f"README.md has no row for {line['target']}")
        executions, edges = counts[line["target"]]
        counts[line["target"]] = (executions + line["executions"], line["edges"] or edges)
    readme = ROW.sub(lambda row: f"| `{row[1]}` | {row[2]} | {text_of(counts[row[1]][0])} | {text_of(counts[row[1]][1])} |", readme)
    total = sum(executions for executions, _ in counts.values())
    date = max((line["date"] for line in lines), default=f"{datetime.date.today()}")
    return SUM.sub(f"{total:,} in all ({date}", readme) if lines else readme, total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    ledger = Ledger(arguments.build / "campaign" / "ledger.jsonl")
    lines = ledger.lines("fuzz")
    counted = max((line["lines"] for line in ledger.lines("tallied")), default=0)
    readme, total = with_lines((HERE / "README.md").read_text(), lines[counted:])
    print("\n".join(row[0] for row in ROW.finditer(readme)))
    print(f"{len(lines) - counted} runs that the table had not, {total:,} executions in all, {100 * total / GOAL:.2f} % of {GOAL:,}")
    if arguments.write:
        docs = ROOT / "docs" / "reliability.md"
        (HERE / "README.md").write_text(readme)
        docs.write_text(DOCS_SUM.sub(f"{total:,} executions with sanitizers", docs.read_text()))
        ledger.add("tallied", lines=len(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
