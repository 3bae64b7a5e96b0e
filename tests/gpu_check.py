# SPDX-License-Identifier: Apache-2.0
"""The rows of gpu_check.sh: operations, attention, goldens, the bit contract, the demo model served on the CPU and on the
GPU, and the benches of the seed tables. Every row's output stays in a folder named after the device."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

from gpu_check_model import PROMPTS, Failure, Server, batch_invariant, same_greedy_tokens

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROW_SECONDS = 120
ALL_SECONDS = 360  # rows that have not started by then are skipped

# name, program, tests on a GPU, tests of a rehearsal
TESTS = (
    ("operations", "kernels_device_ops_test", "Cuda/*", "Fake/*"),
    ("attention, pages", "kernels_device_attention_test", "*Paged*/cuda_*", "*Paged*TakesWindows*/fake_*"),
    ("attention, dense grid", "kernels_device_attention_test", "*Dense*/cuda", "*Dense*AnyDim*/fake"),
    ("goldens, greedy tokens", "goldens_test", "Cuda/GoldensGreedy.*", "Fake/GoldensGreedy.*/gpt2_tiny"),
    ("goldens, all profiles", "device_goldens_test", "Cuda/*", "Fake/*/gpt2_tiny"),
    ("500 mixes, same bits", "device_mixes_test", "Cuda/*", "Fake/*/gpt2_tiny"),
)
# name, arguments on a GPU, arguments of a rehearsal
BENCHES = (
    ("bench, table 1", "attention --case sdpa --precision fp16,bf16", "attention --case sdpa --shape 2,4,33,16"),
    ("bench, table 2", "attention --case xformers --precision fp16", "attention --case xformers --shape 2,4,33,16"),
    ("bench, table 3", "layer --case nanogpt --precision fp16,bf16", "layer --case nanogpt --precision fp16 --scale 0.01"),
    ("bench, table 4", "layer --case te --precision fp16,fp8", "layer --case te --precision fp16,fp8 --scale 0.01"),
    ("bench, gemm", "gemm --case llama-8b --precision bf16,fp16,fp8", "gemm --shape 3,48,64"),
    ("bench, gemv", "gemm --case gemv --precision bf16,fp8", "gemm --shape 1,48,64 --precision fp8"),
    ("bench, tuned products", "gemm --case llama-8b --precision bf16,fp8 --cublas-algorithm-cache OUT/algorithms",
     "gemm --shape 70,48,64 --precision bf16 --cublas-algorithm-cache OUT/algorithms"),
    ("bench, decode", "attention --case decode --backend all --precision bf16,fp8",
     "attention --case decode --backend all --shape 2,4,40,32"),
    ("bench, prefill", "attention --case prefill --backend all --precision bf16",
     "attention --case prefill --backend all --shape 2,4,40,32"),
    ("bench, encoder", "encoder --case minilm-l6 --precision bf16,fp16 --prompt-tokens 128",
     "encoder --case minilm-l6 --precision bf16 --batch 1 --prompt-tokens 8"),
    ("bench, model", "model --case llama-1b --precision bf16,fp8 --batch 1,32",
     f"model --model {ROOT}/models/demo --batch 2 --prompt-tokens 8 --new-tokens 2"),
)


class Check:
    """The table and where its rows come from."""

    def __init__(self, options):
        self.options = options
        self.folder = options.folder
        self.module = options.module
        if self.module is None:
            self.module = self.folder / ("tests/libfake_cuda.so" if options.rehearse else "libdunlin_cuda.so")
        self.started = time.monotonic()
        self.table = []
        self.out = options.out
        self.environment = dict(os.environ, DUNLIN_TEST_CUDA_MODULE=str(self.module),
                                DUNLIN_TEST_FAKE_MODULE=str(self.module), DUNLIN_TEST_ROOT=str(ROOT))
        if options.cublas:
            self.environment["DUNLIN_TEST_CUBLAS"] = options.cublas

    def run(self, command, log):
        """A command's output, which `log` keeps; Failure when it does not end well or in time."""
        try:
            done = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=ROW_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            (self.out / log).write_bytes(error.stdout or b"")
            raise Failure(f"not done after {ROW_SECONDS} s") from error
        except OSError as error:
            raise Failure(str(error)) from error
        (self.out / log).write_text(done.stdout)
        if done.returncode != 0:
            told = [line for line in done.stdout.splitlines() if re.search("FAILED|Failure|[A-Z]+_[A-Z]+: |DATA_LOSS", line)]
            raise Failure(f"exit status {done.returncode}: " + " / ".join(told or done.stdout.splitlines()[-3:])[:400])
        return done.stdout

    def row(self, name, work):
        start = time.monotonic()
        if start - self.started > ALL_SECONDS:
            self.table.append((name, False, 0.0, f"not begun: {ALL_SECONDS} s are over"))
            return
        try:
            result, passed = work(), True
        except Failure as error:
            result, passed = str(error), False
        self.table.append((name, passed, time.monotonic() - start, result))
        print(self.line(self.table[-1]), file=sys.stderr, flush=True)

    @staticmethod
    def line(row):
        name, passed, seconds, result = row
        return f"{name:24} {'pass' if passed else 'FAIL'} {seconds:6.1f} s  {result}"

    def bench(self, arguments, log, seconds="1"):
        arguments = arguments.replace("OUT", str(self.out)).split()
        command = [self.folder / "dunlin", "bench", *arguments, "--device", "cuda", "--cuda-module", self.module,
                   "--json", "--max-seconds", seconds]
        if self.options.cublas:
            command += ["--cublas-library", self.options.cublas]
        lines = self.run(command, log).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def tests_row(self, name, program, pattern):
        def work():
            log = re.sub(r"\W+", "_", name) + ".log"
            out = self.run([self.folder / "tests" / program, f"--gtest_filter={pattern}"], log)
            counts = {word: int(found[1]) if (found := re.search(rf"\[  {word} *\] (\d+) test", out)) else 0
                      for word in ("PASSED", "SKIPPED")}
            if counts["PASSED"] == 0:
                raise Failure(f"no test ran of {pattern}")
            return f"{counts['PASSED']} passed, {counts['SKIPPED']} not taken by the device"
        self.row(name, work)

    def bench_row(self, name, arguments):
        def work():
            log = re.sub(r"\W+", "_", name) + ".jsonl"
            records = self.bench(arguments, log, "0.01" if self.options.rehearse else "1")
            if not records:
                raise Failure("no record")
            return f"{len(records)} records, each within its error bound: " + "; ".join(map(told, records))
        self.row(name, work)

    def model_rows(self):
        binary, prompts = self.folder / "dunlin", PROMPTS[:1] if self.options.rehearse else PROMPTS
        try:
            with Server(binary, "cpu", None, None, self.out / "server_cpu.log") as cpu, \
                    Server(binary, "cuda", self.module, self.options.cublas, self.out / "server_cuda.log") as gpu:
                self.row("greedy CPU = GPU", lambda: same_greedy_tokens(cpu, gpu, prompts))
                self.row("batch invariance", lambda: batch_invariant(gpu, prompts))
        except Failure as error:
            self.table.append(("model", False, 0.0, str(error)))


