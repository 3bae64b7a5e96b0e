#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dunlin against PyTorch, llama.cpp, CTranslate2 and onnxruntime: same machine, threads, weights and run.

Installs the peers into a virtual environment, creates the weights, measures the engines in turns and prints a table of
Dunlin's speed relative to the best peer, next to the goal. A peer that cannot be installed or run is listed with the
reason. Needs the release binary and a Python with venv; the first run downloads about 3 GB.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE / "peers"), str(HERE)]

import attention_cases  # noqa: E402
import dunlin_bench  # noqa: E402
import engines  # noqa: E402
import environment  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402
import results_file  # noqa: E402
import shapes  # noqa: E402
import startup  # noqa: E402
import turns  # noqa: E402

PARTS = ("attention", "block", "model", "startup")
COMPARISONS = (*report.attention_comparisons(attention_cases.CASES), *report.block_comparisons(), *report.model_comparisons())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def names(known):
        def parse(text):
            picked = [word for word in text.split(",") if word]
            if unknown := [word for word in picked if word not in known]:
                raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(known)}")
            return picked
        return parse

    parser.add_argument("--shapes", type=names(shapes.CONFIGS), default=[name for name in shapes.CONFIGS if name not in shapes.BY_NAME],
                        help=f"comma-separated; without it none of {', '.join(shapes.BY_NAME)}")
    parser.add_argument("--peers", type=names(engines.PEERS), default=list(engines.PEERS), help="comma-separated")
    parser.add_argument("--parts", type=names(PARTS), default=list(PARTS), help="comma-separated")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3, help="every engine's turns; the table has medians over them")
    parser.add_argument("--batches", type=lambda text: tuple(int(word) for word in text.split(",")),
                        default=engines.BATCHES, help="comma-separated; each prompt of a batch is computed first")
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3.0, help="at least 5 calls, then up to this long, per figure")
    parser.add_argument("--decode-seconds", type=float, default=10.0, help="stop decoding a batch early after this long")
    parser.add_argument("--job-seconds", type=float, default=900.0, help="time limit of a measuring process")
    parser.add_argument("--install-seconds", type=float, default=3600.0)
    parser.add_argument("--settings", default="", help="run only jobs whose 'engine precision setting' contains one "
                        "of these comma-separated words")
    parser.add_argument("--files", type=names(("BF16", "F16", "F32", "Q8_0", "Q4_0", "Q4_K_M")), help="GGUF files: make and "
                        "measure only these, comma-separated")
    parser.add_argument("--gate", type=shlex.split, default=[], help="on a shared machine: a command that runs its "
                        "arguments while nothing else does; every measurement is taken inside it")
    parser.add_argument("--gate-seconds", type=float, default=0.0, help="turns that begin within this long of a "
                        "gate's opening share it")
    parser.add_argument("--whole", action="store_true", help="a peer's turn begins before it loads, as Dunlin's: where "
                        "the machine is too busy to load and warm up outside the gate")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "peers")
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build" / "release" / "dunlin")
    parser.add_argument("--out", type=pathlib.Path, help="append each measurement as a JSON line")
    parser.add_argument("--name", help="at the end, replace the measured works in results/<name>.jsonl")
    parser.add_argument("--report", type=pathlib.Path, nargs="+", help="measure nothing; print the table of these files")
    return parser.parse_args()


