#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reloads a model again and again while clients use it: of good files, of damaged ones, and with servers that are killed.

    reload_campaign.py DUNLIN [--reloads 200] [--bad 60] [--kills 20] [--megabytes 300] [--clients 2] [--slack-megabytes 0]
                       [--folder DIR]

Makes a model of random weights, serves it on the CPU, and asks for reloads through POST /v2/repository/models/.../load.
Before a bad one its files are damaged (cut short, missing, a header or a JSON file that is none) and mended afterwards; in a
kill the server gets SIGKILL in the middle of a reload and is started again. It fails unless
- every request is answered with the text that the model said first, but for those of a killed process;
- good reloads are OK, bad ones refused, and the served version goes on;
- the process that is left at the end comes back to within 5 % of the memory that it had when it was new. The allocator
  keeps some megabytes whatever the model's size: --slack-megabytes says how many more are allowed of a small one.
Prints one JSON object. Needs nothing but Python. A test runs a short form; docs/operations.md has the long one.
"""
import argparse
import contextlib
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

PATIENCE_S = 120  # for whatever must come: READY, an answer, memory
MEMORY_SLACK = 1.05
REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
MODEL = "campaign"


def random_bf16(count, seed):
    """Values of 0.008 to 0.03 of either sign, little-endian; a mebibyte of them again and again."""
    block = bytearray(random.Random(seed).randbytes(1 << 20))
    block[1::2] = block[1::2].translate(bytes(0x3C if byte & 1 else 0xBC for byte in range(256)))
    return (block * (2 * count // len(block) + 1))[:2 * count]


def write_model(folder, megabytes):
    """A GPT-2 of that size (BF16) with the demo model's tokenizer."""
    source = REPOSITORY / "models/demo"
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, folder / name)
    config = json.loads((source / "config.json").read_text())
    width = 1024 if megabytes >= 100 else 512
    layers = max(1, math.ceil(megabytes * 1e6 / (24 * width * width)))
    config.update(n_embd=width, n_head=width // 64, n_layer=layers)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {"transformer.wte.weight": [config["vocab_size"], width],
               "transformer.wpe.weight": [config["n_positions"], width],
               "transformer.ln_f.weight": [width], "transformer.ln_f.bias": [width]}
    for layer in range(layers):
        at = f"transformer.h.{layer}."
        for norm in ("ln_1", "ln_2"):
            tensors |= {f"{at}{norm}.weight": [width], f"{at}{norm}.bias": [width]}
        for name, rows, columns in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
                                    ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width)):
            tensors |= {f"{at}{name}.weight": [rows, columns], f"{at}{name}.bias": [columns]}
    header, end = {}, 0
    for name, shape in tensors.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + 2 * math.prod(shape)]}
        end += 2 * math.prod(shape)
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for seed, (name, shape) in enumerate(tensors.items()):
            if len(shape) == 2:
                file.write(random_bf16(math.prod(shape), seed))
            else:
                file.write((b"\x80\x3f" if re.search(r"ln_.\.weight$", name) else b"\0\0") * shape[0])


