# SPDX-License-Identifier: Apache-2.0
"""NVIDIA Dynamo: its frontend in KV-router mode and its vLLM sidecar, in front of two workers, all on loopback; workers are
found through files. The sidecar speaks vllm.Inference and vllm.Control, and reads the workers' KV events over ZeroMQ.

Starts its own workers, from the binary that INTEROP_BINARY names.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request

from checks import FOLDER, MODEL_DIR, QUESTION, Checks, holds, metric, same

READY_S, STOP_S = 60, 10
NUM_WORKERS = 2
checks = Checks()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A program whose output goes to a file; it ends with this one."""

    def __init__(self, name, command, environment=None):
        self.log = pathlib.Path(FOLDER) / f"dynamo_{name}.log"
        self.process = subprocess.Popen(command, stdout=self.log.open("wb"), stderr=subprocess.STDOUT,
                                        env={**os.environ, **(environment or {})})

    def wait_for_line(self, pattern):
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            found = re.search(pattern, self.log.read_text(errors="replace"), re.MULTILINE)
            if found:
                return found
            holds(self.process.poll() is None, f"{self.log.name}: {self.log.read_text(errors='replace')[-800:]}")
            time.sleep(0.1)
        raise TimeoutError(f"{self.log.name} does not say {pattern}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()


class Worker:
    def __init__(self, index):
        config = {
            "listen": {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"}, "log": {"level": "warn"},
            "compute": {"threads": 1, "text_threads": 1},
            "models": [{"name": "demo", "path": str(MODEL_DIR), "device": "cpu", "precisions": ["bf16"],
                        "kv_cache": {"memory_bytes": 32 << 20, "event_batches": 10000,
                                     "events_endpoint": "tcp://127.0.0.1:0", "events_topic": "kv-events",
                                     "events_replay_endpoint": "tcp://127.0.0.1:0"}}]}
        path = pathlib.Path(FOLDER) / f"dynamo_worker{index}.json"
        path.write_text(json.dumps(config))
        self.server = Process(f"worker{index}", [os.environ["INTEROP_BINARY"], "serve", "--config", str(path)])
        ready = self.server.wait_for_line(r"^READY grpc=(\S+) http=(\S+)")
        self.grpc, self.http = ready.group(1), f"http://{ready.group(2)}"
        self.sidecar = None

    def start_sidecar(self, index, environment):
        self.sidecar = Process(f"sidecar{index}", [sys.executable, "-m", "dynamo.vllm.sidecar", "--grpc-endpoint", self.grpc],
                               environment)

    def prefix_hits(self):
        return metric("vllm:prefix_cache_hits_total", self.http)

    def stop(self):
        for process in (self.sidecar, self.server):
            if process is not None:
                process.stop()


class Cluster:
    def __init__(self):
        store = pathlib.Path(FOLDER) / f"dynamo_store_{os.getpid()}"
        environment = {"DYN_DISCOVERY_BACKEND": "file", "DYN_FILE_KV": str(store), "DYN_REQUEST_PLANE": "tcp",
                       "DYN_EVENT_PLANE": "zmq", "HF_HUB_OFFLINE": "1"}
        self.url = f"http://127.0.0.1:{free_port()}"
        self.workers = [Worker(index) for index in range(NUM_WORKERS)]
        for index, worker in enumerate(self.workers):
            worker.start_sidecar(index, environment)
        self.frontend = Process("frontend", [sys.executable, "-m", "dynamo.frontend", "--router-mode", "kv", "--http-host",
                                             "127.0.0.1", "--http-port", self.url.rsplit(":", 1)[1]], environment)

    def post(self, path, body, timeout=30):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=timeout)

    def wait_until_ready(self):
        """Until both workers serve: the frontend lists the model, and requests reach each of them."""
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(self.url + "/v1/models", timeout=5) as reply:
                    if json.load(reply)["data"]:
                        return
            time.sleep(0.2)
        raise TimeoutError(f"the frontend lists no model: {self.frontend.log.read_text(errors='replace')[-800:]}")

    def stop(self):
        self.frontend.stop()
        for worker in self.workers:
            worker.stop()


def chat(text, **more):
    return {"model": "demo", "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 24, **more}


def events(reply):
    for line in reply:
        if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
            yield json.loads(line[6:])


def answer(cluster, text, **more):
    with cluster.post("/v1/chat/completions", chat(text, **more)) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]


def streamed(cluster, text, **more):
    with cluster.post("/v1/chat/completions", chat(text, stream=True, **more)) as reply:
        return "".join(event["choices"][0]["delta"].get("content") or "" for event in events(reply) if event["choices"])


def main():
    cluster = Cluster()
    try:
        @checks.add("frontend finds the workers")
        def find():
            cluster.wait_until_ready()

        @checks.add("chat, streamed and whole")
        def chats():
            whole = answer(cluster, QUESTION)
            holds(whole.strip(), "the answer is empty")
            same(streamed(cluster, QUESTION), whole)

        @checks.add("prefix hits rise under KV routing")
        def hits():
            before = [worker.prefix_hits() for worker in cluster.workers]
            text = "The waders of Wrenmouth: " + " ".join(f"bird {i} eats worms." for i in range(24))
            for _ in range(8):
                answer(cluster, text)
                time.sleep(0.3)  # events reach the router
            risen = [worker.prefix_hits() - old for worker, old in zip(cluster.workers, before)]
            holds(max(risen) > 0, f"hits rose by {risen}")
            holds(min(risen) < max(risen) / 4, f"requests with one prefix went to both workers: hits rose by {risen}")

        @checks.add("a worker is killed in the middle of streams")
        def kill():
            whole = answer(cluster, "Tell me of birds.", max_tokens=160, ignore_eos=True)
            outcomes = []

            def one(index):
                try:
                    outcomes.append(streamed(cluster, f"Tell me of birds. {index}", max_tokens=160, ignore_eos=True))
                except Exception as error:  # of a stream on the killed worker
                    outcomes.append(error)
            threads = [threading.Thread(target=one, args=(index,)) for index in range(8)]
            for thread in threads:
                thread.start()
            time.sleep(0.3)
            cluster.workers[0].server.kill()
            for thread in threads:
                thread.join()
            holds(any(isinstance(outcome, str) and outcome for outcome in outcomes), f"no stream was left: {outcomes}")
            end = time.monotonic() + 20
            while time.monotonic() < end:
                with contextlib.suppress(OSError):
                    same(answer(cluster, "Tell me of birds.", max_tokens=160, ignore_eos=True), whole)
                    return
                time.sleep(0.5)
            raise AssertionError("the other worker does not take over")

        checks.run()
    finally:
        cluster.stop()


main()