class Run:
    """Runs measurements and collects their results."""

    def __init__(self, args):
        self.args = args
        self.measurements = []
        self.gate = turns.Gate(args.gate, args.gate_seconds)

    def keep(self, **fields):
        self.measurements.append(fields)
        if self.args.out:
            with open(self.args.out, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(fields) + "\n")

    def measure(self, job, round_index):
        """Runs one process and keeps its measurements. False when it failed."""
        words = {"engine": job.engine, "part": job.part, "shape": job.shape, "precision": job.precision,
                 "setting": job.setting, "round": round_index}
        start = time.monotonic()
        with open(self.args.work / "workers.log", "ab") as log:
            lines, error = turns.run(job.command, self.gate, self.args.job_seconds, self.variables(), log,
                                     whole=self.args.whole or job.engine == report.OURS)
        for line in lines:
            for fields in dunlin_bench.measurements(line, job):
                self.keep(**{**words, **fields})
        if error:
            self.keep(**words, metric="process", error=error)
        print(f"  {job.engine} {job.part} {job.shape} {job.precision} {job.setting}: {error or 'done'}, "
              f"{time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        return error is None

    def variables(self):
        """Makes glibc keep large blocks; without that PyTorch spends its time in page faults."""
        return dict(os.environ, OMP_NUM_THREADS=str(self.args.threads), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
                    TORCHINDUCTOR_CACHE_DIR=str(self.args.work / "inductor"), MALLOC_MMAP_THRESHOLD_=str(1 << 32),
                    MALLOC_TRIM_THRESHOLD_=str(1 << 33))


def jobs_of(options, args, present, part, shape):
    listed = list(dunlin_bench.jobs(options, part, shape))
    for peer in present:
        listed += engines.PEERS[peer](options, part, shape)
    words = [word for word in args.settings.split(",") if word]
    files = [name.lower() for name in args.files or ()]
    listed = [job for job in listed if not files or job.precision in files]
    return [job for job in listed
            if not words or any(word in f"{job.engine} {job.precision} {job.setting}" for word in words)]


def contenders(jobs, measurements):
    """The jobs that run again after the first round: Dunlin's, and those with the best peer figure in some metric."""
    found = report.medians(measurements)
    best = set()
    for job in jobs:
        for metric in job.metrics:
            for comparison in COMPARISONS:
                if (comparison.part, comparison.shape, comparison.metric) == (job.part, job.shape, metric):
                    _, theirs = report.resolve(comparison, found)
                    if theirs:
                        best.add((theirs[0][0], theirs[0][3], theirs[0][4], theirs[0][5]))

    def holds(job):
        return any((job.engine, metric, job.precision) == row[:3] and job.setting in ("", row[3])
                   for metric in job.metrics for row in best)
    return [job for job in jobs if job.engine == report.OURS or holds(job)]


def measure_part(run, options, present, part, shape):
    jobs = jobs_of(options, run.args, present, part, shape)
    for round_index in range(run.args.rounds):
        print(f"{part} {shape}, round {round_index + 1} of {run.args.rounds}", file=sys.stderr, flush=True)
        jobs = [job for job in jobs if run.measure(job, round_index)]
        run.gate.close()
        if round_index == 0:
            jobs = contenders(jobs, run.measurements)


def prepare(args, run):
    """Installs the peers and makes the weights. Returns the environment and the installed peers."""
    args.work.mkdir(parents=True, exist_ok=True)
    env = environment.Environment(args.work, args.work / "install.log")
    present = []
    for peer in ["", *args.peers]:
        print(f"installing {peer or 'numpy, gguf'}", file=sys.stderr, flush=True)
        if reason := env.install(peer, args.install_seconds):
            run.keep(engine=peer or "weights", part="install", error=reason)
            print(f"  {peer or 'weights'} is skipped: {reason}", file=sys.stderr)
        elif peer:
            present.append(peer)
    for shape in args.shapes if "model" in args.parts or "startup" in args.parts else []:
        print(f"weights of {shape}", file=sys.stderr, flush=True)
        dtypes = engines.gguf_dtypes(shape) if "llama_cpp" in present else ()
        dtypes = [dtype for dtype in dtypes if not args.files or dtype in args.files]
        if shape not in shapes.NARROW and not (args.files == ["Q4_K_M"] and shape in shapes.HYBRIDS):
            dtypes = ["hf", *dtypes]
        subprocess.run([str(env.python), str(HERE / "peers" / "weights.py"), str(args.work), shape, *dtypes],
                       check=True, timeout=args.install_seconds)
    packages = sorted({name for peer in present for name in environment.PACKAGES[peer]})
    run.keep(part="run", versions=env.versions(packages), threads=args.threads, **machine.facts(args.binary))
    return env, present


def keep_results(machine, measurements):
    """Into results/<machine>.jsonl, in place of the kept measurements of the same works."""
    facts = next(m for m in measurements if m["part"] == "run")
    measured = [{"bench": "peers", **m} for m in measurements if m["part"] not in ("run", "install")]
    if measured:
        results_file.write(machine, {name: facts[name] for name in ("processor", "cpus", "versions")}, measured,
                           results_file.peers_key, {m["part"] for m in measured})


def read_measurements(path):
    """Of a file that --out or --name wrote."""
    records = results_file.read(path)
    return [{"part": "run", **m} if m.get("bench") == "machine" else m
            for m in records if m.get("bench", "peers") in ("peers", "machine")]


def print_report(measurements):
    for m in measurements:
        if m["part"] == "run":
            words = {**{k: v for k, v in m.items() if k not in ("bench", "part", "versions")}, **m["versions"]}
            print(", ".join(f"{name} {value}" for name, value in words.items()))
    print("\n" + report.table(report.rows_of(COMPARISONS, measurements)))
    for line in (*report.memory_lines(measurements), *startup.lines(measurements), *report.agreement_lines(measurements)):
        print(line)
    for m in measurements:
        if "error" in m:
            where = " ".join(str(m[k]) for k in ("engine", "part", "shape", "metric", "precision", "setting") if m.get(k))
            print(f"not measured: {where}: {m['error']}")


def main():
    args = arguments()
    run = Run(args)
    if args.report:
        for file in args.report:
            run.measurements += read_measurements(file)
        print_report(run.measurements)
        return
    env, present = prepare(args, run)
    options = engines.Options(args.work, env.python, args.binary, args.threads, args.new_tokens, args.seconds,
                              args.decode_seconds, args.batches)
    if "attention" in args.parts:
        measure_part(run, options, present, "attention", "-")
    if "block" in args.parts:
        measure_part(run, options, present, "block", "nanogpt")
    for shape in args.shapes:
        if "model" in args.parts:
            measure_part(run, options, present, "model", shape)
            startup.measure_tokens(run, options, shape)
    if "startup" in args.parts:
        startup.measure(run, options, ROOT / "models" / "demo", args.shapes)
    print_report(run.measurements)
    if args.name:
        keep_results(args.name, run.measurements)


if __name__ == "__main__":
    main()
