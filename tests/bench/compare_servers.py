#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dunlin serve` against `llama_cpp.server` (llama-cpp-python), both loaded by `dunlin load`: the same random GPT-2 124M
weights and vocabulary, the same word prompts, tokens streamed as text. One server runs at a time.

Usage: compare_servers.py BUILD_DIR PEERS_DIR [STREAMS:PROMPT:NEW]...
PEERS_DIR is the --work folder of compare_peers.py, with its environment and weights; llama-cpp-python[server] must be
installed in it. Each case is a closed loop of STREAMS concurrent requests. Environment variables: SECONDS_EACH (30) and
DRAIN (60) bound a case, DTYPE (BF16) is llama.cpp's weight type, ONLY (dunlin or llama_cpp.server) runs one of the two.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
import shapes
import vocabulary

SHAPE = "gpt2-124m"
DTYPE = os.environ.get("DTYPE", "BF16")
SECONDS = float(os.environ.get("SECONDS_EACH", "30"))
DRAIN = float(os.environ.get("DRAIN", "60"))
ONLY = os.environ.get("ONLY", "")
CASES = ["1:512:128", "8:512:128", "32:512:128", "32:32:256"]


def prepare(peers):
    """Model directories for both: the checkpoint with a tokenizer, and a GGUF with the same vocabulary."""
    folder = peers / SHAPE / "server"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "model.safetensors"):
        if not (folder / name).exists():
            shutil.copy(peers / SHAPE / "hf" / name, folder / name)
    vocabulary.write_tokenizer(folder, shapes.CONFIGS[SHAPE]["vocab_size"])
    gguf = folder / f"{DTYPE}.gguf"
    if not gguf.exists():
        code = ("import sys, pathlib; sys.path.insert(0, sys.argv[1]); import shapes, weights; "
                "weights.make_gguf(pathlib.Path(sys.argv[3]), shapes.CONFIGS[sys.argv[5]], "
                "weights.Checkpoint(pathlib.Path(sys.argv[2])), sys.argv[4])")
        subprocess.run([peers / "venv/bin/python", "-c", code, HERE / "peers", folder / "model.safetensors", gguf, DTYPE,
                        SHAPE], check=True, timeout=120)
    return folder, gguf


def start_dunlin(build, folder, work):
    config = {"listen": {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"}, "log": {"level": "warn"},
              "models": [{"name": "m", "path": str(folder), "device": "cpu", "precisions": ["bf16"],
                          "kv_cache": {"memory_bytes": 1 << 31}}]}
    (work / "dunlin.json").write_text(json.dumps(config))
    process = subprocess.Popen([build / "dunlin", "serve", "--config", work / "dunlin.json"], stdout=subprocess.PIPE)
    address = re.search(r"grpc=(\S+)", process.stdout.readline().decode()).group(1)
    return process, ["--address", address]


def start_llama(peers, gguf, work):
    port = 18090 + os.getpid() % 1000
    command = [peers / "venv/bin/python", "-m", "llama_cpp.server", "--model", gguf, "--model_alias", "m", "--port",
               str(port), "--n_ctx", "1024", "--n_threads", str(os.cpu_count()), "--n_threads_batch",
               str(os.cpu_count()), "--interrupt_requests", "false", "--verbose", "false"]
    with open(work / "llama.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    for _ in range(300):
        time.sleep(0.1)
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=1).read()
            return process, ["--protocol", "openai", "--address", f"127.0.0.1:{port}"]
        except OSError:
            if process.poll() is not None:
                break
    process.kill()
    raise RuntimeError(f"llama_cpp.server did not start, see {work / 'llama.log'}")


def tokens_per_second(result):
    """Tokens received while requests were being sent, including those of requests abandoned at the end."""
    slots, slot_s = result["timeline"]["output_tokens_per_s"], result["timeline"]["slot_s"]
    taken = slots[:max(1, int(SECONDS / slot_s))]
    return sum(taken) / len(taken)


def load(build, where, case):
    streams, prompt, new = case.split(":")
    command = [build / "dunlin", "load", *where, "--model", "m", "--concurrency", streams, "--duration", str(SECONDS),
               "--drain", str(DRAIN), "--input-len", prompt, "--output-len", new, "--prompt-form", "words",
               "--json", "-", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + DRAIN + 60)
    if not done.stdout:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def main():
    build, peers = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    cases = sys.argv[3:] or CASES
    folder, gguf = prepare(peers)
    results = {}
    for name, start in (("dunlin", lambda: start_dunlin(build, folder, peers)),
                        ("llama_cpp.server", lambda: start_llama(peers, gguf, peers))):
        if ONLY and name != ONLY:
            continue
        process, where = start()
        try:
            for case in cases:
                results[name, case] = result = load(build, where, case)
                prompt = result["total_input_tokens"] / max(1, result["completed"])
                print(f"{name} {case}: {tokens_per_second(result):.1f} output tokens/s, TTFT p50 "
                      f"{result['p50_ttft_ms']:.1f} ms, TPOT p50 {result['p50_tpot_ms']:.2f} ms, "
                      f"{result['completed']} completed, {result['failed']} failed, {result['unfinished']} unfinished, "
                      f"{result['duration']:.1f} s, prompt {prompt:.0f} tokens", flush=True)
        finally:
            process.terminate()
            process.wait(30)
    for case in [] if ONLY else cases:
        ours, theirs = results["dunlin", case], results["llama_cpp.server", case]
        if tokens_per_second(theirs) > 0 and theirs["p50_ttft_ms"] > 0:
            print(f"{case}: {tokens_per_second(ours) / tokens_per_second(theirs):.2f} x tokens/s, "
                  f"{ours['p50_ttft_ms'] / theirs['p50_ttft_ms']:.2f} x TTFT p50")


if __name__ == "__main__":
    main()
