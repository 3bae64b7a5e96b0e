#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the smg router costs, and what a second worker brings, in one run. Workers are `dunlin serve` with one compute
thread, each bound to a processor of its own; the router and the load generator run on all processors, so that they take
their time from the workers.

In turns: one request after another, direct to a worker's HTTP port and through the router (p50 and p99 of the whole
request and of TTFT, and the differences); then a closed loop of many streams through the router with one worker and with
two, and the same loop direct on one worker's HTTP port. Ratios are medians over the turns.

Usage: PYTHON router_cost.py BUILD_DIR [--model-dir DIR] [--streams 16] [--turns 3] [--seconds 8] [--json FILE]
PYTHON has smg (tests/interop/requirements/smg_router.txt): `make interop` keeps one in build/interop/smg/bin/python.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/interop"))

import smg_fleet  # noqa: E402

SINGLE_PROMPT, SINGLE_NEW = 32, 16
LOOP_PROMPT, LOOP_NEW = 64, 64


class Bench:
    def __init__(self, binary, options, folder):
        self.binary, self.options = binary, options
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            raise SystemExit("two workers need two processors")
        self.workers = [self.worker(index, cpus[index], folder) for index in range(2)]
        self.one = smg_fleet.Router("router_one", folder, self.workers[:1], "round_robin").start()
        self.two = smg_fleet.Router("router_two", folder, self.workers, "round_robin").start()

    def worker(self, index, cpu, folder):
        worker = smg_fleet.Worker(f"worker{index}", self.options.model_dir, folder, openai=True)
        worker.start()
        for thread in pathlib.Path(f"/proc/{worker.process.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cpu})  # threads that start later inherit it
        return worker

    def load(self, port, seed, *shape):
        command = [self.binary, "load", "--protocol", "openai", "--address", f"127.0.0.1:{port}", "--model", "demo",
                   "--prompt-form", "words", "--temperature", "0", "--json", "-", "--quiet", "--seed", str(seed),
                   "--max-errors", "0", *map(str, shape)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=self.options.seconds + 120)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr}{done.stdout[:2000]}")
        return json.loads(done.stdout)

    def single(self, port, seed):
        return self.load(port, seed, "--concurrency", 1, "--duration", self.options.seconds, "--warmup", 1, "--input-len",
                         SINGLE_PROMPT, "--output-len", SINGLE_NEW)

    def loop(self, port, seed):
        return self.load(port, seed, "--concurrency", self.options.streams, "--duration", self.options.seconds,
                         "--warmup", 1, "--input-len", LOOP_PROMPT, "--output-len", LOOP_NEW)

    def turn(self, seed):
        """{work: result} of every work once; the order of direct and routed alternates."""
        direct, one, two = self.workers[0].http, self.one.port, self.two.port
        works = [("single_direct", self.single, direct), ("single_routed", self.single, one),
                 ("loop_direct", self.loop, direct), ("loop_one", self.loop, one), ("loop_two", self.loop, two)]
        return {name: run(port, seed) for name, run, port in (works if seed % 2 == 0 else reversed(works))}


def summary(turns):
    """{figure: median over the turns}."""
    def over_turns(figure):
        return statistics.median(map(figure, turns))

    figures = {}
    for key in ("e2el", "ttft"):
        for quantile in ("p50", "p99"):
            name = f"{quantile}_{key}_ms"
            figures[f"direct_{name}"] = over_turns(lambda turn: turn["single_direct"][name])
            figures[f"routed_{name}"] = over_turns(lambda turn: turn["single_routed"][name])
            figures[f"router_adds_{name}"] = over_turns(lambda turn: turn["single_routed"][name] -
                                                        turn["single_direct"][name])
    for name in ("loop_direct", "loop_one", "loop_two"):
        figures[f"{name}_tokens_per_s"] = over_turns(lambda turn: turn[name]["output_throughput"])
    figures["two_workers_over_one"] = over_turns(
        lambda turn: turn["loop_two"]["output_throughput"] / turn["loop_one"]["output_throughput"])
    figures["one_worker_over_direct"] = over_turns(
        lambda turn: turn["loop_one"]["output_throughput"] / turn["loop_direct"]["output_throughput"])
    return figures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--model-dir", type=pathlib.Path, default=ROOT / "models/demo")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--json", type=pathlib.Path, help="also write the figures there")
    options = parser.parse_args()
    smg_fleet.BINARY = str(options.build.resolve() / "dunlin")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(smg_fleet.BINARY, options, folder)
        figures = summary([bench.turn(seed) for seed in range(options.turns)])
        for process in (bench.one, bench.two):
            process.kill()
        for worker in bench.workers:
            worker.stop()
    for name, value in figures.items():
        print(f"{name:28}{value:10.3f}")
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
