#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Long campaigns in slices that add up: stop one at any time (Ctrl-C ends its slice, which counts), and start it again to go on.

Usage: campaign.py BUILD responses|soak|overload|seeds [--goal N] [--slice N] [--slices N] [--totals FILE]
       campaign.py BUILD table [--write]
  responses  answers under mixed load, each compared with that of its request alone; goal 1,000,000
  soak       the same by time, memory, threads, descriptors and pages flat in each slice; goal 8 hours
  overload   20 times the load that the server can take, while its health is asked for; goal 1 hour without a false alarm
  seeds      of the simulation, the next ones; goal 1,000,000
BUILD is the folder of a build; what it has done is in BUILD/campaign/ledger.jsonl, the sums of all builds are the table of README.md, or
of FILE, to which `table --write` adds what it has not. Exit status 1: something did not hold.
"""
import argparse
import datetime
import pathlib
import sys

from ledger import Ledger
from slices import SLICES, Stopped
from totals import README, Totals


def table(ledger, totals):
    """Markdown: what was done of each goal."""
    rows = ["| campaign | done | goal | faults |", "|---|---:|---:|---:|"]
    for name, kind in SLICES.items():
        rows.append(f"| {name} | {(totals.done(name) + kind.done(ledger)) / kind.unit:,.7g} {kind.unit_name} | "
                    f"{kind.goal / kind.unit:,.0f} | {totals.faults(name) + kind.faults(ledger)} |")
    return "\n".join(rows)


def write_totals(ledger, totals):
    """Adds what the table of the tree has not."""
    sums = {name: (totals.done(name) + kind.done(ledger), totals.faults(name) + kind.faults(ledger))
            for name, kind in SLICES.items() if kind.done(ledger) or kind.faults(ledger)}
    if sums:
        totals.write(sums, f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}")
        ledger.add("tallied")


def go_on(ledger, totals, build, name, arguments):
    """Until the goal is reached, or so many slices without one of the caller's; the exit status."""
    kind = SLICES[name]
    goal = int(arguments.goal * kind.unit) if arguments.goal else kind.goal
    left = arguments.slices
    counted = left >= 0 and not arguments.goal
    if not counted and totals.done(name) + kind.done(ledger) >= goal:
        print(f"{name}: the goal of {goal / kind.unit:,.7g} {kind.unit_name} is reached; --slices 1 runs one more")
    while left != 0 and (counted or totals.done(name) + kind.done(ledger) < goal):
        left -= 1
        stopped = False
        figures = {"problem": ""}
        try:
            kind.run(build, ledger, arguments.slice or kind.slice, figures)
        except Stopped:
            stopped = True
        line = ledger.add(name, **figures)
        print(f"{name}: {(totals.done(name) + kind.done(ledger)) / kind.unit:,.7g} of {goal / kind.unit:,.7g} {kind.unit_name}; this slice: "
              + ", ".join(f"{key} {value}" for key, value in line.items() if key not in ("kind", "date", "commit", "problem")),
              flush=True)
        if figures["problem"]:
            print(f"FAILED: {figures['problem']}", file=sys.stderr)
            return 1
        if stopped:
            return 130
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("name", choices=[*SLICES, "table"])
    parser.add_argument("--goal", type=float, default=0, help="in all, in the unit that the table has")
    parser.add_argument("--slice", type=int, default=0, help="seconds of a slice, or seeds")
    parser.add_argument("--slices", type=int, default=-1, help="at most so many now; without --goal so many, also beyond the goal")
    parser.add_argument("--totals", type=pathlib.Path, default=README, help="the file with the table of all builds")
    parser.add_argument("--write", action="store_true", help="of table: add what this build has done to that file")
    arguments = parser.parse_args()
    totals = Totals(arguments.totals)
    ledger = Ledger(arguments.build / "campaign" / "ledger.jsonl")
    if arguments.name == "table":
        print(table(ledger, totals))
        if arguments.write:
            write_totals(ledger, totals)
        return 0
    return go_on(ledger, totals, arguments.build.resolve(), arguments.name, arguments)


if __name__ == "__main__":
    sys.exit(main())
