# SPDX-License-Identifier: Apache-2.0
"""`guidellm run`, end to end, with the model's own tokenizer from its directory."""

import json
import os
import pathlib
import subprocess
import sys

from checks import BASE_URL, FOLDER, LIMIT_S, MODEL, MODEL_DIR, Checks, holds, same

REQUESTS, PROMPT, NEW = 12, 32, 16
checks = Checks()


def run(path):
    report = pathlib.Path(FOLDER) / "guidellm.json"
    report.unlink(missing_ok=True)
    command = [pathlib.Path(sys.executable).with_name("guidellm"), "run",
               "--backend", f"kind=openai_http,target={BASE_URL},model={MODEL},request_format={path}",
               "--tokenizer", f"kind=huggingface_auto,model={MODEL_DIR}",
               "--data", f"kind=synthetic_text,prompt_tokens={PROMPT},output_tokens={NEW}",
               "--profile", "kind=concurrent,streams=4", "--constraint", f"kind=max_requests,count={REQUESTS}",
               "--output", f"kind=json,path={report}", "--disable-console-interactive"]
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=offline)
    holds(done.returncode == 0, f"exit status {done.returncode}: {(done.stdout + done.stderr)[-800:]}")
    metrics = json.loads(report.read_text())["benchmarks"][0]["metrics"]
    same(metrics["request_totals"], {"successful": REQUESTS, "errored": 0, "incomplete": 0, "total": REQUESTS})
    same(metrics["output_token_count"]["successful"]["total_sum"], REQUESTS * NEW, "number of output tokens")
    holds(metrics["time_to_first_token_ms"]["successful"]["median"] > 0, "no time to first token")


@checks.add("chat")
def chat():
    run("/v1/chat/completions")


@checks.add("completions")
def completions():
    run("/v1/completions")


@checks.add("responses")
def responses():
    run("/v1/responses")


checks.run()
