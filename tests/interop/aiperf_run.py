# SPDX-License-Identifier: Apache-2.0
"""`aiperf profile`, end to end, with the model's own tokenizer from its directory."""

import json
import pathlib
import subprocess
import sys

from checks import BASE_URL, ENCODER, FOLDER, LIMIT_S, MODEL, MODEL_DIR, Checks, holds, same

REQUESTS, PROMPT, NEW = 12, 32, 16
checks = Checks()


def run(endpoint, model, *more):
    """The report of one run; checks that every request succeeded."""
    folder = pathlib.Path(FOLDER) / f"aiperf-{endpoint}"
    command = [pathlib.Path(sys.executable).with_name("aiperf"), "profile", "--model", model, "--url", BASE_URL,
               "--endpoint-type", endpoint, "--tokenizer", MODEL_DIR, "--concurrency", "4",
               "--request-count", str(REQUESTS), "--prompt-input-tokens-mean", str(PROMPT), "--ui", "none",
               "--no-gpu-telemetry", "--output-artifact-dir", folder, *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    holds(done.returncode == 0, f"exit status {done.returncode}: {(done.stdout + done.stderr)[-800:]}")
    report = json.loads((folder / "profile_export_aiperf.json").read_text())
    same(report["request_count"]["avg"], REQUESTS, "number of requests")
    same(report.get("error_request_count", {"avg": 0})["avg"], 0, "number of errors")
    return report


def stream(endpoint, *more):
    report = run(endpoint, MODEL, "--streaming", "--prompt-output-tokens-mean", str(NEW), "--extra-inputs",
                 json.dumps({"ignore_eos": True}), *more)
    holds(report["time_to_first_token"]["avg"] > 0, "no time to first token")
    return report


def stream_counted(endpoint):
    report = stream(endpoint, "--use-server-token-count")
    same(report["output_sequence_length"]["avg"], NEW, "mean number of output tokens")


@checks.add("chat")
def chat():
    stream_counted("chat")


@checks.add("completions")
def completions():
    stream_counted("completions")


@checks.add("responses")
def responses():
    stream("responses")  # it looks for usage in response.completed only, not where an output ends for its length


@checks.add("messages")
def messages():
    stream_counted("messages")


@checks.add("embeddings")
def embeddings():
    run("embeddings", ENCODER)


checks.run()
