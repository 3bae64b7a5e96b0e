# SPDX-License-Identifier: Apache-2.0
"""The rows of served.py about calls that end early, and about half a minute of load. Standard library only."""

import json
import subprocess
import threading
import time

import kinds
from processes import Failure, end, run

LOAD_SECONDS = 30
MIX = "flash:bf16=3,efficient:fp8=1,math:fp16=1"
# What resident memory may grow by between a quarter of the load and its end; GPU memory is taken at the start.
HOST_GROWTH = 48 << 20
GPU_GROWTH_MIB = 16


def wait_for(what, condition, seconds=10):
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise Failure(f"not within {seconds} s: {what}")
        time.sleep(0.01)


def cancelled_and_late(served):
    """A client that goes away, and a deadline that passes: both end the call, and its pages are free again."""
    gpu = served.server("cuda")
    prompt = list(range(3, 35))
    late = gpu.call(gpu.command("llama", prompt, "--max-tokens", "1900", "--timeout-ms", "60"))
    if late.returncode == 0 or "DEADLINE_EXCEEDED" not in late.stdout:
        raise Failure(f"a call of 60 ms ended with {late.returncode}: {late.stdout[:300]}")
    before = gpu.metric("dunlin_requests_total", status="CANCELLED")
    clients = [subprocess.Popen(gpu.command("llama", prompt, "--max-tokens", "1900", "--cache-salt", str(i)),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=gpu.environment,
                                start_new_session=True) for i in range(8)]
    try:
        wait_for("a running sequence", lambda: gpu.metric("vllm:num_requests_running", model_name="llama") > 0)
    finally:
        for client in clients:
            end(client)
    wait_for("no call in flight", lambda: gpu.metric("dunlin_requests_in_flight") == 0)
    wait_for("no page in use", lambda: gpu.metric("dunlin_kv_pages_used", model_name="llama") == 0)
    cancelled = gpu.metric("dunlin_requests_total", status="CANCELLED") - before
    if cancelled < 1:
        raise Failure("no call was counted as CANCELLED")
    return f"a late call ended at its deadline, {cancelled:.0f} calls were cancelled, no page stayed in use"


class Memory(threading.Thread):
    """Samples of the server's resident memory, and of the GPU's used memory where nvidia-smi tells it."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.over, self.samples = server, threading.Event(), []

    def run(self):
        while not self.over.wait(0.5):
            used = kinds.gpu_facts().get("memory.used", "")
            try:
                self.samples.append((self.server.resident_bytes(), int(used) if used.isdigit() else 0))
            except Failure:
                return

    def growth(self):
        """(bytes on the host, MiB on the GPU), from a quarter of the samples to the last. REQUIRES: over is set."""
        self.join()
        if len(self.samples) < 4:
            raise Failure("the server's memory could not be sampled")
        early, last = self.samples[len(self.samples) // 4], self.samples[-1]
        return last[0] - early[0], last[1] - early[1]


def loaded(served):
    """`dunlin load` for half a minute: no failed call, and memory that stays flat."""
    gpu, check = served.server("cuda"), served.check
    seconds = 4 if check.options.rehearse else LOAD_SECONDS
    result = check.out / "served_load.json"
    memory = Memory(gpu)
    memory.start()
    try:
        run([gpu.binary, "load", "--address", gpu.grpc, "--model", "llama", "--concurrency", "32", "--duration",
             seconds, "--input-len", "64", "--output-len", "64", "--range-ratio", "0.5", "--mix", MIX, "--json", result,
             "--server-metrics", gpu.http, "--check", "failed<=0", "--check", "unfinished<=0", "--quiet"],
            check.environment, check.out / "served_load.log", check.seconds_left())
    finally:
        memory.over.set()
    told = json.loads(result.read_text())
    host, device = memory.growth()
    left = gpu.metric("dunlin_kv_pages_used", model_name="llama")
    if host > HOST_GROWTH or device > GPU_GROWTH_MIB or left:
        raise Failure(f"memory grew by {host >> 20} MiB on the host and {device} MiB on the GPU; {left:.0f} pages "
                      "stayed in use")
    return (f"{told['completed']} calls in {seconds} s, {told['output_throughput']:.0f} tokens/s, TTFT p50 "
            f"{told['p50_ttft_ms']:.1f} ms, ITL p50 {told['p50_itl_ms']:.2f} ms; memory +{max(host, 0) >> 20} MiB on "
            f"the host, +{device} MiB on the GPU")
