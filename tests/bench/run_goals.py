#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benches of goals.py and prints each goal with the measured value.

    tests/bench/run_goals.py build/release/dunlin                    # prints the tables
    tests/bench/run_goals.py build/release/dunlin --name zen5-2c     # and replaces the goals in results/zen5-2c.jsonl
    tests/bench/run_goals.py --read tests/bench/results/zen5-2c.jsonl

Exit status: 0 if everything ran, whatever the verdicts; 1 if a bench failed, a result was outside its error bound or a call
seems to be faster than its roof allows, in which case nothing is stored. Standard library only.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import goals
import results_file

RUN_LIMIT_SECONDS = 300


def parse_lines(text):
    """The records in JSON lines, of `dunlin bench` or kept ones; raises ValueError for a line that is none."""
    records = []
    for line in text.splitlines():
        if not line.strip():
            continue
        record = json.loads(line)
        if record.get("bench", "goals") != "goals":
            continue
        if "error" in record:
            raise ValueError(record["error"].get("message", "error without a message"))
        for field in ("op", "median_us", "roofline_ratio", "threads"):
            if field not in record:
                raise ValueError(f"a record has no field {field}")
        records.append(record)
    return records


# A call cannot be this much faster than its roof. Where only the probe beside it says so, that was disturbed (a host that
# took memory back, say), and the roofs of the whole run are used. Where those say so too, the measurement is broken: the
# work was not done, or counted wrongly.
BEYOND_A_ROOF = 1.25
# From this part of DRAM's speed on, memory bounds a call: its time is proportional to the bytes.
MEMORY_BOUND = 0.85


def field(record, name):
    """A field by its dotted name, or None."""
    for part in name.split("."):
        if not isinstance(record, dict) or part not in record:
            return None
        record = record[part]
    return record


def matches(record, where):
    for name, wanted in where.items():
        value = field(record, name)
        allowed = list(wanted) if isinstance(wanted, tuple) else [wanted]
        if value not in allowed:
            return False
    return True


def identity(record, without=()):
    """The fields that identify a case across runs."""
    names = ("op", "case", "backend", "precision", "shape", "layer", "fp8_recipe", "execution", "phase", "batch",
             "kv_heads")
    return tuple(json.dumps(record.get(name)) for name in names if name not in without)


def memory_speed(record):
    """DRAM read in GB/s beside a record's calls; None where it was not measured or did not bound them."""
    ratio = record.get("paired_ratio")
    bound = record.get("roof") == "dram_read" and ratio is not None and MEMORY_BOUND <= ratio <= BEYOND_A_ROOF
    return record["gbytes_per_s"] / ratio if bound else None


def broken(record):
    """Whether a call was faster than every roof measured for it allows."""
    ratios = [record[name] for name in ("paired_ratio", "roofline_ratio") if record.get(name) is not None]
    return min(ratios) > BEYOND_A_ROOF


def metric_of(goal, record, records):
    """The goal's metric of a record; None where a field or the record to compare with is missing."""
    kind = goal["metric"]
    if kind == "scaling":
        ones = [r for r in records if r["threads"] == 1 and identity(r) == identity(record)]
        return ones[0]["median_us"] / record["median_us"] if ones and record["threads"] > 1 else None
    if kind == "against":
        changed = tuple(goal["other"])
        others = [r for r in records if r["threads"] == record["threads"] and matches(r, goal["other"])
                  and identity(r, changed) == identity(record, changed)]
        if not others:
            return None
        ratio = field(record, goal["field"]) / field(others[0], goal["field"])
        speeds = [memory_speed(r) if goal.get("same_memory") else None for r in (record, others[0])]
        return ratio * speeds[1] / speeds[0] if all(speeds) else ratio
    if kind == "paired_ratio" and (record.get(kind) is None or record[kind] > BEYOND_A_ROOF):
        return field(record, "roofline_ratio")
    return field(record, kind)


def judge(goal, records):
    """A row: number of cases, the worst and the median value, the worst case, and the verdict."""
    threads = [r["threads"] for r in records]
    wanted = 1 if goal["threads"] == "one" else max(threads, default=1)
    values = []
    impossible = []
    for record in records:
        if record["threads"] != wanted or not matches(record, goal["where"]):
            continue
        if broken(record):
            impossible.append(label(record))
        value = metric_of(goal, record, records)
        if value is not None:
            values.append((value, label(record)))
    row = {"name": goal["name"], "cases": len(values), "threads": wanted}
    if not values:
        return {**row, "verdict": "not measured"}
    at_most = "most" in goal
    worst = (max if at_most else min)(values)
    limit = goal["most"] if at_most else goal["least"]
    passed = worst[0] <= limit if at_most else worst[0] >= limit
    met = sum(1 for value, _ in values if (value <= limit if at_most else value >= limit))
    if impossible:
        return {**row, "worst": worst[0], "median": statistics.median(v for v, _ in values), "met": met,
                "goal": f"<= {BEYOND_A_ROOF:g} of a roof", "verdict": "BROKEN", "worst_case": impossible[0]}
    return {**row, "worst": worst[0], "median": statistics.median(v for v, _ in values), "worst_case": worst[1],
            "met": met, "goal": ("<= " if at_most else ">= ") + f"{limit:g}", "verdict": "pass" if passed else "short"}


