#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serves the demo model with every CPU variant for ARM, and pages of every size, and compares answers with those of x86-64.

served.py BINARY               a program for aarch64, under emulation (emulated.sh)
served.py BINARY --write       a program for this machine: writes portable_answers.json, the answers of its portable variant

All variants answer with the same texts, the portable one also with the same bits of the log probabilities. Metrics, a client,
`dunlin inspect` and the end after Ctrl-C are checked, too. Exit status 1 if a check failed.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ANSWERS = HERE / "portable_answers.json"
PRECISIONS = ["fp32", "bf16", "fp16", "fp8", "int8", "int4"]
WAIT_S = 600  # emulated, on a busy machine

# Processor of qemu, variant that compute.cpu_variant forces (None: the server's choice), variant that serves, and bytes of the
# system's pages.
RUNS = [
    ("max", "portable", "portable", 4096),
    ("max", None, "neon_bf16", 65536),
    ("max", "neon_i8mm", "neon_i8mm", 4096),
    ("max", "neon_dot", "neon_dot", 4096),
    ("max", "neon", "neon", 4096),
    ("neoverse-n1", None, "neon_dot", 16384),
    ("cortex-a72", None, "neon", 4096),
    ("cortex-a72", "portable", "portable", 4096),
]


class Server:
    def __init__(self, addresses, command):
        self.grpc, self.http = addresses
        self.command = command

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.http}{path}", data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as refusal:
            raise RuntimeError(f"{path}: {refusal.read().decode()}") from refusal

    def complete(self, precision, backend="flash"):
        body = {"model": "demo", "prompt": "The history of the", "max_tokens": 24, "temperature": 0, "ignore_eos": True,
                "logprobs": 1, "precision": precision, "attention_backend": backend}
        answer = json.loads(self.call("/v1/completions", body))
        choice = answer["choices"][0]
        return answer["system_fingerprint"], {"text": choice["text"], "logprobs": choice["logprobs"]["token_logprobs"]}

    def chat(self):
        body = {"model": "demo", "messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 24,
                "temperature": 0, "logprobs": True}
        choice = json.loads(self.call("/v1/chat/completions", body))["choices"][0]
        return {"text": choice["message"]["content"],
                "logprobs": [token["logprob"] for token in choice["logprobs"]["content"]]}

    def counted(self, requests):
        """Requests that /metrics counts as OK, once there are that many: a request is counted after its answer has gone."""
        for _ in range(100):
            seen = sum(float(line.rsplit(" ", 1)[1]) for line in self.call("/metrics").splitlines()
                       if line.startswith("dunlin_requests_total{") and 'status="OK"' in line)
            if seen >= requests:
                break
            time.sleep(0.1)
        return seen


@contextlib.contextmanager
def serve(command, variant):
    """A Server, which ends with exit status 0 after Ctrl-C."""
    with tempfile.TemporaryDirectory() as folder:
        config = {"listen": {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"},
                  "compute": {"threads": 2, **({"cpu_variant": variant} if variant else {})},
                  "models": [{"name": "demo", "path": str(ROOT / "models/demo"), "device": "cpu", "precisions": PRECISIONS,
                              "kv_cache": {"memory_bytes": 16 << 20}}]}
        path, log = pathlib.Path(folder, "config.json"), pathlib.Path(folder, "log")
        path.write_text(json.dumps(config))
        with open(log, "wb") as errors:
            process = subprocess.Popen([*command, "serve", "--config", path], stdout=subprocess.PIPE, stderr=errors,
                                       text=True)
        try:
            ready = re.search(r"^READY grpc=(\S+) http=(\S+)", process.stdout.readline())
            if ready is None:
                raise RuntimeError(f"the server did not start: {log.read_text()[-800:]}")
            yield Server(ready.groups(), command)
            process.send_signal(signal.SIGINT)
            if process.wait(WAIT_S) != 0:
                raise RuntimeError(f"exit status {process.returncode} after SIGINT: {log.read_text()[-800:]}")
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def answers_of(server):
    """The variant that the server names, and its answers."""
    fingerprints, answers = set(), {}
    for precision in PRECISIONS:
        fingerprint, answers[f"flash {precision}"] = server.complete(precision)
        fingerprints.add(re.sub(r".*-(\w+)-cpu-.*", r"\1", fingerprint))
    for backend in ("efficient", "math"):
        _, answers[f"{backend} bf16"] = server.complete("bf16", backend)
    answers["chat"] = server.chat()
    return "/".join(sorted(fingerprints)), answers


def inspected(command):
    """The variant that `dunlin inspect` names."""
    told = subprocess.run([*command, "inspect", "--device", "cpu"], capture_output=True, text=True, timeout=WAIT_S, check=False)
    return re.sub(r"cpu \((\w+),.*", r"\1", told.stdout.partition("\n")[0]) or told.stderr


def problems_of(command, run, expected):
    """What is wrong with one of RUNS, in words, and how many answers are those of x86-64."""
    _, forced, variant, _ = run
    with serve(command, forced) as server:
        served, answers = answers_of(server)
        generated = subprocess.run(
            [*command, "generate", "--address", server.grpc, "--model", "demo", "--temperature", "0", "--max-tokens", "24",
             "--ignore-eos", "--precision", "fp32", "The history of the"], capture_output=True, text=True, timeout=WAIT_S,
            check=False)
        requests = server.counted(len(expected) + 1)
    problems = []
    if served != variant:
        problems.append(f"{served} served")
    if forced is None and (named := inspected(command)) != variant:
        problems.append(f"dunlin inspect names {named}")
    differing = [name for name, wanted in expected.items()
                 if answers[name]["text"] != wanted["text"] or (variant == "portable" and answers[name] != wanted)]
    problems += [f"{name}: {answers[name]}" for name in differing]
    if generated.stdout.strip() != answers["flash fp32"]["text"].strip():
        problems.append(f"generate: {generated.stdout}{generated.stderr}")
    if requests != len(expected) + 1:
        problems.append(f"/metrics counts {requests} requests of {len(expected) + 1}")
    same = sum(answers[name]["text"] == wanted["text"] for name, wanted in expected.items())
    bits = sum(answers[name] == wanted for name, wanted in expected.items())
    return problems, f"{same} of {len(expected)} texts and {bits} answers with all bits as x86-64's portable"


def refused(command):
    """None if a variant that the processor lacks is refused in words."""
    try:
        with serve(command, "neon_bf16"):
            return "served"
    except RuntimeError as problem:
        return None if "neon_bf16" in str(problem) else str(problem)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.write:
        with serve([arguments.binary], "portable") as server:
            _, answers = answers_of(server)
        ANSWERS.write_text(json.dumps(answers, indent=1) + "\n")
        return 0
    expected = json.loads(ANSWERS.read_text())
    command = [str(HERE / "emulated.sh"), os.path.abspath(arguments.binary)]
    failed = 0
    for run in RUNS:
        begin = time.monotonic()
        os.environ.update(QEMU_CPU=run[0], QEMU_PAGESIZE=str(run[3]))
        problems, seen = problems_of(command, run, expected)
        print(f"{run[0]:12} {run[2]:10} {'forced' if run[1] else 'chosen'}, pages of {run[3] >> 10:2} KiB: {seen}, "
              f"{time.monotonic() - begin:.0f} s", *problems, sep="\n  ", flush=True)
        failed += bool(problems)
    problem = refused(command)  # on the last one, a Cortex-A72
    print(f"{'cortex-a72':12} neon_bf16  refused: {problem or 'ok'}")
    return 1 if failed or problem else 0


if __name__ == "__main__":
    sys.exit(main())
