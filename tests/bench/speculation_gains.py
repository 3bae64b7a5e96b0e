#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What guesses give one stream: a server of MODEL decodes the same answers with `speculation` off and auto, in turns, and
the answers must be the same. Prompts: code to edit, a text to repeat and to summarise, greedily, a story, and random words
at temperature 1, where hardly any guess is right. Rates are of the tokens after the first one; the ratio is the median of
the turns'.

With --peer-python, llama.cpp's own modes answer the same prompts in turns with the server (peers/llama_cpp_speculation.py).

Usage: speculation_gains.py BUILD_DIR MODEL [--draft MODEL|mtp] [--precision bf16] [--int8-inputs] [--prompts edit,...]
       [--tokens 64] [--turns 2] [--streams 1] [--peer-python PYTHON_WITH_XLLAMACPP [--peer-modes plain,ngram-simple,...]]
       [--processor-time]
Exit status 1 if an answer changes. Measure with nothing else running; on a machine that others use, with --processor-time
under `taskset -c 0`, which makes every engine compute on one thread.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))

import llama_cpp_speculation  # noqa: E402

CODE = '''class Queue:
    def __init__(self, limit):
        self.limit = limit
        self.items = []

    def push(self, item):
        if len(self.items) >= self.limit:
            raise OverflowError("the queue is full")
        self.items.append(item)

    def pop(self):
        if not self.items:
            raise IndexError("the queue is empty")
        return self.items.pop(0)
'''
TEXT = '''The dunlin is a small wader which breeds in the north and winters on the coasts of Europe. In summer it has a black patch
on its belly. It eats insects on the tundra and worms on the mudflats. Large flocks gather where rivers meet the sea.
'''
PROMPTS = {
    "edit": (f"Rename the class Queue to Buffer and print the whole file again.\n```python\n{CODE}```", 0),
    "repeat": (f"Repeat this text word by word:\n{TEXT}", 0),
    "summary": (f"Summarise this text in the words that it has:\n{TEXT}", 0),
    "story": ("Tell me a story of a bird that flies to the sea.", 0),
    "random": (" ".join(random.Random(1).choices(re.findall(r"\w+", CODE + TEXT), k=60)), 1),
}


def processor_seconds(process):
    """Of all threads of a child, so far."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(ticks) for ticks in fields[11:13]) / os.sysconf("SC_CLK_TCK")


class Server:
    def __init__(self, options, folder):
        model = {"name": "model", "path": str(options.model.resolve()), "device": "cpu", "max_context_tokens": 1024,
                 "kv_cache": {"memory_bytes": 1 << 29}, "speculation": {"tokens": "off"}}
        if options.precision:
            model["precisions"] = [options.precision]
        if options.int8_inputs:
            model["int8_inputs"] = True
        if options.draft:
            model["speculation"]["draft"] = options.draft if options.draft == "mtp" else str(
                pathlib.Path(options.draft).resolve())
        config = folder / "config.json"
        config.write_text(json.dumps({"listen": {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"}, "log": {"level": "warn"},
                                      "models": [model]}))
        self.process = subprocess.Popen([options.build.resolve() / "dunlin", "serve", "--config", config],
                                        stdout=subprocess.PIPE)
        ready = re.search(r"http=(\S+)", self.process.stdout.readline().decode())
        if ready is None:
            self.process.kill()
            raise RuntimeError("the server did not start")
        self.url = f"http://{ready.group(1)}/v1/chat/completions"

    def ask(self, prompt, temperature, speculation, tokens):
        """The answer, its rate in tokens a second, and its usage."""
        body = {"model": "model", "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "seed": 7,
                "temperature": temperature, "ignore_eos": True, "speculation": speculation, "stream": True,
                "stream_options": {"include_usage": True}}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        text, usage, first, last = "", {}, None, None
        with urllib.request.urlopen(request, timeout=300) as reply:
            for line in reply:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                usage = event.get("usage") or usage
                for choice in event["choices"]:
                    text += choice["delta"].get("content") or ""
                    last = time.monotonic()
                    if first is None and choice["delta"].get("content"):
                        first = last
        return text, (usage["completion_tokens"] - 1) / (last - first), usage

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def run(server, name, speculation, options):
    """The answers of the streams, their rate together, and guesses that were verified and right."""
    prompt, temperature = PROMPTS[name]
    begin = processor_seconds(server.process)
    with concurrent.futures.ThreadPoolExecutor(options.streams) as pool:
        answers = list(pool.map(lambda _: server.ask(prompt, temperature, speculation, options.tokens),
                                range(options.streams)))
    details = [usage.get("completion_tokens_details") or {} for _, _, usage in answers]
    right = sum(detail.get("accepted_prediction_tokens", 0) for detail in details)
    wrong = sum(detail.get("rejected_prediction_tokens", 0) for detail in details)
    rate = sum(rate for _, rate, _ in answers)
    if options.processor_time:
        rate = options.streams * (options.tokens - 1) / (processor_seconds(server.process) - begin)
    return [text for text, _, _ in answers], rate, right + wrong, right


def rate_of_peer(peer, name, options):
    begin = processor_seconds(peer.process)
    rate = peer.rate(*PROMPTS[name], options.tokens)
    return (options.tokens - 1) / (processor_seconds(peer.process) - begin) if options.processor_time else rate


def compare(server, peers, name, options):
    server.ask(*PROMPTS[name], "off", 2)  # the prompt is in the prefix cache from now on
    rates, expected = {"off": [], "auto": []}, None
    of_peers = {peer.mode: [] for peer in peers}
    for peer in peers:
        peer.rate(*PROMPTS[name], 2)
    verified, right = 0, 0
    for turn in range(options.turns):
        for peer in peers:
            of_peers[peer.mode].append(rate_of_peer(peer, name, options))
        for speculation in ("off", "auto") if turn % 2 == 0 else ("auto", "off"):
            texts, rate, *guesses = run(server, name, speculation, options)
            verified, right = guesses if speculation == "auto" else (verified, right)
            expected = expected or texts
            if texts != expected:
                print(f"{name}: speculation {speculation} changed the answer", flush=True)
                return False
            rates[speculation].append(rate)
    off, auto = (statistics.median(rates[speculation]) for speculation in ("off", "auto"))
    ratio = statistics.median(fast / plain for plain, fast in zip(rates["off"], rates["auto"]))
    cells = [f"{ratio:.2f}", *(f"{statistics.median(of_mode):.2f}" for of_mode in of_peers.values())]
    print(f"| {name} | {off:.2f} | {auto:.2f} | {verified}, {right} | {' | '.join(cells)} |", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--draft")
    parser.add_argument("--precision")
    parser.add_argument("--int8-inputs", action="store_true", help="as models[].int8_inputs")
    parser.add_argument("--prompts", default=",".join(PROMPTS))
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--processor-time", action="store_true", help="rates by the processor time of the processes")
    parser.add_argument("--peer-python", help="a Python with the package xllamacpp")
    parser.add_argument("--peer-modes", default="plain,ngram-simple,ngram-cache")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        peers = [llama_cpp_speculation.Peer(options.peer_python, options.model, mode, options.draft)
                 for mode in options.peer_modes.split(",") if options.peer_python]
        server = Server(options, pathlib.Path(folder))
        try:
            head = ["answer", "tokens/s, off", "auto", "verified, right", "ratio", *(f"llama.cpp, {peer.mode}" for peer in peers)]
            print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|", flush=True)
            same = [compare(server, peers, name, options) for name in options.prompts.split(",")]
        finally:
            server.stop()
            for peer in peers:
                peer.stop()
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
