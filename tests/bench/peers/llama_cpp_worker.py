# SPDX-License-Identifier: Apache-2.0
"""The llama.cpp worker, through the low-level API of llama-cpp-python.

One job per process: a JSON object as the argument; results and turns as in worker.py. Only llama_decode is timed, not
sampling. Every sequence has its own KV buffer (kv_unified off): the prompt is computed once and copied to the other
sequences.
Runs inside the peers' environment.
"""

import ctypes
import json
import sys
import time

import llama_cpp
import numpy as np

import worker


class Context:
    """A context for `sequences` sequences of equal length, and one batch to fill."""

    def __init__(self, model, job, sequences):
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
        tokens = len(job["prompt"]) + job["new_tokens"]
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = sequences * (-(-tokens // 256) * 256)
        params.n_batch = params.n_ubatch = max(512, sequences)
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = job["threads"]
        params.flash_attn_type = int(job["flash"])
        params.kv_unified = False
        params.offload_kqv = False
        self.handle = llama_cpp.llama_init_from_model(model, params)
        if not self.handle:
            raise RuntimeError("llama_init_from_model failed")
        self.batch = llama_cpp.llama_batch_init(params.n_batch, 0, 1)
        self.memory = llama_cpp.llama_get_memory(self.handle)

    def close(self):
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.handle)

    def run(self, rows):
        """rows: (token, position, sequence, wants logits). Returns the seconds that llama_decode took."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, logits) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
            batch.seq_id[i][0], batch.logits[i] = sequence, logits
        start = time.perf_counter()
        code = llama_cpp.llama_decode(self.handle, batch)
        llama_cpp.llama_synchronize(self.handle)
        seconds = time.perf_counter() - start
        if code != 0:
            raise RuntimeError(f"llama_decode returned {code}")
        return seconds

    def best(self, row):
        logits = llama_cpp.llama_get_logits_ith(self.handle, row)
        return int(np.argmax(np.ctypeslib.as_array(logits, shape=(self.vocab_size,))))

    def prefill(self, prompt):
        llama_cpp.llama_memory_clear(self.memory, True)
        last = len(prompt) - 1
        return self.run([(token, i, 0, i == last) for i, token in enumerate(prompt)]), self.best(last)

    def copy_prompt(self, sequences):
        for i in range(1, sequences):
            llama_cpp.llama_memory_seq_cp(self.memory, 0, i, -1, -1)


def measure_decode(model, job, batch):
    context = Context(model, job, batch)
    _, first = context.prefill(job["prompt"])
    context.copy_prompt(batch)
    position = len(job["prompt"])

    def step(last):
        nonlocal position
        seconds = context.run([(last, position, i, True) for i in range(batch)])
        position += 1
        return seconds, context.best(0)

    worker.turn()
    times, row = worker.decode(step, first, job)
    worker.say_rate(f"decode_b{batch}", batch, times, tokens=row[:16])
    context.close()


def load(job):
    quiet = llama_cpp.llama_log_callback(lambda level, text, data: sys.stderr.buffer.write(text) if level >= 4 else None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    start = time.perf_counter()
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(job["file"].encode(), params)
    if not model:
        raise RuntimeError(f"cannot load {job['file']}")
    worker.say(metric="load", value=time.perf_counter() - start, unit="s")
    return model, quiet  # the callback must outlive the model


def main():
    job = json.loads(sys.argv[1])
    model, _quiet = load(job)
    context, prompt = Context(model, job, 1), job["prompt"]
    context.prefill(prompt)
    worker.turn()
    worker.say_rate("prefill", len(prompt), worker.timed(lambda: context.prefill(prompt), job["seconds"]))
    context.close()
    for batch in job["batches"]:
        measure_decode(model, job, batch)
    worker.say_memory()
    worker.say(metric="system", value=llama_cpp.llama_print_system_info().decode(), unit="")


if __name__ == "__main__":
    main()
