#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles the CPU kernels: perf samples of four benches, by function and, for the hottest function, by instruction.

    tests/bench/profile_kernels.py build/release/dunlin
    tests/bench/profile_kernels.py build/release/dunlin --threads 2 --cpu-variant avx2

Samples the cpu-clock event, which needs no hardware counters and therefore works in a virtual machine. Percentages
are of the samples in CPU kernels, excluding the functions that measure roofs, pack weights or wait for work. A sample
is attributed to the instruction waiting to retire, often the one after the slow one. Needs perf (Debian: linux-perf).

Exit status: 1 if perf or a bench failed, else 0. Standard library only.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile

WORK = (
    ("BF16 GEMM, 512 x 3072 x 768", "gemm --shape 512,3072,768 --precision bf16"),
    ("BF16 GEMV, 16384 x 2048", "gemm --shape 1,16384,2048 --precision bf16"),
    ("FLASH prefill, 2048 tokens, 32 heads of 64, 8 KV heads",
     "attention --case prefill --shape 1,32,2048,64 --kv-heads 8 --backend flash --precision bf16"),
    ("FLASH decode, 8 x 2048 tokens, 32 heads of 64, 8 KV heads",
     "attention --case decode --shape 8,32,2048,64 --kv-heads 8 --backend flash --precision bf16"),
)
KERNEL = "dunlin::kernels::cpu::"
NO_KERNEL = re.compile(r"::(\w+Rounds|Sse2Read|Avx2Read|Avx512Read|CopyTransposed|CopyPairs|CopyScales|PackPanel"
                       r"|RoundStaged|FindScales|StageFloats|ScatterStaged|ReadFloats)$|::ThreadPool::")
SHARE_MIN = 1.0  # per cent
FUNCTIONS = 4
INSTRUCTIONS = 5
SAMPLES_PER_SECOND = 2000
RUN_LIMIT_SECONDS = 120


def run(command):
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = child.communicate(timeout=RUN_LIMIT_SECONDS)
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)  # perf and the bench under it
        child.wait()
        raise
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} exited with {child.returncode}: {err.strip()[-300:]}")
    return out


def plain(symbol):
    """A symbol's name without return type, arguments, enum casts and unnamed namespaces, however perf prints them."""
    name = re.sub(r"\([\w:]+\)(?=\d)", "", symbol.replace("(anonymous namespace)::", ""))
    return re.sub(r"^[\w:]+ (?=dunlin::)", "", name.split("(", 1)[0])


def short(symbol):
    return re.sub(r"\b(?:\w+::)+(?=\w)", "", plain(symbol))


def functions(report):
    """[(share of the kernels' samples, symbol)] from perf's report, largest first."""
    rows = []
    for line in report.splitlines():
        match = re.match(r"\s*([\d.]+)%\s+\[\.\]\s+(.*\S)", line)
        if match and plain(match[2]).startswith(KERNEL) and not NO_KERNEL.search(plain(match[2]).split("<", 1)[0]):
            rows.append((float(match[1]), match[2]))
    total = sum(share for share, _ in rows)
    if total == 0:
        raise RuntimeError("no sample is in a kernel: does the binary have symbols, and does perf demangle them?")
    return [(100.0 * share / total, symbol) for share, symbol in rows]


def instructions(data, symbol):
    """[(share of the function's samples, mnemonic)], largest first."""
    shares = {}
    for line in run(["perf", "annotate", "-i", data, "--stdio", "--stdio-color=never", "-s", symbol]).splitlines():
        match = re.match(r"\s*([\d.]+)\s+:\s+[0-9a-f]+:\s+(\w+)", line)
        if match:
            shares[match[2]] = shares.get(match[2], 0.0) + float(match[1])
    return sorted(((share, name) for name, share in shares.items()), reverse=True)


def profile(args, title, arguments):
    with tempfile.NamedTemporaryFile(suffix=".perf") as data:
        command = [args.binary, "bench", *arguments.split(), "--threads", str(args.threads), "--max-seconds", "3"]
        if args.cpu_variant:
            command += ["--cpu-variant", args.cpu_variant]
        run(["perf", "record", "-e", "cpu-clock", "-F", str(SAMPLES_PER_SECOND), "-o", data.name, *command])
        rows = functions(run(["perf", "report", "-i", data.name, "--stdio", "--no-children", "-F", "overhead,symbol"]))
        print(f"{title}:", ", ".join(f"{share:.0f}% {short(symbol)}"
                                     for share, symbol in rows[:FUNCTIONS] if share >= SHARE_MIN))
        mnemonics = instructions(data.name, rows[0][1])
        print(f"    {short(rows[0][1])}:", ", ".join(f"{share:.0f}% {name}"
                                                     for share, name in mnemonics[:INSTRUCTIONS] if share >= SHARE_MIN),
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="build/release/dunlin", help="dunlin")
    parser.add_argument("--threads", type=int, default=1, help="as for dunlin bench")
    parser.add_argument("--cpu-variant", help="passed to dunlin bench")
    args = parser.parse_args()
    try:
        for title, arguments in WORK:
            profile(args, title, arguments)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"profile_kernels: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
