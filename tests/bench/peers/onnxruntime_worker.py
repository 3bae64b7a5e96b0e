# SPDX-License-Identifier: Apache-2.0
"""The onnxruntime worker. One job per process; results and turns as in worker.py.

Each step writes into caches that are bound as input and as output, so that nothing is copied. It writes the graph
itself, once, into the shape's onnx folder (onnx_graph.py). Runs inside the peers' environment.
"""

import json
import pathlib
import sys
import time

import numpy as np
import onnxruntime

import worker


class Caches:
    """Keys and values of `batch` sequences, and one step over them."""

    def __init__(self, session, batch, tokens):
        self.session, self.batch = session, batch
        self.values = {}
        for row in session.get_inputs():
            if row.name.startswith("past_"):
                shape = (batch, row.shape[1], tokens, row.shape[3])
                self.values[row.name] = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))

    def copy_from(self, other, tokens):
        for name, value in self.values.items():
            wide = np.zeros(value.shape(), np.float32)
            wide[:, :, :tokens] = other.values[name].numpy()[:, :, :tokens]
            self.values[name] = onnxruntime.OrtValue.ortvalue_from_numpy(wide)

    def step(self, tokens, position):
        """Logits [batch, vocab] after the new tokens [batch, n]."""
        count = tokens.shape[1]
        binding = self.session.io_binding()
        where = np.tile(np.arange(position, position + count, dtype=np.int64), (self.batch, 1))
        names = {row.name for row in self.session.get_inputs()}
        feeds = {"tokens": tokens, "positions": where, "last": np.array([count - 1]),
                 "seqlens_k": np.full(self.batch, position + count - 1, np.int32),
                 "total": np.array(position + count, np.int32)}
        for name, array in feeds.items():
            if name in names:  # rotary models do not use positions
                binding.bind_cpu_input(name, array)
        for name, value in self.values.items():
            binding.bind_ortvalue_input(name, value)
            binding.bind_ortvalue_output(name.replace("past", "present"), value)
        binding.bind_output("logits")
        self.session.run_with_iobinding(binding)
        return binding.get_outputs()[-1].numpy()[:, 0]


def open_session(job):
    target = pathlib.Path(job["onnx"])
    if not target.exists():
        import onnx_graph

        directory = pathlib.Path(job["directory"])
        onnx_graph.write(directory / "model.safetensors", json.loads((directory / "config.json").read_text()), target)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job["threads"]
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(target / "model.onnx"), options, providers=["CPUExecutionProvider"])


def measure_decode(session, one, first, job, batch):
    """`one` holds the prompt's keys and values."""
    position = len(job["prompt"])
    caches = Caches(session, batch, position + job["new_tokens"])
    caches.copy_from(one, position)

    def step(last):
        nonlocal position
        start = time.perf_counter()
        logits = caches.step(np.full((batch, 1), last, np.int64), position)
        position += 1
        return time.perf_counter() - start, int(logits[0].argmax())

    worker.turn()
    times, row = worker.decode(step, first, job)
    worker.say_rate(f"decode_b{batch}", batch, times, tokens=row[:16])


def main():
    job = json.loads(sys.argv[1])
    start = time.perf_counter()
    session = open_session(job)
    worker.say(metric="load", value=time.perf_counter() - start, unit="s")
    prompt = np.array([job["prompt"]], np.int64)
    one = Caches(session, 1, prompt.shape[1] + job["new_tokens"])
    first = int(one.step(prompt, 0)[0].argmax())
    worker.turn()
    worker.say_rate("prefill", prompt.shape[1], worker.timed(lambda: one.step(prompt, 0), job["seconds"]))
    for batch in job["batches"]:
        measure_decode(session, one, first, job, batch)
    worker.say_memory()


if __name__ == "__main__":
    main()