def label(record):
    parts = [record["case"], *(record.get(name) for name in ("layer", "fp8_recipe", "phase", "backend")),
             record["precision"], "x".join(str(n) for n in record["shape"])]
    if record.get("group", 1) != 1:
        parts.append(f"group {record['group']}")
    return " ".join(str(part) for part in parts if part)


def roof_spreads(records):
    """For each number of threads and rate: the lowest and highest of the runs' roofs (the better of before and after).
    Far apart, a run was disturbed, and its ratios mean nothing."""
    spreads = {}
    for record in records:
        for rate in ("fp32_gflops", "bf16_gflops", "dram_read_gbytes_per_s"):
            sides = [field(record, f"roofs.{side}.{rate}") for side in ("before", "after")]
            if None in sides:
                continue
            low, high = spreads.get((record["threads"], rate), (max(sides), max(sides)))
            spreads[record["threads"], rate] = (min(low, max(sides)), max(high, max(sides)))
    return spreads


def print_roofs(records, out=sys.stdout):
    for (threads, rate), (low, high) in sorted(roof_spreads(records).items()):
        out.write(f"roofs, {threads} threads, {rate}: {low:g} to {high:g}"
                  f"{'  DISTURBED: repeat the run of the lowest' if low < 0.85 * high else ''}\n")


def print_goals(records, out=sys.stdout):
    out.write("| goal | threads | cases | met | worst | median | goal | verdict | the worst case |\n")
    out.write("|---|---|---|---|---|---|---|---|---|\n")
    for goal in goals.GOALS:
        row = judge(goal, records)
        if row["verdict"] == "not measured":
            out.write(f"| {row['name']} | | 0 | | | | | not measured | |\n")
            continue
        out.write(f"| {row['name']} | {row['threads']} | {row['cases']} | {row['met']} | {row['worst']:.3f} | "
                  f"{row['median']:.3f} | {row['goal']} | {row['verdict']} | {row['worst_case']} |\n")


def print_cases(records, out=sys.stdout):
    out.write("| op | case | threads | median ms | GFLOP/s | GB/s | roof | ratio | paired |\n"
              "|---|---|---|---|---|---|---|---|---|\n")
    for r in records:
        out.write(f"| {r['op']} | {label(r)} {r.get('execution', '')} | {r['threads']} | {r['median_us'] / 1e3:.3f} | "
                  f"{r['gflops']:.1f} | {r['gbytes_per_s']:.2f} | {r['roof']} | {r['roofline_ratio']:.3f} | "
                  f"{metric_of({'metric': 'paired_ratio'}, r, records):.3f}{' BROKEN' if broken(r) else ''} |\n")


def run_all(binary, only, variant):
    """Every run of goals.RUNS; (records, failures)."""
    records, failures = [], []
    for run in goals.RUNS:
        if only and run["args"][0] not in only:
            continue
        for threads in run["threads"]:
            command = [binary, "bench", *run["args"], "--threads", "1" if threads == "one" else "0", "--json"]
            if variant:
                command += ["--cpu-variant", variant]
            begin = time.monotonic()
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_SECONDS, check=False)
                records += parse_lines(done.stdout)
                if done.returncode != 0:
                    failures.append((command, done.stderr.strip().splitlines()[-1:]))
            except (ValueError, subprocess.TimeoutExpired) as error:
                failures.append((command, [str(error)]))
            print(f"{time.monotonic() - begin:6.1f} s  {' '.join(command[1:])}", file=sys.stderr, flush=True)
    return records, failures


def failures_of(records):
    """Of the cases that are faster than their roof allows."""
    return [((label(r), f"{r['threads']} threads:"), [f"{r['roofline_ratio']:.2f} of {r['roof']} is not possible"])
            for r in records if broken(r)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", help="dunlin")
    parser.add_argument("--name", help="keep the records in results/<name>.jsonl")
    parser.add_argument("--read", help="judge the records of this file instead of running anything")
    parser.add_argument("--only", action="append", help="gemm, attention, layer, encoder or model; may be repeated")
    parser.add_argument("--cpu-variant", help="passed to dunlin bench")
    options = parser.parse_args()
    if (options.binary is None) == (options.read is None):
        parser.error("give a binary or --read")
    failures = []
    if options.read:
        with open(options.read, encoding="utf-8") as file:
            records = parse_lines(file.read())
        failures = failures_of(records)
    else:
        records, failures = run_all(options.binary, options.only, options.cpu_variant)
        failures += failures_of(records)
        if options.name and records and not failures:
            processor, _, cpus = records[0]["machine"].partition(", ")
            facts = {"processor": processor, "cpus": int(cpus.split()[0]), "variant": records[0]["variant"]}
            results_file.write(options.name, facts, [results_file.reduced(r) for r in records], results_file.goals_key,
                               ["goals"])
    print_cases(records)
    print()
    print_roofs(records)
    print()
    print_goals(records)
    for command, reason in failures:
        print("FAILED:", " ".join(command), *reason)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
