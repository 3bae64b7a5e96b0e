# SPDX-License-Identifier: Apache-2.0
"""The PyTorch worker: scaled_dot_product_attention on the CPU, nanoGPT's block, and transformers models.

One job per process: a JSON object as the argument; results and turns as in worker.py.
Runs inside the peers' environment.
"""

import itertools
import json
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import worker

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
COLD_BYTES = 1 << 28
BACKENDS = {"math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION}


def attention(job):
    for case in job["cases"]:
        attention_case(job, case)


def attention_case(job, case):
    """A case of attention_cases.py, with every backend that it names."""
    dtype = DTYPES[job["precision"]]
    torch.manual_seed(1)
    grouped = case["heads"] != case["kv_heads"]

    def tensor(heads, tokens):
        return torch.randn(case["batch"], heads, tokens, case["dim"]).to(dtype)

    q, k, v = tensor(case["heads"], case["queries"]), *(tensor(case["kv_heads"], case["keys"]) for _ in range(2))
    # Decode reads keys and values from memory, as layers do: copies larger than the caches, in turn.
    copies = 1 + COLD_BYTES // (2 * k.nbytes) if case["kind"] == "decode" else 1
    layers = itertools.cycle([(k, v)] + [(k.clone(), v.clone()) for _ in range(copies - 1)])

    def run():
        keys, values = next(layers)
        return torch.nn.functional.scaled_dot_product_attention(q, keys, values, is_causal=case["causal"],
                                                                enable_gqa=grouped)

    for name in case["backends"]:
        try:
            with sdpa_kernel(BACKENDS[name]), torch.inference_mode():
                run()
                worker.turn()
                worker.say_time(case["name"], worker.timed(run, job["seconds"], 5 if name == "flash" else 3), setting=name)
        except RuntimeError as error:
            worker.say(metric=case["name"], setting=name, error=str(error).splitlines()[0])


class CausalSelfAttention(torch.nn.Module):
    """nanoGPT's block of attention: hidden 512, 8 heads. fused: scaled_dot_product_attention, else its operations."""

    def __init__(self, fused, hidden=512, heads=8):
        super().__init__()
        self.fused, self.heads = fused, heads
        self.qkv = torch.nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = torch.nn.Linear(hidden, hidden, bias=False)

    def forward(self, x):
        batch, tokens, hidden = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(hidden, dim=2))
        if self.fused:
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            seen = torch.ones(tokens, tokens, dtype=torch.bool).tril()
            scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
            y = scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, tokens, hidden))


def block(job):
    """32 sequences of 128 tokens, as `dunlin bench layer --case nanogpt`."""
    torch.manual_seed(1)
    x = torch.randn(32, 128, 512).to(DTYPES[job["precision"]])
    for fused in (True, False):
        module = CausalSelfAttention(fused).to(x.dtype).eval()
        for setting, forward in (("eager", module), ("compile", torch.compile(module, dynamic=False))):
            with torch.inference_mode():
                for _ in range(3):
                    forward(x)
                worker.turn()
                worker.say_time("block", worker.timed(lambda: forward(x), job["seconds"]),
                                setting=setting if fused else f"unfused {setting}")


class Decoder:
    """Greedy decoding of equal prompts: the first is computed, its keys and values are copied to the others.

    Settings: "dynamic", a cache that grows; "static", one of full length; "compile", the same through torch.compile.
    """

    def __init__(self, model, job):
        self.model, self.job = model, job
        self.static = job["setting"] != "dynamic"
        self.forward = torch.compile(model, dynamic=False) if job["setting"] == "compile" else model

    def cache(self):
        from transformers import DynamicCache, StaticCache

        if not self.static:
            return DynamicCache()
        return StaticCache(config=self.model.config, max_cache_len=len(self.job["prompt"]) + self.job["new_tokens"])

    def run(self, forward, tokens, cache, position):
        places = torch.arange(position, position + tokens.shape[1]).unsqueeze(0)
        out = forward(input_ids=tokens, past_key_values=cache, use_cache=True, position_ids=places, logits_to_keep=1)
        return out.logits[:, -1].argmax(-1, keepdim=True)

    def prefill(self):
        cache = self.cache()
        return self.run(self.model, torch.tensor([self.job["prompt"]]), cache, 0), cache

    def spread(self, cache, batch):
        if not self.static:
            cache.batch_repeat_interleave(batch)
            return cache
        wide, tokens = self.cache(), len(self.job["prompt"])
        for i, layer in enumerate(cache.layers):
            wide.update(*(t[:, :, :tokens].expand(batch, -1, -1, -1) for t in (layer.keys, layer.values)), i)
        return wide

    def decode(self, batch):
        """(seconds of each step, tokens of the first row)"""
        token, cache = self.prefill()
        cache, position = self.spread(cache, batch), len(self.job["prompt"])

        def step(last):
            nonlocal position
            start = time.perf_counter()
            row = self.run(self.forward, torch.full((batch, 1), last), cache, position)
            position += 1
            return time.perf_counter() - start, int(row[0])

        first = int(token[0])
        if self.job["setting"] == "compile":  # before the turn: compilation is not part of a step
            self.run(self.forward, torch.full((batch, 1), first), self.spread(self.prefill()[1], batch), position)
        worker.turn()
        return worker.decode(step, first, self.job)


def model(job):
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    start = time.perf_counter()
    loaded = AutoModelForCausalLM.from_pretrained(job["directory"], dtype=DTYPES[job["precision"]],
                                                  attn_implementation="sdpa").eval()
    worker.say(metric="load", value=time.perf_counter() - start, unit="s")
    decoder = Decoder(loaded, job)
    with torch.inference_mode():
        decoder.prefill()
        worker.turn()
        worker.say_rate("prefill", len(job["prompt"]), worker.timed(decoder.prefill, job["seconds"]))
        for batch in job["batches"]:
            times, row = decoder.decode(batch)
            worker.say_rate(f"decode_b{batch}", batch, times, tokens=row[:16])
    worker.say_memory()


def main():
    job = json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    {"attention": attention, "block": block, "model": model}[job["part"]](job)


if __name__ == "__main__":
    main()
