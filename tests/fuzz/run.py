#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs libFuzzer's programs, each for a number of seconds, one on each processor, and prints a line for each.

Usage: run.py BUILD [--seconds N] [--jobs N] [NAME ...]. BUILD is the folder of the preset fuzz. Inputs that reach something new stay in
BUILD/inputs/NAME for the next run; what breaks a target goes to BUILD/findings; what was executed is a line of
BUILD/campaign/ledger.jsonl, which tally.py adds to the table of README.md. Exit status 1: a target crashed, hung, leaked or took
more memory than its limit.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "campaign"))

from ledger import Ledger  # noqa: E402

HANG_SECONDS = 10  # by the clock; an input that takes less of a processor is no finding (is_finding)
RSS_MB = 1024  # with the shadow memory of AddressSanitizer; models and tokenizers of the tests take some 300
MALLOC_MB = 64  # of one allocation: no input is larger than MAX_INPUT_BYTES
# Of targets whose prompts have up to 4 MiB, which take 120 bytes a byte to encode (tokenizer.h; the server counts them).
PROMPT_RSS_MB, PROMPT_MALLOC_MB = 2048, 512
PROMPT_TARGETS = ["chat_template", "chat_messages"]
MAX_INPUT_BYTES = 1 << 16
# Parts of the time, inputs of at most so many bytes in each, and flags: a seed of 50 KB makes what is changed of it slow, five
# times for `config`, nine for `tokenizer_json` from 2 KiB on, and most faults need few bytes. Short inputs are chosen evenly: to choose them by how rare their features are
# takes as long as to run them, up to twice that.
PHASES = ((2, 1 << 8, ["-entropic=0"]), (1, 1 << 11, ["-entropic=0"]), (1, MAX_INPUT_BYTES, []))
# Stacks of allocations take a fifth of the time, and a quarantine that no cache holds another: whoever runs an input that was found
# by hand, without these, has both. What a run frees, unless it is more than 4 MB, stays poisoned.
ASAN_OPTIONS = "malloc_context_size=0:quarantine_size_mb=4:thread_local_quarantine_size_kb=256"

# Of dictionaries/: what a mutation inserts.
DICTIONARIES = {
    "json": ["safetensors", "model_config", "tokenizer_json", "vocabulary", "config", "key_file", "chat_messages", "image_processor"],
    "requests": ["openai", "anthropic", "ollama", "kserve_json"],
    "schema": ["json_schema"],
    "grammar": ["grammar", "regex"],
    "template": ["chat_template"],
    "http": ["http_connection"],
    "gguf": ["gguf"],
    "adapter": ["adapter_files"],
    "calls": ["chat_output"],
}


def target_names():
    return re.findall(r"^DUNLIN_FUZZ_TARGET\((\w+),", (HERE / "targets.inc").read_text(), re.M)


def command(build, name, seconds, seeds, max_bytes, flags):
    inputs = build / "inputs" / name
    inputs.mkdir(parents=True, exist_ok=True)
    (build / "findings").mkdir(exist_ok=True)
    dictionary = [f"-dict={HERE}/dictionaries/{d}.dict" for d, of in DICTIONARIES.items() if name in of]
    rss, malloc = (PROMPT_RSS_MB, PROMPT_MALLOC_MB) if name in PROMPT_TARGETS else (RSS_MB, MALLOC_MB)
    return [build / "fuzz" / name, inputs, seeds, f"-max_total_time={seconds}", f"-timeout={HANG_SECONDS}",
            f"-rss_limit_mb={rss}", f"-malloc_limit_mb={malloc}", f"-max_len={max_bytes}",
            "-print_final_stats=1", f"-artifact_prefix={build}/findings/{name}_", *dictionary, *flags]


def figures(log):
    """Executions and coverage edges: the last that the program printed."""
    def last(pattern):
        found = re.findall(pattern, log)
        return int(found[-1]) if found else 0
    return last(r"stat::number_of_executed_units:\s+(\d+)"), last(r"\bcov: (\d+)")


def is_finding(program, log, seconds=HANG_SECONDS):
    """Whether what ended a run is a finding; an input that takes less than the seconds of a processor is none, and is removed: on
    a busy machine inputs take longer by the clock."""
    found = re.search(r"Test unit written to (\S*_timeout-\w+)", log)
    if not found:
        return True
    alone = subprocess.run(["prlimit", f"--cpu={seconds}", program, found[1]], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)
    if alone.returncode == 0:
        os.remove(found[1])
    return alone.returncode != 0


def run(build, name, seconds):
    """The program's exit status, after its line."""
    parts = sum(part for part, *_ in PHASES)
    asan = ":".join(filter(None, [ASAN_OPTIONS, os.environ.get("ASAN_OPTIONS")]))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as scratch:
        seeds = pathlib.Path(scratch) / "seeds"
        seeds.mkdir()
        subprocess.run([build / "fuzz" / "write_corpus", name, seeds], check=True)
        log, executed, edges, status = "", 0, 0, 0
        for part, max_bytes, flags in PHASES:
            done = subprocess.run(command(build, name, max(1, seconds * part // parts), seeds, max_bytes, flags),
                                  env={**os.environ, "TMPDIR": scratch, "ASAN_OPTIONS": asan},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            output = done.stdout.decode(errors="replace")
            phase_executed, edges = figures(output)
            log, executed, status = log + output, executed + phase_executed, done.returncode
            if status != 0 and not is_finding(build / "fuzz" / name, output):
                status = 0
            if status != 0:
                break
    (build / "findings" / f"{name}.log").write_text(log)
    Ledger(build / "campaign" / "ledger.jsonl").add("fuzz", target=name, executions=executed, edges=edges, seconds=seconds,
                                                    status=status)
    print(f"{name:18} {executed:>12} executions {executed // seconds:>8} /s {edges:>7} edges  {'ok' if status == 0 else 'FAILED'}",
          flush=True)
    if status != 0:
        print("\n".join(line for line in log.splitlines() if "DEDUP" in line or "SUMMARY" in line or "Test unit" in line),
              file=sys.stderr)
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="programs at a time; default: the processors")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_intermixed_args()
    names = arguments.names or target_names()
    unknown = set(names) - set(target_names())
    if unknown:
        parser.error(f"no target is named {', '.join(sorted(unknown))}")
    build = arguments.build.resolve()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        statuses = pool.map(lambda name: run(build, name, arguments.seconds), names)
        failed = [name for name, status in zip(names, statuses) if status != 0]
    print(f"{len(names) - len(failed)} of {len(names)} targets without a finding"
          + (f"; logs and inputs: {build / 'findings'}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
