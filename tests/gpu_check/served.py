# SPDX-License-Identifier: Apache-2.0
"""The rows that serve the demo model and the Llama-1B shape through gRPC: tokens as on the CPU, log-probabilities as
PyTorch's, the same bits among neighbours, cancelled and late calls, half a minute of load. Standard library only.

The servers start with the first row that asks for them, and end with the last of these rows.
"""

import concurrent.futures
import json
import pathlib
import shutil
import tempfile

import rows
import served_load
from check import ROOT
from peer import Broken, Missing
from processes import Failure, Note
from server import Refusal, Server

BACKENDS = ("math", "flash", "efficient")
PRECISIONS = ("bf16", "fp8", "fp16", "fp32")
TEXTS = ("The people", "It was the best of times", "In the beginning", "There is no")
NEAR_TIE = 1e-3  # of log-probabilities: closer tokens may change places between devices
# Root mean square of the differences between our log-probabilities and PyTorch's in FP32. Random weights are the worst
# case: docs/precision.md has 0.1 %, 1.4 % and 31 % of the logits' size, which is about 1.
LOGPROB_RMS = {"fp32": 2e-3, "fp16": 1e-2, "bf16": 6e-2, "fp8": 6e-1}
CHECKPOINT_BYTES = 3 << 30
CPU_BYTES = 16 << 30  # Llama-1B in four precisions
NEIGHBOURS = 32


def config_json(shape):
    """The config.json of a Llama shape of rows.py."""
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": shape["layers"],
            "hidden_size": shape["hidden"], "intermediate_size": shape["ffn"], "num_attention_heads": shape["heads"],
            "num_key_value_heads": shape["kv_heads"], "head_dim": shape["dim"], "vocab_size": shape["vocab"],
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
            "rope_theta": 500000.0, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2,
            "torch_dtype": "bfloat16"}


def token_ids(vocab, count, seed):
    """A linear congruential sequence: the same prompt everywhere."""
    tokens, state = [], seed * 2654435761 % 2**32 or 1
    for _ in range(count):
        state = (1664525 * state + 1013904223) % 2**32
        tokens.append((state >> 8) % (vocab - 4) + 3)
    return tokens