def told(record):
    """A record in a few words."""
    words = [record.get("layer"), record.get("execution"), record["backend"], record["precision"],
             f"M{record['shape'][0]}" if record["op"] == "gemm" else None, record.get("phase")]
    cost = record.get("deterministic_cost")
    words.append(None if cost is None else f"deterministic {cost:+.0%}")
    return f"{' '.join(word for word in words if word)} {record['median_us']:g} us ({record['roofline_ratio']:.3f})"


def device_of(check):
    """What the device calls itself; ends the run where there is none."""
    try:
        return check.bench("gemm --shape 1,16,16 --precision bf16", "device.log", "0.01")[0]["machine"]
    except Failure:
        reason = re.search("^INVALID_ARGUMENT: (device cuda cannot be opened: .*)$", (check.out / "device.log").read_text(),
                           re.M)
        if reason is None:
            raise
        print("skipped:", reason[1])
        sys.exit(77)


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="of the server, its module and tests/")
    parser.add_argument("--out", type=pathlib.Path, help="of the logs; else gpu_check_results")
    parser.add_argument("--cublas", default="")
    parser.add_argument("--module", type=pathlib.Path, help="use this module instead of the folder's")
    parser.add_argument("--rehearse", action="store_true",
                        help="run smaller versions of the rows on the fake module, to test this program")
    return parser.parse_args()


def main():
    options = parsed()
    options.out = options.out or pathlib.Path("gpu_check_results")
    options.out.mkdir(parents=True, exist_ok=True)
    check = Check(options)
    try:
        device = device_of(check)
    except Failure as error:
        print("FAIL", error)
        return 1
    named = options.out / re.sub(r"\W+", "_", device).strip("_")
    named.mkdir(exist_ok=True)
    (options.out / "device.log").replace(named / "device.log")
    check.out = named
    for name, program, pattern, rehearsal in TESTS:
        check.tests_row(name, program, rehearsal if options.rehearse else pattern)
    check.model_rows()
    for name, arguments, rehearsal in BENCHES:
        check.bench_row(name, rehearsal if options.rehearse else arguments)
    lines = [device, *map(check.line, check.table)]
    (named / "table.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0 if all(row[1] for row in check.table) else 1


if __name__ == "__main__":
    sys.exit(main())
