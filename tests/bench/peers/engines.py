# SPDX-License-Identifier: Apache-2.0
"""The measuring processes: one command for each engine, shape and setting. Standard library only."""

import dataclasses
import json
import pathlib

import attention_cases
import shapes

HERE = pathlib.Path(__file__).resolve().parent
PROMPT_TOKENS = 512
PROMPT_SEED = 7
BATCHES = (1, 8, 32)


def gguf_dtypes(shape):
    """Files of weights.py."""
    if shape in shapes.NARROW:
        return ("Q4_K_M",)
    return ("BF16", "Q4_K_M") if shape in shapes.BY_NAME else ("BF16", "F16", "F32", "Q8_0", "Q4_0", "Q4_K_M")


@dataclasses.dataclass(frozen=True)
class Job:
    engine: str
    part: str
    shape: str
    precision: str
    setting: str
    command: tuple
    metrics: tuple = ()  # what the process measures


@dataclasses.dataclass(frozen=True)
class Options:
    """Settings shared by all jobs of a run."""
    work: pathlib.Path
    python: pathlib.Path
    binary: pathlib.Path
    threads: int
    new_tokens: int
    seconds: float         # of calls per figure, after the least number of them
    decode_seconds: float  # of the steps of one batch
    batches: tuple = BATCHES

    def metrics(self):
        """The metrics of a process that measures a whole model."""
        return ("prefill", *(f"decode_b{batch}" for batch in self.batches))


def worker(options, name, job):
    return (str(options.python), str(HERE / f"{name}_worker.py"), json.dumps(job))


def prompt(shape):
    return shapes.prompt_tokens(shapes.CONFIGS[shape]["vocab_size"], PROMPT_TOKENS, PROMPT_SEED)


def model_job(options, shape, **more):
    return {"part": "model", "threads": options.threads, "seconds": options.seconds, "prompt": prompt(shape),
            "new_tokens": options.new_tokens, "decode_seconds": options.decode_seconds, "batches": options.batches,
            "directory": str(options.work / shape / "hf"), **more}


def torch_jobs(options, part, shape):
    if shape in shapes.NARROW:
        return
    precisions = ("fp32", "bf16")
    if part == "attention":
        for precision in precisions:
            job = {"part": part, "threads": options.threads, "seconds": options.seconds, "precision": precision,
                   "cases": attention_cases.CASES}
            yield Job("torch", part, "-", precision, "", worker(options, "torch", job),
                      tuple(case["name"] for case in attention_cases.CASES))
        return
    if part == "block":
        for precision in precisions:
            job = {"part": part, "threads": options.threads, "seconds": options.seconds, "precision": precision}
            yield Job("torch", part, shape, precision, "", worker(options, "torch", job), ("block",))
        return
    for precision in precisions:
        for setting in ("dynamic", "static", "compile"):
            job = model_job(options, shape, precision=precision, setting=setting)
            yield Job("torch", part, shape, precision, setting, worker(options, "torch", job), options.metrics())


def llama_cpp_jobs(options, part, shape):
    for dtype in gguf_dtypes(shape) if part == "model" else ():
        for flash in (True, False):
            job = model_job(options, shape, file=str(options.work / shape / f"{dtype}.gguf"), flash=flash)
            precision = {"F16": "fp16", "F32": "fp32"}.get(dtype, dtype.lower())
            yield Job("llama_cpp", part, shape, precision, "flash" if flash else "no flash",
                      worker(options, "llama_cpp", job), options.metrics())


def ctranslate2_jobs(options, part, shape):
    if part == "model" and shape not in shapes.NARROW:
        job = model_job(options, shape, ct2=str(options.work / shape / "ct2"), compute_type="float32")
        yield Job("ctranslate2", part, shape, "fp32", "", worker(options, "ctranslate2", job), options.metrics())


def onnxruntime_jobs(options, part, shape):
    if part == "model" and shape not in shapes.NARROW:
        job = model_job(options, shape, onnx=str(options.work / shape / "onnx"))
        yield Job("onnxruntime", part, shape, "fp32", "", worker(options, "onnxruntime", job), options.metrics())


PEERS = {"torch": torch_jobs, "llama_cpp": llama_cpp_jobs, "ctranslate2": ctranslate2_jobs,
         "onnxruntime": onnxruntime_jobs}
