# SPDX-License-Identifier: Apache-2.0
"""The stored results of a machine: results/<machine>.jsonl, one JSON object per line, keyed by the field `bench`.

    machine  once, first: title, processor, cpus, variant, measured {what: date}, versions {peer: version}
    goals    a record of `dunlin bench` (run_goals.py), reduced to KEPT
    peers    a measurement of compare_peers.py, as peers/report.py describes it
    load     one figure of the scripts that load a server: script, work, value, unit, and most or least

A new measurement replaces the stored ones of the same work. Standard library only.
"""

import datetime
import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent / "results"
# What the goals, the tables and a comparison of two runs need; digests and error bounds were checked by the run.
KEPT = ("op", "case", "backend", "precision", "shape", "layer", "fp8_recipe", "execution", "phase", "batch",
        "kv_heads", "group", "threads", "median_us", "min_us", "gflops", "gbytes_per_s", "roof", "roofline_ratio",
        "paired_ratio", "workspace_bytes", "saved_against_eager", "gemm_us", "gemm_roofline_ratio",
        "outside_gemm_and_attention", "tokens_per_s", "against_unconstrained", "memory")
RATES = ("fp32_gflops", "bf16_gflops", "dram_read_gbytes_per_s")


def path_of(machine):
    return FOLDER / f"{machine}.jsonl"


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def of(records, bench):
    return [record for record in records if record.get("bench") == bench]


def reduced(record):
    """A record of `dunlin bench` as it is kept."""
    kept = {"bench": "goals", **{name: record[name] for name in KEPT if name in record}}
    kept["roofs"] = {side: {rate: rates[rate] for rate in RATES if rate in rates}
                     for side, rates in record.get("roofs", {}).items()}
    return kept


def goals_key(record):
    return ("goals", record["op"])


def peers_key(record):
    return ("peers", *(record.get(name) for name in ("engine", "part", "shape", "precision", "setting", "metric")))


def merged(kept, measured, key):
    """kept without what `measured` replaces, then measured; the machine's line stays first."""
    replaced = {key(record) for record in measured}
    bench = measured[0]["bench"]
    stay = [record for record in kept if record["bench"] != bench or key(record) not in replaced]
    return stay + measured


def write(machine, facts, measured, key, what):
    """Merges `measured` into results/<machine>.jsonl. facts: of the machine's line, where it has none yet; `what` was
    measured today."""
    path = path_of(machine)
    kept = read(path) if path.exists() else [{"bench": "machine", "title": machine, "measured": {}, "versions": {}}]
    head = kept[0]
    head.update({name: value for name, value in facts.items() if name not in head})
    head["versions"].update(facts.get("versions", {}))
    head["measured"].update({name: datetime.date.today().isoformat() for name in what})
    FOLDER.mkdir(exist_ok=True)
    lines = [json.dumps(record, separators=(",", ":")) + "\n" for record in merged(kept, measured, key)]
    path.write_text("".join(lines), encoding="utf-8")
    return path