def cut_short(model):
    with open(model / "model.safetensors", "rb") as file:
        head = file.read(1 << 20)
    replace(model / "model.safetensors", head[:len(head) * 3 // 4])


def replace(path, content):
    """A new file in its place: the pristine one is a hard link."""
    path.unlink()
    path.write_bytes(content)


DAMAGES = [
    ("cut short", cut_short),
    ("missing", lambda model: (model / "model.safetensors").unlink()),
    ("a header that is none", lambda model: replace(model / "model.safetensors", b"\xff" * 65536)),
    ("a config that is none", lambda model: replace(model / "config.json", b'{"architectures": [')),
    ("a tokenizer that is none", lambda model: replace(model / "tokenizer.json", b"[]")),
]


def mend(pristine, model):
    """By renames, as a deployment would, of what is not the pristine file itself."""
    for path in pristine.iterdir():
        if (model / path.name).exists() and path.samefile(model / path.name):
            continue
        new = model / (path.name + ".new")
        os.link(path, new)
        new.rename(model / path.name)


class Server:
    """A `dunlin serve`. killed: set before it is, so that clients know whose requests were lost."""

    def __init__(self, dunlin, config):
        self.killed = False
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([dunlin, "serve", "--config", config], stdout=subprocess.PIPE,
                                        stderr=self.log, text=True)
        timer = threading.Timer(PATIENCE_S, self.process.kill)
        timer.start()
        ready = re.match(r"READY grpc=\S+ http=(\S+)", self.process.stdout.readline())
        timer.cancel()
        if ready is None:
            self.log.seek(0)
            sys.exit("the server did not become ready: " + self.log.read().decode()[-4000:])
        self.http = ready[1]

    def post(self, path, body):
        """(status, body); (0, reason) where there was no answer."""
        request = urllib.request.Request(f"http://{self.http}{path}", json.dumps(body).encode(), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (OSError, urllib.error.URLError) as error:
            return 0, str(error)

    def reload(self):
        return self.post(f"/v2/repository/models/{MODEL}/load", {})

    def complete(self):
        status, text = self.post("/v1/completions", {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 4,
                                                     "temperature": 0, "ignore_eos": True})
        return json.loads(text)["choices"][0]["text"] if status == 200 else f"status {status}: {text}"

    def wait_for_pages(self):
        """Until the KV pages have their memory, which they get after READY."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=PATIENCE_S) as response:
                pages = dict(re.findall(r"^dunlin_kv_pages_(backed|total)\S* (\S+)$", response.read().decode(), re.M))
            if pages["backed"] == pages["total"]:
                return
            time.sleep(0.1)

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def kill(self):
        self.killed = True
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        return self.process.wait(PATIENCE_S)


class Campaign:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.model, self.pristine, self.config = folder / "model", folder / "pristine", folder / "config.json"
        write_model(self.pristine, arguments.megabytes)
        self.model.mkdir()
        mend(self.pristine, self.model)
        self.config.write_text(json.dumps({
            "access": {"admin_without_keys": True}, "listen": {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"},
            "models": [{"name": MODEL, "path": str(self.model), "device": "cpu", "precisions": ["bf16"],
                        "kv_cache": {"memory_bytes": 16 << 20}}]}))
        self.problems, self.requests, self.lost = [], 0, 0
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.start_server()
        self.expected = self.server.complete()

    def start_server(self):
        self.server = Server(self.arguments.dunlin, str(self.config))
        first = [self.server.complete() for _ in range(4)]
        self.server.wait_for_pages()
        self.baseline = self.server.resident_bytes()
        if len(set(first)) > 1 or first[0] != getattr(self, "expected", first[0]):
            self.problem(f"a new process says {first}")

    def problem(self, text):
        with self.lock:
            self.problems.append(text)

    def use(self):
        while not self.over.is_set():
            server = self.server
            text = server.complete()
            with self.lock:
                self.requests += 1
                if text == self.expected:
                    continue
                if server.killed:
                    self.lost += 1
                else:
                    self.problems.append(f"a request got {text[:500]}")
            if server.killed:
                time.sleep(0.1)

    def good(self):
        status, text = self.server.reload()
        if status != 200:
            self.problem(f"a reload of good files: status {status}: {text[:500]}")

    def bad(self, number):
        what, inflict = DAMAGES[number % len(DAMAGES)]
        inflict(self.model)
        status, text = self.server.reload()
        if status in (0, 200):
            self.problem(f"a reload of files with {what}: status {status}: {text[:500]}")
        mend(self.pristine, self.model)

    def kill(self, number):
        reload = threading.Thread(target=self.server.reload)
        reload.start()
        time.sleep(self.load_s * random.Random(number).random())
        self.server.kill()
        reload.join()
        self.start_server()

    def run(self):
        begun = time.monotonic()
        self.good()
        self.load_s = time.monotonic() - begun
        kinds = ["bad"] * self.arguments.bad + ["kill"] * self.arguments.kills
        kinds += ["good"] * (self.arguments.reloads - len(kinds))
        random.Random(1).shuffle(kinds)
        clients = [threading.Thread(target=self.use) for _ in range(self.arguments.clients)]
        for client in clients:
            client.start()
        for number, kind in enumerate(kinds):
            if kind == "good":
                self.good()
            else:
                getattr(self, kind)(number)
            print(f"{number + 1} of {len(kinds)}: {kind}, {self.requests} requests, {len(self.problems)} problems",
                  file=sys.stderr)
        self.good()  # what is left at the end is a version of good files
        self.over.set()
        for client in clients:
            client.join()
        deadline = time.monotonic() + PATIENCE_S
        limit = MEMORY_SLACK * self.baseline + self.arguments.slack_megabytes * 1e6
        while self.server.resident_bytes() > limit and time.monotonic() < deadline:
            time.sleep(0.2)
        resident = self.server.resident_bytes()
        if resident > limit:
            self.problem(f"{resident} bytes are resident at the end, {self.baseline} at first; limit is {limit:.0f}")
        if self.requests - self.lost < 1:
            self.problem("no request was answered")
        exit_status = self.server.stop()
        if exit_status != 0:
            self.problem(f"the server ended with status {exit_status}")
        return {"reloads": len(kinds) + 2, "bad": self.arguments.bad, "kills": self.arguments.kills,
                "model_bytes": (self.pristine / "model.safetensors").stat().st_size, "requests": self.requests,
                "lost_with_killed_processes": self.lost, "baseline_bytes": self.baseline, "resident_bytes": resident,
                "seconds": round(time.monotonic() - begun, 1), "problems": self.problems}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dunlin")
    for name, value in (("reloads", 200), ("bad", 60), ("kills", 20), ("megabytes", 300), ("clients", 2), ("slack-megabytes", 0)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--folder", help="where the model is written; the default is a temporary folder")
    arguments = parser.parse_args()
    if arguments.bad + arguments.kills > arguments.reloads:
        parser.error("--bad and --kills are of the --reloads")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder, contextlib.ExitStack() as stack:
        campaign = Campaign(arguments, pathlib.Path(folder))
        stack.callback(lambda: campaign.server.process.kill())
        stack.callback(campaign.over.set)
        result = campaign.run()
    print(json.dumps(result))
    return 1 if result["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
