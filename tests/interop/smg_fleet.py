# SPDX-License-Identifier: Apache-2.0
"""Workers of `dunlin serve`, one compute thread each, and the smg router before them. Standard library only; smg is
in the environment of the Python that runs this. Everything listens on loopback and ends with the program."""

import atexit
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

START_S, STOP_S = 60, 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, what, limit_s=START_S, every_s=0.05):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(every_s)
    raise AssertionError(f"not within {limit_s} s: {what}")


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


BINARY = os.environ.get("INTEROP_BINARY", "")  # of dunlin, as run.py says


class Process:
    def __init__(self, name, folder):
        self.name, self.log, self.process = name, pathlib.Path(folder) / f"{name}.log", None
        atexit.register(self.kill)

    def spawn(self, command, **more):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stderr=log, start_new_session=True, **more)

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """As kill -9, with everything that it started."""
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process = None


class Worker(Process):
    def __init__(self, name, model_dir, folder, served="demo", precision="bf16", **protocols):
        super().__init__(name, folder)
        self.grpc, self.http = free_port(), free_port()
        config = {"listen": {"grpc": f"127.0.0.1:{self.grpc}", "http": f"127.0.0.1:{self.http}"},
                  "log": {"level": "info"}, "compute": {"threads": 1}, "protocols": protocols,
                  "models": [{"name": served, "path": str(model_dir), "device": "cpu", "precisions": [precision],
                              "kv_cache": {"memory_bytes": 64 << 20, "event_batches": 1000}}]}
        self.config = pathlib.Path(folder) / f"{name}.json"
        self.config.write_text(json.dumps(config))

    @property
    def url(self):
        return f"grpc://127.0.0.1:{self.grpc}"

    def start(self):
        self.spawn([BINARY, "serve", "--config", self.config], stdout=subprocess.DEVNULL)
        wait_for(lambda: answers(f"http://127.0.0.1:{self.http}/readyz"), f"{self.name} is ready")
        return self

    def stop(self):
        """As an operator does; what is in flight ends first."""
        self.process.terminate()
        status = self.process.wait(STOP_S)
        self.process = None
        if status != 0:
            raise AssertionError(f"{self.name} ended with exit status {status}; see {self.log}")

    def metric(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.split("[{ ]", line, maxsplit=1)[0] == name)

    def requests(self):
        return self.metric("dunlin_requests_total")

    def connections(self):
        """Remote ports of the connections to the gRPC port, in every state that carries data."""
        found = set()
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            local, remote, state = line.split()[1:4]
            if int(local.split(":")[1], 16) == self.grpc and state == "01":
                found.add(int(remote.split(":")[1], 16))
        return found


class Router(Process):
    def __init__(self, name, folder, workers, policy, *options):
        super().__init__(name, folder)
        self.port, self.workers = free_port(), workers
        self.command = [sys.executable, "-m", "smg", "launch", "--host", "127.0.0.1", "--port", str(self.port),
                        "--backend", "vllm", "--policy", policy, "--prometheus-host", "127.0.0.1",
                        "--prometheus-port", str(free_port()), "--worker-startup-check-interval", "1",
                        "--worker-urls", *[worker.url for worker in workers], *options]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        with open(self.log, "ab") as log:
            self.spawn(self.command, stdout=log)
        wait_for(lambda: answers(self.url + "/readiness") and self.ready_workers() == len(self.workers),
                 f"{self.name} knows its workers; see {self.log}")
        return self

    def ready_workers(self):
        with urllib.request.urlopen(self.url + "/workers", timeout=5) as reply:
            return sum(bool(worker.get("is_healthy")) for worker in json.load(reply)["workers"])
