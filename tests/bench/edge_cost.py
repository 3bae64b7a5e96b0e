#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of Dunlin's RPC edge: one-token requests on the demo model, one at a time, alternating with an echo server
whose Generate only streams one message. Prints the median of (E2E minus engine time) minus the echo's E2E. Engine time
runs from first scheduled to finished, so that submission counts towards the edge.

Usage: edge_cost.py BUILD_DIR [TURNS [SECONDS_PER_TURN]]. Exit status 1 if it exceeds 120 us.
"""

import json
import pathlib
import re
import statistics
import subprocess
import sys

GOAL_US = 120
ROOT = pathlib.Path(__file__).resolve().parents[2]


def start(command):
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    line = process.stdout.readline().decode()
    return process, re.search(r"grpc=(\S+)", line).group(1)


def stop(process):
    process.stdin.close()
    process.terminate()
    process.wait(20)


def measure(binary, address, seconds):
    command = [binary, "load", "--address", address, "--model", "demo", "--concurrency", "1", "--warmup", "0.3",
               "--duration", str(seconds), "--input-len", "8", "--output-len", "1", "--json", "-", "--quiet",
               "--max-errors", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=True)
    return json.loads(done.stdout)


def main():
    build = pathlib.Path(sys.argv[1])
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 2
    binary = str(build / "dunlin")
    server, address = start([binary, "serve", "--config", str(ROOT / "configs/demo.json"), "--set",
                             "listen.grpc=127.0.0.1:0", "--set", "listen.http=127.0.0.1:0", "--set", "log.level=warn"])
    echo, echo_address = start([str(build / "tests/echo_server")])
    rows = []
    try:
        for turn in range(turns):
            floor = measure(binary, echo_address, seconds)["p50_e2el_ms"] * 1000
            ours = measure(binary, address, seconds)
            row = (ours["p50_beyond_engine_ms"] * 1000 - floor, floor, ours["p50_e2el_ms"] * 1000, ours["completed"])
            rows.append(row)
            print(f"turn {turn}: edge {row[0]:.1f} us above the echo's {row[1]:.1f} us; "
                  f"E2E p50 {row[2]:.1f} us, {row[3]} requests")
    finally:
        stop(server)
        stop(echo)
    median = statistics.median(row[0] for row in rows)
    print(f"edge cost p50: {median:.1f} us (goal <= {GOAL_US} us)")
    return 0 if median <= GOAL_US else 1


if __name__ == "__main__":
    sys.exit(main())
