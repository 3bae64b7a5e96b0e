"""The rows of gpu_check.sh: operations, attention, and the demo model served on the CPU and on the GPU."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
BACKENDS = ("math", "flash", "efficient")
PRECISIONS = ("bf16", "fp8", "fp16", "fp32")
PROMPTS = ("The people", "It was the best of times", "In the beginning", "There is no")
NEAR_TIE = 1e-3  # of log-probabilities: closer tokens may change places between devices
ROW_SECONDS = 120


class Failure(Exception):
    """A row's reason to fail."""


class Refusal(Failure):
    """What the device says it does not take."""


def run_test(folder, name, pattern, environment):
    """A GoogleTest program on the CUDA device; the numbers of tests that passed and were not taken."""
    program = folder / "tests" / name
    done = subprocess.run([program, f"--gtest_filter={pattern}"], env=environment, capture_output=True, text=True,
                          timeout=ROW_SECONDS, check=False)
    if done.returncode != 0:
        raise Failure("\n".join(line for line in done.stdout.splitlines() if "FAILED" in line or "Failure" in line)[-2000:]
                      or done.stderr[-2000:])
    passed = re.search(r"\[  PASSED  \] (\d+) test", done.stdout)
    skipped = re.search(r"\[  SKIPPED \] (\d+) test", done.stdout)
    return int(passed[1]) if passed else 0, int(skipped[1]) if skipped else 0, done.stdout


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """The demo model on a device, until the block ends."""

    def __init__(self, binary, device, module, cublas):
        self.binary = binary
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
            if line.startswith("READY"):
                return self
            if time.monotonic() > deadline:
                break
        self.process.kill()
        raise Failure("the server did not start: " + self.log[-1000:])

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.communicate(timeout=20)
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


def same_greedy_tokens(cpu, gpu):
    """Greedy tokens of both devices, each backend and precision, up to an answer's first difference: in FP32 that must be
    a near-tie; where products are rounded to 16 bits or less, answers may part earlier, and are counted."""
    compared, ties, refused = 0, 0, []
    for backend in BACKENDS:
        for precision in PRECISIONS:
            try:
                answers = [(cpu.generate(p, backend, precision, "--max-tokens", "32"),
                            gpu.generate(p, backend, precision, "--max-tokens", "32")) for p in PROMPTS]
            except Refusal:
                refused.append(f"{backend} {precision}")
                continue
            for prompt, (on_cpu, on_gpu) in zip(PROMPTS, answers):
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


def batch_invariant(gpu):
    """Answers alone and among 16 others, bit for bit."""
    jobs = [(f"{prompt} {i}", backend, precision) for i, prompt in enumerate(PROMPTS * 4)
            for backend, precision in (("flash", "bf16"), ("efficient", "fp16"), ("math", "bf16"))]
    alone = [fingerprint(gpu.generate(p, b, x, "--max-tokens", "16", "--cache-salt", "alone")) for p, b, x in jobs]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        crowd = list(pool.map(lambda job: fingerprint(gpu.generate(*job, "--max-tokens", "16", "--cache-salt", "crowd")),
                              jobs))
    different = sum(a != b for a, b in zip(alone, crowd))
    if different:
        raise Failure(f"{different} of {len(jobs)} answers changed beside others")
    return f"{len(jobs)} answers, the same bits alone and beside others"


def checked(name, work, table):
    start = time.monotonic()
    try:
        result, passed = work(), True
    except (Failure, subprocess.TimeoutExpired) as error:
        result, passed = str(error), False
    table.append((name, passed, time.monotonic() - start, result))


def model_rows(folder, module, cublas, table):
    binary = folder / "dunlin"
    try:
        with Server(binary, "cpu", None, None) as cpu, Server(binary, "cuda", module, cublas) as gpu:
            checked("greedy CPU = GPU", lambda: same_greedy_tokens(cpu, gpu), table)
            checked("batch invariance", lambda: batch_invariant(gpu), table)
    except Failure as error:
        table.append(("model", False, 0.0, str(error)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--cublas", default="")
    parser.add_argument("--module", type=pathlib.Path, help="another module than the folder's")
    parser.add_argument("--only-model", action="store_true", help="leave the operations out")
    options = parser.parse_args()
    module = options.module or options.folder / "libdunlin_cuda.so"
    environment = dict(os.environ, DUNLIN_TEST_CUDA_MODULE=str(module))
    if options.cublas:
        environment["DUNLIN_TEST_CUBLAS"] = options.cublas
    table = []
    if not options.only_model:
        passed, skipped, out = run_test(options.folder, "kernels_device_ops_test", "Cuda/*MemoryStarts*", environment)
        if skipped or not passed:
            reason = re.search(r"no device behind .*", out)
            print("skipped:", reason[0] if reason else "the tests were built without the CUDA module")
            return 77
        rows = (("operations", "kernels_device_ops_test", "Cuda/*"),
                ("attention, pages", "kernels_device_attention_test", "*Paged*/cuda_*"),
                ("attention, dense grid", "kernels_device_attention_test", "*Dense*/cuda"))
        for name, program, pattern in rows:
            def work(program=program, pattern=pattern):
                passed, skipped, _ = run_test(options.folder, program, pattern, environment)
                if passed == 0:
                    raise Failure("no test ran")
                return f"{passed} passed, {skipped} not taken by the device"
            checked(name, work, table)
    model_rows(options.folder, module, options.cublas, table)
    for name, passed, seconds, result in table:
        print(f"{name:24} {'pass' if passed else 'FAIL'} {seconds:6.1f} s  {result}")
    return 0 if all(row[1] for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
