#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dunlin load --protocol openai` against `--protocol dunlin`: one server of the demo model, the same requests, in
turns. Prints for each number of streams the ratio of HTTP to gRPC in tokens/s and in p50 TTFT (medians over the turns
of the ratio within a turn), and the CPU time a token of the server and of the load generator. Then holds many SSE
streams at once, each a connection of its own.

Usage: compare_protocols.py BUILD_DIR [--streams 8 64] [--turns 5] [--seconds 4] [--held 2000] [--text-only]
Exit status 1 if a ratio misses its goal, or a held stream fails. The load generator shares the server's processors.
"""

import argparse
import json
import pathlib
import re
import resource
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENS_GOAL = 0.9
TTFT_GOAL = 1.3
PROMPT, NEW = 32, 64
HELD_PROMPT, HELD_NEW = 8, 64
DRAIN_S = 120


def start(binary, held):
    keys = {"listen.grpc": "127.0.0.1:0", "listen.http": "127.0.0.1:0", "log.level": "warn"}
    for key in ("limits.max_concurrent_requests", "scheduler.max_queued_requests", "limits.max_http_connections",
                "limits.max_http_connections_per_address"):
        keys[key] = str(held + 64)
    settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    process = subprocess.Popen([binary, "serve", "--config", ROOT / "configs/demo.json", *settings],
                               stdout=subprocess.PIPE)
    ready = re.match(r"READY grpc=(\S+).* http=(\S+)", process.stdout.readline().decode())
    if ready is None:
        process.kill()
        raise RuntimeError("the server did not start")
    return process, ready.group(1), ready.group(2)


class Load:
    """Runs of the load generator against one server; every run sends token ids below the model's vocabulary."""

    def __init__(self, binary, grpc, http, text_only):
        vocabulary = json.loads((ROOT / "models/demo/config.json").read_text())["vocab_size"]
        prompts = ["--model", "demo", "--prompt-form", "tokens", "--vocab-size", str(vocabulary)]
        metrics = ["--server-metrics", http, "--json", "-", "--quiet", "--max-errors", "0"]
        ids = [] if text_only else ["--token-ids"]
        self.command = [binary, "load", *prompts, *metrics]
        self.where = {"dunlin": ["--address", grpc], "openai": ["--protocol", "openai", "--address", http, *ids]}

    def run(self, protocol, timeout, *arguments):
        done = subprocess.run([*self.command, *self.where[protocol], *arguments], capture_output=True, text=True,
                              timeout=timeout)
        if done.returncode != 0:
            raise RuntimeError(f"{protocol} {' '.join(arguments)}: {done.stderr}{done.stdout[:2000]}")
        return json.loads(done.stdout)


def compare(load, streams, turns, seconds):
    """Rows {protocol: result}, one for each turn; the order alternates."""
    shape = ["--concurrency", str(streams), "--input-len", str(PROMPT), "--output-len", str(NEW), "--warmup", "0.5",
             "--duration", str(seconds), "--drain", "30"]
    rows = []
    for turn in range(turns):
        order = ("dunlin", "openai") if turn % 2 == 0 else ("openai", "dunlin")
        rows.append({name: load.run(name, seconds + 60, "--seed", str(turn), *shape) for name in order})
    return rows


def report(streams, rows):
    """Prints the figures; the two ratios."""
    def each(key, protocol):
        return statistics.median(row[protocol][key] for row in rows)

    def ratio(key):
        return statistics.median(row["openai"][key] / row["dunlin"][key] for row in rows)

    def server_us(protocol):
        return statistics.median(1e6 * row[protocol]["server"]["growth"]["cpu_seconds"] /
                                 row[protocol]["total_output_tokens"] for row in rows)

    for protocol in ("dunlin", "openai"):
        print(f"{streams} streams, {protocol}: {each('output_throughput', protocol):.0f} tokens/s, TTFT p50 "
              f"{each('p50_ttft_ms', protocol):.2f} ms, ITL p50 {each('p50_itl_ms', protocol):.2f} ms, "
              f"{each('mean_tokens_per_message', protocol):.2f} tokens a message; CPU us a token: server "
              f"{server_us(protocol):.1f}, load generator {each('client_cpu_us_per_token', protocol):.1f}")
    tokens, ttft = ratio("output_throughput"), ratio("p50_ttft_ms")
    print(f"{streams} streams: HTTP / gRPC tokens/s {tokens:.3f} (goal >= {TOKENS_GOAL}), p50 TTFT {ttft:.3f} "
          f"(goal <= {TTFT_GOAL})", flush=True)
    return tokens, ttft


def hold(load, held):
    num_requests = held * 5 // 4  # ended streams are replaced, so that all are open together once
    checks = [f"completed>={num_requests}", f"max_concurrent_requests>={held}", f"server.max.open_fds>={held}",
              "server.after.kv_pages_used<=0", "server.growth.open_fds<=4"]
    arguments = [word for check in checks for word in ("--check", check)]
    result = load.run("openai", DRAIN_S + 60, "--concurrency", str(held), "--num-prompts", str(num_requests),
                      "--input-len", str(HELD_PROMPT), "--output-len", str(HELD_NEW), "--drain", str(DRAIN_S),
                      *arguments)
    server = result["server"]
    print(f"{held} SSE streams at once: {result['completed']} completed in {result['duration']:.1f} s, server's RSS "
          f"{server['before']['rss_bytes'] / 1e6:.0f} MB before, {server['max']['rss_bytes'] / 1e6:.0f} MB at most, "
          f"{server['after']['rss_bytes'] / 1e6:.0f} MB after")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--streams", type=int, nargs="*", default=[8, 64])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--held", type=int, default=2000, help="0: skip")
    parser.add_argument("--text-only", action="store_true", help="HTTP streams without token ids")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # of both processes: a connection is a descriptor
    binary = options.build.resolve() / "dunlin"
    server, grpc, http = start(binary, options.held)
    good = True
    try:
        load = Load(binary, grpc, http, options.text_only)
        for streams in options.streams:
            tokens, ttft = report(streams, compare(load, streams, options.turns, options.seconds))
            good = good and tokens >= TOKENS_GOAL and ttft <= TTFT_GOAL
        if options.held > 0:
            hold(load, options.held)
    finally:
        server.terminate()
        server.wait(30)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