class Served:
    """The servers of a run, and the Llama checkpoint that PyTorch wrote for them, if it could."""

    def __init__(self, check):
        self.check = check
        self.shape = rows.SMALL if check.options.rehearse else rows.LLAMA_1B
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="dunlin-gpu-check-"))
        self.servers, self.failures = {}, {}
        self.checkpoint = None  # whether PyTorch wrote one; None: not tried yet

    def close(self):
        for server in self.servers.values():
            server.close()
        self.servers = {}
        shutil.rmtree(self.scratch, ignore_errors=True)

    def llama(self):
        """The model's part of the config: a checkpoint, so that PyTorch can read the same weights, else random ones."""
        file = self.scratch / "config.json"
        if self.checkpoint is None:
            file.write_text(json.dumps(config_json(self.shape)))
            self.checkpoint = False
            room = self.check.options.rehearse or shutil.disk_usage(self.scratch).free > CHECKPOINT_BYTES
            try:
                if room:
                    job = {"job": "checkpoint", "directory": str(self.scratch), "shape": self.shape}
                    list(self.check.peer.ask(job, self.check.seconds_left() / 2))
                    self.checkpoint = True
            except (Missing, Broken):
                pass
        if self.checkpoint:
            return {"path": str(self.scratch)}
        return {"weights": "random", "shape": str(file), "seed": 1}

    def config(self, device):
        check = self.check
        shared = {"device": device, "precisions": list(PRECISIONS), "max_context_tokens": 0}
        models = [{"name": "demo", "path": str(ROOT / "models/demo"), **shared, "kv_cache": {"memory_bytes": 1 << 28}},
                  {"name": "llama", **self.llama(), **shared, "max_context_tokens": 2048,
                   "kv_cache": {"memory_bytes": 1 << (26 if check.options.rehearse else 31)}}]
        compute = {"cuda_module": str(check.module)}
        if check.cublas:
            compute["cublas_library"] = check.cublas
        return {"listen": {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"}, "models": models, "compute": compute}

    def server(self, device):
        """Started once; the failure to start is every later row's failure too."""
        if device in self.failures:
            raise Failure(self.failures[device])
        if device not in self.servers:
            try:
                self.servers[device] = Server(self.check, f"server_{device}", self.config(device),
                                              self.check.seconds_left())
            except Failure as error:
                self.failures[device] = str(error)
                raise
        return self.servers[device]

    def prompts(self, count):
        """[(model, prompt)]"""
        vocab = self.shape["vocab"]
        return [*(("demo", text) for text in TEXTS[:count]),
                *(("llama", token_ids(vocab, 48, i + 1)) for i in range(count))]


def profiles():
    return [(backend, precision) for backend in BACKENDS for precision in PRECISIONS]


def memory_available():
    for line in open("/proc/meminfo", encoding="ascii"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def same_tokens(served):
    """Greedy tokens of both devices, each model, backend and precision, up to an answer's first difference: in FP32
    that must be a near-tie; where products are rounded to 16 bits or less, answers may part earlier, and are
    counted."""
    if not served.check.options.rehearse and memory_available() < CPU_BYTES:
        raise Note(f"the CPU's server needs {CPU_BYTES >> 30} GiB of memory")
    gpu, cpu = served.server("cuda"), served.server("cpu")
    counts, refused = {"equal": 0, "parted": 0}, []
    for backend, precision in profiles():
        for model, prompt in served.prompts(1 if served.check.options.rehearse else 2):
            options = ("--max-tokens", "16" if model == "llama" else "32", "--logprobs", "2")
            try:
                ours = gpu.generate(model, prompt, backend, precision, *options)
            except Refusal:
                refused.append(f"{model} {backend} {precision}")
                continue
            theirs = cpu.generate(model, prompt, backend, precision, *options)
            count_equal(f"{model} {backend} {precision} {prompt!r:.40}", precision, theirs, ours, counts)
    if counts["equal"] == 0:
        raise Failure("no token was equal")
    return (f"{counts['equal']} tokens equal to the CPU's, up to {counts['parted']} answers that part; refused: "
            f"{', '.join(refused) or 'none'}")


def count_equal(what, precision, cpu, gpu, counts):
    for a, b in zip(cpu["logprobs"], gpu["logprobs"]):
        if a["token_id"] != b["token_id"]:
            first, second = (row["logprob"] for row in a["top"][:2])
            if first - second > NEAR_TIE and precision == "fp32":
                raise Failure(f"{what}: token {a['token_id']} on the CPU, {b['token_id']} on the GPU, the first two "
                              f"are {first - second:.4f} apart")
            counts["parted"] += 1
            return
        counts["equal"] += 1


def same_logits(served):
    """Log-probabilities of the likeliest four tokens at each position of our answers, against PyTorch's in FP32 over
    the same weights and tokens."""
    gpu = served.server("cuda")
    models = {"demo": str(ROOT / "models/demo"), "llama": str(served.scratch) if served.checkpoint else None}
    worst = {}
    for model, directory in models.items():
        if directory is None:
            continue
        for precision in PRECISIONS:
            answers = []
            for backend in BACKENDS:
                for seed in (1, 2):
                    prompt = token_ids(served.shape["vocab"] if model == "llama" else 4096, 32, seed)
                    try:
                        answers.append((prompt, gpu.generate(model, prompt, backend, precision, "--max-tokens", "16",
                                                             "--logprobs", "4")))
                    except Refusal:
                        pass
            if answers:
                worst[f"{model} {precision}"] = rms_to_peer(served, directory, answers)
    for name, rms in worst.items():
        limit = LOGPROB_RMS[name.split()[1]]
        if not rms <= limit:
            raise Failure(f"{name}: log-probabilities differ from PyTorch's by {rms:.4f} RMS, limit {limit}")
    missing = "" if served.checkpoint else "; no Llama checkpoint could be written"
    return "RMS to PyTorch's FP32: " + ", ".join(f"{name} {rms:.2g}" for name, rms in worst.items()) + missing


def rms_to_peer(served, directory, answers):
    sequences = [{"tokens": prompt + answer["token_ids"], "first": len(prompt),
                  "asked": [[top["token_id"] for top in place["top"]] for place in answer["logprobs"]]}
                 for prompt, answer in answers]
    try:
        replies = list(served.check.peer.ask({"job": "logits", "directory": directory, "sequences": sequences},
                                             served.check.seconds_left()))
    except Missing as error:
        raise Note(f"no PyTorch: {error}") from error
    except Broken as error:
        raise Failure(f"PyTorch: {error}") from error
    squares = [(top["logprob"] - theirs) ** 2
               for (_, answer), reply in zip(answers, replies)
               for place, values in zip(answer["logprobs"], reply["logprobs"])
               for top, theirs in zip(place["top"], values)]
    return (sum(squares) / len(squares)) ** 0.5


def fingerprint(answer):
    return json.dumps([answer["token_ids"], answer["logprobs"]])


def same_among_neighbours(served):
    """Answers alone and among 31 others, bit for bit."""
    gpu, total = served.server("cuda"), 0
    for model, backend, precision in (("demo", "flash", "bf16"), ("demo", "efficient", "fp16"), ("demo", "math", "fp8"),
                                      ("llama", "flash", "bf16"), ("llama", "efficient", "fp8")):
        prompts = [token_ids(served.shape["vocab"] if model == "llama" else 4096, 8 + 3 * i, i + 1)
                   for i in range(NEIGHBOURS)]

        def one(prompt, salt):
            return fingerprint(gpu.generate(model, prompt, backend, precision, "--max-tokens", "16", "--logprobs", "2",
                                            "--cache-salt", salt))

        alone = {i: one(prompts[i], "alone") for i in range(0, NEIGHBOURS, 4)}
        with concurrent.futures.ThreadPoolExecutor(NEIGHBOURS) as pool:
            crowd = list(pool.map(lambda prompt: one(prompt, "crowd"), prompts))
        different = [i for i, answer in alone.items() if answer != crowd[i]]
        if different:
            raise Failure(f"{model} {backend} {precision}: {len(different)} of {len(alone)} answers changed among "
                          f"{NEIGHBOURS - 1} neighbours")
        total += len(alone)
    return f"{total} answers, the same bits alone and among {NEIGHBOURS - 1} neighbours"


WORKS = {"served_tokens": same_tokens, "served_logits": same_logits, "served_invariance": same_among_neighbours,
         "served_cancel": served_load.cancelled_and_late, "served_load": served_load.loaded}


def run(check, row):
    if row.gib and 0 < check.gpu_gib < row.gib:
        raise Note(f"not run: needs {row.gib} GiB of GPU memory, there are {check.gpu_gib:.0f}")
    if check.served is None:
        check.served = Served(check)
    return WORKS[row.name](check.served)
