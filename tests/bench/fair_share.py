#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a key's first tokens cost beside a flood of another key: one server of the demo model with two keys. In turns, the
light key's p50 and p99 TTFT alone and beside many prompts of the other one at once, and the ratio of the p99 (the median
over the turns). Then more of them than the queue holds: the light key must not be refused.

Usage: fair_share.py BUILD_DIR [--turns 3] [--flood 200] [--over 300] [--prompt 64] [--seconds 5]
Exit status 1 if the ratio misses its goal, or the light key is refused. The load generator shares the server's
processors.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOAL = 2.0
FLOOD_PROMPT, FLOOD_NEW, LIGHT_NEW = 512, 64, 16
SETTLE_S = 2


def new_key(binary, folder, name):
    """Adds a key to the folder's key file; the path of the file that holds it."""
    done = subprocess.run([binary, "key", "new", "--name", name, "--file", folder / "keys.json"], capture_output=True,
                          text=True, timeout=30, check=True)
    path = folder / f"{name}.key"
    path.write_text(done.stdout)
    return path


def start(binary, folder):
    keys = {"listen.grpc": "127.0.0.1:0", "listen.http": "127.0.0.1:0", "log.level": "warn",
            "access.keys_file": folder / "keys.json"}
    settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    process = subprocess.Popen([binary, "serve", "--config", ROOT / "configs/demo.json", *settings],
                               stdout=subprocess.PIPE)
    ready = re.match(r"READY grpc=(\S+)", process.stdout.readline().decode())
    if ready is None:
        process.kill()
        raise RuntimeError("the server did not start")
    return process, ready.group(1)


class Load:
    def __init__(self, binary, address):
        self.command = [binary, "load", "--address", address, "--model", "demo", "--json", "-", "--quiet"]

    def light(self, key, prompt, seconds, seed):
        done = subprocess.run([*self.command, "--api-key-file", key, "--concurrency", "1", "--duration", str(seconds),
                               "--input-len", str(prompt), "--output-len", str(LIGHT_NEW), "--seed", str(seed)],
                              capture_output=True, text=True, timeout=seconds + 60)
        return json.loads(done.stdout)

    def flood(self, key, concurrency, seconds):
        return subprocess.Popen([*self.command, "--api-key-file", key, "--concurrency", str(concurrency), "--duration",
                                 str(seconds), "--input-len", str(FLOOD_PROMPT), "--output-len", str(FLOOD_NEW)],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def beside(load, keys, concurrency, options, seed):
    """The light key's results while the other one floods, and the flood's."""
    flood = load.flood(keys["flood"], concurrency, options.seconds + 2 * SETTLE_S)
    time.sleep(SETTLE_S)
    light = load.light(keys["light"], options.prompt, options.seconds, seed)
    out, _ = flood.communicate(timeout=120)
    return light, json.loads(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--flood", type=int, default=200, help="requests of the other key at once")
    parser.add_argument("--over", type=int, default=300, help="more of them than the queue holds; 0: skip")
    parser.add_argument("--prompt", type=int, default=64, help="tokens of the light key's prompts")
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    binary = options.build.resolve() / "dunlin"
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        keys = {who: new_key(binary, folder, who) for who in ("flood", "light")}
        server, address = start(binary, folder)
        try:
            load = Load(binary, address)
            ratios = []
            for turn in range(options.turns):
                alone = load.light(keys["light"], options.prompt, options.seconds, turn)
                light, flood = beside(load, keys, options.flood, options, turn)
                ratios.append(light["p99_ttft_ms"] / alone["p99_ttft_ms"])
                print(f"TTFT of {options.prompt} tokens, p50 / p99: alone {alone['p50_ttft_ms']:.2f} / "
                      f"{alone['p99_ttft_ms']:.2f} ms, beside {options.flood} prompts of {FLOOD_PROMPT} tokens "
                      f"{light['p50_ttft_ms']:.2f} / {light['p99_ttft_ms']:.2f} ms ({light['completed']} requests); the "
                      f"flood {flood['request_throughput']:.1f} requests/s", flush=True)
            ratio = statistics.median(ratios)
            print(f"p99 TTFT beside a flood / alone: {ratio:.2f} (goal <= {GOAL})", flush=True)
            good = ratio <= GOAL
            if options.over > 0:
                light, flood = beside(load, keys, options.over, options, options.turns)
                print(f"beside {options.over} at once: of the light key {light['completed']} requests completed, "
                      f"{light['refused']} were refused and {light['failed']} failed; of the flood "
                      f"{flood['completed']}, {flood['refused']} and {flood['failed']}")
                good = good and light["refused"] + light["failed"] == 0 < light["completed"]
        finally:
            server.terminate()
            server.wait(30)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
