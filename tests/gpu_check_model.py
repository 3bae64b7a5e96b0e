# SPDX-License-Identifier: Apache-2.0
"""The rows of gpu_check.py that serve the demo model on the CPU and on the device."""

import concurrent.futures
import json
import pathlib
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BACKENDS = ("math", "flash", "efficient")
PRECISIONS = ("bf16", "fp8", "fp16", "fp32")
PROMPTS = ("The people", "It was the best of times", "In the beginning", "There is no")
NEAR_TIE = 1e-3  # of log-probabilities: closer tokens may change places between devices


class Failure(Exception):
    """A row's reason to fail."""


class Refusal(Failure):
    """What the device says it does not take."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """The demo model on a device, until the block ends."""

    def __init__(self, binary, device, module, cublas, log):
        self.binary = binary
        self.log_file = log
        self.address = f"127.0.0.1:{free_port()}"
        self.log = ""
        arguments = [binary, "serve", "--config", ROOT / "configs/demo.json", "--set", f"listen.grpc={self.address}",
                     "--set", "listen.http=127.0.0.1:0", "--set", f"models.0.device={device}"]
        if device == "cuda":
            arguments += ["--set", f"compute.cuda_module={module}"]
            if cublas:
                arguments += ["--set", f"compute.cublas_library={cublas}"]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __enter__(self):
        deadline = time.monotonic() + 60
        for line in self.process.stdout:
            self.log += line
            self.log_file.write_text(self.log)
            if line.startswith("READY"):
                return self
            if time.monotonic() > deadline:
                break
        self.process.kill()
        raise Failure("the server did not start: " + self.log[-1000:])

    def __exit__(self, *_):
        self.process.terminate()
        try:
            rest, _ = self.process.communicate(timeout=20)
            self.log_file.write_text(self.log + rest)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def generate(self, prompt, backend, precision, *more):
        done = subprocess.run([self.binary, "generate", "--address", self.address, "--model", "demo", "--json",
                               "--logprobs", "2", "--ignore-eos", "--temperature", "0", "--attention-backend", backend,
                               "--precision", precision, *more, prompt], capture_output=True, text=True, timeout=60,
                              check=False)
        if done.returncode != 0:
            kind = Refusal if "FAILED_PRECONDITION" in done.stdout else Failure
            raise kind(f"{backend} {precision}: {done.stdout[:500]}")
        return json.loads(done.stdout)


def same_greedy_tokens(cpu, gpu, prompts):
    """Greedy tokens of both devices, each backend and precision, up to an answer's first difference: in FP32 that must be
    a near-tie; where products are rounded to 16 bits or less, answers may part earlier, and are counted."""
    compared, ties, refused = 0, 0, []
    for backend in BACKENDS:
        for precision in PRECISIONS:
            try:
                answers = [(cpu.generate(p, backend, precision, "--max-tokens", "32"),
                            gpu.generate(p, backend, precision, "--max-tokens", "32")) for p in prompts]
            except Refusal:
                refused.append(f"{backend} {precision}")
                continue
            for prompt, (on_cpu, on_gpu) in zip(prompts, answers):
                for a, b in zip(on_cpu["logprobs"], on_gpu["logprobs"]):
                    compared += 1
                    if a["token_id"] == b["token_id"]:
                        continue
                    first, second = (row["logprob"] for row in a["top"][:2])
                    if first - second > NEAR_TIE and precision == "fp32":
                        raise Failure(f"{backend} {precision} {prompt!r}: token {a['token_id']} on the CPU, "
                                      f"{b['token_id']} on the GPU, {first - second:.4f} apart")
                    ties += 1
                    break
    if compared == 0:
        raise Failure("every backend and precision was refused")
    return f"{compared} tokens equal up to {ties} answers that part; refused: {', '.join(refused) or 'none'}"


def fingerprint(answer):
    return json.dumps([answer["token_ids"], answer["logprobs"]])


def batch_invariant(gpu, prompts):
    """Answers alone and among 16 others, bit for bit."""
    jobs = [(f"{prompt} {i}", backend, precision) for i, prompt in enumerate(prompts * 4)
            for backend, precision in (("flash", "bf16"), ("efficient", "fp16"), ("math", "bf16"))]
    alone = [fingerprint(gpu.generate(p, b, x, "--max-tokens", "16", "--cache-salt", "alone")) for p, b, x in jobs]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        crowd = list(pool.map(lambda job: fingerprint(gpu.generate(*job, "--max-tokens", "16", "--cache-salt", "crowd")),
                              jobs))
    different = sum(a != b for a, b in zip(alone, crowd))
    if different:
        raise Failure(f"{different} of {len(jobs)} answers changed beside others")
    return f"{len(jobs)} answers, the same bits alone and beside others"
